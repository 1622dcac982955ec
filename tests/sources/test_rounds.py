"""Which questions that wait for a source go together, and what each of them is answered."""

from __future__ import annotations

import math

import pytest

from headwater.algebra.evaluate import evaluate
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import query_of
from headwater.algebra.values import INT
from headwater.protocol.effects import Ask
from headwater.sources.rounds import LONGEST_S, MOMENT_S, Question, Round, Rounds, together

R = Relation("s.r", "s", Schema.of([("a", INT), ("b", INT)]), ("a",))
S = Relation("s.s", "s", Schema.of([("b", INT), ("d", INT)]), ("d",))
ALL, SOME = "SELECT a, b FROM r", "SELECT a FROM r WHERE b > 1"
SOON = 0.3 * LONGEST_S


def asked(
    who: str, *selects: str, expected_s: float = math.inf, alone: bool = False
) -> Question[str]:
    queries = tuple(query_of(parse_view(select, [R, S])) for select in selects)
    return Question(Ask("s", who, queries), who, expected_s, alone)


def who(questions: list[Question[str]]) -> str:
    return "".join(question.who for question in questions)


def test_the_first_goes_with_all_that_ask_the_same() -> None:
    assert who(together([asked("a", ALL), asked("b", SOME), asked("c", ALL)])) == "ac"


def test_who_asks_a_part_of_what_is_evaluated_goes_along() -> None:
    assert who(together([asked("a", ALL, SOME), asked("b", SOME)])) == "ab"
    assert who(together([asked("a", SOME), asked("b", ALL, SOME)])) == "a"


def test_what_is_answered_soon_goes_along_as_long_as_the_round_ends_soon() -> None:
    waiting = [asked(name, f"SELECT a FROM r WHERE b > {name}", expected_s=SOON) for name in "1234"]
    assert who(together(waiting)) == "123"


@pytest.mark.parametrize("slow", ["first", "second"])
def test_what_takes_long_holds_up_nobody_else(slow: str) -> None:
    first = asked("a", ALL, expected_s=1.0 if slow == "first" else SOON)
    second = asked("b", SOME, expected_s=1.0 if slow == "second" else SOON)
    assert who(together([first, second])) == "a"


def test_what_looks_at_other_relations_does_not_go_along() -> None:
    """A lock on one of them would hold the others up."""
    join = "SELECT r.a FROM r JOIN s ON r.b = s.b"
    first, other = asked("a", ALL, expected_s=SOON), asked("b", join, expected_s=SOON)
    assert who(together([first, other])) == "a"
    assert who(together([other, first])) == "ba"


def test_who_is_to_be_alone_is_alone() -> None:
    assert who(together([asked("a", ALL, alone=True), asked("b", ALL)])) == "a"
    assert who(together([asked("a", ALL), asked("b", ALL, alone=True)])) == "a"


def test_each_is_answered_what_it_asked_and_the_same_is_evaluated_once() -> None:
    state = {"s.r": Rows.of(R.schema, [(1, 2), (3, 4), (5, 0)]), "s.s": Rows.empty(S.schema)}
    found = Round(
        [
            asked("a", SOME, "SELECT x.b, x.a FROM r x"),
            asked("b", ALL),
            asked("c", "SELECT y.a AS one FROM r y WHERE y.b > 1"),
        ]
    )
    assert len(found.queries) == 2
    assert found.saved == 2
    results = found.results([evaluate(query, state) for query in found.queries])
    for question, given in zip(found.questions, results, strict=True):
        assert given == tuple(evaluate(query, state) for query in question.ask.queries)


def test_who_asks_while_nothing_is_under_way_does_not_wait() -> None:
    rounds: Rounds[str] = Rounds()
    rounds.put(asked("a", ALL), 0.0)
    assert rounds.begin(0.0) is not None
    assert rounds.begin(0.0) is None


def test_who_asks_while_a_round_has_just_begun_goes_behind_it_with_others() -> None:
    rounds: Rounds[str] = Rounds()
    rounds.put(asked("a", ALL), 0.0)
    first = rounds.begin(0.0)
    assert first is not None
    rounds.put(asked("b", SOME), 0.0)
    rounds.put(asked("c", SOME), 0.0)
    assert rounds.begin(MOMENT_S / 2) is None
    rounds.answered(first)
    rounds.ended(first)
    second = rounds.begin(MOMENT_S / 2)
    assert second is not None
    assert who(list(second.questions)) == "bc"
    rounds.answered(second)
    assert (rounds.asked, rounds.rounds, rounds.saved) == (3, 2, 1)
    assert not rounds.is_waiting


def test_who_asks_alone_does_not_wait_for_others() -> None:
    rounds: Rounds[str] = Rounds()
    for name in "ab":
        rounds.put(asked(name, ALL, alone=True), 0.0)
        assert rounds.begin(0.0) is not None


def test_a_round_that_takes_long_is_not_waited_for() -> None:
    rounds: Rounds[str] = Rounds()
    rounds.put(asked("a", ALL), 0.0)
    assert rounds.begin(0.0) is not None
    rounds.put(asked("b", SOME), 0.0)
    assert rounds.due(0.0) == MOMENT_S
    assert rounds.begin(rounds.due(0.0)) is not None
    rounds.put(asked("c", SOME), 1.0)
    assert rounds.begin(1.0) is not None


def test_nobody_waits_longer_than_a_moment_however_many_rounds_begin() -> None:
    rounds: Rounds[str] = Rounds()
    for name in "1234":
        rounds.put(asked(name, f"SELECT a FROM r WHERE b > {name}"), 0.0)
    begun = [rounds.begin(now) for now in (0.0, 0.0, MOMENT_S, MOMENT_S, MOMENT_S)]
    assert [found and who(list(found.questions)) for found in begun] == ["1", None, "2", "3", "4"]


def test_what_a_query_takes_in_a_round_is_told_by_how_often_the_source_is_gone_to() -> None:
    alone, both = Round([asked("a", ALL)]), Round([asked("a", ALL), asked("b", SOME)])
    assert alone.share_s(0.3) == pytest.approx(0.1)
    assert both.share_s(0.4) == pytest.approx(0.1)
