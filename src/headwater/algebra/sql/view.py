"""Views from SQL: a SELECT over relations that are joined, selected from and projected, or
several such SELECTs with UNION ALL between them.

Reads Spark's dialect with sqlglot, with double quotes around names. What a view cannot be is
refused with the clause, its line and its column, rather than read as something else. Splits
conditions into conjuncts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NoReturn

from sqlglot import TokenType, exp

from headwater.algebra.expressions import Expression
from headwater.algebra.schema import Column, Relation, Schema
from headwater.algebra.sql.expressions import Translator
from headwater.algebra.sql.names import Scope, Table, Visible, find_relation
from headwater.algebra.sql.text import DIALECT, RefusalError, SqlText, line_and_column
from headwater.algebra.values import VOID
from headwater.algebra.views import Join, Occurrence, View
from headwater.errors import SqlError

_ONLY = "A view selects, projects and joins."
_SETS = {
    "UNION": "Write UNION ALL, and make rows distinct when reading the view.",
    "INTERSECT": "Define a view for each part.",
    "EXCEPT": "Define a view for each part.",
}
_SELECT_PARTS = frozenset({"expressions", "from_", "joins", "where"})
_TABLE_PARTS = frozenset({"this", "db", "catalog", "alias"})
_JOIN_PARTS = frozenset({"this", "on", "using", "kind", "side", "method"})
_CLAUSES = {
    "with_": ("WITH (a common table expression)", "WITH"),
    "distinct": ("DISTINCT", "DISTINCT"),
    "group": ("GROUP BY", "GROUP"),
    "having": ("HAVING", "HAVING"),
    "order": ("ORDER BY", "ORDER"),
    "limit": ("LIMIT", "LIMIT"),
    "offset": ("OFFSET", "OFFSET"),
    "laterals": ("LATERAL VIEW", "LATERAL"),
    "qualify": ("QUALIFY", "QUALIFY"),
    "windows": ("WINDOW", "WINDOW"),
    "hint": ("a hint", "/*+"),
    "locks": ("FOR UPDATE", "FOR"),
    "sort": ("SORT BY", "SORT"),
    "cluster": ("CLUSTER BY", "CLUSTER"),
    "distribute": ("DISTRIBUTE BY", "DISTRIBUTE"),
    "pivots": ("PIVOT", "PIVOT"),
}
_AT_THE_START = ("WITH", "DISTINCT", "/*+")


def parse_view(
    sql: str,
    relations: Mapping[str, Relation] | Iterable[Relation],
    name: str = "view",
    *,
    allow_self_joins: bool = False,
) -> View:
    """The view that `sql` over `relations` defines; SqlError says what is wrong and where."""
    known = tuple(relations.values() if isinstance(relations, Mapping) else relations)
    joins: list[Join] = []
    for text, select in _selects(sql):
        reader = _Reader(text, known, allow_self_joins, joins[0].schema if joins else None)
        try:
            joins.append(reader.join(select))
        except RecursionError:
            raise text.error_at(0, "the query is nested too deeply.", "Simplify it.") from None
    return View(name, tuple(joins), joins[0].schema, sql).without_unused_texts()


@dataclass(frozen=True)
class TableName:
    """A table as a query names it, and where."""

    source: str
    name: str
    line: int
    column: int
    within: str = ""
    is_quoted: bool = False
    """Whether its name stands in quotes of any sort."""


def tables_of(sql: str) -> tuple[TableName, ...]:
    """The tables that a query names in FROM; SqlError if it is none, whatever they are."""
    found: list[TableName] = []
    for text, select in _selects(sql):
        reader = _Reader(text, (), False)
        joins = select.args.get("joins") or ()
        nodes = [select.args["from_"].this, *(join.this for join in joins)]
        found += [reader.table_name(node) for node in nodes]
    return tuple(found)


@lru_cache(maxsize=1024)
def normalised(sql: str) -> str:
    """A SELECT as text that is the same whatever its blanks, comments and keywords' case."""
    return SqlText(sql).parse().sql(DIALECT, comments=False)


