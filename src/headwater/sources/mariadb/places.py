"""Places in a binary log, snapshots that are known by one, and what a position holds beside it.

A place is a file and where in it. Files are numbered by the server, so places of one log are
in one order, and a transaction is known by where it ends. Beside the place a position has
what shows later whether it is still the same log: the last group of events that was read, with
a checksum of its bytes, and the random text that setup has written into the database.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from headwater.sources.contract import Position

_FILE_BITS = 44


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a server's log."""

    file: str
    position: int

    @property
    def stamp(self) -> int:
        """A number in the order of the log."""
        number = self.file.rpartition(".")[2]
        return (int(number) << _FILE_BITS) + self.position

    def __str__(self) -> str:
        return f"{self.file}:{self.position}"

    @classmethod
    def parse(cls, text: str) -> Place:
        file, _, position = text.rpartition(":")
        return cls(file, int(position))


@dataclass(frozen=True, slots=True)
class PlaceSnapshot:
    """The state that holds what ends up to a place, and nothing that ends behind it."""

    stamp: int
    start: str = ""
    """Which run of the server it was taken in."""

    def includes(self, stamp: int) -> bool:
        return stamp <= self.stamp

    def __str__(self) -> str:
        return f"{self.stamp} {self.start}".rstrip()

    @classmethod
    def parse(cls, text: str) -> PlaceSnapshot:
        stamp, _, start = text.partition(" ")
        return cls(int(stamp), start)


@dataclass(frozen=True, slots=True)
class Group:
    """A group of events that was read: where it begins, when it was logged, and its checksum."""

    start: Place
    end: Place
    logged_at: int
    checksum: int

    def __str__(self) -> str:
        return f"{self.start} {self.end} {self.logged_at} {self.checksum}"

    @classmethod
    def parse(cls, text: str) -> Group:
        start, end, logged_at, checksum = text.split(" ")
        return cls(Place.parse(start), Place.parse(end), int(logged_at), int(checksum))


@dataclass(frozen=True)
class LogPosition:
    """Up to where a log was read.

    `prepared` has where groups begin that wait for another one to commit them, by their names.
    `lost` are relations and columns of which a gap has been told and which are still not there.
    """

    at: Place
    log: str
    """What setup wrote into the database."""
    start: str = ""
    """The run of the server in which it was read."""
    last: Group | None = None
    prepared: Mapping[str, Place] = field(default_factory=dict)
    lost: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)

    @property
    def begin(self) -> Place:
        """From where the server is to send again."""
        first = self.last.start if self.last is not None else self.at
        return min([first, *self.prepared.values()], key=lambda place: place.stamp)

    def moved(self, at: Place, last: Group | None = None) -> LogPosition:
        return replace(self, at=at, last=last or self.last)

    def json(self) -> Position:
        found: Position = {"at": str(self.at), "log": self.log}
        if self.start:
            found["start"] = self.start
        if self.last is not None:
            found["last"] = str(self.last)
        if self.prepared:
            found["prepared"] = {name: str(place) for name, place in self.prepared.items()}
        if self.lost:
            found["lost"] = {
                name: None if columns is None else list(columns)
                for name, columns in self.lost.items()
            }
        return found

    @classmethod
    def of(cls, position: Position) -> LogPosition:
        last = position.get("last")
        prepared = cast("Mapping[str, str]", position.get("prepared", {}))
        lost = cast("Mapping[str, list[str] | None]", position.get("lost", {}))
        return cls(
            Place.parse(str(position["at"])),
            str(position["log"]),
            str(position.get("start", "")),
            None if last is None else Group.parse(str(last)),
            {name: Place.parse(place) for name, place in prepared.items()},
            {name: None if of is None else tuple(of) for name, of in lost.items()},
        )
