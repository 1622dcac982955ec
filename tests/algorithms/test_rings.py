"""The Rings protocols on channels without order: every update is taken in, and strong.

Strong includes the paper's Validity and Order Consistency, and Up-to-dateness since it
converges: tests/check shows that the checker agrees with the definitions.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from headwater.algebra.values import Json
from headwater.algorithms.registry import ALGORITHMS
from headwater.algorithms.rings import NodeState as RingState
from headwater.algorithms.rings import WarehouseState as RingWarehouseState
from headwater.algorithms.rings_star import NodeState as StarState
from headwater.algorithms.rings_star import WarehouseState as StarWarehouseState
from headwater.check.certificate import Claim, certify
from headwater.check.levels import Level, parse_level
from headwater.check.verdict import check
from headwater.errors import InputError
from headwater.lab.explore import explore
from headwater.lab.generate import Shape, generate
from headwater.lab.run import Run, run
from headwater.lab.scenario import Scenario, scenario_from_json
from headwater.lab.schedules import parse_schedule, replayed, seeded
from headwater.lab.simulate import simulate
from headwater.lab.world import World
from headwater.protocol.trace import Consulted, Posted, Showed, show_trace
from headwater.protocol.trace_json import trace_to_json
from tests.scenarios import counters, edited
from tests.traces import trace_from_json

STRESS = os.environ.get("HEADWATER_STRESS") == "1"
PROTOCOLS = ("rings", "rings-star")
RINGS_PROPERTIES = ("validity", "order_consistency", "up_to_dateness", "view_management")


def counted(steps: str) -> Scenario:
    """Counters whose view tells how far each item is; one update for each letter."""
    return counters(*steps, sources="".join(sorted(set(steps))))


def at_rest(world: World) -> None:
    """Nothing is in flight, pending, held back or in a token."""
    assert not world.mail
    assert not any(world.questions)
    for node in world.nodes:
        if isinstance(node, RingState):
            tokens = (*node.waiting, *node.resting)
            assert (node.pending, node.visit) == ((), None)
            assert not any(token.entries for token in tokens)
        else:
            assert isinstance(node, StarState)
            assert (node.pending, node.visit, node.requested) == ((), None, False)
    if isinstance(world.manager, StarWarehouseState):
        assert not any(world.manager.out)
        assert not world.manager.pending
    else:
        assert isinstance(world.manager, RingWarehouseState)
        assert not world.manager.held


# All schedules

SMALL = {"rings": ["xxx", "xyx", "xyxy", "xyz"], "rings-star": ["xxxx", "xyxy", "xyz", "xyzx"]}
LARGE = {"rings": ["xxxxx", "xyxyx", "xyzx"], "rings-star": ["xyxyxy", "xyzxy"]}


@pytest.mark.parametrize(
    ("name", "steps"),
    [(name, steps) for name in PROTOCOLS for steps in SMALL[name] + LARGE[name] * STRESS],
)
def test_every_update_of_up_to_three_items_is_taken_in_whatever_the_order(
    name: str, steps: str
) -> None:
    found = explore(simulate(counted(steps), name), inspect=at_rest)
    assert found.exhaustive
    assert found.level >= Level.STRONG, found.counterexample


@pytest.mark.parametrize("name", PROTOCOLS)
def test_it_is_strong_on_ordered_channels_too(name: str) -> None:
    found = explore(simulate(counted("xyx"), name, {"channels": "fifo"}), inspect=at_rest)
    assert found.level >= Level.STRONG


def test_channels_are_unordered_unless_told_otherwise() -> None:
    free = explore(simulate(counted("xy"), "rings")).schedules
    assert free == explore(simulate(counted("xy"), "rings", {"channels": "unordered"})).schedules
    fifo = explore(simulate(counted("xxy"), "rings", {"channels": "fifo"})).schedules
    assert fifo < explore(simulate(counted("xxy"), "rings")).schedules


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("kind", ["single-source", "multi-source", "source-local"])
def test_random_joins_are_strong_over_all_schedules(name: str, kind: str) -> None:
    for seed in range(40 if STRESS else 8):
        random = Random(seed)
        shape = Shape(
            kind,
            relations=random.randint(2, 3),
            sources=2,
            transactions=random.randint(2, 3),
            self_join=random.random() < 0.3,
        )
        found = explore(simulate(generate(seed, shape), name), inspect=at_rest)
        assert found.level >= Level.STRONG, f"seed {seed}: {found.counterexample}"


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("kind", ["multi-source", "source-local"])
def test_sums_of_joins_are_strong_over_all_schedules(name: str, kind: str) -> None:
    for seed in range(20 if STRESS else 4):
        terms = 2 + seed % 2
        shape = Shape(kind, relations=2 + seed % 2, sources=2, transactions=2, terms=terms)
        found = explore(simulate(generate(seed, shape), name), inspect=at_rest)
        assert found.level >= Level.STRONG, f"seed {seed}: {found.counterexample}"


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize(("steps", "terms"), [("xy", 1), ("xyx", 1), ("xxx", 1), ("xy", 2)])
def test_taken_one_at_a_time_every_state_is_shown(name: str, steps: str, terms: int) -> None:
    scenario = counted(steps)
    if terms == 2:
        view = f"{scenario.view.sql} UNION ALL SELECT y.n AS a, y.n AS b FROM y"
        scenario = scenario_from_json(scenario.data | {"view": view})
    found = explore(simulate(scenario, name, {"gather": "off"}), inspect=at_rest)
    assert found.level == Level.COMPLETE, found.counterexample


def test_gathered_updates_are_shown_together() -> None:
    assert explore(simulate(counted("xx"), "rings-star")).level == Level.STRONG


@pytest.mark.parametrize("name", PROTOCOLS)
def test_of_a_global_transaction_a_part_may_be_shown(name: str) -> None:
    found = explore(simulate(counters("xy", "x"), name), inspect=at_rest)
    assert found.level == Level.WEAK
    assert parse_level(ALGORITHMS[name].promises["global"]) == Level.WEAK


# Random runs of larger views


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("seed", range(120 if STRESS else 30))
def test_random_runs_over_up_to_six_items_and_three_terms(name: str, seed: int) -> None:
    random = Random(seed)
    items = random.randint(1, 6)
    shape = Shape(
        random.choice(["multi-source", "source-local"]),
        relations=max(items, random.randint(1, 6)),
        sources=items,
        transactions=random.randint(1, 7),
        terms=random.randint(1, 3),
    )
    scenario = generate(seed, shape)
    settings = {"gather": random.choice(["on", "off"])}
    done = run(simulate(scenario, name, settings), seeded(seed))
    assert done.verdict.level >= (Level.STRONG if settings["gather"] == "on" else Level.COMPLETE)
    assert [done.verdict.properties[p] for p in RINGS_PROPERTIES] == [True] * 4
    assert certify(scenario.history, claims(done)).level >= Level.STRONG


def claims(done: Run) -> list[Claim]:
    return [Claim(e.view, e.transactions) for e in done.trace.entries if isinstance(e, Showed)]


# The star: when the token is wanted

POLICIES = [{}, {"refresh": "quantity"}, {"refresh": "period"}, {"refresh": "query"}]


@pytest.mark.parametrize("settings", POLICIES, ids=str)
@pytest.mark.parametrize("gather", ["on", "off"])
def test_every_refresh_policy_leaves_nothing_behind(settings: dict[str, str], gather: str) -> None:
    simulation = simulate(counted("xyxz"), "rings-star", {**settings, "gather": gather})
    found = explore(simulation, inspect=at_rest)
    assert found.level >= Level.STRONG


@pytest.mark.parametrize("settings", POLICIES, ids=str)
def test_nothing_is_sent_when_nothing_happens(settings: dict[str, str]) -> None:
    simulation = simulate(counters(sources="xyz"), "rings-star", settings)
    assert simulation.enabled(simulation.start()) == ()


def posted(name: str, steps: str, settings: dict[str, str], *schedule: str) -> list[str]:
    """The messages of a run that goes on in a fixed order after a schedule."""
    simulation = simulate(counted(steps), name, settings)
    done = run(simulation, replayed(parse_schedule(list(schedule))))
    return [entry.message for entry in done.trace.entries if isinstance(entry, Posted)]


def test_a_quantity_of_updates_makes_one_request() -> None:
    commits = ["commit x"] * 4
    every = {"refresh": "quantity", "every": "4"}
    requests = [m for m in posted("rings-star", "xxxx", every, *commits) if "request" in m]
    assert len(requests) == 1


def test_what_is_left_of_a_quantity_is_requested_when_nothing_goes_on() -> None:
    every = {"refresh": "quantity", "every": "4"}
    done = run(
        simulate(counted("xy"), "rings-star", every),
        replayed(parse_schedule(["commit x", "commit y", "wake x"])),
    )
    assert done.verdict.level >= Level.STRONG
    assert "Node x finds that nothing goes on and sends a request" in "\n".join(
        show_trace(done.trace)
    )


@pytest.mark.parametrize("refresh", ["period", "query"])
def test_nodes_request_nothing_if_the_warehouse_decides(refresh: str) -> None:
    sent = posted("rings-star", "xy", {"refresh": refresh}, "commit x", "commit y", "idle")
    assert not any("request" in message for message in sent)
    assert sent[0] == "token1 []"


def test_rings_that_share_no_item_have_tokens_of_their_own() -> None:
    view = "SELECT x.n FROM x UNION ALL SELECT y.n FROM y"
    scenario = scenario_from_json(edited(counted("xy").data, ["view"], view))
    simulation = simulate(scenario, "rings-star")
    world = simulation.start()
    for step in ["commit x", "commit y", "deliver x request", "deliver y request"]:
        (action,) = (a for a in simulation.enabled(world) if str(a) == step)
        world, _ = simulation.step(world, action)
    assert {str(a) for a in simulation.enabled(world)} == {
        "deliver warehouse token1",
        "deliver warehouse token2",
    }
    assert explore(simulation, inspect=at_rest).level >= Level.STRONG


def test_a_refresh_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InputError, match="none of update, quantity, period, query"):
        simulate(counted("x"), "rings-star", {"refresh": "now"})


def test_there_is_no_integrator_where_sources_have_nodes() -> None:
    with pytest.raises(InputError, match="has a node at each source"):
        simulate(counted("x"), "rings", {"integrator": "on"})


# What a visit does


def two_relations_at_x() -> Scenario:
    """A term with two relations of x, whose transactions change both."""
    pair: list[Json] = [{"relation": "p", "insert": [1, 1]}, {"relation": "q", "insert": [1, 1]}]
    back: list[Json] = [{"relation": "p", "delete": [1, 1]}, {"relation": "q", "delete": [1, 1]}]
    columns: Json = {"a": "int", "b": "int"}
    return scenario_from_json(
        {
            "relations": {
                "p": {"source": "x", "columns": columns, "rows": [[1, 2]]},
                "m": {"source": "y", "columns": columns, "rows": [[1, 1], [2, 1]]},
                "q": {"source": "x", "columns": columns, "rows": [[1, 3]]},
            },
            "view": "SELECT p.b, m.a, q.b AS c FROM p, m, q WHERE p.b = m.a AND m.b = q.a",
            "transactions": [
                {"id": "T1", "updates": pair},
                {"id": "T2", "updates": [{"relation": "m", "insert": [1, 1]}]},
                {"id": "T3", "updates": back},
            ],
        }
    )


@pytest.mark.parametrize("name", PROTOCOLS)
def test_several_relations_of_a_source_are_one_item(name: str) -> None:
    found = explore(simulate(two_relations_at_x(), name), inspect=at_rest)
    assert found.level >= Level.STRONG


@pytest.mark.parametrize("name", PROTOCOLS)
def test_with_a_relation_as_an_item_transactions_are_torn(name: str) -> None:
    """The same relations, each at a source of its own; judged by what x really did."""
    whole = two_relations_at_x()
    torn = scenario_from_json(edited(whole.data, ["relations", "q", "source"], "z"))
    runs = [run(simulate(torn, name), seeded(seed)) for seed in range(60)]
    assert min(check(whole.history, done.trace.states).level for done in runs) == Level.CONVERGENT


def test_a_visit_asks_about_all_entries_at_once_and_not_for_empty_ones() -> None:
    done = run(
        simulate(counted("xyz"), "rings-star"),
        replayed(parse_schedule(["commit x", "commit y", "commit z"])),
    )
    consulted = [e for e in done.trace.entries if isinstance(e, Consulted)]
    assert [len(e.queries) for e in consulted] == [1, 2, 2, 1]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_what_no_condition_joins_travels_side_by_side(name: str) -> None:
    rows: list[Json] = [[at] for at in range(30)]
    scenario = scenario_from_json(
        {
            "relations": {
                "a": {"source": "a", "columns": {"n": "int"}, "rows": rows},
                "b": {"source": "b", "columns": {"n": "int"}, "rows": rows},
                "c": {"source": "c", "columns": {"n": "int", "m": "int"}, "rows": [[1, 2]]},
            },
            "view": "SELECT a.n FROM a, b, c WHERE a.n = c.n AND b.n = c.m",
            "transactions": [{"id": "T1", "updates": [{"relation": "a", "insert": [1]}]}],
        }
    )
    done = run(simulate(scenario, name), lambda enabled: enabled[0])
    assert done.verdict.level == Level.COMPLETE
    assert max(e.byte_count for e in done.trace.entries if isinstance(e, Posted)) < 30 * 8 + 50


# The basic ring ends


def test_a_run_ends_when_the_token_has_gone_round_twice_without_a_change() -> None:
    tokens = posted("rings", "xyz", {}, "commit x", "commit y", "commit z")
    last = max(at for at, message in enumerate(tokens) if message != "token1 []")
    assert len(tokens) - 1 - last == 2 * 3 - 1  # the sixth visit in a row keeps it
    idle = simulate(counters(sources="xyz"), "rings")
    assert len(run(idle, lambda enabled: enabled[0]).schedule) == 5  # and the visit at the start


def test_a_token_that_rests_is_woken_by_an_update() -> None:
    simulation = simulate(counted("xyz"), "rings")
    rest = [f"deliver {item} token1" for item in "xyzxy"]
    done = run(simulation, replayed(parse_schedule([*rest, "commit y", "wake z"])))
    assert done.verdict.level >= Level.STRONG


# Traces


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_trace_can_be_saved_and_replayed(name: str) -> None:
    simulation = simulate(counted("xyx"), name, {"gather": "off"})
    done = run(simulation, seeded(3))
    assert trace_from_json(trace_to_json(done.trace)) == done.trace
    steps = parse_schedule([str(action) for action in done.schedule])
    assert run(simulation, replayed(steps)).trace == done.trace


def test_messages_and_their_rows_are_counted_and_what_a_node_asks_its_source_is_not() -> None:
    done = run(simulate(counted("x"), "rings-star"), lambda enabled: enabled[0])
    assert [e.message for e in done.trace.entries if isinstance(e, Posted)] == [
        "a request for the token",
        "token1 []",
        "token1 [x: (-[0], [1])]",
    ]
    assert (done.trace.message_count, done.trace.byte_count) == (3, 16)
