"""What tops are made of gives the same rows on Spark as in memory, whatever the types."""

from collections.abc import Callable
from random import Random

import pytest
from pyspark.sql import SparkSession

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.expressions import ColumnRef, Literal
from headwater.algebra.order import Order
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.tops import evaluate_top
from headwater.algebra.typing_rules import call
from headwater.algebra.values import INT, TEXT
from headwater.errors import ExpressionError
from headwater.frames.columns import Columns
from headwater.frames.frame import Frame
from tests.algebra.test_labels import FAILING, STATE, R, S
from tests.frames.lifting import unsettled
from tests.frames.typed import SCHEMA, random_rows
from tests.tops import random_stored, random_top

PAIR = Schema.of([("k", INT), ("t", TEXT)])
K = ColumnRef("k", INT)
ROWS = Rows(PAIR, {(1, "a"): 2, (2, None): -1, (None, "b"): 3, (None, None): 1, (1, "c"): 1})
OTHERS = Rows(PAIR, {(1, "a"): 1, (2, "x"): 1, (None, "b"): 5, (3, "z"): -2})


def some_rows(seed: int, columns: int = 3, size: int = 12) -> Rows:
    """Rows over some of the types, few enough columns that keys meet; some counts are larger."""
    random = Random(seed)
    schema = SCHEMA.only(random.sample(SCHEMA.names, columns))
    rows = random_rows(random, schema, size)
    return rows + rows.select(Literal(True, call("=", K, K).type)).scaled(random.choice((0, 2)))


Operation = Callable[[Rows, Rows], Rows]
OPERATIONS: dict[str, Operation] = {
    "each once": lambda a, b: a.each_once(),
    "paired": lambda a, b: a.paired(b.renamed(b.schema.qualified("o")), *keys(a, 1, "o.")),
    "paired by two": lambda a, b: a.paired(b.renamed(b.schema.qualified("o")), *keys(a, 2, "o.")),
    "product": lambda a, b: a.paired(b.renamed(b.schema.qualified("o")), (), ()),
    "restricted": lambda a, b: a.restricted(b, *keys(a, 1)),
    "restricted by two": lambda a, b: a.restricted(b, *keys(a, 2)),
    "anti": lambda a, b: a.restricted(b, *keys(a, 1), anti=True),
    "anti by all": lambda a, b: a.restricted(b, *keys(a, 9), anti=True),
    "if any": lambda a, b: a.restricted(b, (), ()),
    "if none": lambda a, b: a.restricted(b, (), (), anti=True),
    "less": lambda a, b: a.less(b),
    "first": lambda a, b: a.first([Order(a.schema.names[0])], 4),
    "first behind others": lambda a, b: a.first([Order(a.schema.names[1], True, True)], 3, 2),
    "all behind some": lambda a, b: a.first([Order(a.schema.names[1], nulls_last=True)], None, 3),
    "first in no order": lambda a, b: a.first([], 5, 1),
    "last": lambda a, b: a.first([Order(a.schema.names[0], descending=True)], 5),
}


def keys(rows: Rows, number: int, prefix: str = "") -> tuple[list[str], list[str]]:
    names = list(rows.schema.names[:number])
    return names, [prefix + name for name in names]


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_gives_the_same_rows_on_spark(spark: SparkSession, name: str) -> None:
    operate, pairs = OPERATIONS[name], [(ROWS, OTHERS)]
    for seed in range(2):
        rows = some_rows(seed)
        pairs.append((rows, Rows(rows.schema, dict(list(rows.items())[::2])) + rows.negative()))
    for rows, others in pairs:
        expected = operate(rows, others)
        found = operate(unsettled(spark, rows), unsettled(spark, others))
        assert isinstance(found, Frame)
        assert found == expected


@pytest.mark.parametrize("name", ["paired", "restricted", "anti", "less"])
def test_rows_in_memory_and_on_spark_are_taken_together_on_spark(
    spark: SparkSession, name: str
) -> None:
    operate, expected = OPERATIONS[name], OPERATIONS[name](ROWS, OTHERS)
    for left, right in ((unsettled(spark, ROWS), OTHERS), (ROWS, unsettled(spark, OTHERS))):
        found = operate(left, right)
        assert isinstance(found, Frame)
        assert found == expected


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_gives_the_same_rows_in_columns(name: str) -> None:
    operate, expected = OPERATIONS[name], OPERATIONS[name](ROWS, OTHERS)
    left, right = Columns.of_rows(ROWS), Columns.of_rows(OTHERS)
    for rows, others in ((left, right), (left, OTHERS), (ROWS, right)):
        assert dict(operate(rows, others).items()) == dict(expected.items())


@pytest.mark.parametrize("seed", range(60))
def test_random_trees_show_the_same_of_columns(seed: int) -> None:
    random = Random(seed)
    top, stored = random_top(random, random.choice((2, 3))), random_stored(random)
    expected = evaluate_top(top, stored)
    assert dict(evaluate_top(top, Columns.of_rows(stored)).items()) == dict(expected.items())


@pytest.mark.parametrize("name", OPERATIONS)
def test_nothing_is_nothing_on_spark_too(spark: SparkSession, name: str) -> None:
    nothing = Rows.empty(PAIR)
    for rows, others in ((nothing, OTHERS), (ROWS, nothing)):
        lifted = OPERATIONS[name](Frame.of_rows(spark, rows), Frame.of_rows(spark, others))
        assert lifted == OPERATIONS[name](rows, others)


RATIO = call(">", call("/", Literal(1, INT), call("-", K, Literal(1, INT))), Literal(0, INT))


def test_an_expression_is_not_evaluated_on_rows_that_are_kept_out(spark: SparkSession) -> None:
    """Dividing by k - 1 fails for k = 1, which none of these leaves; nor does it meet a row whose
    places cancel."""
    ones = Rows(PAIR, {(1, "a"): 1})
    rows = Rows(PAIR, {(1, "a"): 1, (2, "b"): 1, (0, "c"): 2})
    operations: list[Callable[[Rows], Rows]] = [
        lambda a: a.restricted(ones, ["k"], ["k"], anti=True),
        lambda a: a.restricted(rows - ones, ["k"], ["k"]),
        lambda a: a.less(ones),
        lambda a: (a - ones).each_once(),
        lambda a: a.first([Order("k", descending=True)], 1),
    ]
    frame = unsettled(spark, rows).positive()
    for operate in operations:
        assert operate(frame).select(RATIO) == operate(rows).select(RATIO)


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.stress) for seed in range(6, 60))]
)
def test_random_trees_show_the_same_on_spark(spark: SparkSession, seed: int) -> None:
    random = Random(seed)
    top, stored = random_top(random, random.choice((2, 3))), random_stored(random)
    try:
        expected = evaluate_top(top, stored)
    except ExpressionError:
        expected = None
    frame = evaluate_top(top, unsettled(spark, stored))
    assert isinstance(frame, Frame)
    if expected is None:
        with pytest.raises(ExpressionError):
            bool(frame)
    else:
        assert frame == expected


@pytest.mark.parametrize("query", FAILING)
def test_a_failure_on_spark_names_expression_and_group_too(spark: SparkSession, query: str) -> None:
    view = parse_view(query, [R, S])
    assert view.stored_top is not None
    stored = view.stored(evaluate_view(view, STATE))
    with pytest.raises(ExpressionError) as caught:
        len(evaluate_top(view.stored_top, unsettled(spark, stored)))
    assert FAILING[query] in str(caught.value)
