"""Random scenarios: repeatable, valid, of the kind that was asked for, and lively."""

from itertools import pairwise

import pytest

from headwater.algebra.evaluate import evaluate_view
from headwater.errors import InputError
from headwater.lab.generate import KINDS, Shape, generate
from headwater.lab.scenario import Scenario, scenario_from_json
from headwater.lab.simulate import scenario_kind

SEEDS = range(30)


def changes(scenario: Scenario) -> int:
    """How many transactions change the view, in the order of the list."""
    state = dict(scenario.initial)
    views = [evaluate_view(scenario.view, state)]
    for transaction in scenario.transactions:
        state |= {name: state[name] + delta for name, delta in transaction.deltas.items()}
        views.append(evaluate_view(scenario.view, state))
    return sum(before != after for before, after in pairwise(views))


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_gives_the_same_scenario_again(kind: str) -> None:
    shape = Shape(kind, keys=True)
    assert [generate(s, shape).data for s in SEEDS] == [generate(s, shape).data for s in SEEDS]


def test_seeds_give_different_scenarios() -> None:
    assert len({str(generate(seed).data["relations"]) for seed in SEEDS}) > 20


@pytest.mark.parametrize("keys", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_generated_can_be_read_again(kind: str, keys: bool) -> None:
    for seed in SEEDS:
        scenario = generate(seed, Shape(kind, keys=keys))
        assert scenario_from_json(scenario.data).transactions == scenario.transactions


@pytest.mark.parametrize("kind", KINDS)
def test_no_scenario_is_more_demanding_than_its_kind(kind: str) -> None:
    order = list(KINDS)
    kinds = [scenario_kind(generate(seed, Shape(kind))) for seed in SEEDS]
    assert all(order.index(found) <= order.index(kind) for found in kinds)
    assert kind in kinds


@pytest.mark.parametrize("kind", KINDS)
def test_most_scenarios_change_the_view_in_half_of_their_transactions(kind: str) -> None:
    lively = [2 * changes(generate(seed, Shape(kind))) >= 4 for seed in SEEDS]
    assert sum(lively) >= 28


def test_the_size_is_what_was_asked_for() -> None:
    scenario = generate(0, Shape("multi-source", relations=4, sources=2, transactions=7))
    assert (len(scenario.relations), len(scenario.sources)) == (4, 2)
    assert len(scenario.transactions) == 7


def test_rows_come_back_and_keyless_relations_hold_duplicates() -> None:
    scenarios = [generate(seed, Shape(transactions=6)) for seed in SEEDS]
    counts = [n for s in scenarios for rows in s.initial.values() for _, n in rows.items()]
    assert max(counts) > 1


def test_with_keys_the_view_shows_all_of_them() -> None:
    for seed in SEEDS:
        view = generate(seed, Shape(keys=True)).view
        assert view.shows_keys


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(InputError, match=r"'local'. There are: single-source, "):
        Shape("local")


@pytest.mark.parametrize("transactions", [0, 1])
@pytest.mark.parametrize("relations", [1, 2])
def test_the_smallest_sizes_work(relations: int, transactions: int) -> None:
    shape = Shape(relations=relations, sources=1, transactions=transactions)
    assert len(generate(0, shape).transactions) == transactions
