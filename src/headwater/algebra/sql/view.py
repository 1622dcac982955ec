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
from headwater.algebra.sql.function_statements import script
from headwater.algebra.sql.functions import NONE, Functions, own_call
from headwater.algebra.sql.layout import laid_out, laid_out_together
from headwater.algebra.sql.plans import Plan, Sum, leaves_of, renamed, top_of
from headwater.algebra.sql.pruning import pruned
from headwater.algebra.sql.query import Environment, Reading, read_query
from headwater.algebra.sql.select import check_clauses
from headwater.algebra.sql.sources import TableName, table_name
from headwater.algebra.sql.text import DIALECT, RefusalError, SqlText, line_and_column
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
    functions: Functions = NONE,
    total: bool = True,
) -> View:
    """The view that `sql` over `relations` defines; SqlError says what is wrong and where.

    `views` are other views that it may read: the SQL of each, over relations only, by its name.
    `functions` are those of one's own that it may call, beside those with which `sql` begins.
    Unless it is to be `total`, a view of joins alone is left as it is, and its terms may fail.
    """
    plan, text = read_plan(sql, relations, views, functions)
    if not _placed(text, lambda: isinstance(plan, Sum) or any(leaves_of(plan))):
        raise text.error_at(0, "the query reads no table.", "A view shows what its sources have.")
    return _placed(text, lambda: view_of(plan, name, sql, total=total))


def read_plan(
    sql: str,
    relations: Mapping[str, Relation] | Iterable[Relation],
    views: Mapping[str, str] | None = None,
    functions: Functions = NONE,
) -> tuple[Plan, SqlText]:
    """What a query means, its columns under the names that it gives them, and its text."""
    known = tuple(relations.values() if isinstance(relations, Mapping) else relations)
    readings = {n.lower(): _reading(q, known, {})[0] for n, q in (views or {}).items()}
    reading, text = _reading(sql, known, readings, functions)
    _check_columns(reading, text)
    return renamed(reading.plan, reading.names), text


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
    sql: str,
    relations: tuple[Relation, ...],
    views: Mapping[str, Reading],
    functions: Functions = NONE,
) -> tuple[Reading, SqlText]:
    text, tree, _ = _parsed(sql, functions)
    try:
        around = Environment(text, relations, text.parts(tree), views=views)
        return _placed(text, lambda: read_query(tree, around)), text
    except RecursionError:
        raise text.error_at(0, "the query is nested too deeply.", "Simplify it.") from None


def _placed(text: SqlText, make: Callable[[], _T], about: exp.Expr | None = None) -> _T:
    """What is made, or the refusal of the whole query, or of a part of it."""
    try:
        return make()
    except RefusalError as error:
        place = text.first_of(error.about) if about is None else text.start(about)
        raise text.error_at(place, str(error), error.hint) from None
    except RecursionError:
        raise text.error_at(0, "the query is nested too deeply.", "Simplify it.") from None


def _parsed(sql: str, functions: Functions = NONE) -> tuple[SqlText, exp.Expr, Functions]:
    own, text = script(sql)
    _check_statement(text)
    known = functions | own
    for mistake in Functions(own).checked()[1]:
        raise mistake
    return text, known.marked(text.parse()), known


@lru_cache(maxsize=1024)
def tables_of(sql: str, functions: Functions = NONE) -> tuple[TableName, ...]:
    """The tables and views that a query reads; SqlError if it is none, whatever they are.

    Those that functions of one's own read stand where the query calls these.
    """
    text, tree, known = _parsed(sql, functions)
    _check_selects(tree, text)
    found = list(_tables(tree, text, frozenset()))
    for call in known.calls_in(tree):
        if isinstance(call.parent, exp.Table):
            _placed(text, known.by_name[call.name.upper()].check_gives_rows, call)
        line, column = line_and_column(text.sql, text.start(call))
        for function in known.used_by(call).values():
            if function.gives_rows:
                with function.telling():
                    body = known.marked(function.body())
                    _check_selects(body, function.text)
                    read = list(_tables(body, function.text, frozenset()))
                found += [
                    replace(table, line=line, column=column, function=function.name)
                    for table in read
                ]
    return tuple(dict.fromkeys(found))


def _check_selects(tree: exp.Expr, text: SqlText) -> None:
    parts = text.parts(tree)
    for select in tree.find_all(exp.Select):
        check_clauses(select, parts[id(select)])


def _tables(node: exp.Expr, text: SqlText, known: frozenset[str]) -> Iterator[TableName]:
    """The tables that a query reads, without those that a WITH around them names."""
    if isinstance(node, exp.Table) and not _makes_rows(node):
        found = table_name(node, text)
        if found.source or found.name.lower() not in known:
            yield found
    clause = node.args.get("with_") or exp.With(expressions=[])
    for query in clause.expressions:
        own = {query.alias.lower()}
        yield from _tables(query.this, text, known | own if clause.args.get("recursive") else known)
        known |= own
    for part in node.iter_expressions():
        if part is not clause:
            yield from _tables(part, text, known)


