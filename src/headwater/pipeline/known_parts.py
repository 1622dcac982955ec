"""The parts of global transactions that a runner knows of, for all of its threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping, Sequence

from headwater.pipeline.global_parts import GlobalParts, GlobalTransaction, Mistake
from headwater.sources.order import Numbered


class KnownParts:
    """What `GlobalParts` knows, behind a lock; times are of the monotonic clock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts = GlobalParts()

    def learn(self, source: str, first: int, items: Sequence[Numbered]) -> None:
        """What was read of a source; the first of it has the number `first`."""
        with self._lock:
            self._parts.learn(source, first, items, time.monotonic())

    def find(self, name: str) -> GlobalTransaction | None:
        with self._lock:
            return self._parts.find(name)

    @property
    def all(self) -> Collection[GlobalTransaction]:
        with self._lock:
            return self._parts.all

    @property
    def mistakes(self) -> Sequence[Mistake]:
        with self._lock:
            return list(self._parts.mistakes)

    def forget(self, needed: Mapping[str, int]) -> None:
        """Forget what is of no use, views having yet to receive what is behind these numbers."""
        with self._lock:
            self._parts.forget(needed, time.monotonic())
