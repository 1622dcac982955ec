"""Signed rows of a log's tail, summed up and put onto a plain table, on Spark.

Rows are grouped by all their columns, where Spark takes NULL for equal to NULL and NaN to NaN.
Only plain rows that may be among the rows taken away are looked at: a broadcast of the row
hashes finds them, and all others pass untouched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.frames.arrow import COUNT, to_arrow
from headwater.warehouse.columns import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

HASH = "_hash"
FILE = "_file"


@dataclass(frozen=True)
class Net:
    """The sum of a tail: rows to append, and rows to take away with negative counts.

    None stands for no rows, where this is known without running a job.
    """

    schema: Schema
    positive: DataFrame | None
    negative: DataFrame | None

    def applied_to(self, plain: DataFrame) -> DataFrame:
        """The plain rows after the tail, as a reader sees them."""
        parts = [plain]
        if self.negative is not None:
            hashes = self.hashes()
            untouched = with_hash(plain, self.schema).join(hashes, HASH, "left_anti")
            left = self.balance(self.suspects(plain))
            parts = [only(untouched, self.schema), repeated(left, self.schema)]
        if self.positive is not None:
            parts.append(repeated(self.positive, self.schema))
        return reduce(lambda a, b: a.unionAll(b), parts)

    def hashes(self) -> DataFrame:
        from pyspark.sql import functions as f

        assert self.negative is not None
        return f.broadcast(with_hash(self.negative, self.schema).select(HASH).distinct())

    def suspects(self, plain: DataFrame) -> DataFrame:
        """The plain rows that may have to go: a hash may also find others."""
        return with_hash(plain, self.schema).join(self.hashes(), HASH, "left_semi").drop(HASH)

    def balance(self, suspects: DataFrame) -> DataFrame:
        """The suspects with the rows to take away added: above zero stays, below is missing."""
        from pyspark.sql import functions as f

        assert self.negative is not None
        counted = only(suspects, self.schema).withColumn(COUNT, f.lit(1).cast("bigint"))
        return summed(counted.unionAll(self.negative), self.schema)


def net_of_rows(spark: SparkSession, rows: Rows) -> Net:
    """The net of a tail that was summed up in memory."""
    positive, negative = rows.positive(), rows.negative()
    return Net(
        rows.schema,
        local_frame(spark, positive) if positive else None,
        local_frame(spark, negative) if negative else None,
    )


def net_of_frame(tail: DataFrame, schema: Schema) -> Net:
    from pyspark.sql import functions as f

    net = summed(tail, schema)
    return Net(schema, net.where(f.col(COUNT) > 0), net.where(f.col(COUNT) < 0))


def local_frame(spark: SparkSession, rows: Rows) -> DataFrame:
    return spark.createDataFrame(to_arrow(rows), spark_schema(rows.schema, COUNT))


def summed(frame: DataFrame, schema: Schema) -> DataFrame:
    """Each row once with the sum of its counts."""
    from pyspark.sql import functions as f

    total = f.sum(COUNT).alias(COUNT)
    return frame.groupBy(*columns(schema)).agg(total).where(f.col(COUNT) != 0)


def repeated(frame: DataFrame, schema: Schema) -> DataFrame:
    """Each row as often as it counts, those at or below zero not at all."""
    from pyspark.sql import functions as f

    copies = f.explode(f.sequence(f.lit(1).cast("bigint"), f.col(COUNT)))
    kept = frame.where(f.col(COUNT) > 0)
    return only(kept.select(*columns(schema), copies.alias(COUNT)), schema)


def with_hash(frame: DataFrame, schema: Schema) -> DataFrame:
    from pyspark.sql import functions as f

    return frame.withColumn(HASH, f.xxhash64(*columns(schema)))


def only(frame: DataFrame, schema: Schema) -> DataFrame:
    return frame.select(*columns(schema))


def columns(schema: Schema) -> Sequence[Column]:
    from pyspark.sql import functions as f

    return [f.col("`" + name.replace("`", "``") + "`") for name in schema.names]
