"""Processes that take turns: each on a thread of its own, which runs only while it is its turn."""

from __future__ import annotations

import threading

from headwater.simulation.process import Process


class CrashedError(BaseException):
    """The process is no more. Not an Exception: nothing in it may go on."""


class Turn:
    """A process on a thread of its own, which runs only while it is its turn."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.error: BaseException | None = None
        self.stands = False
        self._may = threading.Lock()
        self._has = threading.Lock()
        for lock in (self._may, self._has):
            lock.acquire()
        self._ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def go_on(self) -> bool:
        """Let it run until it stands still or ends; whether it has ended."""
        self.stands = False
        self._may.release()
        self._has.acquire()
        return self._ended

    def stand(self) -> None:
        """Give the turn away; called in its own thread."""
        self.stands = True
        self._has.release()
        self._may.acquire()

    def end(self) -> None:
        """Let what still stands run into its end."""
        self.process.world.alive.discard(self.process.pid)
        while not self.go_on():
            pass

    def _run(self) -> None:
        self._may.acquire()
        try:
            self.process.run()
        except BaseException as error:
            self.error = error
        self._ended = True
        self._has.release()
