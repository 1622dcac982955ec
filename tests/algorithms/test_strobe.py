"""Strobe and T-Strobe keep their promises over several sources, with keys in the view."""

from __future__ import annotations

import os
from random import Random

import pytest

from headwater.check.levels import Level
from headwater.errors import UnsupportedViewError
from headwater.lab.explore import explore
from headwater.lab.generate import Shape, generate
from headwater.lab.library import example
from headwater.lab.scenario import Scenario
from headwater.lab.simulate import simulate

SEEDS = range(200) if os.environ.get("HEADWATER_STRESS") == "1" else range(40)


def random_scenario(seed: int, kind: str) -> Scenario:
    random = Random(seed)
    shape = Shape(
        kind=kind,
        relations=2,
        sources=2,
        transactions=3,
        keys=True,
        by_key=random.random() < 0.5,
    )
    return generate(seed, shape)


@pytest.mark.parametrize(
    ("name", "kind", "promised"),
    [
        ("strobe", "multi-source", Level.STRONG),
        ("strobe", "source-local", Level.CONVERGENT),
        ("strobe", "global", Level.CONVERGENT),
        ("t-strobe", "multi-source", Level.STRONG),
        ("t-strobe", "source-local", Level.STRONG),
        ("t-strobe", "global", Level.WEAK),
    ],
)
def test_keeps_its_promise_over_all_schedules(name: str, kind: str, promised: Level) -> None:
    for seed in SEEDS:
        found = explore(simulate(random_scenario(seed, kind), name))
        assert found.level >= promised, f"seed {seed}: {found.counterexample}"


def test_strobe_shows_the_middle_of_a_transaction() -> None:
    assert explore(simulate(example("strobe-3"), "strobe")).level == Level.CONVERGENT
    assert explore(simulate(example("strobe-3"), "t-strobe")).level == Level.COMPLETE


def test_t_strobe_shows_half_of_a_global_transaction() -> None:
    assert explore(simulate(example("strobe-4"), "t-strobe")).level == Level.WEAK


def test_remembered_deletion_repairs_the_anomaly() -> None:
    assert explore(simulate(example("strobe-0"), "conventional")).level == Level.NONE
    assert explore(simulate(example("strobe-0"), "strobe")).level >= Level.STRONG


def test_view_without_keys_is_refused_with_the_keys_that_are_missing() -> None:
    with pytest.raises(UnsupportedViewError, match="strobe needs the key of every relation"):
        simulate(example("pvm-6"), "strobe")
