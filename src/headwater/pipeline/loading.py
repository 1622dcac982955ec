"""The rules of a load, as a machine: what is to be done next, until the view can be put.

A place in each source's order is kept first. Then a snapshot of each source is opened that splits
its order, into what is in it and what will be delivered behind it; where none fits, another is
tried. What is in it has to be in the change log before the view is put: else a crash would leave a
view that has come further than its log. Connections, files and pauses are its drivers' (see
`load`, and the simulation).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from headwater.errors import HeadwaterError, LostConnectionError, SourceError
from headwater.sources.contract import Position
from headwater.warehouse.vectors import Reached, VersionVector

_TRIES = 5
_FITTING_TRIES = 50
_LOOK_BACK = 1000


def held_back(number: int, first: int = 1) -> int:
    """Behind which number begins for certain what a snapshot lacks that is taken now, when a
    source's log has been read up to `number`, and is kept from `first` on."""
    return max(first - 1, number - _LOOK_BACK, 0)


class LostSnapshotError(HeadwaterError):
    """A source cannot show the snapshot any more."""


@dataclass(frozen=True)
class Hold:
    """Keep a place in a source's order, far enough back; then `held`."""

    source: str


@dataclass(frozen=True)
class OpenSnapshot:
    """Open a snapshot of a source and read its log up to there; then `opened`."""

    source: str
    again: bool
    """Whether an earlier one did not fit."""


@dataclass(frozen=True)
class MakeDurable:
    """Wait until the change log holds everything up to a number; then `durable`."""

    source: str
    number: int


@dataclass(frozen=True)
class Put:
    """Read the snapshots and put the view, with this vector."""

    vector: VersionVector


LoadTask: TypeAlias = Hold | OpenSnapshot | MakeDurable | Put


class Loading:
    """One view's load from these sources."""

    def __init__(self, sources: Sequence[str]) -> None:
        self._sources = sources
        self._tries = 0
        self._begin()

    def _begin(self) -> None:
        self._held: set[str] = set()
        self._numbers: dict[str, int] = {}
        self._unfit = dict.fromkeys(self._sources, 0)
        self._vector: dict[str, Reached] = {}

    def next(self) -> LoadTask:
        for source in self._sources:
            if source not in self._held:
                return Hold(source)
        for source in self._sources:
            if source not in self._numbers:
                return OpenSnapshot(source, self._unfit[source] > 0)
            if source not in self._vector:
                return MakeDurable(source, self._numbers[source])
        return Put(self._vector)

    def held(self, source: str) -> None:
        self._held.add(source)

    def opened(self, source: str, number: int | None) -> bool:
        """Whether a snapshot fits which splits the order behind a number, or nowhere."""
        if number is not None:
            self._numbers[source] = number
            return True
        self._unfit[source] += 1
        if self._unfit[source] == _FITTING_TRIES:
            raise SourceError(
                f"Source {source}: no snapshot fits the log.",
                "Look for transactions that wait for a synchronous standby.",
            )
        return False

    def durable(self, source: str, position: Position | None) -> None:
        """What the snapshot holds is in the change log; `position` is where it ends there."""
        self._vector[source] = Reached(self._numbers[source], position)

    def starts_over(self, failure: BaseException) -> bool:
        """Whether the load begins anew after a failure, which has cost it its places."""
        self._begin()
        self._tries += 1
        worth = isinstance(failure, LostConnectionError | LostSnapshotError)
        return worth and self._tries < _TRIES
