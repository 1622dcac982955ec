"""The channel: joins a source's log and its answers into the order that algorithms assume.

It keeps one promise towards every subscriber:

    The channel fixes one total order of the source's transactions, each whole and once. Each
    subscriber receives it at its own pace, with its own answers in place: an answer reflects
    exactly the transactions delivered before it. All queries of one question are evaluated
    in one snapshot, and answers come in the order of their snapshots.

How. One thread reads the monitor; the order in which it reads is the order. Each subscriber
has a thread of its own. While a question is being answered its subscriber receives nothing.
The answer's snapshot must split the order into a prefix that is in it and a rest that is
not, and the prefix must hold everything the subscriber has received; where a database makes
transactions visible in another order than it logs them, that fails for a moment, and the
question is asked again.

A lost connection is opened again at the last position, with growing pauses. An error that
cannot be repaired reaches every subscriber.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from headwater.errors import LostConnectionError, SourceError
from headwater.protocol.effects import Ask
from headwater.protocol.events import AnswerArrived, Event, TransactionArrived
from headwater.sources.contract import (
    Committed,
    Marked,
    Monitor,
    Position,
    Progressed,
    Reply,
    Source,
    Wrapper,
)

_POLL_S = 0.5
_PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_RETRY_PAUSE_S = 0.001
_MOST_RECENT = 100_000


@dataclass(frozen=True)
class Delivery:
    """What a subscriber receives: an event, with the position reached; or the end."""

    source: str
    event: Event | None
    position: Position | None
    error: SourceError | None = None


Deliver = Callable[[Delivery], None]
"""Called in the subscriber's own thread, one delivery at a time; may block to slow it down."""


class Channel:
    """One source's order of transactions, shared by its subscribers."""

    def __init__(
        self, source: Source, after: Position | None = None, ask_limit_s: float = 60.0
    ) -> None:
        self.source = source
        self.ask_limit_s = ask_limit_s
        self._after = after
        self._changed = threading.Condition()
        self._order: deque[Committed] = deque()
        self._first = 0  # the number of the first transaction still in _order
        self._markers: set[str] = set()
        self._error: SourceError | None = None
        self._stopping = False
        self._monitor: Monitor | None = None
        self._subscriptions: list[Subscription] = []
        self._reader = threading.Thread(
            target=self._read, name=f"monitor {source.name}", daemon=True
        )
        self.read_position = after
        """Up to where the log has been read."""

    def start(self) -> None:
        self._reader.start()

    def subscribe(self, deliver: Deliver) -> Subscription:
        """Receive every transaction from the channel's start on; subscribe before `start`."""
        subscription = Subscription(self, deliver)
        with self._changed:
            subscription.cursor = self._first
            self._subscriptions.append(subscription)
        subscription.start()
        return subscription

    def acknowledge(self, position: Position) -> None:
        """The caller has made everything up to here durable."""
        with self._changed:
            monitor = self._monitor
        if monitor is not None:
            monitor.acknowledge(position)

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
                monitor = self.source.open_monitor(self.read_position)
            except LostConnectionError:
                pause = next(pauses, pause)
                self._sleep(pause)
                continue
            except SourceError as error:
                return self._fail(error)
            with self._changed:
                self._monitor = monitor
            try:
                while not self._stopping:
                    self._take(monitor)
                    pauses = iter(_PAUSES_S)
            except LostConnectionError:
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
        with self._changed:
            for item in logged:
                match item:
                    case Committed(position=position):
                        self._order.append(item)
                        self.read_position = position
                    case Marked(marker=marker):
                        self._markers.add(marker)
                    case Progressed(position=position):
                        self.read_position = position
            self._changed.notify_all()

    def _fail(self, error: SourceError) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def _sleep(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping, seconds)

    # For subscriptions, with the lock held

    def _end(self) -> int:
        return self._first + len(self._order)

    def _at(self, number: int) -> Committed:
        return self._order[number - self._first]

    def _forget(self) -> None:
        """Drop what every subscriber has received."""
        needed = min((s.cursor for s in self._subscriptions), default=self._end())
        while self._first < needed:
            self._order.popleft()
            self._first += 1


