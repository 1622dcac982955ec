"""Several steps: how far to go at once, and which relation first (sections 5.2 and 5.3).

A view is taken over one relation's changes along landmark versions; plans for wide steps come from
those for smaller ones. `Heuristic` says how much is looked at. Where several relations change,
one follows the other, in the order that costs least.

Choices: what steps need more than once is read and computed once, so the best way to a landmark
depends on what was needed before it. Two ways are found: one whose steps pay for what is new, and
the paper's, which pays every time; the better of them, as it is carried out, is taken. Coalescing
takes the whole way as one step. Of several relations all orders are tried up
to `ORDERS`; with more of them they come in the order of FROM. Thousands of small steps are not
planned one by one only to find that all of them together are cheaper.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations

from headwater.sharing.available import AvailableUpdategram
from headwater.sharing.optimizer import Optimizer, published, together
from headwater.sharing.plans import Change, Coalesced, Finished, Inverse, Published
from headwater.sharing.versions import Versions
from headwater.sharing.ways import landmarks

ORDERS = 4
MOST_STEPS = 500
"""With more landmarks than that a way is planned as one step only, if heuristics may coalesce."""


@dataclass(frozen=True)
class _Way:
    """A way over landmarks: its updategrams, the plan of each step, and what has been paid for."""

    seconds: float = 0.0
    updategrams: tuple[AvailableUpdategram, ...] = ()
    plans: tuple[Change, ...] = ()
    paid: frozenset[Hashable] = frozenset()


_Landmarks = Mapping[int, Sequence[AvailableUpdategram]]
"""For each landmark what ends there, the longest first."""


class Heuristic(Enum):
    """How the ways of several steps are searched."""

    BASE = "base"
    """Every updategram that leads to a landmark is looked at."""
    COALESCE = "coalesce"
    """The same, and then the way that was found as one step, whichever is cheaper."""
    GREEDY = "greedy"
    """For every landmark only the longest updategram that leads to it."""
    BOTH = "coalesce and greedy"

    @property
    def is_greedy(self) -> bool:
        return self in (Heuristic.GREEDY, Heuristic.BOTH)

    @property
    def coalesces(self) -> bool:
        return self in (Heuristic.COALESCE, Heuristic.BOTH)


class SeveralSteps:
    """Plans for one view over any number of steps."""

    def __init__(self, optimizer: Optimizer, heuristic: Heuristic = Heuristic.BOTH) -> None:
        self.optimizer = optimizer
        self.heuristic = heuristic
        self._known_costs: dict[Change, dict[Hashable, float]] = {}

    # Several relations

    def between(self, first: Versions, last: Versions) -> Change | None:
        """The view's updategram between two vectors, one relation after the other; None if some
        of what is needed is not there."""
        moving = [name for name in self.optimizer.view.relations if first[name] != last[name]]
        if len(moving) > ORDERS:
            return self._in_order(moving, first, last)
        found: dict[frozenset[str], tuple[float, tuple[Change, ...]]] = {frozenset(): (0.0, ())}
        for size in range(1, len(moving) + 1):
            for done in map(frozenset, combinations(moving, size)):
                for name in done:
                    if (before := found.get(done - {name})) is None:
                        continue
                    here = Versions({**first, **last.only(tuple(done - {name}))})
                    step = self.along(name, here, last[name])
                    if step is None:
                        continue
                    steps = (*before[1], step)
                    seconds = self._seconds(together(steps))
                    if done not in found or seconds < found[done][0]:
                        found[done] = seconds, steps
        steps = found.get(frozenset(moving), (0.0, ()))[1]
        return together(steps) if steps else None

    def _in_order(self, moving: Iterable[str], first: Versions, last: Versions) -> Change | None:
        here, steps = first, []
        for name in moving:
            step = self.along(name, here, last[name])
            if step is None:
                return None
            steps.append(step)
            here = here.moved(name, last[name])
        return together(steps)

    # One relation

    def along(self, name: str, here: Versions, version: int) -> Change | None:
        """The view's updategram as one relation goes to a version, forwards or backwards."""
        if version < here[name]:
            forwards = self._forwards(name, here.moved(name, version), here[name])
            return None if forwards is None else Inverse(forwards)
        return self._forwards(name, here, version)

    def _forwards(self, name: str, here: Versions, last: int) -> Change | None:
        updategrams = self.optimizer.available.updategrams_of(name)
        ending = landmarks(updategrams, name, here[name], last)
        if len(ending) > MOST_STEPS and self.heuristic.coalesces:
            whole = self._whole(name, here, last)
            if whole is not None or not self._begins(ending, name, here):
                return whole
        if self.heuristic.is_greedy:
            ways = [self._greedy(ending, name, here, last)]
        else:
            ways = [self._cheapest(ending, name, here, last, once) for once in (True, False)]
        known = [way for way in ways if way is not None]
        if not known:
            return self._whole(name, here, last)
        way = min(known, key=lambda way: self._seconds(together(way.plans)))
        found = together(way.plans)
        if self.heuristic.coalesces and len(way.plans) > 1:
            whole = self._one_step(Coalesced(published(way.updategrams)), here)
            if whole is not None and self._seconds(whole) < self._seconds(found):
                return whole
        return found

    def _begins(self, ending: _Landmarks, name: str, here: Versions) -> bool:
        """Whether a first step has a plan at all."""
        edges = (edge for several in ending.values() for edge in several)
        starting = (Published(edge) for edge in edges if edge.first[name] == here[name])
        return any(self._one_step(change, here) is not None for change in starting)

    def _cheapest(
        self, ending: _Landmarks, name: str, here: Versions, last: int, once: bool
    ) -> _Way | None:
        """The cheapest way over landmarks, each step by itself or with what was paid for already.

        With `once` a step pays for what no step before it has needed, so that no landmark has a
        best way for good; without it one has, and what is needed twice is paid twice.
        """
        found = {here[name]: _Way()}
        for end, edges in ending.items():
            for edge in edges:
                if (before := found.get(edge.first[name])) is None:
                    continue
                if (plan := self._one_step(Published(edge), here)) is None:
                    continue
                costs = self._costs(plan) if once else {plan: self._seconds_alone(plan)}
                more = sum(s for part, s in costs.items() if part not in before.paid)
                if end not in found or before.seconds + more < found[end].seconds:
                    found[end] = _Way(
                        before.seconds + more,
                        (*before.updategrams, edge),
                        (*before.plans, plan),
                        before.paid | costs.keys(),
                    )
        return found.get(last)

    def _greedy(self, ending: _Landmarks, name: str, here: Versions, last: int) -> _Way | None:
        """Back from the end, always along the longest updategram that leads there.

        The same way as when each landmark is given its own longest one, and only its steps are
        planned: the work depends on how many there are, not on how many updategrams.
        """
        dead: set[int] = set()
        way: list[tuple[AvailableUpdategram, Change]] = []
        left, end = [iter(ending.get(last, ()))], last
        while end != here[name]:
            edge = next((e for e in left[-1] if e.first[name] not in dead), None)
            if edge is not None:
                if (plan := self._one_step(Published(edge), here)) is not None:
                    way.append((edge, plan))
                    end = edge.first[name]
                    left.append(iter(ending.get(end, ())))
                continue
            dead.add(end)
            left.pop()
            if not way:
                return None
            end = way.pop()[0].last[name]
        way.reverse()
        return _Way(0.0, tuple(edge for edge, _ in way), tuple(plan for _, plan in way))

    def _costs(self, plan: Change) -> dict[Hashable, float]:
        if plan not in self._known_costs:
            self._known_costs[plan] = self.optimizer.scales.costs(plan)
        return self._known_costs[plan]

    def _whole(self, name: str, here: Versions, last: int) -> Change | None:
        """All as one step, where single steps have no plan."""
        change = self.optimizer.way(name, here[name], last)
        return None if change is None else self._one_step(change, here)

    def _one_step(self, change: Change, here: Versions) -> Change | None:
        plan = self.optimizer.step_once(change, here)
        return None if plan is None else Finished(plan)

    def _seconds_alone(self, plan: Change) -> float:
        return self.optimizer.scales.weigh(plan).seconds

    def _seconds(self, plan: Change) -> float:
        return self.optimizer.scales.carried_out(plan)
