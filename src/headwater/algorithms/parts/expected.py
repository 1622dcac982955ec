"""What a question is expected to find: what orders of probes and POSSE's plans go by.

A host that knows its relations says so (the running system's statistics do); for another one only
keys tell. It decides what is asked when, never what comes out.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from headwater.algebra.views import Join, equated_columns


class Expected(Protocol):
    """Sizes, as far as they are known; a value."""

    def partners(self, join: Join, at: int, known: Collection[str]) -> float:
        """How many rows of an occurrence join with one row that has these columns."""
        ...

    def round_trip(self, source: str) -> float:
        """How many rows could be moved in the time that a question takes."""
        ...


@dataclass(frozen=True)
class Assumed:
    """Where nothing is known."""

    few: float = 2.0
    """Rows that an equality finds, but for one with the whole key, which finds one."""
    many: float = 100_000.0
    """Rows that nothing narrows down."""
    trip: float = 50.0

    def partners(self, join: Join, at: int, known: Collection[str]) -> float:
        if join.key_from(at, known) is not None:
            return 1.0
        return self.few if is_equated(join, at, known) else self.many

    def round_trip(self, source: str) -> float:
        return self.trip


ASSUMED = Assumed()


def is_equated(join: Join, at: int, known: Collection[str]) -> bool:
    """Whether a condition equates a known column with one of an occurrence."""
    return any(
        (join.owner[a] == at and b in known) or (join.owner[b] == at and a in known)
        for a, b in filter(None, map(equated_columns, join.condition))
    )
