"""Runs made by hand: what each level takes, and what the verdict says when it is missing."""

from collections.abc import Sequence

import pytest

from headwater.algebra.rows import Rows
from headwater.check import verdict as verdicts
from headwater.check.explain import explain
from headwater.check.history import History
from headwater.check.levels import LEVEL_MEANINGS, PROPERTIES, Level, parse_level
from headwater.check.verdict import (
    HalfTransaction,
    MatchesNothing,
    NeverShown,
    NotConverged,
    OutOfOrder,
    Verdict,
    Witness,
    check,
)
from tests.scenarios import counters, shown

BACK_TO_ONE = "CASE WHEN x.n = 3 THEN 1 ELSE x.n END AS s"


def judged(history: History, *rows: Sequence[object]) -> Verdict:
    return check(history, shown(history, *rows))


def row(history: History, *values: object) -> Rows:
    return Rows.of(history.view.schema, [values])


# Complete


@pytest.mark.parametrize(
    "rows",
    [
        [(0, 0), (1, 0), (1, 1), (2, 1)],
        [(0, 0), (0, 1), (1, 1), (2, 1)],
        [(0, 0), (1, 0), (2, 0), (2, 1)],
    ],
)
def test_the_views_of_any_merge_are_complete(rows: list[tuple[int, int]]) -> None:
    history = counters("x", "y", "x").history
    found = judged(history, *rows)
    assert (found.level, found.witness) == (Level.COMPLETE, None)
    assert explain(history, found) == "Complete: every state of the sources in that order is shown."


def test_equal_successive_states_count_once() -> None:
    history = counters("x").history
    assert judged(history, (0, 0), (0, 0), (1, 0), (1, 0)).level == Level.COMPLETE


def test_a_transaction_without_effect_needs_no_state() -> None:
    history = counters("y", "x", "y", shown="x.n").history
    assert judged(history, (0,), (1,)).level == Level.COMPLETE


def test_a_global_transaction_is_one_step_of_a_complete_run() -> None:
    history = counters("xy", "x").history
    assert judged(history, (0, 0), (1, 1), (2, 1)).level == Level.COMPLETE


def test_a_source_without_transactions_does_not_matter() -> None:
    history = counters("x", "y", sources="xyz").history
    assert judged(history, (0, 0, 0), (0, 1, 0), (1, 1, 0)).level == Level.COMPLETE


def test_without_transactions_the_initial_state_is_all_there_is() -> None:
    history = counters().history
    assert judged(history, (0, 0)).level == Level.COMPLETE
    assert judged(history, (0, 1)).level == Level.NONE


# Less than complete: the level, the witness, the sentence


def _case(
    name: str,
    history: History,
    rows: list[tuple[int, ...]],
    level: Level,
    witness: Witness,
    sentence: str,
) -> object:
    return pytest.param(history, rows, level, witness, sentence, id=name)


ONE_EACH = counters("x", "y").history
GLOBAL = counters("xy").history
GLOBAL_LAST = counters("x", "xy").history
PARITY = counters("x", "x", shown="x.n % 2 AS p").history

BROKEN = [
    _case(
        "a state is skipped",
        ONE_EACH,
        [(0, 0), (1, 1)],
        Level.STRONG,
        NeverShown(
            0, row(ONE_EACH, 1, 1), (("T1", row(ONE_EACH, 1, 0)), ("T2", row(ONE_EACH, 0, 1)))
        ),
        "Not complete: after state 0 the sources showed [1, 0] (after T1) or [0, 1] (after T2), "
        "but [1, 1] came.",
    ),
    _case(
        "the run ends too early, with the right view",
        PARITY,
        [(0,)],
        Level.STRONG,
        NeverShown(0, None, (("T1", row(PARITY, 1)),)),
        "Not complete: after state 0 the sources showed [1] (after T1), but the run ended.",
    ),
    _case(
        "what came back is missing at the end",
        counters("x", "x", "x", "x", shown="x.n % 2 AS p").history,
        [(0,), (1,), (0,)],
        Level.STRONG,
        NeverShown(2, None, (("T3", row(PARITY, 1)),)),
        "Not complete: after state 2 the sources showed [1] (after T3), but the run ended.",
    ),
    _case(
        "the view goes back",
        ONE_EACH,
        [(0, 0), (1, 0), (0, 1), (1, 1)],
        Level.WEAK,
        OutOfOrder(2, row(ONE_EACH, 0, 1), row(ONE_EACH, 1, 0), ((0, 1),), ((1, 0),)),
        "Not strong: state 2, [0, 1], is the view after T2, but the state before it, [1, 0], "
        "is that after T1.",
    ),
    _case(
        "the view goes back to the start",
        ONE_EACH,
        [(0, 0), (1, 0), (0, 0), (1, 1)],
        Level.WEAK,
        OutOfOrder(2, row(ONE_EACH, 0, 0), row(ONE_EACH, 1, 0), ((0, 0),), ((1, 0),)),
        "Not strong: state 2, [0, 0], is the view before any transaction, but the state before "
        "it, [1, 0], is that after T1.",
    ),
    _case(
        "the run starts too late",
        ONE_EACH,
        [(1, 0), (1, 1)],
        Level.WEAK,
        OutOfOrder(0, row(ONE_EACH, 1, 0), row(ONE_EACH, 0, 0), ((1, 0),), ((0, 0),)),
        "Not strong: the run starts with [1, 0], the view after T1, and it should start with "
        "[0, 0].",
    ),
    _case(
        "half of a global transaction shows",
        GLOBAL,
        [(0, 0), (1, 0), (1, 1)],
        Level.WEAK,
        HalfTransaction(1, row(GLOBAL, 1, 0), ("T1",)),
        "Not strong: state 1, [1, 0], shows only a part of T1.",
    ),
    _case(
        "half of a later global transaction shows",
        GLOBAL_LAST,
        [(0, 0), (1, 0), (1, 1), (2, 1)],
        Level.WEAK,
        HalfTransaction(2, row(GLOBAL_LAST, 1, 1), ("T2",)),
        "Not strong: state 2, [1, 1], shows only a part of T2.",
    ),
    _case(
        "a state matches nothing",
        ONE_EACH,
        [(0, 0), (5, 5), (1, 1)],
        Level.CONVERGENT,
        MatchesNothing(1, row(ONE_EACH, 5, 5)),
        "Not weak: state 1, [5, 5], is the view of no state of the sources.",
    ),
    _case(
        "the initial state matches nothing",
        ONE_EACH,
        [(5, 5), (1, 1)],
        Level.CONVERGENT,
        MatchesNothing(0, row(ONE_EACH, 5, 5)),
        "Not weak: state 0, [5, 5], is the view of no state of the sources.",
    ),
    _case(
        "the last state is wrong",
        ONE_EACH,
        [(0, 0), (1, 0)],
        Level.NONE,
        NotConverged(row(ONE_EACH, 1, 0), row(ONE_EACH, 1, 1)),
        "Not convergent: the run ends with [1, 0], and it should be [1, 1].",
    ),
    _case(
        "the view leaves the right state again",
        ONE_EACH,
        [(0, 0), (1, 0), (1, 1), (1, 0)],
        Level.NONE,
        NotConverged(row(ONE_EACH, 1, 0), row(ONE_EACH, 1, 1)),
        "Not convergent: the run ends with [1, 0], and it should be [1, 1].",
    ),
]


