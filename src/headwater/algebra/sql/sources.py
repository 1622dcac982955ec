"""FROM: tables, other views, subqueries, and the joins between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, cast

from sqlglot import exp

from headwater.algebra.expressions import ColumnRef, Expression, columns_of
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.constants import is_range, read_range, read_values
from headwater.algebra.sql.exploding import Made, made_of, with_made
from headwater.algebra.sql.expressions import Translator
from headwater.algebra.sql.functions import own_call
from headwater.algebra.sql.names import OUTER, Scope, Table, Visible, find_relation
from headwater.algebra.sql.own_rows import rows_of
from headwater.algebra.sql.pivots import pivoted
from headwater.algebra.sql.plans import (
    Plan,
    extended,
    join,
    matched,
    only,
    outer_join,
    refs,
    renamed,
    table,
)
from headwater.algebra.sql.plans import select as select_rows
from headwater.algebra.sql.query import Environment, Reading, named, read_beside, read_query
from headwater.algebra.sql.subqueries import RowsInReach, is_subquery
from headwater.algebra.sql.text import RefusalError, SqlText, line_and_column
from headwater.algebra.tops import Constant
from headwater.algebra.typing_rules import call
from headwater.algebra.views import Occurrence
from headwater.errors import SqlError

_ONLY = "Write the name of a table or a subquery."
_TABLE_PARTS = frozenset({"this", "db", "catalog", "alias", "joins", "pivots"})
_SUBQUERY_PARTS = frozenset(
    {"this", "alias", "with_", "order", "limit", "offset", "joins", "pivots"}
)
_JOIN_PARTS = frozenset({"this", "on", "using", "kind", "side", "method"})


@dataclass(frozen=True)
class TableName:
    """A table as a query names it, and where."""

    source: str
    name: str
    line: int
    column: int
    within: str = ""
    function: str = ""
    """The function of one's own that names it, if it is not the query itself."""
    is_quoted: bool = False
    """Whether its name stands in quotes of any sort."""
    is_place_quoted: bool = False
    """The same of what stands right before its name: what it is within, or else its source."""


@dataclass(frozen=True)
class Source:
    """What FROM gives: rows, and what names mean for them."""

    plan: Plan
    scope: Scope


def table_name(node: exp.Expr, text: SqlText) -> TableName:
    """What a part of FROM names; refused if that is no table."""
    if not (isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier)):
        _refuse(node, text)
    place = line_and_column(text.sql, text.start(node))
    source, within = text.name(node, "db"), ""
    if node.args.get("catalog"):
        source, within = text.name(node, "catalog"), source
    quoted = [bool(part and part.args.get("quoted")) for part in (node.this, node.args.get("db"))]
    return TableName(source, text.name(node), *place, within, "", *quoted)


def _refuse(node: exp.Expr, text: SqlText) -> NoReturn:
    if isinstance(node, exp.Lateral):
        place = text.before(node, "LATERAL")
        raise text.error_at(place, "LATERAL is not supported.", "Write it as a join.")
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Anonymous):
        message = f"there is no function {node.this.name.upper()} that gives rows."
        raise text.error(node, message, "Your own functions stand in functions/*.sql.")
    raise text.error(node, f"{node.sql('spark')} in FROM is not supported.", _ONLY)