class Subscription:
    """One subscriber's place in a channel, with its questions."""

    def __init__(self, channel: Channel, deliver: Deliver) -> None:
        self._channel = channel
        self._deliver = deliver
        self._asks: deque[Ask] = deque()
        self._wrapper: Wrapper | None = None
        self._thread = threading.Thread(
            target=self._run, name=f"subscriber of {channel.source.name}", daemon=True
        )
        self._closed = False
        self.cursor = 0
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
            if self._closed or channel._stopping:
                return False
            if channel._error is not None:
                raise channel._error
            ask = self._asks.popleft() if self._asks else None
            upto = channel._end()
        if ask is None:
            self._deliver_upto(upto)
        else:
            self._answer(ask)
        return True

    def _has_work(self) -> bool:
        channel = self._channel
        ended = self._closed or channel._stopping or channel._error is not None
        return ended or bool(self._asks) or self.cursor < channel._end()

    def _deliver_upto(self, number: int) -> None:
        """Deliver the transactions before a number."""
        channel = self._channel
        while self.cursor < number:
            with channel._changed:
                if self._closed or channel._stopping:
                    return
                committed = channel._at(self.cursor)
            self._deliver(
                Delivery(
                    channel.source.name,
                    TransactionArrived(committed.transaction),
                    committed.position,
                )
            )
            with channel._changed:
                self._recent.append(committed.stamp)
                self.cursor += 1
                channel._forget()

    def _answer(self, ask: Ask) -> None:
        channel = self._channel
        deadline = time.monotonic() + channel.ask_limit_s
        while True:
            reply = self._reply(ask, deadline)
            if reply is None:
                return
            number = self._place(reply, deadline)
            if number is not None:
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
        if self._closed or channel._stopping:
            return
        self._recent.clear()
        answer = AnswerArrived(ask.source, ask.label, reply.results)
        self._deliver(Delivery(channel.source.name, answer, None))

    def _reply(self, ask: Ask, deadline: float) -> Reply | None:
        """Ask the source, over a new connection where the old one is lost."""
        channel = self._channel
        pauses = iter(_PAUSES_S)
        while not (self._closed or channel._stopping):
            try:
                if self._wrapper is None:
                    self._wrapper = channel.source.open_wrapper()
                return self._wrapper.ask(ask.queries)
            except LostConnectionError:
                if self._wrapper is not None:
                    self._wrapper.close()
                    self._wrapper = None
                if time.monotonic() > deadline:
                    raise
                channel._sleep(next(pauses, _PAUSES_S[-1]))
        return None

    def _place(self, reply: Reply, deadline: float) -> int | None:
        """Where an answer belongs in the order; None if its snapshot does not fit."""
        channel = self._channel
        with channel._changed:
            if reply.marker is not None:
                marker = reply.marker
                seen = channel._changed.wait_for(
                    lambda: (
                        marker in channel._markers
                        or channel._error is not None
                        or channel._stopping
                        or self._closed
                    ),
                    max(0.0, deadline - time.monotonic()),
                )
                channel._markers.discard(marker)
                if channel._error is not None:
                    raise channel._error
                if not seen:
                    raise SourceError(
                        f"Source {channel.source.name}: the log did not reach the answer within "
                        f"{channel.ask_limit_s:.0f} s.",
                        "See whether the source can still be reached.",
                    )
            inside = [
                reply.snapshot.includes(channel._at(number).stamp)
                for number in range(self.cursor, channel._end())
            ]
        count = sum(inside)
        if not all(inside[:count]) or not self._holds_received(reply):
            return None
        return self.cursor + count

    def _holds_received(self, reply: Reply) -> bool:
        """Whether the snapshot holds what was received since the last answer."""
        return all(reply.snapshot.includes(stamp) for stamp in self._recent)