@pytest.mark.parametrize(("history", "rows", "level", "witness", "sentence"), BROKEN)
def test_a_broken_run_has_a_level_a_witness_and_a_sentence(
    history: History,
    rows: list[tuple[int, ...]],
    level: Level,
    witness: Witness,
    sentence: str,
) -> None:
    found = judged(history, *rows)
    assert found.level == level
    assert found.witness == witness
    opening = f"{str(level).capitalize()}: {LEVEL_MEANINGS[level]}."
    assert explain(history, found) == f"{opening} {sentence}"


def test_an_empty_run_is_refused() -> None:
    with pytest.raises(AssertionError, match="at least the initial state"):
        check(ONE_EACH, [])


def test_counts_matter() -> None:
    doubled = [state + state for state in shown(ONE_EACH, (0, 0), (1, 1))]
    assert check(ONE_EACH, doubled).level == Level.NONE


def test_levels_are_read_as_they_are_written() -> None:
    assert [parse_level(str(level)) for level in Level] == list(Level)


# Properties beside the level


def test_pairs_in_order_need_not_fit_into_a_chain() -> None:
    history = counters("x", "x", "x", shown=BACK_TO_ONE).history
    found = judged(history, (0,), (1,), (2,), (1,), (2,)).properties
    assert (found["pairwise_consistency"], found["consistency"]) == (True, False)


def test_consistency_does_not_ask_for_convergence() -> None:
    found = judged(ONE_EACH, (0, 0), (1, 0)).properties
    assert (found["consistency"], found["strong_consistency"]) == (True, False)


def test_a_repeated_state_is_strong_but_not_in_strict_order() -> None:
    found = judged(ONE_EACH, (0, 0), (0, 0), (1, 1)).properties
    assert (found["strong_consistency"], found["strict_order"]) == (True, False)


def test_a_repeated_state_is_in_strict_order_if_a_transaction_without_effect_is_there() -> None:
    history = counters("y", "x", shown="x.n").history
    assert judged(history, (0,), (0,), (1,)).properties["strict_order"] is True


def test_every_view_shown_somewhere_is_not_yet_complete() -> None:
    history = counters("x", "x", "x", shown="x.n % 2 AS p").history
    found = judged(history, (0,), (1,)).properties
    assert (found["completeness_in_any_order"], found["completeness"]) == (True, False)


def test_order_consistency_does_not_ask_for_whole_transactions() -> None:
    found = judged(GLOBAL, (0, 0), (1, 0), (1, 1)).properties
    assert (found["order_consistency"], found["consistency"]) == (True, False)


def test_order_consistency_forbids_going_back_at_one_source() -> None:
    found = judged(GLOBAL, (0, 0), (1, 0), (0, 1), (1, 1)).properties
    assert (found["validity"], found["order_consistency"]) == (True, False)


def test_an_update_that_was_once_used_is_up_to_date_although_the_end_is_wrong() -> None:
    found = judged(ONE_EACH, (0, 0), (1, 0), (0, 1)).properties
    assert (found["up_to_dateness"], found["convergence"]) == (True, False)


def test_an_update_that_was_never_used_is_not_up_to_date() -> None:
    assert judged(ONE_EACH, (0, 0), (1, 0)).properties["up_to_dateness"] is False


def test_every_property_is_reported_in_the_order_of_the_list() -> None:
    assert list(judged(ONE_EACH, (0, 0)).properties) == [p.name for p in PROPERTIES]


def test_what_cannot_be_decided_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "MOST_VECTORS", 1)
    found = judged(ONE_EACH, (0, 0), (1, 0), (0, 1)).properties
    undecided = {name for name, value in found.items() if value is None}
    assert undecided == {"pairwise_consistency", "order_consistency", "up_to_dateness"}


def test_a_property_implies_only_properties_that_exist() -> None:
    names = {p.name for p in PROPERTIES}
    assert all(other in names for p in PROPERTIES for other in p.implies)
