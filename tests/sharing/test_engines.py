"""One plan on three engines: rows, columns and Spark give the same, for random catalogs."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.frames.columns import Columns
from headwater.frames.frame import Frame
from headwater.sharing import SharingNode
from headwater.sharing.carrying_out import CarryingOut, Lift
from headwater.sharing.planning import Planner
from headwater.sharing.plans import Change, Inverse, Operand, Plan, RedirectedBooster, walk
from headwater.sharing.shared_views import SharedView
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Versions
from tests.sharing.at_hand import Item
from tests.sharing.cases import LAST, RELATIONS, random_case
from tests.sharing.test_planning import random_boosters
from tests.sharing.test_plans import random_plans

FEW = settings(max_examples=max(1, settings().max_examples // 12))
BEYOND = (
    "SELECT a, b FROM R WHERE x > 0 UNION ALL SELECT R.a, S.c FROM R, S WHERE R.a = S.a",
    "SELECT p.a, q.b FROM R AS p JOIN R AS q ON p.b = q.a",
    "SELECT S.t, COUNT(*) AS n, SUM(R.x) AS total FROM R, S WHERE R.a = S.a GROUP BY S.t",
    "SELECT R.a, T.c FROM R LEFT JOIN T ON R.b = T.b",
    "SELECT DISTINCT c FROM S",
)


def random_catalog(seed: int, folder: str) -> tuple[SharingNode, list[SharedView], Random]:
    """A node with random objects about R, S and T, and views of every kind."""
    case, random = random_case(seed, sets=False), Random(seed)
    node = SharingNode.create(Path(folder, "N"), "N", "s", durable=False)
    for relation in RELATIONS:
        node.own(relation.name, relation.schema, case.states[relation.name][0])
        node.catalog.add_all(case.steps[relation.name])
        for version in range(LAST + 1):
            if random.random() < 0.4:
                node.catalog.add(case.contents(relation.name, version))
    views = [node.define("V", case.view.sql)]
    node.catalog.add_all(random_boosters(random, case, views[0]))
    views += [node.define(f"B{at}", sql) for at, sql in enumerate(BEYOND)]
    return node, views, random


def plans_of(seed: int, folder: str) -> Iterator[tuple[SharedView, Change, Planner]]:
    node, views, random = random_catalog(seed, folder)
    for view in random.sample(views, 3):
        first, last = (
            Versions({name: random.randint(0, LAST) for name in view.relations}) for _ in range(2)
        )
        if first != last:
            planner = node.planner(view)
            yield view, planner.between(view, first, last).change, planner


def carried_out(planner: Planner, view: SharedView, plan: Change, lift: Lift) -> Updategram:
    done = planner.carrying_out(view, lift).done(plan)
    assert type(done.inserted) is type(done.deleted) is Rows
    return done


def same_on(seed: int, lift: Lift) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for view, plan, planner in plans_of(seed, folder):
            here = planner.carrying_out(view).done(plan)
            assert carried_out(planner, view, plan, lift) == here, view.sql


def any_tree_same_on(seed: int, lift: Lift) -> None:
    """Also trees that nobody would choose, with every kind of node."""
    found, optimizer, plans, _ = random_plans(seed)
    items: Mapping[str, Item] = found.items
    for plan in plans:
        done = CarryingOut(optimizer.view, items.__getitem__, lift).done(plan)
        assert done == found.carry_out(plan)


@given(seed=st.integers(0, 2**32 - 1))
@FEW
def test_columns_give_what_rows_do(seed: int) -> None:
    same_on(seed, Columns.of_rows)
    any_tree_same_on(seed, Columns.of_rows)


@given(seed=st.integers(0, 2**32 - 1))
@FEW
def test_rows_of_both_kinds_may_meet_in_a_plan(seed: int) -> None:
    """As when some relations are large and others are not."""
    chance = Random(seed)

    def sometimes(rows: Rows) -> Rows:
        return Columns.of_rows(rows) if chance.random() < 0.5 else rows

    same_on(seed, sometimes)
    any_tree_same_on(seed, sometimes)


@pytest.mark.parametrize("seed", [3, 8])
def test_spark_gives_what_rows_do(seed: int, spark: SparkSession) -> None:
    same_on(seed, lambda rows: Frame.of_rows(spark, rows))


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(100, 125))
def test_spark_gives_what_rows_do_for_many_catalogs(seed: int, spark: SparkSession) -> None:
    def lift(rows: Rows) -> Rows:
        return Frame.of_rows(spark, rows)

    same_on(seed, lift)
    any_tree_same_on(seed, lift)


def test_every_kind_of_node_is_tried() -> None:
    """So that what is said above is said of all of them."""
    kinds: set[type[Plan]] = set()
    for seed in range(40):
        kinds |= {type(part) for plan in random_plans(seed)[2] for part in walk(plan)}
        with tempfile.TemporaryDirectory() as folder:
            if seed < 6:
                for _, plan, _ in plans_of(seed, folder):
                    kinds |= {type(part) for part in walk(plan)}
    assert kinds >= {*get_args(Change), *get_args(Operand)} - {RedirectedBooster, Inverse}
