"""The Rings protocols with one thing left out, or as printed: each must be caught.

`WEAKENED` maps a name to how it is built; `headwater.lab.counterexamples` keeps for each the
scenario and the schedule that show what goes wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from headwater.algebra.rows import Rows
from headwater.algebra.views import View
from headwater.algorithms.parts.ring_visit import Token, incorporate, rings_of
from headwater.algorithms.rings import (
    Increment,
    NodeState,
    Reaction,
    RingNode,
    RingWarehouse,
    WarehouseState,
)
from headwater.algorithms.rings_star import StarNode, StarWarehouse
from headwater.algorithms.rings_star import WarehouseState as StarState
from headwater.lab.scenario import Scenario
from headwater.lab.world import Simulation
from headwater.protocol.effects import Add, Apply, Effect, Send
from headwater.protocol.events import AnswerArrived, Event, MessageArrived
from headwater.protocol.messages import WAREHOUSE


class CountsFromZero(RingWarehouse):
    """Figure 1 as printed: waits for `next_sn = sn` from 0 on, and the first `sn` is 1."""

    def start(self) -> WarehouseState:
        return WarehouseState((0,) * len(self.view.joins))


class TakesThemAsTheyCome(RingWarehouse):
    """No sequence numbers."""

    def _is_next(self, state: WarehouseState, increment: Increment) -> bool:
        return True


class GivesUpAtTheLastHolder(StarWarehouse):
    """Figure 2 with its loop made to end: still -1 when it comes back to the last holder."""

    def next_holder(self, state: StarState, at: int, item: str, token: Token) -> str | None:
        found = super().next_holder(state, at, item, token)
        return None if found == item and state.out[at] else found


class JoinsTheNewValue(RingNode):
    """Entries are joined with `x_i` instead of `x_i` minus `Delta_i`."""

    def handle(self, state: NodeState, event: Event) -> Reaction:
        if isinstance(event, AnswerArrived) and state.visit is not None:
            blind = incorporate(replace(state.visit, taken=()), event, state.pending)
            return self._go_on(replace(state, visit=replace(blind, taken=state.visit.taken)), ())
        return super().handle(state, event)


class ForgetsLateUpdates(RingNode):
    """Takes no notice of updates between the token's arrival and the source's answer."""

    def handle(self, state: NodeState, event: Event) -> Reaction:
        if isinstance(event, AnswerArrived) and state.visit is not None:
            visit = incorporate(state.visit, event, ())
            return self._go_on(replace(state, visit=visit), ())
        return super().handle(state, event)


class EveryRingInItsOwnOrder(RingNode):
    """Every other ring goes round the other way: no common order of items."""

    @property
    def all_rings(self) -> tuple[tuple[str, ...], ...]:
        rings = rings_of(self.view)
        return tuple(ring[::-1] if at % 2 else ring for at, ring in enumerate(rings))


class StartsWithoutMeeting(RingNode):
    """One order of items, but tokens leave the first item of their ring without the others."""

    def start(self) -> Reaction:
        first = [at for at, ring in self.rings.items() if ring[0] == self.item]
        return NodeState(), tuple(self._pass_on(Token((at,))) for at in first)


class SendsPartsByThemselves(RingNode):
    """A message for each ring, which the warehouse adds as if they were of different updates."""

    def send_increment(self, increment: Increment) -> tuple[Effect, ...]:
        parts = [replace(increment, parts=(part,)) for part in increment.parts]
        return tuple(Send(WAREHOUSE, part) for part in parts)


class LeavesOutEmptyParts(SendsPartsByThemselves):
    """A message for each ring, but none for a part that is empty."""

    def send_increment(self, increment: Increment) -> tuple[Effect, ...]:
        filled = tuple(part for part in increment.parts if part[2])
        return super().send_increment(replace(increment, parts=filled))


class WaitsForAllParts(RingWarehouse):
    """Adds the parts of an update in one step, when those of all rings of its item are there."""

    def handle(
        self, state: WarehouseState, event: Event
    ) -> tuple[WarehouseState, tuple[Effect, ...]]:
        assert isinstance(event, MessageArrived)
        assert isinstance(event.message, Increment)
        held = (*state.held, event.message)
        found = [one for one in held if one.transactions == event.message.transactions]
        rings = [ring for ring in rings_of(self.view) if event.sender in ring]
        if len(found) < len(rings):
            return replace(state, held=held), ()
        delta = Rows.sum(self.view.schema, (one.parts[0][2] for one in found))
        left = tuple(one for one in held if one not in found)
        return replace(state, held=left), (Apply((Add(delta),), found[0].transactions),)


Build = Callable[[Scenario], Simulation]


def _rings(
    node: type[RingNode] = RingNode, warehouse: type[RingWarehouse] = RingWarehouse
) -> Build:
    def build(scenario: Scenario) -> Simulation:
        nodes = {item: node(scenario.view, item) for item in scenario.view.sources}
        return _simulation(scenario, warehouse(scenario.view), nodes)

    return build


def _star(warehouse: Callable[[View], StarWarehouse]) -> Build:
    def build(scenario: Scenario) -> Simulation:
        nodes = {item: StarNode(scenario.view, item) for item in scenario.view.sources}
        return _simulation(scenario, warehouse(scenario.view), nodes)

    return build


def _simulation(
    scenario: Scenario,
    warehouse: RingWarehouse | StarWarehouse,
    nodes: Mapping[str, RingNode] | Mapping[str, StarNode],
) -> Simulation:
    return Simulation(scenario, warehouse, integrator=None, ordered=False, nodes=nodes)


WEAKENED: dict[str, Build] = {
    "rings-counts-from-zero": _rings(warehouse=CountsFromZero),
    "rings-takes-them-as-they-come": _rings(warehouse=TakesThemAsTheyCome),
    "rings-star-gives-up-at-the-last-holder": _star(GivesUpAtTheLastHolder),
    "rings-joins-the-new-value": _rings(JoinsTheNewValue),
    "rings-forgets-late-updates": _rings(ForgetsLateUpdates),
    "rings-every-ring-in-its-own-order": _rings(EveryRingInItsOwnOrder),
    "rings-starts-without-meeting": _rings(StartsWithoutMeeting),
    "rings-adds-parts-by-themselves": _rings(SendsPartsByThemselves),
    "rings-leaves-out-empty-parts": _rings(LeavesOutEmptyParts, WaitsForAllParts),
}
ANNOUNCED = _rings(SendsPartsByThemselves, WaitsForAllParts)
"""As `rings-leaves-out-empty-parts`, with the empty parts."""
