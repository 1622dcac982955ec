"""The channel: joins a source's log and its answers into the order that algorithms assume.

It keeps one promise towards every subscriber:

    The channel fixes one total order of the source's transactions, each whole and once. Each
    subscriber receives it at its own pace, with its own answers in place: an answer reflects
    exactly the transactions delivered before it. All queries of one question are evaluated
    in one snapshot, and answers come in the order of their snapshots.

A subscriber that names its relations is spared what changes none of them: nothing is delivered,
it is not woken, and its answers reflect what it was spared or not, which is the same to it.

How. One thread reads the monitor; the order in which it reads is the order, and numbers the
transactions. It wakes those whom they concern, each of which takes what its place in the order
says is next (see `order`) in a thread that it chooses. Questions are asked over a few
connections (see `connections`), those that wait together where that is right (see `rounds`). All
that is shared is behind one lock.

A gap in the log has a number like a transaction: whoever may not pass it is told in its place.

A channel with a history hands everything to it first, and takes from there what a subscriber
that is far behind has yet to receive: memory stays small, and the order outlives the process.

A lost connection is opened again at the last position, with growing pauses. An error that
cannot be repaired reaches every subscriber, and so does a fault of our own: no thread ends
without a word.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from headwater.errors import LostConnectionError, SourceError
from headwater.journal import happened
from headwater.sources.connections import Connections, Replies
from headwater.sources.contract import (
    Lift,
    Marked,
    Monitor,
    Position,
    Progressed,
    Reader,
    Source,
    as_it_is,
)
from headwater.sources.order import RECEIVED_BEFORE, HeldItem, Numbered, Order, Place
from headwater.sources.subscription import PAUSES_S, Subscription, Wake, fault_of

_POLL_S = 0.5
_AT_ONCE = 256
_LEAVE_BEHIND_S = 5.0


class Recorder(Protocol):
    """Where the order is kept: everything by its number, and positions in between."""

    def record(self, first: int, logged: Sequence[Numbered | Progressed]) -> None:
        """What came next; the first that is numbered is `first`. Called by one thread."""
        ...

    def recall(self, after: int, most: int) -> Sequence[Numbered]:
        """What follows a number, at most so many."""
        ...

    def heads(self, after: int, most: int) -> Sequence[Numbered]:
        """The same without the rows that were changed, which is cheaper."""
        ...

    def holds(self, number: int) -> bool:
        """Whether a transaction can be recalled already."""
        ...

    @property
    def first(self) -> int:
        """The oldest number that can still be recalled."""
        ...


class Channel:
    """One source's order of transactions, shared by its subscribers.

    `after` and `end` say where reading goes on: behind this position, the last transaction
    before it having the number `end`.
    """

    def __init__(
        self,
        source: Source,
        after: Position | None = None,
        ask_limit_s: float = 60.0,
        end: int = 0,
        history: Recorder | None = None,
        lift: Lift = as_it_is,
        reader: Reader | None = None,
    ) -> None:
        self.source = source
        self.ask_limit_s = ask_limit_s
        self.connections = Connections(source.name, lambda: self.source, lift, self.replied)
        self.changed = threading.Condition()
        """The lock of the order and of everything below; whoever changes something notifies."""
        self.order = Order(end, after, None if history is None else history.holds)
        self._as = reader
        self._history = history
        self._error: SourceError | None = None
        self._lost: SourceError | None = None
        self.trouble_since: float | None = None
        """Since when nothing is read, by the clock on the wall; None while something is."""
        self._stopping = False
        self._read_as: Source | None = None  # the source whose columns are read
        self.read_since = math.inf
        """Since when the log is being read without a break; infinity while it is not."""
        self.whole_after = end
        """Everything behind this number was read with the columns that are read now."""
        self._monitor: Monitor | None = None
        self._subscriptions: dict[Place, Subscription] = {}
        self._reader = threading.Thread(
            target=self._read, name=f"monitor {source.name}", daemon=True
        )

    @property
    def end(self) -> int:
        """The number of the last transaction that was read."""
        return self.order.end

    @property
    def needed(self) -> int:
        """The first number that some subscriber, or a load, has yet to receive."""
        with self.changed:
            return self.order.needed

    @property
    def error(self) -> SourceError | None:
        """Why nothing will be read any more: trying again does not repair it."""
        return self._error

    @property
    def trouble(self) -> SourceError | None:
        """Why nothing is read at the moment, if that is so."""
        return self._error or self._lost

    @property
    def is_stopping(self) -> bool:
        return self._stopping

    @property
    def is_over(self) -> bool:
        return self._error is not None

    def start(self) -> None:
        self._reader.start()

    def subscribe(
        self,
        wake: Wake,
        after: int | None = None,
        paused: bool = False,
        relations: Collection[str] | None = None,
    ) -> Subscription:
        """Receive every transaction behind a number that changes one of these relations.

        A number of None: behind what has been read so far; relations of None: all of them. A
        paused subscription keeps its place and receives nothing until `resume`.
        """
        with self.changed:
            after = self.order.end if after is None else after
            place = Place(self.order, after + 1, True, relations)
            self.order.add(place)  # nothing that it needs is dropped from now on
            subscription = self._subscriptions[place] = Subscription(self, place, wake)
        try:
            self._remember(place, after)
        except BaseException:
            subscription.close()
            raise
        if not paused:
            subscription.resume(after)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        with self.changed:
            if self._subscriptions.pop(subscription.place, None) is not None:
                self.order.remove(subscription.place)

    def widen(self, source: Source, limit_s: float = 60.0) -> None:
        """Read more columns from now on; returns when that is so.

        What was read before has the columns that it had.
        """
        with self.changed:
            self.source = source
            self.changed.wait_for(
                lambda: self._read_as is source or self.trouble is not None or self._stopping,
                limit_s,
            )
            if self._read_as is source:
                return
            raise self.trouble or LostConnectionError(
                f"Source {source.name}: its log could not be opened again in time.",
                "See whether the source can still be reached.",
            )

    def acknowledge(self, position: Position) -> None:
        """The caller has made everything up to here durable."""
        with self.changed:
            monitor = self._monitor
        if monitor is not None:
            monitor.acknowledge(position)

    def catch_up(self, limit_s: float = 60.0) -> None:
        """Return when everything has been read that was committed before the call."""
        deadline = time.monotonic() + limit_s
        markers: list[str | None] = []
        failures: list[Exception] = []

        def ask() -> None:
            try:
                markers.append(self.connections.ask(()).marker)
            except Exception as error:
                failures.append(error)
            with self.changed:
                self.changed.notify_all()

        self.connections.do(ask)
        with self.changed:
            self.changed.wait_for(lambda: markers or failures or self._stopping, limit_s)
        for failure in failures:
            raise failure
        marker = markers[0] if markers else ""  # which never comes by: then it is told why
        self.wait_for_marker(marker, deadline)
        with self.changed:
            self.order.forget(marker)

    def wait_for_marker(self, marker: str | None, deadline: float) -> None:
        """Return when a marker has come by in the log."""
        with self.changed:
            self.changed.wait_for(
                lambda: self.order.has_passed(marker) or self._error is not None or self._stopping,
                max(0.0, deadline - time.monotonic()),
            )
            if self.order.has_passed(marker):
                return
            if self._error is not None:
                raise self._error
            if self._stopping:
                raise LostConnectionError(f"Source {self.source.name}: reading it was stopped.")
        raise LostConnectionError(
            f"Source {self.source.name}: the log did not reach the answer in time.",
            "See whether the source can still be reached.",
        )

    def following(self, place: Place, upto: int, most: int) -> Sequence[tuple[int, HeldItem]]:
        """Some of what concerns a place up to a number, with its numbers, at least one."""
        with self.changed:
            numbers = self.order.concerning(place, place.cursor, most)
            numbers = [number for number in numbers if number <= upto]
            if held := self.order.held(numbers):
                return list(zip(numbers, held, strict=True))
        first, last = numbers[0], numbers[-1]
        found = self._recalled(first, min(_AT_ONCE, last - first + 1))
        # By number: what cancelled out in a transaction is not in the history, and the place still
        # has to pass it.
        wanted = set(numbers)
        return [(number, held) for number, held in found if number in wanted]

    def _recalled(self, first: int, most: int) -> Sequence[tuple[int, HeldItem]]:
        found = self._history.recall(first - 1, most) if self._history is not None else ()
        if not found:
            raise self._forgotten(first - 1)
        return [(number, HeldItem(item, 0.0)) for number, item in enumerate(found, first)]

    def replied(self, replies: Replies) -> None:
        """Put replies into their places, all before one of them is looked at: they may have one
        marker, which is forgotten when all are past it."""
        with self.changed:
            woken = [(each, each.replied(reply)) for each, reply in replies]
        for each, when in woken:
            if when is not None:
                each.wake(when)

    def sleep(self, seconds: float) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self._stopping, seconds)

    def stop(self) -> None:
        """Tell everybody to end, and wait for nobody."""
        with self.changed:
            self._stopping = True
            self.changed.notify_all()
        self.connections.stop()
        self._wake(self._everybody())

    def close(self) -> None:
        """End. Who waits for a database that does not answer is left behind."""
        self.stop()
        self.connections.join(_LEAVE_BEHIND_S)
        if self._reader.is_alive():
            self._reader.join(_LEAVE_BEHIND_S)

    def _everybody(self) -> Sequence[Subscription]:
        with self.changed:
            return list(self._subscriptions.values())

    @staticmethod
    def _wake(subscriptions: Iterable[Subscription]) -> None:
        for subscription in subscriptions:
            subscription.wake(0.0)

    # The thread that reads the log

    def _read(self) -> None:
        try:
            self._read_on()
        except SourceError as error:
            self._fail(error)
        except Exception as error:
            self._fail(fault_of(self.source.name, "reading its log", error))

    def _read_on(self) -> None:
        """Read until told to stop, over new connections where one is lost."""
        pauses = iter(PAUSES_S)
        pause = 0.0
        while not self._stopping:
            try:
                source = self.source
                monitor = source.open_monitor(self.order.position, self._as)
                try:
                    self._opened(monitor, source)
                    while source is self.source and not self._stopping:
                        self._take(monitor)
                        pauses = iter(PAUSES_S)
                finally:
                    with self.changed:
                        self._monitor = None
                    monitor.close()
            except LostConnectionError as error:
                if str(error) != str(self._lost or ""):
                    self._log("lost", logging.WARNING, error)
                with self.changed:
                    self._lost = error
                    self.trouble_since = self.trouble_since or time.time()
                    self.read_since = math.inf
                    self.changed.notify_all()
                pause = next(pauses, pause)
                self.sleep(pause)

    def _opened(self, monitor: Monitor, source: Source) -> None:
        if math.isinf(self.read_since):
            self._log("read")
        with self.changed:
            self._monitor, self._read_as = monitor, source
            self.read_since = min(self.read_since, time.monotonic())
            self.whole_after = self.order.end
            self._lost = self.trouble_since = None
            self.changed.notify_all()

    def _take(self, monitor: Monitor) -> None:
        logged = monitor.read(_POLL_S)
        if not logged:
            return
        read_at = time.monotonic()
        if self._history is not None:
            kept = [item for item in logged if not isinstance(item, Marked)]
            self._history.record(self.order.end + 1, kept)
        with self.changed:
            woken = [self._subscriptions[place] for place in self.order.take(logged, read_at)]
            self.changed.notify_all()
        self._wake(woken)

    def _fail(self, error: SourceError) -> None:
        self._log("ended", logging.ERROR, error)
        with self.changed:
            self._error = error
            self.trouble_since = self.trouble_since or time.time()
            self.read_since = math.inf
            self.changed.notify_all()
        self._wake(self._everybody())

    def _log(self, state: str, level: int = logging.INFO, why: object = None) -> None:
        name, read = self.source.name, self.order.end
        happened("source", level, source=name, state=state, transactions=read, because=why)

    # What an earlier process read

    def _remember(self, place: Place, after: int) -> None:
        """Know again what follows a number, and what its subscriber may have received before."""
        before = after
        if self._history is not None:
            before = min(after, max(self._history.first - 1, after - RECEIVED_BEFORE, 0))
        heads: Sequence[Numbered] = ()
        while True:
            with self.changed:
                missing = self.order.first_known - before - 1
                if missing <= len(heads):  # another may have remembered some, or dropped them
                    self.order.recall(before, heads)
                    place.remember(before + 1)
                    return
            heads = self._history.heads(before, missing) if self._history is not None else ()
            if len(heads) < missing:
                raise self._forgotten(before)

    def _forgotten(self, after: int) -> SourceError:
        return SourceError(
            f"Source {self.source.name}: its transactions after number {after} are no longer kept.",
            "The views that need them are to be loaded anew.",
        )
