"""A view over PostgreSQL servers, one for each source, maintained by SWEEP or PVM and timed.

As in the PVM paper's section 7.1: every source has a relation, they are joined in a chain, and a
source answers one question at a time. Each question takes a settable time longer, in its wrapper:
half of it before the source is asked, half behind. The view is kept in memory, so what is timed is
monitors, wrappers and the view manager; at the end it is compared with the join of what the servers
hold.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

import psycopg

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.rows import Rows
from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import Query
from headwater.algebra.views import View
from headwater.algorithms.registry import algorithm, make_manager
from headwater.embedded.postgres import PostgresServer
from headwater.errors import HeadwaterError
from headwater.protocol.effects import Apply, Ask, apply_actions
from headwater.protocol.events import Event
from headwater.protocol.managers import ViewManager
from headwater.sources.channel import Channel
from headwater.sources.contract import Lift, Reply, Source, Wrapper, as_it_is
from headwater.sources.postgres.source import PostgresSource
from headwater.sources.subscription import Subscription

ROWS = 5000
"""Rows of each relation, at the beginning."""
_LIMIT_S = 600.0


class FarSource(PostgresSource):
    """A PostgreSQL source that is some way off."""

    latency_s = 0.0

    def open_wrapper(self, lift: Lift = as_it_is) -> Wrapper:
        return _Far(super().open_wrapper(lift), self.latency_s)


@dataclass(frozen=True)
class _Far:
    wrapper: Wrapper
    latency_s: float

    def ask(self, queries: Sequence[Query], marker: str | None = None) -> Reply:
        time.sleep(self.latency_s / 2)
        reply = self.wrapper.ask(queries, marker)
        time.sleep(self.latency_s / 2)
        return reply

    def close(self) -> None:
        self.wrapper.close()


@dataclass(frozen=True)
class Work:
    """What is to be maintained: the parameters of the paper's Table 3."""

    m: int
    n: int
    c: int = 1
    interval_s: float = 0.0
    latency_s: float = 0.1
    seed: int = 1


class Servers:
    """As many servers as are needed, which are used for one run after the other."""

    def __init__(self) -> None:
        self._servers: list[PostgresServer] = []
        self._runs = 0

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, *raised: object) -> None:
        for server in self._servers:
            server.stop()

    def time(self, work: Work, name: str, **settings: int) -> float:
        """Seconds from the first update, or from when all are there, to the last in the view.

        Every run begins with the rows that there were at first.
        """
        while len(self._servers) < work.m:
            self._servers.append(_filled(len(self._servers) + 1))
        self._runs += 1
        with ExitStack() as stack:
            sources, tables = [], []
            for number, server in enumerate(self._servers[: work.m], 1):
                table = stack.enter_context(psycopg.connect(server.dsn(), autocommit=True))
                table.execute(f"DELETE FROM r{number} WHERE k > {ROWS}".encode())
                tables.append(table)
                source = _far_source(server, number, self._runs, work.latency_s)
                source.setup()
                stack.callback(source.teardown)
                sources.append(source)
            return _Run(work, sources, tables, name, settings).seconds()


def _far_source(server: PostgresServer, number: int, run: int, latency_s: float) -> FarSource:
    slot = f"run{run}"
    source = FarSource(f"s{number}", server.dsn(), [f"r{number}"], publication=slot, slot=slot)
    source.latency_s = latency_s
    return source


def _filled(number: int) -> PostgresServer:
    server = PostgresServer()
    server.execute(
        f"CREATE TABLE r{number} (k int PRIMARY KEY, a int, b int)",
        f"INSERT INTO r{number} SELECT j, j, j FROM generate_series(1, {ROWS}) j",
    )
    return server


