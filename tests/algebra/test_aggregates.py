"""Aggregates of counted values: hand-written cases, exactness, and what SQLite says of the same."""

import math
import sqlite3
import sys
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.algebra.aggregates import Aggregate, Sorting, aggregate, aggregated
from headwater.algebra.expressions import ColumnRef, Expression, Literal
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.typing_rules import call
from headwater.algebra.values import (
    BOOL,
    FLOAT,
    INT,
    INT_MAX,
    INT_MIN,
    NAN,
    TEXT,
    Row,
    Type,
    Value,
    decimal_type,
)
from headwater.errors import ExpressionError

INF = math.inf
MOST, LEAST = sys.float_info.max, math.ulp(0.0)
MONEY = decimal_type(5, 2)
N, X, D, T, B = (
    ColumnRef(name, kind)
    for name, kind in [("n", INT), ("x", FLOAT), ("d", MONEY), ("t", TEXT), ("b", BOOL)]
)
COMMA = Literal(",", TEXT)


def over(function: Aggregate, *values: Value) -> Value:
    return aggregated(function, [((value,), 1) for value in values])


def half(percent: float) -> Literal:
    return Literal(percent, FLOAT)


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [
        (aggregate("count", N), (1, 1, None), 2),
        (aggregate("count", N, distinct=True), (1, 1, None, 2), 2),
        (aggregate("count_if", B), (True, False, None, True), 2),
        (aggregate("sum", N), (), None),
        (aggregate("sum", N), (None,), None),
        (aggregate("sum", N), (INT_MAX, 1, -1), INT_MAX),
        (aggregate("sum", N, distinct=True), (2, 2, 3), 5),
        (aggregate("sum", D), (Decimal("999.99"), Decimal("0.02")), Decimal("1000.01")),
        (aggregate("sum", X), (1e300, 1.0, -1e300), 1.0),
        (aggregate("sum", X), (1.7e308, 1.7e308, -1.7e308), 1.7e308),
        (aggregate("sum", X), (1.7e308, 1.7e308), INF),
        (aggregate("sum", X), (5e-324, 5e-324, -5e-324), 5e-324),
        (aggregate("sum", X), (INF, 1.0), INF),
        (aggregate("sum", X), (INF, -INF), NAN),
        (aggregate("sum", X), (NAN, INF), NAN),
        (aggregate("avg", N), (INT_MAX, INT_MAX), float(INT_MAX)),
        (aggregate("avg", N), (1, 2, None), 1.5),
        (aggregate("avg", D), (Decimal("0.01"), Decimal("0.02"), Decimal("0.02")),
         Decimal("0.016667")),
        (aggregate("avg", X), (1.7e308, 1.7e308), 1.7e308),
        (aggregate("min", X), (NAN, 1.0, -INF), -INF),
        (aggregate("max", X), (NAN, 1.0, INF), NAN),
        (aggregate("min", T), ("b", "B", None), "B"),
        (aggregate("any_value", T), ("b", "B", None), "B"),
        (aggregate("bool_and", B), (True, None), True),
        (aggregate("bool_and", B), (), None),
        (aggregate("bool_or", B), (False, True), True),
        (aggregate("var_pop", N), (5,), 0.0),
        (aggregate("var_samp", N), (5,), None),
        (aggregate("var_samp", N), (1, 2, 3, 4), 5 / 3),
        (aggregate("stddev_pop", X), (2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0), 2.0),
        (aggregate("var_pop", X), (1e8 + 1, 1e8 + 2), 0.25),
        (aggregate("var_pop", X), (INF, 1.0), NAN),
        (aggregate("var_pop", X), (1e300, -1e300), INF),
        (aggregate("stddev_pop", X), (1e300, -1e300), 1e300),
        (aggregate("stddev_samp", X), (MOST, -MOST), INF),
        (aggregate("stddev_pop", X), (MOST, -MOST), MOST),
        (aggregate("stddev_pop", X), (1e-300, -1e-300), 1e-300),
        (aggregate("stddev_pop", X), (LEAST, -LEAST), LEAST),
        (aggregate("var_pop", D), (Decimal("0.01"), Decimal("0.03")), 0.0001),
        (aggregate("percentile_cont", N, half(0.5)), (1, 2, 4), 2.0),
        (aggregate("percentile_cont", N, half(0.25)), (0, 10), 2.5),
        (aggregate("percentile_cont", N, half(0.25), order=[Sorting(N, descending=True)]), (0, 10),
         7.5),
        (aggregate("percentile_cont", N, half(1)), (0, 10, None), 10.0),
        (aggregate("percentile_disc", N, half(0.5)), (1, 2, 3, 4), 2.0),
        (aggregate("percentile_disc", N, half(0)), (1, 2, 3, 4), 1.0),
        (aggregate("approx_percentile", N, half(0.5)), (1, 2, 3, 4, None), 2),
        (aggregate("approx_percentile", N, half(0)), (3, 2), 2),
        (aggregate("approx_percentile", D, half(1)), (Decimal("0.10"), Decimal("0.30")),
         Decimal("0.30")),
        (aggregate("approx_percentile", X, half(0.5)), (NAN, 1.0, -INF), 1.0),
        (aggregate("approx_percentile", N, half(0.5)), (None,), None),
        (aggregate("approx_percentile", N, half(0.5), distinct=True), (1, 1, 1, 2, 3), 2),
        (aggregate("median", D), (Decimal("0.10"), Decimal("0.30")), 0.2),
        (aggregate("median", X), (NAN, 1.0, 2.0), 2.0),
        (aggregate("median", X), (), None),
        (aggregate("mode", T), ("b", "a", "b", "a", "c", None), "a"),
        (aggregate("single", N), (None,), None),
        (aggregate("single", N), (), None),
    ],
    ids=str,
)  # fmt: skip
def test_an_aggregate_has_this_value(
    function: Aggregate, values: tuple[Value, ...], expected: Value
) -> None:
    found = aggregated(function, Counter((v,) * len(function.inputs) for v in values).items())
    assert repr(found) == repr(expected)


