"""The integrator of the running system: which deliveries wait, and what goes on together."""

import math
from collections.abc import Mapping, Sequence

import pytest

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT
from headwater.algorithms.registry import ALGORITHMS
from headwater.pipeline.cutting import Cutting
from headwater.pipeline.global_parts import GlobalParts, GlobalTransaction, closed_cut
from headwater.pipeline.joining import (
    LOOK_AGAIN_S,
    GlobalError,
    Joining,
    LateParts,
    PassedOn,
)
from headwater.protocol.events import AnswerArrived, TransactionArrived
from headwater.protocol.transactions import Tag, Transaction, Update
from headwater.sources.contract import Broken, Committed
from headwater.sources.subscription import Delivery
from headwater.warehouse.vectors import Reached

SCHEMA = Schema.of([("k", INT)])
RELATIONS = [Relation(f"{s}.r", s, SCHEMA) for s in "xyz"] + [Relation("y.other", "y", SCHEMA)]
VIEW = parse_view("SELECT a.k FROM x.r a JOIN y.r b ON b.k = a.k", RELATIONS, "v").narrowed()
CHANGED = Rows.of(SCHEMA, [(1,)])
WAIT_S = 60.0


class World:
    """A view over x and y, and all that a runner has read of x, y and z."""

    def __init__(
        self, late: str = "release", vector: Mapping[str, int] | None = None, whole: bool = True
    ) -> None:
        self.parts = GlobalParts()
        self.now = 0.0
        self.read_since: dict[str, float] = {}
        self.numbers = dict.fromkeys("xyz", 0)
        reached = {s: Reached((vector or {}).get(s, 0), None) for s in VIEW.sources}
        policy = LateParts(WAIT_S, "stop" if late == "stop" else "release")
        self.joining = Joining(VIEW, reached, self.parts, policy, whole)

    def read(self, source: str, *ids: str, parts: int = 2, relation: str = "r") -> Delivery:
        """Read a transaction with these tags; its delivery, should it concern the view."""
        self.numbers[source] += 1
        number = self.numbers[source]
        tags = tuple(Tag(name, parts) for name in ids)
        updates = (Update(f"{source}.{relation}", CHANGED),)
        transaction = Transaction("", updates, (source,), (source,), tags=tags)
        self.parts.learn(source, number, [Committed(transaction, {}, number)], self.now)
        return Delivery(source, TransactionArrived(transaction), None, number)

    def take(self, *deliveries: Delivery) -> list[PassedOn]:
        found: list[PassedOn] = []
        for delivery in deliveries:
            self.joining.receive(delivery)
            found += self.joining.passed(self.now, self.read_since)
        return found

    def later(self, seconds: float) -> list[PassedOn]:
        self.now += seconds
        return list(self.joining.passed(self.now, self.read_since))


def answer(source: str) -> Delivery:
    return Delivery(source, AnswerArrived(source, "Q", ()), None)


def shown(found: Sequence[PassedOn]) -> list[str]:
    """`x1+y1` is what goes on together."""
    return ["+".join(f"{d.source}{d.number or '?'}" for d in each.deliveries) for each in found]


def test_what_has_no_tag_goes_on_at_once() -> None:
    world = World()
    assert shown(world.take(world.read("x"), answer("x"), world.read("y"))) == ["x1", "x?", "y1"]


def test_parts_go_on_together_and_nothing_of_their_sources_before() -> None:
    world = World()
    held = world.take(world.read("x", "g"), world.read("x"), answer("x"), world.read("y"))
    assert shown(held) == ["y1"]
    assert shown(world.take(world.read("y", "g"))) == ["x1+y2", "x2", "x?"]
    assert len(world.joining) == 0


def test_a_part_whose_other_is_elsewhere_goes_on_when_that_is_known() -> None:
    world = World()
    assert world.take(world.read("x", "g")) == []
    world.read("z", "g")
    assert shown(world.later(LOOK_AGAIN_S)) == ["x1"]


def test_a_part_whose_other_is_of_no_concern_goes_on_when_that_is_known() -> None:
    world = World()
    assert world.take(world.read("x", "g")) == []
    world.read("y", "g", relation="other")
    assert shown(world.later(LOOK_AGAIN_S)) == ["x1"]


def test_all_sources_of_the_view_are_enough_whatever_else_is_missing() -> None:
    world = World()
    assert shown(world.take(world.read("x", "g", parts=3), world.read("y", "g", parts=3))) == [
        "x1+y1"
    ]


def test_a_manager_that_takes_parts_gets_parts() -> None:
    world = World(whole=False)
    assert shown(world.take(world.read("x", "g"), world.read("y", "g"))) == ["x1", "y1"]


def test_a_part_whose_other_does_not_come_is_released_and_told() -> None:
    world = World()
    world.take(world.read("x", "g"))
    assert world.later(WAIT_S - 1) == []
    assert world.joining.due < math.inf
    (released,) = world.later(1)
    assert (shown([released]), released.split) == (["x1"], ("g",))
    assert world.joining.released[0] == ("g", "transaction 1 of x")


