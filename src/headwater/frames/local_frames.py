"""Tables of Arrow as DataFrames.

Spark 4.3 takes an empty record batch for the end of a table: the rows of all later ones are lost,
and nothing says so. A table that was filtered has such batches wherever a chunk of it had no row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def local_dataframe(spark: SparkSession, table: pyarrow.Table, schema: StructType) -> DataFrame:
    """The rows of a table, all of them."""
    full = [batch for batch in table.to_batches() if batch.num_rows]
    if not full:
        return spark.createDataFrame([], schema)
    return spark.createDataFrame(pyarrow.Table.from_batches(full, table.schema), schema)
