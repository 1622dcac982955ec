"""A table of changes is bounded: old changes are added up, and what they were in is deleted.

What the table tells stays true: the changes up to a version, added up, are the view at it. Only
versions before the one that it begins with are told no more. They go when they are old, and when
they are more than what is put in their place, so that adding up costs as much as was changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow
import pyarrow.compute

from headwater.algebra.schema import Schema
from headwater.frames.arrow import COUNT, from_arrow
from headwater.frames.columns import arrow_table
from headwater.frames.small import is_small
from headwater.frames.spark_types import spark_schema
from headwater.storage.location import Location
from headwater.warehouse.change_feed import feed_folder, feed_schema, is_feed, without_own
from headwater.warehouse.cleaning import clean_versions, oldest_kept
from headwater.warehouse.columns import CHANGE, VERSION
from headwater.warehouse.commits import maintenance_info
from headwater.warehouse.delta_log import DeltaLog, OvertakenError
from headwater.warehouse.files import delete, read_arrow, read_spark, write_arrow, write_spark
from headwater.warehouse.netting import summed
from headwater.warehouse.table_versions import DataFile, TableVersion

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.frames.session import Spark
    from headwater.warehouse.view_table import ViewTable

MANY_FILES = 1000
"""So many files of old changes are added up in any case."""


def trim(
    view: ViewTable,
    changes: timedelta,
    versions: timedelta,
    minimum_age: timedelta,
    spark: Spark,
) -> None:
    """Add up the changes that are older than `changes`, and forget the table's own `versions`."""
    folder = feed_folder(view.plain.folder)
    if not is_feed(folder):
        return
    feed, now = DeltaLog(folder), folder.storage.now()
    old = oldest_kept(feed, now - max(changes, minimum_age).total_seconds())
    if old is not None:
        _add_up(view, feed, old, spark)
    clean_versions(feed, now, versions, minimum_age)


def _add_up(view: ViewTable, feed: DeltaLog, old: int, spark: Spark) -> None:
    """Put the sum of all changes up to a version of the table in their place."""
    newest = feed.snapshot()
    names = {file.name for file in feed.snapshot(old).files}
    files = [file for file in newest.files if file.name in names]
    if len(files) < 2 or not _is_worth(files, view.plain.snapshot()):
        return
    written = _summed(view, without_own(newest), feed.folder, files, spark)
    actions = [  # who has read them misses nothing, and who begins now reads no row twice
        maintenance_info(view.name, "compact"),
        *(file.remove(data_change=False) for file in files),
        *(file.add(data_change=False) for file in written),
    ]
    try:
        if feed.put(newest.version + 1, actions, [feed.folder / file.name for file in written]):
            return
    except OvertakenError:
        pass
    delete(feed.folder, written)  # another was quicker: the next time


def _is_worth(files: Sequence[DataFile], plain: TableVersion) -> bool:
    rows = sum(file.rows for file in files)
    return len(files) > MANY_FILES or rows > 2 * sum(file.rows for file in plain.files)


def _summed(
    view: ViewTable, schema: Schema, folder: Location, files: Sequence[DataFile], spark: Spark
) -> list[DataFile]:
    small = is_small(sum(file.rows for file in files), sum(file.size for file in files))
    if callable(spark) and small:
        return _in_memory(schema, folder, files)
    return _on_spark(view, schema, folder, files, spark() if callable(spark) else spark)


def _in_memory(schema: Schema, folder: Location, files: Sequence[DataFile]) -> list[DataFile]:
    table = read_arrow(folder, files, feed_schema(schema))
    last = pyarrow.compute.max(table.column(VERSION))
    net = arrow_table(from_arrow(table.select([*schema.names, CHANGE]), schema))
    net = net.append_column(VERSION, pyarrow.repeat(last, net.num_rows))
    net = net.rename_columns(feed_schema(schema).names)
    return [write_arrow(net, folder, None, None)] if net.num_rows else []


def _on_spark(
    view: ViewTable,
    schema: Schema,
    folder: Location,
    files: Sequence[DataFile],
    spark: SparkSession,
) -> list[DataFile]:
    from pyspark.sql import functions as f

    every = read_spark(spark, folder, files, spark_schema(schema, CHANGE, VERSION))
    (last,) = every.agg(f.max(VERSION)).collect()[0]
    net = summed(every.withColumnRenamed(CHANGE, COUNT), schema)
    net = net.withColumnRenamed(COUNT, CHANGE).withColumn(VERSION, f.lit(last).cast("bigint"))
    return write_spark(net, folder, view.staging, None)
