"""Threads that do jobs, one job at a time each: started as jobs come, up to a bound.

A thread that has had nothing to do for a while ends. A job catches what goes wrong in it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

_IDLE_S = 30.0

Job: TypeAlias = Callable[[], None]


class Workers:
    """At most `most` threads; each calls `ended` when it ends."""

    def __init__(self, name: str, most: int, ended: Job = lambda: None) -> None:
        self._name = name
        self._most = most
        self._ended = ended
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._stopping = False

    def do(self, job: Job) -> None:
        """Have a job done, after those that wait already."""
        with self._changed:
            self._jobs.append(job)
            if len(self._jobs) <= self._idle:
                self._changed.notify()
            elif len(self._threads) < self._most:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._threads.add(thread)
                thread.start()

    def stop(self) -> None:
        """End when all jobs are done; what comes afterwards is done as well."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def join(self, limit_s: float) -> None:
        """Wait for the threads. One that is held up by its job is left behind."""
        until = time.monotonic() + limit_s
        with self._changed:
            threads = list(self._threads)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))

    def _run(self) -> None:
        try:
            while (job := self._next()) is not None:
                job()
        finally:
            self._ended()

    def _next(self) -> Job | None:
        """The next job; None if this thread is to end, and then it does not count any more."""
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._jobs or self._stopping, _IDLE_S)
            self._idle -= 1
            if self._jobs:
                return self._jobs.popleft()
            self._threads.discard(threading.current_thread())
            return None
