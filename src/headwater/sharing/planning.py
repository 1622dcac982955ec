"""Planning: how a view gets from one vector to another, from what a catalog has.

The view's own updategrams lead there, or one base relation after the other does by the optimizer,
or the first for a part of the way and then the second; a view that the rules do not apply to may
be recomputed. All of that is weighed, and what costs least is taken. What is missing is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.sharing.available import (
    STORED,
    Available,
    AvailableBooster,
    AvailableContents,
    AvailableUpdategram,
    Place,
)
from headwater.sharing.booster import Booster
from headwater.sharing.carrying_out import (
    CarryingOut,
    DryWindowError,
    Lift,
    Loaded,
    as_it_is,
)
from headwater.sharing.catalog import Catalog, ListedUpdategram
from headwater.sharing.contents import Contents
from headwater.sharing.encoding import encode
from headwater.sharing.errors import MissingBoosterError, SharingError, VersionGapError
from headwater.sharing.group_plans import GroupPlans
from headwater.sharing.history import farthest, gap, reachable
from headwater.sharing.optimizer import Optimizer, together
from headwater.sharing.plan_costs import Scales, Speeds
from headwater.sharing.plans import (
    Change,
    Inverse,
    OfPart,
    Published,
    Recomputed,
    Summed,
    moving,
)
from headwater.sharing.several_steps import Heuristic, SeveralSteps
from headwater.sharing.shared_views import SharedView
from headwater.sharing.stored import StoredPart
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Interval, Versions
from headwater.sharing.view_parts import ViewPart, as_occurrence, parts_of, relation_of
from headwater.sharing.ways import reached_from

HELD = "held:"
"""Before the name of what the node itself holds, in the place of an address."""
AS = "="
"""Between an occurrence of a relation and the address of what it is an occurrence of."""
MANY = 64
"""From so many updategrams of a relation on, only the longest that lead to a landmark count."""


@dataclass(frozen=True)
class ViewPlan:
    """A plan for a view, with what it was weighed by."""

    view: SharedView
    change: Change
    scales: Scales

    @property
    def first(self) -> Versions:
        return self.change.first

    @property
    def last(self) -> Versions:
        return self.change.last

    @property
    def seconds(self) -> float:
        return self.scales.carried_out(self.change)


@dataclass
class Planner:
    """Plans for views of one catalog, with what the node holds."""

    catalog: Catalog
    held: Mapping[str, Contents] = field(default_factory=dict)
    speeds: Speeds = field(default_factory=Speeds)
    heuristic: Heuristic | None = None
    """By default that which fits the number of updategrams."""
    stored: Mapping[str, StoredPart] = field(default_factory=dict)
    """What the node keeps as stored of views that it holds."""
    dry: set[str] = field(default_factory=set)
    """Windows that have run dry when a plan was carried out."""
    _optimizers: dict[SharedView, Optimizer] = field(default_factory=dict)

    def load(self, address: str) -> Loaded:
        """An object that a plan names, of a relation or of one of its occurrences."""
        occurrence, mark, inner = address.rpartition(AS)
        if mark:
            found = self.load(inner)
            assert isinstance(found, Updategram | Booster | Contents)
            return as_occurrence(found, occurrence)
        if address.startswith(STORED):
            return self.stored[address.removeprefix(STORED)]
        if address.startswith(HELD):
            return self.held[address.removeprefix(HELD)]
        item = self.catalog.load(address)
        assert isinstance(item, Loaded)
        return item

    def carrying_out(
        self, view: SharedView, lift: Lift = as_it_is, *, makes_boosters: bool = False
    ) -> CarryingOut:
        """What carries a plan for a view out."""
        return CarryingOut(view, self.load, lift, makes_boosters)

    def carried(
        self, plan: ViewPlan, lift_for: Callable[[ViewPlan], Lift], *, makes_boosters: bool = False
    ) -> tuple[Updategram, CarryingOut]:
        """What a plan comes to, by another one where a window that it counts on has run dry."""
        while True:
            carrying = self.carrying_out(plan.view, lift_for(plan), makes_boosters=makes_boosters)
            try:
                return carrying.done(plan.change), carrying
            except DryWindowError as error:
                self.dry |= error.addresses
                found = self.candidates(plan.view, plan.first, plan.last)
                if not found:
                    raise
                plan = self._best(plan.view, found)

    # Plans

    def between(self, view: SharedView, first: Versions, last: Versions) -> ViewPlan:
        """From one vector to another, forwards or backwards; a SharingError if there is no way."""
        found = self.candidates(view, first, last)
        if not found:
            raise self._nothing(view, first, last)
        return self._best(view, found)

    def as_far_as_possible(self, view: SharedView, first: Versions) -> ViewPlan | None:
        """Forwards to the newest vector that can be reached; None if none can."""
        newest = reached_from(self.optimizer(view).available.updategrams_of(view.name), first)
        ahead = [there for there in newest if first.precedes(there)]
        steps, here = [], first
        if ahead and (there := max(ahead, key=lambda v: (sum(v.values()), str(v)))) != first:
            steps, here = [self._along_own(view, first, there)], there
        for relation in view.relations:
            versions = reachable(self.catalog, relation, here[relation])

            def leads_to(version: int, at: Versions = here, name: str = relation) -> bool:
                return self._by_relations(view, at, at.moved(name, version)) is not None

            if (version := farthest(versions, leads_to)) is not None:
                there = here.moved(relation, version)
                steps.append(self._by_relations(view, here, there))
                here = there
        known = [step for step in steps if step is not None]
        found = [together(known)] if known else []
        if view.view.top is not None:
            beyond = GroupPlans(self, view).farthest(first, here)
            found, here = (found, here) if beyond is None else ([], beyond)
        if here == first:
            return None
        return self._best(view, [*found, *self.candidates(view, first, here)])

    def pays(self, booster: Booster) -> bool:
        """Whether a booster saves other views known here more than it costs to keep.

        A view that it serves, and that has no booster for this yet, reads it and not the relation.
        """
        size, rows = len(encode(booster)), len(booster.rows)
        access = self.speeds.access(Place.LOCAL, size, rows)
        saved = 0.0
        for view in self.catalog.views.values():
            if view == booster.view or view.beyond_rules or len(booster.of) > 1:
                continue
            if not booster.covers(view, booster.interval):
                continue
            optimizer, interval, (name,) = self.optimizer(view), booster.interval, booster.of
            change = optimizer.way(interval.relation, interval.first, interval.last)
            whole = optimizer.relation(name, booster.versions[name])
            if change is None or whole is None:
                continue
            if not optimizer.boosters(change, name, booster.versions[name]):
                saved += optimizer.scales.weigh(whole).seconds - access
        return saved > access

    def joined(
        self, view: SharedView, listed: ListedUpdategram, names: Sequence[str],
        here: Mapping[str, int],
    ) -> ViewPlan | None:  # fmt: skip
        """An updategram joined with some relations of the view at these versions."""
        optimizer = self.optimizer(view)
        change = Published(_updategram(self.catalog, listed))
        plan = optimizer.step(change, here, names)
        return None if plan is None else ViewPlan(view, plan, optimizer.scales)

    def _best(self, view: SharedView, found: Sequence[Change]) -> ViewPlan:
        optimizer = self.optimizer(view)
        return ViewPlan(view, optimizer.cheapest(found), optimizer.scales)

    def candidates(self, view: SharedView, first: Versions, last: Versions) -> list[Change]:
        found: list[Change | None] = [self._along_own(view, first, last)]
        found.append(self._by_relations(view, first, last))
        if view.beyond_rules:
            found.append(self._recomputed(view, first, last))
            found += GroupPlans(self, view).between(first, last)
        for there in self._on_the_way(view, first, last):
            rest = self._by_relations(view, there, last)
            start = self._along_own(view, first, there)
            if rest is not None and start is not None:
                found.append(together([start, rest]))
        return [plan for plan in found if plan is not None]

    def _by_relations(self, view: SharedView, first: Versions, last: Versions) -> Change | None:
        """From the updategrams of its relations."""
        if not view.beyond_rules:
            return self._steps(view, *view.relations).between(first, last)
        return self.summed(view, first, last) if view.view.top is None else None

    def summed(self, view: SharedView, first: Versions, last: Versions) -> Change | None:
        """The view's rows from those of its joins, each by the rules."""
        parts = []
        for part in parts_of(view):
            ends = part.spread(first), part.spread(last)
            if ends[0] == ends[1]:
                continue
            plan = self._steps(part, *part.relations).between(*ends)
            if plan is None:
                return None
            parts.append(OfPart(part, plan))
            self.optimizer(view).scales.parts[part] = self.optimizer(part).scales
        return Summed(tuple(parts), first, last)

    def _on_the_way(self, view: SharedView, first: Versions, last: Versions) -> list[Versions]:
        """The vector nearest to the last to which the view's own updategrams lead, if any."""
        own = self.optimizer(view).available.updategrams_of(view.name)
        there = [v for v in reached_from(own, first) if v not in (first, last)]

        def distance(versions: Versions) -> int:
            return sum(abs(last[name] - versions[name]) for name in last)

        nearer = [v for v in there if distance(v) < distance(first)]
        return sorted(nearer, key=lambda v: (distance(v), str(v)))[:1]

    def _along_own(self, view: SharedView, first: Versions, last: Versions) -> Change | None:
        """By updategrams of the view itself."""
        optimizer = self.optimizer(view)
        way = optimizer.ways(view.name).cheapest(first, last, optimizer.scales.access)
        if not way:
            return None
        steps: list[Change] = [
            Published(found) if ahead else Inverse(Published(found)) for found, ahead in way
        ]
        return together(steps)

    def _recomputed(self, view: SharedView, first: Versions, last: Versions) -> Change | None:
        optimizer, states = self.optimizer(view), []
        for versions in (first, last):
            there = [optimizer.relation(name, versions[name]) for name in view.relations]
            known = tuple(found for found in there if found is not None)
            if len(known) < len(there):
                return None
            states.append(known)
        return Recomputed(*states)

    def _steps(self, view: SharedView, *relations: str) -> SeveralSteps:
        optimizer = self.optimizer(view)
        most = max(len(optimizer.available.updategrams_of(name)) for name in relations)
        chosen = self.heuristic or (Heuristic.BOTH if most > MANY else Heuristic.COALESCE)
        return SeveralSteps(optimizer, chosen)

    # What there is

    def starts(self, view: SharedView) -> list[AvailableContents]:
        """Rows of the view itself, of whatever version."""
        found = [
            AvailableContents(
                listed.address,
                view.name,
                listed.versions,
                listed.rows,
                self.catalog.size(listed.address),
                self.catalog.place(listed.address),
            )
            for listed in self.catalog.contents(view.name)
        ]
        if (mine := self.held.get(view.name)) is not None:
            about = HELD + view.name, view.name, mine.versions, len(mine.rows), 0
            found.append(AvailableContents(*about))
        return found

    def optimizer(self, view: SharedView) -> Optimizer:
        if view not in self._optimizers:
            available = self._available(view)
            scales = Scales(view, available, self.speeds)
            self._optimizers[view] = Optimizer(view, available, scales)
        return self._optimizers[view]

    def _available(self, view: SharedView) -> Available:
        """What the catalog and the node itself have of a view and its relations."""
        catalog = self.catalog
        updategrams = [_updategram(catalog, u) for u in catalog.updategrams(view.name)]
        contents = []
        for name in view.relations:
            relation = relation_of(name) if isinstance(view, ViewPart) else name
            as_name = "" if relation == name else name + AS
            for listed in catalog.updategrams(relation):
                updategrams.append(_updategram(catalog, listed, as_name))
            for found in catalog.contents(relation):
                size, place = catalog.size(found.address), catalog.place(found.address)
                ends = _as(found.versions, as_name)
                contents.append(
                    AvailableContents(as_name + found.address, name, ends, found.rows, size, place)
                )
            if (mine := self.held.get(relation)) is not None:
                address, ends = as_name + HELD + relation, _as(mine.versions, as_name)
                contents.append(AvailableContents(address, name, ends, len(mine.rows), 0))
        boosters = [
            AvailableBooster(
                listed.address, listed.view, listed.interval, listed.of, listed.versions,
                listed.rows, catalog.size(listed.address), listed.through,
                catalog.place(listed.address),
            )
            for name in view.relations
            for listed in catalog.boosters(name)
        ]  # fmt: skip
        stored = tuple(GroupPlans(self, view).available())
        return Available(tuple(updategrams), tuple(boosters), tuple(contents), stored)

    # What is missing

    def _nothing(self, view: SharedView, first: Versions, last: Versions) -> SharingError:
        own = gap(self.catalog, view.name, first, last)
        if view.beyond_rules:
            optimizer = self.optimizer(view)
            lacking = [
                name
                for name in view.relations
                if any(optimizer.relation(name, v[name]) is None for v in (first, last))
            ]
            return VersionGapError(
                own.message,
                f"View {view.name} {view.beyond_rules}, so that it follows its own updategrams "
                "alone, or rows of all its relations: here are none of "
                f"{' and '.join(lacking) or 'its changes'}. Exchange with the node that publishes "
                "it.",
            )
        here = first
        for name in view.relations:
            if here[name] == last[name]:
                continue
            low, high = sorted((here[name], last[name]))
            change = self.optimizer(view).way(name, low, high)
            ends = Versions({name: here[name]}), Versions({name: last[name]})
            if change is None:
                return gap(self.catalog, name, *ends)
            if self._steps(view, name).along(name, here, last[name]) is None:
                return self._missing(view, change, here)
            here = here.moved(name, last[name])
        return own

    def _missing(self, view: SharedView, change: Change, here: Versions) -> MissingBoosterError:
        """Which booster is missing, and who can make it."""
        optimizer = self.optimizer(view)
        (changed,) = moving(change)
        others = [name for name in view.relations if name != changed]
        others.sort(key=lambda name: not view.connects((changed,), name))
        name = next((n for n in others if optimizer.step(change, here, [n]) is None), others[-1])
        low, high = sorted((change.first[changed], change.last[changed]))
        return missing_booster(self.catalog, view, Interval(changed, low, high), name)


def missing_booster(
    catalog: Catalog, view: SharedView, interval: Interval, name: str
) -> MissingBoosterError:
    owner = catalog.relations[name].owner if name in catalog.relations else "its owner"
    there = [b for b in catalog.boosters(interval.relation) if name in b.of]
    others = "; ".join(sorted(f"{b.interval} in view {b.view.name}" for b in there))
    return MissingBoosterError(
        f"View {view.name} needs a booster of {name} for {interval}, and there is none"
        + (f" (only for {others})." if others else "."),
        f"Exchange with a node that has one, or with {owner}, which can make it; nothing was "
        "applied.",
    )


def _updategram(
    catalog: Catalog, listed: ListedUpdategram, as_name: str = ""
) -> AvailableUpdategram:
    return AvailableUpdategram(
        as_name + listed.address,
        as_name.removesuffix(AS) or listed.subject,
        _as(listed.first, as_name),
        _as(listed.last, as_name),
        listed.rows,
        catalog.size(listed.address),
        catalog.place(listed.address),
    )


def _as(versions: Versions, as_name: str) -> Versions:
    """A relation's version as that of one of its occurrences."""
    if not as_name:
        return versions
    (number,) = versions.values()
    return Versions({as_name.removesuffix(AS): number})
