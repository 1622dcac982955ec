"""Where an answer belongs in a source's order, over every schedule of small sources.

A source writes a transaction to its log, and makes it visible some time afterwards: in another
order, if it likes. A marker that is written with an answer comes behind everything that is visible.
Some of its transactions change a relation that is of no concern to the subscriber.
"""

from __future__ import annotations

import pickle
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace

import pytest

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.protocol.effects import Ask
from headwater.protocol.transactions import Transaction, Update
from headwater.sources.contract import Broken, Committed, Logged, Marked, Reply, Snapshot
from headwater.sources.order import Answer, Deliver, Inquire, Order, Place, stamps_of

Unit = tuple[int, ...]
"""Transactions that the log reports as one."""


@dataclass(frozen=True)
class Visible:
    """A snapshot: what was visible when it was taken."""

    stamps: frozenset[int]

    def includes(self, stamp: int) -> bool:
        return stamp in self.stamps


@dataclass
class Source:
    """What it will log, in this order, and the order in which its transactions become visible."""

    units: tuple[Unit, ...]
    appear: tuple[int, ...]
    aside: frozenset[int]
    """Transactions of another relation."""
    log: list[Logged] = field(default_factory=list)
    logged: int = 0
    visible: int = 0

    def steps(self) -> Iterator[str]:
        if self.logged < len(self.units):
            yield "log"
        if self.visible < len(self.appear):
            written = {stamp for unit in self.units[: self.logged] for stamp in unit}
            if self.appear[self.visible] in written:
                yield "appear"

    def step(self, name: str) -> None:
        if name == "appear":
            self.visible += 1
            return
        *others, stamp = self.units[self.logged]
        self.logged += 1
        update = Update("s.aside" if stamp in self.aside else "s.r", NOTHING)
        self.log.append(
            Committed(Transaction(f"T{stamp}", (update,), ("s",), ("s",)), {}, stamp, tuple(others))
        )

    def reply(self) -> Reply:
        marker = f"m{len(self.log)}"
        self.log.append(Marked(marker))
        return Reply((), Visible(frozenset(self.appear[: self.visible])), marker)


@dataclass
class World:
    """A source, its order as it is read, one place in it and its questions."""

    source: Source
    order: Order
    place: Place
    questions: int
    read: int = 0
    inquiring: bool = False
    delivered: list[Unit] = field(default_factory=list)
    answers: int = 0

    def steps(self) -> Iterator[str]:
        yield from self.source.steps()
        if self.read < len(self.source.log):
            yield "read"
        if self.questions:
            yield "ask"
        if self.inquiring:
            yield "reply"
        elif self.place.has_work:
            yield "work"

    def step(self, name: str) -> None:
        match name:
            case "log" | "appear":
                self.source.step(name)
            case "read":
                self.order.take(self.source.log[self.read : self.read + 1])
                self.read += 1
            case "ask":
                self.questions -= 1
                self.place.ask(Ask("s", f"q{self.questions}", ()))
            case "reply":
                self.inquiring = False
                self.place.replied(self.source.reply())
            case "work":
                self.work()

    def work(self) -> None:
        match self.place.next():
            case Inquire():
                self.inquiring = True
            case Deliver():
                found = self.order.held([self.place.cursor])
                assert found
                assert isinstance(found[0].item, Committed)
                self.place.delivered(found[0].item)
                self.delivered.append(found[0].item.stamps)
            case Answer(_, reply):
                assert isinstance(reply.snapshot, Visible)
                reflected = {stamp for unit in self.delivered for stamp in unit}
                assert reply.snapshot.stamps - self.source.aside == reflected
                self.place.answered()
                self.answers += 1

    @property
    def key(self) -> Hashable:
        place = {k: repr(v) for k, v in vars(self.place).items() if k not in ("_order", "retries")}
        markers = tuple(i if isinstance(i, Marked) else None for i in self.source.log)
        return (
            *(self.source.logged, self.source.visible, markers, self.questions, self.read),
            *(self.inquiring, tuple(place.items()), self.order.end),
        )


