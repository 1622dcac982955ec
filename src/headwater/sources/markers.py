"""What answers wait for in a log that has no messages: numbers that the monitor is to reach."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from itertools import takewhile

_MOST_MARKERS = 10_000


class Markers:
    """Where wrappers tell monitors of the same source which numbers answers wait for."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.listeners: set[Callable[[], None]] = set()
        """Who is to be told of each marker, beside those that wait for a change."""
        self._count = 0
        self._waiting: deque[tuple[int, str, int]] = deque(maxlen=_MOST_MARKERS)

    def add(self, seq: int) -> str:
        with self.changed:
            self._count += 1
            marker = f"seq:{seq}:{self._count}"
            self._waiting.append((self._count, marker, seq))
            self.changed.notify_all()
            for listener in self.listeners:
                listener()
            return marker

    def after(self, count: int) -> list[tuple[int, str, int]]:
        with self.changed:
            later = takewhile(lambda entry: entry[0] > count, reversed(self._waiting))
            return list(later)[::-1]

    @property
    def count(self) -> int:
        return self._count
