"""Keeps one view up to date: the thread around its maintenance (see `maintenance`).

Each view has a thread of its own, with an inbox into which the channels of its sources deliver.
Questions go to the channels and are answered while other views go on. What is to be committed
becomes a commit of the view's table, together with the version vector: after a crash
maintenance goes on from there.

A source is slowed down for this view when too many transactions wait, except while it owes
an answer, because the answer comes behind what it reflects.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from headwater.errors import EngineError, HeadwaterError
from headwater.frames.engine import Engine
from headwater.frames.frame import Frame
from headwater.pipeline.feed import Feed
from headwater.pipeline.maintenance import Commit, Maintenance, Plan, relevant
from headwater.project.gaps import check_goes_on
from headwater.protocol.effects import Ask
from headwater.protocol.events import AnswerArrived, TransactionArrived
from headwater.sources.subscription import Delivery, Receive, Subscription
from headwater.warehouse.vectors import Vector
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.view_writer import ViewWriter

_RECENT = 1000


@dataclass(frozen=True)
class Obtained:
    """A view's table, and places in channels that were kept while it was loaded."""

    table: ViewTable
    subscriptions: Mapping[str, Subscription] = field(default_factory=dict)


Obtain: TypeAlias = Callable[[Receive], Obtained]
"""Opens a view's table, or loads it; what is kept meanwhile is delivered as given."""


@dataclass
class Counters:
    """What one view has done since the runner started."""

    transactions: int = 0
    commits: int = 0
    rows: int = 0
    questions: int = 0
    retries: int = 0
    committed_at: float = 0.0
    freshness_s: list[float] = field(default_factory=list)
    """From reading a transaction at the source to its commit, of the last ones that were read
    when the view was there already."""

    def note_freshness(self, seconds: float) -> None:
        self.freshness_s.append(seconds)
        del self.freshness_s[:-_RECENT]


