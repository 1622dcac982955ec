"""The order of one source's transactions, and where answers belong in it.

Two machines without threads, clocks or connections. `Order` is what has been read of a source's
log: it numbers transactions and gaps, and keeps the last of them. A `Place` is where one
subscriber stands in it, with its questions: it says what is to be done next, and is told what
was done. Whoever drives them does so under one lock.

While a question is being answered its subscriber receives nothing. The answer's snapshot must
split the order into a prefix that is in it and a rest that is not, and the prefix must hold
everything the subscriber has received; where a database makes transactions visible in another
order than it logs them, that fails for a moment, and the question is asked again. So it is
where a source reports several transactions as one, and the snapshot lies between them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from headwater.protocol.effects import Ask
from headwater.sources.contract import (
    Broken,
    Committed,
    Logged,
    Marked,
    Position,
    Progressed,
    Reply,
    Snapshot,
)

_MOST_RECENT = 100_000
_MOST_MARKERS = 10_000
_MOST_ROWS_HELD = 200_000

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


@dataclass(frozen=True, slots=True)
class Held:
    """Something numbered, kept whole, and when it was read; 0 if an earlier process did."""

    item: Numbered
    read_at: float

    @property
    def rows(self) -> int:
        if isinstance(self.item, Broken):
            return 1
        return sum(len(update.delta) for update in self.item.transaction.updates)


class Order:
    """What has been read of one source's log.

    `position` and `end` say where reading goes on: behind this position, the last transaction
    before it having the number `end`. `is_kept` says whether something with a number can be had
    from elsewhere again; without it everything is held until all places are past it.
    """

    def __init__(
        self,
        end: int = 0,
        position: Position | None = None,
        is_kept: Callable[[int], bool] | None = None,
    ) -> None:
        self.end = end
        self.position = position
        self.places: list[Place] = []
        self._is_kept = is_kept
        self._stamps: deque[Stamps] = deque()  # of the last ones: to place answers by
        self._held: deque[Held] = deque()  # of these, the last ones whole
        self._held_rows = 0
        self._markers: dict[str, None] = {}

    @property
    def first_known(self) -> int:
        """From which number on everything's stamps are known."""
        return self.end - len(self._stamps) + 1

    @property
    def first_held(self) -> int:
        return self.end - len(self._held) + 1

    @property
    def needed(self) -> int:
        """The first number that some place has yet to receive."""
        return min((place.cursor for place in self.places), default=self.end + 1)

    def take(self, logged: Iterable[Logged], read_at: float = 0.0) -> None:
        """What the log has next."""
        for item in logged:
            match item:
                case Committed(position=position) | Broken(position=position):
                    self.end += 1
                    held = Held(item, read_at)
                    self._stamps.append(stamps_of(item))
                    self._held.append(held)
                    self._held_rows += held.rows
                    self.position = position
                case Marked(marker=marker):
                    self._markers[marker] = None
                    if len(self._markers) > _MOST_MARKERS:
                        self._markers.pop(next(iter(self._markers)))
                case Progressed(position=position):
                    self.position = position
        self.trim()

    def has_passed(self, marker: str | None) -> bool:
        return marker is None or marker in self._markers

    def forget(self, marker: str | None) -> None:
        """Nobody asks about a marker any more."""
        if marker is not None:
            self._markers.pop(marker, None)

    def held(self, first: int, most: int) -> Sequence[Held] | None:
        """Some of what follows, from a number on; None if it is not held any more."""
        at = first - self.first_held
        return list(islice(self._held, at, at + most)) if at >= 0 else None

    def stamps(self, first: int) -> Sequence[Stamps]:
        return list(islice(self._stamps, first - self.first_known, None))

    def recall(self, after: int, stamps: Sequence[Stamps]) -> None:
        """Know again by which stamps everything behind a number goes."""
        missing = self.first_known - after - 1
        if missing > 0:
            self._stamps.extendleft(reversed(stamps[:missing]))

    def trim(self) -> None:
        """Drop what every place is past, and what can be had from elsewhere."""
        needed = self.needed
        while self._stamps and self.first_known < needed and self._may_go(self.first_known):
            self._stamps.popleft()
        while self._held and self._may_go(self.first_held):
            too_much = self._is_kept is not None and self._held_rows > _MOST_ROWS_HELD
            if self.first_held >= needed and not too_much:
                break
            self._held_rows -= self._held.popleft().rows

    def _may_go(self, number: int) -> bool:
        return self._is_kept is None or self._is_kept(number)