class FromReader:
    """Reads the FROM of one SELECT."""

    def __init__(self, text: SqlText, around: Environment) -> None:
        self.text = text
        self.around = around
        self.aliases: set[str] = set()
        self.subqueries = 0
        """How many ON had subqueries so far."""

    def read(self, select: exp.Select) -> Source:
        """Tables that commas divide are joined last, so ON sees only what JOIN connects."""
        if not select.args.get("from_"):
            return Source(Constant(((),), Schema(())), Scope(outer=self.around.outer))
        groups = [self._item(select.args["from_"].this)]
        for clause in select.args.get("joins") or ():
            self._check_join(clause)
            if (made := _made(clause.this)) is not None:
                groups = [self._beside(_crossed(groups), made, clause)]
                continue
            if isinstance(clause.this, exp.Lateral):
                groups = [self._for_each(_crossed(groups), clause.this, clause)]
                continue
            item = self._item(clause.this)
            if self.text.follows_comma(clause.this) and not clause.args.get("on"):
                groups.append(item)
            else:
                groups[-1] = self._joined(groups[-1], item, clause)
        found = _crossed(groups)
        for lateral in select.args.get("laterals") or ():
            if (made := _made(lateral)) is None:
                _refuse(lateral, self.text)
            found = self._with_made(found, made, lateral, outer=bool(lateral.args.get("outer")))
        return replace(found, scope=replace(found.scope, outer=self.around.outer))

    # Rows made of arrays

    def _beside(self, left: Source, made: Made, clause: exp.Join) -> Source:
        """Each row with the rows that are made of it; ON may say which of them."""
        is_outer = clause.side == "LEFT"
        on = clause.args.get("on")
        if clause.args.get("using") or clause.method or clause.side not in ("", "LEFT"):
            _refuse(clause.this, self.text)
        found = self._with_made(left, made, clause.this, outer=is_outer)
        if not on:
            return found
        inside = replace(found.scope, outer=self.around.outer)
        conjuncts = Translator(self.text, inside).condition(on, "ON")
        self._check_within(conjuncts, on)
        if is_outer and conjuncts:
            raise self.text.error(
                on, "LEFT JOIN with rows made of an array has a condition.", "Write ON TRUE."
            )
        return replace(found, plan=select_rows(found.plan, conjuncts))

    def _with_made(self, left: Source, made: Made, node: exp.Expr, *, outer: bool) -> Source:
        alias = node.args.get("alias") or exp.TableAlias()
        given = [self.text.name(column) for column in alias.args.get("columns") or ()]
        if isinstance(node, exp.Unnest | exp.Lateral) and _number_name(node):
            given.append(_number_name(node))
        table_name = self.text.name(alias) or f"rows_{len(self.aliases) + 1}"
        self._check_alias(table_name, node)
        if not given and isinstance(node, exp.Unnest) and alias.this:
            given = [table_name, *made.defaults[1:]]
        names = given or list(made.defaults)
        if len(names) != len(made.columns):
            raise self.text.error(
                node,
                f"{len(names)} names are given, and there are {len(made.columns)} columns.",
                "Name each column.",
            )
        inside = Translator(self.text, replace(left.scope, outer=self.around.outer))
        try:
            plan, columns = with_made(left.plan, made, inside, table_name, outer=outer)
        except RefusalError as error:
            raise self.text.error(node, str(error), error.hint) from None
        visible = tuple(
            Visible(name, column, table_name) for name, column in zip(names, columns, strict=True)
        )
        return Source(plan, left.scope + Scope.of(Table(table_name, visible)))

    # LATERAL

    def _for_each(self, left: Source, node: exp.Lateral, clause: exp.Join) -> Source:
        """Each row with the rows of a subquery that may use its columns."""
        if not isinstance(node.this, exp.Subquery) or clause.side not in ("", "LEFT"):
            _refuse(node, self.text)
        alias = node.alias or f"subquery_{len(self.aliases) + 1}"
        columns = {ref.name: ref for ref in refs(left.plan.schema)}
        reading = read_beside(node.this, self.around, left.scope, columns, left.plan)
        numbers = [str(at) for at in range(1, len(reading.names) + 1)]
        given = {name: f"{alias}.#{at}" for at, name in enumerate(reading.given)}
        right = self._derived(replace(reading, plan=only(reading.plan, numbers)), alias, node)
        names = [*right.plan.schema.names, *given.values()]
        plan = renamed(only(reading.plan, [*numbers, *given]), names)
        scope, on = left.scope + right.scope, clause.args.get("on")
        inside = replace(scope, outer=self.around.outer)
        found = Translator(self.text, inside).condition(on, "ON") if on else ()
        if on:
            self._check_within(found, on)
        same = [
            call("<=>", columns[name.removeprefix(OUTER)], ref)
            for name, ref in zip(given, refs(plan.schema, given.values()), strict=True)
        ]
        if clause.side:
            return Source(outer_join(left.plan, plan, [*same, *found], keeps="LEFT"), scope)
        return Source(join(left.plan, plan, [*same, *found]), scope)

    # Items

    def _item(self, node: exp.Expr) -> Source:
        if isinstance(node, exp.Subquery):
            item = self._nested(node) if not isinstance(node.this, exp.Query) else self._query(node)
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            item = self._table(node)
        elif isinstance(node, exp.Table) and own_call(node.this) is not None:
            item = self._rows_of(node)
        elif isinstance(node, exp.Values) or is_range(node):
            item = self._constant(node)
        else:
            _refuse(node, self.text)
        for pivot in node.args.get("pivots") or ():
            alias = pivot.alias or f"pivot_{len(self.aliases) + 1}"
            reading = pivoted(pivot, item.plan, item.scope, self.text)
            item = self._derived(reading, alias, pivot)
        for clause in node.args.get("joins") or ():
            self._check_join(clause)
            item = self._joined(item, self._item(clause.this), clause)
        return item

    def _nested(self, node: exp.Subquery) -> Source:
        """Joins in parentheses."""
        found, alias = self._item(node.this), node.args.get("alias")
        if alias is None:
            return found
        self._check_alias(node.alias, node)
        columns = tuple(replace(column, alias=node.alias) for column in found.scope.visible)
        unusable = tuple(each for table in found.scope.tables for each in table.unusable)
        return Source(
            found.plan, Scope.of(self._called(Table(node.alias, columns, "", unusable), alias))
        )

    def _query(self, node: exp.Subquery) -> Source:
        self._check_parts(node, _SUBQUERY_PARTS)
        alias = node.alias or f"subquery_{len(self.aliases) + 1}"
        parts = {n: part for n, part in node.args.items() if n not in ("pivots", "joins")}
        plain = exp.Subquery(**parts)  # what else it has is read where it stands in FROM
        return self._derived(read_query(plain, self.around.apart()), alias, node)

    def _rows_of(self, node: exp.Table) -> Source:
        """The rows that a function of one's own gives."""
        self._check_parts(node, _TABLE_PARTS)
        try:
            reading = rows_of(node.this, self.around, self.text)
        except RefusalError as error:
            raise self.text.error(node, str(error), error.hint) from None
        except ValueError as error:
            raise self.text.error(node, f"{error}.", "Change the call.") from None
        return self._derived(reading, node.alias or node.this.name, node)

    def _constant(self, node: exp.Expr) -> Source:
        """Rows that are named here, under an alias."""
        nothing = Translator(self.text, Scope())
        try:
            rows = (
                read_values(node, nothing)
                if isinstance(node, exp.Values)
                else read_range(cast(exp.Table, node), nothing)
            )
        except RefusalError as error:
            raise self.text.error(node, str(error), error.hint) from None
        alias = node.alias or f"rows_{len(self.aliases) + 1}"
        numbered = renamed(rows, [str(at) for at in range(1, len(rows.schema) + 1)])
        return self._derived(Reading(numbered, rows.schema.names), alias, node)

    def _derived(self, reading: Reading, alias: str, node: exp.Expr) -> Source:
        """The rows of a query under an alias."""
        clause = node.args.get("alias")
        if clause and clause.args.get("columns"):
            names = [self.text.name(column) for column in clause.args["columns"]]
            reading = named(reading, names, node, self.text)
        self._check_alias(alias, node)
        inner = [f"{alias}.{name}" for name in _told_apart(reading.names)]
        plan = renamed(reading.plan, inner)
        printed = reading.printed or ("",) * len(inner)
        columns = tuple(
            Visible(name, ref, alias, told)
            for name, ref, told in zip(reading.names, refs(plan.schema), printed, strict=True)
        )
        return Source(plan, Scope.of(Table(alias, columns)))

    def _table(self, node: exp.Table) -> Source:
        self._check_parts(node, _TABLE_PARTS)
        name = table_name(node, self.text)
        if not name.source and (known := self.around.named.get(name.name.lower())):
            return self._derived(known, node.alias or name.name, node)
        relation, view = self._meant(name, node)
        if view is not None:
            return self._derived(view, node.alias or name.name, node)
        assert relation is not None
        alias = node.args.get("alias")
        occurrence = Occurrence(node.alias or _plain_name(relation, name), relation)
        self._check_alias(occurrence.alias, node)
        shown = self._called(Table.of(occurrence, "" if alias else relation.source), alias)
        return Source(table(occurrence), Scope.of(shown))

    def _called(self, shown: Table, alias: exp.TableAlias | None) -> Table:
        """The table with the names that its alias gives to its columns, if it gives any."""
        if alias is None or not alias.args.get("columns"):
            return shown
        names = [self.text.name(column) for column in alias.args["columns"]]
        if shown.unusable:
            raise self.text.error(
                alias, "the table has columns that cannot be used.", "Name columns with AS."
            )
        if len(names) != len(shown.columns):
            raise self.text.error(
                alias,
                f"{len(names)} names are given, and the table has {len(shown.columns)} columns.",
                "Name each column.",
            )
        pairs = zip(shown.columns, names, strict=True)
        return replace(shown, columns=tuple(replace(c, name=name) for c, name in pairs))

    def _meant(self, name: TableName, node: exp.Expr) -> tuple[Relation | None, Reading | None]:
        """The relation or the view that a name means."""
        view = self.around.views.get(name.name.lower()) if not name.source else None
        try:
            relation = find_relation(name.name, name.source, self.around.relations, name.within)
        except RefusalError as error:
            if view is not None:
                return None, view
            raise self.text.error(node, str(error), error.hint) from None
        if view is not None:
            raise self.text.error(
                node,
                f"{name.name} may mean the view {name.name} and the table {relation.name}.",
                "Write which source you mean, or give the view another name.",
            )
        return relation, None

    def _check_parts(self, node: exp.Expr, allowed: frozenset[str]) -> None:
        for part, value in node.args.items():
            if value and part not in allowed:
                word = {"sample": "TABLESAMPLE", "pivots": "PIVOT"}.get(part, part.upper())
                raise self.text.error(
                    node, f"{node.name or 'a subquery'} ... {word} in FROM is not supported.", _ONLY
                )

    def _check_alias(self, alias: str, node: exp.Expr) -> None:
        if alias.lower() in self.aliases:
            raise self.text.error(
                node, f"two tables are named {alias}.", "Give one of them an alias."
            )
        if "." in alias:
            raise self.text.error(
                node, f"the name {alias} has a dot in it.", "Give it another alias."
            )
        self.aliases.add(alias.lower())

    # Joins

    def _check_within(self, conjuncts: Sequence[Expression], on: exp.Expr) -> None:
        for conjunct in conjuncts:
            if any(name.startswith(OUTER) for name in columns_of(conjunct)):
                raise self.text.error(
                    on, "ON names a column from outside the subquery.", "Write it in WHERE."
                )

    def _check_join(self, clause: exp.Join) -> None:
        others = [part for part, value in clause.args.items() if value and part not in _JOIN_PARTS]
        if clause.method not in ("", "NATURAL") or clause.kind not in _KINDS or others:
            words = [clause.method, clause.side, clause.kind, *(part.upper() for part in others)]
            raise self.text.error_at(
                self.text.join_start(clause.this),
                f"{' '.join(filter(None, words))} JOIN is not supported.",
                "There are inner, outer, semi, anti and cross joins.",
            )

    def _joined(self, left: Source, right: Source, clause: exp.Join) -> Source:
        on = clause.args.get("on")
        if on is not None and on.find(exp.Query):
            return self._joined_by_subqueries(left, right, clause, on)
        scope, conjuncts, merged = self._condition(left, right, clause)
        if clause.kind in ("SEMI", "ANTI"):
            anti = clause.kind == "ANTI"
            plan = matched(left.plan, right.plan, conjuncts, anti=anti)
            return Source(plan, left.scope)
        if not clause.side:
            return Source(join(left.plan, right.plan, conjuncts), scope)
        plan = outer_join(left.plan, right.plan, conjuncts, keeps=clause.side)
        return _coalesced(plan, scope, merged, clause.side)

    def _joined_by_subqueries(
        self, left: Source, right: Source, clause: exp.Join, on: exp.Expr
    ) -> Source:
        """ON with subqueries: of an inner join as in WHERE, else as columns of one of its sides."""
        self.subqueries += 1
        mark = f"on {self.subqueries}"
        if not clause.side and clause.kind not in ("SEMI", "ANTI"):
            scope = left.scope + right.scope
            inside = replace(scope, outer=self.around.outer)
            plan = join(left.plan, right.plan)
            rows = RowsInReach(self.text, self.around, plan, inside, mark)
            rows.where(on, "ON")
            self._check_within(rows.correlated, on)
            return Source(rows.plan, scope)
        sides = [left, right]

        def special(node: Any) -> Expression | None:
            if not is_subquery(node):
                return None
            both = join(left.plan, right.plan)
            RowsInReach(self.text, self.around, both, inside).special(node)
            for at, side in enumerate(sides):
                scope = replace(side.scope, outer=self.around.outer)
                own = f"{mark} {at} {len(side.plan.schema)}"
                rows = RowsInReach(self.text, self.around, side.plan, scope, own)
                try:
                    found = rows.special(node)
                except SqlError:
                    continue
                sides[at] = replace(side, plan=rows.plan)
                return found
            raise RefusalError(
                "a subquery in ON of this join names columns of both sides.", "Write it in WHERE."
            )

        inside = replace(left.scope + right.scope, outer=self.around.outer)
        conjuncts = Translator(self.text, inside, special).condition(on, "ON")
        self._check_within(conjuncts, on)
        if clause.kind in ("SEMI", "ANTI"):
            anti = clause.kind == "ANTI"
            return Source(matched(sides[0].plan, sides[1].plan, conjuncts, anti=anti), left.scope)
        plan = outer_join(sides[0].plan, sides[1].plan, conjuncts, keeps=clause.side)
        return Source(plan, left.scope + right.scope)

    def _condition(
        self, left: Source, right: Source, clause: exp.Join
    ) -> tuple[Scope, tuple[Expression, ...], Sequence[tuple[Visible, Visible]]]:
        """What names mean behind the join, its condition, and the columns that it merges."""
        using = clause.args.get("using")
        if clause.method == "NATURAL" or using:
            try:
                names = (
                    [self.text.name(c) for c in using]
                    if using
                    else left.scope.common_names(right.scope)
                )
                scope, conjuncts = left.scope.using(right.scope, names)
                pairs = [(left.scope.column(n), right.scope.column(n)) for n in names]
                return scope, tuple(conjuncts), pairs
            except ValueError as error:
                place = (using or [clause.this])[0]
                message = str(error) if isinstance(error, RefusalError) else f"{error}."
                raise self.text.error(place, message, getattr(error, "hint", "")) from None
        scope, on = left.scope + right.scope, clause.args.get("on")
        inside = replace(scope, outer=self.around.outer)
        found = Translator(self.text, inside).condition(on, "ON") if on else ()
        if on:
            self._check_within(found, on)
        if clause.side and not on:
            raise self.text.error_at(
                self.text.join_start(clause.this),
                f"{clause.side} JOIN has no condition.",
                "Write ON or USING.",
            )
        return scope, found, ()


