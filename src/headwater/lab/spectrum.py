"""The consistency spectrum: every algorithm in every kind of scenario, measured.

Strobe paper, Figure 9.3. For each cell all schedules of a set of scenarios are explored: the
shipped examples of that kind and random ones. The level measured is the lowest of any
schedule, beside the level that the registry promises. Below complete there is a run that does
not reach the next higher level. A scenario with more than `MOST_STATES` states (some of the basic
ring's, where a token moves all the time) is run under seeded schedules instead, and the cell says
so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

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
    settings: Mapping[str, str] = field(default_factory=dict)
    """The settings of the lab that it was measured with."""

    @property
    def is_kept(self) -> bool:
        return self.measured >= self.promised


def measure_spectrum(
    seeds: Iterable[int],
    algorithms: Sequence[str] = tuple(ALGORITHMS),
    kinds: Sequence[str] = SCENARIO_KINDS,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Cell]:
    """The cells of these algorithms and kinds, one after the other as they are measured.

    With other settings of the lab than its own nothing is promised.
    """
    seeds = list(seeds)
    scenarios = {kind: spectrum_scenarios(kind, seeds) for kind in kinds}
    for name in algorithms:
        for kind in kinds:
            yield measure(name, kind, scenarios[kind], settings)


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


def small_scenarios(kind: str, seeds: Iterable[int] = range(6)) -> list[Scenario]:
    """Random scenarios of a kind with keys, so small that every schedule can be tried even where
    nearly all of them are possible."""
    shape = Shape(kind, 2, sources=2, transactions=3, keys=True)
    return [generate(seed, shape) for seed in seeds]


def some_key_scenarios(kind: str, seeds: Iterable[int], keeps_keys: bool) -> list[Scenario]:
    """Scenarios of a kind whose views show the keys of some relations only."""
    shapes = [
        Shape(kind, 2, sources=2, transactions=3, keys=True, some_keys=True),
        Shape(kind, 3, sources=2, transactions=3, keys=True, some_keys=True, comes_back=True),
    ]
    found = [generate(seed, shape) for seed in seeds for shape in shapes]
    return [scenario_from_json(s.data | {"keep_keys": keeps_keys}, s.name) for s in found]


def _settings(kind: str) -> dict[str, str]:
    return {"timing": "serial"} if kind == "centralized" else {}


def measure(
    name: str, kind: str, scenarios: list[Scenario], other: Mapping[str, str] | None = None
) -> Cell:
    """One algorithm in scenarios of a kind, perhaps with other settings of the lab than its own."""
    promised = Level.NONE if other else parse_level(ALGORITHMS[name].promises[kind])
    settings = _settings(kind) | dict(other or {})
    cell = Cell(name, kind, promised, Level.COMPLETE, 0, 0, None, settings=settings)
    shortest = 0
    for scenario in scenarios:
        try:
            simulation = simulate(scenario, name, settings)
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
            shown = run_to_replay(scenario, name, settings, steps)
            cell, shortest = replace(cell, measured=found.level, counterexample=shown), len(steps)
    return cell


def shrunk(cell: Cell) -> Cell:
    """The cell with a counterexample that has nothing in it that is not needed."""
    if cell.counterexample is None:
        return cell
    settings = cell.settings

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
