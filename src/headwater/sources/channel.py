"""The channel: joins a source's log and its answers into the order that algorithms assume.

It keeps one promise towards every subscriber:

    The channel fixes one total order of the source's transactions, each whole and once. Each
    subscriber receives it at its own pace, with its own answers in place: an answer reflects
    exactly the transactions delivered before it. All queries of one question are evaluated
    in one snapshot, and answers come in the order of their snapshots.

How. One thread reads the monitor; the order in which it reads is the order, and numbers the
transactions. Each subscriber has a thread of its own. While a question is being answered its
subscriber receives nothing. The answer's snapshot must split the order into a prefix that is
in it and a rest that is not, and the prefix must hold everything the subscriber has received;
where a database makes transactions visible in another order than it logs them, that fails for
a moment, and the question is asked again.

A channel with a history hands everything to it first, and takes from there what a subscriber
that is far behind has yet to receive: memory stays small, and the order outlives the process.

A lost connection is opened again at the last position, with growing pauses. An error that
cannot be repaired reaches every subscriber.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from headwater.errors import LostConnectionError, SourceError
from headwater.protocol.effects import Ask
from headwater.protocol.events import AnswerArrived, Event, TransactionArrived
from headwater.sources.contract import (
    Committed,
    Lift,
    Logged,
    Marked,
    Monitor,
    Position,
    Progressed,
    Reader,
    Reply,
    Snapshot,
    Source,
    Wrapper,
    as_it_is,
)

_POLL_S = 0.5
_PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_RETRY_PAUSE_S = 0.001
_MOST_RECENT = 100_000
_MOST_MARKERS = 10_000
_MOST_ROWS_HELD = 200_000
_AT_ONCE = 256
_RECEIVED_BEFORE = 1000


class History(Protocol):
    """Where the order is kept: every transaction by its number, and positions in between."""

    def record(self, first: int, logged: Sequence[Committed | Progressed]) -> None:
        """What came next; its first transaction has the number `first`. Called by one thread."""
        ...

    def recall(self, after: int, most: int) -> Sequence[Committed]:
        """The transactions that follow a number, at most so many."""
        ...

    def holds(self, number: int) -> bool:
        """Whether a transaction can be recalled already."""
        ...


@dataclass(frozen=True)
class Delivery:
    """What a subscriber receives: an event, with the place reached; or the end."""

    source: str
    event: Event | None
    position: Position | None
    error: SourceError | None = None
    number: int = 0
    """The transaction's number in the channel's order."""
    read_at: float = 0.0
    """When the monitor read it, by the monotonic clock; 0 if that was in another life."""


Deliver = Callable[[Delivery], None]
"""Called in the subscriber's own thread, one delivery at a time; may block to slow it down."""


@dataclass(frozen=True, slots=True)
class _Held:
    committed: Committed
    read_at: float

    @property
    def rows(self) -> int:
        return sum(len(update.delta) for update in self.committed.transaction.updates)


_Stamps = tuple[int, int]
"""What snapshots know the first and the last transaction of a unit by."""


