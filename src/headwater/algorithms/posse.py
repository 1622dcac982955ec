"""POSSE: the probes of one update sent together, in groups, and joined at the warehouse.

PVM paper, section 8 (the original has no cost model). Between two extremes: one probe after
the other is SWEEP, all at once needs a single round but fetches relations for themselves.
A relation next to what is covered is fetched reduced to the rows that join with it, by the
distinct values of the join columns; one that is further away has to be fetched whole.

The policy is a parameter:

- sequential: one relation at a time, joined at its source (SWEEP);
- adjacent: all relations that an equality connects to what is covered, at once;
- concurrent: all remaining relations at once; on a chain this fetches whole relations;
- cost: the cheapest of the three by what is expected to be found, the default.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.algebra.expressions import Call
from headwater.algebra.terms import Term
from headwater.algorithms.parts.expected import ASSUMED, Expected
from headwater.algorithms.parts.fetching import fetched
from headwater.algorithms.parts.view_change import Partial, Probe, Question, Workload
from headwater.algorithms.sweep import candidates, sweep

POLICIES = ("cost", "sequential", "adjacent", "concurrent")


@dataclass(frozen=True)
class Posse:
    """A strategy with a policy; see the module's text."""

    policy: str = "cost"
    expected: Expected = ASSUMED

    def __call__(self, partials: tuple[Partial, ...], load: Workload) -> tuple[Question, ...]:
        policy = self.choose(partials) if self.policy == "cost" else self.policy
        if policy == "sequential":
            return sweep(partials, load)
        probes: dict[str, list[Probe]] = {}
        for partial in partials:
            for at in group(partial, policy, load):
                probe = Probe(partial, at, fetched(partial.term, at), fetches=True)
                probes.setdefault(probe.source, []).append(probe)
        return tuple((source, tuple(found)) for source, found in probes.items())

    def choose(self, partials: tuple[Partial, ...]) -> str:
        """The policy with the lowest estimated cost."""
        plans = ("sequential", "adjacent", "concurrent")
        return min(plans, key=lambda policy: sum(self.estimate(p, policy) for p in partials))

    def estimate(self, partial: Partial, policy: str) -> float:
        """What it takes to cover every occurrence, in rows: those that are moved, and those that
        could be while questions are answered."""
        term, join = partial.term, partial.term.join
        covered, rows = set(partial.covered), float(sum(b.rows.size_hint for b in term.bound))
        left, cost = set(term.base), 0.0
        while left:
            known = [name for at in covered for name in term.occurrence(at).schema.names]
            near = {at for at in left if _equated(term, at, covered)}
            chosen = left if policy == "concurrent" else near or {min(left)}
            if policy == "sequential":
                chosen = {min(chosen)}
            sources = {term.occurrence(at).relation.source for at in chosen}
            cost += max(map(self.expected.round_trip, sources))
            for at in chosen:
                if at in near or policy == "sequential":
                    rows *= self.expected.partners(join, at, known)
                    cost += rows
                else:
                    cost += self.expected.partners(join, at, ())
            covered |= chosen
            left -= chosen
        return cost


def group(partial: Partial, policy: str, load: Workload) -> Iterable[int]:
    """The occurrences that are asked for at once."""
    if policy == "concurrent":
        return partial.term.base
    near = [at for at in partial.term.base if _equated(partial.term, at, partial.covered)]
    return near or candidates(partial, load)[:1]


def _equated(term: Term, at: int, covered: Iterable[int]) -> bool:
    """Whether an equality connects an occurrence to one of those covered."""
    places = set(covered)
    return any(
        isinstance(conjunct, Call) and conjunct.operator == "=" and at in reach and reach & places
        for conjunct, reach in term.join.safe_conjuncts
    )
