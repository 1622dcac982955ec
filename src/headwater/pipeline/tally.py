"""What one view has done since the runner started, and what it has seen of its sources meanwhile.

Counted by the one who owns the view; read by others, who may see it a little late.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from headwater.algebra.rows import Rows
from headwater.algebra.values import width
from headwater.costs.statistics import type_bytes
from headwater.journal import in_detail
from headwater.pipeline.observed import Observed
from headwater.pipeline.wanted import Commit
from headwater.protocol.events import AnswerArrived
from headwater.protocol.transactions import Transaction
from headwater.sources.subscription import Delivery

_RECENT = 1000
_REMEMBERED = 400
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
    overlaps: int = 0
    """Answers that reflected what was delivered only after they had been asked for: what an
    algorithm compensates for."""
    committed_at: float = 0.0
    freshness_s: list[float] = field(default_factory=list)
    """From reading a transaction at the source to its commit, of the last ones that were read
    when the view was there already."""

    def note_freshness(self, seconds: float) -> None:
        self.freshness_s.append(seconds)
        del self.freshness_s[:-_RECENT]


@dataclass(frozen=True)
class Step:
    """Something that has happened to a view, as a picture of its last moments needs it."""

    at: float
    """By the clock on the wall."""
    kind: str
    """`transaction`, `question`, `answer`, `copy` or `commit`."""
    source: str = ""
    number: int = 0
    """Of a transaction at its source, or of a commit's version."""
    label: str = ""
    """Which question it is, or is answered."""
    rows: int = 0
    began: float = 0.0
    """When a transaction was read, or a question asked."""
    since: int = 0
    """How many transactions of its source were delivered between a question and its answer."""
    takes: tuple[tuple[str, int, int], ...] = ()
    """Which transactions a commit takes in: source, first and last number."""


@dataclass(frozen=True)
class _Question:
    source: str
    at: float
    delivered: int
    """How many transactions of its source had been delivered by then."""


class Tally:
    """Counts for one view; `watch` is told how long steps have taken."""

    def __init__(self, view: str, watch: Callable[[str, float], None] | None) -> None:
        self.view = view
        self.counters = Counters()
        self.observed = Observed()
        self.recent: deque[Step] = deque(maxlen=_REMEMBERED)
        self.watch = watch or (lambda step, seconds: None)
        self._asked: dict[str, _Question] = {}
        self._delivered: Counter[str] = Counter()

    def asked(self, source: str, label: str) -> None:
        self.counters.questions += 1
        self._asked[label] = _Question(source, time.monotonic(), self._delivered[source])
        self.recent.append(Step(time.time(), "question", source, label=label))
        in_detail("question", view=self.view, source=source, label=label)

    def arrived(self, delivery: Delivery, transaction: Transaction) -> None:
        self.counters.transactions += 1
        if transaction.updates:
            self._remember(delivery, transaction)
        if delivery.read_at and transaction.updates:
            waited = time.monotonic() - delivery.read_at
            self.watch("delivery", waited)
            self.observed.deliveries_s.append(waited)
            self.observed.arrived(delivery.source, transaction, delivery.read_at)

    def answered(self, answer: AnswerArrived) -> None:
        held = sum(map(about_bytes, answer.results))
        self.counters.answer_bytes += held
        question = self._asked.pop(answer.label)
        took = time.monotonic() - question.at
        since = self._delivered[answer.source] - question.delivered
        self.counters.overlaps += since > 0
        now, source, label = time.time(), answer.source, answer.label
        rows = sum(found.size_hint for found in answer.results)
        self.recent.append(
            Step(now, "answer", source, label=label, rows=rows, began=now - took, since=since)
        )
        took = round(took, 4)
        told = {"label": label, "bytes": held, "seconds": took, "since": since}
        in_detail("answer", view=self.view, source=source, **told)
        self.watch("probe", took)
        self.observed.answered(answer.source, took)

    def joined(self, seconds: float) -> None:
        """An event was taken in."""
        self.watch("join", seconds)
        self.observed.events_s.append(seconds)

    def consulted(self, seconds: float) -> None:
        """A copy was looked at in the place of a source."""
        self.counters.saved += 1
        self.recent.append(Step(time.time(), "copy"))
        self.watch("copy", seconds)

    def committed(
        self, commit: Commit, rows: int, now: float, since: float, version: int | None
    ) -> None:
        """A change was written, to a view that has followed its sources since then."""
        takes = tuple((s, *span) for s, spans in commit.added.items() for span in spans)
        number = version or 0
        self.recent.append(Step(time.time(), "commit", number=number, rows=rows, takes=takes))
        in_detail("commit", view=self.view, version=number, rows=rows, takes=commit.added)
        self.counters.commits += 1
        self.counters.rows += rows
        self.counters.committed_at = time.time()
        for received in commit.received:
            if received.read_at > since:
                self.counters.note_freshness(now - received.read_at)

    def _remember(self, delivery: Delivery, transaction: Transaction) -> None:
        self._delivered[delivery.source] += 1
        rows = sum(update.delta.size_hint for update in transaction.updates)
        source, number, now = delivery.source, delivery.number, time.time()
        waited = time.monotonic() - delivery.read_at if delivery.read_at else 0.0
        self.recent.append(Step(now, "transaction", source, number, rows=rows, began=now - waited))
        in_detail("transaction", view=self.view, source=source, number=number, rows=rows)


def about_bytes(rows: Rows) -> int:
    """How many bytes rows have, by a few of them, or by the types of their columns on Spark."""
    sample = rows.some(_SAMPLED)
    if not sample:
        return round(rows.size_hint * sum(map(type_bytes, rows.schema.types)))
    return sum(sum(map(width, row)) for row in sample) * rows.size_hint // len(sample)
