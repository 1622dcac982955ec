"""An expression has the same value on rows in memory and on Spark, whatever the types."""

from decimal import Decimal
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from headwater.algebra.expressions import ColumnRef, Expression, Literal, show_expression
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.typing_rules import call, cast
from headwater.algebra.values import FLOAT, INT, INT_MAX, TEXT, Value, decimal_type
from headwater.errors import ExpressionError
from tests.frames.lifting import unsettled
from tests.frames.typed import WHOLE, WHOLE_TWICE, random_expression, random_rows
from tests.hanging import hang_limit

FEW = settings(max_examples=max(6, settings().max_examples // 20))
SEEDS = st.integers(0, 2**32 - 1)


def values(rows: Rows, expression: Expression) -> Rows:
    return rows.project(Schema.of([("value", expression.type)]), [expression])


def does_not_fail(rows: Rows, expression: Expression) -> bool:
    try:
        values(rows, expression)
    except ExpressionError:
        return False
    return True


@FEW
@given(seed=SEEDS)
def test_random_expressions_have_the_same_values_on_spark(spark: SparkSession, seed: int) -> None:
    random = Random(seed)
    rows = random_rows(random, WHOLE_TWICE, 6)
    found = [random_expression(random, WHOLE_TWICE, random.choice((1, 1, 2))) for _ in range(40)]
    outputs = [expression for expression in found if does_not_fail(rows, expression)]
    schema = Schema.of((f"v{at}", output.type) for at, output in enumerate(outputs))
    frame = unsettled(spark, rows)
    if frame.project(schema, outputs) != rows.project(schema, outputs):
        for output in outputs:
            assert values(frame, output) == values(rows, output), show_expression(output)
        raise AssertionError("each by itself is the same")


@FEW
@given(seed=SEEDS)
def test_random_conditions_select_the_same_rows_on_spark(spark: SparkSession, seed: int) -> None:
    random = Random(seed)
    rows = random_rows(random, WHOLE, 12)
    while True:
        condition = random_expression(random, WHOLE, 2)
        if condition.type.name == "bool" and does_not_fail(rows, condition):
            break
    assert unsettled(spark, rows).select(condition) == rows.select(condition)


@FEW
@given(seed=SEEDS)
def test_every_type_joins_with_itself_the_same_on_spark(spark: SparkSession, seed: int) -> None:
    random = Random(seed)
    left, right = (random_rows(random, WHOLE, 10) for _ in range(2))
    other = right.renamed(WHOLE.qualified("other"))
    column = random.choice(WHOLE.columns)
    on = [(ColumnRef(column.name, column.type), ColumnRef(f"other.{column.name}", column.type))]
    joined = unsettled(spark, left).join(unsettled(spark, other), on)
    assert joined == left.join(other, on)


# Particular values


ONE = Schema.of([("n", INT), ("x", FLOAT), ("t", TEXT)])
N, X, T = (ColumnRef(column.name, column.type) for column in ONE.columns)
LONG = Decimal(12345678901234567890123456789012345678)
ALMOST_ONE = Literal(Decimal("0." + "9" * 38), decimal_type(38, 38))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (call("negate", X), 0.0),
        (call("=", N, ALMOST_ONE), False),
        (call(">", N, ALMOST_ONE), True),
        (call("<=>", ALMOST_ONE, N), False),
        (call("length", T), 2),
        (call("like", T, Literal("__", TEXT)), True),
        (call("like", T, Literal("%_%x%", TEXT)), True),
        (call("like", T, Literal("%x%x", TEXT)), False),
        (cast(call("+", X, Literal(2.0**63, FLOAT)), INT), INT_MAX),
        (call("/", N, Literal(Decimal(3), decimal_type(1, 0))), Decimal("0.333333")),
        (call("negate", Literal(LONG, decimal_type(38, 0))), LONG.copy_negate()),
        (call("abs", Literal(LONG.copy_negate(), decimal_type(38, 0))), LONG),
        (call("abs", Literal(Decimal("-1E-38"), decimal_type(38, 38))), Decimal("1E-38")),
        (call("<", Literal(Decimal("-1E-38"), decimal_type(38, 38)), Literal(0, INT)), True),
        (call("+", Literal(None, INT), call("/", N, Literal(0, INT))), None),
    ],
    ids=lambda value: show_expression(value) if isinstance(value, Expression) else None,
)
def test_spark_and_memory_agree_on_a_value(
    spark: SparkSession, expression: Expression, expected: Value
) -> None:
    rows = Rows.of(ONE, [(1, 0.0, "\U0001f600x")])
    for held in (rows, unsettled(spark, rows)):
        ((found,),) = values(held, expression)
        assert repr(found) == repr(expected)


@pytest.mark.parametrize(
    "text", ["1", " -1.005\n", "+.5", "5.", "1e2", "1E-400", "٣", "0.0000", "99999.994", "0e50"]
)
def test_spark_and_memory_read_the_same_number_out_of_a_text(
    spark: SparkSession, text: str
) -> None:
    rows = Rows.of(ONE, [(1, 0.0, text)])
    number = cast(T, decimal_type(7, 2))
    assert values(unsettled(spark, rows), number) == values(rows, number)


@pytest.mark.parametrize("text", ["", ".", "1_0", "NaN", "1,5", "1e5", "1e50", "1e9999999999"])
def test_what_is_no_number_is_none_for_spark_and_in_memory(spark: SparkSession, text: str) -> None:
    rows = Rows.of(ONE, [(1, 0.0, text)])
    for held in (rows, unsettled(spark, rows)):
        with pytest.raises(ExpressionError):
            len(values(held, cast(T, decimal_type(7, 2))))


def test_a_long_text_does_not_hold_like_up_on_spark(spark: SparkSession) -> None:
    rows = Rows.of(ONE, [(1, 0.0, "a" * 5000)])
    tested = call("like", T, Literal("%a" * 8 + "%b", TEXT))
    with hang_limit():
        ((found,),) = values(unsettled(spark, rows), tested)
    assert found is False


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        (call("/", N, call("-", N, Literal(1, INT))), "division by zero"),
        (call("%", N, call("-", N, Literal(1, INT))), "division by zero"),
        (call("+", N, Literal(INT_MAX, INT)), "outside the range of int"),
        (cast(call("*", N, Literal(1000, INT)), decimal_type(3, 0)), "does not fit decimal(3,0)"),
        (cast(call("+", X, Literal(1e300, FLOAT)), INT), "outside the range of int"),
        (call("like", T, T), "escapes something else"),
        (cast(T, decimal_type(3, 0)), "is not a number"),
    ],
    ids=lambda value: value if isinstance(value, str) else show_expression(value),
)
def test_an_expression_that_fails_names_the_row_on_spark_too(
    spark: SparkSession, expression: Expression, reason: str
) -> None:
    rows = Rows.of(ONE, [(1, 0.0, "\\x"), (None, None, None)])
    sentences = []
    for held in (rows, unsettled(spark, rows)):
        with pytest.raises(ExpressionError) as caught:
            len(values(held, expression))
        sentences.append(str(caught.value))
    assert sentences[0] == sentences[1]
    assert reason in sentences[0]
