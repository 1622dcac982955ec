"""Exploration against trying every schedule one by one, and what it finds of each algorithm."""

from collections.abc import Iterator

import pytest

from headwater.check.levels import Level
from headwater.lab.explore import explore
from headwater.lab.generate import KINDS, Shape, generate
from headwater.lab.library import example, example_names
from headwater.lab.run import run
from headwater.lab.scenario import Scenario, scenario_from_json
from headwater.lab.schedules import replayed, seeded
from headwater.lab.simulate import simulate
from headwater.lab.world import Move, Simulation, World
from tests.scenarios import counters

ALGORITHMS = ("conventional", "recompute", "copies")
SETTINGS: tuple[dict[str, str], ...] = (
    {},
    {"channels": "unordered"},
    {"timing": "serial"},
    {"integrator": "off"},
    {"report": "committer"},
    {"report": "numbered"},
)
SHAPES = [
    Shape("single-source", relations=2, transactions=2),
    Shape("multi-source", relations=2, sources=2, transactions=2),
    Shape("multi-source", relations=2, sources=2, transactions=2, keys=True),
    Shape("source-local", relations=3, sources=2, transactions=2),
    Shape("global", relations=2, sources=2, transactions=2),
]
MOST_SCHEDULES = 600


def all_schedules(simulation: Simulation) -> Iterator[tuple[Move, ...]]:
    """Every schedule, one after the other, none merged with another."""

    def longer(world: World, so_far: tuple[Move, ...]) -> Iterator[tuple[Move, ...]]:
        enabled = simulation.enabled(world)
        if not enabled:
            yield so_far
        for move in enabled:
            yield from longer(simulation.step(world, move)[0], (*so_far, move))

    return longer(simulation.start(), ())


def small_scenarios() -> list[Scenario]:
    named = [example(name) for name in example_names()]
    return named + [generate(seed, shape) for seed in range(3) for shape in SHAPES]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_exploring_agrees_with_trying_every_schedule(
    algorithm: str, settings: dict[str, str]
) -> None:
    tried = 0
    for scenario in small_scenarios():
        simulation = simulate(scenario, algorithm, settings)
        found = explore(simulation)
        if found.schedules > MOST_SCHEDULES:
            continue
        tried += 1
        runs = [run(simulation, replayed(schedule)) for schedule in all_schedules(simulation)]
        levels = [done.verdict.level for done in runs]
        assert (found.schedules, found.level) == (len(runs), min(levels)), scenario.name
        lowest = [len(done.schedule) for done in runs if done.verdict.level == found.level]
        if found.counterexample is not None:
            assert len(found.counterexample) == min(lowest)
    assert tried >= 8


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_counterexample_replays_to_the_level_found(algorithm: str) -> None:
    for scenario in small_scenarios():
        simulation = simulate(scenario, algorithm)
        found = explore(simulation)
        assert (found.counterexample is None) == (found.level == Level.COMPLETE)
        if found.counterexample is not None:
            done = run(simulation, replayed(found.counterexample))
            assert (done.verdict.level, done.schedule) == (found.level, found.counterexample)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_seeded_run_is_below_the_level_found(algorithm: str, settings: dict[str, str]) -> None:
    for scenario in small_scenarios()[:14]:
        simulation = simulate(scenario, algorithm, settings)
        lowest = explore(simulation).level
        for seed in range(10):
            assert run(simulation, seeded(seed)).verdict.level >= lowest, (scenario.name, seed)


def test_a_state_that_was_reached_in_two_ways_is_followed_once() -> None:
    scenario = counters("x", "x", "y", "y", shown="0 AS nothing")
    found = explore(simulate(scenario, "copies"))
    assert (found.schedules, found.states) == (6, 9)


def test_runs_with_one_world_and_different_pasts_are_kept_apart() -> None:
    """Both orders end alike, and only what the view showed tells them apart."""
    scenario = generate(4, Shape("multi-source", relations=2, sources=2, transactions=3))
    simulation = simulate(scenario, "conventional")
    levels = {run(simulation, replayed(s)).verdict.level for s in all_schedules(simulation)}
    assert len(levels) > 1
    assert explore(simulation).level == min(levels)


