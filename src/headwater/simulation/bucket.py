"""An object store in memory that loses answers, and lets puts and deletes land late.

`Objects` outlives processes and every loss of power: what was put is there, and lists are right. A
request may be without an answer, whether it took effect or not; one whose process was killed or
stood still may take effect later, also behind a takeover.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from headwater.simulation.disk import Disk, Interrupt
from headwater.storage.bucket import (
    Condition,
    ConditionError,
    Listing,
    ObjectAbout,
    Tag,
    UnansweredError,
)
from headwater.storage.contract import Content

_UNANSWERED = 0.04
"""How many requests are without an answer."""
_LANDS = 0.05
"""How likely it is at each request that one which is on its way lands before it."""


@dataclass(frozen=True)
class _Object:
    content: bytes
    about: ObjectAbout


class Objects:
    """What is in the store, and what is on its way there."""

    def __init__(self, disk: Disk, random: Random) -> None:
        self.disk = disk
        """Has the time, and names that nobody has yet."""
        self.random = random
        self.held: dict[str, _Object] = {}
        self._on_the_way: list[Callable[[], object]] = []

    def put(self, key: str, content: bytes, condition: Condition) -> Tag:
        present = self.held.get(key)
        if condition == "absent" and present is not None:
            raise ConditionError
        if isinstance(condition, tuple) and (present is None or present.about.tag != condition):
            raise ConditionError
        tag = (hashlib.md5(content).hexdigest(), None)  # as stores give them: by the contents
        self.held[key] = _Object(content, ObjectAbout(len(content), self.disk.now, tag))
        return tag

    def send(self, key: str, content: bytes, condition: Condition) -> None:
        """A put that takes effect some time, or never."""
        self._on_the_way.append(lambda: self.put(key, content, condition))

    def send_delete(self, key: str) -> None:
        """The same of a delete."""
        self._on_the_way.append(lambda: self.held.pop(key, None))

    def land(self) -> None:
        """Let what is on its way arrive, some of it."""
        waiting, self._on_the_way = self._on_the_way, []
        for sent in waiting:
            if self.random.random() >= _LANDS:
                self._on_the_way.append(sent)
            elif self.random.random() < 0.8:
                try:
                    sent()
                except ConditionError:
                    continue


class SimulatedBucket:
    """The store as one process reaches it."""

    uri = "simulated://lake"

    def __init__(self, objects: Objects, interrupt: Interrupt, ill: bool = True) -> None:
        self._objects, self._interrupt, self._ill = objects, interrupt, ill

    def clock(self) -> float:
        return self._objects.disk.now

    def steady(self) -> float:
        return self._objects.disk.now

    def sleep(self, seconds: float) -> None:
        self._objects.disk.now += seconds
        self._interrupt("sleep", Path())

    def fresh_name(self) -> str:
        return self._objects.disk.fresh_name()

    # Reading

    def get(self, key: str, most: int | None = None) -> tuple[bytes | None, ObjectAbout]:
        self._asked()
        found = self._objects.held.get(key)
        if found is None:
            raise FileNotFoundError(2, "there is no such object", key)
        is_wanted = most is None or found.about.size <= most
        return found.content if is_wanted else None, found.about

    def get_range(self, key: str, start: int, end: int) -> bytes:
        content, _ = self.get(key)
        assert content is not None
        return content[start:end]

    def head(self, key: str) -> ObjectAbout | None:
        self._asked()
        found = self._objects.held.get(key)
        return found.about if found is not None else None

    def look(self, prefix: str) -> Listing:
        self._asked()
        inner = {
            key[len(prefix) :]: found
            for key, found in self._objects.held.items()
            if key.startswith(prefix)
        }
        return Listing(
            {name: found.about for name, found in inner.items() if "/" not in name},
            frozenset(name.partition("/")[0] for name in inner if "/" in name),
        )

    def is_empty(self, prefix: str) -> bool:
        return not self.below(prefix)

    def below(self, prefix: str) -> list[str]:
        self._asked()
        return [key for key in self._objects.held if key.startswith(prefix)]

    # Writing

    def put(self, key: str, content: Content, condition: Condition) -> Tag:
        plain = bytes(content)
        self._step("put", key, lambda: self._objects.send(key, plain, condition))
        if self._is_lost():
            match self._objects.random.choice(["never", "done", "later"]):
                case "done":
                    self._objects.put(key, plain, condition)
                case "later":
                    self._objects.send(key, plain, condition)
            raise UnansweredError(None, "no answer", key)
        return self._objects.put(key, plain, condition)

    def copy(self, key: str, target: str) -> None:
        content, _ = self.get(key)
        self.put(target, content or b"", "always")

    def delete(self, key: str) -> None:
        self._step("delete", key, lambda: self._objects.send_delete(key))
        if self._is_lost():
            match self._objects.random.choice(["never", "done", "later"]):
                case "done":
                    self._objects.held.pop(key, None)
                case "later":
                    self._objects.send_delete(key)
            raise UnansweredError(None, "no answer", key)
        self._objects.held.pop(key, None)

    # What goes wrong

    def _asked(self) -> None:
        self._objects.land()
        if self._is_lost():
            raise UnansweredError(None, "no answer")

    def _step(self, what: str, key: str, left: Callable[[], None]) -> None:
        """A process that ends or stands still here may have sent its request before."""
        self._objects.land()
        try:
            self._interrupt(what, Path("/", key))
        except BaseException:
            if self._objects.random.random() < 0.5:
                left()
            raise

    def _is_lost(self) -> bool:
        return self._ill and self._objects.random.random() < _UNANSWERED
