"""Parquet files of views: small ones through Arrow, large ones through Spark."""

from __future__ import annotations

import errno
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

import pyarrow
import pyarrow.parquet

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.errors import EngineError
from headwater.frames.arrow import COUNT
from headwater.frames.columns import arrow_table, copies
from headwater.frames.naming import tell
from headwater.storage.bucket import StoreError
from headwater.storage.contract import About
from headwater.storage.location import Location
from headwater.warehouse.file_statistics import statistics_of
from headwater.warehouse.netting import columns, repeated
from headwater.warehouse.own_files import store_trouble
from headwater.warehouse.spark_files import readable, take_over, writable
from headwater.warehouse.table_versions import DataFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
    from pyspark.sql.types import StructType


_WAITED_S = 60.0
_GROUP_ROWS = 2**16
_GROUP_BYTES = 16 * 2**20
"""Of row groups: a row that is looked up is read with all of its group."""
_DAMAGED = (None, errno.ENOENT, errno.EIO, errno.EINVAL, errno.EISDIR, errno.ELOOP)
"""What tells that a file is lost; after other errors it may be whole."""


class UnreadableFileError(EngineError):
    """A file that a view's table names is missing or damaged."""

    def __init__(self, path: Location) -> None:
        view = path.parent.name
        super().__init__(
            f"The file {path} of the view {view} is missing or damaged.",
            f"Load the view anew with 'headwater reload {view}'.",
        )
        self.missing = not path.exists()


def write_arrow(
    table: pyarrow.Table,
    folder: Location,
    first: int | None,
    last: int | None,
    *,
    statistics: bool = False,
) -> DataFile:
    """Write a new file; `first` and `last` bound the commit numbers in it.

    `statistics` of row groups let readers pass over some; a commit's few rows need none.
    """
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(
        table,
        sink,
        use_dictionary=False,
        write_statistics=statistics,
        store_schema=False,
        write_page_checksum=True,
        row_group_size=_GROUP_ROWS,
    )
    content = sink.getvalue()
    name = _name(folder, first)
    (folder / name).write(memoryview(content))
    if not statistics:
        return DataFile(name, content.size, table.num_rows, first, last)
    told = statistics_of(pyarrow.parquet.read_metadata(pyarrow.BufferReader(content)))
    return DataFile(name, content.size, table.num_rows, first, last, told)


def write_contents(
    contents: Rows | DataFrame, schema: Schema, folder: Location, staging: Location
) -> list[DataFile]:
    """Write the rows that a reader sees, each as often as it counts, into new files."""
    if not isinstance(contents, Rows):
        return write_spark(repeated(contents, schema), folder, staging, None)
    plain = copies(contents)
    return [write_arrow(plain, folder, None, None, statistics=True)] if plain.num_rows else []


def write_counted(
    contents: Rows | DataFrame, schema: Schema, folder: Location, staging: Location
) -> list[DataFile]:
    """Write rows into new files, each once with its count."""
    if isinstance(contents, Rows):
        return [write_arrow(arrow_table(contents), folder, None, None)] if contents else []
    return write_spark(contents.select(*columns(schema), COUNT), folder, staging, None)


def read_arrow(
    folder: Location, files: Sequence[DataFile], schema: pyarrow.Schema, where: object = None
) -> pyarrow.Table:
    """All rows of the files, in the types of `schema`; `where` is an Arrow expression."""
    tables = [_read(folder / file.name, schema) for file in files]
    table = pyarrow.concat_tables(tables) if tables else schema.empty_table()
    return table if where is None else table.filter(where)


def _read(path: Location, schema: pyarrow.Schema) -> pyarrow.Table:
    try:
        source = path.for_arrow()
        with pyarrow.parquet.ParquetFile(source, page_checksum_verification=True) as file:
            return file.read(schema.names).cast(schema)
    except (OSError, pyarrow.ArrowException, ValueError) as error:
        raise unreadable(path, error) from None


def unreadable(path: Location, error: Exception) -> Exception:
    """What tells that a file cannot be read."""
    if isinstance(error, StoreError):
        return store_trouble(error)
    if isinstance(error, OSError) and error.errno not in _DAMAGED:
        return error  # the file may be whole
    return UnreadableFileError(path)


