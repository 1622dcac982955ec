"""A Rings protocol as one view manager, as the running system hosts it, keeps its level."""

from __future__ import annotations

from random import Random

import pytest

from headwater.algorithms.registry import algorithm, make_hosted
from headwater.check.levels import Level
from headwater.lab.explore import explore
from headwater.lab.generate import Shape, generate
from headwater.lab.scenario import Scenario
from headwater.lab.world import Simulation
from tests.scenarios import counters

PROTOCOLS = ("rings", "rings-star")


def hosted(scenario: Scenario, name: str, **settings: str) -> Simulation:
    """The lab gives it channels that keep order, and no nodes."""
    manager = make_hosted(algorithm(name), scenario.view, settings)
    return Simulation(scenario, manager, integrator=None)


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("steps", ["xxx", "xyxy", "xyzx"])
def test_every_update_is_taken_in_by_a_manager_with_its_nodes(name: str, steps: str) -> None:
    scenario = counters(*steps, sources="".join(sorted(set(steps))))
    found = explore(hosted(scenario, name))
    assert found.exhaustive
    assert found.level >= Level.STRONG, found.counterexample


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("kind", ["single-source", "multi-source", "source-local"])
def test_random_joins_are_strong_over_all_schedules(name: str, kind: str) -> None:
    for seed in range(8):
        random = Random(seed)
        shape = Shape(
            kind,
            relations=random.randint(2, 3),
            sources=2,
            transactions=random.randint(2, 3),
            self_join=random.random() < 0.3,
            terms=random.randint(1, 2),
        )
        found = explore(hosted(generate(seed, shape), name))
        assert found.level >= Level.STRONG, f"seed {seed}: {found.counterexample}"


@pytest.mark.parametrize("refresh", ["quantity", "period", "query"])
def test_what_nobody_asks_for_is_taken_in_when_nothing_goes_on(refresh: str) -> None:
    scenario = counters("x", "y", "x", sources="xy")
    found = explore(hosted(scenario, "rings-star", refresh=refresh))
    assert found.exhaustive
    assert found.level >= Level.STRONG, found.counterexample
