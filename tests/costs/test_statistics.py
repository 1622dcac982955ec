from __future__ import annotations

import json

import pytest

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import INT
from headwater.costs.statistics import (
    ENOUGH,
    MEMORY_S,
    Counted,
    Loaded,
    RelationStatistics,
    SourceStatistics,
    Spent,
    Statistics,
    averaged,
    with_changes,
    with_questions,
)

KNOWN = Statistics(
    {"x.r": RelationStatistics(10.0, 24.0, {"a": 3.0}, 1.0, 2.0, 3.0, 60.0)},
    {"x": SourceStatistics(0.004, 1e-8, 7.0, 2.0, 60.0)},
    spent={"v": {"sweep": Spent(4.0, 200.0, 0.01, 50)}},
    loads={"v": Loaded(3.0, 1000.0)},
    paces={"v": 0.5},
)


def test_what_is_stored_is_what_is_read() -> None:
    stored = json.loads(json.dumps(KNOWN.to_json()))
    assert Statistics.from_json(stored).to_json() == KNOWN.to_json()


def test_statistics_from_before_loads_were_measured_are_read() -> None:
    stored = {n: v for n, v in KNOWN.to_json().items() if n not in ("loads", "paces")}
    found = Statistics.from_json(stored)
    assert (found.loads, found.paces) == ({}, {})
    assert found.spent == KNOWN.spent


@pytest.mark.parametrize(
    "damage",
    [
        {"format": 2},
        {"relations": {"x.r": {"rows": "many"}}},
        {"relations": {"x.r": {"rows": -1}}},
        {"relations": {"x.r": {"lines": 1}}},
        {"sources": []},
        {"prices": {"commit_s": None, "commit_s2": 1}},
        {"spent": {"v": 3}},
        {"loads": {"v": {"seconds": "long", "rows": 1}}},
        {"paces": {"v": True}},
    ],
)
def test_other_contents_are_refused(damage: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Statistics.from_json({**KNOWN.to_json(), **damage})
    with pytest.raises(ValueError, match=r"\w"):
        Statistics.from_json([])


def test_the_first_count_takes_the_place_of_what_was_assumed() -> None:
    first = with_changes(RelationStatistics(), Counted(10.0, {"deletes": 20}))
    assert (first.inserts, first.deletes, first.updates) == (0.0, 2.0, 0.0)
    source = with_questions(SourceStatistics(), Counted(10.0, {}, 40, 8, 30, 0.02))
    assert (source.transactions, source.together, source.question_s) == (4.0, 5.0, 0.02)


def test_later_counts_weigh_by_their_time_and_old_ones_fade() -> None:
    assert averaged(1.0, 3.0, observed_s=10.0, elapsed_s=10.0) == 2.0
    assert averaged(1.0, 3.0, observed_s=100 * MEMORY_S, elapsed_s=MEMORY_S) == 2.0


def test_a_few_slow_questions_are_not_taken_for_typical_because_time_has_passed() -> None:
    known = with_questions(SourceStatistics(), Counted(10.0, {}, 100, 100, 99, 0.001))
    later = with_questions(known, Counted(100.0, {}, 100, 100, 1, 0.1))
    assert later.question_s == pytest.approx(0.002, rel=0.01)
    assert later.questions == 100


def test_a_quiet_source_is_watched_too() -> None:
    assert not Statistics().is_observed(("x",))
    quiet = with_questions(SourceStatistics(), Counted(10.0))
    busy = with_questions(SourceStatistics(), Counted(10.0, {}, ENOUGH, ENOUGH))
    assert Statistics({}, {"x": quiet, "y": busy}).is_observed(("x", "y"))
    assert not Statistics({}, {"y": busy}).is_observed(("x", "y"))
    assert not Statistics({}, {"x": quiet}).is_observed(("x",))
    assert quiet.question_s == SourceStatistics().question_s


def test_unknown_columns_have_half_as_many_values_as_rows_and_keys_as_many() -> None:
    relation = Relation("x.r", "x", Schema.of([("k", INT), ("a", INT)]), ("k",))
    known = RelationStatistics(1000.0, distinct={"b": 5000.0})
    found = [known.different(relation, column) for column in ("k", "a", "b")]
    assert found == [1000.0, 500.0, 1000.0]
