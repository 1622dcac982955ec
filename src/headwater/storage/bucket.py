"""What an object store offers: single requests, none of which is more than it says.

A put is whole, and durable when it is answered. A request that is not answered may have taken
effect or not, and may still do so: `UnansweredError`. `ObjectStorage` makes of these what a storage
promises; a simulated object store offers the same requests, and loses answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from headwater.storage.contract import Content

Tag: TypeAlias = tuple[str | None, str | None]
"""What tells one version of an object from others: its entity tag, and its version, if any."""

Condition: TypeAlias = Literal["always", "absent"] | Tag
"""When a put takes effect: in any case, if there is no such object, if it is still this version."""


@dataclass(frozen=True)
class ObjectAbout:
    """What is known of an object without reading it."""

    size: int
    modified: float
    """In seconds since 1970, by the clock of the store."""
    tag: Tag


@dataclass(frozen=True)
class Listing:
    """What begins with a prefix: objects by name, and the names that go on behind a slash."""

    objects: Mapping[str, ObjectAbout]
    folders: frozenset[str]


class StoreError(OSError):
    """The store does not say what is there: no sign of damage, and nothing may be made anew."""

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


class UnansweredError(StoreError):
    """Whether a request took effect is not known."""


class DeniedError(StoreError):
    """It is refused, or cannot even be sent; to try again changes nothing."""


class ConditionError(Exception):
    """A put found something else than its condition says, and did nothing."""


class Bucket(Protocol):
    """The requests. Keys are relative to the prefix that the bucket was opened with."""

    @property
    def uri(self) -> str:
        """How people and other programs name what is in it, without secrets."""
        ...

    def clock(self) -> float:
        """Seconds since 1970, as this machine has it."""
        ...

    def steady(self) -> float:
        """Seconds since some moment, by a clock that nobody sets."""
        ...

    def sleep(self, seconds: float) -> None: ...

    def fresh_name(self) -> str: ...

    def get(self, key: str, most: int | None = None) -> tuple[bytes | None, ObjectAbout]:
        """An object's contents, unless they are larger; FileNotFoundError if there is none."""
        ...

    def get_range(self, key: str, start: int, end: int) -> bytes: ...

    def head(self, key: str) -> ObjectAbout | None: ...

    def look(self, prefix: str) -> Listing:
        """What is directly below a prefix, which is empty or ends in a slash."""
        ...

    def is_empty(self, prefix: str) -> bool: ...

    def below(self, prefix: str) -> list[str]:
        """The keys of all objects below a prefix."""
        ...

    def put(self, key: str, content: Content, condition: Condition) -> Tag:
        """ConditionError if the condition does not hold."""
        ...

    def copy(self, key: str, target: str) -> None: ...

    def delete(self, key: str) -> None:
        """Remove an object, if it is there."""
        ...