def _stamps(committed: Committed) -> _Stamps:
    begins = committed.begins
    return (committed.stamp if begins is None else begins, committed.stamp)


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
        history: History | None = None,
        lift: Lift = as_it_is,
        reader: Reader | None = None,
    ) -> None:
        self.source = source
        self._as = reader
        self.ask_limit_s = ask_limit_s
        self.lift = lift
        self._history = history
        self._changed = threading.Condition()
        self._end = end
        self._stamps: deque[_Stamps] = deque()  # of the last ones: what answers are placed by
        self._held: deque[_Held] = deque()  # of these, the last ones whole
        self._held_rows = 0
        self._markers: dict[str, None] = {}
        self._error: SourceError | None = None
        self._lost: SourceError | None = None
        self._stopping = False
        self._monitor: Monitor | None = None
        self._subscriptions: list[Subscription] = []
        self._reader = threading.Thread(
            target=self._read, name=f"monitor {source.name}", daemon=True
        )
        self.read_position = after
        """Up to where the log has been read."""

    @property
    def end(self) -> int:
        """The number of the last transaction that was read."""
        return self._end

    @property
    def trouble(self) -> SourceError | None:
        """Why nothing is read at the moment, if that is so."""
        return self._error or self._lost

    @property
    def is_over(self) -> bool:
        """Whether nothing will be read any more: an error that trying again does not repair."""
        return self._error is not None

    def start(self) -> None:
        self._reader.start()

    def subscribe(
        self, deliver: Deliver, after: int | None = None, paused: bool = False
    ) -> Subscription:
        """Receive every transaction behind a number; None: behind what has been read so far.

        A paused subscription keeps its place and receives nothing until `resume`.
        """
        with self._changed:
            after = self._end if after is None else after
            self._remember(after)
            subscription = Subscription(self, deliver, after + 1, paused)
            subscription.expect(self._stamps_before(after))
            self._subscriptions.append(subscription)
        subscription.start()
        return subscription

    def acknowledge(self, position: Position) -> None:
        """The caller has made everything up to here durable."""
        with self._changed:
            monitor = self._monitor
        if monitor is not None:
            monitor.acknowledge(position)

    def catch_up(self, limit_s: float = 60.0) -> None:
        """Return when everything has been read that was committed before the call."""
        wrapper = self.source.open_wrapper()
        try:
            self._await(wrapper.ask(()).marker, time.monotonic() + limit_s, lambda: False)
        finally:
            wrapper.close()

    def close(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for subscription in list(self._subscriptions):
            subscription.join()
        if self._reader.is_alive():
            self._reader.join()

    # Reading the log

    def _read(self) -> None:
        pauses = iter(_PAUSES_S)
        pause = 0.0
        while not self._stopping:
            try:
                monitor = self.source.open_monitor(self.read_position, self._as)
            except LostConnectionError as error:
                self._lost = error
                pause = next(pauses, pause)
                self._sleep(pause)
                continue
            except SourceError as error:
                return self._fail(error)
            with self._changed:
                self._monitor = monitor
            self._lost = None
            try:
                while not self._stopping:
                    self._take(monitor)
                    pauses = iter(_PAUSES_S)
            except LostConnectionError as error:
                self._lost = error
                pause = next(pauses, pause)
                self._sleep(pause)
            except SourceError as error:
                return self._fail(error)
            finally:
                with self._changed:
                    self._monitor = None
                monitor.close()
        return None

    def _take(self, monitor: Monitor) -> None:
        logged = monitor.read(_POLL_S)
        if not logged:
            return
        read_at = time.monotonic()
        if self._history is not None:
            kept = [item for item in logged if isinstance(item, Committed | Progressed)]
            self._history.record(self._end + 1, kept)
        with self._changed:
            for item in logged:
                self._put(item, read_at)
            self._trim()
            self._changed.notify_all()

    def _put(self, item: Logged, read_at: float) -> None:
        match item:
            case Committed(position=position):
                self._end += 1
                held = _Held(item, read_at)
                self._stamps.append(_stamps(item))
                self._held.append(held)
                self._held_rows += held.rows
                self.read_position = position
            case Marked(marker=marker):
                self._markers[marker] = None
                if len(self._markers) > _MOST_MARKERS:
                    self._markers.pop(next(iter(self._markers)))
            case Progressed(position=position):
                self.read_position = position

    def _fail(self, error: SourceError) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def _sleep(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping, seconds)

    # For subscriptions, with the lock held

    def _trim(self) -> None:
        """Drop what every subscriber has received, and what the history can give again."""
        needed = min((s.cursor for s in self._subscriptions), default=self._end + 1)
        while self._stamps and self._may_go(first := self._end - len(self._stamps) + 1):
            if first >= needed:
                break
            self._stamps.popleft()
        while self._held and self._may_go(self._first_held):
            if self._first_held >= needed and self._held_rows <= _MOST_ROWS_HELD:
                break
            if self._first_held >= needed and self._history is None:
                break
            self._held_rows -= self._held.popleft().rows

    def _may_go(self, number: int) -> bool:
        """Whether a transaction is kept elsewhere, if it is to be kept at all."""
        return self._history is None or self._history.holds(number)

    @property
    def _first_held(self) -> int:
        return self._end - len(self._held) + 1

    def _remember(self, after: int) -> None:
        """Have the stamps of all transactions behind a number again."""
        known = self._end - len(self._stamps)
        if after < known:
            recalled = [_stamps(item) for item in self._recall(after, known - after)]
            assert len(recalled) == known - after
            self._stamps.extendleft(reversed(recalled))

    def _stamps_before(self, number: int) -> Sequence[int]:
        """Of transactions that were received in another life, and not long ago."""
        before = min(number, _RECEIVED_BEFORE)
        if self._history is None or not before:
            return ()
        return [item.stamp for item in self._history.recall(number - before, before)]

    # For subscriptions, without the lock

    def _recall(self, after: int, most: int) -> Sequence[Committed]:
        found = self._history.recall(after, most) if self._history is not None else ()
        if not found:
            raise SourceError(
                f"Source {self.source.name}: its transactions after number {after} are no longer "
                "kept.",
                "Load the views that need them again.",
            )
        return found

    def _following(self, number: int, upto: int) -> Iterator[_Held]:
        """Transactions from a number on: some, not necessarily all."""
        with self._changed:
            at = number - self._first_held
            if at >= 0:
                return iter(list(islice(self._held, at, at + min(_AT_ONCE, upto - number))))
        return (_Held(item, 0.0) for item in self._recall(number - 1, min(_AT_ONCE, upto - number)))

    def _await(self, marker: str | None, deadline: float, given_up: Callable[[], bool]) -> None:
        """Wait until a marker has come by in the log."""
        if marker is None:
            return
        with self._changed:
            seen = self._changed.wait_for(
                lambda: (
                    marker in self._markers
                    or self._error is not None
                    or self._stopping
                    or given_up()
                ),
                max(0.0, deadline - time.monotonic()),
            )
            self._markers.pop(marker, None)
            if self._error is not None:
                raise self._error
        if not seen:
            raise SourceError(
                f"Source {self.source.name}: the log did not reach the answer in time.",
                "See whether the source can still be reached.",
            )


class Subscription:
    """One subscriber's place in a channel, with its questions."""

    def __init__(self, channel: Channel, deliver: Deliver, cursor: int, paused: bool) -> None:
        self._channel = channel
        self._deliver = deliver
        self._asks: deque[Ask] = deque()
        self._wrapper: Wrapper | None = None
        self._thread = threading.Thread(
            target=self._run, name=f"subscriber of {channel.source.name}", daemon=True
        )
        self._closed = False
        self._paused = paused
        self.cursor = cursor
        """The number of the next transaction to deliver."""
        self._recent: deque[int] = deque(maxlen=_MOST_RECENT)
        self.retries = 0
        """How often a question was asked again because its snapshot did not fit."""

    def start(self) -> None:
        self._thread.start()

    def ask(self, ask: Ask) -> None:
        """Put a question; its answer comes in its place among the deliveries."""
        with self._channel._changed:
            self._asks.append(ask)
            self._channel._changed.notify_all()

    def expect(self, stamps: Sequence[int]) -> None:
        """Accept only answers that hold these transactions, until there is one."""
        self._recent.extend(stamps)

    def split(self, snapshot: Snapshot) -> int | None:
        """The number of the last transaction that is in a snapshot; None if it does not fit.

        A snapshot between transactions that are reported as one does not fit.
        Everything in the snapshot must have been read: see `Channel.catch_up`.
        """
        channel = self._channel
        with channel._changed:
            at = self.cursor - (channel._end - len(channel._stamps) + 1)
            stamps = list(islice(channel._stamps, at, None))
        inside = [snapshot.includes(stamp) for _, stamp in stamps]
        count = sum(inside)
        if any(begins != stamp and snapshot.includes(begins) for begins, stamp in stamps[count:]):
            return None
        return self.cursor + count - 1 if all(inside[:count]) else None

    def resume(self, after: int) -> None:
        """Begin to receive what follows a number that is not before the paused place."""
        channel = self._channel
        with channel._changed:
            assert self._paused
            assert after >= self.cursor - 1
            self.cursor = after + 1
            self._paused = False
            channel._changed.notify_all()

    def close(self) -> None:
        channel = self._channel
        with channel._changed:
            self._closed = True
            if self in channel._subscriptions:
                channel._subscriptions.remove(self)
            channel._changed.notify_all()

    def join(self) -> None:
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        try:
            while self._step():
                pass
        except SourceError as error:
            self._deliver(Delivery(self._channel.source.name, None, None, error))
        finally:
            if self._wrapper is not None:
                self._wrapper.close()

    def _step(self) -> bool:
        """Deliver transactions, or answer a question, or wait; False at the end."""
        channel = self._channel
        with channel._changed:
            channel._changed.wait_for(self._has_work)
            if self._ended():
                return False
            if channel._error is not None:
                raise channel._error
            ask = self._asks.popleft() if self._asks else None
            end = channel._end
        if ask is None:
            self._deliver_upto(end)
        else:
            self._answer(ask)
        return True

    def _ended(self) -> bool:
        return self._closed or self._channel._stopping

    def _has_work(self) -> bool:
        channel = self._channel
        if self._ended() or channel._error is not None:
            return True
        return not self._paused and (bool(self._asks) or self.cursor <= channel._end)

    def _deliver_upto(self, number: int) -> None:
        """Deliver the transactions up to a number."""
        channel = self._channel
        while self.cursor <= number:
            for held in channel._following(self.cursor, number + 1):
                if self._ended():
                    return
                committed = held.committed
                self._deliver(
                    Delivery(
                        channel.source.name,
                        TransactionArrived(committed.transaction),
                        committed.position,
                        number=self.cursor,
                        read_at=held.read_at,
                    )
                )
                with channel._changed:
                    self._recent.append(committed.stamp)
                    self.cursor += 1
                    channel._trim()

    def _answer(self, ask: Ask) -> None:
        channel = self._channel
        deadline = 0.0
        while True:
            reply = self._reply(ask)
            if reply is None:
                return
            deadline = deadline or time.monotonic() + channel.ask_limit_s
            channel._await(reply.marker, deadline, lambda: self._closed)
            if self._ended():
                return
            number = self.split(reply.snapshot)
            if number is not None and self._holds_received(reply):
                break
            self.retries += 1
            time.sleep(_RETRY_PAUSE_S)
            if time.monotonic() > deadline:
                raise SourceError(
                    f"Source {channel.source.name}: no snapshot fits the log within "
                    f"{channel.ask_limit_s:.0f} s.",
                    "Look for transactions that wait for a synchronous standby.",
                )
        self._deliver_upto(number)
        if self._ended():
            return
        self._recent.clear()
        answer = AnswerArrived(ask.source, ask.label, reply.results)
        self._deliver(Delivery(channel.source.name, answer, None))

    def _reply(self, ask: Ask) -> Reply | None:
        """Ask the source, over a new connection where the old one is lost, until it answers."""
        channel = self._channel
        pauses = iter(_PAUSES_S)
        while not self._ended():
            try:
                if self._wrapper is None:
                    self._wrapper = channel.source.open_wrapper(channel.lift)
                return self._wrapper.ask(ask.queries)
            except LostConnectionError:
                if self._wrapper is not None:
                    self._wrapper.close()
                    self._wrapper = None
                channel._sleep(next(pauses, _PAUSES_S[-1]))
        return None

    def _holds_received(self, reply: Reply) -> bool:
        """Whether the snapshot holds what was received since the last answer."""
        return all(reply.snapshot.includes(stamp) for stamp in self._recent)
