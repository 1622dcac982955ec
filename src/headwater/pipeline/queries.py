"""Queries over views through Spark: each view by its name, as it is now or at a version.

Spark reads the query with double quotes around names, and without comments, which it would take
for something else now and then. The views that it names are found here, and that it does nothing
but read them is seen in Spark's plan. What is wrong is one sentence, with line and column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import Token, TokenType, exp

from headwater.algebra.sql.names import closest_first
from headwater.algebra.sql.text import SqlText, means
from headwater.errors import InputError, SqlError
from headwater.frames.naming import named
from headwater.frames.query_plan import check_query
from headwater.project.project import Project
from headwater.readers.registering import newest_frames
from headwater.warehouse.netting import quoted
from headwater.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ONE = "Write one SELECT."
_PLACES = (
    re.compile(r"[;(]? ?\(?line (\d+),? pos (\d+)\)?;?"),
    re.compile(r"== SQL \(line (\d+), position (\d+)\) =="),
)
_NOISE = re.compile(
    r"\s*SQLSTATE: \w+|If necessary set \S+ to \S+ to bypass this error\.|^\[[A-Z0-9_.]+\] "
)


def query_views(
    project: Project, session: Callable[[], SparkSession], query: str, limit: int
) -> tuple[list[str], list[tuple[object, ...]], bool]:
    """Column names, at most `limit` rows, and whether there are more.

    Spark is started only for a query that may be one.
    """
    from headwater.frames.failures import SPARK_ERRORS, state_lost

    text = SqlText(SqlText(query).code)
    statement = _parsed(text)
    inner = [text.name(cte.args["alias"]) for cte in statement.find_all(exp.CTE)]
    views = _named_views(project, text, statement, inner)
    try:
        with named("sql"):
            spark = session()
            prepared, known = _registered(project, spark, text, views)
            check_query(spark, prepared, [*known, *inner])
            found = spark.sql(prepared)
            rows = [tuple(row) for row in found.limit(limit + 1).collect()]
    except SPARK_ERRORS as error:
        raise (state_lost(error) or _in_words(str(error))) from None
    return found.columns, rows[:limit], len(rows) > limit


def _parsed(text: SqlText) -> exp.Query:
    tokens = list(text.tokens)
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise text.error_at(0, "there is no query.", _ONE)
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            raise text.error_at(token.start, "there is more than one statement.", _ONE)
    text.check_words()
    statement = text.parse()
    if not isinstance(statement, exp.Query):
        raise text.error_at(tokens[0].start, "only a query can be run.", _ONE)
    return statement


# The views of a query


@dataclass(frozen=True)
class _Named:
    """A view as a query names it."""

    table: exp.Table
    view: str
    number: int | None


def _named_views(
    project: Project, text: SqlText, statement: exp.Query, inner: Collection[str]
) -> list[_Named]:
    """The views that a query names beside its own; SqlError if there is no such view."""
    loaded = Warehouse(project.warehouse).shown_names()
    found = []
    for table in statement.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier):
            continue  # a function, such as range(3)
        view = _meant(text, table, loaded)
        if view is not None:
            found.append(_Named(table, view, _version(text, table)))
        elif table.db or not any(means(name, table.name) for name in inner):
            raise _no_view(project, text, table, loaded)
    return found


def _registered(
    project: Project, spark: SparkSession, text: SqlText, views: Iterable[_Named]
) -> tuple[str, list[str]]:
    """The query for Spark, to which every view that it names is now known, and by which names."""
    prepared, names = text.sql, []
    views = list(views)
    unnumbered = [each.view for each in views if each.number is None]
    newest = newest_frames(Warehouse(project.warehouse), spark, unnumbered)
    for at, each in enumerate(views):
        known = each.view if each.number is None else f"__{at}"
        if each.number is None:
            newest[each.view].createOrReplaceTempView(known)
        else:
            view = Warehouse(project.warehouse).view(each.view)
            view.dataframe(spark, each.number).createOrReplaceTempView(known)
        names.append(known)
        if each.number is not None:
            new = known if each.table.alias else f"{known} {quoted(each.view)}"
            prepared = _replaced(prepared, text, each.table, new)
    return prepared, names


def _meant(text: SqlText, table: exp.Table, loaded: Iterable[str]) -> str | None:
    name = text.name(table)
    return None if table.db else next((view for view in loaded if means(name, view)), None)


def _no_view(
    project: Project, text: SqlText, table: exp.Table, loaded: Iterable[str]
) -> InputError:
    written = ".".join(part.name for part in table.parts)
    defined = [view for view in project.view_files if means(text.name(table), view)]
    if table.db:
        hint = "A query reads views, and a view's name has no dot. "
    elif defined:
        hint = f"{defined[0]} is not loaded yet: 'headwater run' loads it. "
    else:
        hint = project.told_of(table.name)
    listed = closest_first(table.name, loaded)
    hint += f"The views are: {listed}." if listed else "The warehouse has no views yet."
    return text.error(table, f"there is no view {written}.", hint)


def _version(text: SqlText, table: exp.Table) -> int | None:
    version = table.args.get("version")
    if version is None:
        return None
    if version.name.upper() != "VERSION" or not version.expression.name.isdecimal():
        raise text.error(
            table,
            f"{table.name}: only VERSION AS OF a number is known.",
            "'headwater status' shows the versions of views.",
        )
    return int(version.expression.name)


def _replaced(prepared: str, text: SqlText, table: exp.Table, new: str) -> str:
    """The query with another name for a table and its version; everything else keeps its place."""
    start = table.this.meta["start"]
    end = _number_after(text.tokens, start).end + 1
    return prepared[:start] + new.ljust(end - start) + prepared[end:]


def _number_after(tokens: Iterable[Token], start: int) -> Token:
    kinds = (TokenType.NUMBER, TokenType.STRING)
    return next(t for t in tokens if t.start > start and t.token_type in kinds)


# Mistakes


def _in_words(said: str) -> InputError:
    """What Spark says about a query, without its own codes and plans."""
    line = column = 0
    for pattern in _PLACES:
        if place := pattern.search(said):
            line, column = int(place[1]), int(place[2]) + (pattern is _PLACES[0])
            break
    first = next((each for each in said.splitlines() if each.strip()), "")
    for pattern in _PLACES:
        first = pattern.sub("", first)
    words = " ".join(_NOISE.sub("", first.strip()).split()).rstrip(";. ")
    return SqlError(f"{words or 'Spark cannot run this query'}.", line=line, column=column)