def test_the_other_part_is_taken_by_itself_when_it_comes_after_a_release() -> None:
    world = World()
    world.take(world.read("x", "g"))
    world.later(WAIT_S)
    (found,) = world.take(world.read("y", "g"))
    assert (shown([found]), found.split) == (["y1"], ())


def test_after_a_restart_a_part_whose_other_is_shown_is_taken_by_itself() -> None:
    """What was released is known from the vector and the change log."""
    world = World(vector={"x": 1, "y": 0})
    world.read("x", "g")
    assert shown(world.take(world.read("y", "g"))) == ["y1"]


def test_the_limit_does_not_count_while_a_source_cannot_be_read() -> None:
    world = World()
    world.read_since = {"x": 0.0, "y": math.inf}
    world.take(world.read("x", "g"))
    assert world.later(10 * WAIT_S) == []
    world.read_since["y"] = world.now
    assert world.later(WAIT_S - 1) == []
    assert shown(world.later(1)) == ["x1"]


def test_a_view_may_stop_instead_and_says_what_is_there_and_what_to_do() -> None:
    world = World("stop")
    world.take(world.read("x", "g"))
    with pytest.raises(GlobalError, match=r"'g' there is transaction 1 of x.*release"):
        world.later(WAIT_S)


def test_transactions_in_another_order_at_another_source_go_on_as_one() -> None:
    world = World()
    parts = [world.read("x", "g"), world.read("x", "h"), world.read("y", "h")]
    assert world.take(*parts) == []
    assert shown(world.take(world.read("y", "g"))) == ["x1+x2+y1+y2"]


def test_an_answer_in_the_middle_of_what_goes_on_together_is_asked_for_again() -> None:
    """It reflects a part of it, so it cannot be used."""
    world = World()
    held = [world.read("x", "g"), answer("x"), world.read("x", "h"), world.read("y", "h")]
    assert world.take(*held) == []
    assert shown(world.take(world.read("y", "g"))) == ["x1+x2+y1+y2"]
    assert world.joining.put_off() == [answer("x").event]
    assert world.joining.put_off() == []
    assert shown(world.take(world.read("x", "i"), world.read("y", "i"))) == ["x3+y3"]


def test_what_is_missing_in_the_middle_is_named_and_not_what_waits_for_it() -> None:
    world = World()
    parts = [world.read("x", "g"), world.read("x", "missing"), world.read("x", "h")]
    assert world.take(*parts, world.read("y", "h"), world.read("y", "g")) == []
    assert world.joining.holding == ["missing"]
    assert shown(world.later(WAIT_S)) == ["x1+x2+x3+y1+y2"]
    assert world.joining.holding == []


def test_a_gap_in_the_middle_goes_along() -> None:
    world = World()
    gap = Delivery("x", None, None, 2, broken=Broken({}, "", {}))
    world.numbers["x"] = 0
    first = world.read("x", "g")
    world.numbers["x"] = 2
    assert world.take(first, gap, world.read("x", "h"), world.read("y", "h")) == []
    assert shown(world.take(world.read("y", "g"))) == ["x1+x2+x3+y1+y2"]


def test_several_transactions_that_are_reported_as_one_take_all_others_along() -> None:
    world = World()
    one, between, two = world.read("x", "g"), world.read("x"), world.read("x", "h")
    assert world.take(one, between, two) == []
    assert shown(world.take(world.read("y", "g", "h"))) == ["x1+x2+x3+y1"]


def test_two_orders_that_do_not_conflict_are_not_taken_together() -> None:
    world = World()
    parts = [world.read("x", "g"), world.read("x", "h"), world.read("y", "g")]
    assert shown(world.take(*parts)) == ["x1+y1"]
    assert shown(world.take(world.read("y", "h"))) == ["x2+y2"]


def test_an_id_that_is_used_again_names_nothing_and_is_told() -> None:
    world = World()
    world.take(world.read("x", "g"), world.read("y", "g"))
    assert shown(world.take(world.read("x", "g"))) == ["x2"]
    assert "an id names one transaction" in str(world.parts.mistakes[0])


def test_two_parts_at_one_source_do_not_make_a_whole() -> None:
    world = World()
    assert world.take(world.read("x", "g"), world.read("x", "g")) == []
    assert shown(world.later(WAIT_S)) == ["x1", "x2"]


def test_more_parts_than_announced_and_other_numbers_of_them_are_told() -> None:
    world = World()
    for source in "xyz":
        world.read(source, "g")
    world.read("x", "h", parts=2)
    world.read("y", "h", parts=3)
    more, other = map(str, world.parts.mistakes)
    assert "one part more of 'g' than the 2" in more
    assert "says that 'h' has 3 parts, another of its parts says 2" in other


def test_a_tag_that_cannot_be_read_makes_a_local_transaction_and_is_told() -> None:
    world, wrong = World(), Tag("", 0, "it is not JSON")
    transaction = Transaction("", (Update("x.r", CHANGED),), ("x",), ("x",), tags=(wrong,))
    world.parts.learn("x", 1, [Committed(transaction, {}, 1)], 0.0)
    assert shown(world.take(Delivery("x", TransactionArrived(transaction), None, 1))) == ["x1"]
    assert "Transaction 1 of x has a tag that cannot be read: it is not JSON" in str(
        world.parts.mistakes[0]
    )


