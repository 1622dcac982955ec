"""Signed rows of a log's tail put onto a plain table, on Spark.

Rows are grouped by all their columns, where Spark takes NULL for equal to NULL and NaN to NaN.
Only plain rows that may be among the rows taken away are counted: a broadcast of row hashes
finds them, and all others pass untouched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.frames.arrow import COUNT, from_arrow
from headwater.frames.columns import arrow_table
from headwater.frames.local_frames import local_dataframe
from headwater.frames.spark_types import spark_schema
from headwater.warehouse.columns import FILE, HASH

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True)
class Patch:
    """What a tail does to plain rows: those under some hashes go, and signed rows come instead.

    `replaced` holds the hashes; None if no row goes. `added` holds what is left of the rows that
    went, the rows of the tail, and with a negative count what the plain table lacks.
    """

    schema: Schema
    replaced: DataFrame | None
    added: DataFrame
    known: tuple[bool, frozenset[str]] | None = None

    def applied_to(self, plain: DataFrame) -> DataFrame:
        """The plain rows after the tail, as a reader sees them."""
        if self.replaced is not None:
            kept = with_hash(plain, self.schema).join(self.replaced, HASH, "left_anti")
            plain = only(kept, self.schema)
        return plain.unionAll(repeated(self.added, self.schema))

    def touched(self, plain: DataFrame) -> tuple[bool, frozenset[str]]:
        """Whether some count is below zero, and the files that rows go from."""
        from pyspark.sql import functions as f

        if self.known is not None:
            return self.known
        assert self.replaced is not None
        below = not self.added.where(f.col(COUNT) < 0).isEmpty()
        found = suspects(plain, self.replaced, self.schema).select(FILE).distinct().collect()
        return below, frozenset(row[0] for row in found)


def applied_by_key(
    spark: SparkSession, plain: DataFrame, tail: Rows, key: Sequence[str]
) -> DataFrame:
    """The plain rows after a tail, where a key identifies every row: nothing need be counted.

    Only the key's columns of the plain rows are looked at, so that a reader who wants few
    columns reads few.
    """
    from pyspark.sql import functions as f

    schema, gone = tail.schema, tail.negative()
    if gone:
        names = [f"_key{at}" for at in range(len(key))]
        away = local_frame(spark, gone).select(
            *(f.col(quoted(column)).alias(name) for column, name in zip(key, names, strict=True))
        )
        same = [
            plain[quoted(column)] == away[name] for column, name in zip(key, names, strict=True)
        ]
        plain = plain.join(f.broadcast(away), same, "left_anti")
    return plain.unionAll(only(local_frame(spark, tail.positive()), schema))


def patch_of_rows(spark: SparkSession, plain: DataFrame, tail: Rows) -> Patch:
    """The patch of a tail that was summed up in memory; one job counts the rows it takes from.

    `plain` has each row's file beside the view's columns.
    """
    from pyspark.sql import functions as f

    schema, gone = tail.schema, tail.negative()
    if not gone:
        return Patch(schema, None, local_frame(spark, tail), (False, frozenset()))
    hashes = f.broadcast(with_hash(local_frame(spark, gone), schema).select(HASH))
    found = suspects(plain, hashes, schema)
    counts = found.groupBy(*columns(schema), FILE).agg(f.count("*").alias(COUNT)).toArrow()
    files = frozenset(counts.column(FILE).to_pylist())
    added = from_arrow(counts.drop_columns([FILE]), schema) + tail
    return Patch(schema, hashes, local_frame(spark, added), (bool(added.negative()), files))


def patch_of_frame(plain: DataFrame, tail: DataFrame, schema: Schema) -> Patch:
    """The patch of a long tail, as plans only."""
    from pyspark.sql import functions as f

    net = summed(tail, schema)
    hashes = with_hash(net.where(f.col(COUNT) < 0), schema).select(HASH)
    found = only(suspects(plain, hashes, schema), schema)
    counted = found.withColumn(COUNT, f.lit(1).cast("bigint"))
    return Patch(schema, hashes, summed(counted.unionAll(net), schema))


def suspects(plain: DataFrame, hashes: DataFrame, schema: Schema) -> DataFrame:
    """The plain rows that may have to go: a hash may also find others."""
    return with_hash(plain, schema).join(hashes, HASH, "left_semi").drop(HASH)


def local_frame(spark: SparkSession, rows: Rows) -> DataFrame:
    return local_dataframe(spark, arrow_table(rows), spark_schema(rows.schema, COUNT))


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

    return [f.col(quoted(name)) for name in schema.names]


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
