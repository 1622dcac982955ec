"""Where a view means something else than at its source, in sentences.

A value that Headwater has no type for is the text that its database prints. Texts may differ
where the database takes the values for equal, and the other way round. Also a constant may be
written as no value ever is, which its source is asked about, and `*` leaves out columns that cannot
be used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headwater.algebra.expressions import Call, ColumnRef, Expression, Literal, walk
from headwater.algebra.schema import Column
from headwater.algebra.sql.view import approximations, has_star, shown_as_json
from headwater.algebra.values import TEXT
from headwater.algebra.views import Join, View
from headwater.project.told_apart import told_apart
from headwater.sources.contract import Constant

_EQUALITIES = ("=", "<>", "<=>")
_Pair = tuple[ColumnRef, Expression]


def cautions_of(view: View) -> tuple[str, ...]:
    """What somebody should know about a view, each once."""
    told = [*_left_out(view), *_exact(view), *_as_json(view)]
    told += [text for join in view.joins for text in _told(join)]
    told += [
        f"tells values of {_shown(column)} apart: {column.equality}."
        for column in told_apart(view)
        if column.equality
    ]
    return tuple(dict.fromkeys(f"View {view.name} {text}" for text in told))


def constants_of(view: View, source: str) -> list[Constant]:
    """The texts that a view compares with columns of a source."""
    found: dict[Constant, None] = {}
    for join in view.joins:
        for column, other in _compared_in(join):
            occurrence = join.occurrences[join.owner[column.name]]
            if occurrence.relation.source != source or column.type != TEXT:
                continue
            if isinstance(other, Literal) and isinstance(other.value, str):
                name = column.name.removeprefix(f"{occurrence.alias}.")
                found[Constant(occurrence.relation.short_name, name, other.value)] = None
    return list(found)


def told_of_constants(
    view: View, source: str, printed: Mapping[Constant, str | None]
) -> tuple[str, ...]:
    """What somebody should know about constants, by how the source prints them."""
    told = []
    for constant in constants_of(view, source):
        if constant not in printed or printed[constant] == constant.text:
            continue
        shown, text = f"{constant.relation}.{constant.column}", printed[constant]
        remedy = "the database has no such value" if text is None else f"write '{text}'"
        told.append(
            f"View {view.name} compares {shown} with '{constant.text}', and no value is written "
            f"like that here: {remedy}."
        )
    return tuple(told)


def _left_out(view: View) -> Iterator[str]:
    unusable = [(r.name, *column) for r in view.relations for column in r.unusable]
    if unusable and has_star(view.sql):
        for relation, column, reason in unusable:
            yield f"leaves the column {column} of {relation} out of *: {reason}"


def _exact(view: View) -> Iterator[str]:
    for name in approximations(view.sql):
        yield f"computes {name} exactly: whatever accuracy it is given, the values are stored."


def _as_json(view: View) -> Iterator[str]:
    for name in shown_as_json(view.sql):
        yield (
            f"shows what {name} gives as JSON text, because views have no VARIANT: "
            "PARSE_JSON of the column reads it back."
        )


def _compared_in(join: Join) -> Iterator[_Pair]:
    """Every column that is compared for equality, and what with."""
    for node in (node for part in (*join.condition, *join.outputs) for node in walk(part)):
        if isinstance(node, Call) and node.operator in _EQUALITIES:
            for at, argument in enumerate(node.arguments):
                if isinstance(argument, ColumnRef):
                    yield argument, node.arguments[1 - at]


def _told(join: Join) -> Iterator[str]:
    columns = {c.name: c for each in join.occurrences for c in each.schema.columns}
    for column, other in _compared_in(join):
        yield from _compared(columns[column.name], other, columns)


def _shown(column: Column) -> str:
    return f"{column.name} ({column.printed or column.type})"


def _compared(column: Column, other: Expression, columns: Mapping[str, Column]) -> Iterator[str]:
    shown = _shown(column)
    if column.equality:
        yield f"compares {shown}: {column.equality}."
    if not isinstance(other, ColumnRef):
        return
    against = columns[other.name]
    if column.printed and against.printed and column.printed != against.printed:
        yield (
            f"compares {shown} with {against.name} ({against.printed}): here texts count, "
            "and the database may convert one of both first."
        )
    if (column.affinity, against.affinity) == ("numeric", "text"):
        yield (
            f"compares {shown} with {against.name} (text): SQLite makes a number of a text that "
            "looks like one first ('5.0' equals 5), and here texts count."
        )
    if (column.spaces, against.spaces) == ("padded", "varying"):
        yield (
            f"compares {column.name} (character) with {against.name} (character varying): spaces "
            "at the end of the latter count here and not there."
        )
