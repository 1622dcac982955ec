"""The Strobe paper's bounds and what it says of efficiency, counted."""

from __future__ import annotations

from math import factorial

import pytest

from headwater.bench.papers.frame import Size
from headwater.bench.papers.strobe import run
from headwater.bench.papers.strobe_counted import (
    at_two_sources,
    compensating,
    cost,
    one_update_at_a_time,
    orders,
    under_updates,
)
from headwater.lab.generate import chain


@pytest.mark.parametrize("relations", [2, 3, 4])
def test_by_sets_of_relations_the_bound_that_holds_is_reached(relations: int) -> None:
    assert compensating(relations, "set") == 2 ** (relations - 1) - 2


def test_by_relation_as_printed_more_are_asked_than_the_printed_bound_says() -> None:
    assert compensating(4, "order") == 9 > factorial(3)


def test_one_update_between_question_and_answer_leads_to_more_than_one_question() -> None:
    assert one_update_at_a_time() == 2


def test_far_apart_the_family_costs_what_the_conventional_algorithm_does() -> None:
    conventional = under_updates("conventional", 12, 4)
    for name in ("strobe", "t-strobe", "c-strobe"):
        assert under_updates(name, 12, 4) == conventional


def test_without_silence_strobe_changes_the_view_at_the_end_and_c_strobe_after_every_update() -> (
    None
):
    assert under_updates("strobe", 36, 0.5).steps == 1
    assert under_updates("c-strobe", 36, 0.5).steps == 36


def test_a_batch_that_waits_to_be_full_has_a_best_size() -> None:
    late = [under_updates("c-strobe", 36, 0.5, {"every": b}).late for b in ("1", "8", "32")]
    assert late[1] < min(late[0], late[2])


def test_key_information_and_copies_save_all_questions_about_known_partners() -> None:
    assert cost([orders()], {}, 1).messages == 4
    assert cost([orders()], {"local": "on"}, 1).messages == 0
    assert cost([orders(copies=True)], {}, 1).messages == 0


def test_what_one_source_is_asked_goes_together() -> None:
    four, two = [chain(4, 8, deletions=False)], [at_two_sources(8)]
    assert cost(two, {}, 1).messages < cost(four, {}, 1).messages


def test_every_claim_has_its_figure() -> None:
    figures = {figure.name: figure for figure in run(Size(), lambda step: None)}
    assert list(figures) == ["7", "9 (continuous updates)", "9 (enhancements)", "9 (batches)"]
    assert all(figure.records for figure in figures.values())
