"""Window functions over rows: what SQLite says of them, and what it has no word for."""

import sqlite3
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.algebra.aggregates import aggregate
from headwater.algebra.expressions import ColumnRef, Expression, Literal
from headwater.algebra.order import Order
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import FLOAT, INT, INT_MAX, TEXT, Value
from headwater.algebra.windows import RANKING, WHOLE, WindowFrame, WindowFunction
from headwater.errors import ExpressionError

SCHEMA = Schema.of([("k", INT), ("n", INT), ("t", TEXT)])
N, T = ColumnRef("n", INT), ColumnRef("t", TEXT)
NONE = Literal(None, INT)
UP = (Order("n"),)
DOWN = (Order("n", descending=True, nulls_last=True), Order("t"))
RUNNING = WindowFrame()
ROWS_UP_TO_HERE = WindowFrame(None, 0, by_range=False)
AROUND = WindowFrame(-1, 2, by_range=False)
BEFORE = WindowFrame(-3, -2, by_range=False)
PEERS = WindowFrame(0, 0)
FROM_HERE = WindowFrame(0, None)


def window(
    name: str,
    *arguments: Expression,
    order: tuple[Order, ...] = UP,
    frame: WindowFrame = RUNNING,
    offset: int = 0,
    partition: tuple[str, ...] = ("k",),
) -> WindowFunction:
    if name in RANKING:
        kind = FLOAT if name in ("percent_rank", "cume_dist") else INT
    elif name in ("lag", "lead", "first_value", "last_value", "nth_value"):
        kind = arguments[0].type
    else:
        kind = aggregate(name, *arguments).type
    return WindowFunction(name, arguments, kind, partition, order, frame, offset)


BY = "PARTITION BY k ORDER BY n"
ALL = "PARTITION BY k ORDER BY n, k, t"
"""Where rows of one order are told apart, SQLite is told to complete it as we do."""
CASES: list[tuple[str, WindowFunction]] = [
    (f"row_number() OVER ({ALL})", window("row_number")),
    (f"rank() OVER ({BY})", window("rank")),
    (f"dense_rank() OVER ({BY})", window("dense_rank")),
    (f"percent_rank() OVER ({BY})", window("percent_rank")),
    (f"cume_dist() OVER ({BY})", window("cume_dist")),
    ("rank() OVER (ORDER BY n DESC NULLS LAST, t)", window("rank", order=DOWN, partition=())),
    (f"ntile(3) OVER ({ALL})", window("ntile", offset=3)),
    (f"lag(n, 2) OVER ({ALL})", window("lag", N, NONE, offset=2)),
    (f"lead(n, 1, -7) OVER ({ALL})", window("lead", N, Literal(-7, INT), offset=1)),
    (f"first_value(t) OVER ({ALL})", window("first_value", T, frame=ROWS_UP_TO_HERE)),
    (
        f"last_value(t) OVER ({ALL} ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING)",
        window("last_value", T, frame=AROUND),
    ),
    (
        f"nth_value(t, 2) OVER ({ALL} ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING)",
        window("nth_value", T, frame=BEFORE, offset=2),
    ),
    (f"sum(n) OVER ({BY})", window("sum", N)),
    (
        f"sum(n) OVER ({BY} RANGE BETWEEN CURRENT ROW AND CURRENT ROW)",
        window("sum", N, frame=PEERS),
    ),
    (
        f"count(t) OVER ({BY} RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
        window("count", T, frame=FROM_HERE),
    ),
    (
        f"avg(n) OVER ({ALL} ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING)",
        window("avg", N, frame=AROUND),
    ),
    (
        f"max(t) OVER ({ALL} ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING)",
        window("max", T, frame=BEFORE),
    ),
    ("count(*) OVER (PARTITION BY k)", window("count(*)", order=(), frame=WHOLE)),
    ("min(n) OVER ()", window("min", N, order=(), frame=WHOLE, partition=())),
]


def random_rows(random: Random, size: int) -> list[tuple[Value, ...]]:
    return [
        (random.choice((1, 2, None)), random.choice((None, 1, 2, 3)), random.choice((None, *"ab")))
        for _ in range(size)
    ]


@given(seed=st.integers(0, 2**32), size=st.integers(0, 9))
def test_sqlite_agrees(seed: int, size: int) -> None:
    data = random_rows(Random(seed), size)
    outputs = ", ".join(sql for sql, _ in CASES)
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE r (k, n, t)")
        connection.executemany("INSERT INTO r VALUES (?, ?, ?)", data)
        expected = connection.execute(f"SELECT k, n, t, {outputs} FROM r").fetchall()
    functions = [function for _, function in CASES]
    schema = SCHEMA + Schema.of((f"v{at}", f.type) for at, f in enumerate(functions))
    assert Rows.of(SCHEMA, data).windowed(schema, functions) == Rows.of(schema, expected)


def one(rows: Rows, function: WindowFunction) -> Rows:
    return rows.windowed(rows.schema + Schema.of([("value", function.type)]), [function])


def test_copies_of_a_row_are_rows_of_their_own() -> None:
    rows = Rows(SCHEMA, {(1, 5, "a"): 2, (2, 5, "a"): -1})
    numbered = one(rows, window("row_number"))
    assert dict(numbered.items()) == {(1, 5, "a", 1): 1, (1, 5, "a", 2): 1}
    assert dict(one(rows, window("rank")).items()) == {(1, 5, "a", 1): 2}


def test_several_functions_number_copies_alike() -> None:
    rows = Rows(SCHEMA, {(1, 5, "a"): 2})
    functions = [window("row_number"), window("row_number", partition=(), order=DOWN)]
    schema = SCHEMA + Schema.of([("v", INT), ("w", INT)])
    found = rows.windowed(schema, functions)
    assert set(found) == {(1, 5, "a", 1, 1), (1, 5, "a", 2, 2)}


def test_nulls_may_be_passed_over() -> None:
    rows = Rows.of(SCHEMA, [(1, 1, "a"), (1, 2, None), (1, 3, None), (1, 4, "b")])
    lag = WindowFunction("lag", (T, Literal("-", TEXT)), TEXT, (), UP, offset=1, ignore_nulls=True)
    assert {row[1:] for row in one(rows, lag)} == {
        (1, "a", "-"), (2, None, "a"), (3, None, "a"), (4, "b", "a"),
    }  # fmt: skip
    last = WindowFunction("last_value", (T,), TEXT, (), UP, ROWS_UP_TO_HERE, ignore_nulls=True)
    assert [row[3] for row, _ in one(rows, last).sorted_items()] == ["a", "a", "a", "b"]


def test_what_leaves_a_frame_leaves_nothing_behind() -> None:
    schema = Schema.of([("n", INT), ("x", FLOAT)])
    values = [1e300, 1.0, float("inf"), -1e300, 2.0, float("nan"), 3.0]
    rows = Rows.of(schema, enumerate(values))
    x = ColumnRef("x", FLOAT)
    only = WindowFrame(0, 0, by_range=False)
    function = WindowFunction("sum", (x,), FLOAT, (), (Order("n"),), only)
    assert all(repr(row[1]) == repr(row[2]) for row in one(rows, function))


def test_a_sum_outside_its_range_is_told() -> None:
    rows = Rows.of(SCHEMA, [(1, INT_MAX, "a"), (1, INT_MAX, "b")])
    with pytest.raises(ExpressionError, match=r"SUM\(n\) fails for k = 1: the sum is outside"):
        one(rows, window("sum", N))