def test_the_first_of_a_pair_goes_by_the_second() -> None:
    rows: list[tuple[Row, int]] = [(("c", 1), 1), (("a", 2), 1), (("b", 2), 1), (("z", None), 1)]
    assert aggregated(aggregate("min_by", T, N), rows) == "c"
    assert aggregated(aggregate("max_by", T, N), rows) == "a"
    assert aggregated(aggregate("max_by", T, N), [*rows, ((None, 2), 1)]) is None
    assert aggregated(aggregate("max_by", T, N), rows[3:]) is None


def test_covariances_are_exact() -> None:
    rows: list[tuple[Row, int]] = [((1, 2.0), 1), ((2, 4.0), 2), ((None, 1.0), 1)]
    assert aggregated(aggregate("covar_pop", N, X), rows) == float(Fraction(4, 9))
    assert aggregated(aggregate("covar_samp", N, X), rows) == float(Fraction(2, 3))
    assert aggregated(aggregate("covar_samp", N, X), rows[:1]) is None
    assert str(aggregated(aggregate("covar_pop", N, X), [((1, INF), 1)])) == "nan"


def test_correlation_and_regression_are_rounded_once() -> None:
    rows: list[tuple[Row, int]] = [((1, 0.1), 1), ((2, 0.2), 2), ((4, 0.7), 1), ((9, None), 3)]
    x = [Fraction(v) for v in (0.1, 0.2, 0.2, 0.7)]
    y = [1, 2, 2, 4]
    sxx = 4 * sum(v * v for v in x) - sum(x) ** 2
    sxy = 4 * sum(a * b for a, b in zip(x, y, strict=True)) - sum(x) * sum(y)
    syy = 4 * sum(v * v for v in y) - sum(y) ** 2
    slope = sxy / sxx
    assert aggregated(aggregate("regr_slope", N, X), rows) == float(slope)
    intercept = (sum(y) - slope * sum(x)) / 4
    assert aggregated(aggregate("regr_intercept", N, X), rows) == float(intercept)
    assert aggregated(aggregate("regr_r2", N, X), rows) == float(sxy**2 / (sxx * syy))
    correlation = math.sqrt(sxy**2 / (sxx * syy))
    assert aggregated(aggregate("corr", N, X), rows) == pytest.approx(correlation, rel=1e-15)
    falling: list[tuple[Row, int]] = [((1, 3.0), 1), ((2, 1.0), 1)]
    assert aggregated(aggregate("corr", N, X), falling) == -1.0


def test_a_line_that_is_upright_has_no_slope_and_a_level_one_tells_all() -> None:
    upright: list[tuple[Row, int]] = [((1, 2.0), 1), ((3, 2.0), 1)]
    level: list[tuple[Row, int]] = [((1, 2.0), 1), ((1, 3.0), 1)]
    found = {
        name: [aggregated(aggregate(name, N, X), rows) for rows in (upright, level)]
        for name in ("regr_slope", "regr_r2", "corr")
    }
    assert found == {"regr_slope": [None, 0.0], "regr_r2": [None, 1.0], "corr": [None, None]}


