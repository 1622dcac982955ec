"""ORDER BY, LIMIT and OFFSET. An order without LIMIT means nothing in a table, and is left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from headwater.algebra.expressions import ColumnRef, Expression, Literal
from headwater.algebra.order import Order
from headwater.algebra.schema import Schema
from headwater.algebra.sql.expressions import other_value
from headwater.algebra.sql.plans import Plan, extended, only, refs, select, top_of
from headwater.algebra.sql.text import SqlText, means
from headwater.algebra.tops import First, Windowed
from headwater.algebra.typing_rules import call
from headwater.algebra.values import INT
from headwater.algebra.windows import WindowFunction

if TYPE_CHECKING:
    from headwater.algebra.sql.query import Reading


def limited(
    reading: Reading,
    node: exp.Expr,
    text: SqlText,
    translate: Callable[[exp.Expr], Expression] | None = None,
) -> Reading:
    """The query with its LIMIT; `translate` reads what names no column of it."""
    limit, offset = row_count(node, "limit", text), row_count(node, "offset", text) or 0
    keys = [
        key
        for part in (node.args.get("order") or exp.Order()).expressions
        for key in (
            [(column, part) for column in _all_columns(reading, part, text)]
            if is_all(part.this)
            else [_key(part, reading, text, translate)]
        )
    ]
    if limit is None and not offset:
        return reading
    for key, part in keys:
        _check_order(key, part, reading, text)
    if reading.correlated:
        raise text.error(
            node,
            "LIMIT inside a subquery that names a column from outside is not supported.",
            "Use MIN, MAX or a window function.",
        )
    names = reading.plan.schema.names
    added = {
        f"#order {at}": key for at, (key, _) in enumerate(keys) if not isinstance(key, ColumnRef)
    }
    plan: Plan = extended(reading.plan, added)
    order = tuple(
        Order(
            key.name if isinstance(key, ColumnRef) else f"#order {at}",
            bool(part.args.get("desc")),
            not part.args.get("nulls_first"),
        )
        for at, (key, part) in enumerate(keys)
    )
    if reading.given:
        return replace(
            reading, plan=only(_first_of_each(plan, reading.given, order, limit, offset), names)
        )
    first = First(top_of(plan), order, limit, offset)
    return replace(reading, plan=only(first, names), nothing=None)


def _check_order(key: Expression, part: exp.Ordered, reading: Reading, text: SqlText) -> None:
    """UnsupportedViewError if texts would be sorted for what they are at their source."""
    columns = refs(reading.schema)
    for column, name, printed in zip(columns, reading.names, reading.printed, strict=False):
        if printed and column == key:
            error = other_value(name, printed, "ORDER BY")
            raise text.error(part.this, str(error), error.hint)


def is_all(node: exp.Expr | None) -> bool:
    """Whether it is the word ALL: all rows for LIMIT, and all columns for ORDER BY."""
    return isinstance(node, exp.Var) and node.name.upper() == "ALL"


def _all_columns(reading: Reading, part: exp.Expr, text: SqlText) -> tuple[ColumnRef, ...]:
    if any(name.lower() == "all" for name in reading.names):
        hint = "Write the numbers of the columns: ORDER BY 1, 2."
        raise text.error(part, "ORDER BY ALL may mean a column all, or all columns.", hint)
    return refs(reading.schema)


def _first_of_each(
    plan: Plan, by: tuple[str, ...], order: tuple[Order, ...], limit: int | None, offset: int
) -> Plan:
    """The first rows among those with equal values in some columns."""
    number = WindowFunction("row_number", (), INT, by, order)
    ref = ColumnRef("#number", INT)
    numbered = Windowed(top_of(plan), (number,), plan.schema + Schema.of([(ref.name, INT)]))
    conditions = [call(">", ref, Literal(offset, INT))] if offset else []
    if limit is not None:
        conditions.append(call("<=", ref, Literal(offset + limit, INT)))
    return select(numbered, conditions)


def _key(
    part: exp.Ordered,
    reading: Reading,
    text: SqlText,
    translate: Callable[[exp.Expr], Expression] | None,
) -> tuple[Expression, exp.Ordered]:
    node = part.this
    columns = refs(reading.schema)
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal():
        if not 1 <= int(node.name) <= len(columns):
            raise text.error(
                node, f"there is no column {node.name} to order by.", f"There are {len(columns)}."
            )
        return columns[int(node.name) - 1], part
    if isinstance(node, exp.Column) and not node.args.get("table"):
        wanted = text.name(node)
        alike = [c for c, name in zip(columns, reading.names, strict=True) if means(wanted, name)]
        if len(alike) == 1:
            return alike[0], part
    if translate is None:
        raise text.error(
            node,
            "ORDER BY names no column of the query.",
            f"Columns: {', '.join(reading.names)}.",
        )
    return translate(node), part


def row_count(node: exp.Expr, part: str, text: SqlText) -> int | None:
    """The number of rows that LIMIT, FETCH or OFFSET names."""
    clause = node.args.get(part)
    if clause is None:
        return None
    number = clause.args.get("count") if isinstance(clause, exp.Fetch) else clause.expression
    if is_all(number):
        return None
    options = clause.args.get("limit_options") or exp.LimitOptions()
    if options.args.get("with_ties"):
        raise text.error(
            clause,
            "WITH TIES is not supported.",
            "Write QUALIFY RANK() OVER (ORDER BY ...) <= 10 in its place.",
        )
    if options.args.get("percent"):
        raise text.error(
            clause,
            "PERCENT of rows is not supported.",
            "Write QUALIFY PERCENT_RANK() OVER (ORDER BY ...) <= 0.1 in its place.",
        )
    if not isinstance(number, exp.Literal) or not number.name.isdecimal():
        raise text.error(
            clause, f"{part.upper()} needs a whole number.", f"Write {part.upper()} 10."
        )
    return int(number.name)
