"""Columns are Rows: every type, every operator, and any mixture with rows and frames."""

from __future__ import annotations

from random import Random

import pyarrow
import pytest
from pyspark.sql import SparkSession

from headwater.algebra.expressions import ColumnRef, Literal
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.typing_rules import call
from headwater.algebra.values import INT, TEXT
from headwater.errors import ExpressionError
from headwater.frames.columns import FEW, Columns, arrow_table, rows_of_table
from headwater.frames.engine import Engine
from headwater.frames.frame import Frame
from tests.frames.typed import SCHEMA, TWICE, WHOLE, WHOLE_TWICE, random_expression, random_rows

SMALL = Schema.of([("k", INT), ("t", TEXT)])


def in_parts(rows: Rows) -> Columns:
    """The same rows, each in three places whose counts add up."""
    whole, less = Columns.of_rows(rows), Columns.of_rows(-rows)
    return Columns(rows.schema, pyarrow.concat_tables([whole.table, whole.table, less.table]))


@pytest.mark.parametrize("schema", [SCHEMA, WHOLE], ids=["plain", "nested"])
@pytest.mark.parametrize("seed", range(20))
def test_rows_of_every_type_survive_and_add_up(seed: int, schema: Schema) -> None:
    random = Random(seed)
    a, b = (random_rows(random, schema, 30) for _ in range(2))
    assert Columns.of_rows(a) == a
    assert in_parts(a) == a
    assert len(in_parts(a)) == len(a)
    assert Columns.of_rows(a) + b == b + in_parts(a) == a + b
    assert not in_parts(a) - a
    assert in_parts(a).positive() == a.positive()
    seen = in_parts(a).positive()
    assert seen.positive() is seen
    assert in_parts(a).negative() == a.negative()
    assert in_parts(a).among(b) == a.among(b)


@pytest.mark.parametrize("at", range(len(WHOLE)), ids=[str(kind) for kind in WHOLE.types])
def test_joins_on_every_type_find_what_rows_find(at: int) -> None:
    random = Random(at)
    schema = SCHEMA if at < len(SCHEMA) else WHOLE
    second = schema.qualified("other")
    left, right = random_rows(random, schema, 40), random_rows(random, second, 40)
    a, b = schema.columns[at], second.columns[at]
    on = [(ColumnRef(a.name, a.type), ColumnRef(b.name, b.type))]
    expected = left.join(right, on)
    assert expected
    for one, other in ((in_parts(left), right), (left, in_parts(right))):
        assert one.join(other, on) == expected
    assert in_parts(left).distinct([a.name]) == left.distinct([a.name])


def test_a_column_may_be_asked_for_twice_among_distinct_values() -> None:
    """A view may compare one column with two others."""
    rows = random_rows(Random(1), TWICE, 20)
    first, second = TWICE.names[:2]
    for names in ([first, first], [second, first, second]):
        assert in_parts(rows).distinct(names) == rows.distinct(names)


@pytest.mark.parametrize("seed", range(60))
def test_conditions_and_outputs_mean_what_they_mean_on_rows(seed: int) -> None:
    random = Random(seed)
    both = random.choice((TWICE, WHOLE_TWICE))
    rows = random_rows(random, both, 20)
    expression = random_expression(random, both, 1)
    schema = Schema.of([("x", expression.type), ("y", INT)])
    outputs = [expression, Literal(7, INT)]
    try:
        expected = rows.project(schema, outputs)
    except ExpressionError:
        with pytest.raises(ExpressionError):
            in_parts(rows).project(schema, outputs)
        return
    assert in_parts(rows).project(schema, outputs) == expected
    if expression.type.name == "bool":
        assert in_parts(rows).select(expression) == rows.select(expression)


def test_an_expression_does_not_fail_on_a_row_that_cancels_out() -> None:
    nothing = Columns.of_rows(Rows(SMALL, {(0, "a"): 1})) + Rows(SMALL, {(0, "a"): -1})
    risky = call("/", Literal(1, INT), ColumnRef("k", INT))
    assert not nothing.project(Schema.of([("x", risky.type)]), [risky])


def test_rows_joined_in_columns_are_counted() -> None:
    rows = Columns.of_rows(Rows.of(SMALL, [(1, "a"), (2, "b")]))
    before = Rows.rows_joined
    pair = (ColumnRef("k", INT), ColumnRef("o.k", INT))
    assert rows.join(rows.renamed(SMALL.qualified("o")), [pair])
    assert Rows.rows_joined == before + 2


def test_with_frames_the_result_is_a_frame(spark: SparkSession) -> None:
    rows = Rows.of(SMALL, [(1, "a"), (None, "b")])
    columns, frame = in_parts(rows), Frame.of_rows(spark, rows)
    pair = (ColumnRef("k", INT), ColumnRef("o.k", INT))
    renamed = SMALL.qualified("o")
    for total in (columns + frame, frame + columns, Rows.sum(SMALL, [rows, columns, frame])):
        assert isinstance(total, Frame)
    assert columns + frame == rows + rows
    for joined in (
        columns.join(frame.renamed(renamed), [pair]),
        frame.join(columns.renamed(renamed), [pair]),
    ):
        assert isinstance(joined, Frame)
        assert joined == rows.join(rows.renamed(renamed), [pair])
    assert Frame.of_rows(spark, columns) == rows
    assert frame.in_columns() == rows


def test_the_engine_keeps_few_rows_one_by_one_and_more_in_columns() -> None:
    def start() -> SparkSession:
        raise AssertionError("nothing needs Spark")

    engine = Engine(start)
    few, many = (Rows.of(SMALL, [(at, "x") for at in range(size)]) for size in (FEW, FEW + 1))
    assert engine.lift(few) is few
    lifted = engine.lift(many)
    assert isinstance(lifted, Columns)
    assert lifted == many
    assert type(engine.settle(Columns.of_rows(few))) is Rows
    assert isinstance(engine.settle(lifted), Columns)


def test_a_table_read_back_is_held_as_suits_its_size() -> None:
    few, many = (Rows.of(SMALL, [(at, "x") for at in range(size)]) for size in (1, FEW + 1))
    for rows, kind in ((few, Rows), (many, Columns)):
        found = rows_of_table(arrow_table(rows), SMALL)
        assert type(found) is kind
        assert found == rows
