"""The integrators: whole transactions go on, in the order of every source; answers wait too."""

from collections.abc import Iterator, Mapping
from itertools import permutations
from random import Random

import pytest

from headwater.algorithms.integrator import AnyIntegrator, ByNumber, Integrator
from headwater.protocol.events import AnswerArrived, Event, TransactionArrived
from headwater.protocol.transactions import Transaction

Messages = Mapping[str, tuple[Event, ...]]
INTEGRATOR = Integrator()


def part(name: str, source: str, spans: str) -> TransactionArrived:
    return TransactionArrived(Transaction(name, (), (source,), tuple(spans)))


def answer(source: str, label: str = "Q1") -> AnswerArrived:
    return AnswerArrived(source, label, ())


def passed(
    *messages: tuple[str, Event], integrator: AnyIntegrator = INTEGRATOR
) -> tuple[list[Event], AnyIntegrator]:
    events: list[Event] = []
    for source, message in messages:
        integrator, released = integrator.receive(source, message)
        events += released
    return events, integrator


def names(events: list[Event]) -> list[str]:
    return [e.transaction.id if isinstance(e, TransactionArrived) else str(e) for e in events]


def test_a_local_transaction_passes_at_once() -> None:
    local = part("T1", "x", "x")
    assert passed(("x", local)) == ([local], Integrator())


def test_an_answer_passes_at_once() -> None:
    assert passed(("x", answer("x"))) == ([answer("x")], Integrator())


def test_a_part_waits_for_the_others() -> None:
    assert passed(("x", part("T1", "x", "xy")))[0] == []


def test_all_parts_together_are_one_transaction() -> None:
    events, integrator = passed(("y", part("T1", "y", "xy")), ("x", part("T1", "x", "xy")))
    assert events == [TransactionArrived(Transaction("T1", (), ("x", "y"), ("x", "y")))]
    assert integrator == Integrator()


def test_a_later_transaction_does_not_overtake_a_part_of_its_source() -> None:
    events, _ = passed(("x", part("T1", "x", "xy")), ("x", part("T2", "x", "x")))
    assert events == []


def test_an_answer_does_not_overtake_a_part_of_its_source() -> None:
    waiting: list[tuple[str, Event]] = [("x", part("T1", "x", "xy")), ("x", answer("x"))]
    assert passed(*waiting)[0] == []
    events, _ = passed(*waiting, ("y", part("T1", "y", "xy")))
    assert names(events)[0] == "T1"
    assert events[1:] == [answer("x")]


def test_another_source_goes_on() -> None:
    events, _ = passed(
        ("x", part("T1", "x", "xy")), ("z", answer("z")), ("y", part("T2", "y", "y"))
    )
    assert events == [answer("z"), part("T2", "y", "y")]


def test_two_global_transactions_that_share_no_source_do_not_wait_for_each_other() -> None:
    events, _ = passed(
        ("x", part("T1", "x", "xy")), ("w", part("T2", "w", "wz")), ("z", part("T2", "z", "wz"))
    )
    assert names(events) == ["T2"]


def test_one_part_can_release_a_whole_row_of_transactions() -> None:
    events, integrator = passed(
        ("x", part("T1", "x", "xy")),
        ("x", part("T2", "x", "xy")),
        ("x", part("T3", "x", "x")),
        ("y", part("T1", "y", "xy")),
        ("y", part("T2", "y", "xy")),
    )
    assert names(events) == ["T1", "T2", "T3"]
    assert integrator == Integrator()


# Every interleaving


def random_messages(random: Random) -> dict[str, tuple[Event, ...]]:
    """What each source sends: parts of transactions in one common order, and answers."""
    sent: dict[str, list[Event]] = {source: [] for source in "xyz"}
    for number in range(1, random.randint(3, 4) + 1):
        spans = "".join(sorted(random.sample("xyz", random.choice([1, 2, 2, 3]))))
        for source in spans:
            sent[source].append(part(f"T{number}", source, spans))
    source = random.choice("xyz")
    sent[source].insert(random.randint(0, len(sent[source])), answer(source))
    return {source: tuple(events) for source, events in sent.items() if events}


