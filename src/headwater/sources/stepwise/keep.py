"""What the monitor of a source and its wrappers share: the journal, and who waits for what."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.algebra.schema import Relation
from headwater.sources.stepwise.contract import States
from headwater.sources.stepwise.journal import Journal

_MOST_MARKERS = 10_000


@dataclass(frozen=True)
class NumberSnapshot:
    """The state after the step with this number."""

    number: int

    def includes(self, stamp: int) -> bool:
        return stamp <= self.number

    def __str__(self) -> str:
        return str(self.number)


@dataclass(frozen=True)
class _Waiting:
    marker: str
    number: int
    look: int | None
    """It comes by after a look behind this one that has found nothing; None: without any."""


class Line:
    """How far the monitor of this process has come, and which markers are to come by in it.

    A wrapper whose answer reflects nothing but what has been handed on needs no marker.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._count = 0
        self._waiting: deque[_Waiting] = deque(maxlen=_MOST_MARKERS)
        self._handed: tuple[str, int] = ("", -1)
        self._looks = 0

    def handed_on(self, log: str, number: int) -> None:
        """All up to a number is with whoever reads the monitor."""
        with self.changed:
            self._handed = (log, number)

    def closed(self) -> None:
        with self.changed:
            self._handed = ("", -1)
            self.changed.notify_all()

    def look_begun(self) -> int:
        with self.changed:
            self._looks += 1
            return self._looks

    def marker(self, log: str, number: int, *, fresh: bool) -> str | None:
        """A marker that comes by behind a number; with `fresh`, when all that is there by now has
        been looked at, too."""
        with self.changed:
            of, handed = self._handed
            if not fresh and of == log and number <= handed:
                return None
            self._count += 1
            look = self._looks if fresh else None
            waiting = _Waiting(f"step:{number}:{self._count}", number, look)
            self._waiting.append(waiting)
            self.changed.notify_all()
            return waiting.marker

    def passed(self, number: int, look: int = 0) -> list[str]:
        """The markers that come by at a number; `look` has found nothing."""
        with self.changed:
            passed: list[str] = []
            left: list[_Waiting] = []
            for each in self._waiting:
                if each.number <= number and (each.look is None or look > each.look):
                    passed.append(each.marker)
                else:
                    left.append(each)
            self._waiting = deque(left, maxlen=_MOST_MARKERS)
            return passed

    @property
    def is_awaited(self) -> bool:
        return bool(self._waiting)


@dataclass(frozen=True)
class Keep:
    """A source as it is kept: its states, the journal of them, and the line of its monitor."""

    states: States
    journal: Journal
    line: Line
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The relations that are read, and their columns; empty: all that are of interest."""

    @property
    def name(self) -> str:
        return self.states.name

    def narrowed(self, relations: Mapping[str, Relation]) -> dict[str, Relation]:
        """The relations that are read, with the columns that are needed."""
        if not self.columns:
            return dict(relations)
        found = {}
        for name, wanted in self.columns.items():
            if (relation := relations.get(name)) is not None:
                needed = {*wanted, *relation.key}
                names = [n for n in relation.schema.names if n in needed]
                found[name] = relation.only(names)
        return found
