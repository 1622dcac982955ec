"""The table of a view's changes, for who asks for it: `<view>_changes`, appended when it is folded.

It has the view's columns, `_change` (how many copies of a row came or, below zero, went) and
`_version` (the version of the view that the change led to). Its first changes are all rows that the
view had when the table was made: what is up to a version, added up, is the view at it.

It follows the plain table: what one of its commits changed is what is in the files that it added,
less what is in the files that it removed. So a crash between both is made up for by whoever comes
next, from the plain table's log. Where that cannot be, because the plain table has other columns
now or its log has been cleaned up, the table is made anew, and begins with all rows again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow

from headwater.algebra.schema import Schema
from headwater.errors import EngineError, InputError
from headwater.frames.arrow import COUNT, arrow_schema, plain_from_arrow
from headwater.frames.columns import arrow_table
from headwater.frames.small import is_small
from headwater.frames.spark_types import spark_schema
from headwater.storage.location import Location
from headwater.warehouse.columns import CHANGE, VERSION
from headwater.warehouse.commits import APP, LogLine, commit_of, maintenance_info
from headwater.warehouse.delta_log import DeltaLog, OvertakenError, is_occupied, is_table
from headwater.warehouse.files import read_arrow, read_spark, write_arrow, write_spark
from headwater.warehouse.netting import summed
from headwater.warehouse.remaking import aside_for, looked_at, remade
from headwater.warehouse.table_versions import DataFile, TableVersion
from headwater.warehouse.tables import schema_of, table_actions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.frames.session import Spark
    from headwater.warehouse.view_table import ViewTable

_FOLLOWED = f"{APP}.followed"
"""The app transaction that holds 1 + the version of the plain table up to which changes are in."""


@dataclass(frozen=True)
class _Step:
    """What a commit of the plain table changed, or all that it has at a version."""

    version: int
    number: int
    schema: Schema
    gone: Sequence[DataFile]
    come: Sequence[DataFile]
    is_whole: bool = False

    @classmethod
    def whole(cls, plain: TableVersion) -> _Step:
        return cls(plain.version, plain.number, schema_of(plain), (), plain.files, True)


def feed_folder(plain: Location) -> Location:
    return plain.parent / f"{plain.name}_changes"


def is_feed(folder: Location) -> bool:
    """Whether a folder is a table of changes."""
    if not is_table(folder):
        return False
    try:
        return DeltaLog(folder).snapshot().transaction(_FOLLOWED) is not None
    except EngineError:
        return False


def follow(view: ViewTable, spark: Spark) -> None:
    """Bring the table of changes up to the plain table; make it if it is not there."""
    folder = feed_folder(view.plain.folder)
    if not is_feed(folder):
        _make(view, folder, spark)
        return
    feed = DeltaLog(folder)
    while (newest := feed.snapshot()).version >= 0:
        step = _next(view, newest)
        if step is None:
            return
        files = _written(view, step, feed.folder, spark)
        made: list[LogLine] = []
        if step.is_whole:
            made = _columns(view.name, step.schema, newest)
            made += [file.remove() for file in newest.files]
        view.plain.make_durable()  # what is told of a version lasts no longer than the version
        try:
            feed.put(newest.version + 1, [*made, *_actions(view.name, step, files)])
        except OvertakenError:
            continue


def _next(view: ViewTable, feed: TableVersion) -> _Step | None:
    """The next commit of the plain table; all of it, where that does not tell the changes."""
    plain = view.plain.snapshot()
    version = feed.transaction(_FOLLOWED) or 0
    schema = schema_of(plain)
    if version > plain.version + 1 or without_own(feed) != schema:
        return _Step.whole(plain)
    while version <= plain.version:
        entry = view.plain.entry(version)
        if entry is None or 0 < version <= view.plain.oldest():  # or what it removed is gone
            return _Step.whole(plain)
        commit = commit_of(entry, version)
        if commit is not None:
            gone = [_removed(action["remove"]) for action in entry if "remove" in action]
            come = [DataFile.of_add(action["add"]) for action in entry if "add" in action]
            return _Step(version, commit.number, schema, gone, come)
        version += 1  # of others, who change files and not rows
    return None


def _removed(remove: LogLine) -> DataFile:
    return DataFile.of_add({"path": remove["path"], "size": remove.get("size", 0)})


def _make(view: ViewTable, folder: Location, spark: Spark) -> None:
    if is_occupied(folder):
        raise InputError(
            f"The folder {folder} is in the way of the changes of the view {view.name}.",
            "It was not made for them: move it away, or leave out WITH CHANGES.",
        )
    step = _Step.whole(view.plain.snapshot())
    feed = looked_at(folder)
    with aside_for(folder, view.staging) as aside:
        files = _written(view, step, aside, spark)
        actions = [*_columns(view.name, step.schema), *_actions(view.name, step, files)]
        view.plain.make_durable()
        remade(feed, feed.first_version(), aside, actions, view.staging)


def _columns(view: str, schema: Schema, before: TableVersion | None = None) -> list[LogLine]:
    text = f"The changes of the view {view}, kept by Headwater; read only."
    return table_actions(f"{view}_changes", feed_schema(schema), text, before)


def feed_schema(schema: Schema) -> pyarrow.Schema:
    """The columns of a table of changes, of a view with these."""
    own = [pyarrow.field(name, pyarrow.int64()) for name in (CHANGE, VERSION)]
    return pyarrow.schema([*arrow_schema(schema), *own])


def without_own(feed: TableVersion) -> Schema:
    """The columns of the view."""
    columns = schema_of(feed).columns
    return Schema(tuple(column for column in columns if column.name not in (CHANGE, VERSION)))


def _actions(view: str, step: _Step, files: Sequence[DataFile]) -> list[LogLine]:
    now = int(time.time() * 1000)
    followed = {"appId": _FOLLOWED, "version": step.version + 1, "lastUpdated": now}
    info = maintenance_info(view, "store")
    return [info, {"txn": followed}, *(file.add() for file in files)]


# Rows


def _written(view: ViewTable, step: _Step, folder: Location, spark: Spark) -> list[DataFile]:
    """The changes in new files."""
    size = sum(file.size for file in (*step.gone, *step.come))
    if callable(spark) and is_small(sum(file.rows for file in step.come), size):
        return _in_memory(view, step, folder)
    return _on_spark(view, step, folder, spark() if callable(spark) else spark)


def _in_memory(view: ViewTable, step: _Step, folder: Location) -> list[DataFile]:
    schema = arrow_schema(step.schema)
    come, gone = (
        plain_from_arrow(read_arrow(view.plain.folder, files, schema), step.schema)
        for files in (step.come, step.gone)
    )
    table = arrow_table(come - gone)
    numbers = pyarrow.repeat(pyarrow.scalar(step.number, pyarrow.int64()), table.num_rows)
    table = table.append_column(VERSION, numbers).rename_columns(feed_schema(step.schema).names)
    return [write_arrow(table, folder, None, None)] if table.num_rows else []


def _on_spark(
    view: ViewTable, step: _Step, folder: Location, spark: SparkSession
) -> list[DataFile]:
    from pyspark.sql import functions as f

    schema = spark_schema(step.schema)
    come, gone = (
        read_spark(spark, view.plain.folder, files, schema).withColumn(
            COUNT, f.lit(sign).cast("bigint")
        )
        for files, sign in ((step.come, 1), (step.gone, -1))
    )
    changes = summed(come.unionAll(gone), step.schema).withColumnRenamed(COUNT, CHANGE)
    changes = changes.withColumn(VERSION, f.lit(step.number).cast("bigint"))
    return write_spark(changes, folder, view.staging, None)
