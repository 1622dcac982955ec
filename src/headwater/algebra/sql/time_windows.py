"""GROUP BY WINDOW(at, '5 minutes'): rows by the time that they are in, a struct of start and end.

As in Spark, the rows of a SELECT that asks for such windows get a column `window`, which the call
stands for, and rows without a moment are left out. Windows that overlap would make several rows of
one, and are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from headwater.algebra.expressions import ColumnRef, Expression, Literal
from headwater.algebra.sql.aggregates import own_parts
from headwater.algebra.sql.intervals import binned, stride, units_later
from headwater.algebra.sql.names import Visible
from headwater.algebra.sql.plans import extended, select
from headwater.algebra.sql.subqueries import TIME_WINDOW, RowsInReach, is_time_window
from headwater.algebra.sql.text import RefusalError
from headwater.algebra.typing_rules import call, struct
from headwater.algebra.values import INT

_NAME = TIME_WINDOW
_CLAUSES = ("expressions", "group", "having", "qualify", "order")
_HINT = "Write GROUP BY WINDOW(at, '5 minutes')."


def make_time_windows(node: exp.Select, rows: RowsInReach) -> None:
    """Give the rows of a SELECT the column that its calls of WINDOW stand for, if it has any."""
    calls = list(_calls(node))
    if not calls:
        return
    try:
        found = {_read(each, rows) for each in calls}
        if len(found) > 1 or not node.args.get("group"):
            raise RefusalError("WINDOW is one expression of GROUP BY.", _HINT)
        if any(column.name.lower() == _NAME for column in rows.scope.visible):
            raise RefusalError(
                "WINDOW makes a column window, and there is one already.",
                "Give that one another name in a subquery.",
            )
    except RefusalError as error:
        raise rows.text.error(calls[0], str(error), error.hint) from None
    except ValueError as error:
        raise rows.text.error(calls[0], f"{error}.", _HINT) from None
    ((moment, start, length),) = found
    made = struct(["start", "end"], [start, units_later("MICROSECOND", length, start)])
    rows.plan = select(rows.plan, [call("not", call("is null", moment))])
    rows.plan = extended(rows.plan, {f"#{_NAME}": made})
    column = Visible(_NAME, ColumnRef(f"#{_NAME}", made.type), "")
    rows.scope = replace(rows.scope, visible=(*rows.scope.visible, column))
    rows.time_window = column.column


def _calls(node: exp.Select) -> Iterator[exp.Expr]:
    for clause in _CLAUSES:
        value = node.args.get(clause) or []
        for part in value if isinstance(value, list) else [value]:
            yield from own_parts(part, is_time_window)


def _read(node: exp.Expr, rows: RowsInReach) -> tuple[Expression, Expression, Literal]:
    """The moment that a call looks at, the start of its window, and how long that is."""
    if not 2 <= len(node.expressions) <= 4:
        raise RefusalError(f"WINDOW takes 2 to 4 arguments, not {len(node.expressions)}.", _HINT)
    moment = rows.translator().expression(node.expressions[0])
    length, *others = (stride(part) for part in node.expressions[1:3])
    if others and others[0] != length:
        raise RefusalError(
            "windows that overlap, or leave times out, are not supported.",
            "Leave the second duration out; or make the starts with EXPLODE(SEQUENCE(...)).",
        )
    offset = sum(map(stride, node.expressions[3:]))
    return moment, binned(moment, length, offset=offset), Literal(length, INT)
