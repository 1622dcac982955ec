"""Plans: what a query means, kept as a sum of joins for as long as it is one.

A `Sum` is a sum of joins whose branches may be guarded: a branch counts only for rows whose key
some other plan has, or has not. So outer, semi and anti joins, IN and EXISTS stay sums of joins,
each over base relations, and joining, selecting and projecting go into every branch. What goes
beyond (DISTINCT, groups, LIMIT, windows) is a node of a top over such sums.

`top_of` makes a top of a sum: each branch is a part. What may fail on a row is left to the top,
which sees only rows that exist: the terms of a delta also meet rows that never existed together.

Choices: joining sums multiplies their branches. Beyond `MOST_BRANCHES` the join is done by the top,
which then stores both sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from headwater.algebra.aggregates import Aggregate
from headwater.algebra.expressions import (
    Call,
    ColumnRef,
    Expression,
    Literal,
    can_fail,
    columns_of,
    is_late,
    show_expression,
    substituted,
    walk,
)
from headwater.algebra.functions.late import LATE, names_of
from headwater.algebra.schema import Schema
from headwater.algebra.sql.text import RefusalError
from headwater.algebra.tops import (
    Distinct,
    Exploded,
    Grouped,
    Part,
    Product,
    Project,
    Restrict,
    Select,
    Top,
    UnionAll,
    nodes_of,
)
from headwater.algebra.typing_rules import call
from headwater.algebra.values import BOOL, INT
from headwater.algebra.views import Join, Occurrence

MOST_BRANCHES = 8
_STRICT = frozenset({"=", "<>", "<", "<=", ">", ">=", "like"})


@dataclass(frozen=True)
class Guard:
    """Only rows whose key `by` has, or, if `anti`, has not; NULL is a key too."""

    key: tuple[Expression, ...]
    by: Plan
    by_key: tuple[str, ...]
    anti: bool
    deciding: int | None = None


@dataclass(frozen=True)
class Branch:
    """A join, and the guards of its rows; all expressions are over the join's columns."""

    occurrences: tuple[Occurrence, ...]
    condition: tuple[Expression, ...]
    outputs: tuple[Expression, ...]
    guards: tuple[Guard, ...] = ()

    @property
    def is_late(self) -> bool:
        return any(map(is_late, (*self.condition, *self.outputs)))


@dataclass(frozen=True)
class Sum:
    """A sum of guarded joins with one schema."""

    schema: Schema
    branches: tuple[Branch, ...]

    @property
    def is_linear(self) -> bool:
        """Whether it is stored as it is: nothing of it is left to a top."""
        return not any(branch.guards or branch.is_late for branch in self.branches)


@dataclass(frozen=True)
class Leaf(Part):
    """A part that has no place among the stored rows yet, with the join that it is."""

    join: Join | None = None


Plan: TypeAlias = Sum | Top


def refs(schema: Schema, names: Iterable[str] | None = None) -> tuple[ColumnRef, ...]:
    """The columns of a schema, or these of them, as expressions."""
    wanted = schema.names if names is None else tuple(names)
    return tuple(ColumnRef(name, schema.columns[schema.positions[name]].type) for name in wanted)


def table(occurrence: Occurrence) -> Sum:
    schema = occurrence.schema
    return Sum(schema, (Branch((occurrence,), (), refs(schema)),))


def select(plan: Plan, conjuncts: Iterable[Expression]) -> Plan:
    """The rows for which all conjuncts are true."""
    for conjunct in conjuncts:
        plan = _select(plan, conjunct)
    return plan


def _select(plan: Plan, conjunct: Expression) -> Plan:
    if not isinstance(plan, Sum):
        return Select(plan, conjunct)
    branches: list[Branch] = []
    empty: list[Branch] = []
    for branch in plan.branches:
        meaning = substituted(conjunct, dict(zip(plan.schema.names, branch.outputs, strict=True)))
        found = replace(branch, condition=(*branch.condition, meaning))
        # Rows that an outer join pads with NULL meet no condition that compares the NULL.
        never = _is_never(meaning) and not _is_never(conjunct)
        (empty if never else branches).append(found)
    return Sum(plan.schema, tuple(branches or empty[:1]))