def explore(
    units: tuple[Unit, ...],
    appear: tuple[int, ...],
    kind: type[Place],
    log: int,
    aside: frozenset[int] = frozenset(),
) -> int:
    """Go every way to every end, where all must have been delivered and answered; how many ends.

    A question that is asked again writes one more marker each time: beyond `log` entries the
    source has settled before it answers.
    """
    order = Order()
    place = kind(order, 1, relations={"s.r"} if aside else None)
    order.add(place)
    source = Source(units, appear, aside)
    waiting, known, ends = [World(source, order, place, questions=2)], set(), 0
    while waiting:
        world = waiting.pop()
        if world.key in known:
            continue
        known.add(world.key)
        steps = list(world.steps())
        if not steps:
            ends += 1
            assert world.delivered == [unit for unit in units if aside.isdisjoint(unit)]
            assert world.place.cursor == len(units) + 1
            assert world.answers == 2
        if len(world.source.log) >= log and len(steps) > 1:
            steps = [step for step in steps if step != "reply"]
        kept = pickle.dumps(world, pickle.HIGHEST_PROTOCOL)
        for step in steps:
            following: World = pickle.loads(kept)
            following.step(step)
            waiting.append(following)
    return ends


CASES = {
    "visible as logged": (((1,), (2,)), (1, 2)),
    "visible the other way round": (((1,), (2,)), (2, 1)),
    "the last is visible first": (((1,), (2,), (3,)), (3, 1, 2)),
    "two reported as one": (((1, 2), (3,)), (1, 2, 3)),
    "two reported as one, another between": (((1, 3), (2,)), (1, 2, 3)),
}


@pytest.mark.parametrize("case", CASES)
def test_an_answer_reflects_exactly_what_was_delivered_before_it(case: str) -> None:
    units, appear = CASES[case]
    assert explore(units, appear, Place, log=6) > 0


ASIDE = {
    "none is of concern": (((1,), (2,)), (2, 1), {1, 2}),
    "the first is of no concern": (((1,), (2,)), (2, 1), {1}),
    "the last is of no concern": (((1,), (2,)), (2, 1), {2}),
    "one between": (((1,), (2,), (3,)), (3, 1, 2), {2}),
    "one between, visible last": (((1,), (2,), (3,)), (1, 3, 2), {2}),
    "two reported as one": (((1, 3), (2,)), (1, 2, 3), {2}),
}


@pytest.mark.parametrize("case", ASIDE)
def test_what_is_of_no_concern_is_passed_and_may_be_in_an_answer_or_not(case: str) -> None:
    units, appear, aside = ASIDE[case]
    assert explore(units, appear, Place, log=6, aside=frozenset(aside)) > 0


def test_what_is_of_no_concern_need_not_be_in_an_answer() -> None:
    order, place = with_place(relations={"s.r"})
    order.take([committed(1, "s.r"), committed(2, "s.aside"), committed(3, "s.r")])
    place.ask(Ask("s", "q", ()))
    assert isinstance(place.next(), Inquire)
    place.replied(Reply((), Visible(frozenset({1}))))
    assert place.next() == Deliver(2)
    place.delivered(committed(1, "s.r"))
    assert isinstance(place.next(), Answer)


class Forgetful(Place):
    """Takes an answer although it lacks what was received."""

    def _holds_received(self, snapshot: Snapshot) -> bool:
        return True


class Counting(Place):
    """Takes the number of transactions in a snapshot for the place where it lies."""

    def split(self, snapshot: Snapshot, known: int, whole_after: int = 0) -> int | None:
        stamps = self._order.stamps(self.cursor)
        inside = [all(map(snapshot.includes, item or ())) for item in stamps]
        return self.cursor + sum(inside) - 1


class Unconcerned(Place):
    """Has its answers where they belong among what it was spared as well."""

    def split(self, snapshot: Snapshot, known: int, whole_after: int = 0) -> int | None:
        stamps = self._order.stamps(self.cursor)
        inside = [all(map(snapshot.includes, item or ())) for item in stamps]
        return self.cursor + inside.index(False) - 1 if False in inside else self._order.end


@pytest.mark.parametrize(
    ("kind", "case"),
    [
        (Forgetful, "visible the other way round"),
        (Counting, "visible the other way round"),
        (Counting, "two reported as one"),
    ],
)
def test_a_weaker_rule_gives_an_answer_a_wrong_place(kind: type[Place], case: str) -> None:
    units, appear = CASES[case]
    with pytest.raises(AssertionError):
        explore(units, appear, kind, log=6)


def test_an_answer_is_not_placed_by_what_is_of_no_concern() -> None:
    units, appear, aside = ASIDE["one between, visible last"]
    with pytest.raises(AssertionError):
        explore(units, appear, Unconcerned, log=6, aside=frozenset(aside))


# Whom something concerns


NOTHING = Rows.empty(Schema.of([]))


