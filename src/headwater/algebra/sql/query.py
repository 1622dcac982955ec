"""Queries as SQL nests them: WITH, set operations, parentheses, and SELECTs in their scopes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from headwater.algebra.expressions import ColumnRef, Expression, Literal
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.names import OUTER, Scope
from headwater.algebra.sql.ordering import limited
from headwater.algebra.sql.plans import (
    Plan,
    distinct,
    only,
    project,
    refs,
    restricted,
    top_of,
    union_all,
)
from headwater.algebra.sql.text import SqlText
from headwater.algebra.tops import Less
from headwater.algebra.typing_rules import cast, common_type
from headwater.algebra.values import Type

_SET_PARTS = frozenset(
    {"this", "expression", "distinct", "by_name", "with_", "order", "limit", "offset"}
)
_SUBQUERY_PARTS = frozenset({"this", "alias", "with_", "order", "limit", "offset", "joins"})


@dataclass(frozen=True)
class Reading:
    """What a query means: its rows, and the names of its columns.

    The plan's own columns are numbered. Behind them, in a subquery, are those that the conditions
    in `correlated` look at: conditions with columns of the query around it.
    """

    plan: Plan
    names: tuple[str, ...]
    printed: tuple[str, ...] = ()
    items: tuple[tuple[str, int], ...] = ()
    """Each column as it was written, and where."""
    correlated: tuple[Expression, ...] = ()
    nothing: tuple[Expression, ...] | None = None
    """For aggregates without GROUP BY: the columns where there are no rows."""
    given: tuple[str, ...] = ()
    """The columns, behind the numbered ones, that tell for which rows around it a row is."""

    @property
    def schema(self) -> Schema:
        """The numbered columns."""
        return self.plan.schema.only([str(at) for at in range(1, len(self.names) + 1)])


@dataclass(frozen=True)
class Environment:
    """What names mean where a query stands."""

    text: SqlText
    relations: tuple[Relation, ...]
    parts: Mapping[int, SqlText] = field(default_factory=dict)
    """The text of each SELECT."""
    named: Mapping[str, Reading] = field(default_factory=dict)
    """The queries of WITH, by their names in small letters."""
    views: Mapping[str, Reading] = field(default_factory=dict)
    """Other views of the project, by their names in small letters."""
    outer: Scope | None = None
    """The names of the query around this one."""
    given: Plan | None = None
    """Where a subquery is read for all rows around it at once: these, each once."""

    def inside(self, scope: Scope) -> Environment:
        """What names mean in a subquery of a query with this scope."""
        return replace(self, outer=scope.seen_from_inside(), given=None)

    def apart(self) -> Environment:
        """What names mean in a subquery of FROM, which does not see the tables beside it."""
        return replace(self, outer=None, given=None)


def read_beside(
    node: exp.Expr, around: Environment, scope: Scope, rows: Mapping[str, ColumnRef], plan: Plan
) -> Reading:
    """What a query means for each row of a plan, whose columns it may use anywhere.

    `rows` says under which names of columns it knows those of the plan. It is read twice: first to
    see which columns it looks at, so that it is computed once for each of their values.
    """
    used: set[str] = set()
    names = Schema.of((OUTER + name, ref.type) for name, ref in rows.items())
    every = project(plan, names, tuple(rows.values()))
    inside = replace(around, outer=scope.seen_from_inside().noting(used), given=every)
    read_query(node, inside)
    wanted = [name for name in names.names if name in used]
    if not wanted:
        return read_query(node, around.apart())
    return read_query(node, replace(inside, given=distinct(only(every, wanted))))


def read_query(node: exp.Expr, around: Environment) -> Reading:
    """What a query means; SqlError says what is wrong and where."""
    from headwater.algebra.sql.select import read_select

    inside = _with_named(node, around)
    if isinstance(node, exp.Select):
        return read_select(node, inside)
    if isinstance(node, exp.SetOperation):
        _check_parts(node, inside, _SET_PARTS)
        return limited(_set_operation(node, inside), node, inside.text)
    if isinstance(node, exp.Subquery):
        _check_parts(node, inside, _SUBQUERY_PARTS)
        return limited(read_query(node.this, inside), node, inside.text)
    raise around.text.error(
        node, f"{node.sql('spark')} is not a query that a view may use.", "Write a SELECT."
    )


def _check_parts(node: exp.Expr, around: Environment, allowed: frozenset[str]) -> None:
    for part, value in node.args.items():
        if value and part not in allowed:
            word = part.strip("_").upper()
            raise around.text.error(node, f"{word} is not supported here.", "Leave it out.")


def _with_named(node: exp.Expr, around: Environment) -> Environment:
    clause = node.args.get("with_")
    if clause is None:
        return around
    from headwater.algebra.sql.recursive import check_order, read_recursive, reads_of

    is_recursive = bool(clause.args.get("recursive"))
    if is_recursive:
        check_order(clause.expressions, around.text)
    seen: set[str] = set()
    for query in clause.expressions:
        if query.alias.lower() in seen:
            message = f"WITH names {query.alias} twice."
            raise around.text.error(query, message, "Give one of them another name.")
        seen.add(query.alias.lower())
        if is_recursive and any(reads_of(query.this, query.alias.lower())):
            reading = read_recursive(query, around)
            around = replace(around, named={**around.named, query.alias.lower(): reading})
            continue
        reading = read_query(query.this, around.apart())
        columns = query.args["alias"].args.get("columns") or ()
        if columns:
            reading = named(reading, [around.text.name(c) for c in columns], query, around.text)
        around = replace(around, named={**around.named, query.alias.lower(): reading})
    return around


def named(reading: Reading, names: Sequence[str], node: exp.Expr, text: SqlText) -> Reading:
    """The query with other names for its columns."""
    if len(names) != len(reading.names):
        raise text.error(
            node,
            f"{len(names)} names are given, and the query has {len(reading.names)} columns.",
            "Name each column.",
        )
    return replace(reading, names=tuple(names))


# Set operations


def _set_operation(node: exp.SetOperation, around: Environment) -> Reading:
    left, right = read_query(node.left, around), read_query(node.right, around)
    word = {exp.Union: "UNION", exp.Intersect: "INTERSECT"}.get(type(node), "EXCEPT")
    for side, place in ((left, node.left), (right, node.right)):
        if side.correlated:
            raise around.text.error(
                place,
                f"{word} inside a subquery names a column from outside.",
                "Use only columns of its own tables there.",
            )
    if node.args.get("by_name"):
        left, right = (_by_name(side, left, right, node, around.text) for side in (left, right))
    a, b = _alike(left, right, node, word, around)
    plan = _combined(word, a, b, is_distinct=bool(node.args.get("distinct")))
    return Reading(plan, left.names, left.printed, left.items, given=left.given)


def _by_name(
    side: Reading, left: Reading, right: Reading, node: exp.Expr, text: SqlText
) -> Reading:
    """One side with the columns of both by their names, NULL where it has none."""
    columns: dict[str, tuple[str, Type, tuple[str, int]]] = {}
    own: dict[str, int] = {}
    for each in (left, right):
        seen: set[str] = set()
        for at, name in enumerate(each.names):
            if name.lower() in seen:
                raise text.error(node, f"two columns are named {name}.", "Rename one of them.")
            seen.add(name.lower())
            columns.setdefault(name.lower(), (name, each.schema.types[at], each.items[at]))
            if each is side:
                own[name.lower()] = at
    known = refs(side.schema)
    outputs = [
        known[own[name]] if name in own else Literal(None, kind)
        for name, (_, kind, _) in columns.items()
    ]
    given = refs(side.plan.schema, side.given)
    names = [*(str(at) for at in range(1, len(outputs) + 1)), *side.given]
    types = (output.type for output in (*outputs, *given))
    plan = project(side.plan, Schema.of(zip(names, types, strict=True)), (*outputs, *given))
    printed = side.printed or ("",) * len(side.names)
    return replace(
        side,
        plan=plan,
        names=tuple(name for name, _, _ in columns.values()),
        printed=tuple(printed[own[name]] if name in own else "" for name in columns),
        items=tuple(item for _, _, item in columns.values()),
    )


def _combined(word: str, a: Plan, b: Plan, *, is_distinct: bool) -> Plan:
    if word == "UNION":
        both = union_all([a, b])
        return distinct(both) if is_distinct else both
    if is_distinct:
        names, columns = b.schema.names, refs(a.schema)
        return distinct(restricted(a, b, columns, names, anti=word == "EXCEPT"))
    left, right = top_of(a), top_of(b)
    return Less(left, right) if word == "EXCEPT" else Less(left, Less(left, right))


def _alike(
    left: Reading, right: Reading, node: exp.SetOperation, word: str, around: Environment
) -> tuple[Plan, Plan]:
    """Both sides with the same types, and the names of the left one."""
    if len(left.names) != len(right.names):
        place = around.parts.get(id(node.right.unnest()), around.text).keyword("SELECT")
        raise around.text.error_at(
            place,
            f"this SELECT has {_columns(len(right.names))}, and the first one has "
            f"{len(left.names)}.",
            f"{word} needs as many columns in each.",
        )
    kinds = []
    pairs = zip(left.schema.types, right.schema.types, left.names, strict=True)
    for at, (a, b, name) in enumerate(pairs, 1):
        try:
            kinds.append(common_type([a, b]))
        except ValueError:
            raise around.text.error_at(
                right.items[at - 1][1],
                f"column {at} is of type {b}, and in the first SELECT ({name}) of type {a}.",
                "Give both one type with CAST.",
            ) from None
    schema = Schema.of((str(at), kind) for at, kind in enumerate(kinds, 1))
    schema += left.plan.schema.only(left.given)
    first, second = (
        project(
            side.plan,
            schema,
            [
                *(cast(ref, k) for ref, k in zip(refs(side.schema), kinds, strict=True)),
                *refs(side.plan.schema, side.given),
            ],
        )
        for side in (left, right)
    )
    return first, second


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"
