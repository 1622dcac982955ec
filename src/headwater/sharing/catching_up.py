"""Catching up: the cheapest way for a view to become as new as what is here and offered allows.

A peer says what each of its objects is, how large, and who made it. With that, before anything is
transferred, the optimizer weighs the ways: from what is held here along updategrams of the view or
of its relations, with boosters, one long updategram instead of many short ones; or over contents
of the view, which may be cheaper than all that has happened meanwhile; or from its relations. What
the chosen way reads is fetched, with the entries that say what there is, and nothing else.

What a peer says is used for choosing only. What does not fit what is known is passed over, and what
was chosen is judged when it has come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass

from headwater.errors import HeadwaterError
from headwater.sharing.available import (
    AvailableBooster,
    AvailableContents,
    AvailableStored,
    AvailableUpdategram,
    Place,
)
from headwater.sharing.catalog import (
    DEFINING,
    Catalog,
    Listed,
    ListedBooster,
    ListedContents,
    ListedStored,
    ListedUpdategram,
)
from headwater.sharing.contents import Contents
from headwater.sharing.encoding import MALFORMED, decode
from headwater.sharing.errors import UnknownNameError
from headwater.sharing.offers import Offered
from headwater.sharing.plan_costs import Speeds
from headwater.sharing.planning import AS, Planner
from headwater.sharing.plans import RelationAt
from headwater.sharing.shared_views import SharedView
from headwater.sharing.versions import Versions

MOST_STARTS = 8
"""How many of a view's contents are weighed, the newest."""


class Foreseen(Catalog):
    """What a catalog would be with what a peer offers; for planning, and never for reading rows."""

    def __init__(self, catalog: Catalog, offered: Iterable[Offered], place: Place) -> None:
        self._base, self._place = catalog, place
        self._offered = {each.address: each for each in offered if each.address not in catalog}
        super().__init__(catalog.store, catalog.description)

    def refresh(self) -> None:
        self.known = self._base.known.copy()
        for listed in self._base:
            self._note(listed)
        for offered in sorted(self._offered.values(), key=lambda each: each.order):
            try:
                listed = self._listed_of(offered.address, offered.maker, offered.manifest)
                if self._fits(listed, offered):
                    self._note(listed)
            except (HeadwaterError, *MALFORMED):
                continue

    def _fits(self, listed: Listed, offered: Offered) -> bool:
        """Whether it could be let in, as far as its head tells; notes what says what there is."""
        if listed.kind in DEFINING:
            assert offered.entry is not None
            self.known.admit(decode(offered.entry), listed.maker)
            return True
        if type(listed.rows) is not int or listed.rows < 0:
            return False
        match listed:
            case ListedUpdategram(subject=subject, first=first, last=last):
                return self._is_of(listed, subject, first) and self._is_of(listed, subject, last)
            case ListedContents(subject=subject, versions=versions):
                return self._is_of(listed, subject, versions)
            case ListedBooster(view=view, interval=interval, of=of, versions=versions):
                relations = {interval.relation, *of, *versions, *listed.through}
                return relations <= set(view.relations) and set(of) == set(versions)
            case ListedStored(view=view, first=first, last=last):
                return set(first) == set(last) == set(view.relations)
        return False

    def _is_of(self, listed: Listed, subject: str, versions: Versions) -> bool:
        if subject in self.relations:
            return set(versions) == {subject} and self.relations[subject].owner == listed.maker
        return subject in self.views and set(versions) == set(self.views[subject].relations)

    def size(self, address: str) -> int:
        offered = self._offered.get(address)
        return super().size(address) if offered is None else offered.size

    def place(self, address: str) -> Place:
        return self._place if address in self._offered else super().place(address)

    @property
    def entries(self) -> set[str]:
        """Of what is offered, everything that says what there is."""
        kinds = ((offered.manifest["kind"], address) for address, offered in self._offered.items())
        return {address for kind, address in kinds if kind in DEFINING}