def committed(number: int, *relations: str) -> Committed:
    updates = tuple(Update(relation, NOTHING) for relation in relations)
    return Committed(Transaction(f"T{number}", updates, ("s",), ("s",)), {"at": number}, number)


def with_place(relations: set[str] | None = None) -> tuple[Order, Place]:
    order = Order()
    place = Place(order, 1, relations=relations)
    order.add(place)
    return order, place


def test_only_those_are_told_whom_something_concerns() -> None:
    order, one = with_place({"s.one"})
    two, all_of_it = Place(order, 1, relations={"s.one", "s.two"}), Place(order, 1)
    order.add(two)
    order.add(all_of_it)
    assert order.take([committed(1, "s.one")]) == {one, two, all_of_it}
    assert order.take([committed(2, "s.two")]) == {two, all_of_it}
    assert order.take([committed(3, "s.three")]) == {all_of_it}
    assert order.take([Broken({"s.one": None}, "truncated", {})]) == {one, two, all_of_it}
    assert order.take([Broken(None, "restored", {})]) == {one, two, all_of_it}


def test_a_place_that_nothing_concerns_is_at_the_end_and_keeps_nothing() -> None:
    order, place = with_place({"s.r"})
    order.take([committed(1, "s.aside"), committed(2, "s.aside")])
    assert place.cursor == order.needed == 3
    assert not place.has_work
    order.trim()
    assert order.held([2]) is None
    order.take([committed(3, "s.r"), committed(4, "s.aside")])
    assert place.cursor == order.needed == 3
    assert place.has_work


def test_a_place_whose_marker_comes_by_is_told() -> None:
    order, place = with_place({"s.r"})
    place.ask(Ask("s", "q", ()))
    assert isinstance(place.next(), Inquire)
    assert place.next() is None
    place.replied(Reply((), Visible(frozenset()), "m"))
    assert not place.has_work
    assert order.take([committed(1, "s.aside")]) == set()
    assert order.take([Marked("m")]) == {place}


def test_a_place_that_is_gone_is_told_nothing() -> None:
    order, place = with_place()
    place.ask(Ask("s", "q", ()))
    assert isinstance(place.next(), Inquire)
    place.replied(Reply((), Visible(frozenset()), "m"))
    order.remove(place)
    assert order.take([committed(1), Marked("m")]) == set()


def test_a_paused_place_holds_back_what_it_may_need() -> None:
    order = Order()
    place = Place(order, 1, paused=True, relations={"s.r"})
    order.add(place)
    order.take([committed(1, "s.aside"), committed(2, "s.r"), committed(3, "s.r")])
    assert order.needed == 1
    assert place.split(Visible(frozenset({2})), 0) == 2
    place.resume(2)
    assert place.cursor == order.needed == 3


def test_what_was_read_by_an_earlier_process_concerns_the_same_places() -> None:
    order = Order(end=3)
    place = Place(order, 2, paused=True, relations={"s.r"})
    order.add(place)
    order.recall(0, [committed(1, "s.r"), committed(2, "s.aside"), committed(3, "s.r")])
    place.remember(1)
    place.resume(1)
    assert place.cursor == 3
    place.ask(Ask("s", "q", ()))
    assert isinstance(place.next(), Inquire)
    place.replied(Reply((), Visible(frozenset({3}))))
    assert isinstance(place.next(), Inquire)  # it lacks the first, which was received


def test_a_snapshot_between_merged_transactions_fits_nowhere_whatever_they_change() -> None:
    """What comes and goes inside them is not in the sum of both, and a snapshot shows it."""
    order = Order()
    place = Place(order, 1, relations={"s.r"})
    order.add(place)
    order.take([replace(committed(2, "s.aside"), others=(1,)), committed(3, "s.r")])
    assert place.split(Visible(frozenset({1})), known=0) is None
    assert place.split(Visible(frozenset({1, 2})), known=0) == 1
    assert place.split(Visible(frozenset({1, 2, 3})), known=0) == 2


def test_a_snapshot_between_merged_transactions_fits_nowhere_also_behind_them() -> None:
    """They concern nobody as one, and what follows them was visible and delivered before them."""
    order, place = with_place({"s.r"})
    order.take([replace(committed(2, "s.aside"), others=(1,)), committed(3, "s.r")])
    place.delivered(committed(3, "s.r"))
    assert place.split(Visible(frozenset({1, 3})), known=2) is None
    assert place.split(Visible(frozenset({3})), known=2) == 2
    assert place.split(Visible(frozenset({1, 2, 3})), known=2) == 2


