"""Keeps one view up to date: what drives its maintenance (see `maintenance`).

A view has no thread. It is woken when something concerns it, when an answer has come, and when
something is due; a worker then takes what the channels of its sources have for it, one worker at
a time (see `turns`). Questions go to the channels and are answered while other views go on. What
is to be committed becomes a commit of the view's table, together with the version vector: after a
crash maintenance goes on from there.

Nothing more is taken from a source when too many transactions wait, except while it owes an
answer, because the answer comes behind what it reflects, or a part of a global transaction of which
another is held.

Whoever holds `_owned` owns the view's state: the worker whose turn it is, or for a moment
somebody who asks how far the view has come.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias, assert_never

from headwater.algebra.rows import Rows
from headwater.algorithms.hosted import Did, Told
from headwater.errors import EngineError, HeadwaterError
from headwater.frames.engine import Engine
from headwater.frames.failures import SPARK_ERRORS, explained
from headwater.frames.frame import Frame
from headwater.frames.naming import named
from headwater.pipeline.burden import Burden
from headwater.pipeline.copied import Consult
from headwater.pipeline.cutting import Cutting
from headwater.pipeline.feed import Feed
from headwater.pipeline.joining import LateParts
from headwater.pipeline.known_parts import KnownParts
from headwater.pipeline.maintenance import Maintenance
from headwater.pipeline.nodes_away import NodesAway
from headwater.pipeline.patience import Patience
from headwater.pipeline.plan import Plan
from headwater.pipeline.reflected import has_reached
from headwater.pipeline.relevant import relevant
from headwater.pipeline.tally import Tally
from headwater.pipeline.turns import Clock, Turn
from headwater.pipeline.wanted import Commit, Look, Wanted
from headwater.project.gaps import check_goes_on
from headwater.protocol.effects import Add, Ask, Send
from headwater.protocol.events import AnswerArrived, MessageArrived, TransactionArrived
from headwater.protocol.messages import WAREHOUSE
from headwater.sources.subscription import Delivery, Subscription, Wake
from headwater.sources.workers import Workers
from headwater.storage.bucket import StoreError
from headwater.warehouse.looking_up import StoredRows
from headwater.warehouse.notes import VectorNote
from headwater.warehouse.own_files import store_trouble
from headwater.warehouse.vectors import VersionVector
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.view_writer import ViewWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_AT_ONCE = 256
_LONGEST_TURN_S = 0.2
_SHORTEST_WAIT_S = 0.001
_LATE = LateParts()


@dataclass(frozen=True)
class Obtained:
    """A view's table, and places in channels that were kept while it was loaded."""

    table: ViewTable
    subscriptions: Mapping[str, Subscription] = field(default_factory=dict)


Obtain: TypeAlias = Callable[[Wake], Obtained]
"""Opens a view's table, or loads it; who keeps a place meanwhile is woken as given."""