class Maintainer:
    """One view's thread."""

    def __init__(
        self,
        plan: Plan,
        obtain: Obtain,
        feeds: Mapping[str, Feed],
        engine: Engine,
        runner: str,
        backlog: int = 10_000,
        watch: Callable[[str, float], None] | None = None,
    ) -> None:
        self.plan = plan
        self.table: ViewTable | None = None
        self.counters = Counters()
        self._maintenance: Maintenance | None = None
        self._obtain = obtain
        self._feeds = {source: feeds[source] for source in plan.view.sources}
        self._engine = engine
        self._runner = runner
        self._backlog = backlog
        self._watch = watch or (lambda step, seconds: None)
        self._inbox: queue.Queue[Delivery] = queue.Queue()
        self._room = threading.Condition()
        self._waiting = 0
        self._asked: dict[str, float] = {}
        self._stopping = False
        self._failure: HeadwaterError | None = None
        self._subscriptions: dict[str, Subscription] = {}
        self._following_since = 0.0
        self._thread = threading.Thread(
            target=self._run, name=f"view {plan.view.name}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    @property
    def name(self) -> str:
        return self.plan.view.name

    @property
    def failure(self) -> HeadwaterError | None:
        """Why this view stands still, if it does."""
        return self._failure

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    @property
    def vector(self) -> Vector | None:
        """What the view reflects, visible or not yet; None before it has a table."""
        return None if self._maintenance is None else self._maintenance.vector

    @property
    def visible(self) -> Vector:
        """What a reader of the view sees is the view at this vector."""
        return {} if self._maintenance is None else self._maintenance.visible

    def reach(self, targets: Mapping[str, int]) -> bool:
        """Show everything up to these numbers as soon as it is there; whether readers see it."""
        return self._maintenance is not None and self._maintenance.reach(targets)

    def stop(self) -> None:
        """Commit what is ready and end."""
        self._stopping = True
        with self._room:
            self._room.notify_all()

    def join(self, limit_s: float | None = None) -> None:
        self._thread.join(limit_s)

    # In the threads of the subscriptions

    def deliver(self, delivery: Delivery) -> None:
        """Take a delivery: only what concerns the view, on the engine that suits its size."""
        match delivery.event:
            case TransactionArrived(transaction):
                self._wait_for_room(delivery.source)
                concerning = relevant(self.plan.view, transaction, delivery, self._engine.lift)
                delivery = replace(delivery, event=TransactionArrived(concerning))
            case AnswerArrived(source, label, results):
                settled = tuple(map(self._engine.settle, results))
                delivery = replace(delivery, event=AnswerArrived(source, label, settled))
        self._inbox.put(delivery)

    def _wait_for_room(self, source: str) -> None:
        with self._room:
            self._room.wait_for(
                lambda: self._waiting < self._backlog or self._is_owed(source) or self._stopping
            )
            self._waiting += 1

    def _is_owed(self, source: str) -> bool:
        return self._maintenance is not None and self._maintenance.owes(source)

    # In the view's own thread

    def _run(self) -> None:
        try:
            obtained = self._obtain(self.deliver)
            self._subscriptions = dict(obtained.subscriptions)
            self.table = obtained.table
            vector = self.table.latest().vector
            maintenance = Maintenance(self.plan, vector, self._engine.settle)
            self._maintenance = maintenance
            self._subscribe(vector)
            writer = self.table.writer(self._runner)
            while not self._stopping:
                self._step(maintenance, writer)
            self._write_all(maintenance, maintenance.finish(), writer)
        except HeadwaterError as error:
            self._failure = error
        except OSError as error:
            self._failure = EngineError(
                f"View {self.name} cannot be written: {error.strerror or error}.",
                "Look at the disk of the warehouse; every version that was committed is there.",
            )
        except Exception as error:
            self._failure = HeadwaterError(
                f"View {self.name} stopped: {type(error).__name__}: {error}.",
                "This is a fault of Headwater; other views go on. 'headwater run' tries again.",
            )
            self._failure.__cause__ = error
        finally:
            self._stopping = True
            with self._room:
                self._room.notify_all()
            for subscription in self._subscriptions.values():
                subscription.close()

    def _subscribe(self, vector: Vector) -> None:
        self._following_since = time.monotonic()
        for source, feed in self._feeds.items():
            after = vector[source].number
            check_goes_on(self.name, source, after, feed.log)
            if source in self._subscriptions:
                self._subscriptions[source].resume(after)
            else:
                self._subscriptions[source] = feed.channel.subscribe(self.deliver, after)

    def _step(self, maintenance: Maintenance, writer: ViewWriter) -> None:
        due = maintenance.tick(time.monotonic(), more=not self._inbox.empty())
        self._write_all(maintenance, due, writer)
        try:
            delivery = self._inbox.get(timeout=maintenance.patience(time.monotonic()))
        except queue.Empty:
            return
        if delivery.error is not None:
            raise delivery.error
        self._watch_arrival(delivery)
        waited = maintenance.waiting
        began = time.monotonic()
        wanted = maintenance.take(delivery, began)
        self._watch("join", time.monotonic() - began)
        for effect in wanted:
            match effect:
                case Ask():
                    self._ask(effect)
                case Commit():
                    self._write_all(maintenance, [effect], writer)
        arrived = isinstance(delivery.event, TransactionArrived)
        self._make_room(waited + arrived - maintenance.waiting)

    def _watch_arrival(self, delivery: Delivery) -> None:
        match delivery.event:
            case TransactionArrived(transaction):
                self.counters.transactions += 1
                if delivery.read_at and transaction.updates:
                    self._watch("delivery", time.monotonic() - delivery.read_at)
            case AnswerArrived(label=label):
                self._watch("probe", time.monotonic() - self._asked.pop(label))

    def _make_room(self, reflected: int) -> None:
        if not reflected:
            return
        with self._room:
            self._waiting -= reflected
            self._room.notify_all()

    def _ask(self, ask: Ask) -> None:
        self.counters.questions += 1
        self._asked[ask.label] = time.monotonic()
        with self._room:
            self._room.notify_all()  # its source is not held back while it owes the answer
        self._subscriptions[ask.source].ask(ask)

    def _write_all(
        self, maintenance: Maintenance, commits: Sequence[Commit], writer: ViewWriter
    ) -> None:
        for commit in commits:
            self._write(commit, writer)
            now = time.monotonic()
            maintenance.written(commit, now)
            if commit.kind == "change":
                self._count(commit, now)

    def _write(self, commit: Commit, writer: ViewWriter) -> None:
        began = time.monotonic()
        for source, reached in commit.vector.items():
            self._feeds[source].wait_durable(max([reached.number, *reached.also]))
        durable = time.monotonic()
        writer.commit(
            commit.delta.dataframe if isinstance(commit.delta, Frame) else commit.delta,
            commit.vector,
            added=commit.added,
            algorithm=self.plan.algorithm,
            level=self.plan.level,
            kind=commit.kind,
        )
        self._watch("change log", durable - began)
        self._watch("commit", time.monotonic() - durable)

    def _count(self, commit: Commit, now: float) -> None:
        self.counters.commits += 1
        self.counters.rows += len(commit.delta)
        self.counters.committed_at = time.time()
        for received in commit.received:
            if received.read_at > self._following_since:
                self.counters.note_freshness(now - received.read_at)
