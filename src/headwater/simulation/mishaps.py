"""What goes wrong in a deployment: how big it is, what is drawn from its seed, and what it hit.

What happened is data, so that a deployment can be repeated with less. Where something could be
lost and a process seldom comes, a crash is likely; elsewhere it is as likely as what the process
does there matters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import TypeAlias

Cell: TypeAlias = tuple[str, str]
"""What a process was doing, and the step that it was about to take."""


class Incident(StrEnum):
    """What may happen while a process is at work."""

    KILLED = "killed"
    POWER = "power lost"
    PAUSED = "paused"
    LATER = "clock jumps"
    FULL = "disk full"
    RESTORED = "source put back"


_WEIGHTS = {
    Incident.KILLED: 8,
    Incident.POWER: 14,
    Incident.PAUSED: 8,
    Incident.LATER: 4,
    Incident.FULL: 2,
    Incident.RESTORED: 1,
}
_LIKELY = {
    "start": 0.002,
    "load": 0.01,
    "reload": 0.06,
    "recompute": 0.06,
    "repair": 0.15,
    "take up": 0.1,
    "change log": 0.1,
    "acknowledge": 0.2,
    "commit": 0.25,
    "note": 0.15,
    "lease": 0.1,
    "fold": 0.1,
    "merge": 0.1,
    "clean up": 0.25,
    "release": 0.25,
    "stop": 0.15,
}
"""How likely something happens at a step of what a process does: everywhere, and not only where
most of the steps are."""
_LIKELY_AT = {
    ("start", "folder"): 0.02,
    ("load", "folder"): 0.02,
    ("load", "wait"): 0.1,
    ("reload", "wait"): 0.4,
    ("recompute", "wait"): 0.4,
    ("fold", "link"): 0.3,
    ("fold", "remove"): 0.5,
    ("merge", "link"): 0.5,
    ("clean up", "rename"): 0.4,
    ("clean up", "link"): 1.0,
    ("load", "link"): 1.0,
}
"""The same for steps that are seldom taken when something could be lost."""
_LATE = frozenset({"fold", "merge", "clean up", "release", "stop"})
"""What is mostly done when there is little else to do: of each something may happen once more."""
_UNLIKELY = 0.02
_OFTEN = 0.5

Mishap: TypeAlias = tuple[int, Incident]
"""At which step something happened."""


@dataclass(frozen=True)
class Settings:
    """How big a deployment is, and how much happens to it."""

    seed: int
    transactions: int
    views: int
    mishaps: int
    """At most so many."""
    given: tuple[Mishap, ...] | None = None
    """What is to happen, instead of what is drawn."""
    aims: tuple[int, ...] = ()
    """At which steps the power is lost, whatever else is drawn."""
    calm_from: int | None = None
    """From which step on nothing may happen, where that is given; None: it always may."""

    @property
    def tops(self) -> bool:
        """Whether there are views with a top: in some of ten deployments."""
        return self.seed % 10 == 2 or self.seed % 30 == 6

    @property
    def groups(self) -> bool:
        """Whether there is a group of views: in some of ten deployments."""
        return self.seed % 10 == 8 or self.seed % 30 == 16 or self.seed % 40 == 39

    @property
    def copies(self) -> bool:
        """Whether copies of some relations are kept beside views: in one of ten deployments."""
        return self.seed % 10 == 6

    @property
    def any_algorithm(self) -> bool:
        """Whether views are by any algorithm that may be: in two of ten deployments."""
        return self.seed % 10 in (4, 9)

    @property
    def parts(self) -> bool:
        """Whether these have several parts: in every fourth of those."""
        return self.seed % 20 == 19

    @property
    def recomputes(self) -> bool:
        """Whether views may be recomputed at any moment: in two of thirty-nine deployments."""
        return self.seed % 39 in (12, 38)

    @property
    def together(self) -> bool:
        """Whether questions wait, and some go together, in one of ten deployments; in the others
        each is answered when it is asked."""
        return self.seed % 10 == 1

    @property
    def across(self) -> bool | None:
        """Whether there are transactions across both databases, in one of eleven deployments: None
        if not, False if parts of them may never come."""
        return self.seed % 22 == 10 if self.seed % 11 == 10 else None

    @property
    def shares_loads(self) -> bool:
        """Whether views that are to be loaded at the same time read together: in four of nineteen
        deployments."""
        return self.seed % 19 in (11, 13, 14, 15)

    @property
    def objects(self) -> bool:
        """Whether the warehouse is in an object store: in two of thirty-nine deployments."""
        return self.seed % 39 in (12, 25)

    @classmethod
    def of(cls, seed: int) -> Settings:
        random = Random(seed)
        return cls(seed, random.randint(2, 20), random.randint(1, 3), random.randint(1, 40))


class Mishaps:
    """What happens at which step of a deployment: drawn, or given."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._random = Random(settings.seed)
        self._often = self._random.choice([0.5, 2.0])
        self._happened: list[Mishap] = []
        self._late: set[str] = set()

    def due(self, step: int, cell: Cell, worth: Callable[[], bool] | None) -> Incident | None:
        """What happens at a step; `worth` tells of one that is seldom taken whether a crash there
        could cost something."""
        if self._settings.given is not None:
            return next((what for at, what in self._settings.given if at == step), None)
        if step in self._settings.aims:
            self._happened.append((step, Incident.POWER))
            return Incident.POWER
        over = self.are_over(step)
        if over and (cell[0] not in _LATE or cell[0] in self._late):
            return None
        if worth is None or cell[0] in _LATE:
            incident = self._drawn(cell)
        else:
            incident = self._drawn_where_seldom(worth)
        if incident is not None:
            self._late |= {cell[0]} if over else set()
            self._happened.append((step, incident))
        return incident

    def _drawn(self, cell: Cell) -> Incident | None:
        likely = _LIKELY_AT.get(cell) or _LIKELY.get(cell[0], _UNLIKELY)
        if self._random.random() >= self._often * likely:
            return None
        return self._random.choices(list(_WEIGHTS), weights=list(_WEIGHTS.values()))[0]

    def _drawn_where_seldom(self, worth: Callable[[], bool]) -> Incident | None:
        if self._random.random() >= _OFTEN or not worth():
            return None
        return self._random.choice([Incident.KILLED, Incident.POWER])

    def are_over(self, step: int) -> bool:
        """Whether there have been as many as may be, but for what is mostly done afterwards."""
        if self._settings.given is not None:
            return self._settings.calm_from is not None and step >= self._settings.calm_from
        return len(self._happened) >= self._settings.mishaps

    def as_given(self) -> Settings:
        """The same deployment, with what has happened in it in the place of what was drawn."""
        most = self._settings.mishaps
        last = self._happened[most - 1 : most]
        calm_from = last[0][0] if last else None
        return replace(self._settings, given=tuple(self._happened), calm_from=calm_from)


@dataclass
class Tally:
    """What was done and hit: by what a process was doing, and the step that it was at."""

    taken: Counter[Cell]
    owing: dict[Cell, tuple[Settings, int]]
    """Where something was unsynced, unanswered or unacknowledged, so that a crash could cost it;
    with a deployment and a step of it at which that was so."""
    hit: Counter[Cell]
    runs: int = 0
    crashes: int = 0
    commits: int = 0

    @classmethod
    def empty(cls) -> Tally:
        return cls(Counter(), {}, Counter())

    @property
    def not_hit(self) -> list[Cell]:
        """Where no crash has been tried yet, of what was done while it could cost something."""
        return sorted(cell for cell in self.owing if not self.hit[cell])

    @property
    def harmless(self) -> list[Cell]:
        """What was done, and never while a crash could cost something."""
        return sorted(self.taken.keys() - self.owing.keys())

    def add(self, other: Tally) -> None:
        self.taken += other.taken
        self.owing = other.owing | self.owing
        self.hit += other.hit
        self.runs += other.runs
        self.crashes += other.crashes
        self.commits += other.commits