def has_star(sql: str) -> bool:
    """Whether a `*` stands for columns that are not named."""
    return SqlText(sql).parse().find(exp.Star) is not None


def _selects(sql: str) -> Iterator[tuple[SqlText, exp.Select]]:
    """Each SELECT of a query, in a text in which everything else is blank."""
    whole = SqlText(sql)
    _one_statement(whole)
    for text, start in whole.divided_by_union_all():
        _one_select(text, start)
        yield text, _plain_select(text, text.parse())


def _one_statement(text: SqlText) -> None:
    tokens = text.tokens
    ends = [at for at, t in enumerate(tokens) if t.token_type is TokenType.SEMICOLON]
    for at in ends:
        for token in tokens[at:]:
            if token.token_type is not TokenType.SEMICOLON:
                raise text.error_at(
                    token.start, "there is more than one statement.", "Define each view by itself."
                )


def _one_select(text: SqlText, start: int) -> None:
    """Refuse, before parsing, what is no SELECT."""
    tokens = text.tokens
    if not tokens:
        raise text.error_at(start, "there is no query.", "Write a SELECT.")
    if tokens[0].text.upper() not in ("SELECT", "WITH", "("):
        found = tokens[0].text.upper()
        raise text.error_at(tokens[0].start, f"{found} ... is not a SELECT.", "Write a SELECT.")
    for token, following in pairwise(tokens):
        if token.text.upper() == "TRY_CAST" and following.text == "(":
            raise text.error_at(token.start, "TRY_CAST is not supported.", "Write CAST.")
    text.check_words()


def _plain_select(text: SqlText, tree: exp.Expr) -> exp.Select:
    """Refuse every clause of the statement that a view cannot have."""
    if isinstance(tree, exp.SetOperation):
        word = {"Union": "UNION", "Intersect": "INTERSECT"}.get(type(tree).__name__, "EXCEPT")
        place = text.keyword("UNION", "INTERSECT", "EXCEPT", "MINUS")
        raise text.error_at(place, f"{word} is not supported.", _SETS[word])
    if not isinstance(tree, exp.Select):
        place = text.tokens[0].start
        raise text.error_at(place, "the query is in parentheses.", "Leave the parentheses out.")
    refused = []
    for part, value in tree.args.items():
        if value and part not in _SELECT_PARTS:
            label, word = _CLAUSES.get(part, (part.strip("_").upper(), part.upper()))
            place = text.keyword(word) if word in _AT_THE_START else text.last_keyword(word)
            refused.append((place, label))
    if refused:
        place, label = min(refused)
        raise text.error_at(place, f"{label} is not supported.", _ONLY)
    if not tree.args.get("from_"):
        place = text.tokens[0].start
        raise text.error_at(
            place, "the query has no FROM.", "Name the relations that the view reads."
        )
    return tree


@dataclass(frozen=True)
class _Output:
    name: str
    expression: Expression
    place: int
    shown: str