def test_what_an_earlier_process_passed_is_looked_at_for_merged_transactions() -> None:
    order = Order(end=2)
    place = Place(order, 3, paused=True, relations={"s.r"})
    order.add(place)
    order.recall(0, [replace(committed(2, "s.aside"), others=(1,)), committed(3, "s.r")])
    place.remember(1)
    place.resume(2)
    assert place.split(Visible(frozenset({1, 3})), known=2) is None
    assert place.split(Visible(frozenset({1, 2, 3})), known=2) == 2


def test_merged_transactions_that_an_answer_held_are_not_looked_at_again() -> None:
    class Counted(Visible):
        looked = 0

        def includes(self, stamp: int) -> bool:
            type(self).looked += 1
            return super().includes(stamp)

    order, place = with_place({"s.r"})
    order.take([replace(committed(n, "s.aside"), others=(n - 1,)) for n in range(2, 202, 2)])
    snapshot = Counted(frozenset(range(201)))
    place.ask(Ask("s", "q", ()))
    assert isinstance(place.next(), Inquire)
    place.replied(Reply((), snapshot))
    assert isinstance(place.next(), Answer)
    place.answered()
    Counted.looked = 0
    assert place.split(snapshot, known=100) == 100
    assert not Counted.looked


def test_what_was_read_without_columns_that_are_needed_must_be_in_a_snapshot() -> None:
    """With fewer columns a change may look like none, or like one of no concern."""
    order = Order()
    place = Place(order, 1, relations={"s.r"})
    order.add(place)
    order.take([committed(1, "s.aside"), committed(2, "s.aside")])
    assert place.split(Visible(frozenset({1})), known=2) == 2
    assert place.split(Visible(frozenset({1})), known=2, whole_after=2) is None
    assert place.split(Visible(frozenset({1, 2})), known=2, whole_after=2) == 2


def test_stamps_from_before_a_source_began_anew_mean_nothing_to_a_snapshot() -> None:
    order = Order()
    place = Place(order, 1)
    order.add(place)
    anew = Broken(None, "it was restored", {})
    order.take([replace(committed(2), others=(1,)), anew, committed(7)])
    assert place.split(Visible(frozenset({1})), known=2, whole_after=2) == 2
    assert place.split(Visible(frozenset({1, 7})), known=2, whole_after=2) == 3


def test_where_a_source_began_anew_is_known_however_far_back_a_place_began() -> None:
    """Nothing concerned it for so long that what it passed is forgotten."""
    order = Order(is_kept=lambda number: True)
    place = Place(order, 1, relations={"s.r"})
    order.add(place)
    order.take([committed(stamp, "s.aside") for stamp in range(1, 3001)])
    order.trim()
    assert order.first_known > 1
    order.take([replace(committed(4002, "s.aside"), others=(4001,)), Broken(None, "", {})])
    order.take([committed(1, "s.r")])
    known = order.end - 1
    assert place.split(Visible(frozenset({4001})), known) == known
    assert place.split(Visible(frozenset({1, 4001})), known) == order.end


# What is kept


def test_what_every_place_is_past_is_dropped() -> None:
    order, place = with_place()
    order.take([committed(1), committed(2)])
    assert order.held([1])
    place.delivered(committed(1))
    order.trim()
    assert order.held([1]) is None
    assert [held.item for held in order.held([2]) or ()] == [committed(2)]


def test_what_is_not_kept_elsewhere_is_not_dropped() -> None:
    kept: set[int] = set()
    order = Order(is_kept=kept.__contains__)
    order.take([committed(1)])
    assert order.held([1])
    kept.add(1)
    order.trim()
    assert order.held([1]) is None


def test_stamps_that_were_dropped_are_known_again() -> None:
    order = Order(end=3)
    order.take([committed(4)])
    order.recall(1, [committed(2), committed(3), committed(4)])
    assert order.first_known == 2
    assert order.stamps(2) == [(2,), (3,), (4,)]


def test_stamps_before_a_source_began_anew_mean_nothing() -> None:
    order, place = with_place()
    gap = Broken(None, "it was restored", {})
    assert stamps_of(gap) is None
    order.take([committed(7), gap])
    snapshot = Visible(frozenset())
    assert place.split(snapshot, known=2) == 2
    place.delivered(committed(7))
    place.delivered(gap)
    place.ask(Ask("s", "q", ()))
    assert isinstance(place.next(), Inquire)
    place.replied(Reply((), snapshot))
    assert isinstance(place.next(), Answer)