def test_the_shape_of_numbers_is_told_by_their_third_and_fourth_moment() -> None:
    rows: list[tuple[Row, int]] = [((1,), 2), ((2,), 1), ((6,), 1)]
    assert aggregated(aggregate("skewness", N), rows) == pytest.approx(1.027209706036234)
    assert aggregated(aggregate("kurtosis", N), rows) == float(Fraction(-226, 289))
    assert aggregated(aggregate("kurtosis", N), rows[:1]) is None
    assert str(aggregated(aggregate("skewness", X), [((INF,), 1)])) == "nan"


def test_bits_are_merged_and_what_is_there_twice_leaves_xor() -> None:
    rows: list[tuple[Row, int]] = [((6,), 1), ((3,), 2), ((None,), 1)]
    found = [aggregated(aggregate(f"bit_{how}", N), rows) for how in ("and", "or", "xor")]
    assert found == [2, 7, 6]
    assert aggregated(aggregate("bit_xor", N), rows[1:]) == 0
    assert aggregated(aggregate("bit_xor", N), rows[2:]) is None


def test_first_and_last_go_by_their_order_and_then_by_the_values() -> None:
    rows: list[tuple[Row, int]] = [(("b", 1), 1), (("a", 1), 2), (("c", None), 1)]
    first = aggregate("first", T, order=[Sorting(N)])
    last = aggregate("last", T, order=[Sorting(N, descending=True, nulls_last=True)])
    assert aggregated(first, rows) == "c"
    assert aggregated(aggregate("first", T, order=[Sorting(N, nulls_last=True)]), rows) == "a"
    assert aggregated(last, rows) == "c"
    assert aggregated(aggregate("first", T), [(("b",), 1), ((None,), 1)]) is None


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=6))
def test_a_deviation_is_rounded_once(values: list[float]) -> None:
    found = over(aggregate("stddev_pop", X), *values)
    assert isinstance(found, float)
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    variance = sum((value - mean) ** 2 for value in exact) / len(exact)
    below, above = (Fraction(math.nextafter(found, to)) for to in (-INF, INF))
    assert max(Fraction(0), Fraction(found) + below) ** 2 <= 4 * variance
    assert 4 * variance <= (Fraction(found) + above) ** 2


def test_texts_are_put_together_in_an_order_that_they_complete() -> None:
    by_text: list[tuple[Row, int]] = [(("b", ","), 1), (("a", ","), 2), ((None, ","), 1)]
    assert aggregated(aggregate("string_agg", T, COMMA), by_text) == "a,a,b"
    assert aggregated(aggregate("string_agg", T, COMMA, distinct=True), by_text) == "a,b"
    assert aggregated(aggregate("string_agg", T, COMMA), by_text[2:]) is None
    each: list[tuple[Row, int]] = [(("b", "-"), 1), (("a", "+"), 2), (("c", ""), 1)]
    assert aggregated(aggregate("string_agg", T, T), each) == "a+a-bc"
    rows: list[tuple[Row, int]] = [(("b", "", 1), 1), (("a", "", 1), 1), (("c", "", None), 1)]
    down = [Sorting(N, descending=True, nulls_last=True)]
    no_separator = Literal(None, TEXT)
    assert aggregated(aggregate("string_agg", T, no_separator, order=down), rows) == "abc"
    assert aggregated(aggregate("string_agg", T, COMMA, order=[Sorting(N)]), rows) == "c,a,b"