@dataclass(frozen=True)
class Deliver:
    """Hand on everything up to a number."""

    upto: int


@dataclass(frozen=True)
class Inquire:
    """Ask the source, in a snapshot that is taken from now on."""

    ask: Ask
    again: bool
    """Whether an earlier snapshot did not fit."""


@dataclass(frozen=True)
class Await:
    """Wait until a marker has come by in the log."""

    marker: str | None


@dataclass(frozen=True)
class Answer:
    """Hand on an answer: it reflects exactly what was handed on before it."""

    ask: Ask
    reply: Reply


Task: TypeAlias = Deliver | Inquire | Await | Answer
"""What is to be done next for a place."""


class Place:
    """Where one subscriber stands in an order, with its questions."""

    def __init__(self, order: Order, cursor: int, paused: bool = False) -> None:
        self.cursor = cursor
        """The number of what is handed on next."""
        self.retries = 0
        """How often a question was asked again because its snapshot did not fit."""
        self._order = order
        self._paused = paused
        self._asks: deque[Ask] = deque()
        self._known = 0
        self._is_asked = False
        self._reply: Reply | None = None
        self._upto: int | None = None
        self._recent: deque[tuple[int, ...]] = deque(maxlen=_MOST_RECENT)

    def ask(self, ask: Ask) -> None:
        self._asks.append(ask)

    def resume(self, after: int) -> None:
        """Begin to receive what follows a number that is not before the paused place."""
        assert self._paused
        assert after >= self.cursor - 1
        self.cursor = after + 1
        self._paused = False

    def received(self, stamps: Iterable[Stamps]) -> None:
        """Accept only answers that hold these, until there is one."""
        for item in stamps:
            if item is None:
                self._recent.clear()
            else:
                self._recent.append(item)

    @property
    def has_work(self) -> bool:
        return not self._paused and (bool(self._asks) or self.cursor <= self._order.end)

    def next(self) -> Task | None:
        """What is to be done now; the first question waits for nothing but its own answer."""
        if self._paused:
            return None
        if not self._asks:
            end = self._order.end
            return Deliver(end) if self.cursor <= end else None
        if self._reply is None:
            again, self._is_asked = self._is_asked, True
            self._known = self._order.end
            return Inquire(self._asks[0], again)
        if self._upto is None and not self._order.has_passed(self._reply.marker):
            return Await(self._reply.marker)
        if self._upto is None:
            self._upto = self._fitting(self._reply)
            if self._upto is None:
                self._reply = None
                self.retries += 1
                return self.next()
        if self.cursor <= self._upto:
            return Deliver(self._upto)
        return Answer(self._asks[0], self._reply)

    def replied(self, reply: Reply) -> None:
        """The source has answered the question that was put last."""
        self._reply = reply

    def delivered(self, item: Numbered) -> None:
        self.received([stamps_of(item)])
        self.cursor += 1

    def answered(self) -> None:
        """The answer was handed on."""
        self._asks.popleft()
        self._recent.clear()
        self._reply = self._upto = None
        self._is_asked = False

    def _fitting(self, reply: Reply) -> int | None:
        self._order.forget(reply.marker)
        number = self.split(reply.snapshot, self._known)
        return number if self._holds_received(reply.snapshot) else None

    def split(self, snapshot: Snapshot, known: int) -> int | None:
        """The number of the last transaction that is in a snapshot; None if it does not fit.

        `known` is the end of the order before the snapshot was taken. Everything in the snapshot
        must have been read.
        """
        stamps = self._order.stamps(self.cursor)
        anew = [n for n, item in enumerate(stamps, self.cursor) if item is None and n <= known]
        inside = [True] * (anew[-1] - self.cursor + 1 if anew else 0)
        for number, item in enumerate(stamps[len(inside) :], self.cursor + len(inside)):
            held = {snapshot.includes(stamp) for stamp in item or ()} or {number <= known}
            if len(held) == 2:
                return None  # it lies between transactions that are reported as one
            inside += held
        count = sum(inside)
        return self.cursor + count - 1 if all(inside[:count]) else None

    def _holds_received(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot holds what was received since the last answer."""
        return all(snapshot.includes(stamp) for stamps in self._recent for stamp in stamps)
