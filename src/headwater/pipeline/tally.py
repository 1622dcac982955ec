"""What one view has done since the runner started, and what it has seen of its sources meanwhile.

Counted by the one who owns the view; read by others, who may see it a little late.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from headwater.algebra.rows import Rows
from headwater.algebra.values import width
from headwater.costs.statistics import type_bytes
from headwater.pipeline.observed import Observed
from headwater.pipeline.wanted import Commit
from headwater.protocol.events import AnswerArrived
from headwater.protocol.transactions import Transaction
from headwater.sources.subscription import Delivery

_RECENT = 1000
_SAMPLED = 20


@dataclass
class Counters:
    """What one view has done since the runner started."""

    transactions: int = 0
    commits: int = 0
    rows: int = 0
    questions: int = 0
    saved: int = 0
    """Questions that copies of relations have answered."""
    answer_bytes: int = 0
    """What the answers to its questions held, about."""
    committed_at: float = 0.0
    freshness_s: list[float] = field(default_factory=list)
    """From reading a transaction at the source to its commit, of the last ones that were read
    when the view was there already."""

    def note_freshness(self, seconds: float) -> None:
        self.freshness_s.append(seconds)
        del self.freshness_s[:-_RECENT]


class Tally:
    """Counts for one view; `watch` is told how long steps have taken."""

    def __init__(self, watch: Callable[[str, float], None] | None) -> None:
        self.counters = Counters()
        self.observed = Observed()
        self.watch = watch or (lambda step, seconds: None)
        self._asked: dict[str, float] = {}
        """When, by label."""

    def asked(self, label: str) -> None:
        self.counters.questions += 1
        self._asked[label] = time.monotonic()

    def arrived(self, delivery: Delivery, transaction: Transaction) -> None:
        self.counters.transactions += 1
        if delivery.read_at and transaction.updates:
            waited = time.monotonic() - delivery.read_at
            self.watch("delivery", waited)
            self.observed.deliveries_s.append(waited)
            self.observed.arrived(delivery.source, transaction, delivery.read_at)

    def answered(self, answer: AnswerArrived) -> None:
        self.counters.answer_bytes += sum(map(about_bytes, answer.results))
        took = time.monotonic() - self._asked.pop(answer.label)
        self.watch("probe", took)
        self.observed.answered(answer.source, took)

    def joined(self, seconds: float) -> None:
        """An event was taken in."""
        self.watch("join", seconds)
        self.observed.events_s.append(seconds)

    def consulted(self, seconds: float) -> None:
        """A copy was looked at in the place of a source."""
        self.counters.saved += 1
        self.watch("copy", seconds)

    def committed(self, commit: Commit, rows: int, now: float, since: float) -> None:
        """A change was written, to a view that has followed its sources since then."""
        self.counters.commits += 1
        self.counters.rows += rows
        self.counters.committed_at = time.time()
        for received in commit.received:
            if received.read_at > since:
                self.counters.note_freshness(now - received.read_at)


def about_bytes(rows: Rows) -> int:
    """How many bytes rows have, by a few of them, or by the types of their columns on Spark."""
    sample = rows.some(_SAMPLED)
    if not sample:
        return round(rows.size_hint * sum(map(type_bytes, rows.schema.types)))
    return sum(sum(map(width, row)) for row in sample) * rows.size_hint // len(sample)
