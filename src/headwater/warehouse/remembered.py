"""What was found out about files and states, kept for who reads them next.

Files never change, and a state is told by its files and numbers: so nothing that is kept grows old.
What was not used for longest goes first when there is too much.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Remembered(Generic[_T]):
    """Values by what tells them, up to so many bytes."""

    def __init__(self, most_bytes: int, size: Callable[[_T], int]) -> None:
        self._most = most_bytes
        self._size = size
        self._lock = threading.Lock()
        self._held: OrderedDict[Hashable, tuple[_T, int]] = OrderedDict()
        self._bytes = 0

    def get(self, told: Hashable) -> _T | None:
        with self._lock:
            if told not in self._held:
                return None
            self._held.move_to_end(told)
            return self._held[told][0]

    def put(self, told: Hashable, value: _T) -> _T:
        """Keep a value, if there is room at all; gives it."""
        size = self._size(value)
        with self._lock:
            if told not in self._held and size <= self._most:
                self._held[told] = value, size
                self._bytes += size
                while self._bytes > self._most:
                    self._bytes -= self._held.popitem(last=False)[1][1]
        return value

    def forget(self) -> None:
        with self._lock:
            self._held.clear()
            self._bytes = 0
