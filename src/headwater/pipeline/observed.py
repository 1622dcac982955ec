"""What maintaining one view shows of its relations, its sources and the warehouse.

Counted as it goes, by the one who owns the view; read by others, who may see it a little late.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from statistics import median

from headwater.algebra.rows import Rows
from headwater.protocol.transactions import Transaction

_RECENT = 200
_AT_ONCE_S = 0.01
"""Transactions that are read with less between them come at once."""
_FEW = 1000
"""Larger changes are counted without a look at each row."""


def _recent() -> deque[float]:
    return deque(maxlen=_RECENT)


@dataclass
class Observed:
    """Counts since the view was opened, and how long steps took lately."""

    changes: dict[str, Counter[str]] = field(default_factory=dict)
    """Rows that were inserted, deleted and updated, by relation."""
    transactions: Counter[str] = field(default_factory=Counter)
    """By source."""
    bursts: int = 0
    questions_s: dict[str, deque[float]] = field(default_factory=dict)
    questions: Counter[str] = field(default_factory=Counter)
    """That were answered, by source."""
    commits_s: deque[float] = field(default_factory=_recent)
    look_ups_s: deque[float] = field(default_factory=_recent)
    events_s: deque[float] = field(default_factory=_recent)
    deliveries_s: deque[float] = field(default_factory=_recent)
    _read_at: float = 0.0

    def arrived(self, source: str, transaction: Transaction, read_at: float) -> None:
        self.transactions[source] += 1
        if read_at > self._read_at + _AT_ONCE_S:
            self.bursts += 1
        self._read_at = max(read_at, self._read_at)
        for update in transaction.updates:
            found = self.changes.setdefault(update.relation, Counter())
            for kind, rows in kinds_of(update.delta).items():
                found[kind] += rows

    def answered(self, source: str, seconds: float) -> None:
        self.questions_s.setdefault(source, _recent()).append(seconds)
        self.questions[source] += 1


def kinds_of(delta: Rows) -> dict[str, int]:
    """How many rows a change inserts, deletes and updates; one that goes and one that comes are
    taken for an update."""
    if delta.rank or delta.size_hint > _FEW:
        return {"inserts": delta.size_hint}
    number = len(delta)
    gone = sum(count < 0 for _, count in delta.items())
    updated = min(gone, number - gone)
    return {"inserts": number - gone - updated, "deletes": gone - updated, "updates": updated}


def typical(seconds: deque[float]) -> float:
    """Of some that were measured."""
    return median(list(seconds))
