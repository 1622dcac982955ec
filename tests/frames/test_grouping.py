"""Aggregates on Spark are those of rows in memory, to the last bit and whatever the types."""

import math
from decimal import Decimal
from random import Random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that everybody uses)

from headwater.algebra.aggregates import FUNCTIONS, Aggregate, Sorting, aggregate
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
    VOID,
    Row,
    Type,
    array_type,
    canonical_float,
)
from headwater.errors import ExpressionError
from headwater.frames.frame import Frame
from tests.frames.lifting import unsettled
from tests.frames.typed import DOMAINS, NESTED, SCHEMA, WIDE, random_rows, random_value

KEYED = Schema.of([("k", INT)]) + SCHEMA
PARTS = [*range(2), *(pytest.param(part, marks=pytest.mark.stress) for part in range(2, 8))]
"""Every function of every type, in parts that Spark plans in seconds."""
COMMA, HALF = Literal(", ", TEXT), Literal(0.3, FLOAT)


def every_aggregate(schema: Schema) -> list[Aggregate]:
    """Every function of every column that it takes."""
    found = []
    for name, rule in FUNCTIONS.items():
        if name == "single":
            continue  # fails on most groups
        for column in schema.columns:
            value = ColumnRef(column.name, column.type)
            more: dict[str, Expression] = {"string_agg": COMMA, "percentile_cont": HALF}
            second = more.get(name, HALF if "percentile" in name else None)
            other = second or ColumnRef("k", INT)
            arguments = (value, other)[: rule.arguments]
            try:
                found.append(aggregate(name, *arguments))
            except ValueError:
                continue
    return found


def shown(keys: Schema, functions: list[Aggregate]) -> Schema:
    return keys + Schema.of((f"v{at}", function.type) for at, function in enumerate(functions))


def agree(frame: Rows, rows: Rows, keys: list[str], functions: list[Aggregate]) -> None:
    """Both give the same, or both fail; those that fail in memory are left out on Spark."""
    succeeding = [f for f in functions if not fails(rows, keys, f)]
    schema = shown(rows.schema.only(keys), succeeding)
    expected = rows.aggregated(schema, keys, succeeding)
    found = frame.aggregated(schema, keys, succeeding)
    assert isinstance(found, Frame)
    if found != expected:
        for function in succeeding:
            alone = shown(rows.schema.only(keys), [function])
            one = frame.aggregated(alone, keys, [function])
            assert one == rows.aggregated(alone, keys, [function]), str(function)
        raise AssertionError("each by itself is the same")


def fails(rows: Rows, keys: list[str], function: Aggregate) -> bool:
    try:
        rows.aggregated(shown(rows.schema.only(keys), [function]), keys, [function])
    except ExpressionError:
        return True
    return False


def counted(seed: int, schema: Schema, size: int) -> Rows:
    random = Random(seed)
    rows = random_rows(random, schema.only(schema.names[1:]), size)
    return Rows(schema, {(random.choice((None, 1, 2, 3)), *row): n for row, n in rows.items()})


@pytest.mark.parametrize("part", PARTS)
def test_every_function_has_the_same_values_on_spark(spark: SparkSession, part: int) -> None:
    rows = counted(part, KEYED, 24)
    agree(unsettled(spark, rows), rows, ["k"], every_aggregate(KEYED)[part::8])


@pytest.mark.parametrize("part", PARTS)
def test_the_same_with_filters_and_of_distinct_values(spark: SparkSession, part: int) -> None:
    rows = counted(7, KEYED, 30)
    condition = call(">", ColumnRef("a`b", INT), Literal(0, INT))
    plain = every_aggregate(KEYED)
    functions = [
        aggregate(f.function, *f.arguments, distinct=at % 2 == 0, condition=condition)
        for at, f in enumerate(plain)
    ]
    agree(unsettled(spark, rows), rows, ["k"] if part % 2 else [], functions[part::8])


@pytest.mark.parametrize("kind", DOMAINS, ids=str)
def test_rows_are_grouped_by_values_of_every_type(spark: SparkSession, kind: Type) -> None:
    random = Random(3)
    schema = Schema.of([("key", kind), ("n", INT)])
    values = [(random_value(random, kind), random.randint(0, 5)) for _ in range(30)]
    rows = Rows.of(schema, values)
    n = ColumnRef("n", INT)
    agree(unsettled(spark, rows), rows, ["key"], [aggregate("sum", n), aggregate("count(*)")])


