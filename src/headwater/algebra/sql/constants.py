"""Rows that a query itself names: VALUES, and RANGE in FROM."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from headwater.algebra.expressions import Literal
from headwater.algebra.schema import Schema
from headwater.algebra.sql.expressions import Translator
from headwater.algebra.sql.text import RefusalError
from headwater.algebra.tops import Constant
from headwater.algebra.typing_rules import cast, common_type
from headwater.algebra.values import INT, VOID, Value

MOST = 10_000
"""So many rows at most: they are a part of the view's definition."""


def is_range(node: Any) -> bool:
    """Whether an item of FROM is a call of RANGE."""
    called = node.this if isinstance(node, exp.Table) else None
    return isinstance(called, exp.Anonymous) and called.name.upper() == "RANGE"


def read_range(node: exp.Table, t: Translator) -> Constant:
    """RANGE(end) or RANGE(start, end, step): whole numbers without the end, as `id`."""
    given = [_constant(part, t) for part in node.this.expressions]
    numbers = [one.value for one in given if isinstance(one.value, int) and one.type == INT]
    if len(numbers) != len(given) or not 1 <= len(numbers) <= 3:
        raise RefusalError("RANGE takes up to three whole numbers.", "Write RANGE(1, 11).")
    if len(numbers) == 3 and not numbers[2]:
        raise RefusalError("RANGE needs a step that is not 0.", "Write RANGE(1, 11, 2).")
    found = range(*numbers)
    _check_number(len(found))
    return Constant(tuple((number,) for number in found), Schema.of([("id", INT)]))


def read_values(node: exp.Values, t: Translator) -> Constant:
    """VALUES: rows of constants, whose columns are brought to one type each."""
    rows = [
        [_constant(part, t) for part in (row.expressions if isinstance(row, exp.Tuple) else [row])]
        for row in node.expressions
    ]
    _check_number(len(rows))
    if len({len(row) for row in rows}) != 1:
        raise RefusalError("the rows of VALUES differ in length.", "Write as many values in each.")
    kinds = [common_type([one.type for one in column]) for column in zip(*rows, strict=True)]
    if VOID in kinds:
        raise RefusalError("a column of VALUES is always NULL.", "Write CAST(NULL AS type).")
    values: list[tuple[Value, ...]] = []
    for row in rows:
        brought = [cast(one, kind) for one, kind in zip(row, kinds, strict=True)]
        values.append(tuple(_constant_value(one) for one in brought))
    schema = Schema.of((f"col{at}", kind) for at, kind in enumerate(kinds, 1))
    return Constant(tuple(values), schema)


def _constant(node: exp.Expr, t: Translator) -> Literal:
    found = t.expression(node)
    if not isinstance(found, Literal):
        raise RefusalError(f"{node.sql('spark')} is not a constant.", "Write constants.")
    return found


def _constant_value(expression: Any) -> Value:
    if isinstance(expression, Literal):
        return expression.value
    (inner,) = expression.arguments  # a cast of a whole number, which is one of the other type too
    assert isinstance(inner, Literal)
    return inner.value


def _check_number(number: int) -> None:
    if number > MOST:
        raise RefusalError(f"there are {number} constant rows.", f"At most {MOST} can be named.")
