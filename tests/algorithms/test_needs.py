"""What algorithms declare to need is what they use, whatever their parameters."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from headwater.algorithms.registry import ALGORITHMS, Algorithm
from headwater.errors import UnsupportedViewError
from headwater.lab.generate import Shape, generate
from headwater.lab.scenario import Scenario
from headwater.lab.schedules import seeded
from headwater.lab.simulate import simulate
from headwater.lab.spectrum import spectrum_scenarios
from headwater.lab.world import Simulation, Step
from headwater.protocol.effects import Action, AddNew, Apply, KeyDelete, Replace, Send
from headwater.protocol.events import TransactionArrived
from headwater.protocol.managers import Need

OF_ACTIONS: dict[type[Action], Need] = {
    AddNew: Need.BY_KEY,
    KeyDelete: Need.BY_KEY,
    Replace: Need.REPLACE,
}
NOT_SEEN_IN_RUNS = {Need.ONE_SOURCE, Need.KEYS, Need.SILENCE, Need.SPANS}
"""What promises depend on; without it an algorithm runs all the same, or refuses the view."""
OTHER_SETTINGS = {
    "every": ["3"],
    "local": ["on"],
    "parts": ["held"],
    "handle": ["nested-sweep", "posse"],
    "refresh": ["quantity", "period", "query"],
    "gather": ["off"],
    "batch": ["3"],
}


def settings_of(algorithm: Algorithm) -> Iterator[dict[str, str]]:
    yield {}
    for name in algorithm.parameters:
        yield from ({name: other} for other in OTHER_SETTINGS.get(name, ()))


@cache
def scenarios() -> list[Scenario]:
    kinds = ("single-source", "multi-source", "source-local")
    by_key = [
        generate(seed, Shape(k, 2, 2, keys=True, by_key=True)) for k in kinds for seed in (1, 2)
    ]
    return [s for kind in kinds for s in spectrum_scenarios(kind, range(2))] + by_key


def used(simulation: Simulation, seed: int) -> Iterator[Need]:
    choose, world = seeded(seed), simulation.start()
    waiting: dict[str, str] = {}
    while enabled := simulation.enabled(world):
        move = choose(enabled)
        world, step = simulation.step(world, move)
        if move.kind in ("idle", "wake"):
            yield Need.IDLE
        if step.consulted:
            yield Need.COPIES
        yield from used_in(step, waiting)


def used_in(step: Step, waiting: dict[str, str]) -> Iterator[Need]:
    """`waiting` has the transactions that arrived and are not in the view, and their sources."""
    for event, effects in step.handled:
        if isinstance(event, TransactionArrived):
            waiting[event.transaction.id] = event.transaction.sources[0]
            if event.seen is not None:
                yield Need.CONTENTS
        for effect in effects:
            if isinstance(effect, Send):
                yield Need.MESSAGES
            if isinstance(effect, Apply):
                yield from (OF_ACTIONS[type(a)] for a in effect.actions if type(a) in OF_ACTIONS)
                shown = {name: waiting[name] for name in effect.transactions if name in waiting}
                for source in shown.values():
                    order = [name in shown for name, of in waiting.items() if of == source]
                    if order != sorted(order, reverse=True):
                        yield Need.EARLY
                for name in shown:
                    del waiting[name]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_needs_what_it_declares_and_nothing_else(name: str) -> None:
    algorithm = ALGORITHMS[name]
    lab = {"timing": "serial"} if Need.SILENCE in algorithm.needs else {}
    found: set[Need] = set()
    declared: set[Need] = set()
    for settings in settings_of(algorithm):
        used_so: set[Need] = set()
        for seed, scenario in enumerate(scenarios()):
            try:
                simulation = simulate(scenario, name, lab | settings)
            except UnsupportedViewError:
                continue
            used_so.update(used(simulation, seed))
        assert used_so <= algorithm.needs_with(settings), settings
        found |= used_so
        declared |= algorithm.needs_with(settings)
    assert found == declared - NOT_SEEN_IN_RUNS
