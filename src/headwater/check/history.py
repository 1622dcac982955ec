"""What happened at the sources: the transactions, and the view at every source state.

A source state is a vector: for each source the number of its transactions that are in. The
vectors with their steps are the PVM paper's state order diagram (section 4.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import TypeAlias

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.rows import Rows
from headwater.algebra.views import View
from headwater.protocol.transactions import Transaction

Vector: TypeAlias = tuple[int, ...]

MOST_VECTORS = 50_000
"""Beyond this many source states, properties that look at all of them are not decided."""
MOST_SEARCHED = 1_000_000
"""Beyond this many, a level that needs to look at all of them is not decided either."""


@dataclass(frozen=True, eq=False)
class History:
    """Initial relations and, per source, its transactions (or parts of them) in order."""

    view: View
    initial: Mapping[str, Rows]
    sources: tuple[str, ...]
    transactions: Mapping[str, tuple[Transaction, ...]]
    _views: dict[Vector, Rows] = field(default_factory=dict, repr=False)
    _relations: dict[tuple[str, int], Mapping[str, Rows]] = field(default_factory=dict, repr=False)

    @property
    def origin(self) -> Vector:
        return (0,) * len(self.sources)

    @cached_property
    def final(self) -> Vector:
        return tuple(len(self.transactions[source]) for source in self.sources)

    @property
    def size(self) -> int:
        """How many vectors there are."""
        total = 1
        for count in self.final:
            total *= count + 1
        return total

    def vectors(self) -> Iterator[Vector]:
        return product(*(range(count + 1) for count in self.final))

    def state_of(self, source: str, position: int) -> Mapping[str, Rows]:
        """The relations of a source after its first `position` transactions."""
        known = self._relations.get((source, position))
        if known is not None:
            return known
        if position == 0:
            state: Mapping[str, Rows] = self.initial
        else:
            deltas = self.transactions[source][position - 1].deltas
            before = self.state_of(source, position - 1)
            state = {**before, **{name: before[name] + delta for name, delta in deltas.items()}}
        self._relations[source, position] = state
        return state

    def view_at(self, vector: Vector) -> Rows:
        """The view at a source state, as a reader should see it; `FAILING` if there is an error."""
        known = self._views.get(vector)
        if known is None:
            places = {source: at for at, source in enumerate(self.sources)}
            state = {
                r.name: self.state_of(r.source, vector[places[r.source]])[r.name]
                for r in self.view.relations
            }
            known = self._views[vector] = self.view.judged(evaluate_view(self.view, state))
        return known

    def steps(self, vector: Vector) -> Iterable[tuple[Transaction, Vector]]:
        """Each whole transaction that can come next, with the vector after it."""
        for at, source in enumerate(self.sources):
            if vector[at] == self.final[at]:
                continue
            transaction = self.transactions[source][vector[at]]
            after = self._after(vector, transaction)
            first = min(self.sources.index(s) for s in transaction.spans)
            if after is not None and first == at:
                yield transaction, after

    def _after(self, vector: Vector, transaction: Transaction) -> Vector | None:
        """The vector after a transaction, if it comes next at all of its sources."""
        after = list(vector)
        for source in transaction.spans:
            at = self.sources.index(source)
            if vector[at] == self.final[at]:
                return None
            if self.transactions[source][vector[at]].id != transaction.id:
                return None
            after[at] += 1
        return tuple(after)

    def halves(self, vector: Vector) -> tuple[str, ...]:
        """The global transactions that a vector holds in part."""
        return tuple(
            name
            for name, places in self._global_places
            if len({vector[at] > position for at, position in places}) > 1
        )

    @cached_property
    def _global_places(self) -> tuple[tuple[str, tuple[tuple[int, int], ...]], ...]:
        """For each global transaction the (source, position) of each of its parts."""
        places: dict[str, list[tuple[int, int]]] = {}
        for at, source in enumerate(self.sources):
            for position, transaction in enumerate(self.transactions[source]):
                if len(transaction.spans) > 1:
                    places.setdefault(transaction.id, []).append((at, position))
        return tuple((name, tuple(found)) for name, found in places.items())

    @cached_property
    def matches(self) -> dict[Rows, tuple[Vector, ...]]:
        """Every view that some vector gives, with all those vectors."""
        found: dict[Rows, list[Vector]] = {}
        for vector in self.vectors():
            found.setdefault(self.view_at(vector), []).append(vector)
        return {view: tuple(vectors) for view, vectors in found.items()}


def at_most(a: Vector, b: Vector) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True))


def minimal(vectors: Iterable[Vector]) -> frozenset[Vector]:
    """The vectors that have no other one below them."""
    found = set(vectors)
    return frozenset(
        v for v in found if not any(other != v and at_most(other, v) for other in found)
    )
