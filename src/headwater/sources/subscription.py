"""One subscriber of a channel: what its place in the order says is next, taken when it likes.

It has no thread. Whoever subscribes is woken when there is something to take, and takes it in a
thread of its own choice, one at a time. Questions go to the channel's connections.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from headwater.errors import HeadwaterError, LostConnectionError, SourceError
from headwater.protocol.effects import Ask
from headwater.protocol.events import AnswerArrived, Event, TransactionArrived
from headwater.sources.contract import Broken, Position, Reply, Snapshot
from headwater.sources.order import Answer, Await, Deliver, HeldItem, Inquire, Place
from headwater.sources.rounds import AGAIN_S, Question
from headwater.sources.workers import Job

if TYPE_CHECKING:
    from headwater.sources.channel import Channel

PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Before each further try to reach a source that cannot be reached."""
_FORGETTING = 0.8
"""What a question took is remembered the less, the more were asked since."""


@dataclass(frozen=True)
class Delivery:
    """What a subscriber receives: an event or a gap, with the place reached."""

    source: str
    event: Event | None
    position: Position | None
    number: int = 0
    """The number of the transaction or gap in the channel's order."""
    read_at: float = 0.0
    """When the monitor read it, by the monotonic clock; 0 if an earlier process did."""
    broken: Broken | None = None


Wake = Callable[[float], None]
"""Called, in any thread, when there is something to take, with the time from which on that is so:
0 for now. Must not block."""


class Asker(Protocol):
    """Puts questions to a source in the place of a channel's connections."""

    def do(self, job: Job) -> None:
        """Have a job done that asks."""
        ...

    def ask(self, ask: Ask) -> Reply:
        """Put a question, in such a job. Raises as a wrapper does."""
        ...


