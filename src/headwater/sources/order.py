"""The order of one source's transactions, and where answers belong in it.

Two machines without threads, clocks or connections. `Order` is what has been read of a source's
log: it numbers transactions and gaps, and keeps the last of them. A `Place` is where one
subscriber stands in it, with its questions: it says what is to be done next, and is told what
was done. Whoever drives them does so under one lock.

A place is concerned by what changes one of its relations. It is handed on nothing else, and
nothing else is done for it: what does not concern it is passed as soon as it is read, so that
the cost of a transaction grows with the places that it concerns.

While a question is being answered its subscriber receives nothing. Of what concerns the
subscriber, the answer's snapshot must hold a prefix and nothing behind it, and the prefix must
hold everything that it has received; where a database makes transactions visible in another
order than it logs them, that fails for a moment, and the question is asked again. So it is
where a source reports several transactions as one, and the snapshot lies between them, be they
ahead of the subscriber or behind it. What does not concern it changes nothing that a question
reads, so it does not matter whether a snapshot holds it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
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

RECEIVED_BEFORE = 1000
"""How many before its place a subscriber may have received and an answer may lack."""
_MERGED = "\0"
_MOST_RECENT = 100_000
_MOST_MARKERS = 10_000
_MOST_ROWS_HELD = 200_000
_MANY_ROWS = 10_000
_MANY = 256

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


def relations_of(item: Numbered) -> Collection[str] | None:
    """What something changes, or leaves unknown; None for everything of its source."""
    if isinstance(item, Broken):
        return item.columns
    return {update.relation for update in item.transaction.updates}


def _indexed(item: Numbered) -> Collection[str] | None:
    """Under what a number is to be found: what it changes, and whether it is merged."""
    relations = relations_of(item)
    if relations is None or not isinstance(item, Committed) or not item.others:
        return relations
    return [*relations, _MERGED]


@dataclass(frozen=True, slots=True)
class HeldItem:
    """Something numbered, kept whole, and when it was read; 0 if an earlier process did."""

    item: Numbered
    read_at: float

    @property
    def rows(self) -> int:
        if isinstance(self.item, Broken):
            return 1
        return sum(len(update.delta) for update in self.item.transaction.updates)


class Numbers:
    """The numbers of what changes each relation; of what changes everything, under ''."""

    def __init__(self) -> None:
        self._of: dict[str, array[int]] = {}

    def add(self, number: int, relations: Collection[str] | None, oldest: int) -> None:
        """The next number; those before `oldest` may be forgotten."""
        for relation in [""] if relations is None else relations:
            numbers = self._of.setdefault(relation, array("q"))
            if len(numbers) > _MANY and numbers[len(numbers) // 2] < oldest:
                del numbers[: bisect_left(numbers, oldest)]
            numbers.append(number)

    def add_before(self, first: int, items: Sequence[Numbered]) -> None:
        """Numbers that come before all others, from `first` on."""
        earlier = Numbers()
        for number, item in enumerate(items, first):
            earlier.add(number, _indexed(item), 0)
        behind = first + len(items)
        for relation, numbers in earlier._of.items():
            known = self._of.get(relation, array("q"))
            self._of[relation] = numbers + known[bisect_left(known, behind) :]

    def concerning(self, relations: Collection[str], first: int, most: int) -> list[int]:
        """At most so many from `first` on that change one of these relations."""
        found: set[int] = set()
        for relation in ("", *relations):
            if numbers := self._of.get(relation):
                at = bisect_left(numbers, first)
                found.update(numbers[at : at + most])
        return sorted(found)[:most]

    def count(self, relation: str, first: int) -> int:
        """How many from `first` on change one relation."""
        numbers = self._of.get(relation, ())
        return len(numbers) - bisect_left(numbers, first)


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
        self._is_kept = is_kept
        self._places: dict[str, set[Place]] = {}  # by relation; '' for all of them
        self._behind: set[Place] = set()
        self._numbers = Numbers()
        self._stamps: deque[Stamps] = deque()  # of the last ones: to place answers by
        self._held: deque[HeldItem] = deque()  # of these, the last ones whole
        self._held_rows = 0
        self._held_after_trim = 0
        self._markers: dict[str, None] = {}
        self._awaited: dict[str, set[Place]] = {}

    def add(self, place: Place) -> None:
        """Nothing that a place has yet to receive is dropped from now on."""
        for relation in [""] if place.relations is None else place.relations:
            self._places.setdefault(relation, set()).add(place)
        self._behind.add(place)

    def remove(self, place: Place) -> None:
        for relation in [""] if place.relations is None else place.relations:
            self._places[relation].discard(place)
        self._behind.discard(place)
        for marker in [marker for marker, found in self._awaited.items() if place in found]:
            self.forget(marker, place)

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
        self._behind -= {place for place in self._behind if place.is_past}
        return min((place.needed for place in self._behind), default=self.end + 1)

    def take(self, logged: Iterable[Logged], read_at: float = 0.0) -> set[Place]:
        """What the log has next; the places that have something to do because of it."""
        woken: set[Place] = set()
        for item in logged:
            match item:
                case Committed(position=position) | Broken(position=position):
                    self._number(HeldItem(item, read_at))
                    self.position = position
                    woken |= self._concerned(relations_of(item))
                case Marked(marker=marker):
                    self._markers[marker] = None
                    if len(self._markers) > _MOST_MARKERS:
                        self._markers.pop(next(iter(self._markers)))
                    woken |= self._awaited.get(marker, set())
                case Progressed(position=position):
                    self.position = position
        self.tidy()
        return {place for place in woken if place.has_work}

    def merged(self, first: int) -> Sequence[int]:
        """The numbers, from `first` on, of several transactions that are reported as one."""
        return self._numbers.concerning([_MERGED], max(first, self.first_known), self.end)

    def begun_anew(self, first: int) -> Sequence[int]:
        """The numbers, from `first` on, at which the source began anew."""
        return self._numbers.concerning((), first, self.end)

    def _number(self, held: HeldItem) -> None:
        self.end += 1
        self._stamps.append(stamps_of(held.item))
        self._held.append(held)
        self._held_rows += held.rows
        self._numbers.add(self.end, _indexed(held.item), self.first_known)

    def _concerned(self, relations: Collection[str] | None) -> set[Place]:
        if relations is None:
            found = {place for places in self._places.values() for place in places}
        else:
            found = set(self._places.get("", ()))
            for relation in relations:
                found |= self._places.get(relation, set())
        self._behind |= found
        return found

    def has_passed(self, marker: str | None) -> bool:
        return marker is None or marker in self._markers

    def expect(self, marker: str, place: Place) -> None:
        """A place needs to know whether a marker has come by; it is told when that happens."""
        self._awaited.setdefault(marker, set()).add(place)

    def forget(self, marker: str | None, place: Place | None = None) -> None:
        """A place, or whoever else asked, does not need to know of a marker any more."""
        if marker is None:
            return
        if others := self._awaited.get(marker, set()) - {place}:
            self._awaited[marker] = others
        else:
            self._awaited.pop(marker, None)
            self._markers.pop(marker, None)

    def held(self, numbers: Sequence[int]) -> Sequence[HeldItem] | None:
        """What has these numbers; None if the first is not held any more."""
        if numbers[0] < self.first_held:
            return None
        return [self._held[number - self.first_held] for number in numbers]

    def stamps(self, first: int) -> Sequence[Stamps]:
        """Of everything from a number on."""
        return list(islice(reversed(self._stamps), max(0, self.end - first + 1)))[::-1]

    def concerning(self, place: Place, first: int, most: int | None = None) -> Sequence[int]:
        """The numbers, from `first` on, of what concerns a place."""
        most = self.end if most is None else most
        if place.relations is None:
            return range(first, min(self.end, first + most - 1) + 1)
        return self._numbers.concerning(place.relations, first, most)

    def behind(self, place: Place) -> dict[str, int]:
        """For each relation of a place how many transactions that it has yet to receive change it;
        none where it has not named any."""
        first = place.cursor
        return {name: self._numbers.count(name, first) for name in place.relations or ()}

    def recall(self, after: int, items: Sequence[Numbered]) -> None:
        """Know again by which stamps everything behind a number goes, and what it changes."""
        missing = self.first_known - after - 1
        if missing > 0:
            self._numbers.add_before(after + 1, items[:missing])
            self._stamps.extendleft(map(stamps_of, reversed(items[:missing])))

    def tidy(self) -> None:
        """Drop what is not needed, if that is worth looking."""
        many = len(self._held) > self._held_after_trim + _MANY
        if many or self._held_rows > _MANY_ROWS:
            self.trim()

    def trim(self) -> None:
        """Drop what every place is past, and what can be had from elsewhere."""
        needed = self.needed
        recent = self.end + 1 - RECEIVED_BEFORE if self._is_kept is not None else self.end + 1
        while self._stamps and self.first_known < min(needed, recent):
            if not self._may_go(self.first_known):
                break
            self._stamps.popleft()
        while self._held and self._may_go(self.first_held):
            too_much = self._is_kept is not None and self._held_rows > _MOST_ROWS_HELD
            if self.first_held >= needed and not too_much:
                break
            self._held_rows -= self._held.popleft().rows
        self._held_after_trim = len(self._held)

    def _may_go(self, number: int) -> bool:
        return self._is_kept is None or self._is_kept(number)


@dataclass(frozen=True)
class Deliver:
    """Hand on everything up to a number that concerns the place."""

    upto: int


@dataclass(frozen=True)
class Inquire:
    """Ask the source, in a snapshot that is taken from now on."""

    ask: Ask
    again: bool
    """Whether an earlier snapshot did not fit."""


@dataclass(frozen=True)
class Await:
    """Nothing, until a marker has come by in the log."""

    marker: str | None


@dataclass(frozen=True)
class Answer:
    """Hand on an answer: it reflects exactly what was handed on before it."""

    ask: Ask
    reply: Reply


Task: TypeAlias = Deliver | Inquire | Await | Answer
"""What is to be done next for a place."""


class Place:
    """Where one subscriber stands in an order, with its questions.

    `relations` are those that concern it; None: all of the source.
    """

    def __init__(
        self,
        order: Order,
        cursor: int,
        paused: bool = False,
        relations: Collection[str] | None = None,
    ) -> None:
        self.relations = None if relations is None else frozenset(relations)
        self.retries = 0
        """How often a question was asked again because its snapshot did not fit."""
        self._order = order
        self._from = cursor  # nothing before it is to be handed on
        self._unsure = cursor  # what is merged before it is whole in every snapshot from now on
        self._paused = paused
        self._asks: deque[Ask] = deque()
        self._known = 0
        self._is_asked = False
        self._is_answering = False
        self._reply: Reply | None = None
        self._upto: int | None = None
        self._recent: deque[tuple[int, ...]] = deque(maxlen=_MOST_RECENT)

    @property
    def cursor(self) -> int:
        """The number of what is handed on next; all before it is passed."""
        return next(iter(self._order.concerning(self, self._from, 1)), self._order.end + 1)

    @property
    def needed(self) -> int:
        """The first number of which something has to be known for this place."""
        return self._from if self._paused else self.cursor

    @property
    def is_past(self) -> bool:
        """Whether everything is passed that has been read, for good."""
        return not self._paused and self.cursor > self._order.end

    def ask(self, ask: Ask) -> None:
        self._asks.append(ask)

    def resume(self, after: int) -> None:
        """Begin to receive what follows a number that is not before the paused place."""
        assert self._paused
        assert after >= self._from - 1
        self._from = after + 1
        self._paused = False

    def remember(self, first: int) -> None:
        """Accept only answers that hold what is before the place, from a number on, until there
        is one: an earlier process may have received it."""
        self._unsure = min(self._unsure, first)
        stamps = self._order.stamps(first)
        for number in self._order.concerning(self, first):
            if number < self._from:
                self._receive(stamps[number - first])

    def _receive(self, stamps: Stamps) -> None:
        if stamps is None:
            self._recent.clear()
        else:
            self._recent.append(stamps)

    @property
    def has_work(self) -> bool:
        """Whether there is something to do next but to wait."""
        if self._paused or self._is_answering:
            return False
        if self._reply is not None and self._upto is None:
            return self._order.has_passed(self._reply.marker)
        return bool(self._asks) or self.cursor <= self._order.end

    def next(self) -> Task | None:
        """What is to be done now; the first question waits for nothing but its own answer."""
        if self._paused or self._is_answering:
            return None
        if not self._asks:
            end = self._order.end
            return Deliver(end) if self.cursor <= end else None
        if self._reply is None:
            again, self._is_asked = self._is_asked, True
            self._is_answering = True
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
        self._is_answering = False
        self._reply = reply
        if reply.marker is not None:
            self._order.expect(reply.marker, self)

    def delivered(self, item: Numbered) -> None:
        """What the cursor is at was handed on."""
        self._receive(stamps_of(item))
        self._from = self.cursor + 1

    def answered(self) -> None:
        """The answer was handed on."""
        assert self._reply is not None
        self._unsure = self._first_not_whole(self._reply.snapshot)
        self._asks.popleft()
        self._recent.clear()
        self._reply = self._upto = None
        self._is_asked = False

    def _fitting(self, reply: Reply) -> int | None:
        self._order.forget(reply.marker, self)
        number = self.split(reply.snapshot, self._known)
        return number if self._holds_received(reply.snapshot) else None

    def split(self, snapshot: Snapshot, known: int, whole_after: int = 0) -> int | None:
        """The last number up to which what concerns the place is in a snapshot, and not behind it.

        None if there is none. `known` is the end of the order before the snapshot was taken.
        Everything in the snapshot must have been read. What was read up to `whole_after` lacks
        columns that concern the place: it must be in the snapshot, whatever it seems to change.
        """
        anew = self._begun_anew(known)
        if self._is_between(snapshot, anew):
            return None
        if not self._holds_upto(snapshot, max(anew + 1, self._from), whole_after):
            return None
        numbers = self._order.concerning(self, self._from)
        if not numbers:
            return self._order.end
        stamps = self._order.stamps(numbers[0])
        concerning = [(number, stamps[number - numbers[0]]) for number in numbers]
        inside = [True for number in numbers if number <= anew]
        for number, item in concerning[len(inside) :]:
            held = {snapshot.includes(stamp) for stamp in item or ()} or {number <= known}
            if len(held) == 2:
                return None  # it lies between transactions that are reported as one
            inside += held
        count = sum(inside)
        if not all(inside[:count]):
            return None
        found = numbers[count] - 1 if count < len(numbers) else self._order.end
        return found if found >= whole_after else None

    def _begun_anew(self, known: int) -> int:
        """The last number at which the source began anew: only stamps behind it mean something.

        `known` is the end of the order before the snapshot was taken.
        """
        numbers = self._order.begun_anew(min(self._from, self._unsure))
        return max((number for number in numbers if number <= known), default=0)

    def _holds_upto(self, snapshot: Snapshot, first: int, last: int) -> bool:
        """Whether a snapshot holds everything from a number to another, as far as it is known."""
        first = max(first, self._order.first_known)
        if last < first:
            return True
        stamps = self._order.stamps(first)[: last - first + 1]
        return all(snapshot.includes(stamp) for item in stamps for stamp in item or ())

    def _is_between(self, snapshot: Snapshot, anew: int) -> bool:
        """Whether a snapshot lies between transactions that are reported as one.

        It may then show rows that come and go inside them, of which the whole says nothing: also
        where that does not concern the place, and where the place is past them already.
        """
        return any(len(held) == 2 for _, held in self._merged(snapshot, anew))

    def _first_not_whole(self, snapshot: Snapshot) -> int:
        """From where on transactions that are reported as one are not all in a snapshot.

        All of them before that are in every later snapshot, too.
        """
        merged = self._merged(snapshot, self._begun_anew(self._known))
        return next((number for number, held in merged if False in held), self._order.end + 1)

    def _merged(self, snapshot: Snapshot, anew: int) -> Iterator[tuple[int, set[bool]]]:
        """What is reported as one since the source began anew, as far as an earlier answer did not
        hold it; and whether a snapshot holds some of it, lacks some, or both."""
        numbers = self._order.merged(max(anew + 1, self._unsure))
        stamps = self._order.stamps(numbers[0]) if numbers else ()
        for number in numbers:
            yield number, {snapshot.includes(at) for at in stamps[number - numbers[0]] or ()}

    def _holds_received(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot holds what was received since the last answer."""
        return all(snapshot.includes(stamp) for stamps in self._recent for stamp in stamps)
