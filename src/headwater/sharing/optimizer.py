"""The optimizer for one step: the cheapest plan for a view's updategram, given a relation's.

System-R's dynamic programming, extended with updategrams and boosters (section 5.1 of the paper).
For every set of relations it keeps the best updategram of their join with the relation that
changes, and the best ways to have their join, or a booster of it, without that relation. Trees
may be bushy: operands are joined with each other first where that is cheaper (A4, A7, A9), and
boosters are made on the way where they keep such a join small (A3).

Choices: the paper keeps one plan for each construct. A booster that costs more to have but has
fewer rows can be cheaper in the end, so of operands those are kept than which none is both cheaper
and smaller, as System-R keeps interesting orders. Updategrams of a join have the same rows
whatever the plan, and one is kept. With many relations fewer trees are looked at: from
`CROSS_PRODUCTS` on, operands are joined only where a condition connects them, from `BUSHY` on
trees are left-linear, and from `ONE_BY_ONE` on what is cheapest next is joined next: the search
must end for every view that somebody publishes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import TypeVar

from headwater.sharing.available import Available, AvailableBooster, AvailableUpdategram, Steps
from headwater.sharing.containment import is_contained
from headwater.sharing.plan_costs import Scales, Weight
from headwater.sharing.plans import (
    Change,
    Coalesced,
    Joined,
    JoinedOperands,
    MadeBooster,
    MergedBoosters,
    MovedBooster,
    Operand,
    Published,
    PublishedBooster,
    RedirectedBooster,
    RelationAt,
    interval_of,
)
from headwater.sharing.shared_views import SharedView
from headwater.sharing.versions import Interval, Versions
from headwater.sharing.ways import Ways

CROSS_PRODUCTS, BUSHY, ONE_BY_ONE = 5, 9, 12
Names = frozenset[str]
AnyPlan = TypeVar("AnyPlan", bound=Change | Operand)
_Wanted = tuple[tuple[str, int], tuple[str, int]]
"""A relation and one in between, each with its version."""


class Optimizer:
    """Plans for one view, from what there is."""

    def __init__(self, view: SharedView, available: Available, scales: Scales) -> None:
        self.view = view
        self.available = available
        self.scales = scales
        self._connected: dict[tuple[Names, str], bool] = {}
        self._serving: dict[tuple[SharedView, tuple[str, ...]], bool] = {}
        self._steps: dict[tuple[Change, Versions], Change | None] = {}
        self._relations: dict[tuple[str, int], RelationAt | None] = {}
        self._ways: dict[str, Ways] = {}
        self._moves: dict[tuple[str, int, int], Steps] = {}

    def step(
        self, change: Change, here: Mapping[str, int], names: Iterable[str] | None = None
    ) -> Change | None:
        """The cheapest plan to join a relation's updategram with others at these versions.

        With all the others of the view, if none are named. None if some cannot be had.
        """
        changed = interval_of(change).relation
        others = [name for name in names or self.view.relations if name != changed]
        operands = self.operands(change, others, here)
        far = {b.of[0] for b in self.available.boosters_for(changed) if b.through}
        if len(others) + 1 >= ONE_BY_ONE:
            return self._one_by_one(change, operands, frozenset(others), here)
        found: dict[Names, Change] = {frozenset(): change}
        for chosen in _sets(others):
            candidates: list[Change] = []
            for part, there in operands.items():
                if part <= chosen and (before := found.get(chosen - part)) is not None:
                    candidates += [Joined(before, operand) for operand in there]
            for name in chosen & far:
                if (before := found.get(chosen - {name})) is not None:
                    candidates += [Joined(before, o) for o in self._through(before, name, here)]
            if candidates:
                found[chosen] = self.best(candidates)
        return found.get(frozenset(others))

    def step_once(self, change: Change, here: Versions) -> Change | None:
        """The same for all relations of the view, remembered: other ways go along it too."""
        key = change, here.joined(dict.fromkeys(change.first, 0))
        if key not in self._steps:
            self._steps[key] = self.step(change, here)
        return self._steps[key]

    def _one_by_one(
        self,
        change: Change,
        operands: Mapping[Names, Sequence[Operand]],
        left: Names,
        here: Mapping[str, int],
    ) -> Change | None:
        """Always what is cheapest next, of what a condition connects if there is any."""
        while left:
            there = [o for part, several in operands.items() if part <= left for o in several]
            for name in sorted(left):
                there += self._through(change, name, here)
            near = self.scales.linked(change.first) & left
            chosen = [o for o in there if near & set(o.of)] or there
            if not chosen:
                return None
            change = self.best([Joined(change, operand) for operand in chosen])
            assert isinstance(change, Joined)
            left -= set(change.operand.of)
        return change

    def best(self, candidates: Sequence[AnyPlan]) -> AnyPlan:
        return min(candidates, key=lambda plan: self.scales.weigh(plan).seconds)

    def cheapest(self, plans: Sequence[Change]) -> Change:
        """The best of whole plans, as they are carried out."""
        return min(plans, key=self.scales.carried_out)

    # What an updategram is joined with

    def operands(
        self, change: Change, names: Sequence[str], here: Mapping[str, int]
    ) -> dict[Names, list[Operand]]:
        """For every set of relations the ways to have them, or a booster of them, joined."""
        found: dict[Names, list[Operand]] = {}
        bushy = len(names) + 1 < BUSHY
        for chosen in _sets(names if bushy else ()):
            candidates: list[Operand] = list(self._published(change, chosen, here))
            if len(chosen) == 1:
                candidates += self._single(change, min(chosen), here[min(chosen)])
            for part in _parts(chosen):
                rest = chosen - part
                if rest and min(chosen) in part and self._may_join(part, rest, len(names)):
                    candidates += [
                        JoinedOperands(one, other)
                        for one in found.get(part, ())
                        for other in found.get(rest, ())
                    ]
            found[chosen] = self._undominated(candidates)
        if not bushy:
            singles = {frozenset({name}): self._single(change, name, here[name]) for name in names}
            several = {
                frozenset(b.of): list(self._published(change, frozenset(b.of), here))
                for b in self.available.boosters_for(interval_of(change).relation)
            }
            found = {**several, **singles}
        return found

    def _may_join(self, one: Names, other: Names, many: int) -> bool:
        return many < CROSS_PRODUCTS or any(self._connects(one, name) for name in other)

    def _connects(self, names: Names, name: str) -> bool:
        if (names, name) not in self._connected:
            self._connected[names, name] = self.view.connects(names, name)
        return self._connected[names, name]

    def _undominated(self, candidates: Sequence[Operand]) -> list[Operand]:
        """Those than which no other is both cheaper and smaller."""
        kept: list[tuple[Weight, Operand]] = []
        weighed = [(self.scales.weigh(plan), plan) for plan in candidates]
        for weight, plan in sorted(weighed, key=lambda item: (item[0].seconds, item[0].rows)):
            if not any(other.dominates(weight) for other, _ in kept):
                kept.append((weight, plan))
        return [plan for _, plan in kept]

    def _published(
        self, change: Change, chosen: Names, here: Mapping[str, int]
    ) -> Iterable[Operand]:
        """Boosters of several relations, joined already."""
        interval = interval_of(change)
        for found in self.available.boosters_of(interval.relation, chosen):
            if (
                len(chosen) > 1
                and not found.through
                and found.interval.contains(interval)
                and all(here.get(name) == number for name, number in found.versions.items())
                and self._serves(found)
            ):
                yield PublishedBooster(found)

    def _single(self, change: Change, name: str, version: int) -> list[Operand]:
        """A relation at a version, and boosters of it, published ones and one that is made here."""
        candidates: list[Operand] = list(self.boosters(change, name, version))
        whole = self.relation(name, version)
        if whole is not None:
            candidates.append(whole)
        changed = interval_of(change).relation
        if self._connects(frozenset({changed}), name):
            candidates += [MadeBooster(change, operand) for operand in list(candidates)]
        return candidates

    def relation(self, name: str, version: int) -> RelationAt | None:
        """A base relation at a version, the cheapest way."""
        if (name, version) not in self._relations:
            self._relations[name, version] = self._cheapest_relation(name, version)
        return self._relations[name, version]

    def _cheapest_relation(self, name: str, version: int) -> RelationAt | None:
        contents = self.available.contents_of(name)
        starts = [(self.scales.access(found), found.versions) for found in contents]
        at, way = self.ways(name).cheapest_from(
            starts,
            Versions({name: version}),
            lambda found: self.scales.way([(found, True)]),
        )
        return None if way is None else RelationAt(name, version, contents[at], Steps(way))

    # Boosters of one relation

    def boosters(self, change: Change, name: str, version: int) -> list[Operand]:
        """Published ones, at this version or moved there, and several merged to cover a change."""
        interval = interval_of(change)
        meeting = [
            found
            for found in self.available.boosters_of(interval.relation, (name,))
            if not found.through and found.interval.meets(interval) and self._serves(found)
        ]
        whole = [found for found in meeting if found.interval.contains(interval)]
        candidates = [self._moved(found, change, version) for found in whole]
        if len(whole) < len(meeting):
            moved, at = partial(self._moved, version=version), ((name, version),)
            merged = self._merged(interval, meeting, moved, partial(_is_at, wanted=at))
            candidates.append(merged)
        return [found for found in candidates if found is not None]

    def _moved(self, found: AvailableBooster, change: Change, version: int) -> Operand | None:
        (name,) = found.of
        if found.versions[name] == version:
            return PublishedBooster(found)
        way = self._moving(name, found.versions[name], version)
        return MovedBooster(change, PublishedBooster(found), version, way) if way else None

    def _moving(self, name: str, first: int, last: int) -> Steps:
        """The cheapest way of a relation from a version to another; empty if there is none."""
        if (name, first, last) not in self._moves:
            ends = Versions({name: first}), Versions({name: last})
            way = self.ways(name).cheapest(*ends, self.scales.access, forwards=first < last)
            self._moves[name, first, last] = Steps(way or ())
        return self._moves[name, first, last]

    def ways(self, subject: str) -> Ways:
        """The ways along the updategrams of a relation or of the view."""
        if subject not in self._ways:
            self._ways[subject] = Ways(self.available.updategrams_of(subject))
        return self._ways[subject]

    def _merged(
        self,
        interval: Interval,
        listed: Sequence[AvailableBooster],
        make: Callable[[AvailableBooster, Change], Operand | None],
        is_as_published: Callable[[AvailableBooster], bool],
    ) -> Operand | None:
        """The cheapest boosters that together cover an interval (A11)."""
        covered: dict[int, tuple[float, tuple[Operand, ...]]] = {interval.first: (0.0, ())}
        states = [interval.first]
        for found in sorted(listed, key=lambda found: found.interval.last):
            end = min(found.interval.last, interval.last)
            from_here = states[bisect_left(states, found.interval.first) : bisect_left(states, end)]
            for reached in from_here:
                piece: Operand | None
                if is_as_published(found):
                    piece = PublishedBooster(found)
                else:
                    part = self.way(interval.relation, reached, end)
                    piece = None if part is None else make(found, part)
                if piece is None:
                    continue
                seconds = covered[reached][0] + self.scales.weigh(piece).seconds
                if end not in covered:
                    insort(states, end)
                if end not in covered or seconds < covered[end][0]:
                    covered[end] = seconds, (*covered[reached][1], piece)
        pieces = covered.get(interval.last, (0.0, ()))[1]
        return MergedBoosters(pieces) if len(pieces) > 1 else next(iter(pieces), None)

    def way(self, relation: str, first: int, last: int) -> Change | None:
        """The updategram of a relation between two versions, forwards."""
        ends = Versions({relation: first}), Versions({relation: last})
        steps = self.ways(relation).cheapest(*ends, self.scales.access, forwards=True)
        return together([Published(found) for found, _ in steps]) if steps else None

    # Boosters through relations in between

    def _through(self, before: Change, name: str, here: Mapping[str, int]) -> list[Operand]:
        """Rows that changes reach over a relation in between, wherever that stood then."""
        interval = interval_of(before)
        listed = [
            found
            for found in self.available.boosters_of(interval.relation, (name,))
            if len(found.through) == 1 and found.interval.meets(interval) and self._serves(found)
        ]
        candidates = []
        for between in sorted({min(found.through) for found in listed} & set(before.first)):
            mine = [found for found in listed if between in found.through]
            wanted = (name, here[name]), (between, here[between])
            candidates.append(
                self._merged(
                    interval,
                    mine,
                    partial(self._over, wanted=wanted),
                    partial(_is_at, wanted=wanted),
                )
            )
        return [found for found in candidates if found is not None]

    def _over(self, found: AvailableBooster, part: Change, wanted: _Wanted) -> Operand | None:
        """One booster through a relation, taken to the versions that are needed of both."""
        (name, version), (between, here) = wanted
        there = found.through[between]
        piece: Operand | None = PublishedBooster(found)
        if found.versions[name] != version:
            with_it = self.step(part, {between: there}, [between])
            piece = None if with_it is None else self._moved(found, with_it, version)
        if piece is None or there == here:
            return piece
        since = self.way(between, min(there, here), max(there, here))
        patches = [] if since is None else self.boosters(since, name, version)
        return RedirectedBooster(piece, self.best(patches), here) if patches else None

    def _serves(self, found: AvailableBooster) -> bool:
        """Whether it has all rows that its changes may join with in this view."""
        relations = (found.interval.relation, *found.through, *found.of)
        key = (found.view, relations)
        if key not in self._serving:
            self._serving[key] = is_contained(self.view, found.view, relations)
        return self._serving[key]


def _is_at(found: AvailableBooster, wanted: Iterable[tuple[str, int]]) -> bool:
    """Whether a booster is of these versions as it is."""
    versions = found.versions.joined(found.through)
    return all(versions[name] == number for name, number in wanted)


def together(steps: Sequence[Change]) -> Change:
    """Updategrams that follow each other, as one."""
    return steps[0] if len(steps) == 1 else Coalesced(tuple(steps))


def _sets(names: Sequence[str]) -> Iterable[Names]:
    """All that are not empty, small ones first."""
    for size in range(1, len(names) + 1):
        yield from map(frozenset, combinations(names, size))


def _parts(names: Names) -> Iterable[Names]:
    """All subsets that are not empty, the whole included."""
    return _sets(sorted(names))


def published(steps: Iterable[AvailableUpdategram]) -> tuple[Change, ...]:
    return tuple(map(Published, steps))
