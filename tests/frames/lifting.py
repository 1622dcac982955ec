"""Rows brought to Spark."""

from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.frames.frame import Frame


def unsettled(spark: SparkSession, rows: Rows) -> Frame:
    """The rows as a Frame that has nothing of them in memory."""
    lifted = Frame.of_rows(spark, rows)
    return Frame.of_dataframe(lifted.dataframe, rows.schema, signed=True)
