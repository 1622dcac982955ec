"""Sums of groups, stored instead of their rows: the same is shown, in every order of changes."""

from __future__ import annotations

import math
import random
from decimal import Decimal

import pytest

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.keying import keying
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.sums import SUM, digits_of
from headwater.algebra.tops import evaluate_top
from headwater.algebra.touched import shown_change
from headwater.algebra.values import BOOL, FLOAT, INT, INT_MAX, TEXT, decimal_type
from headwater.algebra.views import View
from headwater.errors import ExpressionError
from tests.algebra.sql_features import FEATURES, RELATIONS
from tests.algebra.test_sql_meaning import STATE_LIST

QUERIES = [query for feature in FEATURES for query in feature.queries]
WIDE = Relation(
    "t",
    "x",
    Schema.of(
        [
            ("g", TEXT),
            ("i", INT),
            ("d", decimal_type(38, 4)),
            ("f", FLOAT),
            ("b", BOOL),
        ]
    ),
)
ALL = (
    "SELECT g, COUNT(*) AS n, COUNT(i) AS ni, SUM(i) AS si, AVG(i) AS ai, SUM(d) AS sd, "
    "AVG(d) AS ad, SUM(f) AS sf, AVG(f) AS af, VAR_POP(f) AS v, STDDEV_SAMP(i) AS s, "
    "VAR_SAMP(d) AS vd, BOOL_AND(b) AS e, BOOL_OR(b) AS o, COUNT_IF(b) AS c, "
    "SUM(i) FILTER (WHERE f > 0) AS z FROM t GROUP BY g"
)


def _shown(view: View, stored: Rows) -> Rows:
    return stored.positive() if view.stored_top is None else evaluate_top(view.stored_top, stored)


@pytest.mark.parametrize("query", QUERIES)
def test_what_is_stored_shows_the_same(query: str) -> None:
    view = parse_view(query, RELATIONS)
    for state in STATE_LIST:
        found = evaluate_view(view, state)
        assert _shown(view, view.stored(found)) == view.shown(found)


@pytest.mark.parametrize("query", QUERIES)
def test_a_change_of_what_is_stored_shows_by_its_keys(query: str) -> None:
    view = parse_view(query, RELATIONS)
    if view.stored_top is None or (by := keying(view.stored_top)) is None:
        return
    before, after = (evaluate_view(view, STATE_LIST[at]) for at in (3, 5))
    change = view.stored(after - before)
    found = shown_change(view.stored_top, by, view.stored(before), change)
    assert found == view.shown(after) - view.shown(before)


def wide_rows(seed: int, number: int) -> Rows:
    chance = random.Random(seed)
    floats = (0.1, 1e300, -1e300, 5e-324, math.nan, math.inf, -math.inf, 3.5, 0.0, 1e-7)

    def row() -> list[object]:
        return [
            chance.choice((None, "x", "y")),
            chance.choice((None, 3, -7, chance.randrange(-(10**9), 10**9))),
            chance.choice((None, Decimal("0.0001"), Decimal(chance.randrange(10**32)) / 10**4)),
            chance.choice((None, *floats)),
            chance.choice((None, True, False)),
        ]

    return Rows.of(WIDE.schema, [row() for _ in range(number)])


@pytest.mark.parametrize("seed", range(30))
def test_sums_of_every_type_are_exact_whatever_comes_and_goes(seed: int) -> None:
    view = parse_view(ALL, [WIDE])
    assert view.compact is not None
    kept, gone = wide_rows(seed, 6), wide_rows(seed + 1000, 40)
    parts = [evaluate_view(view, {"t": rows}) for rows in (kept, gone)]
    stored = view.stored(parts[0]) + view.stored(parts[1])
    left = stored + view.stored(-parts[1])
    assert left == view.stored(parts[0])
    assert _shown(view, left) == view.shown(parts[0])
    assert _shown(view, stored) == view.shown(parts[0] + parts[1])


def test_a_group_is_as_large_as_its_sums_and_not_as_its_rows() -> None:
    view = parse_view("SELECT g, SUM(i) AS s FROM t GROUP BY g", [WIDE])
    rows = Rows.of(WIDE.schema, [["x", i, None, None, None] for i in range(1, 10_001)])
    stored = view.stored(evaluate_view(view, {"t": rows}))
    assert stored.sorted_items() == [
        (("x", None, None), 10_000),
        (("x", 1, 0), 10_000),
        (("x", 2, 0), 50_005_000),
    ]


def test_a_sum_may_pass_the_range_of_its_type_in_between() -> None:
    view = parse_view("SELECT SUM(i) AS s FROM t", [WIDE])
    most = [evaluate_view(view, {"t": Rows.of(WIDE.schema, [["x", INT_MAX, None, None, None]])})]
    stored = view.stored(most[0].scaled(3))
    with pytest.raises(ExpressionError, match="outside the range"):
        _shown(view, stored)
    assert list(_shown(view, stored - view.stored(most[0].scaled(2)))) == [(INT_MAX,)]


def test_an_argument_that_fails_is_an_error_only_while_its_row_is_there() -> None:
    view = parse_view("SELECT g, SUM(i div (i - 1)) AS s FROM t GROUP BY g", [WIDE])
    assert view.compact is not None
    good, bad = (
        view.stored(evaluate_view(view, {"t": Rows.of(WIDE.schema, [["x", i, None, None, None]])}))
        for i in (3, 1)
    )
    with pytest.raises(ExpressionError, match="for one row of its group"):
        _shown(view, good + bad)
    assert list(_shown(view, good + bad - bad)) == [("x", 1)]


def test_parts_of_which_rows_are_needed_are_stored_by_rows() -> None:
    for aggregate in ("MIN(i)", "COUNT(DISTINCT i)", "MEDIAN(i)"):
        view = parse_view(f"SELECT g, {aggregate} AS x, SUM(i) AS s FROM t GROUP BY g", [WIDE])
        assert SUM not in view.stored_schema.positions


@pytest.mark.parametrize("number", [0, 1, -1, 2**24, -(2**24), 2**63 - 1, -(10**38), 3 << 2000])
def test_digits_add_up_to_their_number(number: int) -> None:
    assert sum(digit << (24 * place) for place, digit in digits_of(number)) == number
    assert all(digit and abs(digit) < 2**24 for _, digit in digits_of(number))
