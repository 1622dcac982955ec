"""The consistency spectrum: every algorithm in every kind of scenario, measured.

Strobe paper, Figure 9.3. For each cell all schedules of a set of scenarios are explored: the
shipped examples of that kind and random ones. The level measured is the lowest of any
schedule, beside the level that the registry promises. Below complete there is a run that does
not reach the next higher level. A scenario with more than `MOST_STATES` states (some of the basic
ring's, where a token moves all the time) is run under seeded schedules instead, and the cell says
so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from headwater.algorithms.registry import ALGORITHMS, SCENARIO_KINDS
from headwater.check.levels import Level, parse_level
from headwater.errors import UnsupportedViewError
from headwater.lab.explore import Exploration, explore
from headwater.lab.generate import Shape, generate
from headwater.lab.library import example, example_names
from headwater.lab.run import run
from headwater.lab.scenario import Object, Scenario, scenario_from_json
from headwater.lab.schedules import seeded
from headwater.lab.shrink import shrink_scenario
from headwater.lab.simulate import run_to_replay, scenario_kind, simulate
from headwater.lab.world import Simulation

MOST_STATES = 20_000
SEEDED_RUNS = 100


@dataclass(frozen=True)
class Cell:
    """What one algorithm does in one kind of scenario."""

    algorithm: str
    kind: str
    promised: Level
    measured: Level
    scenarios: int
    schedules: int
    counterexample: Object | None
    """The shortest run found that reached no more than `measured`, to be replayed; None if
    complete."""
    exhaustive: bool = True
    """Whether every schedule of every scenario was tried."""

    @property
    def is_kept(self) -> bool:
        return self.measured >= self.promised


def measure_spectrum(
    seeds: Iterable[int],
    algorithms: Sequence[str] = tuple(ALGORITHMS),
    kinds: Sequence[str] = SCENARIO_KINDS,
) -> Iterator[Cell]:
    """The cells of these algorithms and kinds, one after the other as they are measured."""
    seeds = list(seeds)
    scenarios = {kind: spectrum_scenarios(kind, seeds) for kind in kinds}
    for name in algorithms:
        for kind in kinds:
            yield _measure(name, kind, scenarios[kind])


def spectrum_scenarios(kind: str, seeds: Iterable[int]) -> list[Scenario]:
    """The scenarios that stand for a kind: examples, and random ones with and without keys."""
    real = "single-source" if kind == "centralized" else kind
    found = [s for s in map(example, example_names()) if scenario_kind(s) == real]
    shapes = [
        Shape(real, 2, sources=2, transactions=3, keys=True),
        Shape(real, 2, sources=2, transactions=3),
        Shape(real, 3, sources=2, transactions=3),
        Shape(real, 3, sources=2, transactions=3, keys=True, comes_back=True),
    ]
    return found + [generate(seed, shape) for seed in seeds for shape in shapes]


def _settings(kind: str) -> dict[str, str]:
    return {"timing": "serial"} if kind == "centralized" else {}


def _measure(name: str, kind: str, scenarios: list[Scenario]) -> Cell:
    promised = parse_level(ALGORITHMS[name].promises[kind])
    cell = Cell(name, kind, promised, Level.COMPLETE, 0, 0, None)
    shortest = 0
    for scenario in scenarios:
        try:
            simulation = simulate(scenario, name, _settings(kind))
        except UnsupportedViewError:
            continue  # a view without the keys that it needs
        found = _lowest(simulation)
        cell = replace(
            cell,
            scenarios=cell.scenarios + 1,
            schedules=cell.schedules + found.schedules,
            exhaustive=cell.exhaustive and found.exhaustive,
        )
        steps = found.counterexample or ()
        if steps and (found.level, len(steps)) < (cell.measured, shortest):
            shown = run_to_replay(scenario, name, _settings(kind), steps)
            cell, shortest = replace(cell, measured=found.level, counterexample=shown), len(steps)
    return cell


def shrunk(cell: Cell) -> Cell:
    """The cell with a counterexample that has nothing in it that is not needed."""
    if cell.counterexample is None:
        return cell
    settings = _settings(cell.kind)

    def fails(scenario: Scenario) -> bool:
        return _lowest(simulate(scenario, cell.algorithm, settings)).level == cell.measured

    small = shrink_scenario(scenario_from_json(cell.counterexample), fails)
    steps = _lowest(simulate(small, cell.algorithm, settings)).counterexample
    return replace(cell, counterexample=run_to_replay(small, cell.algorithm, settings, steps))


def _lowest(simulation: Simulation) -> Exploration:
    found = explore(simulation, MOST_STATES)
    if found.exhaustive:
        return found
    runs = [run(simulation, seeded(seed)) for seed in range(SEEDED_RUNS)]
    worst = min(runs, key=lambda done: done.verdict.level)
    level = worst.verdict.level
    schedule = None if level == Level.COMPLETE else worst.schedule
    return Exploration(len(runs), found.states, level, schedule, exhaustive=False)