def _made(node: exp.Expr) -> Made | None:
    """What an item of FROM makes rows of, if it does."""
    return made_of(node.this if isinstance(node, exp.Lateral | exp.Table) else node)


def _number_name(node: exp.Expr) -> str:
    """What WITH ORDINALITY calls its column, which sqlglot keeps apart."""
    inner = node.this if isinstance(node, exp.Lateral) else node
    offset = inner.args.get("offset") if isinstance(inner, exp.Unnest) else None
    return offset.name if isinstance(offset, exp.Identifier) else ""


def _crossed(groups: Sequence[Source]) -> Source:
    """All pairs of rows of several items."""
    first, *others = groups
    for other in others:
        first = Source(join(first.plan, other.plan), first.scope + other.scope)
    return first


_KINDS = ("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI")


def _coalesced(
    plan: Plan, scope: Scope, merged: Sequence[tuple[Visible, Visible]], side: str
) -> Source:
    """Columns that USING merges are those of the side that keeps its rows, or of either."""
    if side == "LEFT" or not merged:
        return Source(plan, scope)
    meanings: dict[ColumnRef, ColumnRef] = {}
    added: dict[str, Expression] = {}
    for left, right in merged:
        if side == "RIGHT":
            meanings[left.column] = right.column
        else:
            name = f"{left.column.name} or {right.column.name}"
            added[name] = call("coalesce", left.column, right.column)
            meanings[left.column] = ColumnRef(name, added[name].type)
    visible = tuple(
        replace(c, column=meanings[c.column]) if at < len(merged) else c
        for at, c in enumerate(scope.visible)
    )
    return Source(extended(plan, added), replace(scope, visible=visible))


def _told_apart(names: Sequence[str]) -> list[str]:
    """The names, with a number behind those that occur again."""
    found: list[str] = []
    for name in names:
        again, wanted = 1, name
        while wanted in found:
            again += 1
            wanted = f"{name}#{again}"
        found.append(wanted)
    return found


def _plain_name(relation: Relation, name: TableName) -> str:
    """What a table is called in its query: without the part of the database that it is in."""
    for within in filter(None, (name.within, name.source)):
        if relation.short_name.lower().startswith(f"{within}.".lower()):
            return relation.short_name[len(within) + 1 :]
    return relation.short_name