def _is_never(conjunct: Expression) -> bool:
    """Whether a condition is plainly true for no row."""
    match conjunct:
        case Literal(value=value):
            return value is not True
        case Call(operator=name, arguments=arguments) if name in _STRICT:
            return any(isinstance(a, Literal) and a.value is None for a in arguments)
    return False


def project(plan: Plan, schema: Schema, outputs: Sequence[Expression]) -> Plan:
    if not isinstance(plan, Sum):
        return Project(plan, tuple(outputs), schema)
    branches = []
    for branch in plan.branches:
        meanings = dict(zip(plan.schema.names, branch.outputs, strict=True))
        branches.append(replace(branch, outputs=tuple(substituted(o, meanings) for o in outputs)))
    return Sum(schema, tuple(branches))


def extended(plan: Plan, columns: Mapping[str, Expression]) -> Plan:
    """The plan with further columns behind its own."""
    if not columns:
        return plan
    schema = plan.schema + Schema.of((name, e.type) for name, e in columns.items())
    return project(plan, schema, (*refs(plan.schema), *columns.values()))


def only(plan: Plan, names: Sequence[str]) -> Plan:
    """The plan with these of its columns, in this order."""
    if tuple(names) == plan.schema.names:
        return plan
    return project(plan, plan.schema.only(names), refs(plan.schema, names))


def renamed(plan: Plan, names: Sequence[str]) -> Plan:
    schema = Schema.of(zip(names, plan.schema.types, strict=True))
    return project(plan, schema, refs(plan.schema))


def union_all(plans: Sequence[Plan]) -> Plan:
    if all(isinstance(plan, Sum) for plan in plans):
        branches = [b for plan in plans if isinstance(plan, Sum) for b in plan.branches]
        return Sum(plans[0].schema, tuple(branches))
    return UnionAll(tuple(top_of(plan) for plan in plans))


def unguarded(plan: Plan) -> Plan:
    """At least the rows of a plan: good enough to find what matches them."""
    if not isinstance(plan, Sum):
        return plan
    return Sum(plan.schema, tuple(replace(branch, guards=()) for branch in plan.branches))


# Joins


def join(left: Plan, right: Plan, conjuncts: Sequence[Expression] = ()) -> Plan:
    """The pairs of rows for which all conjuncts are true."""
    if (
        isinstance(left, Sum)
        and isinstance(right, Sum)
        and len(left.branches) * len(right.branches) <= MOST_BRANCHES
        and not _has_late_keys(left, right, conjuncts)
    ):
        pairs = [_paired(a, b) for a in left.branches for b in right.branches]
        return select(Sum(left.schema + right.schema, tuple(pairs)), conjuncts)
    return _joined_by_the_top(left, right, conjuncts)


def _has_late_keys(left: Plan, right: Plan, conjuncts: Sequence[Expression]) -> bool:
    """Whether both sides meet by late keys alone: then the top finds the pairs by them."""
    ties = [c for c in conjuncts if _matched_by(c, left, right)]
    return bool(ties) and all(map(is_late, ties))


def _paired(left: Branch, right: Branch) -> Branch:
    right = _with_other_aliases(right, {o.alias for o in left.occurrences})
    return Branch(
        left.occurrences + right.occurrences,
        left.condition + right.condition,
        left.outputs + right.outputs,
        left.guards + right.guards,
    )


