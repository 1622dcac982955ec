"""C-Strobe and C-TStrobe are complete with keys in the view; weakened forms are caught."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any, ClassVar, cast

import pytest

from headwater.algebra.values import Json
from headwater.algorithms.c_strobe import CStrobe, State
from headwater.bench.comparison import needs_quiescence
from headwater.check.levels import Level
from headwater.errors import UnsupportedViewError
from headwater.lab.explore import explore
from headwater.lab.generate import Shape, chain, generate
from headwater.lab.library import example, example_names
from headwater.lab.run import Run, run
from headwater.lab.scenario import Object, Scenario, scenario_from_json
from headwater.lab.schedules import Chooser, parse_schedule, replayed, seeded
from headwater.lab.simulate import scenario_kind, simulate
from headwater.lab.weakened.c_strobe import WEAKENED, GroupedByRelation
from headwater.lab.world import Move, Simulation
from headwater.protocol.effects import Apply
from headwater.protocol.trace import Sent, Showed
from tests.scenarios import COUNTEREXAMPLES, load_scenarios

STRESS = os.environ.get("HEADWATER_STRESS") == "1"
SEEDS = range(2000) if STRESS else range(300)


def random_scenario(seed: int, kind: str, transactions: int = 4) -> Scenario:
    """Two and three relations at one to three sources; keys go and come back."""
    random = Random(seed)
    relations = random.choice([2, 3])
    shape = Shape(
        kind=kind,
        relations=relations,
        sources=random.choice([2, relations]),
        transactions=transactions,
        keys=True,
        by_key=random.random() < 0.3,
        comes_back=True,
    )
    return generate(seed, shape)


@pytest.mark.parametrize(
    ("name", "kind", "promised", "share"),
    [
        ("c-strobe", "single-source", Level.COMPLETE, 3),
        ("c-strobe", "multi-source", Level.COMPLETE, 1),
        ("c-t-strobe", "multi-source", Level.COMPLETE, 5),
        ("c-t-strobe", "source-local", Level.COMPLETE, 2),
    ],
)
def test_keeps_its_promise_over_all_schedules(
    name: str, kind: str, promised: Level, share: int
) -> None:
    for seed in SEEDS[::share]:
        found = explore(simulate(random_scenario(seed, kind), name))
        assert found.level >= promised, f"seed {seed}: {found.counterexample}"


def test_c_t_strobe_is_complete_for_global_transactions_that_were_joined() -> None:
    for seed in SEEDS[::3]:
        found = explore(simulate(random_scenario(seed, "global", transactions=3), "c-t-strobe"))
        assert found.level == Level.COMPLETE, f"seed {seed}: {found.counterexample}"


@pytest.mark.parametrize(("kind", "transactions"), [("source-local", 3), ("global", 2)])
def test_c_strobe_takes_updates_by_themselves_and_converges(kind: str, transactions: int) -> None:
    found = [
        explore(simulate(random_scenario(seed, kind, transactions), "c-strobe")).level
        for seed in SEEDS[::10]
    ]
    assert min(found) == Level.CONVERGENT


@pytest.mark.parametrize("name", ["c-strobe", "c-t-strobe"])
def test_is_complete_on_the_papers_examples(name: str) -> None:
    tried = 0
    for shipped in map(example, example_names()):
        if name == "c-strobe" and scenario_kind(shipped).endswith(("local", "global")):
            continue
        try:
            found = explore(simulate(shipped, name))
        except UnsupportedViewError:
            continue
        tried += 1
        assert found.level == Level.COMPLETE, shipped.name
    assert tried >= 4


def test_c_strobe_shows_the_middle_of_a_transaction() -> None:
    assert explore(simulate(example("strobe-3"), "c-strobe")).level == Level.CONVERGENT
    assert explore(simulate(example("strobe-3"), "c-t-strobe")).level == Level.COMPLETE


def test_view_without_keys_is_refused_with_the_keys_that_are_missing() -> None:
    with pytest.raises(UnsupportedViewError, match="c-t-strobe needs the key of every relation"):
        simulate(example("pvm-6"), "c-t-strobe")


@pytest.mark.parametrize("name", ["c-strobe", "c-t-strobe"])
def test_random_runs_of_many_updates_are_complete(name: str) -> None:
    for seed in SEEDS[::20]:
        kind = "multi-source" if name == "c-strobe" else "source-local"
        simulation = simulate(random_scenario(seed, kind, transactions=10), name)
        for schedule in range(5):
            assert run(simulation, seeded(schedule)).verdict.level == Level.COMPLETE, seed


# Rows that go and come back


def scenario_of(data: Object, *updates: tuple[str, str, list[int]]) -> Scenario:
    transactions: list[Json] = [
        {"id": f"U{number}", "updates": [{"relation": relation, kind: list(row)}]}
        for number, (relation, kind, row) in enumerate(updates, 1)
    ]
    return scenario_from_json(data | {"transactions": transactions})


def two_relations(*rows: list[int], columns: str = "r1.K, r2.C") -> Object:
    """r1(K, B) at x with these rows, r2(B, C) at y without any."""
    r1: Object = {"source": "x", "columns": {"K": "int", "B": "int"}, "key": ["K"]}
    r2: Object = {"source": "y", "columns": {"B": "int", "C": "int"}, "key": ["C"], "rows": []}
    relations: Object = {"r1": r1 | {"rows": [list(row) for row in rows]}, "r2": r2}
    view = f"SELECT {columns} FROM r1, r2 WHERE r1.B = r2.B"
    return {"relations": relations, "view": view}


@pytest.mark.parametrize("start", [[], [[1, 2]], [[1, 1]]], ids=str)
def test_any_history_of_one_key_is_told_from_what_happened_first(start: list[list[int]]) -> None:
    """After the insertion into r2 the row of r1 goes, comes back and changes, in every order."""
    histories: list[list[tuple[str, list[int]]]] = [[]]
    for _ in range(4):
        histories += [
            [*history, step] for history in histories for step in steps_after(start, history)
        ]
    for history in histories:
        updates = [("r1", kind, row) for kind, row in history]
        scenario = scenario_of(two_relations(*start), ("r2", "insert", [2, 3]), *updates)
        assert explore(simulate(scenario, "c-strobe")).level == Level.COMPLETE, history


def steps_after(
    start: list[list[int]], history: list[tuple[str, list[int]]]
) -> list[tuple[str, list[int]]]:
    there = start[0] if start else None
    for kind, row in history:
        there = row if kind == "insert" else None
    return [("delete", there)] if there else [("insert", [1, 1]), ("insert", [1, 2])]


def test_rows_that_never_met_do_not_fail_a_condition() -> None:
    """12 / 0 is seen by an answer, and is no part of any state of the source."""
    relations: Object = {
        "r1": {"source": "x", "columns": {"K": "int", "B": "int"}, "key": ["K"], "rows": []},
        "r2": {"source": "x", "columns": {"B": "int", "D": "int"}, "key": ["B"], "rows": []},
    }
    columns = "r1.K, r2.B, 12 / r2.D AS Q"
    view = f"SELECT {columns} FROM r1, r2 WHERE r1.B = r2.B AND 12 / r2.D > 1"
    scenario = scenario_of(
        {"relations": relations, "view": view},
        ("r1", "insert", [1, 2]),
        ("r1", "delete", [1, 2]),
        ("r2", "insert", [2, 0]),
        ("r2", "delete", [2, 0]),
        ("r2", "insert", [2, 3]),
        ("r1", "insert", [1, 2]),
    )
    assert explore(simulate(scenario, "eca")).level >= Level.STRONG
    assert explore(simulate(scenario, "c-strobe")).level == Level.COMPLETE


def test_a_modification_is_one_step() -> None:
    modified: Object = {
        "id": "U1",
        "updates": [{"relation": "r1", "update": [[1, 2], [1, 3]]}],
    }
    scenario = scenario_from_json(two_relations([1, 2]) | {"transactions": [modified]})
    trace = run(simulate(scenario, "c-strobe"), seeded(0)).trace
    assert sum(isinstance(entry, Showed) for entry in trace.entries) == 1


# Weakened forms


def kept(name: str) -> Scenario:
    (scenario,) = load_scenarios(COUNTEREXAMPLES / f"{name}.json")
    return scenario


@pytest.mark.parametrize("name", WEAKENED)
def test_weakened_form_is_caught_by_its_counterexample(name: str) -> None:
    scenario = kept(name)
    schedule = replayed(parse_schedule(scenario.data["schedule"]))
    done = run(Simulation(scenario, WEAKENED[name](scenario.view)), schedule)
    assert {"level": str(done.verdict.level)} == scenario.data["expect"]
    assert done.verdict.level < Level.COMPLETE


@pytest.mark.parametrize("name", WEAKENED)
def test_shipped_form_is_complete_where_the_weakened_one_fails(name: str) -> None:
    assert explore(simulate(kept(name), "c-strobe")).level == Level.COMPLETE


# Termination: it ends under updates that never pause, with few queries


def test_strobe_waits_for_silence_and_c_strobe_does_not() -> None:
    """Before every answer there is one more insertion at the source that answers."""
    scenario = chain(3, 24, deletions=False)
    assert needs_quiescence(simulate(scenario, "strobe"))
    assert needs_quiescence(simulate(scenario, "t-strobe"))
    for settings in ({}, {"every": "4"}):
        assert not needs_quiescence(simulate(scenario, "c-strobe", settings))
        assert not needs_quiescence(simulate(scenario, "c-t-strobe", settings))


def joined_by_one_value(relations: int, deletions: str, one_source: bool = False) -> Scenario:
    """r1 to rn, at a source of its own each or at one: an insertion into r1, then deletions.

    `deletions` names the relations from which one row after the other is deleted.
    """
    counts = Counter(deletions)
    names = [f"r{number}" for number in range(1, relations + 1)]
    described: Object = {
        name: {
            "source": "x" if one_source else f"s{name[1:]}",
            "columns": {"K": "int", "A": "int"},
            "key": ["K"],
            "rows": [[key, 0] for key in range(counts[name[1:]] + 1)],
        }
        for name in names
    }
    joins = " AND ".join(f"{a}.A = {b}.A" for a, b in pairwise(names)) or "true"
    shown = ", ".join(f"{name}.K AS {name}_K" for name in names)
    view = f"SELECT {shown} FROM {', '.join(names)} WHERE {joins}"
    left = {number: list(range(count)) for number, count in counts.items()}
    gone = [(f"r{number}", "delete", [left[number].pop(), 0]) for number in deletions]
    return scenario_of({"relations": described, "view": view}, ("r1", "insert", [9, 0]), *gone)


def updates_first(scenario: Scenario) -> Chooser:
    """All updates in the listed order, then the answers."""
    return replayed([Move("commit", *transaction.spans) for transaction in scenario.transactions])


def one_update_before_each_answer() -> Chooser:
    """U1, then in turn: the next update, the next answer."""
    turn = iter([True] + [True, False] * 1000)

    def choose(enabled: Any) -> Any:
        wanted = "commit" if next(turn) else "answer"
        return next((move for move in enabled if move.kind == wanted), enabled[0])

    return choose


def compensating(done: Run) -> set[str]:
    """The compensating queries that were sent for U1; parts of one query count once."""
    sent = {e.label.split("^")[0] for e in done.trace.entries if isinstance(e, Sent)}
    return {label for label in sent if label.startswith(("Q1,", "Q1."))} - {"Q1,1,0"}


@pytest.mark.parametrize("relations", [2, 3, 4, 5])
def test_at_most_one_compensating_query_for_each_set_of_relations(relations: int) -> None:
    """All rows are deleted twice over, under many schedules; the bound is reached."""
    bound = 2 ** (relations - 1) - 2
    others = "".join(str(number) for number in range(2, relations + 1))
    scenario = joined_by_one_value(relations, others + others)
    simulation = simulate(scenario, "c-strobe")
    first = run(simulation, updates_first(scenario))
    assert len(compensating(first)) == bound
    schedules: list[Callable[..., Any]] = [one_update_before_each_answer()]
    schedules += [seeded(seed) for seed in range(30)]
    counts = [len(compensating(run(simulation, choose))) for choose in schedules]
    assert max(counts) <= bound
    assert first.verdict.level == Level.COMPLETE


def test_a_transaction_into_all_relations_asks_for_each_relation_by_itself() -> None:
    """n = 3, all at one source: 2^n - n - 2 = 3 sets that leave something to ask."""
    scenario = joined_by_one_value(3, "123", one_source=True)
    into_all: list[Json] = [{"relation": f"r{number}", "insert": [9, 0]} for number in (1, 2, 3)]
    first, *deletions = cast("list[Object]", scenario.data["transactions"])
    transactions: list[Json] = [first | {"updates": into_all}, *deletions]
    scenario = scenario_from_json(scenario.data | {"transactions": transactions})
    done = run(simulate(scenario, "c-t-strobe"), updates_first(scenario))
    assert done.verdict.level == Level.COMPLETE
    assert len(compensating(done)) == 3


class Counted(CStrobe):
    """Counts the compensating queries that were sent for each update."""

    counts: ClassVar[list[int]] = []

    def _install(self, state: State) -> tuple[State, Apply]:
        self.counts.append(sum(heard > 0 for _, heard in state.answered) - 1)
        return super()._install(state)


def test_no_schedule_asks_twice_for_a_set_of_relations() -> None:
    """Every schedule of four relations at which everything is deleted: never above 6."""
    Counted.counts.clear()
    scenario = joined_by_one_value(4, "234")
    found = explore(Simulation(scenario, Counted(scenario.view)))
    assert found.level == Level.COMPLETE
    assert found.exhaustive
    assert max(Counted.counts) == 6


def test_the_papers_bounds_are_for_the_last_level_only() -> None:
    """n = 4: one update between query and answer, K = 1, and more than K^(n-2) = 1 queries;
    grouped by relation as the paper says, 3 + 6 queries, more than 3! = 6."""
    steps = ["commit s1", "answer s2", "answer s3", "commit s2", "answer s4"]
    steps += ["answer s3", "commit s3", "answer s4", "commit s4", "answer s4"]
    slow = run(simulate(joined_by_one_value(4, "234"), "c-strobe"), replayed(parse_schedule(steps)))
    assert compensating(slow) == {"Q1,2,1", "Q1,3,2"}
    scenario = joined_by_one_value(4, "234234")
    by_relation = run(
        Simulation(scenario, GroupedByRelation(scenario.view)), updates_first(scenario)
    )
    assert by_relation.verdict.level == Level.COMPLETE
    assert len(compensating(by_relation)) == 9 > 6
    by_set = run(simulate(scenario, "c-strobe"), updates_first(scenario))
    assert len(compensating(by_set)) == 6


# The periodic form


def test_every_few_updates_is_strong_over_all_schedules() -> None:
    for seed in SEEDS[::6]:
        every = {"every": str(2 + seed % 2)}
        local = explore(simulate(random_scenario(seed, "source-local"), "c-t-strobe", every))
        single = explore(simulate(random_scenario(seed, "multi-source"), "c-strobe", every))
        assert min(local.level, single.level) >= Level.STRONG, seed


def test_the_view_changes_after_every_few_updates_and_once_more_when_idle() -> None:
    scenario = joined_by_one_value(3, "2323")
    for every, steps in ((1, [1, 1, 1, 1, 1]), (2, [2, 2, 1]), (4, [4, 1]), (9, [5])):
        done = run(simulate(scenario, "c-strobe", {"every": str(every)}), updates_first(scenario))
        shown = [len(e.transactions) for e in done.trace.entries if isinstance(e, Showed)]
        assert shown == steps


def test_a_transaction_is_named_when_its_last_update_is_in() -> None:
    scenario = example("strobe-3")
    named = {}
    for name in ("c-strobe", "c-t-strobe"):
        entries = run(simulate(scenario, name), seeded(0)).trace.entries
        named[name] = [e.transactions for e in entries if isinstance(e, Showed)]
    assert named == {"c-strobe": [(), ("T1",)], "c-t-strobe": [("T1",)]}


def test_state_is_a_value() -> None:
    scenario = example("strobe-0")
    manager = CStrobe(scenario.view)
    world = Simulation(scenario, manager).start()
    assert world.manager == manager.start()
    assert hash(world.manager) == hash(manager.start())
