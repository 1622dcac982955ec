"""What the Rings protocols need: each part left out, or as printed, is caught."""

from __future__ import annotations

import pytest

from headwater.check.levels import Level
from headwater.lab.explore import explore
from headwater.lab.run import run
from headwater.lab.scenario import Scenario
from headwater.lab.schedules import parse_schedule, replayed
from headwater.lab.simulate import simulate
from headwater.lab.weakened.rings import ANNOUNCED, WEAKENED
from tests.scenarios import COUNTEREXAMPLES, load_scenarios


def kept(name: str) -> Scenario:
    (scenario,) = load_scenarios(COUNTEREXAMPLES / f"{name}.json")
    return scenario


@pytest.mark.parametrize("name", WEAKENED)
def test_weakened_form_is_caught_by_its_counterexample(name: str) -> None:
    scenario = kept(name)
    done = run(WEAKENED[name](scenario), replayed(parse_schedule(scenario.data["schedule"])))
    assert {"level": str(done.verdict.level)} == scenario.data["expect"]
    assert done.verdict.level < Level.STRONG


@pytest.mark.parametrize("name", WEAKENED)
@pytest.mark.parametrize("shipped", ["rings", "rings-star"])
def test_shipped_form_holds_where_the_weakened_one_fails(name: str, shipped: str) -> None:
    assert explore(simulate(kept(name), shipped)).level >= Level.STRONG


def test_parts_by_themselves_are_right_if_the_empty_ones_are_announced() -> None:
    found = explore(ANNOUNCED(kept("rings-leaves-out-empty-parts")))
    assert found.level >= Level.STRONG
