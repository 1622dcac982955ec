"""How far the reading of a load has come: rows and totals, how fast, and how long it will take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.algebra.values import Json


@dataclass(frozen=True)
class Progress:
    """Rows by relation: those that were read, and about how many there are, where that is known."""

    read: Mapping[str, int]
    expected: Mapping[str, float]
    seconds: float
    """Since reading began."""

    @property
    def rows(self) -> int:
        return sum(self.read.values())

    @property
    def total(self) -> float | None:
        """About how many rows there are in all; None if that is not known of all relations.

        A relation that has more rows than it was thought to has at least those that were read.
        """
        if not self.expected:
            return None
        names = self.expected.keys() | self.read.keys()
        if any(name not in self.expected for name in names):
            return None
        return sum(max(self.expected[name], self.read.get(name, 0)) for name in names)

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.seconds if self.seconds > 0 else 0.0

    @property
    def left_s(self) -> float | None:
        """How long reading will take, if it goes on as it has."""
        total, rate = self.total, self.rows_per_s
        return None if total is None or not rate else (total - self.rows) / rate

    def to_json(self) -> dict[str, Json]:
        total, left = self.total, self.left_s
        return {
            "rows": self.rows,
            "of": None if total is None else round(total),
            "rows_per_s": round(self.rows_per_s),
            "left_s": None if left is None else round(left, 1),
        }