def interleavings(left: Messages) -> Iterator[tuple[tuple[str, Event], ...]]:
    if not any(left.values()):
        yield ()
    for source, events in left.items():
        if events:
            for rest in interleavings({**left, source: events[1:]}):
                yield ((source, events[0]), *rest)


def seen_by(source: str, events: list[Event]) -> list[str]:
    """The ids and labels that concern a source, in the order in which they were passed on."""
    found = []
    for event in events:
        if isinstance(event, TransactionArrived) and source in event.transaction.spans:
            found.append(event.transaction.id)
        elif isinstance(event, AnswerArrived) and event.source == source:
            found.append(event.label)
    return found


@pytest.mark.parametrize("seed", range(25))
def test_no_interleaving_deadlocks_or_changes_the_order_of_a_source(seed: int) -> None:
    messages = random_messages(Random(seed))
    sent = {source: seen_by(source, list(events)) for source, events in messages.items()}
    for at, interleaving in enumerate(interleavings(messages)):
        if at == 300:
            break
        events, integrator = passed(*interleaving)
        assert integrator == Integrator()
        assert {source: seen_by(source, events) for source in messages} == sent
        whole = [e.transaction for e in events if isinstance(e, TransactionArrived)]
        assert all(transaction.is_whole for transaction in whole)
        assert len({transaction.id for transaction in whole}) == len(whole)


# Reports with numbers


def whole(name: str, **numbers: int) -> TransactionArrived:
    sources = tuple(numbers)
    return TransactionArrived(Transaction(name, (), sources, sources, tuple(numbers.values())))


def reflecting(source: str, count: int) -> AnswerArrived:
    return AnswerArrived(source, "Q1", (), count)


def by_number(*messages: Event) -> tuple[list[Event], AnyIntegrator]:
    return passed(*(("x", message) for message in messages), integrator=ByNumber())


def test_by_number_what_comes_next_passes_at_once() -> None:
    first, answered = whole("T1", x=1, y=1), reflecting("x", 1)
    assert by_number(first, answered)[0] == [first, answered]


def test_by_number_a_transaction_waits_for_earlier_ones_of_all_its_sources() -> None:
    """The paper's case: T2 by site z, of which y's update has the number 33 and not 32."""
    earlier, later = whole("T1", x=1, y=1), whole("T2", y=2, z=1)
    assert by_number(later)[0] == []
    assert by_number(later, earlier)[0] == [earlier, later]


def test_by_number_an_answer_waits_for_everything_that_it_reflects() -> None:
    answered, first = reflecting("y", 1), whole("T1", x=1, y=1)
    assert by_number(answered)[0] == []
    assert by_number(answered, first)[0] == [first, answered]


def test_by_number_an_answer_from_before_passes_late() -> None:
    events: list[Event] = [whole("T1", x=1, y=1), reflecting("y", 0)]
    assert by_number(*events)[0] == events


def test_by_number_other_sources_go_on() -> None:
    held, other = whole("T2", y=2), whole("T3", z=1)
    assert by_number(held, other)[0] == [other]


@pytest.mark.parametrize("seed", range(10))
def test_by_number_any_order_of_arrival_gives_the_order_of_every_source(seed: int) -> None:
    random = Random(seed)
    counts = dict.fromkeys("xyz", 0)
    messages: list[Event] = []
    for number in range(1, 5):
        spans = random.sample("xyz", random.choice([1, 2, 3]))
        counts |= {source: counts[source] + 1 for source in spans}
        messages.append(whole(f"T{number}", **{source: counts[source] for source in spans}))
    source = random.choice("xyz")
    answered = reflecting(source, random.randint(0, counts[source]))
    messages.append(answered)
    for order in permutations(messages):
        events, integrator = by_number(*order)
        assert isinstance(integrator, ByNumber)
        assert (integrator.waiting, len(events)) == ((), 5)
        seen = dict.fromkeys("xyz", 0)
        for event in events:
            if isinstance(event, TransactionArrived):
                transaction = event.transaction
                for name, number in zip(transaction.sources, transaction.numbers, strict=True):
                    seen[name] += 1
                    assert seen[name] == number
            else:
                assert seen[source] >= (answered.reflects or 0)
