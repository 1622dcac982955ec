"""Strobe and T-Strobe keep their promises over several sources, with keys in the view."""

from __future__ import annotations

import os
from random import Random

import pytest

from headwater.algebra.rows import Rows
from headwater.algebra.values import Json
from headwater.algorithms.strobe import State
from headwater.check.levels import Level
from headwater.errors import UnsupportedViewError
from headwater.lab.explore import explore
from headwater.lab.generate import Shape, chain, generate
from headwater.lab.library import example
from headwater.lab.run import run
from headwater.lab.scenario import Scenario, scenario_from_json
from headwater.lab.schedules import parse_schedule, replayed, seeded
from headwater.lab.simulate import simulate
from headwater.lab.virtual_time import run_timed
from headwater.lab.weakened.strobe import LooksIntoTheViewAsItWas
from headwater.lab.world import Simulation, Step
from headwater.protocol.effects import Action, AddNew, Apply, KeyDelete
from headwater.protocol.trace import Trace
from tests.scenarios import COUNTEREXAMPLES, load_scenarios

STRESS = os.environ.get("HEADWATER_STRESS") == "1"
SEEDS = range(250) if STRESS else range(40)
OPTIONS = [
    {"order": "least"},
    {"local": "on"},
    {"batch": "2"},
    {"batch": "3"},
    {"fetch": "on"},
    {"order": "least", "local": "on", "fetch": "on", "batch": "2"},
]


def random_scenario(seed: int, kind: str) -> Scenario:
    random = Random(seed)
    shape = Shape(
        kind=kind,
        relations=2,
        sources=2,
        transactions=3,
        keys=True,
        by_key=random.random() < 0.5,
    )
    return generate(seed, shape)


# Promises


@pytest.mark.parametrize(
    ("name", "kind", "promised"),
    [
        ("strobe", "multi-source", Level.STRONG),
        ("strobe", "source-local", Level.CONVERGENT),
        ("strobe", "global", Level.CONVERGENT),
        ("t-strobe", "multi-source", Level.STRONG),
        ("t-strobe", "source-local", Level.STRONG),
        ("t-strobe", "global", Level.WEAK),
    ],
)
def test_keeps_its_promise_over_all_schedules(name: str, kind: str, promised: Level) -> None:
    for seed in SEEDS[:: 4 if kind == "global" else 1]:
        found = explore(simulate(random_scenario(seed, kind), name))
        assert found.level >= promised, f"seed {seed}: {found.counterexample}"


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(
    ("name", "kind"),
    [("strobe", "multi-source"), ("t-strobe", "source-local"), ("g-strobe", "global")],
)
def test_no_option_lowers_the_level(name: str, kind: str, options: dict[str, str]) -> None:
    for seed in SEEDS[:: 1 if STRESS else 2]:
        relations = 2 + seed // 2 % 2
        shape = Shape(kind, relations, 2, 6 - relations, keys=True, by_key=seed % 3 != 0)
        found = explore(simulate(generate(seed, shape), name, options))
        assert found.level >= Level.STRONG, f"seed {seed}: {found.counterexample}"


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options_go_together_with_numbered_reports(options: dict[str, str]) -> None:
    for seed in SEEDS[:: 1 if STRESS else 2]:
        settings = {"report": "numbered", **options}
        found = explore(simulate(random_scenario(seed, "global"), "g-strobe", settings))
        assert found.level >= Level.STRONG, f"seed {seed}: {found.counterexample}"


def test_strobe_shows_the_middle_of_a_transaction() -> None:
    assert explore(simulate(example("strobe-3"), "strobe")).level == Level.CONVERGENT
    assert explore(simulate(example("strobe-3"), "t-strobe")).level == Level.COMPLETE


def test_t_strobe_shows_half_of_a_global_transaction() -> None:
    assert explore(simulate(example("strobe-4"), "t-strobe")).level == Level.WEAK


def test_remembered_deletion_repairs_the_anomaly() -> None:
    assert explore(simulate(example("strobe-0"), "conventional")).level == Level.NONE
    assert explore(simulate(example("strobe-0"), "strobe")).level >= Level.STRONG


def test_view_without_keys_is_refused_with_the_keys_that_are_missing() -> None:
    with pytest.raises(UnsupportedViewError, match="strobe needs the key of every relation"):
        simulate(example("pvm-6"), "strobe")


# Action lists, as the paper has them after each step

ACTION_LISTS = {
    ("strobe-2", "strobe"): [
        "⟨⟩",
        "⟨⟩",
        "⟨key_delete(A = 1)⟩",
        "⟨key_delete(A = 1)⟩ applied",
    ],
    ("strobe-3", "strobe"): ["⟨key_delete(A = 1)⟩ applied, ⟨insert([3, 4])⟩ applied"],
    ("strobe-3", "t-strobe"): ["⟨key_delete(A = 1), insert([3, 4])⟩ applied"],
    ("strobe-4", "t-strobe"): [
        "⟨⟩",
        "⟨⟩",
        "⟨insert([1, 3, 5])⟩ applied",
        "⟨key_delete(C = 4)⟩",
        "⟨key_delete(C = 4), insert([2, 3, 5])⟩ applied",
    ],
}


