"""Terms and queries: joins in which some relations are replaced by known rows.

A term is `proj(cond(~r1 x ... x ~rn))`, each `~ri` a base relation or bound rows (ECA
section 4.2); a query is a sum of terms. Rows can also be bound for several relations at once:
that is the answer of a source to a part of the term, joined already (`Q<A>` in Strobe
section 5.1). Substituting an update gives a smaller query, `V<U>`.

Choices: the papers substitute one tuple of one relation. Here a whole transaction is
substituted at once, over any number of occurrences, by inclusion and exclusion, so that
`Q[before T] = Q[after T] - Q<T>[after T]` holds for every transaction and for a relation
that occurs twice. For one changed occurrence it is the papers' definition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TypeAlias

from headwater.algebra.expressions import ColumnRef, Expression, columns_of
from headwater.algebra.hashing import cached_hash
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.views import Join, Occurrence, View


@dataclass(frozen=True, slots=True)
class Base:
    """A base relation, still to be read at its source; `at` is the occurrence."""

    at: int


@dataclass(frozen=True, slots=True)
class Bound:
    """Known rows in place of one or several occurrences, joined already.

    A column may be missing once nothing needs it any more.
    """

    at: tuple[int, ...]
    rows: Rows


Factor: TypeAlias = Base | Bound


@cached_hash
@dataclass(frozen=True)
class Term:
    """`coefficient * proj(cond(factors))`; the factors divide the join's occurrences."""

    join: Join
    factors: tuple[Factor, ...]
    coefficient: int = 1

    @cached_property
    def base(self) -> tuple[int, ...]:
        """The occurrences that are still base relations."""
        return tuple(factor.at for factor in self.factors if isinstance(factor, Base))

    @cached_property
    def bound(self) -> tuple[Bound, ...]:
        return tuple(factor for factor in self.factors if isinstance(factor, Bound))

    def occurrence(self, at: int) -> Occurrence:
        return self.join.occurrences[at]

    def bind(self, at: Iterable[int], rows: Rows) -> Term:
        """The term with `rows` in place of these occurrences and of all bound factors in them."""
        covered = frozenset(at)
        kept = [f for f in self.factors if not covered >= _places(f)]
        factors = sorted([*kept, Bound(tuple(sorted(covered)), rows)], key=_first_place)
        return replace(self, factors=tuple(factors))

    def scaled(self, factor: int) -> Term:
        return replace(self, coefficient=self.coefficient * factor)

    def part(self, at: Iterable[int]) -> Term:
        """The portion of the term over these occurrences, as a term of its own.

        Its output has the columns that the rest still needs: those of the outputs and of
        conditions that reach further or may fail, in the order of the occurrences, however
        the portion came about. The coefficient stays with the whole.
        """
        places = tuple(sorted(frozenset(at)))
        inner = frozenset(places)
        needed = self._needed_outside(inner)
        factors = tuple(f for f in self.factors if _places(f) <= inner)
        available = [column for f in factors for column in self._schema_of(f).columns]
        names = {column.name for column in available}
        kept = tuple(
            sorted(
                (column for column in available if column.name in needed),
                key=lambda column: self.join.column_order[column.name],
            )
        )
        numbers = {old: new for new, old in enumerate(places)}
        join = Join(
            tuple(self.join.occurrences[at] for at in places),
            tuple(c for c, _ in self.join.safe_conjuncts if columns_of(c) <= names),
            tuple(ColumnRef(column.name, column.type) for column in kept),
            Schema(kept),
        )
        return Term(join, tuple(_renumbered(f, numbers) for f in factors))

    def _needed_outside(self, inner: frozenset[int]) -> frozenset[str]:
        outside: list[Expression] = [*self.join.outputs, *self.join.late_conjuncts]
        outside += [c for c, reach in self.join.safe_conjuncts if not reach <= inner]
        return frozenset().union(*(columns_of(expression) for expression in outside))

    def _schema_of(self, factor: Factor) -> Schema:
        if isinstance(factor, Bound):
            return factor.rows.schema
        return self.join.occurrences[factor.at].schema


Query: TypeAlias = tuple[Term, ...]


def query_of(view: View) -> Query:
    """The view itself as a query: nothing bound."""
    return tuple(
        Term(join, tuple(Base(at) for at in range(len(join.occurrences)))) for join in view.joins
    )


def substitute(query: Query, deltas: Mapping[str, Rows]) -> Query:
    """`Q<T>`: the query with a transaction's changes substituted, to be read after it.

    `deltas` maps relation names to signed rows. For every term the sum over the non-empty
    sets S of changed base occurrences of `(-1)^(|S|+1)` times the term with S bound.
    """
    return tuple(
        _bind_all(term, subset, deltas).scaled(1 if len(subset) % 2 else -1)
        for term in query
        for subset in _subsets(changed_occurrences(term, deltas))
    )


def negated(query: Query) -> Query:
    return tuple(term.scaled(-1) for term in query)


def changed_occurrences(term: Term, deltas: Mapping[str, Rows]) -> tuple[int, ...]:
    """The base occurrences whose relation a transaction changes."""
    return tuple(at for at in term.base if deltas.get(term.occurrence(at).relation.name))


def bind_delta(term: Term, at: int, delta: Rows) -> Term:
    """The term with a relation's change in place of one of its occurrences."""
    return term.bind((at,), delta.renamed(term.occurrence(at).schema))


def _bind_all(term: Term, places: Iterable[int], deltas: Mapping[str, Rows]) -> Term:
    for at in places:
        term = bind_delta(term, at, deltas[term.occurrence(at).relation.name])
    return term


def _subsets(places: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
    for size in range(1, len(places) + 1):
        yield from combinations(places, size)


def _places(factor: Factor) -> frozenset[int]:
    return frozenset(factor.at) if isinstance(factor, Bound) else frozenset((factor.at,))


def _first_place(factor: Factor) -> int:
    return min(_places(factor))


def _renumbered(factor: Factor, numbers: Mapping[int, int]) -> Factor:
    if isinstance(factor, Bound):
        return Bound(tuple(numbers[at] for at in factor.at), factor.rows)
    return Base(numbers[factor.at])
