"""The monitor of MariaDB and MySQL: reads the binary log as a replica would.

It asks for nothing to be kept: how long the server keeps its log its own settings say. After a
lost connection the last group of events is sent again, so that it can be seen whether it is
still the same log.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from headwater.errors import SourceError
from headwater.sources.contract import Broken, Committed, Logged, Marked, Position, Progressed
from headwater.sources.mariadb.log import Interpreter
from headwater.sources.mariadb.places import LogPosition
from headwater.sources.mariadb.stream import Stream
from headwater.sources.markers import Markers


class Questions(Markers):
    """The markers of one source, and the run of the server in which its log is read."""

    start = ""


class MariadbMonitor:
    """A connection that is sent the log. One thread reads; any may close."""

    def __init__(
        self,
        source: str,
        stream: Stream,
        interpreter: Interpreter,
        questions: Questions,
        first: Sequence[Logged],
    ) -> None:
        self._source = source
        self._stream = stream
        self._interpreter = interpreter
        self._questions = questions
        self._first = list(first)
        self._told = questions.count
        self._failure: SourceError | None = None
        self._reported = interpreter.at
        self._waiting: list[tuple[str, int]] = [
            (marker, stamp) for _, marker, stamp in questions.after(0)
        ]
        self._closing = threading.Lock()
        with questions.changed:
            questions.listeners.add(stream.wake)

    def read(self, timeout_s: float) -> Sequence[Logged]:
        deadline = time.monotonic() + timeout_s
        logged, self._first = self._first, []
        while not logged:
            left = deadline - time.monotonic()
            if self._failure is not None:
                raise self._failure
            self._take(logged, max(0.0, left))
            logged += self._marks()
            if left <= 0:
                break
        return logged

    def acknowledge(self, position: Position) -> None:
        """The server keeps its log for as long as it likes."""

    def close(self) -> None:
        with self._closing:
            with self._questions.changed:
                self._questions.listeners.discard(self._stream.wake)
            self._stream.close()

    def _take(self, logged: list[Logged], timeout_s: float) -> None:
        """Read what has come. What came before an error is handed over before the error."""
        try:
            for raw in self._stream.read(timeout_s):
                logged += self._interpreter.take(raw.header, raw.body)
        except SourceError as error:
            self._failure = error
        at = self._interpreter.at
        if at is not self._reported and not _tells(logged, at):
            logged.append(Progressed(at.json()))
        self._reported = at
        if self._failure is not None and not logged:
            raise self._failure

    def _marks(self) -> list[Logged]:
        """The markers of answers whose snapshots have been read."""
        for count, marker, stamp in self._questions.after(self._told):
            self._told = count
            self._waiting.append((marker, stamp))
        reached = self._interpreter.reached
        found = [marker for marker, stamp in self._waiting if stamp <= reached]
        if found:
            self._waiting = [entry for entry in self._waiting if entry[1] > reached]
        return [Marked(marker) for marker in found]


def _tells(logged: Sequence[Logged], at: LogPosition) -> bool:
    """Whether what comes last says how far it was read; a gap is told at what is before it."""
    return any(isinstance(i, Committed | Broken) and i.position == at.json() for i in logged[-1:])
