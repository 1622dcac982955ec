"""One SELECT: FROM, WHERE, groups, HAVING, windows, QUALIFY, the select list, DISTINCT, LIMIT."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from sqlglot import exp

from headwater.algebra.aggregates import aggregated
from headwater.algebra.expressions import ColumnRef, Expression, Literal, columns_of, substituted
from headwater.algebra.schema import Schema
from headwater.algebra.sql.aggregates import aggregates_in, is_aggregate
from headwater.algebra.sql.distinct_on import is_distinct, numbered
from headwater.algebra.sql.exploding import made_of, with_made
from headwater.algebra.sql.expressions import Translator, check_values
from headwater.algebra.sql.grouping import Groups, read_groups
from headwater.algebra.sql.lateral_aliases import unfold_aliases
from headwater.algebra.sql.mistakes import telling_all
from headwater.algebra.sql.names import OUTER, Scope, Visible
from headwater.algebra.sql.ordering import is_all, limited
from headwater.algebra.sql.plans import (
    Plan,
    distinct,
    equal_sides,
    only,
    project,
    refs,
    restricted,
    select,
    union_all,
)
from headwater.algebra.sql.query import Environment, Reading
from headwater.algebra.sql.refusals import misplaced_aggregate
from headwater.algebra.sql.sources import FromReader
from headwater.algebra.sql.subqueries import TIME_WINDOW, RowsInReach, is_time_window
from headwater.algebra.sql.text import RefusalError, SqlText
from headwater.algebra.sql.time_windows import make_time_windows
from headwater.algebra.sql.windowing import Windows
from headwater.algebra.typing_rules import call
from headwater.algebra.values import INT

_PARTS = frozenset(
    [
        "with_",
        "expressions",
        "from_",
        "joins",
        "laterals",
        "where",
        "group",
        "having",
        "qualify",
        "windows",
        "distinct",
        "order",
        "limit",
        "offset",
    ]
)
_CLAUSES = {
    "hint": ("a hint", "/*+"),
    "locks": ("FOR UPDATE", "FOR"),
    "sort": ("SORT BY", "SORT"),
    "cluster": ("CLUSTER BY", "CLUSTER"),
    "distribute": ("DISTRIBUTE BY", "DISTRIBUTE"),
    "pivots": ("PIVOT", "PIVOT"),
}


def read_select(node: exp.Select, around: Environment) -> Reading:
    """What a SELECT means; SqlError says what is wrong and where."""
    text = around.parts.get(id(node), around.text)
    check_clauses(node, text)
    source = FromReader(text, around).read(node)
    rows = RowsInReach(text, around, source.plan, source.scope)
    unfold_aliases(node, rows.scope, text)
    with telling_all(node, lambda: Translator(text, rows.scope)):
        if where := node.args.get("where"):
            rows.where(where.this)
    make_time_windows(node, rows)
    with telling_all(node, lambda: Translator(text, rows.scope)):
        if around.given is not None:
            rows.take_in(around.given)
        return _Select(node, text, around, rows).read()


def check_clauses(node: exp.Select, text: SqlText) -> None:
    """Refuse every clause that a view cannot have."""
    refused = []
    for part, value in node.args.items():
        if value and part not in _PARTS:
            label, word = _CLAUSES.get(part, (part.strip("_").upper(), part.upper()))
            place = text.keyword(word) if word == "/*+" else text.last_keyword(word)
            refused.append((place, label))
    if refused:
        place, label = min(refused)
        raise text.error_at(place, f"{label} is not supported.", "Leave it out.")
    if not node.args.get("from_") and not _is_one_row(node):
        place = text.tokens[0].start if text.tokens else 0
        raise text.error_at(
            place, "the query has no FROM.", "Name the relations that the view reads."
        )


def _is_one_row(node: exp.Select) -> bool:
    """Whether a SELECT without FROM is a row of constants."""
    others = any(value for part, value in node.args.items() if part != "expressions")
    return not others and not any(node.find(kind) for kind in (exp.Column, exp.Star))


@dataclass(frozen=True)
class Item:
    """A column of the select list."""

    name: str
    expression: Expression
    place: int
    shown: str
    printed: str = ""


class _Select:
    """Reads what stands behind FROM and WHERE."""

    def __init__(
        self, node: exp.Select, text: SqlText, around: Environment, rows: RowsInReach
    ) -> None:
        self.node = node
        self.text = text
        self.around = around
        self.rows = rows
        self.scope = rows.scope
        self.plain = Translator(text, rows.scope, rows.special)
        named = {w.name.lower(): w for w in node.args.get("windows") or ()}
        self.windows = Windows(named)
        self.groups: Groups | None = None
        self.aliases: dict[str, exp.Expr] = {}
        self.made: dict[int, Sequence[ColumnRef]] = {}

    # The whole

    def read(self) -> Reading:
        self._make_rows()
        node, correlated, nothing = self.node, tuple(self.rows.correlated), None
        if self._is_grouped():
            correlated, nothing = self._group()
        self.aliases = {
            i.alias.lower(): i.this for i in node.expressions if isinstance(i, exp.Alias)
        }
        translator = Translator(self.text, self.scope, self._special)
        if having := node.args.get("having"):
            self._condition(having.this, "HAVING", translator)
        items = list(self._items(translator))
        qualify = node.args.get("qualify")
        kept = self._qualified(qualify.this, translator) if qualify else ()
        self._check_items(items)
        if (number := numbered(node, self.aliases, self.text)) is not None:
            first = self.windows.column(number, self._with_aliases(translator))
            kept += (call("=", first, Literal(1, INT)),)
        self._check_own(self.windows.looked_at, "a window function")
        tied = (self._tied(conjunct)[0] for conjunct in correlated)
        self.windows.within(chain(tied, self.rows.given))
        order = [p.this for p in (node.args.get("order") or exp.Order()).expressions]
        ordered = self._order_keys(order, items, translator)
        hidden = {f"#order {at}": e for at, (_, e) in enumerate(ordered)}
        given = {ref.name: ref for ref in self.rows.given}
        needed = [*(i.expression for i in items), *kept, *hidden.values(), *given.values()]
        used = self._used(needed, correlated)
        plan = select(self.windows.plan(self.rows.plan, used), kept)
        columns: dict[str, Expression] = {str(at): i.expression for at, i in enumerate(items, 1)}
        columns.update(hidden if self._is_limited() else {})
        columns.update(self._correlated_columns(correlated))
        columns.update(given)
        schema = Schema.of((name, e.type) for name, e in columns.items())
        plan = project(plan, schema, tuple(columns.values()))
        if is_distinct(self.node):
            plan = distinct(plan)
        reading = Reading(
            plan,
            tuple(item.name for item in items),
            tuple(item.printed for item in items),
            tuple((item.shown, item.place) for item in items),
            correlated,
            None
            if nothing is None
            else tuple(substituted(item.expression, nothing) for item in items),
            tuple(given),
        )
        places = {id(n): ColumnRef(f"#order {at}", e.type) for at, (n, e) in enumerate(ordered)}
        reading = limited(reading, node, self.text, lambda n: places[id(n)])
        return self._without_hidden(reading)

    def _make_rows(self) -> None:
        """EXPLODE in the select list: the rows behind WHERE, each with its elements."""
        for item in self.node.expressions:
            inner = item.this if isinstance(item, exp.Alias | exp.Aliases) else item
            if (made := made_of(inner)) is None:
                continue
            if self.made or self._is_grouped() or self.node.find(exp.Window):
                raise self.text.error(
                    inner,
                    "rows made of an array stand alone in a select list without aggregates and "
                    "windows.",
                    "Make them in a subquery.",
                )
            try:
                self.rows.plan, columns = with_made(
                    self.rows.plan, made, self.plain, "#made", outer=False
                )
            except RefusalError as error:
                raise self.text.error(inner, str(error), error.hint) from None
            self.made[id(inner)] = columns

    def _made_items(self, node: exp.Expr, written: str, place: int) -> Iterator[Item]:
        """The columns of such an item."""
        inner = node.this if isinstance(node, exp.Alias | exp.Aliases) else node
        made = made_of(inner)
        assert made is not None
        names: Sequence[str] = made.defaults
        if isinstance(node, exp.Aliases):
            names = [name.name for name in node.expressions]
        elif isinstance(node, exp.Alias):
            names = [node.alias]
        if len(names) != len(made.columns):
            raise self.text.error(inner, f"there are {len(made.columns)} columns.", "Name each.")
        for name, column in zip(names, self.made[id(inner)], strict=True):
            yield Item(name, column, place, written)

    def _without_hidden(self, reading: Reading) -> Reading:
        kept = [n for n in reading.plan.schema.names if not n.startswith("#order ")]
        if len(kept) == len(reading.plan.schema):
            return reading
        schema = reading.plan.schema.only(kept)
        return replace(reading, plan=project(reading.plan, schema, refs(reading.plan.schema, kept)))

    def _is_limited(self) -> bool:
        return bool(self.node.args.get("limit") or self.node.args.get("offset"))

    def _used(
        self, expressions: Sequence[Expression], correlated: Sequence[Expression]
    ) -> frozenset[str]:
        return frozenset().union(*map(columns_of, (*expressions, *correlated)))

    def _correlated_columns(self, correlated: Sequence[Expression]) -> dict[str, ColumnRef]:
        """The columns of this query that conditions on both sides look at."""
        found: dict[str, ColumnRef] = {}
        for conjunct in correlated:
            for name in sorted(columns_of(conjunct)):
                if not name.startswith(OUTER):
                    found[name] = refs(self.rows.plan.schema, [name])[0]
        return found

    # Groups

    def _is_grouped(self) -> bool:
        node = self.node
        places = [*node.expressions, *([node.args["having"]] if node.args.get("having") else [])]
        if node.args.get("group") or node.args.get("having"):
            return True
        return any(any(aggregates_in(place)) for place in places)

    def _group(self) -> tuple[tuple[Expression, ...], dict[str, Expression] | None]:
        """Put the rows into groups; the conditions on both sides, and what there is for no rows."""
        node = self.node
        others = [node.args[p].this for p in ("having", "qualify") if node.args.get(p)]
        others += [p.this for p in (node.args.get("order") or exp.Order()).expressions]
        if any(isinstance(item, exp.Star) for item in node.expressions):
            raise self.text.error(node, "* has no meaning with GROUP BY.", "List the columns.")
        given = self.rows.given
        groups = read_groups(node, self.plain, node.expressions, others, self.text, given)
        self.groups = groups
        self._check_own(groups.looked_at, "GROUP BY or an aggregate")
        for each in groups.aggregates:
            if each.columns and all(name.startswith(OUTER) for name in each.columns):
                raise self.text.error(
                    node,
                    f"{each} has only columns from outside the subquery: it is told neither of the "
                    "rows outside nor of these.".replace(OUTER, ""),
                    "Use a column of the subquery in it.",
                )
        pairs = [self._tied(conjunct) for conjunct in self.rows.correlated]
        hidden = tuple(dict.fromkeys(inner for inner, _, _ in pairs))
        if groups.sets is not None and hidden:
            raise self.text.error(node, "ROLLUP in such a subquery is not supported.")
        alone = len(groups.keys) == len(given) and groups.sets is None
        self.rows.plan, names = groups.plan(self.rows.plan, hidden)
        self.rows.groups = {k.name: r for k, r in groups.keys.items() if isinstance(k, ColumnRef)}
        self.rows.on_group = groups.special
        correlated = tuple(
            call(operator, outer, ColumnRef(names[hidden.index(inner)], inner.type))
            for inner, outer, operator in pairs
        )
        if not alone:
            return correlated, None
        nothing: dict[str, Expression] = {
            ref.name: Literal(aggregated(a, ()), ref.type) for a, ref in groups.aggregates.items()
        }
        if not given and (node.args.get("having") or node.args.get("qualify")):
            self._check_untied(correlated)
            return correlated, None
        if given:
            self.rows.plan = self._with_empty_groups(self.rows.plan, nothing)
            return correlated, None
        return correlated, nothing

    def _check_untied(self, correlated: Sequence[Expression]) -> None:
        """SqlError if it is told for each row outside whether a group without rows is shown."""
        if correlated:
            raise self.text.error(
                self.node,
                "HAVING without GROUP BY in a subquery that names a column from outside is not "
                "supported here.",
                "Put the condition around the subquery's value.",
            )

    def _with_empty_groups(self, groups: Plan, nothing: Mapping[str, Expression]) -> Plan:
        """The groups, and one without rows for each of the given rows that has none."""
        assert self.around.given is not None
        names = [ref.name for ref in self.rows.given]
        missing = restricted(
            self.around.given, only(groups, names), self.rows.given, names, anti=True
        )
        outputs = [nothing.get(ref.name, ref) for ref in refs(groups.schema)]
        return union_all([groups, project(missing, groups.schema, outputs)])

    def _tied(self, conjunct: Expression) -> tuple[Expression, Expression, str]:
        here = frozenset(self.rows.plan.schema.names)
        outside = frozenset(n for n in columns_of(conjunct) if n.startswith(OUTER))
        pair = equal_sides(conjunct, here, outside)
        if pair is None:
            raise self.text.error(
                self.node.args["where"],
                "a subquery with aggregates or windows is tied to the query around it by more than "
                "equalities.",
                "Compare its columns with those outside by = only.",
            )
        inner, outer, null_safe = pair
        return inner, outer, "<=>" if null_safe else "="

    # Expressions

    def _special(self, node: Any) -> Expression | None:
        if isinstance(node, exp.Window):
            inside = Translator(self.text, self.scope, self._in_window)
            return self.windows.column(node, inside)
        return self._in_window(node)

    def _in_window(self, node: Any) -> Expression | None:
        if self.groups is not None and (known := self.groups.special(node)) is not None:
            return known
        if is_aggregate(node) and self.groups is None:
            name = self.text.written(node).upper()
            raise misplaced_aggregate(name, "Use it in the select list or in HAVING.")
        return self.rows.special(node)

    def _named(self, node: Any, translator: Translator) -> Expression | None:
        """What a name of the select list means in HAVING, QUALIFY and ORDER BY."""
        if isinstance(node, exp.Column) and not node.args.get("table"):
            known = {c.name.lower() for c in self.scope.visible}
            meant = self.aliases.get(node.name.lower())
            if meant is not None and (node.name.lower() not in known or self._is_ungrouped(node)):
                return translator.expression(meant)
        return self._special(node)

    def _is_ungrouped(self, node: exp.Column) -> bool:
        """Whether a column is none of the groups, so that its name can only be an alias."""
        if self.groups is None:
            return False
        try:
            return self.groups.special(node) is None
        except RefusalError:
            return True

    def _with_aliases(self, translator: Translator) -> Translator:
        return Translator(self.text, self.scope, lambda node: self._named(node, translator))

    def _condition(self, node: exp.Expr, clause: str, translator: Translator) -> None:
        conjuncts = self._with_aliases(translator).condition(node, clause)
        windows = frozenset(ref.name for ref in self.windows.functions.values())
        if windows & self._used(conjuncts, ()):
            raise self.text.error(
                node, f"{clause} has a window function.", "Conditions on it stand in QUALIFY."
            )
        self.rows.plan = select(self.rows.plan, conjuncts)

    def _qualified(self, node: exp.Expr, translator: Translator) -> tuple[Expression, ...]:
        found = self._with_aliases(translator).condition(node, "QUALIFY")
        self._check_own(self._used(found, ()), "QUALIFY")
        return found

    def _order_keys(
        self, nodes: Sequence[exp.Expr], items: Sequence[Item], translator: Translator
    ) -> list[tuple[exp.Expr, Expression]]:
        """What those parts of ORDER BY mean that name no column of the select list."""
        names = {item.name.lower() for item in items}
        found: list[tuple[exp.Expr, Expression]] = []
        for node in nodes:
            is_number = isinstance(node, exp.Literal) and not node.is_string
            by_name = isinstance(node, exp.Column) and not node.args.get("table")
            if is_number or is_all(node) or (by_name and node.name.lower() in names):
                continue
            meaning = self._with_aliases(translator).expression(node)
            if self._is_limited():
                self._check_order(node, translator)
            same = [i for i in items if i.expression == meaning]
            if is_distinct(self.node) and not same:
                raise self.text.error(
                    node, "ORDER BY names no column of SELECT DISTINCT.", "Select it, too."
                )
            found.append((node, meaning))
        return found

    def _check_order(self, node: exp.Expr, translator: Translator) -> None:
        try:
            check_values(translator, "ORDER BY", node)
        except RefusalError as error:
            raise self.text.error(node, str(error), error.hint) from None

    # The select list

    def _items(self, translator: Translator) -> Iterator[Item]:
        node, text = self.node, self.text
        items = text.select_items(text.from_word())
        empty = [place for written, place in items if not written]
        if empty or len(items) != len(node.expressions):
            place = empty[0] if empty else 0
            raise text.error_at(place, "an item of the select list is empty.", "Check its commas.")
        for each, (written, place) in zip(node.expressions, items, strict=True):
            if (columns := self._starred(each)) is not None:
                replaced = self._replaced(each, columns)
                for c in columns:
                    if (other := replaced.get(c.name.lower())) is not None:
                        yield Item(other.alias, translator.expression(other.this), place, written)
                    else:
                        yield Item(c.name, c.column, place, c.column.name, c.printed)
                continue
            inner = each.this if isinstance(each, exp.Alias | exp.Aliases) else each
            if id(inner) in self.made:
                yield from self._made_items(each, written, place)
                continue
            expression = translator.expression(inner)
            name, printed = written, ""
            if isinstance(inner, exp.Column):
                column, fields = self.plain.visible(inner)
                name, printed = (fields[-1], "") if fields else (column.name, column.printed)
            elif isinstance(inner, exp.Dot):
                name = inner.name
            elif is_time_window(inner):
                name = TIME_WINDOW
            yield Item(each.alias or name, expression, place, written, printed)

    def _starred(self, node: exp.Expr) -> tuple[Visible, ...] | None:
        """The columns that an item `*` or `t.*` stands for."""
        star = node.this if isinstance(node, exp.Column) else node
        if not isinstance(star, exp.Star):
            return None
        if any(value for part, value in star.args.items() if part not in ("except_", "replace")):
            raise self.text.error(node, f"{node.sql('spark')} is not supported.", "List columns.")
        try:
            if star is node:
                columns = self.scope.visible
            else:
                qualifier, source = self.text.name(node, "table"), self.text.name(node, "db")
                columns = self.scope.table(qualifier, source).columns
            return self._without(columns, star)
        except RefusalError as error:
            raise self.text.error(node, str(error), error.hint) from None

    def _replaced(self, node: exp.Expr, columns: Sequence[Visible]) -> dict[str, exp.Alias]:
        """What `* REPLACE` puts in the place of columns, by their names in small letters."""
        star = node.this if isinstance(node, exp.Column) else node
        found: dict[str, exp.Alias] = {}
        for each in star.args.get("replace") or ():
            if not isinstance(each, exp.Alias) or each.alias.lower() in found:
                raise self.text.error(each, "REPLACE names each column once, behind AS.")
            if each.alias.lower() not in {column.name.lower() for column in columns}:
                message = f"REPLACE names {each.alias}, which * does not have."
                raise self.text.error(each, message, "Write it as an item of its own.")
            found[each.alias.lower()] = each
        return found

    def _without(self, columns: tuple[Visible, ...], star: exp.Star) -> tuple[Visible, ...]:
        scope = Scope((), columns)
        left_out = [scope.column(self.text.name(c)) for c in star.args.get("except_") or ()]
        return tuple(column for column in columns if column not in left_out)

    def _check_own(self, names: frozenset[str], what: str) -> None:
        if not self.rows.given and any(name.startswith(OUTER) for name in names):
            raise self.text.error(
                self.node,
                f"{what} names a column from outside the subquery.",
                "Use such columns in its WHERE only.",
            )

    def _check_items(self, items: Sequence[Item]) -> None:
        for item in items:
            for name in columns_of(item.expression):
                if name.startswith(OUTER) and not self.rows.given:
                    raise self.text.error_at(
                        item.place,
                        f"{name.removeprefix(OUTER)} is a column from outside the subquery.",
                        "Use such columns in its WHERE only.",
                    )