def test_floats_of_every_size_add_up_exactly(spark: SparkSession) -> None:
    random = Random(1)
    schema = Schema.of([("k", INT), ("x", FLOAT)])
    values = [0.0, math.inf, -math.inf, NAN, 5e-324, -5e-324, 2.0**-1022, 1.7e308, -1.7e308]
    values += [math.ldexp(random.uniform(-2, 2), random.randint(-1080, 1022)) for _ in range(1000)]
    values += [s * 2.0**e * f for e in range(-1074, 1023, 7) for s in (1, -1) for f in (1, 1.5)]
    counts: dict[Row, int]
    counts = {(random.randint(0, 60), canonical_float(v)): random.randint(1, 3) for v in values}
    rows = Rows(schema, counts)
    x = ColumnRef("x", FLOAT)
    names = ("sum", "avg", "var_pop", "var_samp", "stddev_pop", "stddev_samp", "count", "max")
    agree(unsettled(spark, rows), rows, ["k"], [aggregate(name, x) for name in names])


def test_long_decimals_may_overflow_in_between(spark: SparkSession) -> None:
    schema = Schema.of([("k", INT), ("d", WIDE)])
    most = Decimal("9" * 38)
    rows = Rows(schema, {(1, most): 3, (1, most.copy_negate()): 2, (2, most): 1, (2, None): 4})
    d = ColumnRef("d", WIDE)
    functions = [aggregate(name, d) for name in ("sum", "var_pop", "avg", "min")]
    agree(unsettled(spark, rows), rows, ["k"], functions)


def test_only_rows_that_are_there_are_counted(spark: SparkSession) -> None:
    schema = Schema.of([("k", INT), ("n", INT)])
    rows = Rows(schema, {(1, 1): 2, (1, 5): -1, (2, 1): -3, (3, None): 1})
    frame = unsettled(spark, rows + Rows(schema, {(4, 1): 1})) - Rows(schema, {(4, 1): 1})
    functions = [aggregate("count(*)"), aggregate("sum", ColumnRef("n", INT))]
    agree(frame, rows, ["k"], functions)


def test_an_aggregate_of_nothing_has_its_row_if_there_is_always_one(spark: SparkSession) -> None:
    schema = Schema.of([("n", INT), ("x", FLOAT)])
    n, x = ColumnRef("n", INT), ColumnRef("x", FLOAT)
    functions = [aggregate("count", n), aggregate("sum", x), aggregate("count", n, distinct=True)]
    result = shown(Schema(()), functions)
    gone = Rows(schema, {(1, 1.0): -1})
    for nothing in (Frame.of_rows(spark, Rows.empty(schema)), unsettled(spark, gone)):
        assert nothing.aggregated(result, (), functions, always=True) == Rows.of(
            result, [(0, None, 0)]
        )
        assert not nothing.aggregated(result, (), functions)


def test_values_are_counted_together(spark: SparkSession) -> None:
    schema = Schema.of([("k", INT), ("t", TEXT)])
    both = (ColumnRef("k", INT), ColumnRef("t", TEXT))
    rows = Rows(schema, {(1, "a"): 2, (1, "b"): 1, (2, "b"): 1, (None, "b"): 3, (2, None): 1})
    functions = [Aggregate("count", both, INT, distinct) for distinct in (True, False)]
    result = shown(Schema(()), functions)
    assert set(rows.aggregated(result, (), functions)) == {(3, 4)}
    agree(unsettled(spark, rows), rows, [], functions)


def test_nested_values_are_keys_and_extremes(spark: SparkSession) -> None:
    random = Random(2)
    for kind in NESTED:
        schema = Schema.of([("n", INT), ("v", kind)])
        value = ColumnRef("v", kind)
        rows = Rows(
            schema, {(random.randint(0, 1), random_value(random, kind)): 1 for _ in range(12)}
        )
        names = ("min", "max", "mode", "any_value", "count")
        functions = [aggregate(name, value) for name in names]
        agree(unsettled(spark, rows), rows, ["n"], functions)
        agree(unsettled(spark, rows), rows, ["v"], [aggregate("avg", ColumnRef("n", INT))])


def test_what_orders_texts_is_computed_on_spark_too(spark: SparkSession) -> None:
    schema = Schema.of([("k", INT), ("t", TEXT)])
    k, t = ColumnRef("k", INT), ColumnRef("t", TEXT)
    rows = Rows(schema, {(1, "b"): 2, (2, "a"): 1, (None, "c"): 1, (2, None): 1})
    down = [Sorting(call("+", k, k), descending=True)]
    ones = [aggregate("string_agg", t, COMMA, order=down)]
    (result,) = unsettled(spark, rows).aggregated(shown(Schema(()), ones), (), ones)
    assert result == ("c, a, b, b",)


