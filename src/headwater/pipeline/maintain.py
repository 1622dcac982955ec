"""Keeps one view up to date: feeds its view manager one event at a time, carries out effects.

Each view has a thread of its own, with an inbox into which the channels of its sources deliver.
Questions go to the channels and are answered while other views go on. What the manager wants
applied becomes a commit of the view's table, together with the version vector: after a
crash maintenance goes on from there.

A source is slowed down for this view when too many transactions wait, except while it owes
an answer, because the answer comes behind what it reflects.

A transaction is known to the manager by its source and its number there: what a source calls it
need not be unique. Unless every state is to be shown, what is ready while more has arrived
is committed together.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from headwater.algebra.rows import Rows
from headwater.algebra.values import Json
from headwater.algebra.views import View
from headwater.check.levels import Level, parse_level
from headwater.errors import BrokenLogError, EngineError, HeadwaterError
from headwater.frames.engine import Engine
from headwater.frames.frame import Frame
from headwater.pipeline.feed import Feed
from headwater.pipeline.gaps import GapError, concerns
from headwater.pipeline.progress import Progress, has_reached, ranges
from headwater.protocol.effects import Add, Apply, Ask
from headwater.protocol.events import AnswerArrived, TransactionArrived
from headwater.protocol.managers import ViewManager
from headwater.protocol.transactions import Transaction, Update
from headwater.sources.contract import Broken
from headwater.sources.subscription import Delivery, Receive, Subscription
from headwater.warehouse.commits import Kind
from headwater.warehouse.vectors import Vector
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.view_writer import ViewWriter

_POLL_S = 0.2
_NOTE_S = 5.0
"""After how long a quiet view notes how far it has come."""
_MOST_UNNOTED = 5000
_MOST_TOGETHER = 1000
_LONGEST_TOGETHER_S = 0.2
_RECENT = 1000


@dataclass(frozen=True)
class Plan:
    """How one view is to be maintained; its relations have only the columns that it uses."""

    view: View
    manager: ViewManager[Any]
    algorithm: str
    level: str
    reason: str
    definition: Mapping[str, Json]
    refresh_s: float | None = None
    publish_s: float = 60.0


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


@dataclass(frozen=True)
class _Received:
    """A transaction on its way through the manager."""

    source: str
    number: int
    position: Any
    read_at: float

    @property
    def id(self) -> str:
        return identity(self.source, self.number)


def _begun_anew(source: str, after: int) -> Broken:
    reason = f"the change log of {source} begins behind transaction {after}, to which it has come."
    return Broken(None, reason, {})


def identity(source: str, number: int) -> str:
    """What a transaction is called towards the manager: no two of all sources are alike."""
    return f"{source}:{number}"


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
        self.progress: Progress | None = None
        self.visible: Vector = {}
        """What a reader of the view sees is the view at this vector."""
        self.counters = Counters()
        self._obtain = obtain
        self._feeds = {source: feeds[source] for source in plan.view.sources}
        self._engine = engine
        self._runner = runner
        self._backlog = backlog
        self._watch = watch or (lambda step, seconds: None)
        self._inbox: queue.Queue[Delivery] = queue.Queue()
        self._room = threading.Condition()
        self._waiting = 0
        self._owed: dict[str, int] = dict.fromkeys(plan.view.sources, 0)
        self._asked: dict[str, float] = {}
        self._stopping = False
        self._hurries = False
        self._failure: HeadwaterError | None = None
        self._schemas = {relation.name: relation.schema for relation in plan.view.relations}
        self._state: Any = plan.manager.start(Rows.empty(plan.view.schema), {})
        self._known: dict[str, _Received] = {}
        self._subscriptions: dict[str, Subscription] = {}
        self._each_state = parse_level(plan.level) >= Level.COMPLETE
        self._delta: list[Rows] = []
        self._pending_since = 0.0
        self._added: list[_Received] = []
        self._unnoted = 0
        self._commit_at = 0.0
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

    def stop(self) -> None:
        """Commit what is ready and end."""
        self._stopping = True
        with self._room:
            self._room.notify_all()

    def reach(self, targets: Mapping[str, int]) -> bool:
        """Show everything up to these numbers as soon as it is there; whether readers see it."""
        if self.progress is None or not has_reached(self.progress.vector, targets):
            return False
        self._hurries = True
        return has_reached(self.visible, targets)

    def join(self, limit_s: float | None = None) -> None:
        self._thread.join(limit_s)

    # In the threads of the subscriptions

    def deliver(self, delivery: Delivery) -> None:
        """Take a delivery: only what concerns the view, on the engine that suits its size."""
        match delivery.event:
            case TransactionArrived(transaction):
                self._wait_for_room(delivery.source)
                relevant = self._relevant(transaction, delivery)
                delivery = replace(delivery, event=TransactionArrived(relevant))
            case AnswerArrived(source, label, results):
                settled = tuple(map(self._engine.settle, results))
                delivery = replace(delivery, event=AnswerArrived(source, label, settled))
        self._inbox.put(delivery)

    def _relevant(self, transaction: Transaction, delivery: Delivery) -> Transaction:
        updates = []
        for name, delta in transaction.deltas.items():
            if name in self._schemas:
                self._check_columns(name, delta, delivery)
                if found := delta.only(self._schemas[name]):
                    updates.append(Update(name, self._engine.lift(found)))
        called = identity(delivery.source, delivery.number)
        return replace(transaction, id=called, updates=tuple(updates))

    def _check_columns(self, relation: str, delta: Rows, delivery: Delivery) -> None:
        """What was logged before a column was needed does not have it."""
        lacking = [n for n in self._schemas[relation].names if n not in delta.schema.positions]
        if lacking:
            raise HeadwaterError(
                f"View {self.name} needs {', '.join(lacking)} of {relation}, which transaction "
                f"{delivery.number} of {delivery.source} was logged without.",
                f"Load it anew: headwater reload {self.name}.",
            )

    def _wait_for_room(self, source: str) -> None:
        with self._room:
            self._room.wait_for(
                lambda: self._waiting < self._backlog or self._owed[source] or self._stopping
            )
            self._waiting += 1

    # In the view's own thread

    def _run(self) -> None:
        try:
            obtained = self._obtain(self.deliver)
            self._subscriptions = dict(obtained.subscriptions)
            self.table = obtained.table
            writer = self.table.writer(self._runner)
            self._subscribe(self.table)
            while not self._stopping:
                self._step(writer)
            self._commit(writer)
            self._note(writer)
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

    def _subscribe(self, table: ViewTable) -> None:
        vector = table.latest().vector
        self.visible = vector
        self.progress = Progress(vector)
        self._following_since = time.monotonic()
        for source, feed in self._feeds.items():
            after = vector[source].number
            if after > feed.log.end:
                raise BrokenLogError(
                    source,
                    f"its change log ends at transaction {feed.log.end}, and view {self.name} "
                    f"has come to {after}: the log, or the warehouse, is not the one it was.",
                )
            if after < feed.log.first - 1:
                raise GapError(self.name, _begun_anew(source, after))
            if source in self._subscriptions:
                self._subscriptions[source].resume(after)
            else:
                self._subscriptions[source] = feed.channel.subscribe(self.deliver, after)

    def _step(self, writer: ViewWriter) -> None:
        if self._is_due() and (self._inbox.empty() or self._has_waited()):
            self._commit(writer)
        if not self._delta and self.progress is not None:
            self.visible = self.progress.vector
        try:
            delivery = self._inbox.get(timeout=self._patience())
        except queue.Empty:
            if self._unnoted and time.monotonic() > self._commit_at + _NOTE_S:
                self._note(writer)
            return
        if delivery.error is not None:
            raise delivery.error
        if delivery.broken is not None:
            self._pass(delivery, delivery.broken)
        else:
            self._take(delivery, writer)
        if self._unnoted > _MOST_UNNOTED:
            self._note(writer)

    def _has_waited(self) -> bool:
        """Whether what is ready goes before what else has arrived."""
        return (
            len(self._added) >= _MOST_TOGETHER
            or time.monotonic() > self._pending_since + _LONGEST_TOGETHER_S
        )

    def _pass(self, delivery: Delivery, broken: Broken) -> None:
        """Pass a gap in a source's log, if it is none of this view's."""
        if concerns(broken, self.plan.view):
            raise GapError(self.name, broken)
        assert self.progress is not None
        self.progress.reflect(delivery.source, delivery.number, delivery.position, concerns=False)
        self._unnoted += 1

    def _take(self, delivery: Delivery, writer: ViewWriter) -> None:
        event = delivery.event
        assert event is not None
        match event:
            case TransactionArrived(transaction):
                self.counters.transactions += 1
                received = _Received(
                    delivery.source, delivery.number, delivery.position, delivery.read_at
                )
                self._known[received.id] = received
                if not transaction.updates:
                    self._reflect(transaction.id, concerns=False)
                    return
                if delivery.read_at:
                    self._watch("delivery", time.monotonic() - delivery.read_at)
            case AnswerArrived(source, label):
                self._watch("probe", time.monotonic() - self._asked.pop(label))
                with self._room:
                    self._owed[source] -= 1
        began = time.monotonic()
        self._state, effects = self.plan.manager.handle(self._state, event)
        self._watch("join", time.monotonic() - began)
        for effect in effects:
            match effect:
                case Ask(source=source):
                    self._ask(source, effect)
                case Apply():
                    self._apply(effect, writer)

    def _ask(self, source: str, ask: Ask) -> None:
        self.counters.questions += 1
        self._asked[ask.label] = time.monotonic()
        with self._room:
            self._owed[source] += 1
            self._room.notify_all()
        self._subscriptions[source].ask(ask)

    def _apply(self, apply: Apply, writer: ViewWriter) -> None:
        if not self._is_in(apply.transactions):
            for action in apply.actions:
                assert isinstance(action, Add), "chosen algorithms only add signed rows"
                settled = self._engine.settle(action.rows)
                if settled:
                    self._pending_since = self._pending_since or time.monotonic()
                    self._delta.append(settled)
        for name in apply.transactions:
            self._reflect(name)
        if self._each_state and self._is_due():
            self._commit(writer)

    def _is_in(self, transactions: Sequence[str]) -> bool:
        """Whether the view showed these before it was stopped: an algorithm may commit early."""
        assert self.progress is not None
        received = [self._known[name] for name in transactions]
        early = {self.progress.was_early(one.source, one.number) for one in received}
        if len(early) == 2:
            raise EngineError(
                f"View {self.name} shows some of the transactions that are taken together now.",
                f"Load it anew: headwater reload {self.name}.",
            )
        return early == {True}

    def _reflect(self, name: str, concerns: bool = True) -> None:
        received = self._known.pop(name)
        assert self.progress is not None
        self.progress.reflect(received.source, received.number, received.position, concerns)
        if concerns:
            self._added.append(received)
        self._unnoted += 1
        with self._room:
            self._waiting -= 1
            self._room.notify_all()

    def _patience(self) -> float:
        if not self._delta:
            return _POLL_S
        return min(_POLL_S, max(0.0, self._due_at() - time.monotonic()))

    def _is_due(self) -> bool:
        return bool(self._delta) and time.monotonic() >= self._due_at()

    def _due_at(self) -> float:
        if self._hurries or self.plan.refresh_s is None:
            return self._commit_at
        return self._commit_at + self.plan.refresh_s

    def _commit(self, writer: ViewWriter) -> None:
        """Make what is pending visible, in one step, with the vector that it stands for."""
        delta = self._engine.settle(Rows.sum(self.plan.view.schema, self._delta))
        self._delta, self._pending_since = [], 0.0
        if delta:
            self._write(writer, delta, "change")

    def _note(self, writer: ViewWriter) -> None:
        """Remember how far the view has come although it did not change."""
        if self._unnoted and not self._delta:
            self._write(writer, Rows.empty(self.plan.view.schema), "vector")

    def _write(self, writer: ViewWriter, delta: Rows, kind: Kind) -> None:
        began = time.monotonic()
        added: dict[str, list[int]] = {}
        for received in self._added:
            added.setdefault(received.source, []).append(received.number)
        assert self.progress is not None
        for source, reached in self.progress.vector.items():
            self._feeds[source].wait_durable(max([reached.number, *reached.also]))
        durable = time.monotonic()
        writer.commit(
            delta.dataframe if isinstance(delta, Frame) else delta,
            self.progress.vector,
            added={source: ranges(numbers) for source, numbers in added.items()},
            algorithm=self.plan.algorithm,
            level=self.plan.level,
            kind=kind,
        )
        now = time.monotonic()
        self._watch("change log", durable - began)
        self._watch("commit", now - durable)
        self._commit_at = now
        self._unnoted = 0
        if kind == "change":
            self.counters.commits += 1
            self.counters.rows += len(delta)
            self.counters.committed_at = time.time()
            for received in self._added:
                if received.read_at > self._following_since:
                    self.counters.note_freshness(now - received.read_at)
        self._added = []
