"""PVM and its relatives with one thing left out, or as printed: each must be caught.

`WEAKENED` maps a name to how it is built; `headwater.lab.counterexamples` keeps for each the
scenario and the schedule that show what goes wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from headwater.algorithms.nested_sweep import nested_sweep
from headwater.algorithms.parts.view_change import Partial, Unit
from headwater.algorithms.pvm import Entry, Pvm, State
from headwater.lab.scenario import Scenario
from headwater.lab.world import Move, Simulation, Step, World
from headwater.protocol.effects import Apply, Effect


class WithoutRelatedSet(Pvm):
    """Forgets an update as soon as it is committed."""

    def _clean_up(self, state: State) -> State:
        return replace(state, log=tuple(entry for entry in state.log if not entry.done))


class AnyOtherIsConcurrent(Pvm):
    """Figure 14 as printed: takes out every update in the three sets, also earlier ones."""

    def later(self, state: State, partial: Partial, at: int) -> tuple[Entry, ...]:
        own = at > partial.at
        return tuple(e for e in state.log if own or e.number not in partial.group)


class EmptyMeansNotReady(Pvm):
    """Figure 17 as printed: a unit without effect never leaves the commit queue."""

    def _commit(self, state: State) -> tuple[State, list[Effect]]:
        effects: list[Effect] = []
        for unit in state.units:
            if not (unit.is_ready and unit.delta):
                break
            state, step = self.commit_unit(state, unit)
            effects.append(step)
        return state, effects


class CleansUpTooEarly(Pvm):
    """Figure 14 as printed: CleanUp runs before the update leaves the processing set."""

    def commit_unit(self, state: State, unit: Unit) -> tuple[State, Apply]:
        return super().commit_unit(super()._clean_up(state), unit)

    def _clean_up(self, state: State) -> State:
        return state


class TakesOneRelationAlong(Pvm):
    """Nested SWEEP as printed: takes a relation's updates, not its source's prefix.

    Without a bound on the depth the sweep would find and take the rest of the prefix later on;
    with the bound that makes it end, it stops halfway.
    """

    def _with_prefixes(
        self, state: State, unit: Unit, concurrent: tuple[Entry, ...]
    ) -> tuple[Entry, ...]:
        return concurrent


class AbsorbsBesideOthers(Pvm):
    """Nested SWEEP inside PVM without a look at the other units in work."""

    def _with_prefixes(
        self, state: State, unit: Unit, concurrent: tuple[Entry, ...]
    ) -> tuple[Entry, ...]:
        last = max(entry.number for entry in concurrent)
        sources = {s for entry in concurrent for s in entry.transaction.sources}
        return tuple(
            entry
            for entry in state.waiting
            if entry.number <= last and sources & set(entry.transaction.sources)
        )


@dataclass(frozen=True, eq=False)
class WithoutNegativeCounters(Simulation):
    """A warehouse that forgets counts below zero at once."""

    def step(self, world: World, move: Move) -> tuple[World, Step]:
        world, step = super().step(world, move)
        return replace(world, view=world.view.positive()), step


Build = Callable[[Scenario], Simulation]


def _with(kind: type[Pvm], **settings: Any) -> Build:
    return lambda scenario: Simulation(scenario, kind(scenario.view, **settings))


WEAKENED: dict[str, Build] = {
    "without-related-set": _with(WithoutRelatedSet, p=2),
    "without-negative-counters": lambda s: WithoutNegativeCounters(s, Pvm(s.view, p=2)),
    "any-other-is-concurrent": _with(AnyOtherIsConcurrent, p=2),
    "empty-means-not-ready": _with(EmptyMeansNotReady, p=2, in_order=True),
    "takes-one-relation-along": _with(TakesOneRelationAlong, p=1, strategy=nested_sweep, depth=1),
    "absorbs-beside-others": _with(
        AbsorbsBesideOthers, p=2, in_order=True, strategy=nested_sweep, depth=4
    ),
}

REPAIRED: dict[str, tuple[str, dict[str, str], str]] = {
    "without-related-set": ("pvm", {"p": "2"}, "convergent"),
    "without-negative-counters": ("pvm", {"p": "2"}, "convergent"),
    "any-other-is-concurrent": ("pvm", {"p": "2"}, "convergent"),
    "empty-means-not-ready": ("pvm-cc", {"p": "2"}, "complete"),
    "takes-one-relation-along": ("nested-sweep", {"depth": "1"}, "strong"),
    "absorbs-beside-others": ("pvm-cc", {"p": "2", "handle": "nested-sweep"}, "strong"),
}
"""The algorithm as it ships, with its settings and the level that it keeps."""