def _with_other_aliases(branch: Branch, taken: set[str]) -> Branch:
    """The branch with other aliases for its occurrences where these are taken."""
    meanings: dict[str, Expression] = {}
    occurrences = []
    used = {alias.lower() for alias in taken}
    for occurrence in branch.occurrences:
        alias, number = occurrence.alias, 1
        while alias.lower() in used:
            number += 1
            alias = f"{occurrence.alias}_{number}"
        used.add(alias.lower())
        new = replace(occurrence, alias=alias)
        occurrences.append(new)
        if alias != occurrence.alias:
            old = occurrence.schema.names
            meanings.update(zip(old, refs(new.schema), strict=True))
    if not meanings:
        return branch

    def changed(expressions: Iterable[Expression]) -> tuple[Expression, ...]:
        return tuple(substituted(expression, meanings) for expression in expressions)

    return Branch(
        tuple(occurrences),
        changed(branch.condition),
        changed(branch.outputs),
        tuple(replace(guard, key=changed(guard.key)) for guard in branch.guards),
    )


def _joined_by_the_top(left: Plan, right: Plan, conjuncts: Sequence[Expression]) -> Plan:
    """Pairs by equal keys; every other condition on the pairs."""
    here, there = frozenset(left.schema.names), frozenset(right.schema.names)
    left = select(left, [c for c in conjuncts if columns_of(c) and columns_of(c) <= here])
    right = select(right, [c for c in conjuncts if columns_of(c) and columns_of(c) <= there])
    rest: list[Expression] = []
    left_keys: dict[str, Expression] = {}
    right_keys: dict[str, Expression] = {}
    for conjunct in conjuncts:
        if columns_of(conjunct) and (columns_of(conjunct) <= here or columns_of(conjunct) <= there):
            continue
        if pair := equal_sides(conjunct, here, there):
            a, b, null_safe = pair
            name = f"#{len(left_keys)}"
            left_keys[f"{name} left"], right_keys[f"{name} right"] = a, b
            if not null_safe:
                left = select(left, [call("not", call("is null", a))])
        else:
            rest.append(conjunct)
    whole = left.schema.names + right.schema.names
    left, left_names = keyed(left, left_keys)
    right, right_names = keyed(right, right_keys)
    paired: Plan = Product(top_of(left), top_of(right), left_names, right_names)
    return only(select(paired, rest), whole)


def keyed(plan: Plan, keys: Mapping[str, Expression]) -> tuple[Plan, tuple[str, ...]]:
    """The plan with these keys as columns, and their names."""
    added = {name: e for name, e in keys.items() if not isinstance(e, ColumnRef)}
    names = tuple(e.name if isinstance(e, ColumnRef) else name for name, e in keys.items())
    return extended(plan, added), names


def equal_sides(
    conjunct: Expression, here: frozenset[str], there: frozenset[str]
) -> tuple[Expression, Expression, bool] | None:
    """The two sides of an equality between both, and whether NULL equals NULL in it."""
    match conjunct:
        case Call(operator=("=" | "<=>") as operator, arguments=(a, b)) if a.type == b.type:
            safe = operator == "<=>"
            if columns_of(a) and columns_of(b):
                if columns_of(a) <= here and columns_of(b) <= there:
                    return a, b, safe
                if columns_of(b) <= here and columns_of(a) <= there:
                    return b, a, safe
    return None


def matching_key(left: Plan, conjuncts: Sequence[Expression]) -> tuple[str, ...]:
    """The columns of the left side on which it depends whether a row has a match."""
    looked_at = frozenset().union(*map(columns_of, conjuncts))
    return tuple(name for name in left.schema.names if name in looked_at)