@pytest.mark.parametrize(
    ("function", "arguments", "options", "words"),
    [
        ("sum", (T,), {}, "SUM needs a number, not text"),
        ("sum", (N, N), {}, "SUM takes 1"),
        ("bool_and", (N,), {}, "BOOL_AND needs bool"),
        ("covar_pop", (N, T), {}, "COVAR_POP needs a number"),
        ("string_agg", (N, COMMA), {}, "STRING_AGG needs text, not int"),
        ("string_agg", (T, T), {"distinct": True}, "is not a constant"),
        (
            "string_agg",
            (T, COMMA),
            {"distinct": True, "order": [Sorting(N)]},
            "by its own argument only",
        ),
        ("percentile_cont", (N, N), {}, "needs a number for its percentage"),
        ("percentile_cont", (N, half(1.5)), {}, "1.5 is not between 0 and 1"),
        ("percentile_disc", (N, half(0.5)), {"order": [Sorting(X)]}, "by its own argument only"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    function: str, arguments: tuple[Expression, ...], options: dict[str, object], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        aggregate(function, *arguments, **options)  # type: ignore[arg-type]


def test_only_the_result_is_checked_for_its_range() -> None:
    schema = Schema.of([("n", INT)])
    total = aggregate("sum", N)
    shown = Schema.of([("total", total.type)])
    rows = Rows(schema, {(INT_MAX,): 3, (INT_MIN,): 2})
    assert rows.aggregated(shown, (), [total]) == Rows.of(shown, [(INT_MAX - 2,)])
    with pytest.raises(ExpressionError, match=r"SUM\(n\) fails: the sum is outside the range"):
        Rows(schema, {(INT_MAX,): 2}).aggregated(shown, (), [total])


def test_a_subquery_for_one_value_fails_on_two_rows() -> None:
    with pytest.raises(ValueError, match="more than one row"):
        over(aggregate("single", N), 1, 1)


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(values=st.lists(FINITE, min_size=1))
def test_sums_of_floats_are_the_exact_ones_rounded_once(values: list[float]) -> None:
    exact = sum(map(Fraction, values))
    try:
        expected = float(exact) + 0.0
    except OverflowError:
        expected = INF if exact > 0 else -INF
    assert over(aggregate("sum", X), *values) == expected


MIXED = st.lists(st.one_of(FINITE, st.integers(-5, 5).map(float)), min_size=2, unique=True)


@given(values=MIXED, seed=st.integers())
def test_order_and_counts_do_not_show(values: list[float], seed: int) -> None:
    shuffled = [*values, *values]
    Random(seed).shuffle(shuffled)
    for name in ("sum", "avg", "var_samp", "stddev_pop", "median", "mode"):
        function = aggregate(name, X)
        once = aggregated(function, [((value,), 2) for value in values])
        assert repr(once) == repr(aggregated(function, Counter((v,) for v in shuffled).items()))


# What SQLite says


def random_groups(seed: int) -> list[tuple[int, Value, Value]]:
    """Rows of a group, an integer and a text; small numbers, so that floats are exact."""
    random = Random(seed)
    return [
        (random.randint(0, 3), random.choice([None, *range(-3, 9)]), random.choice([None, *"ab"]))
        for _ in range(random.randint(0, 12))
    ]


ABOVE, IS_A = call(">", N, Literal(2, INT)), call("=", T, Literal("a", TEXT))
SQLITE: list[tuple[str, Aggregate]] = [
    ("count(*)", aggregate("count(*)")),
    ("count(n)", aggregate("count", N)),
    ("count(DISTINCT n)", aggregate("count", N, distinct=True)),
    ("sum(n)", aggregate("sum", N)),
    ("sum(DISTINCT n)", aggregate("sum", N, distinct=True)),
    ("avg(n)", aggregate("avg", N)),
    ("min(t)", aggregate("min", T)),
    ("max(n)", aggregate("max", N)),
    ("count(n) FILTER (WHERE n > 2)", aggregate("count", N, condition=ABOVE)),
    ("sum(n) FILTER (WHERE t = 'a')", aggregate("sum", N, condition=IS_A)),
]


@given(seed=st.integers(0, 2**32))
def test_sqlite_agrees(seed: int) -> None:
    data = random_groups(seed)
    outputs = ", ".join(sql for sql, _ in SQLITE)
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE r (k, n, t)")
        connection.executemany("INSERT INTO r VALUES (?, ?, ?)", data)
        grouped = connection.execute(f"SELECT k, {outputs} FROM r GROUP BY k").fetchall()
        whole = connection.execute(f"SELECT {outputs} FROM r").fetchall()
    rows = Rows.of(Schema.of([("k", INT), ("n", INT), ("t", TEXT)]), data)
    functions = [function for _, function in SQLITE]
    kinds: list[Type] = [function.type for function in functions]
    shown = Schema.of((f"v{at}", kind) for at, kind in enumerate(kinds))
    by_key = Schema.of([("k", INT)]) + shown
    assert rows.aggregated(by_key, ["k"], functions) == Rows.of(by_key, grouped)
    assert rows.aggregated(shown, (), functions, always=True) == Rows.of(shown, whole)
