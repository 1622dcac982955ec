"""The oracle of the channel contract: replays what is delivered and compares every answer."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.algebra.evaluate import evaluate
from headwater.algebra.rows import Rows
from headwater.errors import HeadwaterError
from headwater.protocol.effects import Ask
from headwater.protocol.events import AnswerArrived, TransactionArrived
from headwater.sources.contract import Position
from headwater.sources.subscription import Delivery


@dataclass
class Oracle:
    """A subscriber that knows what every answer must be.

    `deliver` and `fail` are called by who follows the channel; `asked` is what was asked.
    """

    state: dict[str, Rows]
    """The relations as the delivered transactions left them."""
    asked: dict[str, Ask] = field(default_factory=dict)
    transactions: list[str] = field(default_factory=list)
    answers: int = 0
    mismatches: list[str] = field(default_factory=list)
    errors: list[HeadwaterError] = field(default_factory=list)
    positions: list[Position] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.changed = threading.Condition()

    def deliver(self, delivery: Delivery) -> None:
        with self.changed:
            match delivery.event:
                case TransactionArrived(transaction):
                    self.transactions.append(transaction.id)
                    assert delivery.position is not None
                    self.positions.append(delivery.position)
                    for relation, delta in transaction.deltas.items():
                        self.state[relation] = self.state[relation] + delta
                        if self.state[relation].negative():
                            self.mismatches.append(f"{transaction.id}: {relation} below zero")
                case AnswerArrived(label=label, results=results):
                    self._compare(label, results)
            self.changed.notify_all()

    def fail(self, error: HeadwaterError) -> None:
        with self.changed:
            self.errors.append(error)
            self.changed.notify_all()

    def _compare(self, label: str, results: tuple[Rows, ...]) -> None:
        self.answers += 1
        for query, result in zip(self.asked[label].queries, results, strict=True):
            expected = evaluate(query, self.state)
            if result != expected:
                self.mismatches.append(f"{label}: {result - expected!r} too much")

    def wait_for_answers(self, count: int, timeout_s: float = 300.0) -> None:
        with self.changed:
            done = self.changed.wait_for(
                lambda: self.answers >= count or bool(self.errors), timeout_s
            )
        assert not self.errors, self.errors
        assert done, f"only {self.answers} of {count} answers came"

    def wait_for_transactions(self, count: int, timeout_s: float = 300.0) -> None:
        with self.changed:
            done = self.changed.wait_for(
                lambda: len(self.transactions) >= count or bool(self.errors), timeout_s
            )
        assert not self.errors, self.errors
        assert done, f"only {len(self.transactions)} of {count} transactions came"

    def wait_for_state(self, wanted: Mapping[str, Rows], timeout_s: float = 300.0) -> None:
        """Wait until the replayed relations are what the database holds."""
        with self.changed:
            done = self.changed.wait_for(
                lambda: bool(self.errors) or all(self.state[n] == r for n, r in wanted.items()),
                timeout_s,
            )
        assert not self.errors, self.errors
        assert done, {name: self.state[name] - rows for name, rows in wanted.items()}
