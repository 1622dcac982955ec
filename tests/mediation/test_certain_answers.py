"""Answers of rewritten queries, and those that are certain by definition."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headwater.algebra.evaluate import evaluate_shown
from headwater.algebra.sql.view import parse_view
from headwater.errors import SqlError
from headwater.mediation import unification
from headwater.mediation.unification import Bindings
from tests.mediation.certain import Instance, Row, Setting, certain, how_many, in_every_instance
from tests.mediation.random_settings import (
    answer_of,
    random_facts,
    random_setting,
    relations_of,
    state_of,
)

EXAMPLES = settings(max_examples=max(1, settings().max_examples * 2))
SEEDS = st.integers(0, 2**32 - 1)
MOST_INSTANCES = 20_000


def answers(setting: Setting, facts: Instance) -> set[Row]:
    try:
        sql = answer_of(setting).sql
    except SqlError as error:
        if "no source can ever answer the query" in str(error):
            return set()
        raise
    view = parse_view(sql, relations_of(setting))
    return set(evaluate_shown(view, state_of(setting, facts)))  # type: ignore[arg-type]  # values


def values_for(setting: Setting, facts: Instance) -> list[int | None]:
    """Those that occur, NULL, and as many further ones as are unknown, so that all may differ."""
    unknown = how_many(setting, facts) + 1
    values: list[int | None] = [-1, 0, 1, 2, None, *range(10, 10 + unknown)]
    assume(len(values) ** (unknown - 1) <= MOST_INSTANCES)
    return values


@given(seed=SEEDS)
@EXAMPLES
def test_the_answers_are_those_that_are_certain(seed: int) -> None:
    random = Random(seed)
    setting = random_setting(random)
    facts = random_facts(random, setting)
    assert answers(setting, facts) == certain(setting, facts, values_for(setting, facts))


@given(seed=SEEDS)
@EXAMPLES
def test_with_comparisons_no_answer_is_shown_that_is_not_certain(seed: int) -> None:
    random = Random(seed)
    setting = random_setting(random, comparisons=True)
    facts = random_facts(random, setting)
    assert answers(setting, facts) <= certain(setting, facts, values_for(setting, facts))


@given(seed=SEEDS)
@settings(max_examples=max(1, settings().max_examples // 4))
def test_the_definition_by_choices_is_the_one_by_all_instances(seed: int) -> None:
    random = Random(seed)
    setting = random_setting(random)
    facts = frozenset(
        (name, tuple(min(value, 1) if value is not None else 0 for value in row))
        for name, row in random_facts(random, setting, 1)
    )
    assume("v" not in setting.tables)
    values = [0, 1, 10]
    assert certain(setting, facts, values) == in_every_instance(setting, facts, values)


def test_an_unknown_value_taken_for_any_other_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def same(self: Bindings, a: object, b: object) -> Bindings | None:
        found = plain(self, a, b)  # type: ignore[arg-type]  # expressions
        return self if found is None else found

    plain = Bindings.same
    monkeypatch.setattr(unification.Bindings, "same", same)
    wrong = 0
    for seed in range(200):
        random = Random(seed)
        setting = random_setting(random, inner=False)
        facts = random_facts(random, setting, 1)
        values = [0, 1, 2, None, 10, 11]
        if how_many(setting, facts) <= 2:
            wrong += not answers(setting, facts) <= certain(setting, facts, values)
    assert wrong
