"""Checking while a run goes on: a state machine over the states that the view shows.

Its state is a small value, so that the lab can merge runs that differ in their past and are
the same for everything that may still come. A finished run's level follows from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from headwater.algebra.hashing import cached_hash
from headwater.algebra.rows import Rows
from headwater.check.history import MOST_SEARCHED, History, Vector, minimal
from headwater.check.levels import Level
from headwater.errors import InputError


@cached_hash
@dataclass(frozen=True)
class Standing:
    """What the states so far allow."""

    last: Rows
    weak: bool
    """Whether every state matches some vector."""
    chain: frozenset[Vector]
    """The least vectors at which a chain that matches all states can stand; empty: none."""
    walk: frozenset[Vector]
    """The vectors at which a walk that misses no view can stand; empty: none."""


@dataclass(frozen=True, eq=False)
class Tracker:
    """Advances a `Standing` by one shown state at a time."""

    history: History
    _chains: dict[tuple[frozenset[Vector], Rows], frozenset[Vector]] = field(default_factory=dict)
    _walks: dict[tuple[frozenset[Vector], Rows], frozenset[Vector]] = field(default_factory=dict)

    def start(self, shown: Rows) -> Standing:
        """The standing when `shown` is the first state; chain and walk start at the origin."""
        origin = self.history.origin
        if shown == self.history.view_at(origin):
            return Standing(shown, True, frozenset({origin}), self._still([origin]))
        return Standing(shown, self._matches(shown), frozenset(), frozenset())

    def advance(self, standing: Standing, shown: Rows) -> Standing:
        if shown == standing.last:
            return standing
        chain = self._chain(standing.chain, shown)
        return Standing(
            shown,
            standing.weak and (bool(chain) or self._matches(shown)),
            chain,
            self._walk(standing.walk, shown),
        )

    def level(self, standing: Standing) -> Level:
        """The level of a run that ends here."""
        if standing.last != self.history.view_at(self.history.final):
            return Level.NONE
        if not standing.weak:
            return Level.CONVERGENT
        if not standing.chain:
            return Level.WEAK
        return Level.COMPLETE if self.history.final in standing.walk else Level.STRONG

    def _matches(self, shown: Rows) -> bool:
        """Whether some vector gives this view; looks at all of them, so not for long runs."""
        if self.history.size > MOST_SEARCHED:
            raise InputError(
                f"The history has {self.history.size:,} source states, too many to search.",
                "Check what the run claims instead: headwater.check.certificate.",
            )
        return shown in self.history.matches

    def _chain(self, below: Iterable[Vector], shown: Rows) -> frozenset[Vector]:
        """The least whole vectors that show this view, at or above one of `below`."""
        key = (frozenset(below), shown)
        known = self._chains.get(key)
        if known is None:
            known = self._chains[key] = self._search_up(key[0], shown)
        return known

    def _search_up(self, below: frozenset[Vector], shown: Rows) -> frozenset[Vector]:
        found, seen, ahead = set(), set(below), list(below)
        while ahead:
            vector = ahead.pop()
            if self.history.view_at(vector) == shown:
                found.add(vector)
                continue
            for _, after in self.history.steps(vector):
                if after not in seen:
                    seen.add(after)
                    ahead.append(after)
        return minimal(found)

    def _walk(self, standing: frozenset[Vector], shown: Rows) -> frozenset[Vector]:
        """One transaction on from `standing` to this view, then on while it stays."""
        key = (standing, shown)
        known = self._walks.get(key)
        if known is None:
            landed = [
                after
                for vector in standing
                for _, after in self.history.steps(vector)
                if self.history.view_at(after) == shown
            ]
            known = self._walks[key] = self._still(landed)
        return known

    def _still(self, vectors: Iterable[Vector]) -> frozenset[Vector]:
        """These vectors and all that follow without a change of the view."""
        ahead = list(vectors)
        seen = set(ahead)
        while ahead:
            vector = ahead.pop()
            for _, after in self.history.steps(vector):
                same = self.history.view_at(after) == self.history.view_at(vector)
                if same and after not in seen:
                    seen.add(after)
                    ahead.append(after)
        return frozenset(seen)
