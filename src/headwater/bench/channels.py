"""How fast channels are, each figure beside the plain driver doing the same.

For each kind of source: transactions and rows per second through the channel, latency from the
commit to the delivery, the round trip of a question, and the throughput of a load. Run on real
databases that are made for it and removed afterwards.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import Query, bind_delta, query_of
from headwater.algebra.values import INT
from headwater.bench.channel_databases import DATABASES, MeasuredDatabase
from headwater.protocol.effects import Ask
from headwater.protocol.events import AnswerArrived, TransactionArrived
from headwater.sources.channel import Channel
from headwater.sources.contract import Source
from headwater.sources.subscription import Delivery

_KEYS = Relation("elsewhere.keys", "elsewhere", Schema.of([("id", INT)]))


@dataclass(frozen=True)
class Figures:
    """One kind of source; times in milliseconds, `raw` is the plain driver."""

    kind: str
    transactions_per_s: float
    rows_per_s: float
    raw_rows_per_s: float
    latency_p50_ms: float
    latency_p99_ms: float
    raw_commit_p50_ms: float
    question_p50_ms: float
    question_p99_ms: float
    raw_question_p50_ms: float
    load_rows_per_s: float
    raw_load_rows_per_s: float


def measure(kind: str, rows: int, rounds: int) -> Figures:
    """All figures of one kind: `rows` through log and load, `rounds` single steps."""
    with DATABASES[kind]() as database:
        database.source.setup()
        per_transaction = database.rows_at_once
        for first in range(0, rows, per_transaction):
            database.write(first, min(per_transaction, rows - first))
        raw_log_s = _seconds(database.read_log)
        channel = Channel(database.source)
        inbox = _Inbox(channel)
        started = time.perf_counter()
        channel.start()
        inbox.wait(lambda: inbox.rows >= rows)  # a backlog's borders may be lost, its rows not
        through_s = time.perf_counter() - started
        units = inbox.transactions
        try:
            latencies, commits = _latencies(database, inbox, rows, rounds)
            query = _by_key(database.source, rows // 2)
            questions = [_question(inbox, query, n) for n in range(rounds)]
        finally:
            channel.close()
        raw = [_seconds(partial(database.find, rows // 2)) for _ in range(rounds)]
        load_s, raw_load_s = _loads(database)
        figures = Figures(
            kind,
            units / through_s,
            rows / through_s,
            rows / raw_log_s,
            *_percentiles(latencies),
            1000 * statistics.median(commits),
            *_percentiles(questions),
            1000 * statistics.median(raw),
            (rows + rounds) / load_s,
            (rows + rounds) / raw_load_s,
        )
        database.source.teardown()
        return figures


class _Inbox:
    """Takes what a channel has, and counts it."""

    def __init__(self, channel: Channel) -> None:
        self._woken = threading.Event()
        self.subscription = channel.subscribe(lambda at: self._woken.set())
        self.transactions = 0
        self.rows = 0
        self.answers = 0

    def wait_for_transactions(self, count: int) -> None:
        self.wait(lambda: self.transactions >= count)

    def wait(self, ready: Callable[[], bool]) -> None:
        while not ready():
            self._woken.clear()
            deliveries = self.subscription.take(256)
            for delivery in deliveries:
                self._count(delivery)
            if not deliveries and not self._woken.wait(120):
                raise TimeoutError("the channel delivered nothing for two minutes")

    def _count(self, delivery: Delivery) -> None:
        if isinstance(delivery.event, TransactionArrived):
            self.transactions += 1
            self.rows += sum(len(d) for d in delivery.event.transaction.deltas.values())
        self.answers += isinstance(delivery.event, AnswerArrived)


def _latencies(
    database: MeasuredDatabase, inbox: _Inbox, rows: int, rounds: int
) -> tuple[list[float], list[float]]:
    """From the end of a commit to its delivery, and how long the commit itself took."""
    latencies, commits = [], []
    for number in range(rounds):
        delivered = inbox.transactions + 1
        commits.append(_seconds(partial(database.write, rows + number, 1)))
        latencies.append(_seconds(partial(inbox.wait_for_transactions, delivered)))
    return latencies, commits


def _by_key(source: Source, key: int) -> Query:
    """A probe for one key."""
    relations = [*source.relations().values(), _KEYS]
    sql = "SELECT i.id, i.name FROM items i JOIN elsewhere.keys k ON i.id = k.id"
    (term,) = query_of(parse_view(sql, relations))
    return (bind_delta(term, 1, Rows.of(_KEYS.schema, [[key]])),)


def _question(inbox: _Inbox, query: Query, number: int) -> float:
    started = time.perf_counter()
    inbox.subscription.ask(Ask("bench", f"Q{number}", (query,)))
    inbox.wait(lambda: inbox.answers > number)
    return time.perf_counter() - started


def _loads(database: MeasuredDatabase) -> tuple[float, float]:
    def load() -> None:
        opened = database.source.open_load(["items"], 1)
        for part in range(opened.parts("items")):
            for _ in opened.read("items", part):
                pass
        opened.close()

    return _seconds(load), _seconds(database.read_all)


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _percentiles(seconds: list[float]) -> tuple[float, float]:
    """The median and the 99th percentile, in milliseconds."""
    ordered = sorted(seconds)
    return 1000 * statistics.median(ordered), 1000 * ordered[int(0.99 * (len(ordered) - 1))]


def as_json(figures: Figures) -> dict[str, object]:
    return {
        name: round(value, 3) if isinstance(value, float) else value
        for name, value in asdict(figures).items()
    }
