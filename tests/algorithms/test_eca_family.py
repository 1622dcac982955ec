"""ECA, ECA-Key, ECA-Local and LCA keep their promises over one source; weakened forms do not."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from headwater.algebra.views import View
from headwater.algorithms.eca import State
from headwater.algorithms.registry import algorithm, make_manager
from headwater.check.levels import Level
from headwater.errors import UnsupportedViewError
from headwater.lab.explore import explore
from headwater.lab.generate import Shape, generate
from headwater.lab.library import example, example_names
from headwater.lab.run import run
from headwater.lab.scenario import Scenario
from headwater.lab.schedules import parse_schedule, replayed, seeded
from headwater.lab.simulate import simulate
from headwater.lab.weakened.eca import (
    CompensatesByParts,
    ForgetsDeletions,
    InstallsEarly,
    WithoutCompensation,
)
from headwater.lab.world import Simulation
from headwater.protocol.effects import apply_actions
from headwater.protocol.managers import ViewManager
from headwater.protocol.trace import Trace
from tests.scenarios import COUNTEREXAMPLES, load_scenarios

STRESS = os.environ.get("HEADWATER_STRESS") == "1"
SEEDS = range(1500) if STRESS else range(300)


def random_scenario(seed: int, keys: bool | None = None) -> Scenario:
    """One source: with and without keys, re-inserted keys, duplicates, `W > Z`, self-joins."""
    random = Random(seed)
    keyed = random.random() < 0.5 if keys is None else keys
    shape = Shape(
        kind=random.choice(["single-source", "source-local"]),
        relations=random.choice([1, 2, 2, 3]),
        sources=1,
        transactions=random.choice([3, 4, 5] if STRESS else [3, 4]),
        keys=keyed,
        by_key=random.random() < 0.5,
        self_join=not keyed and random.random() < 0.25,
    )
    return generate(seed, shape)


@pytest.mark.parametrize(
    ("name", "promised"),
    [("eca", Level.STRONG), ("eca-local", Level.STRONG), ("lca", Level.COMPLETE)],
)
def test_keeps_its_promise_over_all_schedules(name: str, promised: Level) -> None:
    for seed in SEEDS:
        found = explore(simulate(random_scenario(seed), name))
        assert found.level >= promised, f"seed {seed}: {found.counterexample}"


@pytest.mark.parametrize("name", ["eca", "eca-key", "eca-local"])
@pytest.mark.parametrize("batch", ["2", "9"])
def test_is_strong_when_transactions_wait_for_each_other(name: str, batch: str) -> None:
    for seed in SEEDS[::3]:
        scenario = random_scenario(seed, True if name == "eca-key" else None)
        found = explore(simulate(scenario, name, {"batch": batch}))
        assert found.level >= Level.STRONG, f"seed {seed}: {found.counterexample}"


@pytest.mark.parametrize("name", ["eca", "eca-local"])
def test_a_backlog_costs_two_questions(name: str) -> None:
    scenario = generate(3, Shape("single-source-local", relations=3, transactions=8))
    steps = parse_schedule(["commit s1"] * 8 + ["answer s1"] * 2)
    done = run(simulate(scenario, name, {"batch": "100"}), replayed(steps))
    assert questions(done.trace) == 4
    assert done.verdict.level >= Level.STRONG


def test_repaired_eca_key_is_strong_over_all_schedules() -> None:
    for seed in SEEDS:
        found = explore(simulate(random_scenario(seed, keys=True), "eca-key"))
        assert found.level >= Level.STRONG, f"seed {seed}: {found.counterexample}"


@pytest.mark.parametrize("name", ["eca", "eca-local", "lca", "eca-key"])
def test_keeps_its_promise_on_the_papers_examples(name: str) -> None:
    tried = 0
    for shipped in map(example, example_names()):
        if len(shipped.sources) > 1:
            continue
        try:
            found = explore(simulate(shipped, name))
        except UnsupportedViewError:
            continue
        tried += 1
        assert found.level >= (Level.COMPLETE if name == "lca" else Level.STRONG), shipped.name
    assert tried


def test_eca_is_not_complete() -> None:
    assert explore(simulate(example("eca-8"), "eca")).level == Level.STRONG


def test_eca_key_says_which_keys_are_missing() -> None:
    with pytest.raises(
        UnsupportedViewError, match=r"missing: r1 \(has no key\), r2 \(has no key\)"
    ):
        simulate(example("eca-2"), "eca-key")


# Asking less


def questions(trace: Trace) -> int:
    return trace.message_count


@pytest.mark.parametrize("seed", range(60))
def test_eca_local_never_asks_more_than_eca(seed: int) -> None:
    scenario = random_scenario(seed)
    for schedule in range(10):
        local = run(simulate(scenario, "eca-local"), seeded(schedule)).trace
        plain = run(simulate(scenario, "eca"), seeded(schedule)).trace
        assert questions(local) <= questions(plain)


def test_eca_local_does_without_asking_for_deletions_by_key() -> None:
    """Example 5's relations: the deletion is not asked for, the insertions are."""
    trace = run(simulate(example("eca-5"), "eca-local"), seeded(4)).trace
    assert questions(trace) == 4


