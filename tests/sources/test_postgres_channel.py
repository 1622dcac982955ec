from __future__ import annotations

import queue
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import psycopg
import pytest

from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import Query, query_of
from headwater.algebra.values import Row
from headwater.embedded.postgres import PostgresServer
from headwater.protocol.effects import Ask
from headwater.protocol.events import AnswerArrived, TransactionArrived
from headwater.sources.channel import Channel
from headwater.sources.contract import Lift, Reply, Wrapper, as_it_is
from headwater.sources.postgres.source import PostgresSource
from headwater.sources.subscription import Delivery, Subscription
from headwater.testing.following import follow
from headwater.testing.harness import local
from tests.sources.postgres_harness import PostgresHarness
from tests.sources.postgres_tools import LINES, whole


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    server = PostgresServer(16)
    yield server
    server.stop()


@pytest.fixture
def harness(server: PostgresServer) -> Iterator[PostgresHarness]:
    harness = PostgresHarness(server)
    harness.create_table("a", LINES, ["id"])
    harness.create_table("b", LINES)
    yield harness
    server.reload(synchronous_standby_names="''")
    harness.close()


class Oracle:
    """Replays what a subscriber receives and compares every answer with it."""

    def __init__(self) -> None:
        self.states: dict[str, Counter[Row]] = {"a": Counter(), "b": Counter()}
        self.answers: queue.Queue[bool] = queue.Queue()
        self.transactions = 0
        self.errors: list[Exception] = []
        self.then: Callable[[], None] = lambda: None

    def deliver(self, delivery: Delivery) -> None:
        match delivery.event:
            case TransactionArrived(transaction):
                for name, delta in local(transaction).items():
                    for row, count in delta.items():
                        self.states[name][row] += count
                self.transactions += 1
            case AnswerArrived(_, _, results):
                found = [dict(rows.items()) for rows in results]
                self.answers.put(found == self._expected()[: len(found)])
                self.then()

    def _expected(self) -> list[dict[Row, int]]:
        a, b = (+self.states[name] for name in "ab")
        joined: Counter[Row] = Counter()
        for (number, part), n in a.items():
            for (other, name), m in b.items():
                if number == other:
                    joined[(number, part, name)] += n * m
        return [dict(a), dict(joined)]


@dataclass
class Everything:
    """What an answer stamped by a place in the log claims to hold: all that came before it."""

    def includes(self, stamp: int) -> bool:
        return True


class StampedByPlace(PostgresSource):
    """Deliberately wrong: takes the log up to the marker for what the answer reflects."""

    def open_wrapper(self, lift: Lift = as_it_is) -> Wrapper:
        wrapper = super().open_wrapper()
        ask = wrapper.ask

        def wrong(queries: Sequence[Query], marker: str | None = None) -> Reply:
            return replace(ask(queries, marker), snapshot=Everything())

        wrapper.ask = wrong  # type: ignore[method-assign]  # that is the fault
        return wrapper


def followed(source: PostgresSource, oracle: Oracle) -> tuple[Channel, Subscription]:
    channel = Channel(source, ask_limit_s=120)
    subscription = follow(channel, oracle.deliver, oracle.errors.append)
    channel.start()
    return channel, subscription


def wait_until(condition: Callable[[], bool], limit_s: float = 120.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


@pytest.mark.parametrize("right", [True, False], ids=["by snapshot", "by place in the log"])
def test_a_commit_that_is_in_the_log_and_not_yet_visible(
    harness: PostgresHarness, server: PostgresServer, right: bool
) -> None:
    kind = PostgresSource if right else StampedByPlace
    source = kind("pg", harness.dsn, ["a", "b"], slot=harness.name)
    source.setup()
    oracle = Oracle()
    channel, subscription = followed(source, oracle)
    server.reload(synchronous_standby_names="'nobody_there'")
    writer = harness.writer()
    thread = threading.Thread(target=writer.execute, args=("INSERT INTO a VALUES (1, 'x')",))
    thread.start()
    try:
        wait_until(lambda: oracle.transactions == 1)
        with psycopg.connect(harness.dsn) as connection:
            assert connection.execute("SELECT * FROM a").fetchall() == []
        subscription.ask(Ask("pg", "q1", (whole(source.relations(), "a"),)))
        if right:
            wait_until(lambda: subscription.retries > 3)
            assert oracle.answers.empty()
            server.reload(synchronous_standby_names="''")
        assert oracle.answers.get(timeout=120) is right
    finally:
        server.reload(synchronous_standby_names="''")
        thread.join()
        channel.close()
    assert oracle.errors == []


def write_at_random(harness: PostgresHarness, seed: int, stop: threading.Event) -> None:
    chance = random.Random(seed)
    writer = harness.writer()
    while not stop.wait(0.001):  # slow enough for a reader on a busy machine
        number, name = chance.randrange(20), chance.choice("xyz")
        with writer.transaction():
            writer.execute(
                "INSERT INTO a VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET part = a.part || '.'",
                [number, name],
            )
            writer.execute("INSERT INTO b VALUES (?, ?)", [number, name])
        if chance.random() < 0.5:
            writer.execute("DELETE FROM b WHERE id % 7 = ?", [number % 7])
        if chance.random() < 0.5:
            writer.execute("DELETE FROM a WHERE id = ?", [number])


@pytest.mark.parametrize("changes", ["replication", "triggers"])
def test_every_answer_reflects_exactly_the_transactions_delivered_before_it(
    harness: PostgresHarness, changes: str
) -> None:
    source = harness.source(["a", "b"], changes=changes)
    source.setup()
    relations = source.relations()
    joined = query_of(
        parse_view("SELECT a.id, a.part, b.part AS other FROM a JOIN b ON a.id = b.id", relations)
    )
    questions = (whole(relations, "a"), joined)
    oracle = Oracle()
    channel, subscription = followed(source, oracle)
    oracle.then = lambda: subscription.ask(Ask("pg", "next", questions))
    stop = threading.Event()
    threads = [
        threading.Thread(target=write_at_random, args=(harness, seed, stop)) for seed in (1, 2, 3)
    ]
    for thread in threads:
        thread.start()
    try:
        subscription.ask(Ask("pg", "first", questions))
        right = [oracle.answers.get(timeout=120) for _ in range(400)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        oracle.then = lambda: None
        channel.close()
    assert oracle.errors == []
    assert all(right), f"{right.count(False)} of {len(right)} answers are wrong"
    assert oracle.transactions > 100
