"""Who works when: work that is called for is done by one worker at a time, now or at its time.

A `Turn` is one view's work. Whoever has something for it wakes it; a worker that is free does the
work, and does it again if it was woken meanwhile. One thread, the `Clock`, wakes what is to be
woken later.
"""

from __future__ import annotations

import heapq
import math
import threading
import time
from collections.abc import Callable
from itertools import count

from headwater.sources.workers import Workers

_SHARE = 50
"""What is done again and again waits at least so many times as long as it kept the processor: that
grows with the number of views, and must not be taken from them. While it waited for a disk, or the
whole process stood still, it took nothing from anybody."""
_MOST_AFTER_WAITING_S = 10.0


class Pace:
    """Does something again and again, when it is time."""

    def __init__(self, do: Callable[[], None], at_least_s: float = 0.0) -> None:
        self._do = do
        self._at_least_s = at_least_s
        self._at = 0.0

    def keep(self, at_once: bool = False) -> None:
        """Do it, if it is time or has to be at once."""
        began, worked = time.monotonic(), time.thread_time()
        if at_once or began >= self._at:
            self._do()
            ended, worked = time.monotonic(), time.thread_time() - worked
            waited = min(ended - began, _MOST_AFTER_WAITING_S)
            self._at = ended + max(self._at_least_s, _SHARE * worked, waited)


class Clock:
    """Wakes turns at their times. Its thread is started when it is first needed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[tuple[float, int, Turn]] = []
        self._order = count()
        self._thread: threading.Thread | None = None
        self._stopping = False

    def at(self, when: float, turn: Turn) -> None:
        """Wake a turn at a time; an earlier one that it waits for is enough."""
        with self._changed:
            if when >= turn.due or self._stopping:
                return
            turn.due = when
            heapq.heappush(self._waiting, (when, next(self._order), turn))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="clock", daemon=True)
                self._thread.start()
            if self._waiting[0][0] == when:
                self._changed.notify()

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def _run(self) -> None:
        while (turn := self._next()) is not None:
            turn.wake()

    def _next(self) -> Turn | None:
        with self._changed:
            while not self._stopping:
                wait = self._waiting[0][0] - time.monotonic() if self._waiting else None
                if wait is None or wait > 0:
                    self._changed.wait(wait)
                    continue
                when, _, turn = heapq.heappop(self._waiting)
                if when == turn.due:  # else it was to be woken earlier, and said then what it needs
                    turn.due = math.inf
                    return turn
        return None


class Turn:
    """Work that is done whenever it is called for, never twice at a time.

    The work has to say each time when it is to be done next, if nobody calls for it.
    """

    def __init__(self, work: Callable[[], None], workers: Workers, clock: Clock) -> None:
        self.due = math.inf
        """When the clock wakes it; the clock's own."""
        self._work = work
        self._workers = workers
        self._clock = clock
        self._lock = threading.Lock()
        self._is_called = False
        self._is_taken = False

    def wake(self, at: float = 0.0) -> None:
        """Have the work done, now or at a time of the monotonic clock."""
        if at > time.monotonic():
            if at < math.inf:
                self._clock.at(at, self)
            return
        with self._lock:
            self._is_called = True
            if self._is_taken:
                return
            self._is_taken = True
        self._workers.do(self._once)

    def _once(self) -> None:
        with self._lock:
            self._is_called = False
        self._work()
        with self._lock:
            if not self._is_called:
                self._is_taken = False
                return
        self._workers.do(self._once)
