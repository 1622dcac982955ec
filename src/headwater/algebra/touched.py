"""What a change of stored rows does to what a top shows, found by the keys that it touches.

Where `keying` gives columns, the top over all stored rows is a sum over their values. So only the
rows with a value that the change has too can make a difference: the top over these, before and
after, tells which shown rows go and which come. Rows may be of any kind, in memory or on Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from headwater.algebra.expressions import ColumnRef, Literal
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.tops import PART, Top, evaluate_top
from headwater.algebra.typing_rules import call
from headwater.algebra.values import INT

Keying: TypeAlias = Mapping[int | None, tuple[str, ...]]
"""For each part, None where there is only one, the stored columns that are its key."""


def shown_change(
    top: Top, by: Keying, stored: Rows, change: Rows, settle: Callable[[Rows], Rows] = lambda r: r
) -> Rows:
    """The signed rows by which what is shown changes, when `change` is added to what is stored.

    `settle` is given the touched rows, which are used twice.
    """
    before = settle(touched(stored, change, by))
    after = before + change
    return evaluate_top(top, after) - evaluate_top(top, before)


def touched(stored: Rows, change: Rows, by: Keying) -> Rows:
    """The stored rows with a key that some row of the change has."""
    keys = _keys(change, by)
    names = keys.schema.names
    found = [_of_part(stored, number).restricted(keys, by[number], names) for number in by]
    return Rows.sum(stored.schema, found)


def _keys(change: Rows, by: Keying) -> Rows:
    """The keys of a change; signs are left out, since rows that come and go must not cancel."""
    columns = next(iter(by.values()))
    types = change.schema.only(columns).types
    schema = Schema.of((f"k{at}", kind) for at, kind in enumerate(types))
    parts = []
    for number, names in by.items():
        outputs = [ColumnRef(name, kind) for name, kind in zip(names, types, strict=True)]
        rows = _of_part(change, number)
        parts += [signed.project(schema, outputs) for signed in (rows.positive(), -rows.negative())]
    return Rows.sum(schema, parts)


def _of_part(rows: Rows, number: int | None) -> Rows:
    if number is None:
        return rows
    return rows.select(call("=", ColumnRef(PART, INT), Literal(number, INT)))
