"""Views from SQL: a query over relations and other views, as what is stored and what is shown.

Reads Spark's dialect with sqlglot, with double quotes around names. What a view cannot be is
refused with the clause, its line and its column, rather than read as something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import TypeVar

from sqlglot import TokenType, exp

from headwater.algebra.labels import labelled
from headwater.algebra.schema import Relation
from headwater.algebra.sql.constants import is_range
from headwater.algebra.sql.exploding import made_of
from headwater.algebra.sql.layout import laid_out, laid_out_together
from headwater.algebra.sql.plans import Plan, Sum, leaves_of, renamed, top_of
from headwater.algebra.sql.pruning import pruned
from headwater.algebra.sql.query import Environment, Reading, read_query
from headwater.algebra.sql.select import check_clauses
from headwater.algebra.sql.sources import TableName, table_name
from headwater.algebra.sql.text import DIALECT, RefusalError, SqlText
from headwater.algebra.sql.wording import check_wording
from headwater.algebra.tops import Top, parts_of
from headwater.algebra.totals import totalised
from headwater.algebra.values import VOID
from headwater.algebra.views import Join, Member, View

_T = TypeVar("_T")


def parse_view(
    sql: str,
    relations: Mapping[str, Relation] | Iterable[Relation],
    name: str = "view",
    views: Mapping[str, str] | None = None,
    *,
    total: bool = True,
) -> View:
    """The view that `sql` over `relations` defines; SqlError says what is wrong and where.

    `views` are other views that it may read: the SQL of each, over relations only, by its name.
    Unless it is to be `total`, a view of joins alone is left as it is, and its terms may fail.
    """
    known = tuple(relations.values() if isinstance(relations, Mapping) else relations)
    readings = {n.lower(): _reading(q, known, {})[0] for n, q in (views or {}).items()}
    reading, text = _reading(sql, known, readings)
    _check_columns(reading, text)
    if not _placed(text, lambda: isinstance(reading.plan, Sum) or any(leaves_of(reading.plan))):
        raise text.error_at(0, "the query reads no table.", "A view shows what its sources have.")
    return _placed(
        text, lambda: view_of(renamed(reading.plan, reading.names), name, sql, total=total)
    )


def parse_group(members: Iterable[tuple[str, str, Iterable[Relation]]], name: str) -> View:
    """The group of views of which each has a name, a SELECT, and the relations it is read over.

    Joins that several of them have in common are stored once.
    """
    listed = [(member, sql, tuple(relations)) for member, sql, relations in members]
    tops = []
    for _, sql, relations in listed:
        reading, text = _reading(sql, relations, {})
        _check_columns(reading, text)
        plan = renamed(reading.plan, reading.names)
        tops.append(pruned(_placed(text, partial(top_of, plan))))
    joins, schema, laid = laid_out_together(tops)
    found = [labelled(top, joins) for top in laid]
    group = View(name, joins, schema, "")
    named = tuple(
        Member(member, sql, _relations_of(top, group), top)
        for (member, sql, _), top in zip(listed, found, strict=True)
    )
    return replace(group, members=named).without_unused_texts()


def _relations_of(top: Top, group: View) -> tuple[str, ...]:
    """The relations of the stored joins that a top reads."""
    numbers = {part.number for part in parts_of(top)}
    joins = [join for at, join in enumerate(group.joins, 1) if at in numbers or None in numbers]
    return tuple(dict.fromkeys(o.relation.name for join in joins for o in join.occurrences))


def view_of(plan: Plan, name: str, sql: str = "", *, total: bool = True) -> View:
    """The view that a plan is: a sum of joins as it is, anything else as a top over parts."""
    if isinstance(plan, Sum) and plan.is_linear:
        joins = tuple(
            Join(b.occurrences, b.condition, b.outputs, plan.schema) for b in plan.branches
        )
        view = View(name, joins, plan.schema, sql)
        return (totalised(view) if total else view).without_unused_texts()
    joins, schema, top = laid_out(pruned(top_of(plan)))
    return View(name, joins, schema, sql, labelled(top, joins)).without_unused_texts()


def _reading(
    sql: str, relations: tuple[Relation, ...], views: Mapping[str, Reading]
) -> tuple[Reading, SqlText]:
    text, tree = _parsed(sql)
    try:
        around = Environment(text, relations, text.parts(tree), views=views)
        return _placed(text, lambda: read_query(tree, around)), text
    except RecursionError:
        raise text.error_at(0, "the query is nested too deeply.", "Simplify it.") from None


def _placed(text: SqlText, make: Callable[[], _T]) -> _T:
    """What is made, or the refusal of the whole query."""
    try:
        return make()
    except RefusalError as error:
        raise text.error_at(text.first_of(error.about), str(error), error.hint) from None
    except RecursionError:
        raise text.error_at(0, "the query is nested too deeply.", "Simplify it.") from None


def _parsed(sql: str) -> tuple[SqlText, exp.Expr]:
    text = SqlText(sql)
    _check_statement(text)
    return text, text.parse()


@lru_cache(maxsize=1024)
def tables_of(sql: str) -> tuple[TableName, ...]:
    """The tables and views that a query reads; SqlError if it is none, whatever they are."""
    text, tree = _parsed(sql)
    parts = text.parts(tree)
    for select in tree.find_all(exp.Select):
        check_clauses(select, parts[id(select)])
    return tuple(dict.fromkeys(_tables(tree, text, frozenset())))


def _tables(node: exp.Expr, text: SqlText, known: frozenset[str]) -> Iterator[TableName]:
    """The tables that a query reads, without those that a WITH around them names."""
    if isinstance(node, exp.Table) and made_of(node.this) is None and not is_range(node):
        found = table_name(node, text)
        if found.source or found.name.lower() not in known:
            yield found
    clause = node.args.get("with_")
    for query in clause.expressions if clause else ():
        yield from _tables(query.this, text, known)
        known |= {query.alias.lower()}
    for part in node.iter_expressions():
        if part is not clause:
            yield from _tables(part, text, known)


def unfolded(sql: str, views: Mapping[str, str]) -> str:
    """A query with the SELECTs of the views that it reads, as a WITH before it."""
    known = {name.lower(): name for name in views}
    named = [t.name.lower() for t in tables_of(sql) if not t.source and t.name.lower() in known]
    if not named:
        return sql
    tree = SqlText(sql).parse()
    queries = [
        exp.CTE(
            this=SqlText(views[known[name]]).parse(),
            alias=exp.TableAlias(this=exp.to_identifier(known[name])),
        )
        for name in dict.fromkeys(named)
    ]
    own = tree.args.get("with_")
    tree.set("with_", exp.With(expressions=[*queries, *(own.expressions if own else ())]))
    return tree.sql(DIALECT, comments=False)


@lru_cache(maxsize=1024)
def normalised(sql: str) -> str:
    """A SELECT as text that is the same whatever its blanks, comments and keywords' case."""
    return SqlText(sql).parse().sql(DIALECT, comments=False)


