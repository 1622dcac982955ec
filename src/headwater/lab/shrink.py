"""Shrinking: a small scenario, and a calm schedule, that still fail in the same way."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from headwater.errors import ExpressionError, HeadwaterError, ScenarioError
from headwater.lab.run import run
from headwater.lab.scenario import Object, Scenario, scenario_from_json
from headwater.lab.schedules import replayed
from headwater.lab.world import Move, Simulation


def shrink_scenario(scenario: Scenario, fails: Callable[[Scenario], bool]) -> Scenario:
    """The scenario with as much left out as possible while `fails` still says yes.

    `fails` is called often, on valid scenarios only; it must be deterministic.
    """
    while smaller := next((s for s in _smaller(scenario) if _fails(fails, s)), None):
        scenario = smaller
    return scenario


def _fails(fails: Callable[[Scenario], bool], scenario: Scenario) -> bool:
    try:
        return fails(scenario)
    except ExpressionError:
        return False  # another failure than the one to keep


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    for data in _cuts(scenario.data):
        try:
            yield scenario_from_json(data, scenario.name)
        except HeadwaterError:
            continue  # for example a deletion whose insertion was left out


def _cuts(data: Object) -> Iterator[Object]:
    """The scenario without one transaction, without one update, without one row."""
    for at in range(len(_at(data, "transactions"))):
        yield _without(data, ("transactions",), at)
    for at, transaction in enumerate(_at(data, "transactions")):
        if len(transaction["updates"]) > 1:
            for number in range(len(transaction["updates"])):
                yield _without(data, ("transactions", at, "updates"), number)
    for name, relation in _at(data, "relations").items():
        for at in range(len(relation.get("rows", []))):
            yield _without(data, ("relations", name, "rows"), at)


def _at(data: Object, *path: str | int) -> Any:
    found: Any = data
    for key in path:
        found = found[key]
    return found


def _without(data: Object, path: tuple[str | int, ...], at: int) -> Object:
    changed = copy.deepcopy(data)
    changed.pop("schedule", None)
    del _at(changed, *path)[at]
    return changed


def shrink_schedule(simulation: Simulation, schedule: tuple[Move, ...]) -> tuple[Move, ...]:
    """The schedule with answers as early as possible at the same level: the fewest surprises."""
    level = run(simulation, replayed(schedule)).verdict.level
    at = 0
    while at + 1 < len(schedule):
        if schedule[at].kind == "commit" and schedule[at + 1].kind != "commit":
            swapped = (*schedule[:at], schedule[at + 1], schedule[at], *schedule[at + 2 :])
            if _level_of(simulation, swapped) == level:
                schedule, at = swapped, max(at - 1, 0)
                continue
        at += 1
    return schedule


def _level_of(simulation: Simulation, schedule: tuple[Move, ...]) -> object:
    try:
        done = run(simulation, replayed(schedule))
    except ScenarioError:
        return None  # not possible in this order
    return done.verdict.level if done.schedule == schedule else None
