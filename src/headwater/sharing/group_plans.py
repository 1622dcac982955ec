"""Plans for views with groups or first rows, by what is stored of them (A12 to A17).

The updategram of a view's rows comes from its relations, join by join (A12); with what is stored of
the view where it stands, or a part of that, it gives the updategram of what the view shows. What is
stored is kept by the node itself, published by somebody, or computed from rows of the relations;
grouping boosters that follow each other are taken as one (A16), and what stands at an earlier
version is taken on (A15).

Choices: whether a window has enough rows is seen when it is used; a plan that counted on one that
has run dry is made anew without it (`Planner.carried`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.sharing.available import STORED, AvailableStored
from headwater.sharing.grouping import GroupingBooster, serves
from headwater.sharing.history import farthest, reachable
from headwater.sharing.plans import (
    Change,
    ComputedStored,
    LaterStored,
    MergedStored,
    PublishedStored,
    Regrouped,
    Stored,
)
from headwater.sharing.shared_views import SharedView
from headwater.sharing.stored import at, is_whole
from headwater.sharing.versions import Versions
from headwater.sharing.view_parts import ViewPart
from headwater.sharing.windows import Window

if TYPE_CHECKING:
    from headwater.sharing.planning import Planner


@dataclass(frozen=True)
class GroupPlans:
    """Plans for one view."""

    planner: Planner
    view: SharedView

    def between(self, first: Versions, last: Versions) -> list[Change]:
        """From one vector to another, by each thing that is stored and serves."""
        if self.view.view.top is None or first == last:
            return []
        rows = self.planner.summed(self.view, first, last)
        if rows is None:
            return []
        return [Regrouped(rows, stored) for stored in self._stored(first, last)]

    def farthest(self, first: Versions, own: Versions) -> Versions | None:
        """The farthest vector that is reached so, if that is beyond where the view's own
        updategrams lead."""
        if not self._leads_beyond(first, own):
            return None
        there = self.rows_lead_to(first)
        ends = {there, *(s.last for s in self._there if s.is_booster)}
        ahead = [v for v in ends if own != v and own.precedes(v) and v.precedes(there)]
        ahead.sort(key=lambda v: (-sum(v.values()), str(v)))
        return next((end for end in ahead if self.between(first, end)), None)

    def rows_lead_to(self, first: Versions) -> Versions:
        """How far the updategram of the view's rows can be had."""
        there = first
        for relation in self.view.relations:
            versions = reachable(self.planner.catalog, relation, first[relation])

            def leads_to(version: int, at: Versions = there, name: str = relation) -> bool:
                return self.planner.summed(self.view, at, at.moved(name, version)) is not None

            if (version := farthest(versions, leads_to)) is not None:
                there = there.moved(relation, version)
        return there

    def _leads_beyond(self, first: Versions, own: Versions) -> bool:
        """Whether updategrams of its relations lead anywhere beyond a vector at all."""
        catalog = self.planner.catalog
        return any(
            version > own[relation]
            for relation in self.view.relations
            for version in reachable(catalog, relation, first[relation])[:1]
        )

    @property
    def _there(self) -> tuple[AvailableStored, ...]:
        return self.planner.optimizer(self.view).available.stored

    def _stored(self, first: Versions, last: Versions) -> Iterator[Stored]:
        """What is stored at a vector, or as much of it as a change needs."""
        view, optimizer, boosters = self.view, self.planner.optimizer(self.view), []
        for found in self._there:
            is_own = found.view == view
            if found.is_booster and is_own:
                boosters.append(found)
            if found.address in self.planner.dry or not found.covers(last):
                continue
            if found.first == first:
                yield PublishedStored(found)
            elif is_own and (found.first.precedes(first) or not found.is_booster):
                since = self.planner.summed(view, found.first, first)
                if since is not None:
                    yield LaterStored(PublishedStored(found), since)
        yield from _merged(boosters, first, last)
        there = [optimizer.relation(name, first[name]) for name in view.relations]
        known = tuple(found for found in there if found is not None)
        if len(known) == len(there):
            yield ComputedStored(known)

    def whole_at(self, versions: Versions) -> GroupingBooster | None:
        """All that is stored of the view at a vector, if it can be had."""
        for plan in self._stored(versions, versions):
            part = self.planner.carrying_out(self.view).stored(plan)
            if isinstance(part, GroupingBooster) and is_whole(part):
                return part
        return None

    def available(self) -> Iterator[AvailableStored]:
        """What serves the view: made for it, or for one with finer groups over the same rows."""
        view, catalog = self.view, self.planner.catalog
        if view.view.top is None or isinstance(view, ViewPart):
            return
        for listed in catalog.stored():
            if listed.view == view or serves(view, listed.view, listed.by):
                yield AvailableStored(
                    listed.address,
                    listed.view,
                    listed.first,
                    listed.last,
                    listed.rows,
                    catalog.size(listed.address),
                    listed.by,
                    listed.kind == "window",
                    catalog.place(listed.address),
                )
        mine = self.planner.stored.get(view.name)
        if mine is not None and mine.view == view:
            about = STORED + view.name, view, at(mine), at(mine), len(mine.rows), 0
            yield AvailableStored(*about, is_window=isinstance(mine, Window))


def _merged(
    boosters: Iterable[AvailableStored], first: Versions, last: Versions
) -> Iterator[Stored]:
    """Grouping boosters that together cover a change, each as far on as there is one (A16)."""
    by_columns: dict[tuple[str, ...], list[AvailableStored]] = {}
    for found in boosters:
        by_columns.setdefault(found.by, []).append(found)
    for there in by_columns.values():
        chain = _chain(there, first, last)
        if len(chain) > 1:
            yield MergedStored(tuple(map(PublishedStored, chain)))


def _chain(
    there: Iterable[AvailableStored], first: Versions, last: Versions
) -> list[AvailableStored]:
    """From one vector to beyond another; empty if they do not lead there."""
    chain: list[AvailableStored] = []
    reached = first
    while not last.precedes(reached):
        further = [
            found
            for found in there
            if found.last != reached
            and reached.precedes(found.last)
            and found.first.precedes(reached)
            and (chain[-1].first.precedes(found.first) if chain else found.first == first)
        ]
        if not further:
            return []
        chain.append(max(further, key=lambda found: (sum(found.last.values()), found.address)))
        reached = chain[-1].last
    return chain
