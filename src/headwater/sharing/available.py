"""What there is to compute with: updategrams, boosters and contents by size and place, no rows.

The optimizer chooses among these (section 5 of the paper: "the sizes of the base relations,
updategrams and boosters are available to the optimizer"). They are values: where they come from,
a catalog, a peer or a made-up workload, is no matter here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TypeVar

from headwater.algebra.hashing import cached_hash
from headwater.sharing.shared_views import SharedView
from headwater.sharing.versions import NOTHING, Interval, Versions

Name = TypeVar("Name")
Thing = TypeVar("Thing")


STORED = "stored:"
"""Before the name of a view of which the node keeps what is stored, in the place of an address."""


class Place(Enum):
    """Where an object is."""

    LOCAL = "local"
    PEER = "peer"
    """A peer's folder."""
    HTTP = "over HTTP"
    STORE = "object store"


@cached_hash
@dataclass(frozen=True)
class AvailableUpdategram:
    """An updategram of a base relation or of a view."""

    address: str
    subject: str
    first: Versions
    last: Versions
    rows: int
    size: int
    """In bytes."""
    place: Place = Place.LOCAL


@cached_hash
@dataclass(frozen=True)
class AvailableBooster:
    """A booster, of one relation or of several, perhaps through one in between."""

    address: str
    view: SharedView
    interval: Interval
    of: tuple[str, ...]
    versions: Versions
    rows: int
    size: int
    through: Versions = NOTHING
    place: Place = Place.LOCAL


@cached_hash
@dataclass(frozen=True)
class AvailableContents:
    """The rows of a base relation or a view at a version."""

    address: str
    subject: str
    versions: Versions
    rows: int
    size: int
    place: Place = Place.LOCAL


@cached_hash
@dataclass(frozen=True)
class AvailableStored:
    """What is stored of a view at `first` (V_A), or the part of it that changes up to `last` touch,
    or its first rows."""

    address: str
    view: SharedView
    first: Versions
    last: Versions
    rows: int
    size: int
    by: tuple[str, ...] = ()
    """For a grouping booster the stored columns that its groups are told apart by."""
    is_window: bool = False
    place: Place = Place.LOCAL

    @property
    def is_booster(self) -> bool:
        """Whether it is for changes up to `last` only."""
        return bool(self.by)

    def covers(self, last: Versions) -> bool:
        return not self.is_booster or last.precedes(self.last)


Step = tuple[AvailableUpdategram, bool]
"""An updategram, and whether it is gone ahead or back."""


@cached_hash
class Steps(tuple[Step, ...]):
    """Steps that follow each other; many plans share a long way, and each looks it up."""

    __hash__ = tuple.__hash__


@dataclass(frozen=True)
class Available:
    """Everything that may be used."""

    updategrams: tuple[AvailableUpdategram, ...] = ()
    boosters: tuple[AvailableBooster, ...] = ()
    contents: tuple[AvailableContents, ...] = ()
    stored: tuple[AvailableStored, ...] = ()

    def updategrams_of(self, subject: str) -> tuple[AvailableUpdategram, ...]:
        return self._updategrams.get(subject, ())

    def boosters_for(self, changed: str) -> tuple[AvailableBooster, ...]:
        """Those for changes of a relation."""
        return self._boosters.get(changed, ())

    def boosters_of(self, changed: str, of: Iterable[str]) -> tuple[AvailableBooster, ...]:
        """Those of just these relations."""
        return self._boosters_of.get((changed, frozenset(of)), ())

    def contents_of(self, subject: str) -> tuple[AvailableContents, ...]:
        return self._contents.get(subject, ())

    def rows_of(self, relation: str) -> int | None:
        """How large a relation is, as far as anything here tells."""
        if contents := self.contents_of(relation):
            return max(found.rows for found in contents)
        seen = [b.rows for b in self.boosters if b.of == (relation,)]
        seen += [u.rows for u in self.updategrams_of(relation)]
        return max(seen, default=None)

    @cached_property
    def _updategrams(self) -> Mapping[str, tuple[AvailableUpdategram, ...]]:
        return _grouped((found.subject, found) for found in self.updategrams)

    @cached_property
    def _boosters(self) -> Mapping[str, tuple[AvailableBooster, ...]]:
        return _grouped((found.interval.relation, found) for found in self.boosters)

    @cached_property
    def _boosters_of(self) -> Mapping[tuple[str, frozenset[str]], tuple[AvailableBooster, ...]]:
        return _grouped(((b.interval.relation, frozenset(b.of)), b) for b in self.boosters)

    @cached_property
    def _contents(self) -> Mapping[str, tuple[AvailableContents, ...]]:
        return _grouped((found.subject, found) for found in self.contents)


def _grouped(pairs: Iterable[tuple[Name, Thing]]) -> Mapping[Name, tuple[Thing, ...]]:
    found: dict[Name, list[Thing]] = {}
    for name, thing in pairs:
        found.setdefault(name, []).append(thing)
    return {name: tuple(things) for name, things in found.items()}
