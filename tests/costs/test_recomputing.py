"""From where on recomputing is cheaper than maintaining, as a function of what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT
from headwater.check.levels import Level
from headwater.costs.recomputing import (
    CLEARLY,
    FEWEST_ROWS,
    Crossover,
    Recompute,
    crossover,
    expected_s,
    recomputes,
)
from headwater.costs.statistics import Loaded, RelationStatistics, Statistics


def relation(source: str, name: str, *columns: str) -> Relation:
    schema = Schema.of((column, INT) for column in columns)
    return Relation(f"{source}.{name}", source, schema, columns[:1])


ORDERS = relation("shop", "orders", "id", "customer")
LINES = relation("stock", "lines", "id", "order_id", "price")
VIEW = parse_view(
    "SELECT o.customer, l.price FROM shop.orders o JOIN stock.lines l ON l.order_id = o.id",
    [ORDERS, LINES],
    "v",
)
SIZES = {
    "shop.orders": RelationStatistics(1_000_000.0),
    "stock.lines": RelationStatistics(4_000_000.0, distinct={"order_id": 1_000_000.0}),
}
KNOWN = Statistics(SIZES, loads={"v": Loaded(10.0, 5_000_000.0)}, paces={"v": 1.0})


def found(statistics: Statistics = KNOWN, recompute: Recompute = "when cheaper") -> Crossover:
    crossing = crossover(VIEW, "sweep", {}, statistics, "v", recompute)
    assert crossing is not None
    return crossing


def test_it_is_passed_where_taking_in_would_take_clearly_longer_than_a_load() -> None:
    rows = found().rows_of("stock.lines")
    assert found().maintaining_s({"stock.lines": rows}) == pytest.approx(10.0 * CLEARLY)
    assert not found().is_passed({"stock.lines": 0.99 * rows})
    assert found().is_passed({"stock.lines": 1.01 * rows})


def test_a_row_with_more_partners_costs_more() -> None:
    """An order has four lines, and a line one order."""
    assert found().row_s["shop.orders"] > 2 * found().row_s["stock.lines"]


def test_a_row_costs_more_where_spark_works_on_it() -> None:
    """So less is taken in; and what was measured of a pace is of the same expectation."""
    lines, limit = {"stock.lines": 100_000.0}, 2_000_000
    always = crossover(VIEW, "sweep", {}, KNOWN, "v", "when cheaper", 0)
    large = crossover(VIEW, "sweep", {}, KNOWN, "v", "when cheaper", limit)
    assert always is not None
    assert large is not None
    assert always.maintaining_s(lines) > 2 * large.maintaining_s(lines)
    assert expected_s(VIEW, "sweep", {}, KNOWN, lines, 0) == always.maintaining_s(lines)
    assert always.rows_of("stock.lines") < found().rows_of("stock.lines") / 2
    assert large.rows_of("stock.lines") == limit < found().rows_of("stock.lines")
    assert large.is_passed({"stock.lines": limit + 1.0})
    assert not large.is_passed({"stock.lines": limit - 1.0})


def test_what_waits_of_all_relations_counts_together() -> None:
    half = {name: 0.51 * found().rows_of(name) for name in SIZES}
    assert found().is_passed(half)
    assert not any(found().is_passed({name: rows}) for name, rows in half.items())


@pytest.mark.parametrize(
    ("loads", "paces"),
    [
        ({"v": Loaded(20.0, 5_000_000.0)}, {"v": 1.0}),
        ({"v": Loaded(10.0, 5_000_000.0)}, {"v": 0.5}),
    ],
    ids=["loads are slower", "batches are quicker"],
)
def test_it_moves_with_what_was_measured(
    loads: Mapping[str, Loaded], paces: Mapping[str, float]
) -> None:
    other = found(replace(KNOWN, loads=loads, paces=paces))
    assert other.rows_of("stock.lines") == pytest.approx(2 * found().rows_of("stock.lines"))


def load_s(loaded: Loaded) -> float:
    return found(replace(KNOWN, loads={"v": loaded})).load_s


def test_a_load_takes_longer_where_there_is_more_now_in_proportion_where_there_was_much() -> None:
    assert load_s(Loaded(10.0, 5_000_000.0)) == 10.0
    assert 17.0 < load_s(Loaded(10.0, 2_500_000.0)) < 20.0


def test_a_load_of_a_few_rows_tells_little_of_one_of_many() -> None:
    """It took what any load takes, and not a tenth of a second for each row."""
    assert 11.0 < load_s(Loaded(1.5, 15.0)) < 30.0


def test_what_is_only_assumed_has_to_be_clearer() -> None:
    unmeasured = found(Statistics(SIZES))
    assert unmeasured.maintaining_s({"shop.orders": unmeasured.rows_of("shop.orders")}) > (
        CLEARLY * unmeasured.load_s
    )


def test_few_rows_are_taken_in_whatever_a_load_would_cost() -> None:
    quick = replace(found(), load_s=0.0)
    assert not quick.is_passed({"shop.orders": FEWEST_ROWS - 1})
    assert quick.is_passed({"shop.orders": FEWEST_ROWS})


def test_somebody_may_say_from_how_many_rows_on_or_never() -> None:
    said = found(recompute=50)
    assert not said.is_passed({"shop.orders": 20, "stock.lines": 29})
    assert said.is_passed({"shop.orders": 20, "stock.lines": 30})
    assert said.told({"shop.orders": 50}) == (
        "50 changed rows waited, and its file says RECOMPUTE FROM 50 ROWS."
    )
    assert crossover(VIEW, "sweep", {}, KNOWN, "v", "never") is None


def test_views_that_show_every_state_and_those_that_go_wrong_are_recomputed_only_if_told() -> None:
    assert recomputes(None, Level.STRONG) == "when cheaper"
    assert recomputes(None, Level.COMPLETE) == "never"
    assert recomputes(None, Level.NONE) == "never"
    assert recomputes("when cheaper", Level.COMPLETE) == "when cheaper"
    assert recomputes("never", Level.STRONG) == "never"


def test_what_batches_are_expected_to_take_does_not_depend_on_what_they_took() -> None:
    """Else a pace would be measured against itself."""
    slow = replace(KNOWN, paces={"v": 7.0})
    rows = {"shop.orders": 1000.0, "stock.lines": 4000.0}
    assert expected_s(VIEW, "sweep", {}, slow, rows) == expected_s(VIEW, "sweep", {}, KNOWN, rows)


def test_an_algorithm_that_cannot_be_tried_is_estimated_all_the_same() -> None:
    strange = crossover(VIEW, "eca", {"no": "such"}, KNOWN, "v", "when cheaper")
    assert strange is not None
    assert strange.rows_of("shop.orders") < float("inf")
