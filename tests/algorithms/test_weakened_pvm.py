"""What PVM needs: each part left out, or as printed, is caught by a kept counterexample."""

from __future__ import annotations

import pytest

from headwater.algebra.evaluate import evaluate_term
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import bind_delta, query_of
from headwater.algebra.values import INT
from headwater.algorithms.pvm import State
from headwater.check.levels import parse_level
from headwater.lab.explore import explore
from headwater.lab.library import example
from headwater.lab.run import run
from headwater.lab.scenario import Scenario
from headwater.lab.schedules import parse_schedule, replayed
from headwater.lab.simulate import simulate
from headwater.lab.weakened.pvm import REPAIRED, WEAKENED, CleansUpTooEarly
from headwater.lab.world import Simulation, World
from tests.scenarios import COUNTEREXAMPLES, load_scenarios


def kept(name: str) -> Scenario:
    (scenario,) = load_scenarios(COUNTEREXAMPLES / f"{name}.json")
    return scenario


@pytest.mark.parametrize("name", WEAKENED)
def test_weakened_form_is_caught_by_its_counterexample(name: str) -> None:
    scenario = kept(name)
    schedule = parse_schedule(scenario.data["schedule"])
    done = run(WEAKENED[name](scenario), replayed(schedule))
    expected = scenario.data["expect"]
    assert isinstance(expected, dict)
    assert str(done.verdict.level) == expected["level"]
    assert done.verdict.level < parse_level(REPAIRED[name][2])
    assert done.verdict.witness is not None


@pytest.mark.parametrize("name", WEAKENED)
def test_shipped_form_holds_where_the_weakened_one_fails(name: str) -> None:
    algorithm, settings, promised = REPAIRED[name]
    found = explore(simulate(kept(name), algorithm, settings))
    assert found.level >= parse_level(promised)


def updates_remembered_at_the_end(simulation: Simulation) -> int:
    """The most over all schedules."""
    found: list[int] = []

    def look(world: World) -> None:
        assert isinstance(world.manager, State)
        found.append(len(world.manager.log))

    explore(simulation, inspect=look)
    return max(found)


def test_cleaning_up_too_early_never_empties_the_related_set() -> None:
    scenario = example("pvm-6")
    early = Simulation(scenario, CleansUpTooEarly(scenario.view, p=2))
    assert updates_remembered_at_the_end(early) > 0
    assert updates_remembered_at_the_end(simulate(scenario, "pvm")) == 0


def test_probe_over_two_relations_of_a_source_cannot_be_compensated_locally() -> None:
    """Same partial, same update received, same answer: two different right results."""
    p = Relation("p", "w", Schema.of([("K", INT)]))
    a = Relation("a", "x", Schema.of([("K", INT), ("L", INT)]))
    b = Relation("b", "x", Schema.of([("L", INT), ("M", INT)]))
    sql = "SELECT p.K, b.M FROM p, a, b WHERE p.K = a.K AND a.L = b.L"
    (term,) = query_of(parse_view(sql, [p, a, b]))
    probe = bind_delta(term, 0, Rows.of(p.schema, [[1]]))
    update = Rows.of(a.schema, [[1, 7]])

    before_one = {"a": Rows.empty(a.schema), "b": Rows.of(b.schema, [[7, 5]])}
    before_two = {"a": Rows.of(a.schema, [[1, 8]]), "b": Rows.of(b.schema, [[8, 5]])}
    answers, wanted = [], []
    for before in (before_one, before_two):
        after = {**before, "a": before["a"] + update}
        answers.append(evaluate_term(probe, after))
        wanted.append(evaluate_term(probe, before))
    assert answers[0] == answers[1]
    assert wanted[0] != wanted[1]
