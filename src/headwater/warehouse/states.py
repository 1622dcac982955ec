"""One state of a view, pinned to the files that hold it: a base and the log's tail.

The base is a version of the plain table; of a view with a top it is a version of the stored parts,
which a version of the plain table shows. What the top makes of a state is in `showing`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow.compute

from headwater.algebra.expressions import ColumnRef
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.sums import SUM
from headwater.algebra.tops import PART, Top, evaluate_top
from headwater.algebra.typing_rules import call
from headwater.algebra.values import INT, TEXT
from headwater.frames.arrow import COUNT, arrow_schema, from_arrow, plain_from_arrow, signed_schema
from headwater.frames.columns import FEW, Columns
from headwater.frames.small import SMALL, is_small
from headwater.frames.spark_types import spark_schema
from headwater.storage.location import Location
from headwater.warehouse.columns import COMMIT, FILE, log_arrow_schema
from headwater.warehouse.commits import FoldedBase, ViewCommit
from headwater.warehouse.error_rows import sound_frame, sound_table
from headwater.warehouse.files import check_files, missing, read_arrow, read_spark
from headwater.warehouse.located import located
from headwater.warehouse.netting import (
    Patch,
    applied_by_key,
    local_frame,
    patch_of_frame,
    patch_of_rows,
    summed,
)
from headwater.warehouse.placed import placed_frame
from headwater.warehouse.showing import shown_frame
from headwater.warehouse.table_versions import DataFile, TableVersion

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headwater.frames.session import Spark

SMALL_TAIL = 50_000
"""A tail of up to so many rows is summed up in memory, a longer one on Spark."""


@dataclass(frozen=True)
class ViewState:
    """What is stored at `base`, and the rows of `log` that came after it, up to `commit`."""

    schema: Schema
    """The columns that are stored."""
    commit: ViewCommit
    plain: TableVersion
    stored: TableVersion
    """The stored parts that `plain` shows; the same as that if there is no top."""
    log: TableVersion
    base: FoldedBase
    key: tuple[str, ...] = ()
    """The columns that identify every row; none if rows may occur twice."""
    top: Top | None = None
    of_group: bool = False
    """Whether it is of a group: its plain table holds what is stored, with counts."""
    is_published: bool = True
    """Whether `plain` is what the top shows of `stored`. The plain table of a group's member may
    have still to follow what is stored: then that alone tells what is shown."""
    error_column: str | None = None
    """The column of the log that tells of errors. No base has any, so it has not that column."""
    is_left_to_spark: bool = False
    """Whether only Spark can compute what is shown, of the view or of some member of the group."""

    @property
    def shown_schema(self) -> Schema:
        return self.schema if self.top is None else self.top.schema

    @property
    def _logged_schema(self) -> Schema:
        if self.error_column is None:
            return self.schema
        return self.schema + Schema.of([(self.error_column, TEXT)])

    @property
    def is_counted(self) -> bool:
        """Whether what is stored has counts: where it is not a plain table for everybody."""
        return self.top is not None or self.of_group

    @property
    def number(self) -> int:
        """The newest commit in this state."""
        return self.commit.number

    @cached_property
    def tail_files(self) -> tuple[DataFile, ...]:
        return tuple(
            file for file in self.log.files if file.last is None or file.last > self.base.number
        )

    @property
    def tail_size(self) -> int:
        """How many signed rows the tail's files hold, of which some may be folded already."""
        return sum(file.rows for file in self.tail_files)

    @property
    def has_long_tail(self) -> bool:
        """Whether what the tail touches is thought to be too large for the driver."""
        return self.tail_size > SMALL

    @property
    def has_small_tail(self) -> bool:
        """Whether the tail is summed up in memory, and not on Spark."""
        return self.tail_size <= SMALL_TAIL

    @property
    def stored_size(self) -> int:
        """How many rows are stored, copies and signed ones counted each."""
        return self.tail_size + sum(file.rows for file in self.stored.files)

    @property
    def is_small(self) -> bool:
        """Whether all of it may be read into memory, and shown from there."""
        files = (*self._base_files, *self.tail_files)
        few = is_small(sum(file.rows for file in files), sum(file.size for file in files))
        return few and not self.is_left_to_spark

    @property
    def _base_files(self) -> tuple[DataFile, ...]:
        return self.plain.files if self.top is None else (*self.plain.files, *self.stored.files)

    @property
    def _tables(self) -> list[tuple[Location, tuple[DataFile, ...]]]:
        """The folders and files that hold this state."""
        bases = {base.folder: base.files for base in (self.plain, self.stored)}
        return [*bases.items(), (self.log.folder, self.tail_files)]

    def is_deleted(self) -> bool:
        """Whether clean-up has deleted files of this state."""
        return any(missing(folder, files) for folder, files in self._tables)

    def check_files(self) -> None:
        """EngineError if a file of this state is missing, or not of its full size."""
        for folder, files in self._tables:
            check_files(folder, files)

    # Through Arrow

    def rows(self) -> Rows:
        """What a reader sees: the rows with positive counts, under the top if there is one."""
        stored = self.signed_rows()
        return stored.positive() if self.top is None else evaluate_top(self.top, stored)

    def signed_rows(self) -> Rows:
        """All stored rows, those with negative counts too."""
        return self.stored_rows() + self.tail_rows()

    def stored_rows(self) -> Rows:
        """What is stored at the base."""
        if not self.is_counted:
            return self.plain_rows()
        found = read_arrow(self.stored.folder, self.stored.files, signed_schema(self.schema))
        return from_arrow(found, self.schema)

    def part_sizes(self) -> dict[int, int]:
        """How many rows each stored part has, by its number; only that column is read."""
        numbers = signed_schema(Schema.of([(PART, INT)]))
        logged = log_arrow_schema(Schema.of([(PART, INT)]))
        tail = read_arrow(self.log.folder, self.tail_files, logged)
        number = pyarrow.compute.field(COMMIT)
        tail = tail.filter((number > self.base.number) & (number <= self.number))
        base = read_arrow(self.stored.folder, self.stored.files, numbers)
        both = pyarrow.concat_tables([base, tail.drop_columns([COMMIT]).cast(numbers)])
        found = both.group_by(PART).aggregate([(COUNT, "sum")]).to_pylist()
        return {each[PART]: each[f"{COUNT}_sum"] for each in found}

    def plain_rows(self) -> Rows:
        """What the plain table holds."""
        schema = self.shown_schema
        found = read_arrow(self.plain.folder, self.plain.files, arrow_schema(schema))
        return plain_from_arrow(found, schema)

    def tail_rows(self) -> Rows:
        """The sum of the tail; ExpressionError if it has an error."""
        number = pyarrow.compute.field(COMMIT)
        wanted = (number > self.base.number) & (number <= self.number)
        schema = log_arrow_schema(self._logged_schema)
        table = read_arrow(self.log.folder, self.tail_files, schema, wanted)
        signed = table.drop_columns([COMMIT])
        if self.error_column is not None:
            signed = sound_table(signed, self.error_column, self._logged_schema)
        if signed.num_rows > FEW:
            return Columns(self.schema, signed)
        return from_arrow(signed, self.schema)

    def below_zero(self, spark: Spark) -> Rows:
        """The rows whose count is below zero; a plain row counts, so only the tail has such."""
        if not self.tail_files:
            return Rows.empty(self.schema)
        if self.is_small:
            return self.lacking(self.signed_rows())
        if self.has_small_tail and not self.lacking(self.tail_rows()):
            return Rows.empty(self.schema)
        frame = self.signed(spark() if callable(spark) else spark)
        return from_arrow(frame.where(self.is_lacking).toArrow(), self.schema)

    def lacking(self, stored: Rows) -> Rows:
        """The rows that should not be counted below zero; a sum may be."""
        found = stored.negative()
        if SUM not in self.schema.positions:
            return found
        return found.select(call("is null", ColumnRef(SUM, INT)))

    @property
    def is_lacking(self) -> str:
        """The same as a condition for Spark."""
        return f"{COUNT} < 0" + (f" AND {SUM} IS NULL" if SUM in self.schema.positions else "")

    # Through Spark

    def dataframe(self, spark: SparkSession) -> DataFrame:
        """What a reader sees, duplicates as repeated rows."""
        if self.is_published and (not self.tail_files or self.number <= self.base.number):
            return self.plain_frame(spark)
        if found := located(self):
            return placed_frame(found, spark)
        if self.top is not None:
            return shown_frame(self, self.top, spark)
        if self.key and self.has_small_tail:
            return applied_by_key(spark, self.plain_frame(spark), self.tail_rows(), self.key)
        return self.patch(spark).applied_to(self.plain_frame(spark))

    def signed(self, spark: SparkSession) -> DataFrame:
        """Each stored row once with its count, negative ones too."""
        return summed(self.stored_frame(spark).unionAll(self.tail_frame(spark)), self.schema)

    def plain_frame(self, spark: SparkSession) -> DataFrame:
        schema = spark_schema(self.shown_schema)
        return read_spark(spark, self.plain.folder, self.plain.files, schema)

    def stored_frame(self, spark: SparkSession) -> DataFrame:
        """What is stored at the base, with counts."""
        from pyspark.sql import functions as f

        if not self.is_counted:
            return self.plain_frame(spark).withColumn(COUNT, f.lit(1).cast("bigint"))
        schema = spark_schema(self.schema, COUNT)
        return read_spark(spark, self.stored.folder, self.stored.files, schema)

    def plain_frame_with_files(self, spark: SparkSession) -> DataFrame:
        """The plain rows, each with the name of its file."""
        return _with_files(self.plain_frame(spark), self.plain)

    def stored_frame_with_files(self, spark: SparkSession) -> DataFrame:
        return _with_files(self.stored_frame(spark), self.stored)

    def patch(self, spark: SparkSession) -> Patch:
        """What the tail does to the plain rows of a view without a top."""
        plain = self.plain_frame_with_files(spark)
        if self.has_small_tail:
            return patch_of_rows(spark, plain, self.tail_rows())
        return patch_of_frame(plain, self.tail_frame(spark), self.schema)

    def net_tail(self, spark: SparkSession) -> DataFrame:
        """Each row of the tail once with its count."""
        if self.has_small_tail:
            return local_frame(spark, self.tail_rows())
        return summed(self.tail_frame(spark), self.schema)

    def tail(self, spark: SparkSession) -> Rows:
        """The sum of the tail, in memory if it is short."""
        from headwater.frames.frame import Frame

        if self.has_small_tail:
            return self.tail_rows()
        tail = Frame.of_dataframe(self.tail_frame(spark), self.schema, signed=True)
        return tail.settled(large=self.has_long_tail)

    def tail_frame(self, spark: SparkSession) -> DataFrame:
        signed = self.logged_frame(spark)
        if self.error_column is not None:
            return sound_frame(signed, self.error_column, self._logged_schema)
        return signed

    def logged_frame(self, spark: SparkSession) -> DataFrame:
        """The tail as it was committed, errors too."""
        from pyspark.sql import functions as f

        schema = spark_schema(self._logged_schema, COUNT, COMMIT)
        frame = read_spark(spark, self.log.folder, self.tail_files, schema)
        wanted = (f.col(COMMIT) > self.base.number) & (f.col(COMMIT) <= self.number)
        return frame.where(wanted).drop(COMMIT)


def _with_files(frame: DataFrame, table: TableVersion) -> DataFrame:
    """Each row with the name of its file."""
    from pyspark.sql import functions as f

    return frame.withColumn(FILE, f.col("_metadata.file_name") if table.files else f.lit(""))
