"""Window functions on Spark have the values that they have over rows in memory."""

from random import Random

import pytest
from pyspark.sql import SparkSession

from headwater.algebra.aggregates import FUNCTIONS, aggregate
from headwater.algebra.expressions import ColumnRef, Expression, Literal
from headwater.algebra.order import Order
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.typing_rules import call
from headwater.algebra.values import BOOL, FLOAT, INT, INT_MAX, TEXT, Type
from headwater.algebra.windows import RANKING, WHOLE, WINDOW_FUNCTIONS, WindowFrame, WindowFunction
from headwater.errors import ExpressionError
from headwater.frames.frame import Frame
from tests.frames.lifting import unsettled
from tests.frames.typed import MONEY, random_value

COLUMNS = [("k", INT), ("x", FLOAT), ("d", MONEY), ("t", TEXT), ("b", BOOL), ("n", INT)]
SCHEMA = Schema.of(COLUMNS)
FRAMES = [
    WHOLE,
    WindowFrame(),
    WindowFrame(None, 0, by_range=False),
    WindowFrame(-1, 1, by_range=False),
    WindowFrame(1, 2, by_range=False),
    WindowFrame(2, 1, by_range=False),
    WindowFrame(0, None),
    WindowFrame(0, 0),
]
NAMES = sorted(WINDOW_FUNCTIONS - {"single"})
CONSTANTS = {"string_agg": Literal("+", TEXT)} | {
    name: Literal(0.3, FLOAT) for name in NAMES if "percentile" in name
}


def some_rows(seed: int, size: int = 14) -> Rows:
    random = Random(seed)
    counts = {
        (random.choice((1, 2, None)), *(random_value(random, kind) for kind in SCHEMA.types[1:-1]),
         random.randint(0, 2)): random.choice((1, 1, 2, 3, -1))
        for _ in range(size)
    }  # fmt: skip
    return Rows(SCHEMA, counts)


def some_function(random: Random, name: str) -> WindowFunction:
    """The function over a random window of random arguments that it takes."""
    while True:
        column = random.choice(SCHEMA.columns)
        value = ColumnRef(column.name, column.type)
        arguments: tuple[Expression, ...] = (value,)
        if name in RANKING:
            arguments = ()
            kind: Type = FLOAT if name in ("percent_rank", "cume_dist") else INT
        elif name in FUNCTIONS:
            second = CONSTANTS.get(name, ColumnRef("n", INT))
            arguments = (value, second)[: FUNCTIONS[name].arguments]
            try:
                kind = aggregate(name, *arguments).type
            except ValueError:
                continue
        else:
            kind = column.type
            if name in ("lag", "lead"):
                arguments = (value, Literal(random_value(random, kind), kind))
        order = tuple(
            Order(each, random.random() < 0.5, random.random() < 0.5)
            for each in random.sample(SCHEMA.names, random.randint(0, 2))
        )
        return WindowFunction(
            name,
            arguments,
            kind,
            random.choice([(), ("k",), ("k", "n"), ("x",)]),
            order,
            WHOLE if name in RANKING else random.choice(FRAMES),
            random.randint(1, 3),
            name in ("lag", "lead", "first_value", "last_value") and random.random() < 0.3,
        )


def agree(frame: Rows, rows: Rows, functions: list[WindowFunction]) -> None:
    succeeding = [function for function in functions if not fails(rows, function)]
    expected = rows.windowed(shown(rows, succeeding), succeeding)
    found = frame.windowed(shown(rows, succeeding), succeeding)
    assert isinstance(found, Frame)
    if found != expected:
        for function in succeeding:
            one = shown(rows, [function])
            assert frame.windowed(one, [function]) == rows.windowed(one, [function]), function
        raise AssertionError("each by itself is the same")


def shown(rows: Rows, functions: list[WindowFunction]) -> Schema:
    return rows.schema + Schema.of((f"v{at}", f.type) for at, f in enumerate(functions))


def fails(rows: Rows, function: WindowFunction) -> bool:
    try:
        rows.windowed(shown(rows, [function]), [function])
    except ExpressionError:
        return True
    return False


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.stress) for seed in range(2, 20))]
)
def test_random_windows_have_the_same_values_on_spark(spark: SparkSession, seed: int) -> None:
    random = Random(seed)
    rows = some_rows(seed)
    names = random.sample(NAMES, 12)
    agree(unsettled(spark, rows), rows, [some_function(random, name) for name in names])


def test_every_function_of_a_place_or_a_neighbour(spark: SparkSession) -> None:
    random = Random(5)
    rows = some_rows(5)
    names = sorted(WINDOW_FUNCTIONS - FUNCTIONS.keys())
    agree(unsettled(spark, rows), rows, [some_function(random, name) for name in names])


def test_several_functions_number_copies_alike_on_spark(spark: SparkSession) -> None:
    schema = Schema.of([("k", INT), ("n", INT)])
    rows = Rows(schema, {(1, 5): 3, (1, 4): 2, (2, 5): 1})
    n = ColumnRef("n", INT)
    last = WindowFrame(None, 0, by_range=False)
    functions = [
        WindowFunction("row_number", (), INT, (), (Order("n"),)),
        WindowFunction("row_number", (), INT, ("k",), (Order("n", descending=True),)),
        WindowFunction("avg", (n,), FLOAT, (), (Order("n"),), last),
        WindowFunction("avg", (n,), FLOAT, ("k",), (), last),
    ]
    agree(unsettled(spark, rows), rows, functions)


def test_failures_are_told_in_the_same_words(spark: SparkSession) -> None:
    schema = Schema.of([("n", INT)])
    n = ColumnRef("n", INT)
    rows = Rows(schema, {(INT_MAX,): 2})
    zero = call("/", Literal(1, INT), call("-", n, Literal(INT_MAX, INT)))
    backwards = WindowFrame(None, -0, by_range=False)
    for function in (
        WindowFunction("sum", (n,), INT),
        WindowFunction("sum", (n,), INT, (), (), backwards),
        WindowFunction("avg", (zero,), FLOAT),
        WindowFunction("single", (n,), INT, (), (), WindowFrame()),
    ):
        with pytest.raises(ExpressionError) as expected:
            rows.windowed(shown(rows, [function]), [function])
        with pytest.raises(ExpressionError) as found:
            bool(unsettled(spark, rows).windowed(shown(rows, [function]), [function]))
        assert str(found.value) == str(expected.value)


def test_an_expression_is_not_evaluated_on_partitions_that_are_gone(spark: SparkSession) -> None:
    schema = Schema.of([("k", INT)])
    k = ColumnRef("k", INT)
    rows = Rows(schema, {(0,): -1, (1,): 1, (2,): 3})
    functions = [WindowFunction("row_number", (), INT, ("k",))]
    condition = call(">", call("/", Literal(1, INT), k), Literal(0, INT))
    found = unsettled(spark, rows).windowed(shown(rows, functions), functions)
    assert found.select(condition) == rows.windowed(shown(rows, functions), functions)
