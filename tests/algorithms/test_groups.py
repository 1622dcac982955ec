"""Groups of views: every shown state is that of all members at one vector, over all schedules.

Two views that are maintained apart keep their levels each by itself, and yet are seen together in
states that belong to no vector: the counterexample is kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from headwater.algebra.evaluate import evaluate_shown, evaluate_view
from headwater.algebra.sql.view import parse_group, parse_view
from headwater.algebra.views import View
from headwater.algorithms.registry import ALGORITHMS, algorithm, make_manager
from headwater.check.levels import Level, parse_level
from headwater.errors import ScenarioError
from headwater.lab.explore import explore
from headwater.lab.generate import Shape, generate
from headwater.lab.run import run
from headwater.lab.scenario import Scenario, scenario_from_json
from headwater.lab.schedules import parse_schedule, replayed
from headwater.lab.simulate import simulate
from headwater.lab.world import Simulation
from headwater.protocol.effects import Ask, Effect
from headwater.protocol.events import AnswerArrived, Event
from headwater.protocol.look_ups import LookUp
from headwater.protocol.managers import Need, ViewManager
from tests.scenarios import COUNTEREXAMPLES

COUNTEREXAMPLE = COUNTEREXAMPLES / "group-members-apart.json"
GROUPS = {
    "a table and a join": {
        "a": "SELECT A1, B1 FROM r1",
        "b": "SELECT A1, B2 FROM r1, r2 WHERE B1 = A2",
    },
    "two sums": {
        "a": "SELECT COUNT(*) AS n, SUM(B1) AS s FROM r1",
        "b": "SELECT B2, COUNT(*) AS n FROM r2 GROUP BY B2",
    },
    "over one join": {
        "a": "SELECT A1, COUNT(*) AS n FROM r1 JOIN r2 ON B1 = A2 GROUP BY A1",
        "b": "SELECT DISTINCT B2 FROM r2 y JOIN r1 x ON x.B1 = y.A2",
    },
    "padded and not": {
        "a": "SELECT A1, B2 FROM r1 LEFT JOIN r2 ON B1 = A2",
        "b": "SELECT A2 FROM r2 WHERE NOT EXISTS (SELECT 1 FROM r1 WHERE B1 = A2)",
    },
}
TRIED = sorted(
    name for name, found in ALGORITHMS.items() if not found.needs & {Need.KEYS, Need.MESSAGES}
)


def scenario_of(group: Mapping[str, str], seed: int, kind: str = "multi-source") -> Scenario:
    shape = Shape(kind, relations=2, sources=1 + (kind == "multi-source"), transactions=3)
    data = {k: v for k, v in generate(seed, shape).data.items() if k != "view"}
    return scenario_from_json(data | {"group": dict(group)})


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS.keys())
@pytest.mark.parametrize("name", TRIED)
def test_members_are_shown_at_one_vector(name: str, group: dict[str, str]) -> None:
    kind = "single-source" if Need.ONE_SOURCE in ALGORITHMS[name].needs else "multi-source"
    promised = parse_level(ALGORITHMS[name].promises[kind])
    if promised == Level.NONE:
        pytest.skip("promises nothing where updates meet")
    for seed in range(2):
        found = explore(simulate(scenario_of(group, seed, kind), name))
        assert found.level >= promised, f"seed {seed}: {found.counterexample}"


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS.keys())
def test_a_member_shows_what_it_would_by_itself(group: dict[str, str]) -> None:
    for seed in range(10):
        scenario = scenario_of(group, seed)
        known = tuple(scenario.relations.values())
        whole = parse_group([(name, sql, known) for name, sql in group.items()], "g")
        stored = evaluate_view(whole, scenario.initial)
        for member in whole.members:
            alone = parse_view(group[member.name], known)
            shown = whole.of_member(member).shown(stored)
            assert shown == evaluate_shown(alone, scenario.initial)
            assert set(member.relations) == {relation.name for relation in alone.relations}


def test_members_over_the_same_join_store_it_once() -> None:
    scenario = scenario_of(GROUPS["over one join"], 0)
    assert len(scenario.view.joins) == 1


def test_a_scenario_has_a_view_or_a_group() -> None:
    data = scenario_of(GROUPS["two sums"], 0).data
    with pytest.raises(ScenarioError, match="has a view and a group"):
        scenario_from_json(data | {"view": "SELECT A1 FROM r1"})
    with pytest.raises(ScenarioError, match=r"group\.a: .*there is no relation"):
        scenario_from_json(data | {"group": {"a": "SELECT x FROM nowhere"}})


# Apart


@dataclass(frozen=True)
class Apart:
    """Each join of a group maintained by a manager of its own, beside the others."""

    view: View
    managers: tuple[ViewManager[Any], ...]

    def start(self) -> tuple[Any, ...]:
        return tuple(manager.start() for manager in self.managers)

    def handle(
        self, state: tuple[Any, ...], event: Event
    ) -> tuple[tuple[Any, ...], tuple[Effect, ...]]:
        after, effects = list(state), list[Effect]()
        for at, manager in enumerate(self.managers):
            mine: Event | None = event
            if isinstance(event, AnswerArrived):
                number, _, label = event.label.partition(":")
                mine = replace(event, label=label) if number == str(at) else None
            if mine is not None:
                after[at], told = manager.handle(state[at], mine)
                effects += [
                    replace(e, label=f"{at}:{e.label}") if isinstance(e, Ask) else e for e in told
                ]
        return tuple(after), tuple(effects)

    def looks_up(self, state: tuple[Any, ...], event: Event) -> tuple[LookUp, ...]:
        return ()

    def wants_idle(self, state: tuple[Any, ...]) -> bool:
        return False


def apart(scenario: Scenario, name: str) -> Simulation:
    managers = tuple(
        make_manager(algorithm(name), replace(scenario.view, joins=(join,)), {})
        for join in scenario.view.joins
    )
    return Simulation(scenario, Apart(scenario.view, managers))


def test_views_apart_are_seen_in_states_that_belong_to_no_vector() -> None:
    kept = json.loads(COUNTEREXAMPLE.read_text())
    schedule = parse_schedule(kept.pop("schedule"))
    scenario = scenario_from_json(kept)
    found = run(apart(scenario, "sweep"), replayed(schedule))
    assert found.verdict.level == Level.CONVERGENT
    assert explore(simulate(scenario, "sweep")).level == Level.COMPLETE


def test_the_counterexample_is_the_shortest() -> None:
    kept = json.loads(COUNTEREXAMPLE.read_text())
    schedule = kept.pop("schedule")
    found = explore(apart(scenario_from_json(kept), "sweep"))
    assert list(map(str, found.counterexample or ())) == schedule
