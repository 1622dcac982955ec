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
a moment, and the question is asked again. So it is where a source reports several transactions
as one, and the snapshot lies between them.

A gap in the log has a number like a transaction: whoever may not pass it is told in its place.

A channel with a history hands everything to it first, and takes from there what a subscriber
that is far behind has yet to receive: memory stays small, and the order outlives the process.

A lost connection is opened again at the last position, with growing pauses. An error that
cannot be repaired reaches every subscriber, and so does a fault of our own: no thread ends
without a word.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, TypeAlias

from headwater.errors import HeadwaterError, LostConnectionError, SourceError
from headwater.protocol.effects import Ask
from headwater.protocol.events import AnswerArrived, Event, TransactionArrived
from headwater.sources.contract import (
    Broken,
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
_LEAVE_BEHIND_S = 5.0
_RECEIVED_BEFORE = 1000


Numbered: TypeAlias = Committed | Broken
"""What has a number in the order."""
Stamps: TypeAlias = tuple[int, ...] | None
"""What a snapshot holds all of, or nothing; empty if only time tells.

None where the source began anew: stamps before it mean nothing any more.
"""


def stamps_of(item: Numbered) -> Stamps:
    """By what a snapshot is asked whether something is in it."""
    if isinstance(item, Broken):
        if item.columns is None:
            return None
        return () if item.stamp is None else (item.stamp,)
    return item.stamps


class History(Protocol):
    """Where the order is kept: everything by its number, and positions in between."""

    def record(self, first: int, logged: Sequence[Numbered | Progressed]) -> None:
        """What came next; the first that is numbered is `first`. Called by one thread."""
        ...

    def recall(self, after: int, most: int) -> Sequence[Numbered]:
        """What follows a number, at most so many."""
        ...

    def stamps(self, after: int, most: int) -> Sequence[Stamps]:
        """The stamps of what follows a number, at most so many; cheaper than to recall it."""
        ...

    def holds(self, number: int) -> bool:
        """Whether a transaction can be recalled already."""
        ...

    @property
    def first(self) -> int:
        """The oldest number that can still be recalled."""
        ...


@dataclass(frozen=True)
class Delivery:
    """What a subscriber receives: an event or a gap, with the place reached; or the end."""

    source: str
    event: Event | None
    position: Position | None
    error: HeadwaterError | None = None
    number: int = 0
    """The number of the transaction or gap in the channel's order."""
    read_at: float = 0.0
    """When the monitor read it, by the monotonic clock; 0 if an earlier process did."""
    broken: Broken | None = None


Deliver = Callable[[Delivery], None]
"""Called in the subscriber's own thread, one delivery at a time; may block to slow it down."""


@dataclass(frozen=True, slots=True)
class _Held:
    item: Numbered
    read_at: float

    @property
    def rows(self) -> int:
        if isinstance(self.item, Broken):
            return 1
        return sum(len(update.delta) for update in self.item.transaction.updates)


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
        self._stamps: deque[Stamps] = deque()  # of the last transactions: to place answers by
        self._held: deque[_Held] = deque()  # of these, the last ones whole
        self._held_rows = 0
        self._markers: dict[str, None] = {}
        self._error: SourceError | None = None
        self._lost: SourceError | None = None
        self._stopping = False
        self._read_as: Source | None = None  # the source whose columns are read
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
    def needed(self) -> int:
        """The first number that some subscriber, or a load, has yet to receive."""
        with self._changed:
            return self._needed()

    @property
    def trouble(self) -> SourceError | None:
        """Why nothing is read at the moment, if that is so."""
        return self._error or self._lost

    @property
    def is_stopping(self) -> bool:
        return self._stopping

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
            subscription = Subscription(self, deliver, after + 1, paused)
            self._subscriptions.append(subscription)  # nothing that it needs is dropped from now on
        try:
            self._remember(after)
            subscription.expect(self._stamps_before(after))
        except BaseException:
            subscription.close()
            raise
        subscription.start()
        return subscription

    def widen(self, source: Source, limit_s: float = 60.0) -> None:
        """Read more columns from now on; returns when that is so.

        What was read before has the columns that it had.
        """
        with self._changed:
            self.source = source
            self._changed.wait_for(
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

    def stop(self) -> None:
        """Tell everybody to end, and wait for nobody."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def close(self) -> None:
        """End. Who waits for a database that does not answer is left behind."""
        self.stop()
        for subscription in list(self._subscriptions):
            subscription.join(_LEAVE_BEHIND_S)
        if self._reader.is_alive():
            self._reader.join(_LEAVE_BEHIND_S)

    # Reading the log

    def _read(self) -> None:
        try:
            self._read_on()
        except SourceError as error:
            self._fail(error)
        except Exception as error:
            self._fail(_fault(self.source.name, "reading its log", error))

    def _read_on(self) -> None:
        """Read until told to stop, over new connections where one is lost."""
        pauses = iter(_PAUSES_S)
        pause = 0.0
        while not self._stopping:
            try:
                source = self.source
                monitor = source.open_monitor(self.read_position, self._as)
                try:
                    self._opened_monitor(monitor, source)
                    while self._reads(source):
                        self._take(monitor)
                        pauses = iter(_PAUSES_S)
                finally:
                    with self._changed:
                        self._monitor = None
                    monitor.close()
            except LostConnectionError as error:
                with self._changed:
                    self._lost = error
                    self._changed.notify_all()
                pause = next(pauses, pause)
                self._sleep(pause)

    def _reads(self, source: Source) -> bool:
        return source is self.source and not self._stopping

    def _opened_monitor(self, monitor: Monitor, source: Source) -> None:
        with self._changed:
            self._monitor, self._read_as = monitor, source
            self._lost = None
            self._changed.notify_all()

    def _take(self, monitor: Monitor) -> None:
        logged = monitor.read(_POLL_S)
        if not logged:
            return
        read_at = time.monotonic()
        if self._history is not None:
            kept = [item for item in logged if not isinstance(item, Marked)]
            self._history.record(self._end + 1, kept)
        with self._changed:
            for item in logged:
                self._put(item, read_at)
            self._trim()
            self._changed.notify_all()

    def _put(self, item: Logged, read_at: float) -> None:
        match item:
            case Committed(position=position) | Broken(position=position):
                self._end += 1
                held = _Held(item, read_at)
                self._stamps.append(stamps_of(item))
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
        needed = self._needed()
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

    def _needed(self) -> int:
        return min((s.cursor for s in self._subscriptions), default=self._end + 1)

    def _may_go(self, number: int) -> bool:
        """Whether a transaction is kept elsewhere, if it is to be kept at all."""
        return self._history is None or self._history.holds(number)

    @property
    def _first_held(self) -> int:
        return self._end - len(self._held) + 1

    # For subscriptions, without the lock

    def _remember(self, after: int) -> None:
        """Have the stamps of everything behind a number again."""
        with self._changed:
            known = self._end - len(self._stamps)
        if after >= known:
            return
        recalled = self._history.stamps(after, known - after) if self._history is not None else ()
        if len(recalled) < known - after:
            raise self._forgotten(after)
        with self._changed:
            still = self._end - len(self._stamps) - after  # another may have remembered some
            if still > 0:
                self._stamps.extendleft(reversed(recalled[:still]))

    def _stamps_before(self, number: int) -> Sequence[Stamps]:
        """Of transactions that an earlier process received, and not long ago."""
        if self._history is None:
            return ()
        before = min(number - self._history.first + 1, _RECEIVED_BEFORE)
        return self._history.stamps(number - before, before) if before > 0 else ()

    def _recall(self, after: int, most: int) -> Sequence[Numbered]:
        found = self._history.recall(after, most) if self._history is not None else ()
        if not found:
            raise self._forgotten(after)
        return found

    def _forgotten(self, after: int) -> SourceError:
        return SourceError(
            f"Source {self.source.name}: its transactions after number {after} are no longer kept.",
            "Load the views that need them anew: headwater reload VIEW.",
        )

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
            self._changed.wait_for(
                lambda: (
                    marker in self._markers
                    or self._error is not None
                    or self._stopping
                    or given_up()
                ),
                max(0.0, deadline - time.monotonic()),
            )
            if marker in self._markers:
                del self._markers[marker]
                return
            if self._error is not None:
                raise self._error
            if self._stopping or given_up():
                raise LostConnectionError(f"Source {self.source.name}: reading it was stopped.")
        raise LostConnectionError(
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
        self._recent: deque[tuple[int, ...]] = deque(maxlen=_MOST_RECENT)
        self.retries = 0
        """How often a question was asked again because its snapshot did not fit."""

    def start(self) -> None:
        self._thread.start()

    def ask(self, ask: Ask) -> None:
        """Put a question; its answer comes in its place among the deliveries."""
        with self._channel._changed:
            self._asks.append(ask)
            self._channel._changed.notify_all()

    def expect(self, stamps: Sequence[Stamps]) -> None:
        """Accept only answers that hold these transactions, until there is one."""
        self._received(stamps)

    def _received(self, stamps: Iterable[Stamps]) -> None:
        for item in stamps:
            if item is None:
                self._recent.clear()
            else:
                self._recent.append(item)

    def split(self, snapshot: Snapshot, known: int) -> int | None:
        """The number of the last transaction that is in a snapshot; None if it does not fit.

        `known` is the end of the order before the snapshot was taken. Everything in the snapshot
        must have been read: see `Channel.catch_up`.
        """
        channel = self._channel
        with channel._changed:
            at = self.cursor - (channel._end - len(channel._stamps) + 1)
            stamps = list(islice(channel._stamps, at, None))
        anew = [n for n, item in enumerate(stamps, self.cursor) if item is None and n <= known]
        inside = [True] * (anew[-1] - self.cursor + 1 if anew else 0)
        for number, item in enumerate(stamps[len(inside) :], self.cursor + len(inside)):
            held = {snapshot.includes(stamp) for stamp in item or ()} or {number <= known}
            if len(held) == 2:
                return None  # it lies between transactions that are reported as one
            inside += held
        count = sum(inside)
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

    def join(self, limit_s: float | None = None) -> None:
        if self._thread is not threading.current_thread() and self._thread.is_alive():
            self._thread.join(limit_s)

    def _run(self) -> None:
        try:
            while self._step():
                pass
        except HeadwaterError as error:
            if not self._ended() or error is self._channel.trouble:
                self._end_with(error)
        except Exception as error:
            self._end_with(_fault(self._channel.source.name, "following it", error))
        finally:
            if self._wrapper is not None:
                self._wrapper.close()

    def _end_with(self, error: HeadwaterError) -> None:
        self._deliver(Delivery(self._channel.source.name, None, None, error))

    def _step(self) -> bool:
        """Deliver transactions, or answer a question, or wait; False at the end."""
        channel = self._channel
        with channel._changed:
            channel._changed.wait_for(self._has_work)
            # Why the log ended is told even if the channel was closed before this thread woke up.
            if channel._error is not None and not self._closed:
                raise channel._error
            if self._ended():
                return False
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
                item = held.item
                broken = item if isinstance(item, Broken) else None
                event = None if isinstance(item, Broken) else TransactionArrived(item.transaction)
                self._deliver(
                    Delivery(
                        channel.source.name,
                        event,
                        item.position,
                        number=self.cursor,
                        read_at=held.read_at,
                        broken=broken,
                    )
                )
                with channel._changed:
                    self._received([stamps_of(item)])
                    self.cursor += 1
                    channel._trim()

    def _answer(self, ask: Ask) -> None:
        channel = self._channel
        deadline = 0.0
        while True:
            known = channel.end
            reply = self._reply(ask)
            if reply is None:
                return
            deadline = deadline or time.monotonic() + channel.ask_limit_s
            channel._await(reply.marker, deadline, lambda: self._closed)
            if self._ended():
                return
            number = self.split(reply.snapshot, known)
            if number is not None and self._holds_received(reply):
                break
            self.retries += 1
            time.sleep(_RETRY_PAUSE_S)
            if time.monotonic() > deadline:
                raise LostConnectionError(
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
        return all(reply.snapshot.includes(stamp) for stamps in self._recent for stamp in stamps)


def _fault(source: str, doing: str, error: Exception) -> SourceError:
    return SourceError(
        f"Source {source}: {doing} failed: {type(error).__name__}: {error}.",
        "This is a fault of Headwater, or of the machine; 'headwater run' tries again.",
    )
