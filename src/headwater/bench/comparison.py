"""Algorithms compared as the PVM paper's Table 4 does: level, messages, quiescence; measured.

Messages per update are counted on a chain of relations, one at each source, when updates are
far apart and when all of them happen before the first answer. Whether an algorithm needs
the sources to fall silent is found by never letting them: before every answer there is one
more update at the source that answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from headwater.algorithms.registry import ALGORITHMS
from headwater.check.levels import Level
from headwater.errors import UnsupportedViewError
from headwater.lab.explore import explore
from headwater.lab.generate import chain
from headwater.lab.run import run
from headwater.lab.scenario import Scenario
from headwater.lab.simulate import simulate
from headwater.lab.spectrum import spectrum_scenarios
from headwater.lab.virtual_time import run_timed
from headwater.lab.world import Move, Simulation, World


@dataclass(frozen=True)
class Compared:
    """One row of the table."""

    algorithm: str
    level: Level
    """The lowest over all schedules of single updates at several sources."""
    quiet: tuple[float, ...]
    """Questions and answers per update, by number of relations, with updates far apart."""
    busy: tuple[float, ...]
    """The same with all updates before the first answer."""
    needs_quiescence: bool


def comparable() -> list[str]:
    """The algorithms that maintain views over several sources, and the conventional one.

    Not those in which the sources take part and nobody asks: see `papers.rings`.
    """
    return [
        name
        for name, algorithm in ALGORITHMS.items()
        if algorithm.nodes is None
        and (name == "conventional" or algorithm.promises["multi-source"] != "none")
    ]


def compare(names: Sequence[str], relations: Sequence[int], updates: int = 12) -> list[Compared]:
    scenarios = spectrum_scenarios("multi-source", range(6))
    return [
        Compared(
            name,
            _lowest(name, scenarios),
            tuple(_messages(name, count, updates, serial=True) for count in relations),
            tuple(_messages(name, count, updates, serial=False) for count in relations),
            needs_quiescence(simulate(chain(3, 24, deletions=False), name)),
        )
        for name in names
    ]


def _lowest(name: str, scenarios: Sequence[Scenario]) -> Level:
    """The lowest level over all schedules of the scenarios that it can maintain."""
    found = Level.COMPLETE
    for scenario in scenarios:
        with suppress(UnsupportedViewError):
            found = min(found, explore(simulate(scenario, name)).level)
    return found


def _messages(name: str, relations: int, updates: int, *, serial: bool) -> float:
    scenario = chain(relations, updates)
    if serial:
        simulation = simulate(scenario, name, {"timing": "serial"})
        return run(simulation, lambda enabled: enabled[0]).trace.message_count / updates
    return 2 * len(run_timed(simulate(scenario, name)).served) / updates


def needs_quiescence(simulation: Simulation) -> bool:
    """Whether the view does not change before the updates stop."""
    world = simulation.start()
    while commits := [a for a in simulation.enabled(world) if a.kind == "commit"]:
        world, step = simulation.step(world, _in_the_way(simulation, world, commits))
        changed = bool(step.shown)
        answers = [a for a in simulation.enabled(world) if a.kind == "answer"]
        if answers:
            world, step = simulation.step(world, answers[0])
            changed = changed or bool(step.shown)
        if changed and _some_left(simulation, world):
            return False
    return True


def _in_the_way(simulation: Simulation, world: World, commits: Sequence[Move]) -> Move:
    """An update at a source that has a question to answer, if there is one."""
    asked = {source for at, source in enumerate(simulation.history.sources) if world.questions[at]}
    return next((move for move in commits if move.source in asked), commits[0])


def _some_left(simulation: Simulation, world: World) -> bool:
    return any(move.kind == "commit" for move in simulation.enabled(world))
