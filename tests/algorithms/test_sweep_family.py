"""SWEEP, Nested SWEEP, POSSE, PVM and PVM CC keep the levels that they promise."""

from __future__ import annotations

import os
from random import Random

import pytest

from headwater.algorithms.pvm import State
from headwater.check.levels import Level, parse_level
from headwater.lab.explore import explore
from headwater.lab.generate import KINDS, Shape, generate
from headwater.lab.library import example, example_names
from headwater.lab.scenario import Scenario
from headwater.lab.simulate import simulate
from headwater.lab.world import World

CONFIGURATIONS: list[tuple[str, dict[str, str], Level]] = [
    ("sweep", {}, Level.COMPLETE),
    ("sweep", {"batch": "3"}, Level.STRONG),
    ("sweep", {"order": "least"}, Level.COMPLETE),
    ("nested-sweep", {}, Level.STRONG),
    ("nested-sweep", {"depth": "1"}, Level.STRONG),
    ("posse", {}, Level.COMPLETE),
    ("posse", {"policy": "sequential"}, Level.COMPLETE),
    ("posse", {"policy": "adjacent"}, Level.COMPLETE),
    ("posse", {"policy": "concurrent"}, Level.COMPLETE),
    ("pvm", {"p": "2"}, Level.CONVERGENT),
    ("pvm", {"p": "3", "handle": "posse"}, Level.CONVERGENT),
    ("pvm", {"p": "2", "handle": "nested-sweep"}, Level.CONVERGENT),
    ("pvm-cc", {"p": "2"}, Level.COMPLETE),
    ("pvm-cc", {"p": "3", "order": "least"}, Level.COMPLETE),
    ("pvm-cc", {"p": "3"}, Level.COMPLETE),
    ("pvm-cc", {"p": "2", "handle": "nested-sweep"}, Level.STRONG),
    ("pvm-cc", {"p": "3", "handle": "posse", "policy": "concurrent"}, Level.COMPLETE),
    ("pvm-cc", {"p": "2", "batch": "2"}, Level.STRONG),
]
IDS = ["-".join([name, *settings.values()]) for name, settings, _ in CONFIGURATIONS]

STRESS = os.environ.get("HEADWATER_STRESS") == "1"
SEEDS = range(400) if STRESS else range(80)


def random_scenario(seed: int) -> Scenario:
    """With and without keys, duplicates, self-joins, several relations at a source."""
    random = Random(seed)
    again = random.random() < 0.25
    shape = Shape(
        kind=random.choice(KINDS),
        relations=random.choice([1, 2] if again else [2, 2, 3, 4]),
        sources=random.choice([2, 3]),
        transactions=random.choice([3, 4, 5] if STRESS else [3, 3, 4]),
        keys=random.random() < 0.2,
        self_join=again,
    )
    return generate(seed, shape)


def nothing_is_left(world: World) -> None:
    """When all is quiet no count is negative and no update is remembered."""
    state = world.manager
    assert isinstance(state, State)
    assert not world.view.negative()
    assert state.log == ()
    assert not state.waiting
    assert state.units == ()


@pytest.mark.parametrize(("name", "settings", "promised"), CONFIGURATIONS, ids=IDS)
def test_keeps_its_promise_over_all_schedules_of_random_scenarios(
    name: str, settings: dict[str, str], promised: Level
) -> None:
    found = {Level.COMPLETE: 0}
    for seed in SEEDS:
        scenario = random_scenario(seed)
        result = explore(simulate(scenario, name, settings), inspect=nothing_is_left)
        assert result.exhaustive
        assert result.level >= promised, f"seed {seed}: {result.counterexample}"
        found[result.level] = found.get(result.level, 0) + 1
    if promised < Level.COMPLETE:
        assert len(found) > 1, "no scenario shows the difference: the promise is too low"


@pytest.mark.parametrize(("name", "settings", "promised"), CONFIGURATIONS, ids=IDS)
def test_keeps_its_promise_over_all_schedules_of_the_examples(
    name: str, settings: dict[str, str], promised: Level
) -> None:
    for shipped in example_names():
        result = explore(simulate(example(shipped), name, settings), inspect=nothing_is_left)
        assert result.level >= promised, f"{shipped}: {result.counterexample}"


@pytest.mark.parametrize("name", ["sweep", "posse", "pvm-cc"])
def test_complete_also_on_unordered_channels_is_not_claimed(name: str) -> None:
    """FIFO is an assumption: without it even these algorithms go wrong."""
    lowest = min(
        explore(simulate(random_scenario(seed), name, {"channels": "unordered"}), 20_000).level
        for seed in range(6)
    )
    assert lowest < parse_level("complete")