def test_failures_are_told_in_the_same_words(spark: SparkSession) -> None:
    schema = Schema.of([("n", INT), ("d", WIDE)])
    n, d = ColumnRef("n", INT), ColumnRef("d", WIDE)
    rows = Rows(schema, {(INT_MAX, Decimal("9" * 38)): 2})
    zero = call("/", Literal(1, INT), call("-", n, Literal(INT_MAX, INT)))
    for function in (
        aggregate("sum", n),
        aggregate("sum", d),
        aggregate("single", n),
        aggregate("sum", zero),
        aggregate("single", n, distinct=True, condition=call(">", zero, Literal(0, INT))),
    ):
        result = shown(Schema(()), [function])
        with pytest.raises(ExpressionError) as expected:
            rows.aggregated(result, (), [function])
        with pytest.raises(ExpressionError) as found:
            bool(unsettled(spark, rows).aggregated(result, (), [function]))
        assert str(found.value) == str(expected.value)


def test_a_filter_keeps_an_argument_from_failing(spark: SparkSession) -> None:
    schema = Schema.of([("n", INT)])
    n = ColumnRef("n", INT)
    rows = Rows.of(schema, [(0,), (2,), (INT_MIN,)])
    ratio = call("/", Literal(1, INT), n)
    positive = aggregate("sum", ratio, condition=call(">", n, Literal(0, INT)))
    agree(unsettled(spark, rows), rows, [], [positive])


def test_an_expression_of_the_key_is_evaluated_on_groups_that_are_there(
    spark: SparkSession,
) -> None:
    schema = Schema.of([("k", INT), ("n", INT)])
    k = ColumnRef("k", INT)
    rows = Rows(schema, {(0, 1): -1, (1, 1): 1, (2, 1): 3})
    count = [aggregate("count(*)")]
    result = shown(schema.only(["k"]), count)
    condition = call(">", call("/", Literal(1, INT), k), Literal(0, INT))
    frame = unsettled(spark, rows).aggregated(result, ["k"], count).select(condition)
    assert frame == rows.aggregated(result, ["k"], count).select(condition)


def test_a_bare_null_is_aggregated(spark: SparkSession) -> None:
    schema = Schema.of([("k", INT)])
    null = Literal(None, VOID)
    rows = Rows.of(schema, [(1,), (2,)])
    functions = [aggregate("count", null), aggregate("sum", null), aggregate("bool_or", null)]
    agree(unsettled(spark, rows), rows, ["k"], functions)
    assert functions[2].type == BOOL


def test_percentiles_are_those_that_spark_has(spark: SparkSession) -> None:
    random = Random(11)
    schema = Schema.of([("k", INT), ("x", FLOAT)])
    rows = Rows.of(
        schema,
        [
            (group, random.choice((None, NAN, 0.1, 0.7, 3.0, random.uniform(-9, 9))))
            for group in range(12)
            for _ in range(random.randint(1, 9))
        ],
    )
    x = ColumnRef("x", FLOAT)
    down = [Sorting(x, descending=True)]
    functions = [aggregate("median", x)]
    queries = ["median(x)"]
    for fraction in (0.0, 0.1, 0.3, 0.5, 0.75, 0.9, 1.0):
        for name in ("percentile_cont", "percentile_disc"):
            for order, direction in (((), ""), (down, " DESC")):
                functions.append(aggregate(name, x, Literal(fraction, FLOAT), order=order))
                queries.append(f"{name}({fraction}) WITHIN GROUP (ORDER BY x{direction})")
    result = shown(schema.only(["k"]), functions)
    each = [row for row, count in rows.items() for _ in range(count)]
    data = spark.createDataFrame(each, "k bigint, x double").groupBy("k")
    theirs = data.agg(*(F.expr(query) for query in queries))
    found = Frame.of_dataframe(theirs, result, signed=False)
    assert found == rows.aggregated(result, ["k"], functions)


def test_an_approximate_percentile_is_sparks_while_that_is_exact(spark: SparkSession) -> None:
    """Its sample holds all values then; NULLs do not count."""
    chance = Random(5)
    fractions = (0.0, 0.01, 0.25, 1 / 3, 0.5, 0.9, 1.0)
    schema = Schema.of([("k", INT), ("n", INT)])
    pairs = [(k, chance.choice((None, 1, 2, 5, 8))) for k in range(9) for _ in range(k)]
    function = aggregate(
        "approx_percentile", ColumnRef("n", INT), Literal(fractions, array_type(FLOAT))
    )
    keys = schema.only(["k"])
    found = Rows.of(schema, pairs).aggregated(shown(keys, [function]), ["k"], [function])
    listed = ", ".join(f"{fraction!r}D" for fraction in fractions)
    theirs = (
        spark.createDataFrame(pairs, "k bigint, n bigint")
        .groupBy("k")
        .agg(F.expr(f"percentile_approx(n, array({listed}))"))
        .collect()
    )
    assert set(found) == {(row[0], row[1] and tuple(row[1])) for row in theirs}
