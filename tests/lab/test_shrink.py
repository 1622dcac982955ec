"""Shrinking keeps the failure, never grows, and stops only where every cut repairs it."""

from collections.abc import Iterator
from typing import Any

import pytest

from headwater.check.levels import Level
from headwater.errors import ScenarioError
from headwater.lab.explore import explore
from headwater.lab.generate import Shape, generate
from headwater.lab.library import example
from headwater.lab.run import run
from headwater.lab.scenario import Object, Scenario, scenario_from_json
from headwater.lab.schedules import replayed, seeded
from headwater.lab.shrink import shrink_scenario, shrink_schedule
from headwater.lab.simulate import simulate
from headwater.lab.world import Simulation
from tests.scenarios import GONE, edited

SHAPES = [
    Shape("single-source", relations=2, transactions=4),
    Shape("multi-source", relations=3, sources=3, transactions=3),
    Shape("source-local", relations=3, sources=2, transactions=3),
]


def fails(scenario: Scenario) -> bool:
    return explore(simulate(scenario, "conventional")).level == Level.NONE


def failing() -> list[Scenario]:
    found = [generate(seed, shape) for shape in SHAPES for seed in range(4)]
    return [scenario for scenario in found if fails(scenario)]


def size(scenario: Scenario) -> tuple[int, int, int]:
    data: Any = scenario.data
    return (
        len(data["transactions"]),
        sum(len(transaction["updates"]) for transaction in data["transactions"]),
        sum(len(relation["rows"]) for relation in data["relations"].values()),
    )


def cuts(data: Any) -> Iterator[Object]:
    """Everything that can be left out, one thing at a time."""
    for at, transaction in enumerate(data["transactions"]):
        yield edited(data, ("transactions", at), GONE)
        for number in range(len(transaction["updates"])):
            yield edited(data, ("transactions", at, "updates", number), GONE)
    for name, relation in data["relations"].items():
        for at in range(len(relation["rows"])):
            yield edited(data, ("relations", name, "rows", at), GONE)


def valid(data: Object) -> Scenario | None:
    try:
        return scenario_from_json(data)
    except ScenarioError:
        return None


def test_there_are_failing_scenarios_to_shrink() -> None:
    assert len(failing()) >= 8


def test_a_shrunk_scenario_still_fails_and_is_no_larger() -> None:
    for scenario in failing():
        small = shrink_scenario(scenario, fails)
        assert fails(small)
        pairs = zip(size(small), size(scenario), strict=True)
        assert all(now <= before for now, before in pairs)


def test_nothing_more_can_be_left_out() -> None:
    for scenario in failing():
        small = shrink_scenario(scenario, fails)
        smaller = [s for data in cuts(small.data) if (s := valid(data))]
        assert not any(fails(s) for s in smaller), small.data


def test_shrinking_makes_something_smaller() -> None:
    assert any(size(shrink_scenario(s, fails)) < size(s) for s in failing())


def test_the_scenario_that_is_shrunk_stays_as_it_was() -> None:
    scenario = failing()[0]
    before = edited(scenario.data, ("name",), scenario.name)
    shrink_scenario(scenario, fails)
    assert scenario.data == before


def test_what_does_not_fail_any_smaller_is_left_alone() -> None:
    scenario = failing()[0]
    assert shrink_scenario(scenario, lambda smaller: False) is scenario


@pytest.fixture(scope="module", params=["eca-2", "eca-3", "strobe-0", "random"])
def simulation(request: pytest.FixtureRequest) -> Simulation:
    name = str(request.param)
    scenario = generate(3, SHAPES[0]) if name == "random" else example(name)
    return simulate(scenario, "conventional")


@pytest.mark.parametrize("seed", range(10))
def test_a_calm_schedule_has_the_same_steps_and_the_same_level(
    simulation: Simulation, seed: int
) -> None:
    before = run(simulation, seeded(seed))
    calm = shrink_schedule(simulation, before.schedule)
    after = run(simulation, replayed(calm))
    assert sorted(map(str, calm)) == sorted(map(str, before.schedule))
    assert (after.schedule, after.verdict.level) == (calm, before.verdict.level)


@pytest.mark.parametrize("seed", range(10))
def test_no_answer_of_a_calm_schedule_could_come_earlier(simulation: Simulation, seed: int) -> None:
    calm = shrink_schedule(simulation, run(simulation, seeded(seed)).schedule)
    level = run(simulation, replayed(calm)).verdict.level
    for at in range(len(calm) - 1):
        if (calm[at].kind, calm[at + 1].kind) == ("commit", "answer"):
            swapped = (*calm[:at], calm[at + 1], calm[at], *calm[at + 2 :])
            try:
                done = run(simulation, replayed(swapped))
            except ScenarioError:
                continue
            assert done.schedule != swapped or done.verdict.level != level