class _Run:
    """One view, from a state that the servers have, over some updates."""

    def __init__(
        self,
        work: Work,
        sources: Sequence[Source],
        tables: Sequence[psycopg.Connection[Any]],
        name: str,
        settings: Mapping[str, int],
    ) -> None:
        self._work, self._sources, self._tables = work, sources, tables
        self._view = _chain(sources)
        self._shown = self._joined()
        given = {key: str(value) for key, value in settings.items()}
        self._manager: ViewManager[Any] = make_manager(algorithm(name), self._view, given)
        self._state = self._manager.start()
        self._inbox: queue.Queue[Event | HeadwaterError] = queue.Queue()
        self._subscriptions: dict[str, Subscription] = {}
        self._reflected = 0

    def seconds(self) -> float:
        with ExitStack() as stack:
            for source in self._sources:
                channel = Channel(source, ask_limit_s=_LIMIT_S)
                stack.callback(channel.close)
                self._subscriptions[source.name] = _follow(channel, self._inbox.put)
                channel.start()
            started = self._begin()
            while self._reflected < self._work.n:
                self._take(self._next())
            took = time.monotonic() - started
        if self._shown != self._joined():
            raise HeadwaterError(
                "The view is not what the servers hold, joined.",
                "This is a fault of Headwater.",
            )
        return took

    def _begin(self) -> float:
        """Have the updates happen: all before the first is taken in, if there is no interval."""
        if self._work.interval_s:
            started = time.monotonic()
            threading.Thread(target=self._commit_beside, daemon=True).start()
            return started
        self._commit()
        there = [self._next() for _ in range(self._work.n)]
        started = time.monotonic()
        for event in _in_turn(there, self._work):
            self._take(event)
        return started

    def _commit_beside(self) -> None:
        """In a thread of its own."""
        try:
            self._commit()
        except psycopg.Error as error:
            self._inbox.put(HeadwaterError(f"An update could not be made: {error}."))

    def _commit(self) -> None:
        work, random = self._work, Random(self._work.seed)
        started = time.monotonic()
        joined = 0
        for update in range(work.n):
            if update % work.m == 0:
                joined = random.randint(1, ROWS)  # concurrent updates join each other
            time.sleep(max(0.0, started + update * work.interval_s - time.monotonic()))
            at = update // work.c % work.m
            self._tables[at].execute(
                f"INSERT INTO r{at + 1} VALUES (%s, %s, %s)".encode(),
                [ROWS + 1 + update, joined, joined],
            )

    def _next(self) -> Event:
        try:
            found = self._inbox.get(timeout=_LIMIT_S)
        except queue.Empty:
            raise HeadwaterError(f"Nothing came within {_LIMIT_S:.0f} s.") from None
        if isinstance(found, HeadwaterError):
            raise found
        return found

    def _take(self, event: Event) -> None:
        self._state, effects = self._manager.handle(self._state, event)
        for effect in effects:
            match effect:
                case Ask(source=source):
                    self._subscriptions[source].ask(effect)
                case Apply(actions=actions, transactions=transactions):
                    self._shown = apply_actions(self._shown, actions)
                    self._reflected += len(transactions)

    def _joined(self) -> Rows:
        contents = {}
        for relation, table in zip(self._view.relations, self._tables, strict=True):
            name = relation.name.rpartition(".")[2]
            rows = table.execute(f"SELECT k, a, b FROM {name}".encode()).fetchall()
            contents[relation.name] = Rows.of(relation.schema, rows)
        return evaluate_view(self._view, contents)


def _in_turn(there: Sequence[Event], work: Work) -> list[Event]:
    """Transactions of all sources in the order in which they were committed."""
    of: dict[str, list[Event]] = {}
    for event in there:
        (source,) = getattr(event, "transaction").spans  # noqa: B009
        of.setdefault(source, []).append(event)
    return [of[f"s{update // work.c % work.m + 1}"].pop(0) for update in range(work.n)]


def _chain(sources: Sequence[Source]) -> View:
    """The paper's Figure 20."""
    names = [f"r{number}" for number in range(1, len(sources) + 1)]
    tables = ", ".join(f"s{name[1:]}.{name} {name}" for name in names)
    joins = " AND ".join(f"{x}.a = {y}.b" for x, y in pairwise(names))
    shown = ", ".join(f"{name}.a AS a{name[1:]}" for name in names)
    relations = [r for source in sources for r in source.relations().values()]
    return parse_view(f"SELECT {shown} FROM {tables} WHERE {joins}", relations)


def _follow(channel: Channel, put: Callable[[Event | HeadwaterError], None]) -> Subscription:
    """Have everything that a channel delivers put somewhere, by a thread."""
    woken = threading.Event()
    subscription = channel.subscribe(lambda at: woken.set(), after=0)

    def take() -> None:
        try:
            while not channel.is_stopping:
                woken.clear()
                deliveries = subscription.take(256)
                for delivery in deliveries:
                    assert delivery.event is not None
                    put(delivery.event)
                if not deliveries:
                    woken.wait(0.5)
        except HeadwaterError as error:
            put(error)

    threading.Thread(target=take, daemon=True).start()
    return subscription