def has_star(sql: str) -> bool:
    """Whether a `*` stands for columns that are not named."""
    return any(
        not isinstance(star.parent, exp.Count) for star in SqlText(sql).parse().find_all(exp.Star)
    )


def _check_statement(text: SqlText) -> None:
    """Refuse, before parsing, what is no single query."""
    tokens = text.tokens
    ends = [at for at, t in enumerate(tokens) if t.token_type is TokenType.SEMICOLON]
    for at in ends:
        for token in tokens[at:]:
            if token.token_type is not TokenType.SEMICOLON:
                raise text.error_at(
                    token.start, "there is more than one statement.", "Define each view by itself."
                )
    if not tokens:
        raise text.error_at(0, "there is no query.", "Write a SELECT.")
    if tokens[0].text.upper() not in ("SELECT", "WITH", "("):
        found = tokens[0].text.upper()
        raise text.error_at(tokens[0].start, f"{found} ... is not a SELECT.", "Write a SELECT.")
    text.check_words()
    check_wording(text)


def _check_columns(reading: Reading, text: SqlText) -> None:
    seen: dict[str, str] = {}
    columns = zip(reading.names, reading.schema.types, reading.items, strict=True)
    for column, kind, (written, place) in columns:
        if column.lower() in seen:
            raise text.error_at(
                place,
                f"two output columns are named {column}: {seen[column.lower()]} and {written}.",
                "List the columns and give one of them an alias with AS.",
            )
        seen[column.lower()] = written
        if kind == VOID:
            raise text.error_at(
                place,
                f"column {column} is always NULL and has no type.",
                "Write CAST(NULL AS type).",
            )
