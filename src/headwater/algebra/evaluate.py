"""Plain evaluation of terms on rows, and the two forms of a transaction's delta.

Joins greedily: it starts from the smallest bound rows and always joins a factor that an
equality connects, if there is one. Conditions apply as soon as their columns are there;
those that may fail on a row come last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from headwater.algebra.expressions import Call, Expression, columns_of
from headwater.algebra.rows import Equality, Rows
from headwater.algebra.schema import Schema
from headwater.algebra.terms import (
    Bound,
    Query,
    Term,
    bind_delta,
    changed_occurrences,
    query_of,
)
from headwater.algebra.views import View
from headwater.errors import TooManyRowsError

State: TypeAlias = Mapping[str, Rows]
"""The contents of base relations by name."""


def evaluate(
    query: Query, state: State, schema: Schema | None = None, most: int | None = None
) -> Rows:
    """The sum of the query's terms over base relations as they are in `state`.

    Raises TooManyRowsError before a join that would have more than `most` rows.
    """
    schema = schema or query[0].join.schema
    return Rows.sum(schema, (evaluate_term(term, state, most) for term in query))


def evaluate_shown(view: View, state: State) -> Rows:
    """What the view shows over base relations as they are in `state`."""
    return view.shown(evaluate_view(view, state))


def evaluate_view(view: View, state: State, most: int | None = None) -> Rows:
    """What is stored of the view over base relations as they are in `state`."""
    return evaluate(query_of(view), state, view.schema, most)


def evaluate_term(term: Term, state: State, most: int | None = None) -> Rows:
    return evaluate_with(term, lambda at: state[term.occurrence(at).relation.name], most)


def evaluate_with(term: Term, read: Callable[[int], Rows], most: int | None = None) -> Rows:
    """Evaluate a term whose base occurrences are given by `read`, each by its place."""
    remaining = [
        factor.rows
        if isinstance(factor, Bound)
        else read(factor.at).renamed(term.occurrence(factor.at).schema)
        for factor in term.factors
    ]
    conjuncts = [conjunct for conjunct, _ in term.join.safe_conjuncts]
    remaining = [_filtered(rows, conjuncts) for rows in remaining]
    joined = remaining.pop(min(range(len(remaining)), key=lambda at: remaining[at].size_hint))
    while remaining:
        if not joined.size_hint:
            return Rows.empty(term.join.schema)
        at = _next_factor(joined, remaining, conjuncts)
        other = remaining.pop(at)
        crossing = [c for c in conjuncts if _crosses(c, joined.schema, other.schema)]
        equalities = [pair for c in crossing if (pair := _equality(c, joined.schema, other.schema))]
        rest = [c for c in crossing if not _equality(c, joined.schema, other.schema)]
        if most is not None and joined.join_size(other, equalities) > most:
            raise TooManyRowsError(f"A join would have more than {most:,} rows.")
        joined = _filtered(joined.join(other, equalities), rest)
    for conjunct in term.join.late_conjuncts:
        joined = joined.select(conjunct)
    return joined.project(term.join.schema, term.join.outputs).scaled(term.coefficient)


def telescoped_delta(view: View, deltas: State, old: State, new: State) -> Rows:
    """A transaction's effect on a view: sum over i of V(new, ..., delta_i, ..., old).

    One term for each changed occurrence, with those before it in the new state and those
    after it in the old one.
    """
    parts = []
    for term in query_of(view):
        for place in changed_occurrences(term, deltas):
            bound = bind_delta(term, place, deltas[term.occurrence(place).relation.name])
            parts.append(evaluate_with(bound, _telescope(bound, place, old, new)))
    return Rows.sum(view.schema, parts)


def _telescope(term: Term, place: int, old: State, new: State) -> Callable[[int], Rows]:
    def read(at: int) -> Rows:
        return (new if at < place else old)[term.occurrence(at).relation.name]

    return read


def _filtered(rows: Rows, conjuncts: list[Expression]) -> Rows:
    for conjunct in conjuncts:
        if columns_of(conjunct) <= rows.schema.positions.keys():
            rows = rows.select(conjunct)
    return rows


def _next_factor(joined: Rows, remaining: list[Rows], conjuncts: list[Expression]) -> int:
    def cost(at: int) -> tuple[bool, int]:
        other = remaining[at]
        connected = any(_equality(c, joined.schema, other.schema) for c in conjuncts)
        return (not connected, other.size_hint)

    return min(range(len(remaining)), key=cost)


def _crosses(conjunct: Expression, left: Schema, right: Schema) -> bool:
    """Whether a conjunct can be decided on the join of both and on neither alone."""
    names = columns_of(conjunct)
    here, there = left.positions.keys(), right.positions.keys()
    return names <= here | there and not (names <= here or names <= there)


def _equality(conjunct: Expression, left: Schema, right: Schema) -> Equality | None:
    match conjunct:
        case Call("=", (a, b)) if columns_of(a) and columns_of(b):
            here, there = left.positions.keys(), right.positions.keys()
            if columns_of(a) <= here and columns_of(b) <= there:
                return a, b
            if columns_of(b) <= here and columns_of(a) <= there:
                return b, a
    return None