def test_a_bound_on_states_is_reported() -> None:
    simulation = simulate(example("strobe-0"), "conventional")
    assert explore(simulation).exhaustive
    assert not explore(simulation, 5).exhaustive


# What is known of the algorithms


@pytest.mark.parametrize("keys", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_copies_are_complete_in_every_schedule(kind: str, keys: bool) -> None:
    for seed in range(12):
        shape = Shape(kind, relations=2 + seed % 2, sources=2, transactions=4, keys=keys)
        found = explore(simulate(generate(seed, shape), "copies"))
        assert (found.level, found.exhaustive) == (Level.COMPLETE, True), (kind, seed)


@pytest.mark.parametrize("name", example_names())
def test_copies_repair_every_example(name: str) -> None:
    assert explore(simulate(example(name), "copies")).level == Level.COMPLETE


def test_conventional_fails_while_the_source_changes() -> None:
    for name in ("eca-2", "eca-3", "strobe-0"):
        assert explore(simulate(example(name), "conventional")).level == Level.NONE


@pytest.mark.parametrize("name", ["eca-1", "eca-2", "eca-3", "strobe-0"])
def test_conventional_is_complete_if_the_sources_wait(name: str) -> None:
    simulation = simulate(example(name), "conventional", {"timing": "serial"})
    assert explore(simulation).level == Level.COMPLETE


def recompute_levels(shape: Shape, **settings: str) -> list[Level]:
    return [explore(simulate(generate(s, shape), "recompute", settings)).level for s in range(12)]


@pytest.mark.parametrize("every", ["1", "2", "3"])
def test_recomputing_is_strong_over_one_source(every: str) -> None:
    levels = recompute_levels(Shape("single-source", relations=3, transactions=4), every=every)
    assert min(levels) == Level.STRONG


@pytest.mark.parametrize("condition", ["", " WHERE r1.A + r2.B > 0"])
def test_recomputing_is_strong_over_one_source_even_if_nothing_joins(condition: str) -> None:
    scenario = scenario_from_json(
        {
            "relations": {
                "r1": {"source": "x", "columns": {"A": "int"}, "rows": [[1]]},
                "r2": {"source": "x", "columns": {"B": "int"}, "rows": [[1]]},
            },
            "view": f"SELECT r1.A, r2.B FROM r1, r2{condition}",
            "transactions": [
                {"id": "T1", "updates": [{"relation": "r1", "insert": [2]}]},
                {"id": "T2", "updates": [{"relation": "r1", "update": [[2], [3]]}]},
                {"id": "T3", "updates": [{"relation": "r2", "update": [[1], [3]]}]},
            ],
        }
    )
    assert explore(simulate(scenario, "recompute")).level == Level.STRONG


@pytest.mark.parametrize("kind", ["multi-source", "source-local"])
def test_recomputing_is_strong_if_each_source_is_visited_once(kind: str) -> None:
    levels = recompute_levels(Shape(kind, relations=3, sources=3, transactions=3))
    assert min(levels) == Level.STRONG


def test_recomputing_is_only_convergent_if_a_source_is_visited_twice() -> None:
    found = explore(simulate(example("recompute-visits-twice"), "recompute"))
    assert found.level == Level.CONVERGENT


def test_recomputing_always_converges() -> None:
    levels = recompute_levels(Shape("source-local", relations=3, sources=2, transactions=3))
    assert min(levels) >= Level.CONVERGENT


def test_recomputing_shows_half_of_a_global_transaction() -> None:
    found = explore(simulate(example("recompute-half-a-transaction"), "recompute"))
    assert found.level == Level.WEAK


def test_recomputing_is_weak_beside_global_transactions_if_sources_are_visited_once() -> None:
    levels = recompute_levels(Shape("global", relations=2, sources=2, transactions=3))
    assert min(levels) == Level.WEAK
