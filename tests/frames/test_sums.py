"""Sums of groups are the same on Spark as in memory."""

import pytest
from pyspark.sql import SparkSession

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.rows import Rows
from headwater.algebra.sql.view import parse_view
from headwater.algebra.tops import evaluate_top
from headwater.errors import ExpressionError
from headwater.frames.frame import Frame
from tests.algebra.test_compact import ALL, WIDE, wide_rows
from tests.frames.lifting import unsettled


def test_rows_are_condensed_and_shown_on_spark_as_in_memory(spark: SparkSession) -> None:
    view = parse_view(ALL, [WIDE])
    rows = evaluate_view(view, {"t": wide_rows(1, 40)}) - evaluate_view(
        view, {"t": wide_rows(2, 9)}
    )
    stored = view.stored(unsettled(spark, rows))
    assert isinstance(stored, Frame)
    assert stored == view.stored(rows)
    assert view.stored_top is not None
    shown = evaluate_top(view.stored_top, unsettled(spark, view.stored(rows)))
    assert isinstance(shown, Frame)
    assert shown == evaluate_top(view.stored_top, view.stored(rows))


def test_a_sum_of_everything_has_its_row_on_spark_too(spark: SparkSession) -> None:
    view = parse_view("SELECT COUNT(*) AS n, SUM(i) AS s FROM t", [WIDE])
    assert view.stored_top is not None
    one = view.stored(evaluate_view(view, {"t": wide_rows(1, 3)}))
    none = unsettled(spark, one) - unsettled(spark, one)
    assert list(evaluate_top(view.stored_top, none)) == [(0, None)]
    assert list(evaluate_top(view.stored_top, Rows.empty(view.stored_schema))) == [(0, None)]


def test_an_argument_that_fails_is_named_by_spark_as_in_memory(spark: SparkSession) -> None:
    view = parse_view("SELECT g, SUM(i div 0) AS s FROM t GROUP BY g", [WIDE])
    assert view.stored_top is not None
    stored = view.stored(evaluate_view(view, {"t": wide_rows(1, 9)}))
    for rows in (stored, unsettled(spark, stored)):
        with pytest.raises(ExpressionError, match=r"SUM\(t\.i DIV 0\) fails for t\.g = "):
            list(evaluate_top(view.stored_top, rows))
