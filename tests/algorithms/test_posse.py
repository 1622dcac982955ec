"""POSSE's groups of probes: how many rounds, how much is fetched, what the default picks."""

from __future__ import annotations

import pytest

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT
from headwater.algorithms.parts.expected import ASSUMED, Assumed
from headwater.algorithms.parts.view_change import Partial, partials_of
from headwater.algorithms.posse import Posse
from headwater.lab.generate import chain
from headwater.lab.run import run
from headwater.lab.simulate import simulate
from headwater.protocol.notation import show_term

R = {n: Relation(f"r{n}", f"s{n}", Schema.of([("A", INT), ("B", INT)])) for n in range(1, 5)}
SQL = "SELECT r1.A FROM r1, r2, r3, r4 WHERE r1.B = r2.A AND r2.B = r3.A AND r3.B = r4.A"


def partials(changed: int = 2) -> tuple[Partial, ...]:
    delta = Rows.of(R[changed].schema, [[5, 6], [5, 7]])
    return partials_of(parse_view(SQL, R.values()), (1,), {f"r{changed}": delta})


def questions(policy: str) -> list[str]:
    return [
        f"{source}: {show_term(probe.question)}"
        for source, probes in Posse(policy)(partials(), {})
        for probe in probes
    ]


def test_sequential_is_a_sweep() -> None:
    assert questions("sequential") == ["s1: Π_{r1.A,r2.B}(σ_{r1.B = r2.A}(r1 ⋈ ([5, 6], [5, 7])))"]


def test_adjacent_asks_both_neighbours_for_the_rows_that_join() -> None:
    assert questions("adjacent") == [
        "s1: σ_{r1.B = r2.A}(r1 ⋈ [5])",
        "s3: σ_{r2.B = r3.A}(([6], [7]) ⋈ r3)",
    ]


def test_concurrent_fetches_the_far_relation_whole() -> None:
    assert questions("concurrent")[-1] == "s4: Π_A(r4)"


def test_default_does_not_fetch_whole_relations() -> None:
    assert Posse().choose(partials()) == "adjacent"


def test_default_fetches_whole_relations_when_they_are_small_and_round_trips_dear() -> None:
    small = Posse(expected=Assumed(trip=1000, many=10))
    assert small.choose(partials(1)) == "concurrent"


def test_cost_of_full_concurrency_on_a_chain_says_that_relations_are_fetched_whole() -> None:
    (partial,) = partials()
    posse = Posse()
    assert posse.estimate(partial, "concurrent") >= ASSUMED.many
    assert posse.estimate(partial, "adjacent") < ASSUMED.many


def test_insertion_and_deletion_with_one_join_value_still_reach_their_partners() -> None:
    """The values that travel are distinct ones, not a signed projection that cancels."""
    delta = Rows(R[2].schema, {(5, 6): 1, (5, 7): -1})
    (partial,) = partials_of(parse_view(SQL, R.values()), (1,), {"r2": delta})
    (_, (probe,)), _ = Posse("adjacent")((partial,), {})
    assert show_term(probe.question) == "σ_{r1.B = r2.A}(r1 ⋈ [5])"


@pytest.mark.parametrize("policy", ["sequential", "adjacent", "concurrent"])
def test_every_policy_asks_each_relation_once(policy: str) -> None:
    done = run(simulate(chain(4, 1), "posse", {"policy": policy}), lambda enabled: enabled[0])
    assert done.trace.message_count == 6
