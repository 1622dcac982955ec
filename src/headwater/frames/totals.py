"""What `algebra.totals` makes expressions total with, as Spark columns.

Assumes data with the column of counts, as every Frame has it.
"""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (the name that everybody uses)

from headwater.algebra.operators import CORRECT_IT
from headwater.frames.arrow import COUNT
from headwater.frames.failures import told_column

_VALUE = "value"


def tried(column: Column) -> Column:
    """The column; NULL on a row on which it fails."""
    return _caught(column).getField(_VALUE)


def fails(column: Column) -> Column:
    """Whether the column fails on a row."""
    return _caught(column).isNull()


def sound(error: Column) -> Column:
    """True where there is no error; the job fails with the error, as a reader is told, if any."""
    words = F.to_json(F.array(F.concat(error, F.lit(".")), F.lit(CORRECT_IT)))
    return F.when(error.isNull(), F.lit(True)).otherwise(F.raise_error(told_column(words)))


def _caught(column: Column) -> Column:
    """A struct of the column, so that a NULL differs from a failure, which has no struct.

    `TryEval` is what Spark's own `try_...` functions are made of, and has no name in SQL. It stands
    in the branch of a CASE, because what several columns have in common Spark evaluates before
    them, and so outside of it, unless it is in a branch that may not be taken.
    """
    jvm: Any = SparkContext._active_spark_context._jvm  # type: ignore[union-attr]
    expressions = jvm.org.apache.spark.sql.classic.ExpressionUtils
    inner = expressions.expression(F.struct(column.alias(_VALUE))._jc)
    caught = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(inner)
    return F.when(F.col(COUNT) != 0, Column(expressions.column(caught)))