def test_eca_local_finds_partners_in_the_view() -> None:
    """An order's customer is known from another order's row: nothing is asked."""
    asked = {
        name: sum(
            questions(run(simulate(random_scenario(seed, keys=True), name), seeded(4)).trace)
            for seed in range(60)
        )
        for name in ("eca", "eca-key", "eca-local")
    }
    assert asked["eca-local"] < asked["eca-key"] < asked["eca"]


# The papers' examples, with COLLECT after each answer

COLLECTED = {
    "eca-4": ["∅", "∅", "∅", "[4]", "([1], [4])", "∅"],
    "eca-7": ["∅", "∅", "∅", "∅", "[1]", "∅"],
    "eca-8": ["∅", "∅", "∅", "∅"],
    "eca-9": ["∅", "∅", "-[4]", "∅"],
}
"""COLLECT after each event; it is emptied when the view is updated, at the last answer."""


@pytest.mark.parametrize("name", COLLECTED)
def test_collect_is_what_the_paper_says_after_each_step(name: str) -> None:
    scenario = example(name)
    simulation = simulate(scenario, "eca")
    world, collected = simulation.start(), []
    for action in parse_schedule(scenario.data["schedule"]):
        world, _ = simulation.step(world, action)
        assert isinstance(world.manager, State)
        collected.append(repr(world.manager.collect))
    assert collected == COLLECTED[name]


def test_collect_of_eca_key_is_the_view_with_the_action_list_applied() -> None:
    scenario = example("eca-5")
    simulation = simulate(scenario, "eca-key")
    world, collected = simulation.start(), []
    for action in parse_schedule(scenario.data["schedule"]):
        world, _ = simulation.step(world, action)
        collected.append(repr(apply_actions(world.view, world.manager.actions)))
    assert collected == ["[1, 3]", "[1, 3]", "∅", "[3, 4]", "([3, 3], [3, 4])"]


# Weakened forms

Make = Callable[[View], ViewManager[Any]]


def lowest(make: Make, scenarios: list[Scenario]) -> Level:
    return min(explore(Simulation(s, make(s.view))).level for s in scenarios)


@pytest.mark.parametrize(
    ("make", "level"),
    [(WithoutCompensation, Level.NONE), (InstallsEarly, Level.CONVERGENT)],
    ids=["without compensation", "installs early"],
)
def test_weakened_eca_keeps_what_the_paper_predicts(make: Make, level: Level) -> None:
    """Section 5.2: without compensation anomalies; installing early is only convergent."""
    scenarios = [random_scenario(seed) for seed in range(60)]
    assert lowest(make, scenarios) == level


def test_compensating_a_transaction_by_the_sum_of_its_parts_is_caught() -> None:
    scenarios = [s for s in map(random_scenario, range(60)) if _several_relations(s)]
    below = [s for s in scenarios if lowest(CompensatesByParts, [s]) < Level.STRONG]
    assert len(below) > len(scenarios) / 4


def _several_relations(scenario: Scenario) -> bool:
    return any(len(t.deltas) > 1 for t in scenario.transactions)


def test_eca_key_as_printed_is_caught_by_its_counterexample() -> None:
    (scenario,) = load_scenarios(COUNTEREXAMPLES / "eca-key-as-printed.json")
    schedule = replayed(parse_schedule(scenario.data["schedule"]))
    printed = ForgetsDeletions(scenario.view, whole_transactions=True)
    done = run(Simulation(scenario, printed), schedule)
    assert done.verdict.level < Level.STRONG
    assert explore(simulate(scenario, "eca-key")).level >= Level.STRONG


def test_registered_managers_are_the_ones_tested() -> None:
    view = example("eca-5").view
    for name in ("eca", "eca-key", "eca-local", "lca"):
        assert make_manager(algorithm(name), view, {}).view is view