class _Reader:
    """Reads one SELECT; `like` is the schema of the first one that UNION ALL connects it with."""

    def __init__(
        self,
        text: SqlText,
        relations: tuple[Relation, ...],
        self_joins: bool,
        like: Schema | None = None,
    ) -> None:
        self.text = text
        self.relations = relations
        self.self_joins = self_joins
        self.like = like
        self.tables: list[Table] = []

    def join(self, select: exp.Select) -> Join:
        scope, condition = self._from(select)
        if where := select.args.get("where"):
            condition += Translator(self.text, scope).condition(where.this, "WHERE")
        outputs = list(self._outputs(select, scope))
        self._check_outputs(outputs)
        schema = self.like or Schema(tuple(Column(o.name, o.expression.type) for o in outputs))
        occurrences = tuple(table.occurrence for table in self.tables)
        return Join(occurrences, condition, tuple(o.expression for o in outputs), schema)

    # FROM

    def _from(self, select: exp.Select) -> tuple[Scope, tuple[Expression, ...]]:
        """Tables that commas divide are joined last, so ON sees only what JOIN connects."""
        groups = [self._table(select.args["from_"].this)]
        condition: tuple[Expression, ...] = ()
        for join in select.args.get("joins") or ():
            self._check_join(join)
            table = self._table(join.this)
            if self.text.follows_comma(join.this):
                groups.append(table)
            else:
                groups[-1], added = self._joined(groups[-1], table, join)
                condition += added
        return sum(groups, Scope()), condition

    def _check_join(self, join: exp.Join) -> None:
        if isinstance(join.this, exp.Lateral):
            self._refuse_table(join.this)
        words = [join.method, join.side, join.kind]
        others = [part for part, value in join.args.items() if value and part not in _JOIN_PARTS]
        inner = join.method in ("", "NATURAL") and join.kind in ("", "INNER", "CROSS")
        if join.side or not inner or others:
            words = [*words, *(part.upper() for part in others), "JOIN"]
            raise self.text.error_at(
                self.text.join_start(join.this),
                f"{' '.join(filter(None, words))} is not supported.",
                "Only inner joins are.",
            )

    def _joined(
        self, left: Scope, right: Scope, join: exp.Join
    ) -> tuple[Scope, tuple[Expression, ...]]:
        try:
            if join.method == "NATURAL":
                scope, condition = left.using(right, left.common_names(right))
                return scope, tuple(condition)
            if using := join.args.get("using"):
                scope, condition = left.using(right, [self.text.name(c) for c in using])
                return scope, tuple(condition)
        except ValueError as error:
            place = (join.args.get("using") or [join.this])[0]
            message = str(error) if isinstance(error, RefusalError) else f"{error}."
            raise self.text.error(place, message, getattr(error, "hint", "")) from None
        scope, on = left + right, join.args.get("on")
        return scope, Translator(self.text, scope).condition(on, "ON") if on else ()

    def table_name(self, node: exp.Expr) -> TableName:
        """What a part of FROM names; refused if that is no table."""
        if not (isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier)):
            self._refuse_table(node)
        place = line_and_column(self.text.sql, self.text.start(node))
        source, within = self.text.name(node, "db"), ""
        if node.args.get("catalog"):
            source, within = self.text.name(node, "catalog"), source
        is_quoted = bool(node.this.args.get("quoted"))
        return TableName(source, self.text.name(node), *place, within, is_quoted)

    def _table(self, node: exp.Expr) -> Scope:
        named = self.table_name(node)
        for part, value in node.args.items():
            if value and part not in _TABLE_PARTS:
                raise self.text.error(
                    node, f"{node.name} ... {part.upper()} in FROM is not supported.", _ONLY
                )
        alias = node.args.get("alias")
        if alias and alias.args.get("columns"):
            raise self.text.error(alias, "column names after a table's alias are not supported.")
        try:
            relation = find_relation(named.name, named.source, self.relations, named.within)
        except RefusalError as error:
            raise self.text.error(node, str(error), error.hint) from None
        table = Table(
            Occurrence(node.alias or _plain_name(relation, named), relation),
            "" if alias else relation.source,
        )
        self._check_table(table, node)
        self.tables.append(table)
        return Scope.of(table)

    def _check_table(self, table: Table, node: exp.Expr) -> None:
        occurrence = table.occurrence
        earlier = [other.occurrence for other in self.tables]
        name = occurrence.relation.name
        if not self.self_joins and name in {other.relation.name for other in earlier}:
            raise self.text.error(
                node,
                f"relation {name} occurs twice, and joining a relation with itself is not "
                "supported yet.",
                "Use each relation once.",
            )
        if occurrence.alias.lower() in {other.alias.lower() for other in earlier}:
            raise self.text.error(
                node, f"two tables are named {occurrence.alias}.", "Give one of them an alias."
            )
        if "." in occurrence.alias:
            raise self.text.error(
                node, f"the name {occurrence.alias} has a dot in it.", "Give it another alias."
            )

    def _refuse_table(self, node: exp.Expr) -> NoReturn:
        if isinstance(node, exp.Lateral):
            place = self.text.before(node, "LATERAL")
            raise self.text.error_at(place, "LATERAL is not supported.", "Write it as a join.")
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
            place = self.text.before(node, "SELECT")
            raise self.text.error_at(
                place, "a subquery in FROM is not supported.", "Define a view for it."
            )
        raise self.text.error(
            node, f"{node.sql('spark')} in FROM is not supported.", "Write names of relations."
        )

    # The select list

    def _outputs(self, select: exp.Select, scope: Scope) -> Iterator[_Output]:
        translator = Translator(self.text, scope)
        items = self.text.select_items(self.text.before(select.args["from_"], "FROM"))
        empty = [place for written, place in items if not written]
        if empty or len(items) != len(select.expressions):
            place = empty[0] if empty else 0
            raise self.text.error_at(
                place, "an item of the select list is empty.", "Check its commas."
            )
        for node, (written, place) in zip(select.expressions, items, strict=True):
            if (columns := self._starred(node, scope)) is not None:
                for column in columns:
                    yield _Output(column.name, column.column, place, column.column.name)
                continue
            inner = node.this if isinstance(node, exp.Alias) else node
            expression = translator.expression(inner)
            name = node.alias or (
                translator.visible(node).name if isinstance(node, exp.Column) else written
            )
            yield _Output(name, expression, place, written)

    def _starred(self, node: exp.Expr, scope: Scope) -> tuple[Visible, ...] | None:
        """The columns that an item `*` or `t.*` stands for."""
        star = node.this if isinstance(node, exp.Column) else node
        if not isinstance(star, exp.Star):
            return None
        if any(star.args.values()):
            raise self.text.error(node, f"{node.sql('spark')} is not supported.", "List columns.")
        if star is node:
            return scope.visible
        try:
            qualifier, source = self.text.name(node, "table"), self.text.name(node, "db")
            return scope.table(qualifier, source).columns()
        except RefusalError as error:
            raise self.text.error(node, str(error), error.hint) from None

    def _check_outputs(self, outputs: list[_Output]) -> None:
        seen: dict[str, _Output] = {}
        for output in outputs:
            first = seen.setdefault(output.name.lower(), output)
            if first is not output and self.like is None:
                raise self._duplicate(first, output)
            if output.expression.type == VOID:
                raise self.text.error_at(
                    output.place,
                    f"column {output.name} is always NULL and has no type.",
                    "Write CAST(NULL AS type).",
                )

        if self.like is not None:
            self._check_like_the_first(outputs, self.like)

    def _check_like_the_first(self, outputs: list[_Output], like: Schema) -> None:
        """As many columns as the first SELECT, of the same types; the names are the first one's."""
        if len(outputs) != len(like):
            raise self.text.error_at(
                self.text.keyword("SELECT"),
                f"this SELECT has {_columns(len(outputs))}, and the first one has {len(like)}.",
                "UNION ALL needs as many columns in each.",
            )
        for at, (output, column) in enumerate(zip(outputs, like.columns, strict=True), 1):
            if output.expression.type != column.type:
                raise self.text.error_at(
                    output.place,
                    f"column {at} is of type {output.expression.type}, and in the first SELECT "
                    f"({column.name}) of type {column.type}.",
                    "Give both one type with CAST.",
                )

    def _duplicate(self, first: _Output, second: _Output) -> SqlError:
        return self.text.error_at(
            second.place,
            f"two output columns are named {second.name}: {first.shown} and {second.shown}.",
            "List the columns and give one of them an alias with AS.",
        )


def _plain_name(relation: Relation, named: TableName) -> str:
    """What a table is called in its query: without the part of the database that it is in."""
    for within in filter(None, (named.within, named.source)):
        if relation.short_name.lower().startswith(f"{within}.".lower()):
            return relation.short_name[len(within) + 1 :]
    return relation.short_name


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"
