"""Subqueries in expressions: EXISTS, IN, NOT IN, and those that stand for one value.

Each is decided for every row of the query around it. As a condition by itself, EXISTS and IN
restrict the rows; elsewhere they are a further column of them, and so is a subquery that stands
for one value. NOT IN is true only where no value of the subquery is equal and none is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from headwater.algebra.aggregates import aggregate
from headwater.algebra.expressions import (
    ColumnRef,
    Expression,
    Literal,
    columns_of,
    substituted,
)
from headwater.algebra.sql.expressions import Translator
from headwater.algebra.sql.names import OUTER, Scope
from headwater.algebra.sql.plans import (
    Plan,
    equal_sides,
    extended,
    grouped,
    join,
    matched,
    only,
    project,
    refs,
    renamed,
    restricted,
    select,
    union_all,
)
from headwater.algebra.sql.quantified import as_member, compared, is_quantified
from headwater.algebra.sql.query import Environment, Reading, read_beside, read_query
from headwater.algebra.sql.text import RefusalError, SqlText
from headwater.algebra.typing_rules import call
from headwater.algebra.values import BOOL, VOID
from headwater.errors import SqlError


def is_subquery(node: Any) -> bool:
    """Whether a node is decided by a subquery, for each row by itself."""
    if isinstance(node, exp.In):
        return bool(node.args.get("query"))
    if is_quantified(node):
        return True
    is_query = isinstance(node, exp.Subquery | exp.Select | exp.SetOperation)
    return is_query or is_exists(node)


_BY_MORE = "this subquery is tied to the query around it by more than equalities."
_BY_EQUALITIES = "Compare its columns with those outside by = only, or write it as a join."
TIME_WINDOW = "window"
"""The column that calls of WINDOW stand for."""


def is_time_window(node: Any) -> bool:
    """Whether it is a call of WINDOW, which is no function of values (`time_windows`)."""
    return isinstance(node, exp.Anonymous) and node.name.lower() == TIME_WINDOW


def is_exists(node: Any) -> bool:
    """Whether it is EXISTS of a subquery, and not of the elements of an array."""
    return isinstance(node, exp.Exists) and not node.args.get("expression")


class RowsInReach:
    """The rows of a SELECT while it is read; expressions may add columns to them."""

    def __init__(
        self, text: SqlText, around: Environment, plan: Plan, scope: Scope, mark: str = "subquery"
    ) -> None:
        """`mark` is in the names of all columns that are added, and nobody else's."""
        self.text = text
        self.mark = mark
        self.around = around
        self.plan = plan
        self.scope = scope
        self.correlated: list[Expression] = []
        self.given: tuple[ColumnRef, ...] = ()
        """Columns of the rows around this query, where it is read for all of them at once."""
        self.groups: Mapping[str, ColumnRef] | None = None
        """Where the rows are groups: which columns of their rows they still have."""
        self.on_group: Callable[[Any], Expression | None] = lambda node: None
        self.inner: Reading
        """The last subquery that `inner_rows` read."""
        self.time_window: ColumnRef | None = None
        self._added = 0

    def translator(self) -> Translator:
        return Translator(self.text, self.scope, lambda n: self.on_group(n) or self.special(n))

    def take_in(self, given: Plan) -> None:
        """Each row for each of the given ones that the conditions tie it to."""
        self.plan = join(given, self.plan, self.correlated)
        self.correlated, self.given = [], refs(given.schema)

    def special(self, node: Any) -> Expression | None:
        """What a subquery in an expression means: a column that it adds."""
        if is_exists(node):
            return self._mark(node.this, ())
        if isinstance(node, exp.In) and node.args.get("query"):
            return self.member(node)
        if is_time_window(node):
            return self.time_window
        if is_quantified(node):
            return compared(self, node)
        if isinstance(node, exp.Subquery | exp.Select | exp.SetOperation):
            return self._value(node)
        return None

    # Conditions

    def where(self, node: exp.Expr, clause: str = "WHERE") -> None:
        """Only the rows for which a condition is true; its conjuncts one by one."""
        for part in _conjuncts(node):
            if not self._restricted(part):
                self._select(part, clause)

    def _select(self, node: exp.Expr, clause: str) -> None:
        for conjunct in self.translator().condition(node, clause):
            if any(name.startswith(OUTER) for name in columns_of(conjunct)):
                self.correlated.append(conjunct)
            else:
                self.plan = select(self.plan, [conjunct])

    def _restricted(self, node: exp.Expr) -> bool:
        """Whether a conjunct is EXISTS or IN or their opposite, which restrict the rows."""
        anti = False
        while isinstance(node, exp.Not | exp.Paren):
            anti ^= isinstance(node, exp.Not)
            node = node.this
        if is_exists(node):
            inner, conjuncts = self.inner_rows(node.this)
            self.plan = matched(self.plan, inner, conjuncts, anti=anti)
            return True
        if (member := as_member(node)) is not None:
            node, is_opposite = member
            anti ^= is_opposite
        if not (isinstance(node, exp.In) and node.args.get("query")):
            return False
        inner, conjuncts = self.inner_rows(node.args["query"])
        equal, nulls = self._comparison(node, inner)
        self.plan = matched(self.plan, inner, [*conjuncts, *equal], anti=anti)
        for unknown in nulls if anti else ():
            self.plan = matched(self.plan, inner, [*conjuncts, unknown], anti=True, by_row=equal)
        return True

    def _comparison(self, node: exp.In, inner: Plan) -> tuple[list[Expression], list[Expression]]:
        """The conditions of IN for a row of the subquery, and when they are unknown."""
        tested = node.this.unnest()
        nodes = tested.expressions if isinstance(tested, exp.Tuple) else [tested]
        columns = refs(inner.schema)[: len(nodes)]
        if len(columns) < len(nodes) or (len(self.inner.names) != len(nodes)):
            raise self.text.error(
                node,
                f"IN compares {len(nodes)} with {len(self.inner.names)} columns.",
                "Select as many columns as are compared.",
            )
        values = [self.translator().expression(part) for part in nodes]
        try:
            equal = [call("=", a, b) for a, b in zip(values, columns, strict=True)]
        except ValueError as error:
            raise self.text.error(node, f"{error}.", "Give both one type.") from None
        if len(nodes) > 1:
            unknown = call("is null", equal[0] if len(equal) == 1 else call("and", *equal))
            return equal, [unknown]
        return equal, [call("is null", columns[0]), call("is null", values[0])]

    # Columns

    def new_name(self) -> str:
        self._added += 1
        return f"#{self.mark} {self._added}"

    def _mark(self, query: exp.Expr, more: Sequence[Expression]) -> Expression:
        """A column that tells whether a subquery has rows for a row."""
        inner, conjuncts = self.inner_rows(query)
        return self._marked(inner, [*conjuncts, *more])

    def _marked(self, inner: Plan, conjuncts: Sequence[Expression]) -> ColumnRef:
        name = self.new_name()
        sides = [
            extended(
                matched(self.plan, inner, conjuncts, anti=not found), {name: Literal(found, BOOL)}
            )
            for found in (True, False)
        ]
        self.plan = union_all(sides)
        return ColumnRef(name, BOOL)

    def member(self, node: exp.In) -> Expression:
        inner, conjuncts = self.inner_rows(node.args["query"])
        equal, nulls = self._comparison(node, inner)
        found = self._marked(inner, [*conjuncts, *equal])
        unknown = [self._marked(inner, [*conjuncts, null]) for null in nulls]
        either = unknown[0] if len(unknown) == 1 else call("or", *unknown)
        no, yes = Literal(False, BOOL), Literal(True, BOOL)
        return call("case", found, yes, either, Literal(None, VOID), no)

    def _value(self, node: exp.Expr) -> Expression:
        """A column with the one value of a subquery; NULL where it has no row."""
        try:
            reading = read_query(node, self.around.inside(self.scope))
            if reading.correlated and not self._is_by_equalities(reading):
                raise self.text.error(node, _BY_MORE, _BY_EQUALITIES)
        except SqlError as error:
            return self._value_beside(node, error)
        if len(reading.names) != 1:
            raise self.text.error(
                node,
                f"a subquery that stands for one value has {len(reading.names)} columns.",
                "Select one.",
            )
        plan, conjuncts = self._renamed(reading)
        if not conjuncts:
            if reading.nothing is None:
                single = aggregate("single", *refs(plan.schema))
                plan = grouped(plan, (), {self.new_name(): single}, always=True)
            self.plan = join(self.plan, plan)
            return refs(plan.schema)[0]
        return self._correlated_value(plan, conjuncts, reading, node)

    def _is_by_equalities(self, reading: Reading) -> bool:
        there = frozenset(reading.plan.schema.names)
        return all(
            equal_sides(c, frozenset(n for n in columns_of(c) if n.startswith(OUTER)), there)
            for c in reading.correlated
        )

    def _value_beside(self, node: exp.Expr, refusal: SqlError) -> Expression:
        """The value of a subquery that is read for all rows at once; else it stays refused."""
        reading = self._beside(node, refusal)
        if len(reading.names) != 1:
            raise refusal
        keys = {self.new_name(): name for name in reading.given}
        own = [self._own(name) for name in reading.given]
        plan = renamed(only(reading.plan, (*reading.given, "1")), (*keys, self.new_name()))
        single = aggregate("single", refs(plan.schema)[-1])
        value = ColumnRef(self.new_name(), single.type)
        values = grouped(plan, tuple(keys), {value.name: single})
        return self._looked_up(values, value, own, Literal(None, value.type))

    def _columns(self) -> Mapping[str, ColumnRef]:
        """The columns that subqueries may name, as they are called here."""
        if self.groups is not None:
            return self.groups
        return {ref.name: ref for ref in refs(self.plan.schema)}

    def _correlated_value(
        self, plan: Plan, conjuncts: Sequence[Expression], reading: Reading, node: exp.Expr
    ) -> Expression:
        here, there = frozenset(self.plan.schema.names), frozenset(plan.schema.names)
        pairs = [equal_sides(conjunct, here, there) for conjunct in conjuncts]
        sides = [pair for pair in pairs if pair is not None]
        present = [call("not", call("is null", b)) for _, b, safe in sides if not safe]
        keys = {self.new_name(): b for _, b, _ in sides}
        value = refs(plan.schema)[0]
        plan = only(extended(select(plan, present), keys), (*keys, value.name))
        if reading.nothing is None:
            single = aggregate("single", value)
            value = ColumnRef(self.new_name(), single.type)
            plan = grouped(plan, tuple(keys), {value.name: single})
        nothing = reading.nothing[0] if reading.nothing else Literal(None, value.type)
        return self._looked_up(plan, value, [a for a, _, _ in sides], nothing)

    def _looked_up(
        self, values: Plan, value: ColumnRef, key: Sequence[Expression], nothing: Expression
    ) -> ColumnRef:
        self.look_up(values, [value], key, [nothing])
        return value

    def look_up(
        self,
        values: Plan,
        columns: Sequence[ColumnRef],
        key: Sequence[Expression],
        nothing: Sequence[Expression],
    ) -> None:
        """Give the rows the values of their key, or else what there is for no rows."""
        own, added = self.plan, [ref.name for ref in columns]
        keys = [name for name in values.schema.names if name not in added]
        equal = [call("<=>", a, b) for a, b in zip(key, refs(values.schema, keys), strict=True)]
        found = only(join(own, values, equal), (*own.schema.names, *added))
        missing = restricted(own, only(values, keys), key, keys, anti=True)
        padded = project(missing, found.schema, (*refs(own.schema), *nothing))
        self.plan = union_all([found, padded])

    # Reading them

    def inner_rows(
        self, query: exp.Expr, *, by_equalities: bool = False
    ) -> tuple[Plan, list[Expression]]:
        """The rows of a subquery, and the conditions that tie them to a row of this query."""
        self._unlimit(query)
        try:
            reading = read_query(query, self.around.inside(self.scope))
            if by_equalities and reading.correlated and not self._is_by_equalities(reading):
                raise self.text.error(query, _BY_MORE, _BY_EQUALITIES)
        except SqlError as error:
            reading = self._beside(query, error)
        if reading.correlated and reading.nothing is not None:
            # An aggregate has a row for every row outside, also for one that nothing is tied to.
            refusal = self.text.error(
                query,
                "an aggregate without GROUP BY is tied to the query around it in a way that is not "
                "supported here.",
                "Compare a subquery that stands for one value, or add GROUP BY.",
            )
            reading = self._beside(query, refusal)
        self.inner = reading
        return self._renamed(reading)

    def _unlimit(self, query: exp.Expr) -> None:
        """A LIMIT inside EXISTS says nothing, unless it is 0 or counts behind an OFFSET."""
        node = query.unnest() if isinstance(query, exp.Subquery) else query
        if not (isinstance(node, exp.Select) and isinstance(query.parent, exp.Exists)):
            return
        limit = node.args.get("limit")
        number = limit and limit.args.get("expression")
        is_some = isinstance(number, exp.Literal) and number.name.isdecimal() and int(number.name)
        if is_some and not node.args.get("offset"):
            node.set("limit", None)

    def _beside(self, query: exp.Expr, refusal: SqlError) -> Reading:
        """A subquery that is read for all rows at once; else it stays refused."""
        try:
            reading = read_beside(query, self.around, self.scope, self._columns(), self.plan)
        except SqlError:
            raise refusal from None
        if not reading.given:
            raise refusal
        return reading

    def _renamed(self, reading: Reading) -> tuple[Plan, list[Expression]]:
        """With names of columns that this query has not, and conditions over these."""
        self._added += 1
        names = [f"#{self.mark} {self._added} {name}" for name in reading.plan.schema.names]
        plan = renamed(reading.plan, names)
        meanings: dict[str, Expression] = dict(
            zip(reading.plan.schema.names, refs(plan.schema), strict=True)
        )
        for conjunct in reading.correlated:
            for name in columns_of(conjunct):
                if name.startswith(OUTER):
                    meanings[name] = self._own(name)
        tied = [substituted(conjunct, meanings) for conjunct in reading.correlated]
        tied += [call("<=>", self._own(name), meanings[name]) for name in reading.given]
        return plan, tied

    def _own(self, name: str) -> ColumnRef:
        """A column of this query as it is called here."""
        found = self._columns().get(name.removeprefix(OUTER))
        if found is None:
            raise RefusalError(
                f"{name.removeprefix(OUTER)} is neither grouped nor aggregated.",
                "Add it to GROUP BY.",
            )
        return found


def _conjuncts(node: exp.Expr) -> list[exp.Expr]:
    inner = node.unnest()
    if isinstance(inner, exp.And):
        return [part for side in inner.flatten() for part in _conjuncts(side)]
    return [node]
