"""Where a view means something else than at its source, in sentences.

A value that Headwater has no type for is the text that its database prints. Texts may differ
where the database takes the values for equal, and the other way round. Also a constant may be
written as no value ever is, and `*` leaves out columns that cannot be used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from headwater.algebra.expressions import Call, ColumnRef, Expression, Literal, walk
from headwater.algebra.schema import Column
from headwater.algebra.sql.view import has_star
from headwater.algebra.views import Join, View

_EQUALITIES = ("=", "<>", "<=>")


def cautions_of(view: View) -> tuple[str, ...]:
    """What somebody should know about a view, each once."""
    told = [*_left_out(view), *(text for join in view.joins for text in _told(join))]
    return tuple(dict.fromkeys(f"View {view.name} {text}" for text in told))


def _left_out(view: View) -> Iterator[str]:
    unusable = [(r.name, *column) for r in view.relations for column in r.unusable]
    if unusable and has_star(view.sql):
        for relation, column, reason in unusable:
            yield f"leaves the column {column} of {relation} out of *: {reason}"


def _told(join: Join) -> Iterator[str]:
    columns = {c.name: c for each in join.occurrences for c in each.schema.columns}
    for node in (node for part in (*join.condition, *join.outputs) for node in walk(part)):
        if isinstance(node, Call) and node.operator in _EQUALITIES:
            for at, argument in enumerate(node.arguments):
                if isinstance(argument, ColumnRef):
                    yield from _compared(columns[argument.name], node.arguments[1 - at], columns)


def _compared(column: Column, other: Expression, columns: Mapping[str, Column]) -> Iterator[str]:
    shown = f"{column.name} ({column.printed or column.type})"
    if column.equality:
        yield f"compares {shown}: {column.equality}."
    if isinstance(other, ColumnRef):
        against = columns[other.name]
        if column.printed and against.printed and column.printed != against.printed:
            yield (
                f"compares {shown} with {against.name} ({against.printed}): here texts count, "
                "and the database may convert one of both first."
            )
    text = other.value if isinstance(other, Literal) else None
    if column.pattern and isinstance(text, str) and not re.fullmatch(column.pattern, text):
        yield (
            f"compares {shown} with '{text}', and no value is written like that here: write it as "
            "the database prints it."
        )
