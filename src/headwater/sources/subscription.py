"""One subscriber of a channel: a thread that does what its place in the order says is next.

It delivers, asks the source over a connection of its own, and hands on answers in their place.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.errors import HeadwaterError, LostConnectionError, SourceError
from headwater.protocol.effects import Ask
from headwater.protocol.events import AnswerArrived, Event, TransactionArrived
from headwater.sources.contract import Broken, Position, Reply, Snapshot, Wrapper
from headwater.sources.order import Answer, Await, Deliver, Inquire, Place

if TYPE_CHECKING:
    from headwater.sources.channel import Channel

PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Before each further try to reach a source that cannot be reached."""
_RETRY_PAUSE_S = 0.001


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


Receive = Callable[[Delivery], None]
"""Called in the subscriber's own thread, one delivery at a time; may block to slow it down."""


class Subscription:
    """One subscriber: the thread that carries out what its place says is next."""

    def __init__(self, channel: Channel, place: Place, receive: Receive) -> None:
        self.place = place
        self._channel = channel
        self._receive = receive
        self._wrapper: Wrapper | None = None
        self._answer_by = 0.0
        self._closed = False
        self._thread = threading.Thread(
            target=self._run, name=f"subscriber of {channel.source.name}", daemon=True
        )

    @property
    def cursor(self) -> int:
        """The number of the next transaction to deliver."""
        return self.place.cursor

    @property
    def retries(self) -> int:
        return self.place.retries

    def start(self) -> None:
        self._thread.start()

    def ask(self, ask: Ask) -> None:
        """Put a question; its answer comes in its place among the deliveries."""
        with self._channel.changed:
            self.place.ask(ask)
            self._channel.changed.notify_all()

    def split(self, snapshot: Snapshot, known: int) -> int | None:
        """The number of the last transaction that is in a snapshot; None if it does not fit."""
        with self._channel.changed:
            return self.place.split(snapshot, known)

    def resume(self, after: int) -> None:
        """Begin to receive what follows a number that is not before the paused place."""
        with self._channel.changed:
            self.place.resume(after)
            self._channel.changed.notify_all()

    def close(self) -> None:
        self._closed = True
        self._channel.unsubscribe(self)

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
            self._end_with(fault_of(self._channel.source.name, "following it", error))
        finally:
            if self._wrapper is not None:
                self._wrapper.close()

    def _end_with(self, error: HeadwaterError) -> None:
        self._receive(Delivery(self._channel.source.name, None, None, error))

    def _ended(self) -> bool:
        return self._closed or self._channel.is_stopping

    def _has_work(self) -> bool:
        return self._ended() or self._channel.error is not None or self.place.has_work

    def _step(self) -> bool:
        """Do what is next, or wait for something; False at the end."""
        channel = self._channel
        with channel.changed:
            channel.changed.wait_for(self._has_work)
            # Why the log ended is told even if the channel was closed before this thread woke up.
            if channel.error is not None and not self._closed:
                raise channel.error
            if self._ended():
                return False
            task = self.place.next()
        match task:
            case Deliver(upto):
                self._deliver(upto)
            case Inquire(ask, again):
                self._inquire(ask, again)
            case Await(marker):
                channel.wait_for_marker(marker, self._answer_by, lambda: self._closed)
            case Answer(ask, reply):
                answer = AnswerArrived(ask.source, ask.label, reply.results)
                self._receive(Delivery(channel.source.name, answer, None))
                with channel.changed:
                    self.place.answered()
        return True

    def _deliver(self, upto: int) -> None:
        """Deliver some of what comes up to a number."""
        channel = self._channel
        for held in channel.following(self.cursor, upto):
            if self._ended():
                return
            item = held.item
            broken = item if isinstance(item, Broken) else None
            event = None if isinstance(item, Broken) else TransactionArrived(item.transaction)
            self._receive(
                Delivery(
                    channel.source.name,
                    event,
                    item.position,
                    number=self.cursor,
                    read_at=held.read_at,
                    broken=broken,
                )
            )
            with channel.changed:
                self.place.delivered(item)
        with channel.changed:
            channel.order.trim()

    def _inquire(self, ask: Ask, again: bool) -> None:
        channel = self._channel
        if again:
            self._check_patience()
            time.sleep(_RETRY_PAUSE_S)
        reply = self._reply(ask)
        if reply is None:
            return
        if not again:
            self._answer_by = time.monotonic() + channel.ask_limit_s
        with channel.changed:
            self.place.replied(reply)

    def _check_patience(self) -> None:
        if time.monotonic() > self._answer_by:
            raise LostConnectionError(
                f"Source {self._channel.source.name}: no snapshot fits the log within "
                f"{self._channel.ask_limit_s:.0f} s.",
                "Look for transactions that wait for a synchronous standby.",
            )

    def _reply(self, ask: Ask) -> Reply | None:
        """Ask the source, over a new connection where the old one is lost, until it answers."""
        channel = self._channel
        pauses = iter(PAUSES_S)
        while not self._ended():
            try:
                if self._wrapper is None:
                    self._wrapper = channel.source.open_wrapper(channel.lift)
                return self._wrapper.ask(ask.queries)
            except LostConnectionError:
                if self._wrapper is not None:
                    self._wrapper.close()
                    self._wrapper = None
                channel.sleep(next(pauses, PAUSES_S[-1]))
        return None


def fault_of(source: str, doing: str, error: Exception) -> SourceError:
    return SourceError(
        f"Source {source}: {doing} failed: {type(error).__name__}: {error}.",
        "This is a fault of Headwater, or of the machine; 'headwater run' tries again.",
    )
