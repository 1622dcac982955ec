"""The definitions of docs/consistency.md, decided by trying everything.

Nothing here is clever, and nothing comes from the checker but the view at a vector. Only for
histories of a few transactions.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise, product

from headwater.algebra.rows import Rows
from headwater.check.history import History

Vector = tuple[int, ...]
LEVELS = ("none", "convergent", "weak", "strong", "complete")


def judge(history: History, states: Sequence[Rows]) -> tuple[str, dict[str, bool]]:
    """The level of a run and all of its properties."""
    oracle = _Oracle(history, states)
    found = oracle.properties()
    reached = [
        found["convergence"],
        found["weak_consistency"],
        found["consistency"],
        found["completeness"],
    ]
    level = next((at for at, holds in enumerate(reached) if not holds), len(reached))
    return LEVELS[level], found


class _Oracle:
    def __init__(self, history: History, states: Sequence[Rows]) -> None:
        self.history = history
        self.states = states
        self.counts = [len(history.transactions[source]) for source in history.sources]
        self.origin: Vector = tuple(0 for _ in self.counts)
        self.final: Vector = tuple(self.counts)
        self.vectors: list[Vector] = list(product(*(range(n + 1) for n in self.counts)))

    def properties(self) -> dict[str, bool]:
        states, walks = self.states, list(self.walks([self.origin]))
        seen = [[self.view(vector) for vector in walk] for walk in walks]
        convergent = states[-1] == self.view(self.final)
        matched = all(self.matches(state) for state in states)
        chained = any(chain[0] == self.origin for chain in self.chains(whole=True, strict=False))
        strict = any(chain[0] == self.origin for chain in self.chains(whole=True, strict=True))
        strong = chained and convergent
        return {
            "convergence": convergent,
            "weak_consistency": matched,
            "pairwise_consistency": self.pairwise(),
            "consistency": chained,
            "strong_consistency": strong,
            "strict_order": strong and strict,
            "completeness": any(deduplicated(views) == deduplicated(states) for views in seen),
            "completeness_in_any_order": strong
            and any(all(view in states for view in views) for views in seen),
            "validity": matched,
            "order_consistency": any(True for _ in self.chains(whole=False, strict=False)),
            "up_to_dateness": all(
                any(vector[at] == count for state in states for vector in self.matches(state))
                for at, count in enumerate(self.counts)
            ),
            "view_management": any(
                chain[-1] == self.final for chain in self.chains(whole=False, strict=False)
            ),
        }

    def view(self, vector: Vector) -> Rows:
        return self.history.view_at(vector)

    def matches(self, state: Rows) -> list[Vector]:
        return [vector for vector in self.vectors if self.view(vector) == state]

    def whole(self, vector: Vector) -> bool:
        """Whether every transaction is in at all of its sources or at none."""
        inside: dict[str, set[str]] = {}
        for source, count in zip(self.history.sources, vector, strict=True):
            for transaction in self.history.transactions[source][:count]:
                inside.setdefault(transaction.id, set()).add(source)
        spans = {t.id: set(t.spans) for ts in self.history.transactions.values() for t in ts}
        return all(sources == spans[name] for name, sources in inside.items())

    def chains(self, *, whole: bool, strict: bool) -> Iterator[tuple[Vector, ...]]:
        """Every choice of a vector for each state such that none is before the one before it."""
        choices = [
            [vector for vector in self.matches(state) if not whole or self.whole(vector)]
            for state in self.states
        ]

        def longer(chain: tuple[Vector, ...]) -> Iterator[tuple[Vector, ...]]:
            if len(chain) == len(choices):
                yield chain
                return
            for vector in choices[len(chain)]:
                if not chain or (
                    at_most(chain[-1], vector) and not (strict and chain[-1] == vector)
                ):
                    yield from longer((*chain, vector))

        return longer(())

    def walks(self, walk: list[Vector]) -> Iterator[list[Vector]]:
        """Every merge: from the initial vector to the final one, one transaction at a time."""
        if walk[-1] == self.final:
            yield walk
        bigger = (v for v in self.vectors if v != walk[-1] and at_most(walk[-1], v))
        for vector in bigger:
            if self.whole(vector) and len(self.added(walk[-1], vector)) == 1:
                yield from self.walks([*walk, vector])

    def added(self, before: Vector, after: Vector) -> set[str]:
        return {
            transaction.id
            for at, source in enumerate(self.history.sources)
            for transaction in self.history.transactions[source][before[at] : after[at]]
        }

    def pairwise(self) -> bool:
        return all(
            any(
                at_most(earlier, later)
                for earlier in self.matches(first)
                for later in self.matches(second)
                if self.whole(earlier) and self.whole(later)
            )
            for at, first in enumerate(self.states)
            for second in self.states[at:]
        )


def at_most(a: Vector, b: Vector) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True))


def deduplicated(views: Sequence[Rows]) -> list[Rows]:
    """Equal successive views once."""
    return [views[0], *(after for before, after in pairwise(views) if before != after)]
