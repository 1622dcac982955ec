"""Plans: any way to compute an updategram comes to the same, and any is made into any other."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.frames.columns import Columns
from headwater.frames.frame import Frame
from headwater.sharing import rules, transformations
from headwater.sharing.booster import Booster
from headwater.sharing.carrying_out import CarryingOut, Lift, as_it_is
from headwater.sharing.engines import lift_for
from headwater.sharing.optimizer import Optimizer, published, together
from headwater.sharing.plan_costs import Scales
from headwater.sharing.planning import ViewPlan
from headwater.sharing.plans import (
    Change,
    Coalesced,
    Finished,
    Joined,
    JoinedOperands,
    Operand,
    Plan,
    Published,
    RelationAt,
    interval_of,
    walk,
)
from headwater.sharing.transformations import (
    Transformation,
    applies,
    canonical,
    to_canonical,
    transform,
)
from headwater.sharing.versions import Versions
from headwater.sharing.ways import landmarks
from tests.sharing.at_hand import AtHand, at_hand
from tests.sharing.cases import LAST, Case, random_case

FEW = settings(max_examples=max(1, settings().max_examples // 6))


def random_boosters(random: Random, case: Case) -> Iterator[Booster]:
    """Of single relations and of several, of this view and of wider ones, at any version."""
    for _ in range(random.randint(2, 5)):
        view = random.choice([case.view, *case.wider])
        first = random.randint(0, LAST - 1)
        mu = case.updategram("R", first, random.randint(first + 1, LAST))
        at = {name: case.contents(name, random.choice([1, 2])) for name in ("S", "T")}
        single = [rules.a3(view, mu, found) for found in at.values()]
        yield from random.sample(single, random.randint(1, 2))
        if random.random() < 0.5:
            yield rules.a4(view, *single)
        through = rules.a3(view, rules.a1(view, mu, at["S"]), at["T"])
        if random.random() < 0.5:
            yield through


def random_plan(
    random: Random, optimizer: Optimizer, first: int, last: int, here: Versions
) -> Finished | Coalesced:
    """Steps of any length, trees of any form, whatever serves."""
    change = random_way(random, optimizer, first, last)
    if isinstance(change, Coalesced) and random.random() < 0.5:
        return Coalesced(
            tuple(Finished(random_tree(random, optimizer, step, here)) for step in change.steps)
        )
    return Finished(random_tree(random, optimizer, change, here))


def random_way(random: Random, optimizer: Optimizer, first: int, last: int) -> Change:
    ending = landmarks(optimizer.available.updategrams_of("R"), "R", first, last)
    steps = []
    while last > first:
        step = random.choice(ending[last])
        steps.append(step)
        last = step.first["R"]
    return together(published(reversed(steps)))


def random_tree(random: Random, optimizer: Optimizer, change: Change, here: Versions) -> Change:
    names = ["S", "T"]
    random.shuffle(names)
    if random.random() < 0.4:
        several = list(optimizer._published(change, frozenset(names), here))
        several.append(
            JoinedOperands(*(random_operand(random, optimizer, change, n, here) for n in names))
        )
        return Joined(change, random.choice(several))
    for name in names:
        there = [random_operand(random, optimizer, change, name, here)]
        if isinstance(change, Joined):
            there += optimizer._through(change, name, here)
        change = Joined(change, random.choice(there))
    return change


def random_operand(
    random: Random, optimizer: Optimizer, change: Change, name: str, here: Versions
) -> Operand:
    while isinstance(change, Joined):
        change = change.change
    found: Sequence[Operand] = optimizer._single(change, name, here[name])
    return random.choice(found)


def random_plans(seed: int) -> tuple[AtHand, Optimizer, list[Finished | Coalesced], Versions]:
    case, random = random_case(seed, sets=False), Random(seed)
    found = at_hand(case, random)
    for booster in random_boosters(random, case):
        found.add(booster)
    first = random.randint(0, LAST - 1)
    last = random.randint(first + 1, LAST)
    here = Versions({"R": first, "S": random.choice([1, 2]), "T": random.choice([1, 2])})
    optimizer = found.optimizer()
    plans = [random_plan(random, optimizer, first, last, here) for _ in range(3)]
    return found, optimizer, plans, here


@given(seed=st.integers(0, 2**32 - 1))
@FEW
def test_every_plan_comes_to_what_recomputing_does(seed: int) -> None:
    found, _, plans, _ = random_plans(seed)
    for plan in plans:
        done = found.carry_out(plan)
        assert (done.first, done.last) == (plan.first, plan.last)
        case = found.case
        assert done.net == case.recomputed(plan.last) - case.recomputed(plan.first)


@given(seed=st.integers(0, 2**32 - 1))
@FEW
def test_random_plans_reach_the_canonical_plan_and_each_other(seed: int) -> None:
    """Theorem 3.1: every plan on the way comes to the same, and every step is one of a rule."""
    reach_each_other(seed)


def reach_each_other(seed: int) -> None:
    found, optimizer, plans, _ = random_plans(seed)
    reached = {canonical(optimizer, plan) for plan in plans}
    assert len(reached) == 1
    for one, other in pairwise(plans):
        way = transform(optimizer, one, other)
        assert way is not None
        assert all(applies(optimizer, step) for step in way)
        assert [step.after for step in way[:-1]] == [step.before for step in way[1:]]
        assert not way or (way[0].before, way[-1].after) == (one, other)
        done = [found.carry_out(plan) for plan in (one, *(step.after for step in way))]  # type: ignore[arg-type] # the top of a view's plan stays a change
        assert len({done[0], *done}) == 1


@given(seed=st.integers(0, 2**32 - 1))
@FEW
def test_the_canonical_plan_is_a_series_of_left_linear_joins_of_base_relations(seed: int) -> None:
    _, optimizer, plans, _ = random_plans(seed)
    plan = canonical(optimizer, plans[0])
    steps = plan.steps if isinstance(plan, Coalesced) else (plan,)
    assert len(steps) == plans[0].last["R"] - plans[0].first["R"]
    for step in steps:
        assert isinstance(step, Finished)
        kinds = {type(part) for part in walk(step)}
        assert kinds == {Finished, Joined, RelationAt, Published}
        interval = interval_of(step)
        assert interval.last == interval.first + 1
    assert not list(to_canonical(optimizer, plan)), "nothing is left to transform"


def test_plans_for_different_updategrams_are_not_made_into_each_other() -> None:
    case = random_case(1, sets=False)
    found = at_hand(case, Random(1))
    optimizer, here = found.optimizer(), Versions({"R": 0, "S": 1, "T": 1})
    one, other = (random_plan(Random(1), optimizer, 0, last, here) for last in (1, 2))
    assert transform(optimizer, one, other) is None


def test_the_same_plan_runs_in_columns() -> None:
    for seed in range(8):
        same_with(seed, Columns.of_rows)


def test_the_same_plan_runs_on_spark(spark: SparkSession) -> None:
    same_with(3, lambda rows: Frame.of_rows(spark, rows))


def same_with(seed: int, lift: Lift) -> None:
    found, optimizer, plans, _ = random_plans(seed)
    carrying = CarryingOut(optimizer.view, found.items.__getitem__, lift)
    done = carrying.done(plans[0])
    assert done == found.carry_out(plans[0])
    assert type(done.inserted) is type(done.deleted) is Rows


def test_few_rows_stay_as_they_are_and_many_are_for_the_engine() -> None:
    found, optimizer, plans, _ = random_plans(1)
    small = ViewPlan(optimizer.view, plans[0], optimizer.scales)
    assert lift_for(small) is as_it_is
    many = tuple(replace(u, rows=100_000) for u in found.available.updategrams)
    available = replace(found.available, updategrams=many)
    large = Optimizer(optimizer.view, available, Scales(optimizer.view, available))
    plan = random_plan(Random(1), large, 0, 1, Versions({"R": 0, "S": 1, "T": 1}))
    assert lift_for(ViewPlan(optimizer.view, plan, large.scales)) is not as_it_is


def forgets_a_step(optimizer: Optimizer, plan: Plan) -> Plan | None:
    found = transformations.distribute(optimizer, plan)
    return Coalesced(found.steps[1:]) if isinstance(found, Coalesced) else found


def takes_the_newest(optimizer: Optimizer, plan: Plan) -> Plan | None:
    match transformations.replace_booster(optimizer, plan):
        case Joined(change, RelationAt(name)):
            newest = optimizer.relation(name, LAST)
            return None if newest is None else Joined(change, newest)
    return None


@pytest.mark.parametrize(
    ("right", "weakened"),
    [
        (transformations.distribute, forgets_a_step),
        (transformations.replace_booster, takes_the_newest),
    ],
)
def test_a_weakened_transformation_is_caught(
    right: Transformation, weakened: Transformation, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = [(rules, weakened if found is right else found)
             for rules, found in transformations.TRANSFORMATIONS]  # fmt: skip
    monkeypatch.setattr(transformations, "TRANSFORMATIONS", tuple(table))
    with pytest.raises(AssertionError):
        list(map(reach_each_other, range(100)))