class Subscription:
    """One subscriber. `take` is for one thread at a time."""

    name = "somebody"

    def __init__(self, channel: Channel, place: Place, wake: Wake) -> None:
        self.place = place
        self.wake = wake
        self._channel = channel
        self._answer_by = math.inf
        self._late_at = math.inf
        self._expected_s = math.inf
        self._failure: HeadwaterError | None = None
        self._closed = False
        self.asker: Asker | None = None
        """Who puts the questions; None: the channel's own connections."""

    @property
    def cursor(self) -> int:
        """The number of the next transaction to deliver: all before it was delivered, or is of
        no concern."""
        with self._channel.changed:
            return self.place.cursor

    @property
    def behind(self) -> dict[str, int]:
        """By relation, how many transactions that change it have yet to be taken."""
        with self._channel.changed:
            return self._channel.order.behind(self.place)

    @property
    def retries(self) -> int:
        return self.place.retries

    @property
    def due(self) -> float:
        """When the log is late to reach an answer; never, if that is not waited for."""
        return self._late_at

    def ask(self, ask: Ask) -> None:
        """Put a question; its answer comes in its place among the deliveries."""
        self.put(ask)
        self.wake(0.0)

    def put(self, ask: Ask) -> None:
        """The same for who takes what is next anyway: nobody is woken for it."""
        with self._channel.changed:
            self.place.ask(ask)

    def split(self, snapshot: Snapshot, known: int) -> int | None:
        """The last number up to which what concerns it is in a snapshot; None if none fits.

        What is not in it has been read with the columns that are read now.
        """
        with self._channel.changed:
            return self.place.split(snapshot, known, self._channel.whole_after)

    def resume(self, after: int) -> None:
        """Begin to receive what follows a number that is not before the paused place."""
        with self._channel.changed:
            self.place.resume(after)
        self.wake(0.0)

    def close(self) -> None:
        with self._channel.changed:
            self._closed = True
            self._channel.unsubscribe(self)

    def take(self, most: int) -> Sequence[Delivery]:
        """What is next, some of it; nothing if there is nothing yet, or the channel is closed.

        Raises why nothing more will come.
        """
        channel = self._channel
        with channel.changed:
            if self._closed:
                return ()
            # Why the log ended is told even if the channel was closed in the meantime.
            if error := channel.error or self._failure:
                raise error
            if channel.is_stopping:
                return ()
            task = self.place.next()
        self._late_at = math.inf
        match task:
            case Deliver(upto):
                return self._deliver(upto, most)
            case Inquire(ask, again):
                self._inquire(ask, again)
            case Await():
                self._check_patience("the log did not reach the answer in time.")
                self._late_at = self._answer_by
            case Answer(ask, reply):
                with channel.changed:
                    self.place.answered()
                answer = AnswerArrived(ask.source, ask.label, reply.results)
                return (Delivery(channel.source.name, answer, None),)
        return ()

    def _deliver(self, upto: int, most: int) -> Sequence[Delivery]:
        channel = self._channel
        found = channel.following(self.place, upto, most)
        with channel.changed:
            for _, held in found:
                self.place.delivered(held.item)
            channel.order.tidy()
        return [self._delivery(number, held) for number, held in found]

    def _delivery(self, number: int, held: HeldItem) -> Delivery:
        item, name = held.item, self._channel.source.name
        if isinstance(item, Broken):
            return Delivery(name, None, item.position, number, held.read_at, item)
        event = TransactionArrived(item.transaction)
        return Delivery(name, event, item.position, number, held.read_at)

    def _check_patience(self, trouble: str, hint: str = "") -> None:
        if time.monotonic() > self._answer_by:
            raise LostConnectionError(
                f"Source {self._channel.source.name}: {trouble}",
                hint or "See whether the source can still be reached.",
            )

    def _inquire(self, ask: Ask, again: bool) -> None:
        if again:
            self._check_patience(
                f"no snapshot fits the log within {self._channel.ask_limit_s:.0f} s.",
                "Look for transactions that wait for a synchronous standby.",
            )
        else:
            self._answer_by = math.inf
        if self.asker is not None:
            self.asker.do(partial(self._inquire_of, self.asker, ask, again))
        else:
            self._channel.connections.put(Question(ask, self, self._expected_s, again=again))

    # In the thread that asks

    def inquire(self, ask: Callable[[], Reply]) -> None:
        """Ask the source by itself."""
        try:
            reply = self._reply(ask)
        except HeadwaterError as error:
            self._fail(error)
        except Exception as error:
            self._fail(fault_of(self._channel.source.name, "asking it", error))
        else:
            if reply is not None:
                self._channel.replied([(self, reply)])

    def _inquire_of(self, asker: Asker, ask: Ask, again: bool) -> None:
        if again:
            time.sleep(AGAIN_S)
        self.inquire(partial(asker.ask, ask))

    def took(self, seconds: float) -> None:
        """How long a question took."""
        before = self._expected_s if math.isfinite(self._expected_s) else 0.0
        self._expected_s = max(seconds, before * _FORGETTING)

    def replied(self, reply: Reply) -> float | None:
        """Put a reply into its place, under the channel's lock; when to be woken, unless closed."""
        if self._closed:
            return None
        self._answer_by = min(self._answer_by, time.monotonic() + self._channel.ask_limit_s)
        self.place.replied(reply)
        return 0.0 if self.place.has_work else self._answer_by

    def _fail(self, error: HeadwaterError) -> None:
        self._failure = error
        self.wake(0.0)

    def _reply(self, ask: Callable[[], Reply]) -> Reply | None:
        """Ask the source, over a new connection where one is lost, until it answers."""
        channel = self._channel
        pauses = iter(PAUSES_S)
        while not (self._closed or channel.is_stopping):
            try:
                return ask()
            except LostConnectionError:
                channel.sleep(next(pauses, PAUSES_S[-1]))
        return None


def fault_of(source: str, doing: str, error: Exception) -> SourceError:
    return SourceError(
        f"Source {source}: {doing} failed: {type(error).__name__}: {error}.",
        "This is a fault of Headwater, or of the machine; 'headwater run' tries again.",
    )
