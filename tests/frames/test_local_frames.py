"""Tables of Arrow as DataFrames."""

import pyarrow
import pytest
from pyspark.sql import SparkSession

from headwater.algebra.schema import Schema
from headwater.algebra.values import INT, TIMESTAMP
from headwater.frames.arrow import arrow_schema, from_arrow
from headwater.frames.columns import Columns
from headwater.frames.frame import Frame
from headwater.frames.local_frames import local_dataframe
from headwater.frames.spark_types import spark_schema

SCHEMA = Schema.of([("n", INT)])


@pytest.mark.parametrize("sizes", [(), (0,), (0, 2), (2, 0, 3), (1, 0, 0, 4, 0)])
def test_empty_chunks_cost_no_rows(spark: SparkSession, sizes: tuple[int, ...]) -> None:
    chunks = [pyarrow.array(range(size), pyarrow.int64()) for size in sizes]
    column = pyarrow.chunked_array(chunks, pyarrow.int64())
    table = pyarrow.Table.from_arrays([column], ["n"])
    assert local_dataframe(spark, table, spark_schema(SCHEMA)).count() == sum(sizes)


def test_a_table_without_rows_has_none(spark: SparkSession) -> None:
    moments = Schema.of([("at", TIMESTAMP)])
    table = arrow_schema(moments).empty_table()
    assert local_dataframe(spark, table, spark_schema(moments)).collect() == []


def test_a_frame_has_all_rows_of_columns_that_were_filtered(spark: SparkSession) -> None:
    counts = [[-1], [1], [-1]]
    places = pyarrow.chunked_array([[1], [2], [3]], pyarrow.int64())
    table = pyarrow.Table.from_arrays(
        [places, pyarrow.chunked_array(counts, pyarrow.int64())], ["n", "_count"]
    )
    gone = Columns(SCHEMA, table).negative()
    assert from_arrow(Frame.of_rows(spark, gone).dataframe.toArrow(), SCHEMA) == gone