def read_places(
    folder: Location, file: DataFile, schema: pyarrow.Schema, places: Sequence[int]
) -> pyarrow.Table:
    """The rows in these places of a file, in rising order; only the row groups that hold them are
    read."""
    path = folder / file.name
    try:
        with pyarrow.parquet.ParquetFile(
            path.for_arrow(), page_checksum_verification=True
        ) as opened:
            sizes = [opened.metadata.row_group(at).num_rows for at in range(opened.num_row_groups)]
            ends = list(accumulate(sizes))
            held = sorted({bisect_right(ends, place) for place in places})
            before = {at: ends[at] - sizes[at] for at in held}
            read = dict(zip(held, accumulate([0, *(sizes[at] for at in held)]), strict=False))
            at_group = [bisect_right(ends, place) for place in places]
            taken = [
                place - before[at] + read[at] for place, at in zip(places, at_group, strict=True)
            ]
            return opened.read_row_groups(held, schema.names).take(taken).cast(schema)
    except (OSError, pyarrow.ArrowException, ValueError, IndexError) as error:
        raise unreadable(path, error) from None


def write_spark(
    frame: DataFrame, folder: Location, staging: Location, first: int | None
) -> list[DataFile]:
    """Let Spark write new files: into a folder of their own, then moved into the table's.

    So a file is in the table's folder only when it is whole, and it is young then: clean-up
    deletes no young file, however long the job took.
    """
    spark = tell(frame.sparkSession)
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    spark.conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", "CORRECTED")
    with writable(spark, staging) as (name_for_spark, written):
        _writer(frame).parquet(name_for_spark)
        files = []
        for part in written.files(".parquet"):
            about = pyarrow.parquet.read_metadata(part.for_arrow())
            if about.num_rows:
                name = _name(folder, first)
                told = statistics_of(about) if first is None else {}
                files.append(DataFile(name, part.size(), about.num_rows, first, first, told))
                take_over(part, folder / name)
        return files


def _writer(frame: DataFrame) -> DataFrameWriter:
    """What writes a frame, so that each task's files are there once and whole, or not at all.

    A task may be tried again, or run twice at once. The files of each try are apart until Spark's
    driver has taken one of them, and are moved when all tasks are done.
    """
    return frame.write.options(
        **{
            "parquet.block.size": str(_GROUP_BYTES),
            "mapreduce.fileoutputcommitter.algorithm.version": "1",
        }
    )


def renewed(folder: Location, files: Sequence[DataFile]) -> list[DataFile]:
    """New files that had to wait while others were written, young again.

    Under another name each: clean-up may have seen that the file of this name is old.
    """
    found = []
    for file in files:
        path = folder / file.name
        if path.age_s() > _WAITED_S:
            file = replace(file, name=_name(folder, file.first))
            path.adopt(folder / file.name)
        found.append(file)
    return found


def read_spark(
    spark: SparkSession, folder: Location, files: Sequence[DataFile], schema: StructType
) -> DataFrame:
    """The rows of the files; no file gives no rows."""
    if not files:
        return spark.createDataFrame([], schema)
    check_files(folder, files)  # Spark finds out late, and in its own words
    return read_named(spark, readable(spark, folder, files), schema)


def read_named(spark: SparkSession, names: Sequence[str], schema: StructType) -> DataFrame:
    """The rows of files that have been looked at, by their names for Spark."""
    return spark.read.schema(schema).option("datetimeRebaseMode", "CORRECTED").parquet(*names)


def check_files(folder: Location, files: Sequence[DataFile]) -> None:
    """UnreadableFileError if one of the files is missing, or not of its full size."""
    found = _abouts(folder, files)
    for file in files:
        about = found.get(file.name)
        if about is None or about.size != file.size:
            raise UnreadableFileError(folder / file.name)


def missing(folder: Location, files: Sequence[DataFile]) -> bool:
    """Whether one of the files has been deleted."""
    return not {file.name for file in files} <= _abouts(folder, files).keys()


def _abouts(folder: Location, files: Sequence[DataFile]) -> Mapping[str, About]:
    """What is known of those files that are there; one list is cheaper than many requests."""
    if files and not folder.storage.moves_folders:
        return folder.listed()
    found = ((file.name, (folder / file.name).about()) for file in files)
    return {name: about for name, about in found if about is not None}


def delete(folder: Location, files: Sequence[DataFile]) -> None:
    """Delete files that no commit refers to."""
    for file in files:
        (folder / file.name).remove()


def _name(folder: Location, first: int | None) -> str:
    return f"{first or 0:012}-{folder.storage.fresh_name()}.parquet"
