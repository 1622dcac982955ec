"""Ways: which updategrams lead from one version of a relation to another, and which are worth it.

Versions are places and updategrams are ways between them. Landmarks are the versions that can be
met on the way at all (section 5.2 of the paper).

Choices: read literally, the paper's procedure for landmarks removes everything, since nothing
ends where the view stands; so that version counts as a landmark. What cannot lead to the version
that is wanted is left out too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush

from headwater.sharing.available import AvailableUpdategram, Step
from headwater.sharing.versions import Versions

Seconds = Callable[[AvailableUpdategram], float]
_Leaving = dict[Versions, list[tuple[Versions, Step]]]


def landmarks(
    updategrams: Iterable[AvailableUpdategram], relation: str, first: int, last: int
) -> dict[int, list[AvailableUpdategram]]:
    """For each version that a way from `first` to `last` may meet, what ends there."""
    within = [
        found
        for found in updategrams
        if first <= found.first[relation] < found.last[relation] <= last
    ]
    reached, leads = {first}, {last}
    for found in sorted(within, key=lambda u: u.first[relation]):
        if found.first[relation] in reached:
            reached.add(found.last[relation])
    for found in sorted(within, key=lambda u: -u.last[relation]):
        if found.last[relation] in leads:
            leads.add(found.first[relation])
    ending: dict[int, list[AvailableUpdategram]] = {}
    for found in sorted(within, key=lambda u: (u.last[relation], u.first[relation], u.address)):
        start, end = found.first[relation], found.last[relation]
        if start in reached and end in leads:
            ending.setdefault(end, []).append(found)
    return ending


def finest(
    updategrams: Iterable[AvailableUpdategram], relation: str, first: int, last: int
) -> list[AvailableUpdategram]:
    """The way of the most steps; empty if there is none."""
    ways: dict[int, list[AvailableUpdategram]] = {first: []}
    for end, ending in landmarks(updategrams, relation, first, last).items():
        for found in ending:
            way = [*ways[found.first[relation]], found]
            if len(way) > len(ways.get(end, ())):
                ways[end] = way
    return ways.get(last, [])


def reached_from(updategrams: Iterable[AvailableUpdategram], first: Versions) -> set[Versions]:
    """Every version to which updategrams lead forwards."""
    leaving: dict[Versions, list[Versions]] = {}
    for found in updategrams:
        leaving.setdefault(found.first, []).append(found.last)
    reached, waiting = {first}, [first]
    while waiting:
        new = [there for there in leaving.get(waiting.pop(), ()) if there not in reached]
        reached.update(new)
        waiting += new
    return reached


class Ways:
    """The ways along updategrams of one subject. Plans ask for them over and over, so where they
    lead is looked at once."""

    def __init__(self, updategrams: Iterable[AvailableUpdategram]) -> None:
        self._ahead: _Leaving = {}
        self._both: _Leaving = {}
        for found in updategrams:
            self._ahead.setdefault(found.first, []).append((found.last, (found, True)))
            self._both.setdefault(found.first, []).append((found.last, (found, True)))
            self._both.setdefault(found.last, []).append((found.first, (found, False)))

    def cheapest(
        self, first: Versions, last: Versions, seconds: Seconds, *, forwards: bool = False
    ) -> list[Step] | None:
        """The way that costs least, backwards too unless `forwards`; None if there is none."""
        return self.cheapest_from([(0.0, first)], last, seconds, forwards=forwards)[1]

    def cheapest_from(
        self,
        starts: Sequence[tuple[float, Versions]],
        last: Versions,
        seconds: Seconds,
        *,
        forwards: bool = False,
    ) -> tuple[int, list[Step] | None]:
        """The same from the best of several starts, each with what it costs to be there."""
        leaving = self._ahead if forwards else self._both
        before: dict[Versions, tuple[Versions, Step] | None] = {}
        waiting: list[tuple[float, int, int, Versions, tuple[Versions, Step] | None]] = []
        for at, (cost, start) in enumerate(starts):
            heappush(waiting, (cost, len(waiting), at, start, None))
        count = len(waiting)
        while waiting:
            cost, _, at, here, came = heappop(waiting)
            if here in before:
                continue
            before[here] = came
            if here == last:
                return at, _way(before, here)
            for there, step in leaving.get(here, ()):
                if there not in before:
                    count += 1
                    heappush(waiting, (cost + seconds(step[0]), count, at, there, (here, step)))
        return -1, None


def _way(before: dict[Versions, tuple[Versions, Step] | None], here: Versions) -> list[Step]:
    steps: list[Step] = []
    while (came := before[here]) is not None:
        here, step = came
        steps.append(step)
    return steps[::-1]