def restricted(
    plan: Plan,
    by: Plan,
    key: Sequence[Expression],
    by_key: Sequence[str],
    *,
    anti: bool,
    deciding: int | None = None,
) -> Plan:
    """The rows whose key `by` has, or, if `anti`, has not; see `Restrict` for `deciding`."""
    if isinstance(plan, Sum):
        branches = []
        for branch in plan.branches:
            meanings = dict(zip(plan.schema.names, branch.outputs, strict=True))
            own = tuple(substituted(part, meanings) for part in key)
            guard = Guard(own, by, tuple(by_key), anti, deciding)
            branches.append(replace(branch, guards=(*branch.guards, guard)))
        return Sum(plan.schema, tuple(branches))
    names = plan.schema.names
    with_key, key_names = keyed(plan, {f"#key {at}": part for at, part in enumerate(key)})
    found = Restrict(top_of(with_key), top_of(by), key_names, tuple(by_key), anti, deciding)
    return only(found, names)


def matched(
    left: Plan,
    right: Plan,
    conjuncts: Sequence[Expression],
    *,
    anti: bool,
    by_row: Sequence[Expression] = (),
) -> Plan:
    """The rows of the left side that have a match on the right, or, if `anti`, have none.

    It is decided by the columns that the conditions and `by_row` look at.
    """
    linear = isinstance(left, Sum) and isinstance(right, Sum)
    if not linear or _has_late_keys(left, right, conjuncts):
        keys = [_matched_by(conjunct, left, right) for conjunct in conjuncts]
        if all(keys):
            return _matched_by_keys(left, right, [key for key in keys if key], anti=anti)
    key = matching_key(left, (*conjuncts, *by_row))
    whole = (*key, *(name for name in left.schema.names if name not in key))
    by = only(join(unguarded(left), right, conjuncts), whole)
    own = refs(left.schema, whole)
    return restricted(left, by, own, whole, anti=anti, deciding=len(key))


def _matched_by(
    conjunct: Expression, left: Plan, right: Plan
) -> tuple[Expression, Expression, bool] | None:
    return equal_sides(conjunct, frozenset(left.schema.names), frozenset(right.schema.names))


def _matched_by_keys(
    left: Plan,
    right: Plan,
    keys: Sequence[tuple[Expression, Expression, bool]],
    *,
    anti: bool,
) -> Plan:
    """Matches where only equal keys decide: the right side need not be joined for that."""
    present = [call("not", call("is null", b)) for _, b, null_safe in keys if not null_safe]
    by, names = keyed(select(right, present), {f"#by {at}": b for at, (_, b, _) in enumerate(keys)})
    return restricted(
        left, only(by, tuple(dict.fromkeys(names))), [a for a, _, _ in keys], names, anti=anti
    )


def outer_join(left: Plan, right: Plan, conjuncts: Sequence[Expression], *, keeps: str) -> Plan:
    """LEFT, RIGHT or FULL: the join, and the rows without a match, NULL on the other side."""
    inner = join(left, right, conjuncts)
    plans = [inner]
    schema = inner.schema
    if keeps in ("LEFT", "FULL"):
        alone = matched(left, right, conjuncts, anti=True)
        plans.append(project(alone, schema, (*refs(left.schema), *_nulls(right.schema))))
    if keeps in ("RIGHT", "FULL"):
        alone = matched(right, left, conjuncts, anti=True)
        plans.append(project(alone, schema, (*_nulls(left.schema), *refs(right.schema))))
    return union_all(plans)


def _nulls(schema: Schema) -> tuple[Literal, ...]:
    return tuple(Literal(None, kind) for kind in schema.types)


# Beyond sums of joins


def distinct(plan: Plan) -> Plan:
    return Distinct(top_of(plan))


def grouped(
    plan: Plan,
    keys: Sequence[str],
    aggregates: Mapping[str, Aggregate],
    *,
    always: bool = False,
) -> Plan:
    """A row for each value of the columns `keys`, with the aggregates under their names."""
    schema = plan.schema.only(keys) + Schema.of((n, a.type) for n, a in aggregates.items())
    return Grouped(top_of(plan), tuple(keys), tuple(aggregates.values()), schema, always)