def test_who_wants_no_part_by_itself_stops_at_a_tag_that_cannot_be_read() -> None:
    world, wrong = World("stop"), Tag("", 0, "it is not JSON")
    transaction = Transaction("", (), ("x",), ("x",), tags=(wrong,))
    with pytest.raises(GlobalError, match="headwater reload v"):
        world.take(Delivery("x", TransactionArrived(transaction), None, 1))


def test_a_source_that_has_a_missing_part_is_read_on() -> None:
    world = World()
    world.take(world.read("x", "g"))
    assert not world.joining.awaits("y")
    found = world.read("y", "g")
    assert world.joining.awaits("y")
    world.take(found)
    assert not world.joining.awaits("y")


def test_what_is_whole_and_passed_is_forgotten_and_what_is_awaited_is_not() -> None:
    parts = GlobalParts()
    for number in range(1, 10_001):
        for source in "xy":
            _learn(parts, source, number, f"g{number}")
    _learn(parts, "x", 10_001, "awaited")
    parts.forget({"x": 10_002, "y": 9_000}, now=1.0)
    assert parts.find("g1") is None
    assert parts.find("g9999") is not None
    assert parts.find("awaited") is not None


def _learn(parts: GlobalParts, source: str, number: int, name: str) -> None:
    updates = (Update(f"{source}.r", CHANGED),)
    transaction = Transaction("", updates, (source,), (source,), tags=(Tag(name, 2),))
    parts.learn(source, number, [Committed(transaction, {}, number)], 0.0)


@pytest.mark.parametrize("when", ["is taken first", "is known before"])
def test_many_transactions_that_are_reported_as_one_are_joined_in_linear_time(when: str) -> None:
    """A database that nobody read for long, whose transactions have lost their borders. What it
    waits for comes one by one, and it is looked in between whether something is due."""
    world, asked = World(), 0
    find = world.parts.find

    def counted(name: str) -> GlobalTransaction | None:
        nonlocal asked
        asked += 1
        return find(name)

    world.parts.find = counted  # type: ignore[method-assign]
    names = [f"g{number}" for number in range(300)]
    merged = world.read("y", *names)
    if when == "is taken first":
        assert world.take(merged) == []
    others = [world.read("x", name) for name in names]
    found = world.take(merged) if when == "is known before" else []
    for other in others:
        found += world.take(other)
        found += world.later(0.001)
    assert [len(each.deliveries) for each in found] == [301]
    assert asked < 20 * len(names)


# Loads


def test_a_load_is_put_before_what_its_snapshots_divide() -> None:
    world = World()
    for source, *ids in (("x",), ("x", "g"), ("x",), ("y", "g")):
        world.read(source, *ids)
    parts = world.parts.all
    assert closed_cut(parts, VIEW, {"x": 3, "y": 1}, {}) == {"x": 3, "y": 1}
    assert closed_cut(parts, VIEW, {"x": 3, "y": 0}, {}) == {"x": 1, "y": 0}
    assert closed_cut(parts, VIEW, {"x": 1, "y": 1}, {}) == {"x": 1, "y": 0}


def test_what_is_taken_back_may_divide_something_else() -> None:
    world = World()
    for source, name in (("x", "g"), ("x", "h"), ("y", "h"), ("y", "g")):
        world.read(source, name)
    assert closed_cut(world.parts.all, VIEW, {"x": 2, "y": 1}, {}) == {"x": 0, "y": 0}


def test_a_load_waits_for_no_part_and_shows_none_by_itself() -> None:
    world = World()
    world.read("x")
    world.read("x", "g")
    assert closed_cut(world.parts.all, VIEW, {"x": 2, "y": 0}, {}) == {"x": 1, "y": 0}


def test_what_a_view_has_shown_is_not_taken_back() -> None:
    world = World()
    world.read("x", "g")
    assert closed_cut(world.parts.all, VIEW, {"x": 1, "y": 0}, {"x": 1}) == {"x": 1, "y": 0}


def test_a_load_waits_where_the_log_cannot_take_back_and_not_longer_than_the_limit() -> None:
    world = World()
    world.read("x", "g")
    cutting = Cutting(VIEW, {}, LateParts(WAIT_S))
    numbers, lowest = {"x": 1, "y": 0}, {"x": 1, "y": 0}
    assert cutting.cut(numbers, lowest, world.parts.all, now=WAIT_S - 1) is None
    released = cutting.cut(numbers, lowest, world.parts.all, now=WAIT_S)
    assert released is not None
    assert (released.numbers, released.split) == (numbers, ("g",))
    assert "'g'" in str(cutting.cannot(numbers, world.parts.all))


def test_whoever_shows_global_transactions_whole_keeps_strong_for_them() -> None:
    """Else their vectors would say what the view does not show."""
    for algorithm in ALGORITHMS.values():
        if algorithm.joins_global and algorithm.promises["multi-source"] != "none":
            promised = algorithm.promises["global"]
            assert promised in ("strong", "complete") or algorithm.name == "pvm", algorithm.name
