"""Reads of Arrow's tables and datasets: filtered there as far as that finds enough, exact later.

A question is linear in each relation, so rows that came or went since are read with the same
filter, with their counts, and added.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import Any

import pyarrow
import pyarrow.compute as pc
import pyarrow.dataset

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import Type, Value
from headwater.frames.arrow import COUNT, arrow_type, arrow_value
from headwater.frames.canonical import canonical_table
from headwater.frames.columns import FEW, Columns
from headwater.sources.fetch import Fetch, Keys
from headwater.sources.stepwise.contract import Contents

_COMPARED = frozenset({"bool", "int", "decimal", "text", "bytes", "date", "timestamp"})
_OPERATORS = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def pushes(operator: str, kind: Type) -> bool:
    """Whether Arrow compares such values as Headwater does; joins are left to Headwater."""
    return kind.name in _COMPARED or (kind.name == "timestamp_tz" and operator == "=")


def apart(relation: str, column: str) -> bool:
    """No two columns are compared where the rows are: each relation is read by itself."""
    return True


def fetched(contents: Contents, fetch: Fetch) -> Rows:
    """What a statement over one relation finds."""
    names = [ref.column for ref in fetch.columns]
    condition = _condition(fetch)
    parts: list[Rows] = []
    for table in contents.plain:
        found = _scan(table, names, condition, fetch.schema)
        parts.append(Columns.of_plain(fetch.schema, found))
    for table in contents.signed:
        found = _scan(table, [*names, COUNT], condition, fetch.schema)
        parts.append(Columns(fetch.schema, found))
    rows = Rows.sum(fetch.schema, parts)
    return rows if rows.size_hint > FEW else Rows(fetch.schema, dict(rows.items()))


def whole(contents: Contents, schema: Any, names: list[str]) -> Rows:
    """All rows of a relation."""
    parts: list[Rows] = [
        Columns.of_plain(schema, _scan(table, names, None, schema)) for table in contents.plain
    ]
    parts += [
        Columns(schema, _scan(table, [*names, COUNT], None, schema)) for table in contents.signed
    ]
    return Rows.sum(schema, parts)


def _scan(
    table: Any, names: list[str], condition: pc.Expression | None, schema: Schema
) -> pyarrow.Table:
    """In canonical form; what is kept as a table of Arrow is so already."""
    if isinstance(table, pyarrow.Table):
        found = table if condition is None else table.filter(condition)
        return found.select(names)
    return canonical_table(table.to_table(columns=names, filter=condition), schema)


def _condition(fetch: Fetch) -> pc.Expression | None:
    parts = [
        _OPERATORS[operator](pc.field(ref.column), _scalar(value, ref.type))
        for ref, operator, value in fetch.filters
    ]
    parts += [part for keys in fetch.keys for part in _among(keys)]
    return reduce(and_, parts) if parts else None


def _among(keys: Keys) -> list[pc.Expression]:
    """Each column by itself, which finds more than all together."""
    return [
        pc.field(ref.column).isin(
            pyarrow.array(list({row[at] for row in keys.values}), arrow_type(ref.type))
        )
        for at, ref in enumerate(keys.columns)
    ]


def _scalar(value: Value, kind: Type) -> pyarrow.Scalar:
    return pyarrow.scalar(arrow_value(value, kind), arrow_type(kind))