def exploded(
    plan: Plan, column: str, names: Sequence[str], first: int | None, *, outer: bool
) -> Plan:
    """Each row with each element of an array of it, under the first of the names.

    With a second name, behind the element is its number, and `first` is that of the first one.
    """
    kind = plan.schema.columns[plan.schema.positions[column]].type.element
    added = Schema.of(zip(names, (kind, INT), strict=False))
    return Exploded(top_of(plan), column, plan.schema + added, first, outer)


def top_of(plan: Plan) -> Top:
    """The plan as a tree over leaves, each of which is one join."""
    if not isinstance(plan, Sum):
        return plan
    tops = tuple(_branch_top(branch, plan.schema) for branch in plan.branches)
    return tops[0] if len(tops) == 1 else UnionAll(tops)


def _branch_top(branch: Branch, schema: Schema) -> Top:
    safe = tuple(c for c in branch.condition if not can_fail(c) and c != Literal(True, BOOL))
    lifting = _Lifting()
    _check_ties(branch, safe)
    late = [lifting.lifted(c) for c in branch.condition if can_fail(c)]
    keys = [tuple(lifting.lifted(part) for part in guard.key) for guard in branch.guards]
    outputs = tuple(lifting.lifted(output) for output in branch.outputs)
    leaf_schema = Schema.of((name, e.type) for e, name in lifting.names.items())
    stored = Join(branch.occurrences, safe, tuple(lifting.names), leaf_schema)
    top: Plan = Leaf(leaf_schema.names, leaf_schema, join=stored)
    top = select(top, late)
    for guard, key in zip(branch.guards, keys, strict=True):
        top = restricted(top, guard.by, key, guard.by_key, anti=guard.anti, deciding=guard.deciding)
    return top_of(project(top, schema, outputs))


def _check_ties(branch: Branch, stored: Sequence[Expression]) -> None:
    """Refuse a late condition that alone ties tables together: all pairs would be stored."""
    together = [frozenset({occurrence.alias}) for occurrence in branch.occurrences]
    for conjunct in stored:
        tied = _aliases_in(conjunct, branch)
        met = frozenset().union(tied, *(group for group in together if group & tied))
        together = [*(group for group in together if not group & tied), met]
    for conjunct in branch.condition:
        tied = _aliases_in(conjunct, branch)
        if is_late(conjunct) and not any(tied <= group for group in together):
            raise RefusalError(
                f"{show_expression(conjunct)} joins {' and '.join(sorted(tied))} by a function "
                "that only Spark computes, so that every pair of their rows would be stored.",
                "Write it as JOIN ... ON with = between them, or join them by other columns too.",
                about=_late_names(conjunct),
            )


def _late_names(expression: Expression) -> frozenset[str]:
    """What the late functions of an expression may be called where it was written."""
    operators = {e.operator for e in walk(expression) if isinstance(e, Call)}
    return frozenset(
        name for operator in operators if operator.startswith(LATE) for name in names_of(operator)
    )


def _aliases_in(conjunct: Expression, branch: Branch) -> frozenset[str]:
    columns = columns_of(conjunct)
    return frozenset(o.alias for o in branch.occurrences if columns & set(o.schema.names))


class _Lifting:
    """What is stored of a branch: the largest expressions that cannot fail."""

    def __init__(self) -> None:
        self.names: dict[Expression, str] = {}

    def lifted(self, expression: Expression) -> Expression:
        """The expression over the stored columns."""
        if isinstance(expression, Literal):
            return expression
        if isinstance(expression, Call) and (can_fail(expression) or not columns_of(expression)):
            return replace(
                expression, arguments=tuple(self.lifted(part) for part in expression.arguments)
            )
        name = self.names.setdefault(expression, f"c{len(self.names) + 1}")
        return ColumnRef(name, expression.type)


def leaves_of(top: Top) -> Iterator[Leaf]:
    """The leaves of a tree, each once."""
    yield from dict.fromkeys(node for node in nodes_of(top) if isinstance(node, Leaf))
