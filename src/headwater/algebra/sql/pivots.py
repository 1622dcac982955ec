"""PIVOT with a list of constants: groups by all other columns, with an aggregate for each constant.

As in Spark, what a group has no rows for is NULL, also a count, as long as all aggregates are
numbers or bools; else each aggregate says what it is of no rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from headwater.algebra.aggregates import Aggregate, aggregate
from headwater.algebra.expressions import ColumnRef, Expression, Literal, columns_of
from headwater.algebra.schema import Schema
from headwater.algebra.sql.aggregates import is_aggregate, read_aggregate
from headwater.algebra.sql.expressions import Translator
from headwater.algebra.sql.grouping import Groups
from headwater.algebra.sql.names import Scope
from headwater.algebra.sql.plans import Plan, project
from headwater.algebra.sql.query import Reading
from headwater.algebra.sql.text import RefusalError, SqlText
from headwater.algebra.typing_rules import call
from headwater.algebra.values import BOOL, INT, VOID

_HINT = "Write PIVOT (SUM(x) AS s FOR kind IN ('a' AS a, 'b' AS b))."
Cell = tuple[str, Expression]
"""A name, and when a row counts for it."""


def pivoted(pivot: exp.Pivot, rows: Plan, scope: Scope, text: SqlText) -> Reading:
    """The rows of FROM with a PIVOT behind them."""
    t = Translator(text, scope)
    try:
        if pivot.args.get("unpivot"):
            raise RefusalError("UNPIVOT is not supported.", "Write UNION ALL of a SELECT for each.")
        cells = list(_cells(pivot, t))
        found = list(_aggregates(pivot, t))
        return _grouped(cells, found, rows, scope, t)
    except ValueError as error:
        place = text.before(pivot, "UNPIVOT" if pivot.args.get("unpivot") else "PIVOT")
        message = str(error) if isinstance(error, RefusalError) else f"{error}."
        raise text.error_at(place, message, getattr(error, "hint", _HINT)) from None


def _cells(pivot: exp.Pivot, t: Translator) -> Iterator[Cell]:
    fields: list[exp.Expr] = pivot.args.get("fields") or []
    if len(fields) != 1 or not isinstance(fields[0], exp.In) or not fields[0].expressions:
        raise RefusalError("PIVOT needs one list of constants.", _HINT)
    columns = [t.expression(part) for part in _parts(fields[0].this)]
    for each in fields[0].expressions:
        named = isinstance(each, exp.PivotAlias)
        node = each.this if named else each
        values = [t.expression(part) for part in _parts(node)]
        if len(values) != len(columns) or not all(isinstance(v, Literal) for v in values):
            raise RefusalError("PIVOT compares its columns with constants.", _HINT)
        same = [call("<=>", a, b) for a, b in zip(columns, values, strict=True)]
        name = each.args["alias"].name if named else _name(node)
        yield name, same[0] if len(same) == 1 else call("and", *same)


def _parts(node: exp.Expr) -> Sequence[exp.Expr]:
    inner = node.unnest()
    return inner.expressions if isinstance(inner, exp.Tuple) else [inner]


def _name(node: exp.Expr) -> str:
    """What a column is called by its constant."""
    number = node.this if isinstance(node, exp.Neg) else node
    if isinstance(number, exp.Literal) and (number is node or not number.is_string):
        return node.name if number is node else f"-{number.name}"
    if isinstance(node, exp.Null | exp.Boolean):
        return str(node.sql("spark")).lower()
    raise RefusalError(f"the column for {node.sql('spark')} has no name.", _HINT)


def _aggregates(pivot: exp.Pivot, t: Translator) -> Iterator[tuple[str, Aggregate]]:
    several = len(pivot.expressions) > 1
    for each in pivot.expressions:
        if several and not each.alias:
            raise RefusalError("PIVOT has several aggregates, one without a name.", _HINT)
        if not is_aggregate(each.unalias()):
            raise RefusalError(f"{each.sql('spark')} is no aggregate.", _HINT)
        yield f"_{each.alias}" if several else "", read_aggregate(each.unalias(), t)


def _grouped(
    cells: Sequence[Cell],
    found: Sequence[tuple[str, Aggregate]],
    rows: Plan,
    scope: Scope,
    t: Translator,
) -> Reading:
    used = frozenset().union(
        *(columns_of(when) for _, when in cells), *(one.columns for _, one in found)
    )
    kept = [column for column in scope.visible if column.column.name not in used]
    keys: dict[Expression, ColumnRef] = {
        column.column: replace(column.column, name=f"key {at}") for at, column in enumerate(kept)
    }
    groups = Groups(t.text, t, keys, None, {})
    is_null = all(one.type.is_numeric or one.type == BOOL for _, one in found)
    outputs: list[Expression] = list(keys.values())
    for _, when in cells:
        present = call(">", _told(groups, aggregate("count(*)", condition=when)), Literal(0, INT))
        for _, one in found:
            value = _told(groups, replace(one, condition=_both(one.condition, when)))
            outputs.append(call("case", present, value, Literal(None, VOID)) if is_null else value)
    plan, _ = groups.plan(rows)
    schema = Schema.of((str(at), output.type) for at, output in enumerate(outputs, 1))
    names = [column.name for column in kept]
    names += [f"{name}{suffix}" for name, _ in cells for suffix, _ in found]
    printed = [column.printed for column in kept] + [""] * (len(names) - len(kept))
    return Reading(project(plan, schema, outputs), tuple(names), tuple(printed))


def _told(groups: Groups, wanted: Aggregate) -> Expression:
    """The column of an aggregate of the groups."""
    ref = ColumnRef(f"aggregate {len(groups.aggregates) + 1}", wanted.type)
    return groups.aggregates.setdefault(wanted, ref)


def _both(one: Expression | None, other: Expression) -> Expression:
    return other if one is None else call("and", one, other)