def _makes_rows(node: exp.Table) -> bool:
    """Whether what stands in FROM is a call, and names no table."""
    is_own = isinstance(node.this, exp.Anonymous) and own_call(node.this) is not None
    return is_own or made_of(node.this) is not None or is_range(node)


def functions_of(sql: str, functions: Functions = NONE) -> tuple[str, ...]:
    """The functions of one's own that a query calls, and those that they call."""
    _, tree, known = _parsed(sql, functions)
    return tuple(function.name for function in known.used_by(tree).values())


def unfolded(sql: str, views: Mapping[str, str], functions: Functions = NONE) -> str:
    """A query by itself: behind the functions that it calls, and with the views that it reads."""
    text, tree, known = _parsed(sql, functions)
    unfolding = _Unfolding(views)
    whole = unfolding.whole(tree, text)
    for function in known.used_by(tree).values():
        create = function.text.parse()
        if function.gives_rows:
            body = unfolding.whole(known.marked(create.expression.this), function.text)
            create.expression.set("this", body)
        unfolding.functions[function.name.upper()] = create
    return _written(unfolding.functions.values(), whole) if unfolding.has_done else sql


class _Unfolding:
    """Views in the place of their names, and the functions that they call."""

    def __init__(self, views: Mapping[str, str]) -> None:
        self._views = {name.lower(): (name, select) for name, select in views.items()}
        self.functions: dict[str, exp.Expr] = {}
        self._read = False

    @property
    def has_done(self) -> bool:
        return self._read or bool(self.functions)

    def whole(self, tree: exp.Expr, text: SqlText) -> exp.Expr:
        """A query, or the body of a function, with the views that it reads as a WITH before it."""
        named = [t.name.lower() for t in _tables(tree, text, frozenset()) if not t.source]
        queries = [self._query(name) for name in dict.fromkeys(named) if name in self._views]
        if not queries:
            return tree
        self._read = True
        own = tree.args.get("with_")
        if own and own.args.get("recursive"):  # a view may have the name of a table that it reads
            tree, own = exp.select("*").from_(exp.Subquery(this=tree)), None
        tree.set("with_", exp.With(expressions=[*queries, *(own.expressions if own else ())]))
        return tree

    def _query(self, name: str) -> exp.CTE:
        written, select = self._views[name]
        functions, text = script(select)
        self.functions |= {n: function.text.parse() for n, function in functions.items()}
        alias = exp.TableAlias(this=exp.to_identifier(written))
        return exp.CTE(this=text.parse(), alias=alias)


@lru_cache(maxsize=1024)
def normalised(sql: str) -> str:
    """A SELECT as text that is the same whatever its blanks, comments and keywords' case."""
    functions, text = script(sql)
    return _written((function.text.parse() for function in functions.values()), text.parse())


def _written(functions: Iterable[exp.Expr], tree: exp.Expr) -> str:
    """A query behind the functions that it calls."""
    return "; ".join(each.sql(DIALECT, comments=False) for each in (*functions, tree))


def has_star(sql: str) -> bool:
    """Whether a `*` stands for columns that are not named."""
    return any(
        not isinstance(star.parent, exp.Count) for star in script(sql)[1].parse().find_all(exp.Star)
    )


def approximations(sql: str) -> tuple[str, ...]:
    """The aggregates of a query that need not be exact, each once."""
    functions, text = script(sql)
    trees = [text.parse(), *(function.tree for function in functions.values())]
    kinds = {exp.ApproxQuantile: "APPROX_PERCENTILE", exp.ApproxDistinct: "APPROX_COUNT_DISTINCT"}
    return tuple(
        name for kind, name in kinds.items() if any(tree.find(kind) is not None for tree in trees)
    )


def shown_as_json(sql: str) -> tuple[str, ...]:
    """The functions of a query whose values of any type are shown as JSON texts, each once."""
    functions, text = script(sql)
    trees = [text.parse(), *(function.tree for function in functions.values())]
    calls = [call for tree in trees for call in tree.find_all(exp.Anonymous)]
    names = [
        call.name.upper()
        for call in calls
        if not (
            isinstance(call.parent, exp.Anonymous) and "VARIANT_GET" in call.parent.name.upper()
        )
    ]
    return tuple(name for name in ("PARSE_JSON", "TRY_PARSE_JSON") if name in names)


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
    if tokens[0].text.upper() not in ("SELECT", "WITH", "TABLE", "("):
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
