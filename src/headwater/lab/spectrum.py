"""The consistency spectrum: every algorithm in every kind of scenario, measured.

Strobe paper, Figure 9.3. For each cell all schedules of a set of scenarios are explored: the
shipped examples of that kind and random ones. The level measured is the lowest of any
schedule, beside the level that the registry promises. A scenario with more than `MOST_STATES`
states (some of the basic ring's, where a token moves all the time) is run under seeded schedules
instead, and the cell says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.algorithms.registry import ALGORITHMS, SCENARIO_KINDS
from headwater.check.levels import Level
from headwater.errors import UnsupportedViewError
from headwater.lab.explore import Exploration, explore
from headwater.lab.generate import Shape, generate
from headwater.lab.library import example, example_names
from headwater.lab.run import run
from headwater.lab.scenario import Object, Scenario
from headwater.lab.schedules import seeded
from headwater.lab.simulate import run_to_replay, scenario_kind, simulate
from headwater.lab.world import Simulation

MOST_STATES = 20_000
SEEDED_RUNS = 100


@dataclass(frozen=True)
class Cell:
    """What one algorithm does in one kind of scenario."""

    algorithm: str
    kind: str
    promised: str
    measured: Level
    scenarios: int
    schedules: int
    counterexample: Object | None
    """The run that reached no more than `measured`, to be replayed; None if complete."""
    exhaustive: bool = True
    """Whether every schedule of every scenario was tried."""


def measure_spectrum(seeds: Iterable[int]) -> list[Cell]:
    seeds = list(seeds)
    scenarios = {kind: spectrum_scenarios(kind, seeds) for kind in SCENARIO_KINDS}
    return [_measure(name, kind, scenarios[kind]) for name in ALGORITHMS for kind in SCENARIO_KINDS]


def spectrum_scenarios(kind: str, seeds: Iterable[int]) -> list[Scenario]:
    """The scenarios that stand for a kind: examples, and random ones with and without keys."""
    real = "single-source" if kind == "centralized" else kind
    found = [s for s in map(example, example_names()) if scenario_kind(s) == real]
    sizes = [(2, True), (2, False), (3, False)]
    shapes = [Shape(real, r, sources=2, transactions=3, keys=keys) for r, keys in sizes]
    return found + [generate(seed, shape) for seed in seeds for shape in shapes]


def _measure(name: str, kind: str, scenarios: list[Scenario]) -> Cell:
    settings = {"timing": "serial"} if kind == "centralized" else {}
    measured, counterexample, schedules = Level.COMPLETE, None, 0
    count, exhaustive = 0, True
    for scenario in scenarios:
        try:
            simulation = simulate(scenario, name, settings)
        except UnsupportedViewError:
            continue  # a view without the keys that it needs
        found = _lowest(simulation)
        exhaustive = exhaustive and found.exhaustive
        count += 1
        schedules += found.schedules
        if found.level < measured:
            measured = found.level
            counterexample = run_to_replay(scenario, name, settings, found.counterexample)
    promised = ALGORITHMS[name].promises[kind]
    return Cell(name, kind, promised, measured, count, schedules, counterexample, exhaustive)


def _lowest(simulation: Simulation) -> Exploration:
    found = explore(simulation, MOST_STATES)
    if found.exhaustive:
        return found
    runs = [run(simulation, seeded(seed)) for seed in range(SEEDED_RUNS)]
    worst = min(runs, key=lambda done: done.verdict.level)
    level, schedule = worst.verdict.level, worst.schedule
    return Exploration(len(runs), found.states, level, schedule, exhaustive=False)
