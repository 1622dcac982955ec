"""The rules of a load, as a machine: what is to be done next, until the view can be put.

A place in each source's order is kept first. Then a snapshot of each source is opened that splits
its order, into what is in it and what will be delivered behind it; where none fits, another is
tried. What is in it has to be in the change log before the view is put: else a crash would leave a
view that has come further than its log. Where snapshots divide a global transaction, the view
is put as it was before (see `cutting`). Connections, files and pauses are its drivers' (see `load`,
and the simulation).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from headwater.errors import HeadwaterError, LostConnectionError, SourceError, StateLostError
from headwater.sources.contract import Position
from headwater.warehouse.vectors import Reached, VersionVector

_TRIES = 5
_FITTING_TRIES = 50
_LOOK_BACK = 1000
_NOTHING: Mapping[str, int] = {}


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
class Cut:
    """Find where the view is put whose snapshots hold everything up to these numbers: at them, or
    where they divide global transactions, before; then `cut`, or `cannot_cut`."""

    numbers: Mapping[str, int]


@dataclass(frozen=True)
class Put:
    """Read the snapshots and put the view, with this vector."""

    vector: VersionVector
    back: Mapping[str, int] = field(default_factory=dict)
    """What is to be taken back of sources: everything behind the vector up to these numbers."""


LoadTask: TypeAlias = Hold | OpenSnapshot | MakeDurable | Cut | Put


class Loading:
    """One view's load from these sources; with `whole` it divides no global transaction.

    Up to the numbers in `floor` the view has been shown already: it does not go back behind them.
    """

    def __init__(
        self, sources: Sequence[str], whole: bool = False, floor: Mapping[str, int] = _NOTHING
    ) -> None:
        self._sources = sources
        self._whole = whole
        self._floor = floor
        self._tries = 0
        self._begin()

    def _begin(self) -> None:
        self._held: set[str] = set()
        self._uncut = 0
        self._open_anew()

    def _open_anew(self) -> None:
        self._numbers: dict[str, int] = {}
        self._unfit = dict.fromkeys(self._sources, self._uncut)
        self._vector: dict[str, Reached] = {}
        self._cut: VersionVector | None = None

    def next(self) -> LoadTask:
        for source in self._sources:
            if source not in self._held:
                return Hold(source)
        for source in self._sources:
            if source not in self._numbers:
                return OpenSnapshot(source, self._unfit[source] > 0)
            if source not in self._vector:
                return MakeDurable(source, self._numbers[source])
        if not self._whole:
            return Put(self._vector)
        if self._cut is None:
            return Cut(self._numbers)
        ahead = {s: n for s, n in self._numbers.items() if n > self._cut[s].number}
        return Put(self._cut, ahead)

    def held(self, source: str) -> None:
        self._held.add(source)

    def opened(self, source: str, number: int | None) -> bool:
        """Whether a snapshot fits which splits the order behind a number, or nowhere."""
        if number is not None and number >= self._floor.get(source, 0):
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

    def cut(self, vector: VersionVector) -> None:
        """The view is put at this vector."""
        self._cut = vector

    def cannot_cut(self, failure: LostConnectionError) -> None:
        """It cannot be put where these snapshots are; others are tried, for a while."""
        self._uncut += 1
        if self._uncut == _TRIES:
            raise failure
        self._open_anew()

    def starts_over(self, failure: BaseException) -> bool:
        """Whether the load begins anew after a failure, which has cost it its places."""
        self._begin()
        self._tries += 1
        worth = isinstance(failure, LostConnectionError | LostSnapshotError | StateLostError)
        return worth and self._tries < _TRIES
