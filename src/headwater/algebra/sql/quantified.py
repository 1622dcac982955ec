"""Comparisons with ANY and ALL rows of a subquery, which IN and NOT IN are two of.

One with ALL is the opposite of the opposite one with ANY. Where it is not about equal values, it
needs no row of the subquery, only its least and its greatest value, and how many rows and how many
values it has, which tells when the comparison is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from headwater.algebra.aggregates import aggregate
from headwater.algebra.expressions import Expression, Literal
from headwater.algebra.sql.expressions import check_values, other_value
from headwater.algebra.sql.plans import (
    equal_sides,
    extended,
    grouped,
    join,
    only,
    refs,
    select,
)
from headwater.algebra.sql.text import RefusalError
from headwater.algebra.typing_rules import call
from headwater.algebra.values import BOOL, INT, VOID

if TYPE_CHECKING:
    from headwater.algebra.sql.subqueries import RowsInReach

_OPERATORS: dict[type, str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def is_quantified(node: Any) -> bool:
    """Whether it is a comparison with ANY or ALL of the rows of a subquery."""
    if type(node) not in _OPERATORS or not isinstance(node.expression, exp.Any | exp.All):
        return False
    return isinstance(node.expression.this.unnest(), exp.Query)


def as_member(node: Any) -> tuple[exp.In, bool] | None:
    """`= ANY` as IN, and `<> ALL` as its opposite; None for all others."""
    if not is_quantified(node):
        return None
    operator, is_all = _with_any(node)
    return (exp.In(this=node.this, query=node.expression.this), is_all) if operator == "=" else None


def compared(rows: RowsInReach, node: exp.Binary) -> Expression:
    """What such a comparison means for each row."""
    operator, is_all = _with_any(node)
    member = as_member(node)
    found = rows.member(member[0]) if member else _with_some(rows, operator, node)
    return call("not", found) if is_all else found


def _with_any(node: exp.Binary) -> tuple[str, bool]:
    """The operator with ANY, and whether the opposite of that is meant."""
    is_all = isinstance(node.expression, exp.All)
    operator = _OPERATORS[type(node)]
    return _OPPOSITE[operator] if is_all else operator, is_all


def _with_some(rows: RowsInReach, operator: str, node: exp.Binary) -> Expression:
    if isinstance(node.this.unnest(), exp.Tuple):
        raise RefusalError(
            "rows are compared with ANY and ALL of a subquery by = ANY and <> ALL only.",
            "Compare one column, or write EXISTS.",
        )
    written = _OPERATORS[type(node)]
    if operator != "<>":
        check_values(rows.translator(), written, node.this)
    tested = rows.translator().expression(node.this)
    least, greatest, number, values = _summary(rows, node.expression.this)
    if operator != "<>" and any(rows.inner.printed):
        raise other_value(rows.inner.names[0], rows.inner.printed[0], written)
    if tested.type.is_nested or least.type.is_nested:
        raise RefusalError(f"values of type {tested.type} have no order.", "Compare a field.")
    ends = {"<": (greatest,), "<=": (greatest,), "<>": (least, greatest)}
    tests = [call(operator, tested, end) for end in ends.get(operator, (least,))]
    found = tests[0] if len(tests) == 1 else call("or", *tests)
    none = call("=", number, Literal(0, INT))
    is_unknown = call("or", call("is null", tested), call(">", number, values))
    no, yes, unknown = Literal(False, BOOL), Literal(True, BOOL), Literal(None, VOID)
    return call("case", none, no, found, yes, is_unknown, unknown, no)


def _summary(rows: RowsInReach, query: exp.Expr) -> tuple[Expression, ...]:
    """Columns with the least and the greatest value of a subquery, its rows and its values."""
    inner, conjuncts = rows.inner_rows(query, by_equalities=True)
    if (width := len(rows.inner.names)) != 1:
        message = f"one value is compared with {width} columns."
        raise rows.text.error(query, message, "Select one column.")
    here, there = frozenset(rows.plan.schema.names), frozenset(inner.schema.names)
    pairs = [equal_sides(conjunct, here, there) for conjunct in conjuncts]
    sides = [pair for pair in pairs if pair is not None]
    assert len(sides) == len(conjuncts)
    present = [call("not", call("is null", b)) for _, b, safe in sides if not safe]
    keys = {rows.new_name(): b for _, b, _ in sides}
    value = refs(inner.schema)[0]
    of_value = (aggregate(name, value) for name in ("min", "max"))
    numbers = (aggregate("count(*)"), aggregate("count", value))
    aggregates = {rows.new_name(): each for each in (*of_value, *numbers)}
    plan = only(extended(select(inner, present), keys), (*keys, value.name))
    values = grouped(plan, tuple(keys), aggregates, always=not keys)
    found = refs(values.schema, aggregates)
    if keys:
        nothing = (*[Literal(None, value.type)] * 2, *[Literal(0, INT)] * 2)
        rows.look_up(values, found, [a for a, _, _ in sides], nothing)
    else:
        rows.plan = join(rows.plan, values)
    return found
