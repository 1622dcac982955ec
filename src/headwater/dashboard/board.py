"""What was told last, for those who ask over HTTP; none of them is ever waited for.

A runner hands over how it stands, which costs it one assignment. A thread looks at the warehouse
now and then, at what sources keep more seldom, and makes the frame that all open pages are sent.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwater.dashboard.combined import combined
from headwater.dashboard.history import History, sample_of
from headwater.errors import HeadwaterError
from headwater.pipeline.growth import retained
from headwater.pipeline.status import describe_stored, troubles
from headwater.project.project import Project
from headwater.version import VERSION

FRAME_S = 1.0
_STORED_S = 1.0
_STORED_BESIDE_S = 10.0
"""How often the warehouse is looked at; the second where a runner tells everything that is fast."""
_RETAINED_S = 30.0
_RESTS = 20
"""How many times as long as a look took, the next one waits at least."""
_NOTHING: dict[str, Any] = {"runner": None, "views": {}, "sources": {}, "global": {}}
_EMPTY: dict[str, Any] = {**_NOTHING, "global": {"waiting": [], "mistakes": []}, "last_run": []}


@dataclass(frozen=True)
class Frame:
    """How everything stood at a moment, ready to be sent."""

    number: int = 0
    text: str = "{}"


@dataclass
class _Again:
    """Something that is done from time to time, and seldom if it takes long."""

    do: Callable[[], None]
    every_s: float
    at: float = field(default=0.0)

    def look(self) -> None:
        began = time.monotonic()
        if began >= self.at:
            self.do()
            took = time.monotonic() - began
            self.at = began + took + max(self.every_s, _RESTS * took)


class Board:
    """Of one project. With `runs`, a runner of this process tells how it stands."""

    def __init__(
        self,
        folder: Path,
        runs: bool = False,
        recent: Callable[[str], Sequence[Mapping[str, Any]]] = lambda view: (),
    ) -> None:
        self.folder = folder
        self.runs = runs
        self.recent = recent
        """What has happened to a view lately; may be asked in any thread."""
        self.history = History()
        self.frame = Frame()
        self.told_at: float | None = None
        """When a runner last told how it stands, by the monotonic clock."""
        self._told: Mapping[str, Any] | None = None
        self._stored: Mapping[str, Any] = _EMPTY
        self._retained: Mapping[str, Any] = {}
        self._trouble = ""
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._keep, args=[name, works], name=name, daemon=True)
            for name, works in {
                "dashboard": [
                    _Again(self._store, _STORED_BESIDE_S if runs else _STORED_S),
                    _Again(self._make_frame, FRAME_S),
                ],
                "dashboard retained": [_Again(self._retain, _RETAINED_S)],
            }.items()
        ]

    def tell(self, found: Mapping[str, Any]) -> None:
        """A runner tells how it stands."""
        self._told, self.told_at = found, time.monotonic()

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(FRAME_S)

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def found(self) -> dict[str, Any]:
        """How everything stands, with what is wrong."""
        stored = dict(self._stored)
        kept = self._retained
        stored["sources"] = {
            name: {**source, "retained": kept.get(name)}
            for name, source in stored["sources"].items()
        }
        found = combined(stored, self._told)
        wrong = troubles(found)
        return {
            **found,
            "version": VERSION,
            "title": self.folder.resolve().name,
            "runs": self.runs,
            "now": time.time(),
            "troubles": [self._trouble, *wrong] if self._trouble else wrong,
        }

    # In the threads

    def _keep(self, name: str, works: Sequence[_Again]) -> None:
        while True:
            for work in works:
                try:
                    work.look()
                except HeadwaterError as error:
                    self._fail(work, str(error))
                except Exception as error:
                    self._fail(work, f"{name} failed: {type(error).__name__}: {error}.")
            if self._stopping.wait(0.2):
                return

    def _fail(self, work: _Again, why: str) -> None:
        self._trouble = why
        work.at = time.monotonic() + work.every_s

    def _store(self) -> None:
        self._stored = describe_stored(Project.open(self.folder, only=()))
        self._trouble = ""

    def _retain(self) -> None:
        self._retained = retained(Project.open(self.folder, only=()))

    def _make_frame(self) -> None:
        found = self.found()
        self.history.add(sample_of(found, found["now"]))
        self.frame = Frame(self.frame.number + 1, json.dumps(found))