class Maintainer:
    """One view at work."""

    def __init__(
        self,
        plan: Plan,
        obtain: Obtain,
        feeds: Mapping[str, Feed],
        engine: Engine,
        runner: str,
        workers: Workers,
        clock: Clock,
        backlog: int = 10_000,
        nodes: NodesAway | None = None,
        watch: Callable[[str, float], None] | None = None,
        parts: KnownParts | None = None,
        late: LateParts = _LATE,
        burden: Burden | None = None,
    ) -> None:
        self.plan = plan
        self.burden = burden or Burden()
        self._patience = Patience(plan.may_change, plan.refresh_s or 0.0)
        self.table: ViewTable | None = None
        self._tally = Tally(plan.view.name, watch)
        self.counters, self.observed = self._tally.counters, self._tally.observed
        self.recent = self._tally.recent
        self._obtain = obtain
        self._feeds = {source: feeds[source] for source in plan.view.sources}
        self._engine = engine
        self._runner = runner
        self._backlog = backlog
        self._parts = parts
        self._late = late
        self.holding: Sequence[str] = ()
        """The global transactions of which a part is held, for want of others."""
        self.released: Sequence[tuple[str, str]] = ()
        """Those of which a part was taken by itself: the id, and the part."""
        self._nodes = nodes
        self._turn = Turn(self._work, workers, clock)
        self._owned = threading.Lock()
        self._maintenance: Maintenance | None = None
        self._writer: ViewWriter | None = None
        self._stored: StoredRows | None = None
        self._inbox: deque[Delivery] = deque()
        self._heard: deque[Delivery] = deque()
        """What nodes that are away have said; filled by the threads of their connections."""
        self._lost: HeadwaterError | None = None
        self._subscriptions: dict[str, Subscription] = {}
        self._following_since = 0.0
        self._vector: VersionVector | None = None
        self._visible: VersionVector = {}
        self._targets: Mapping[str, int] | None = None
        """What somebody wants to see shown."""
        self._note: VectorNote | None = None
        self._stopping = False
        self._ended = threading.Event()
        self._failure: HeadwaterError | None = None

    def start(self, workers: Workers) -> None:
        """Open or load the view in a thread of these, and go on from there."""
        workers.do(self._begin)

    @property
    def name(self) -> str:
        return self.plan.view.name

    @property
    def failure(self) -> HeadwaterError | None:
        """Why this view stands still, if it does."""
        return self._failure

    @property
    def is_running(self) -> bool:
        return not self._ended.is_set()

    @property
    def vector(self) -> VersionVector | None:
        """What the view reflects, visible or not yet; None before it has a table."""
        self._look()
        return self._vector

    @property
    def version(self) -> int | None:
        """The number of its newest commit; None before it has a table."""
        return self._writer.latest.number if self._writer is not None else None

    @property
    def retries(self) -> int:
        """How often a question was put again, because its snapshot did not fit the log."""
        return sum(each.retries for each in list(self._subscriptions.values()))

    @property
    def visible(self) -> VersionVector:
        """What a reader of the view sees is the view at this vector."""
        self._look()
        return self._visible

    @property
    def note(self) -> VectorNote | None:
        """How far the view has come without a further commit; None if nothing more is known."""
        self._look()
        return self._note

    @property
    def token_at(self) -> Sequence[str]:
        """The sources at whose nodes a token is, as far as a look tells; empty if there is none."""
        maintenance = self._maintenance
        if maintenance is None or not self._owned.acquire(blocking=False):
            return ()
        try:
            return maintenance.token_at
        finally:
            self._owned.release()

    def reach(self, targets: Mapping[str, int]) -> bool:
        """Show everything up to these numbers as soon as it is there; whether readers see it.

        It is the one who owns the view who sees to that, and finds that it is done: under steady
        changes nobody else may ever come to own it.
        """
        if self._maintenance is None:
            return False
        self._targets = targets
        self._look()
        reached = has_reached(self._visible, targets)
        if not reached:
            self._turn.wake()
        return reached

    def stop(self) -> None:
        """Commit what is ready and end; at once, if it waits to be opened or loaded."""
        self._stopping = True
        if self._owned.acquire(blocking=False):
            try:
                if self._maintenance is None and self.is_running:
                    self._end()
            finally:
                self._owned.release()
        self._turn.wake()

    def join(self, limit_s: float | None = None) -> None:
        self._ended.wait(limit_s)

    def _look(self) -> None:
        """Find out how far the view has come.

        If a worker is at it just now, what was last known has to do.
        """
        maintenance = self._maintenance
        if maintenance is None or not self._owned.acquire(blocking=False):
            return
        try:
            if self.is_running:
                self._move_on(maintenance)
        finally:
            self._owned.release()

    # Whoever owns the view

    def _move_on(self, maintenance: Maintenance) -> None:
        """Take note of what has passed that does not concern the view, as far as it is on disk."""
        noted = None
        if not self._inbox:
            durable = {source: self._feeds[source].durable for source in self._subscriptions}
            for source, subscription in self._subscriptions.items():
                end, position = durable[source]
                passed = subscription.cursor - 1
                if passed >= end:
                    maintenance.move_on(source, end, position)
                else:
                    maintenance.move_on(source, passed)
            noted = maintenance.noted({source: end for source, (end, _) in durable.items()})
        if self._targets is not None and maintenance.reach(self._targets):
            self._targets = None
        self._vector, self._visible = maintenance.vector, maintenance.visible
        self.burden.reflected(self._vector, maintenance.is_settled)
        self.holding = maintenance.joining.holding
        if self.holding or maintenance.is_settled:
            self._patience.shown()
        self.released = tuple(maintenance.joining.released)
        if self._writer is not None and noted is not None:
            self._note = VectorNote.of(self._writer.latest, noted)

    @contextmanager
    def _owning(self) -> Iterator[None]:
        """Own the view; whatever goes wrong meanwhile ends it."""
        try:
            with self._owned:
                yield
        except HeadwaterError as error:
            self._end(error)
        except SPARK_ERRORS as error:  # of a commit, or of a look at what is stored
            self._end(explained(error, ()))
        except StoreError as error:
            self._end(store_trouble(error))
        except OSError as error:
            self._end(
                EngineError(
                    f"View {self.name} cannot be written: {error.strerror or error}.",
                    "Look at the disk of the warehouse; every version that was committed is there.",
                )
            )
        except Exception as error:
            failure = HeadwaterError(
                f"View {self.name} stopped: {type(error).__name__}: {error}.",
                "This is a fault of Headwater; other views go on. 'headwater run' tries again.",
            )
            failure.__cause__ = error
            self._end(failure)

    def _end(self, failure: HeadwaterError | None = None) -> None:
        self._failure = self._failure or failure  # the first reason, if a beginning fails beside it
        self._stopping = True
        for subscription in self._subscriptions.values():
            subscription.close()
        if self._nodes is not None:
            self._nodes.end()
        self._inbox.clear()
        self._ended.set()

    def _begin(self) -> None:
        with self._owning():
            if not self._stopping:
                obtained = self._obtain(self._turn.wake)
                self._subscriptions = dict(obtained.subscriptions)
                self._writer = obtained.table.writer(self._runner)
                self.table = obtained.table
                self._stored = StoredRows(self.table, self._engine.for_small)
                vector = self._writer.latest.vector
                self._maintenance = Maintenance(
                    self.plan, vector, self._engine.settle, self._parts, self._late
                )
                self._vector = self._visible = vector
                self._subscribe(vector)
                if self._nodes is not None:
                    self._nodes.begin(self._hear, self._lose, self._subscriptions)
        if self._stopping and not self._ended.is_set():
            self._end()
        self._turn.wake()

    def _subscribe(self, vector: VersionVector) -> None:
        self._following_since = time.monotonic()
        for source, feed in self._feeds.items():
            after = vector[source].number
            check_goes_on(self.name, source, after, feed.log)
            if source in self._subscriptions:
                self._subscriptions[source].resume(after)
            else:
                self._subscriptions[source] = feed.channel.subscribe(
                    self._turn.wake, after, relations=self.plan.relations(source)
                )
            self._subscriptions[source].name = self.name

    def _hear(self, source: str, did: Did) -> None:
        """A node that is away has said something. In any thread."""
        self._heard.append(Delivery(source, MessageArrived(source, WAREHOUSE, did), None))
        self._turn.wake()

    def _lose(self, error: HeadwaterError) -> None:
        """A node has gone, and with it what it had. In any thread."""
        self._lost = error
        self._turn.wake()

    # The worker whose turn it is

    def _work(self) -> None:
        if self._maintenance is None or self._ended.is_set():
            return
        with self._owning():
            self._work_off(self._maintenance)
        if self._stopping and not self._ended.is_set():
            self._end()

    def _work_off(self, maintenance: Maintenance) -> None:
        """Do all there is to do; what is left after a while is for the next turn."""
        until = time.monotonic() + _LONGEST_TURN_S
        while not self._stopping:
            if self._lost is not None:
                raise self._lost
            if not self._inbox:
                self._pull(maintenance)
            more = bool(self._inbox)
            with named(f"{self.name}: what is due"):
                wanted = maintenance.tick(time.monotonic(), more, self._read_since)
                self._do_all(maintenance, wanted)
            if not self._inbox:
                break
            delivery = self._inbox.popleft()
            with named(f"{self.name}: {_step(delivery)}"):
                self._take(maintenance, self._prepared(delivery))
            if time.monotonic() > until:
                self._move_on(maintenance)
                self._turn.wake()
                return
        if self._stopping:
            with named(f"{self.name}: finish"):
                self._write_all(maintenance, maintenance.finish())
        self._move_on(maintenance)
        if not self._stopping:
            due = [maintenance.due, *(s.due for s in self._subscriptions.values())]
            self._turn.wake(max(min(due), time.monotonic() + _SHORTEST_WAIT_S))

    def _pull(self, maintenance: Maintenance) -> None:
        """Take what nodes have said, and what the channels have next that concerns the view."""
        while self._heard:
            self._inbox.append(self._heard.popleft())
        for source, subscription in self._subscriptions.items():
            room = self._backlog - maintenance.waiting - len(self._inbox)
            if room > 0 or maintenance.owes(source) or maintenance.joining.awaits(source):
                self._inbox.extend(self._taken(source, subscription))

    def _taken(self, source: str, subscription: Subscription) -> Sequence[Delivery]:
        """What a channel has next; OutgrownError if too much waits by then."""
        found = subscription.take(_AT_ONCE)
        if found:
            now = time.monotonic()
            self.burden.receive(found, self.plan.relations(source), now)
            if all(feed.channel.trouble is None for feed in self._feeds.values()):
                each = self._subscriptions.values()
                behind = {name: number for s in each for name, number in s.behind.items()}
                self.burden.weigh(behind, now, self._would_come_on)
        return found

    def _would_come_on(self) -> bool:
        """Whether a load would leave less than half of what waits now: it goes back to before a
        part of a global transaction whose others are not there."""
        if self._parts is None or not self.plan.shows_global_whole:
            return True
        assert self._vector is not None
        floor = {source: reached.number for source, reached in self._vector.items()}
        ends = {source: feed.channel.end for source, feed in self._feeds.items()}
        cutting = Cutting(self.plan.view, floor, self._late)
        cut = cutting.closed(ends, self._parts.all, time.monotonic())
        left = sum(ends[source] - cut[source] for source in ends)
        return 2 * left < sum(ends[source] - floor[source] for source in ends)

    def _prepared(self, delivery: Delivery) -> Delivery:
        """A delivery with what concerns the view, on the engine that suits its size."""
        match delivery.event:
            case TransactionArrived(transaction):
                concerning = relevant(self.plan.view, transaction, delivery, self._engine.lift)
                return replace(delivery, event=TransactionArrived(concerning))
            case AnswerArrived(source, label, results):
                received = tuple(map(self._engine.receive, results))
                return replace(delivery, event=AnswerArrived(source, label, received))
        return delivery

    def _take(self, maintenance: Maintenance, delivery: Delivery) -> None:
        self._watch_arrival(delivery)
        began = time.monotonic()
        wanted = maintenance.take(delivery, began, self._read_since)
        self._tally.joined(time.monotonic() - began)
        self._do_all(maintenance, wanted)

    @property
    def _read_since(self) -> dict[str, float]:
        return {source: feed.channel.read_since for source, feed in self._feeds.items()}

    def _do_all(self, maintenance: Maintenance, wanted: Sequence[Wanted]) -> None:
        coming = deque(wanted)
        while coming:
            match effect := coming.popleft():
                case Ask():
                    self._ask(effect)
                case Send(receiver, message):
                    assert self._nodes is not None
                    assert isinstance(message, Told)
                    self._nodes.tell(receiver, message)
                case Commit():
                    self._write_all(maintenance, [effect])
                case Look():
                    assert self._stored is not None
                    began = time.monotonic()
                    with named(f"{self.name}: look up"):
                        found = effect.found(self._stored)
                    self.observed.look_ups_s.append(time.monotonic() - began)
                    coming.extend(maintenance.looked_up(found, time.monotonic()))
                case Consult():
                    coming.extend(maintenance.consulted(self._consult(effect), time.monotonic()))
                case _:
                    assert_never(effect)

    def _consult(self, consult: Consult) -> AnswerArrived:
        assert self._stored is not None
        began = time.monotonic()
        found = consult.answer(self._stored, self._engine.lift)
        results = tuple(map(self._engine.settle, found.results))
        self._tally.consulted(time.monotonic() - began)
        return replace(found, results=results)

    def _watch_arrival(self, delivery: Delivery) -> None:
        match delivery.event:
            case TransactionArrived(transaction):
                self._tally.arrived(delivery, transaction)
                if transaction.updates:
                    self._patience.received(time.monotonic())
            case AnswerArrived() as answer:
                self._patience.answered(time.monotonic())
                self._tally.answered(answer)

    def _ask(self, ask: Ask) -> None:
        self._tally.asked(ask.source, ask.label)
        subscription = self._subscriptions[ask.source]
        subscription.put(ask)
        self._inbox.extend(self._taken(ask.source, subscription))  # has it asked at once

    def _write_all(self, maintenance: Maintenance, commits: Sequence[Commit]) -> None:
        for commit in commits:
            with named(f"{self.name}: commit"):
                rows = self._write(commit)
            now = time.monotonic()
            maintenance.written(commit, now)
            self.burden.committed(commit.vector, now)
            if commit.kind == "change":
                self._tally.committed(commit, rows, now, self._following_since, self.version)
            self._patience.shown()

    def _write(self, commit: Commit) -> int:
        """Write a commit; how many signed rows it has."""
        assert self._writer is not None
        assert self._stored is not None
        began = time.monotonic()
        change = self._engine.settle(commit.change(self._stored))
        took = time.monotonic() - began
        self._tally.watch("join", took)
        if not all(isinstance(action, Add) for action in commit.actions):
            self.observed.look_ups_s.append(took)
        began = time.monotonic()
        for source, number in commit.needed.items():
            self._feeds[source].wait_durable(number)
        durable = time.monotonic()
        self._writer.commit(
            _as_written(change),
            commit.vector,
            added=commit.added,
            algorithm=self.plan.algorithm,
            level=self.plan.level,
            kind=commit.kind if change else "vector",
            split=commit.split,
        )
        if self._writer.written is not None:
            self._stored.wrote(*self._writer.written)
        self._tally.watch("change log", durable - began)
        self._tally.watch("commit", time.monotonic() - durable)
        self.observed.commits_s.append(time.monotonic() - began)
        return len(change)


def _as_written(change: Rows) -> Rows | DataFrame:
    """A change as a table takes it: what is at hand is written without a job of Spark's."""
    if not isinstance(change, Frame):
        return change
    return change.in_columns() if change.is_at_hand else change.dataframe


def _step(delivery: Delivery) -> str:
    """What is done with a delivery, in words."""
    match delivery.event:
        case TransactionArrived(transaction):
            changed = dict.fromkeys(update.relation for update in transaction.updates)
            return f"delta of {', '.join(changed) or delivery.source}"
        case AnswerArrived(source=source):
            return f"answer of {source}"
    return f"message of {delivery.source}"
