"""Two subscribers whose questions are answered in one snapshot, over every schedule.

Each of them is at its own place. A reply that both get has one marker, which each looks for.
"""

from __future__ import annotations

import pickle
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

import pytest

from headwater.protocol.effects import Ask
from headwater.sources.contract import Committed, Marked, Reply
from headwater.sources.order import Answer, Deliver, Inquire, Order, Place
from tests.sources.test_order import Source, Unit, Visible, with_place


@dataclass
class Subscriber:
    """A place, and one question that is still to be asked."""

    place: Place
    is_curious: bool = True
    is_inquiring: bool = False
    delivered: list[Unit] = field(default_factory=list)
    answers: int = 0

    def work(self, order: Order) -> None:
        match self.place.next():
            case Inquire():
                self.is_inquiring = True
            case Deliver():
                found = order.held([self.place.cursor])
                assert found
                assert isinstance(found[0].item, Committed)
                self.place.delivered(found[0].item)
                self.delivered.append(found[0].item.stamps)
            case Answer(_, Reply(snapshot=Visible(stamps))):
                assert stamps == {stamp for unit in self.delivered for stamp in unit}
                self.place.answered()
                self.answers += 1

    @property
    def key(self) -> Hashable:
        apart = ("_order", "retries")
        place = tuple((k, repr(v)) for k, v in vars(self.place).items() if k not in apart)
        return self.is_curious, self.is_inquiring, place


@dataclass
class World:
    source: Source
    order: Order
    subscribers: tuple[Subscriber, ...]
    read: int = 0

    def steps(self) -> Iterator[str]:
        yield from self.source.steps()
        if self.read < len(self.source.log):
            yield "read"
        for number, each in enumerate(self.subscribers):
            if each.is_curious:
                yield f"ask {number}"
            if each.place.has_work:
                yield f"work {number}"
        if any(each.is_inquiring for each in self.subscribers):
            yield "reply"

    def step(self, name: str) -> None:
        what, *numbers = name.split()
        of = [self.subscribers[int(number)] for number in numbers]
        match what:
            case "log" | "appear":
                self.source.step(name)
            case "read":
                self.order.take(self.source.log[self.read : self.read + 1])
                self.read += 1
            case "ask":
                of[0].is_curious = False
                of[0].place.ask(Ask("s", "q", ()))
            case "reply":
                reply = self.source.reply()
                for each in self.subscribers:
                    if each.is_inquiring:
                        each.is_inquiring = False
                        each.place.replied(reply)
            case "work":
                of[0].work(self.order)

    @property
    def key(self) -> Hashable:
        markers = tuple(i if isinstance(i, Marked) else None for i in self.source.log)
        at = (self.source.logged, self.source.visible, markers, self.read)
        passed = tuple(self.order.has_passed(m.marker) for m in markers if m is not None)
        return (*at, passed, *(each.key for each in self.subscribers))


def explore(units: tuple[Unit, ...], appear: tuple[int, ...], kind: type[Order], log: int) -> int:
    """Go every way to every end, where both must have received and been answered everything."""
    order = kind()
    subscribers = (Subscriber(Place(order, 1)), Subscriber(Place(order, 1)))
    for each in subscribers:
        order.add(each.place)
    waiting, known, ends = [World(Source(units, appear, frozenset()), order, subscribers)], set(), 0
    while waiting:
        world = waiting.pop()
        if world.key in known:
            continue
        known.add(world.key)
        steps = list(world.steps())
        if not steps:
            ends += 1
            for each in world.subscribers:
                assert each.delivered == list(units)
                assert each.answers == 1
        if len(world.source.log) >= log and len(steps) > 1:
            steps = [step for step in steps if step != "reply"]
        kept = pickle.dumps(world, pickle.HIGHEST_PROTOCOL)
        for step in steps:
            following: World = pickle.loads(kept)
            following.step(step)
            waiting.append(following)
    return ends


@pytest.mark.parametrize(
    ("units", "appear"),
    [
        (((1,),), (1,)),
        pytest.param(((1,), (2,)), (1, 2), marks=pytest.mark.stress),
        pytest.param(((1,), (2,)), (2, 1), marks=pytest.mark.stress),
        pytest.param(((1, 3), (2,)), (1, 2, 3), marks=pytest.mark.stress),
    ],
)
def test_an_answer_that_two_share_is_in_its_place_for_each_of_them(
    units: tuple[Unit, ...], appear: tuple[int, ...]
) -> None:
    assert explore(units, appear, Order, log=4) > 0


class Forgetful(Order):
    """Forgets a marker when the first of those is past it who wait for it."""

    def forget(self, marker: str | None, place: Place | None = None) -> None:
        super().forget(marker)
        self._awaited.pop(marker or "", None)
        self._markers.pop(marker or "", None)


def test_a_marker_that_the_first_forgets_is_missed_by_the_second() -> None:
    with pytest.raises(AssertionError):
        explore(((1,),), (1,), Forgetful, log=3)


def test_a_marker_is_forgotten_when_all_are_past_it_or_gone() -> None:
    order, one = with_place()
    other = Place(order, 1)
    order.add(other)
    for each in (one, other):
        each.ask(Ask("s", "q", ()))
        assert isinstance(each.next(), Inquire)
        each.replied(Reply((), Visible(frozenset()), "m"))
    assert order.take([Marked("m")]) == {one, other}
    assert isinstance(one.next(), Answer)
    assert order.has_passed("m")
    order.remove(other)
    assert not order.has_passed("m")
