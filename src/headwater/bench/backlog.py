"""What one event costs a view manager while many transactions wait: processor time in `handle`.

Two relations at two sources, each transaction a new row with its partner at the other one. First
all of them arrive while no question is answered; then each round answers one question, as its
source would by then, and lets as many transactions arrive as that has committed.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, assert_never

from headwater.algebra.evaluate import evaluate
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT, Row
from headwater.algorithms.registry import ALGORITHMS, make_manager
from headwater.protocol.effects import Apply, Ask, Send
from headwater.protocol.events import AnswerArrived, Event, TransactionArrived
from headwater.protocol.managers import ViewManager
from headwater.protocol.transactions import Transaction, Update

MANAGERS: dict[str, tuple[str, dict[str, str]]] = {
    "sweep": ("sweep", {}),
    "sweep, batch 100": ("sweep", {"batch": "100"}),
    "pvm-cc, p 4": ("pvm-cc", {"p": "4"}),
}
WAITING = (100, 1_000, 20_000, 100_000)
_X = Relation("x.r", "x", Schema.of([("A", INT), ("B", INT)]))
_Y = Relation("y.s", "y", Schema.of([("B", INT), ("C", INT)]))
_FIRST = 4
_SQL = "SELECT r.A, s.C FROM x.r AS r, y.s AS s WHERE r.B = s.B"


@dataclass(frozen=True)
class Cost:
    """Milliseconds of processor time in `handle`."""

    manager: str
    waiting: int
    indexing_ms: float
    """The first answers together: they index what waits."""
    arrival_ms: float
    answer_ms: float
    transaction_ms: float
    """All that is done for one transaction, from its arrival to its commit."""


@dataclass
class Backlog:
    """A view manager with its two sources; both relations are held by their join column."""

    manager: ViewManager[Any]
    state: Any
    arrived: int = 0
    committed: int = 0
    rows: Mapping[str, dict[Row, list[Row]]] = field(
        default_factory=lambda: {_X.name: defaultdict(list), _Y.name: defaultdict(list)}
    )
    asked: deque[Ask] = field(default_factory=deque)

    def arrive(self) -> float:
        self.arrived += 1
        relation, join = (_X, _Y)[self.arrived % 2], (self.arrived + 1) // 2
        row = (self.arrived, join) if relation is _X else (join, self.arrived)
        self.rows[relation.name][(join,)].append(row)
        update = Update(relation.name, Rows(relation.schema, {row: 1}))
        source = (relation.source,)
        return self._handle(
            TransactionArrived(Transaction(f"T{self.arrived}", (update,), source, source))
        )

    def answer(self) -> float:
        ask = self.asked.popleft()
        (((term,),)) = ask.queries
        (at,), (bound,) = term.base, term.bound
        relation = term.occurrence(at).relation
        (join,) = (n for n in bound.rows.schema.names if n.endswith(".B"))
        found = [
            row for key in bound.rows.distinct([join]) for row in self.rows[relation.name][key]
        ]
        state = {relation.name: Rows(relation.schema, dict.fromkeys(found, 1))}
        return self._handle(AnswerArrived(ask.source, ask.label, (evaluate((term,), state),)))

    def work(self) -> tuple[float, list[float]]:
        """Answer a question, and let as many transactions arrive as that commits."""
        before = self.committed
        answer = self.answer()
        return answer, [self.arrive() for _ in range(self.committed - before)]

    def _handle(self, event: Event) -> float:
        began = time.thread_time()
        self.state, effects = self.manager.handle(self.state, event)
        took = time.thread_time() - began
        for effect in effects:
            match effect:
                case Ask():
                    self.asked.append(effect)
                case Apply(transactions=ids):
                    self.committed += len(ids)
                case Send():
                    raise AssertionError("only nodes send messages")
                case _:
                    assert_never(effect)
        return took


def backlog(name: str, waiting: int) -> Backlog:
    """One of `MANAGERS` to which so many transactions have come while it waits for answers."""
    algorithm, settings = MANAGERS[name]
    view = parse_view(_SQL, [_X, _Y])
    manager = make_manager(ALGORITHMS[algorithm], view, settings)
    made = Backlog(manager, manager.start())
    for _ in range(waiting):
        made.arrive()
    return made


def measure(name: str, waiting: int, rounds: int) -> Cost:
    """The mean costs over so many rounds; the first ones, which index what waits, apart."""
    measured = backlog(name, waiting)
    indexing = sum(measured.work()[0] for _ in range(_FIRST))
    answers, arrivals = [], []
    for _ in range(rounds):
        answer, arrived = measured.work()
        answers.append(answer)
        arrivals += arrived
    return Cost(
        name,
        waiting,
        indexing_ms=indexing * 1000,
        arrival_ms=sum(arrivals) / len(arrivals) * 1000,
        answer_ms=sum(answers) / len(answers) * 1000,
        transaction_ms=(sum(arrivals) + sum(answers)) / len(arrivals) * 1000,
    )