@pytest.mark.parametrize(("name", "algorithm"), ACTION_LISTS)
def test_the_action_list_is_what_the_paper_says_after_each_step(name: str, algorithm: str) -> None:
    scenario = example(name)
    held = {"parts": "held"} if algorithm == "t-strobe" else {}
    simulation = simulate(scenario, algorithm, held)
    world, lists = simulation.start(), []
    for action in parse_schedule(scenario.data["schedule"]):
        world, step = simulation.step(world, action)
        assert isinstance(world.manager, State)
        lists.append(applied(step) or shown(world.manager.actions))
    assert lists == ACTION_LISTS[name, algorithm]


def applied(step: Step) -> str:
    effects = [effect for _, effects in step.handled for effect in effects]
    return ", ".join(f"{shown(e.actions)} applied" for e in effects if isinstance(e, Apply))


def shown(actions: tuple[Action, ...]) -> str:
    return f"⟨{', '.join(map(shown_action, actions))}⟩"


def shown_action(action: Action) -> str:
    match action:
        case KeyDelete(columns=(column,), keys=((key,),)):
            return f"key_delete({column} = {key!r})"
        case AddNew(rows=rows):
            return f"insert({rows!r})"
    raise AssertionError(action)


# What saves questions


def orders() -> Scenario:
    """Lines of orders of customers, each at a site of its own; an order has many lines."""
    lines: list[Json] = [[number, number // 5] for number in range(20)]
    return scenario_from_json(
        {
            "relations": {
                "lines": {
                    "source": "x",
                    "columns": {"line": "int", "of": "int"},
                    "key": ["line"],
                    "rows": lines,
                },
                "orders": {
                    "source": "y",
                    "columns": {"id": "int", "customer": "int"},
                    "key": ["id"],
                    "rows": [[0, 7]],
                },
                "customers": {
                    "source": "z",
                    "columns": {"number": "int", "vip": "int"},
                    "key": ["number"],
                    "rows": [[7, 1], [8, 0]],
                },
            },
            "view": "SELECT line, id, number, vip FROM lines, orders, customers "
            "WHERE lines.of = orders.id AND orders.customer = customers.number",
            "transactions": [
                {"id": "T1", "updates": [{"relation": "orders", "insert": [1, 8]}]},
                {"id": "T2", "updates": [{"relation": "orders", "insert": [2, 9]}]},
                {"id": "T3", "updates": [{"relation": "lines", "insert": [20, 0]}]},
            ],
        }
    )


def traces(scenario: Scenario, options: dict[str, str]) -> list[Trace]:
    return [run(simulate(scenario, "strobe", options), seeded(seed)).trace for seed in range(20)]


def test_all_queries_of_a_transaction_for_one_source_go_in_one_message() -> None:
    """Both insertions at x need r2 at y, then x again: one question each time."""
    scenario = scenario_from_json(
        {
            "relations": {
                "r1": {"source": "x", "columns": {"A": "int", "B": "int"}, "key": ["A"]},
                "r2": {
                    "source": "y",
                    "columns": {"B": "int", "C": "int"},
                    "key": ["B", "C"],
                    "rows": [[2, 3]],
                },
                "r3": {"source": "x", "columns": {"C": "int", "D": "int"}, "key": ["D"]},
            },
            "view": "SELECT A, r1.B, r2.C, D FROM r1, r2, r3 WHERE r1.B = r2.B AND r2.C = r3.C",
            "transactions": [
                {
                    "id": "T1",
                    "updates": [
                        {"relation": "r1", "insert": [1, 2]},
                        {"relation": "r3", "insert": [3, 4]},
                    ],
                }
            ],
        }
    )
    asked = {
        name: run(simulate(scenario, name), seeded(4)).trace.message_count
        for name in ("strobe", "t-strobe")
    }
    assert asked == {"strobe": 8, "t-strobe": 4}


def test_the_order_least_moves_fewer_bytes_where_many_rows_refer_to_one() -> None:
    """An order's customer is asked for first, by key; without one the lines never are."""
    scenario = orders()
    plain, least = traces(scenario, {}), traces(scenario, {"order": "least"})
    for before, after in zip(plain, least, strict=True):
        assert after.byte_count < before.byte_count
        assert after.message_count < before.message_count
        assert after.states[-1] == before.states[-1]


def test_an_insertion_whose_partners_the_view_shows_is_not_asked_for() -> None:
    plain, local = traces(orders(), {}), traces(orders(), {"local": "on"})
    for before, after in zip(plain, local, strict=True):
        assert after.message_count == before.message_count - 4
        assert after.states[-1] == before.states[-1]


def test_partners_are_looked_up_in_the_view_with_the_action_list_applied() -> None:
    (scenario,) = load_scenarios(COUNTEREXAMPLES / "strobe-local-as-printed.json")
    printed = Simulation(scenario, LooksIntoTheViewAsItWas(scenario.view, local=True))
    done = run(printed, replayed(parse_schedule(scenario.data["schedule"])))
    assert done.verdict.level == Level.NONE
    assert explore(simulate(scenario, "strobe", {"local": "on"})).level >= Level.STRONG


@pytest.mark.parametrize("relations", [2, 3, 4, 6])
def test_a_batch_asks_once_for_many_updates(relations: int) -> None:
    def questions(batch: int) -> int:
        scenario = chain(relations, 12, deletions=False)
        return len(run_timed(simulate(scenario, "strobe", {"batch": str(batch)})).served)

    assert questions(12) < questions(4) < questions(1)


def test_a_batch_ends_with_the_same_view() -> None:
    def last(batch: int) -> Rows:
        return run_timed(simulate(chain(3, 18), "strobe", {"batch": str(batch)})).view

    assert last(1) == last(4) == last(100)
