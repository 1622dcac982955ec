"""What a load that failed says, and whether it is worth another try."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow
import pytest
from pyspark.sql import SparkSession

from headwater.errors import HeadwaterError, LostConnectionError, SourceError
from headwater.pipeline.load_failures import failure_of


def failure_in_a_task(spark: SparkSession, error: HeadwaterError) -> HeadwaterError:
    def read(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        raise error

    with pytest.raises(Exception) as caught:  # noqa: PT011 (Spark's own)
        spark.range(1).mapInArrow(read, "id bigint").collect()
    return failure_of("v", caught.value)


def test_a_connection_that_a_task_lost_is_a_lost_connection(spark: SparkSession) -> None:
    found = failure_in_a_task(spark, LostConnectionError("Source stock: the server is gone."))
    assert isinstance(found, LostConnectionError)
    assert found.message == "Source stock: the server is gone."


def test_another_error_of_a_task_is_told_in_its_own_words(spark: SparkSession) -> None:
    found = failure_in_a_task(spark, SourceError("Table t, column c: no such value."))
    assert found.message == "View v could not be loaded: Table t, column c: no such value."