@dataclass(frozen=True)
class Way:
    """How a view becomes as new as it can be."""

    view: str
    last: Versions
    seconds: float
    reads: frozenset[str]
    """The addresses of all objects that it reads, here and there."""
    start: str = ""
    """The address of the contents that it begins with; none if it begins with what is held."""
    is_recomputed: bool = False
    """Whether it begins with the rows of the view's relations."""

    @property
    def kind(self) -> str:
        """In words."""
        if self.is_recomputed:
            return "the rows of its relations"
        changes = len(self.reads) - bool(self.start)
        if self.start:
            return "its contents" + (" and what changed since" if changes else "")
        return "updategrams and boosters" if changes else "nothing new"

    @property
    def rank(self) -> tuple[int, float]:
        """The newest first, then what costs least."""
        return -sum(self.last.values()), self.seconds


def best_way(
    foreseen: Foreseen, name: str, held: Mapping[str, Contents], speeds: Speeds
) -> Way | None:
    """The best way for a view that is known here or offered; None if there is none at all.

    `held` is what the node has of the view and its relations.
    """
    definition = foreseen.view(name)
    mine = {relation: held[relation] for relation in definition.relations if relation in held}
    planner = Planner(foreseen, mine, speeds)
    ways = list(_ways_from(planner, definition, held.get(name)))
    if not ways:
        ways = list(_from_relations(planner, definition))
    return min(ways, key=lambda way: way.rank, default=None)


def _ways_from(planner: Planner, view: SharedView, held: Contents | None) -> Iterator[Way]:
    """From the view as it is held, and from contents of it that are no older."""
    catalog, speeds = planner.catalog, planner.speeds
    if held is not None:
        yield _onwards(planner, view, held.versions, 0.0, "")
    published = [
        listed
        for listed in catalog.contents(view.name)
        if held is None
        or (listed.versions != held.versions and held.versions.precedes(listed.versions))
    ]
    published.sort(key=lambda listed: (-sum(listed.versions.values()), listed.address))
    for listed in published[:MOST_STARTS]:
        place, size = catalog.place(listed.address), catalog.size(listed.address)
        seconds = speeds.access(place, size, listed.rows)
        yield _onwards(planner, view, listed.versions, seconds, listed.address)


def _onwards(
    planner: Planner, view: SharedView, first: Versions, seconds: float, start: str
) -> Way:
    plan = planner.as_far_as_possible(view, first)
    starts = frozenset((start,)) if start else frozenset()
    if plan is None:
        return Way(view.name, first, seconds, starts, start)
    reads = starts | addresses_in(plan.change)
    return Way(view.name, plan.last, seconds + plan.seconds, reads, start)


def _from_relations(planner: Planner, view: SharedView) -> Iterator[Way]:
    """The newest rows of all its relations that can be had."""
    found = [_newest(planner, view, name) for name in view.relations]
    known = [each for each in found if each is not None]
    if len(known) == len(found):
        scales = planner.optimizer(view).scales
        last = Versions({each.name: each.version for each in known})
        seconds = sum(scales.weigh(each).seconds for each in known)
        reads = frozenset(address for each in known for address in addresses_in(each))
        yield Way(view.name, last, seconds, reads, is_recomputed=True)


def _newest(planner: Planner, view: SharedView, name: str) -> RelationAt | None:
    catalog = planner.catalog
    versions = {listed.last[name] for listed in catalog.updategrams(name)}
    versions |= {listed.versions[name] for listed in catalog.contents(name)}
    if name in planner.held:
        versions.add(planner.held[name].versions[name])
    there = (planner.optimizer(view).relation(name, v) for v in sorted(versions, reverse=True))
    return next((found for found in there if found is not None), None)


def addresses_in(plan: object) -> frozenset[str]:
    """Of everything that a plan reads; what the node itself holds has none."""
    found: set[str] = set()
    waiting = [plan]
    while waiting:
        match waiting.pop():
            case AvailableUpdategram() | AvailableBooster() | AvailableContents() as leaf:
                found.add(leaf.address.rpartition(AS)[2])
            case AvailableStored() as stored:
                found.add(stored.address)
            case tuple() as parts:
                waiting += parts
            case other if is_dataclass(other) and not isinstance(other, SharedView):
                waiting += [getattr(other, each.name) for each in fields(other)]
    return frozenset(found)


def require_view(catalog: Catalog, name: str) -> None:
    """UnknownNameError if neither the node nor the peer knows a view."""
    if name not in catalog.views:
        known = ", ".join(sorted(catalog.views)) or "none"
        raise UnknownNameError(
            f"Neither this node nor the other one has a view {name}.", f"There are: {known}."
        )
