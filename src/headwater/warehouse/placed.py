"""A state of a view on Spark, by the places of the rows that went: a scan with a bit for each row.

Where the rows are is found without Spark (see `located`). Then a query reads the columns that it
asks for, and none to look rows up by: of each row it looks at one bit, and at none where no row of
a file went. What came is added from memory. The plan is kept for the next query of the state.

It is for tails that fit into memory, over tables that one process can look through; all others are
patched (see `netting` and `showing`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

import numpy
import numpy.typing
import pyarrow
from py4j.protocol import Py4JError

from headwater.frames.local_frames import local_dataframe
from headwater.frames.spark_types import spark_schema
from headwater.warehouse.files import check_files, read_named
from headwater.warehouse.spark_files import readable
from headwater.warehouse.table_versions import DataFile

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import ArrayType, StructType

    from headwater.warehouse.located import Located
    from headwater.warehouse.scanning import Scan

_WORD = 64
_MOST_ALONE = 8
"""So many files from which rows went are read each by a scan of its own."""
_NO_PLACE = "This Spark does not tell the places of rows in files."
Words: TypeAlias = numpy.typing.NDArray[numpy.int64]
Places: TypeAlias = Mapping[str, Sequence[int]]
"""Of each file by its name."""


def placed_frame(found: Located, spark: SparkSession) -> DataFrame:
    """What is seen of a state, remembered with the places of its rows for the session's next query.

    Its columns are made anew each time: a frame may be joined with another one of the same state.
    """
    from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

    scan = found.scan
    names = tuple(readable(spark, scan.folder, scan.files))
    check_files(scan.folder, scan.files)
    frame, known = found.frames.get(spark, (None, None))
    if frame is None or known != names:
        told = {file.name: name for file, name in zip(scan.files, names, strict=True)}
        made = _placed(scan, found.places, told, spark)
        assert isinstance(made, ClassicFrame)
        frame = made._jdf
        found.frames[spark] = frame, names
    return ClassicFrame(frame, spark).toDF(*scan.schema.names)


def _placed(scan: Scan, places: Places, names: Mapping[str, str], spark: SparkSession) -> DataFrame:
    """What is seen of a scan, whose rows went from these places; `names` are those for Spark."""
    schema = spark_schema(scan.schema)
    touched = [file for file in scan.files if file.name in places]
    others = [file for file in scan.files if file.name not in places]
    frames = [read_named(spark, _each(others, names), schema)] if others else []
    index = _index_name(spark)
    if index is not None and len(touched) <= _MOST_ALONE:
        for file in touched:
            frames.append(_alone(names[file.name], places[file.name], index, schema, spark))
    else:
        for files in _told_apart(touched):
            here = {file.size: places[file.name] for file in files}
            frame = read_named(spark, _each(files, names), schema)
            frames.append(frame.where(_stays(frame, here, len(files) == 1, spark)))
    if scan.added.num_rows or not frames:
        frames.append(local_dataframe(spark, scan.added, schema))
    return reduce(lambda one, other: one.unionAll(other), frames)


def _each(files: Sequence[DataFile], names: Mapping[str, str]) -> list[str]:
    return [names[file.name] for file in files]


def _alone(
    name: str, places: Sequence[int], index: str, schema: StructType, spark: SparkSession
) -> DataFrame:
    """A file without some rows, where Spark gives each row's place as a column of its own.

    Spark makes no struct of each row then, as it does for `_metadata`. A Spark that did not know
    the column would read NULL, which is told.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import LongType, StructType

    frame = read_named(spark, [name], StructType([*schema.fields]).add(index, LongType()))
    at = f.coalesce(frame[index], f.raise_error(f.lit(_NO_PLACE)))
    return frame.where(_is_clear(_held(_words(places), spark), _word(at), at)).drop(index)


def _index_name(spark: SparkSession) -> str | None:
    """The column in which this Spark reads a row's place in its file, if there is one."""
    machine = spark._jvm
    assert machine is not None
    parquet = machine.org.apache.spark.sql.execution.datasources.parquet
    try:
        return str(parquet.ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME())
    except (Py4JError, TypeError):
        return None


def _told_apart(files: Sequence[DataFile]) -> list[list[DataFile]]:
    """Files in as many lists as it takes for each size to be in a list once.

    A scan tells the size of a row's file, which is compared sooner than its name.
    """
    found: list[dict[int, DataFile]] = []
    for file in files:
        free = next((each for each in found if file.size not in each), None)
        if free is None:
            found.append(free := {})
        free[file.size] = file
    return [list(each.values()) for each in found]


def _stays(
    frame: DataFrame, places: Mapping[int, Sequence[int]], is_alone: bool, spark: SparkSession
) -> Column:
    """Whether a row is in none of these places of the files that have these sizes; the size need
    not be looked at where a file is alone."""

    metadata = frame.metadataColumn("_metadata")
    at = metadata["row_index"]
    parts = {size: _words(each) for size, each in places.items()}
    words = numpy.concatenate(list(parts.values()))
    word = _word(at)
    if not is_alone:
        numbers = [len(each) for each in parts.values()]
        starts = accumulate(numbers[:-1], initial=0)
        word = _word_in(metadata, list(zip(parts, starts, numbers, strict=True))).cast("int")
    return _is_clear(_held(words, spark), word, at)


def _word(at: Column) -> Column:
    """Which word has the bit of a row."""
    from pyspark.sql import functions as f

    return f.shiftright(at, 6).cast("int")


def _is_clear(words: Column, word: Column, at: Column) -> Column:
    """Whether the bit of a row is not set in its word, which may not be there."""
    from pyspark.sql import functions as f

    found = f.coalesce(f.get(words, word), f.lit(0))
    bit = at.bitwiseAND(_WORD - 1).cast("int")
    return f.call_function("shiftrightunsigned", found, bit).bitwiseAND(1) == 0


def _word_in(metadata: Column, parts: Sequence[tuple[int, int, int]]) -> Column:
    """Where the word of a row is, by the size, the first word and the number of words of each file;
    none is at -1."""
    from pyspark.sql import functions as f

    size, at = metadata["file_size"], metadata["row_index"]
    word = f.lit(-1).cast("bigint")
    for file_size, start, number in parts:
        is_there = (size == file_size) & (at < _WORD * number)
        word = f.when(is_there, f.shiftright(at, 6) + start).otherwise(word)
    return word


def _held(words: Words, spark: SparkSession) -> Column:
    """Words that a plan refers to.

    As a plain literal they would be in all texts that Spark makes of a plan and keeps, a megabyte
    each. An array in Spark's own form is not written out. Where there is none, a query of one row
    has the words, which costs a job.
    """
    try:
        return _unshown(words, spark)
    except (Py4JError, TypeError):
        from pyspark.sql.types import StructField, StructType

        table = pyarrow.table({"words": pyarrow.array([words], pyarrow.list_(pyarrow.int64()))})
        schema = StructType([StructField("words", _longs())])
        return local_dataframe(spark, table, schema).scalar()


def _unshown(words: Words, spark: SparkSession) -> Column:
    from pyspark.sql.classic.column import Column as ClassicColumn

    machine, gateway = spark._jvm, spark.sparkContext._gateway
    assert machine is not None
    assert gateway is not None
    array = gateway.new_array(machine.long, len(words))
    machine.java.nio.ByteBuffer.wrap(words.astype(">i8").tobytes()).asLongBuffer().get(array)
    sql = machine.org.apache.spark.sql
    held = sql.catalyst.expressions.UnsafeArrayData.fromPrimitiveArray(array)
    kind = sql.types.DataType.fromJson(_longs().json())
    literal = sql.catalyst.expressions.Literal(held, kind)
    return ClassicColumn(sql.classic.ExpressionUtils.column(literal))


def _longs() -> ArrayType:
    from pyspark.sql.types import ArrayType, LongType

    return ArrayType(LongType(), containsNull=False)


def _words(places: Sequence[int]) -> Words:
    """A bit for each row of a file up to the last of these places."""
    at = numpy.asarray(places, dtype=numpy.int64)
    words = numpy.zeros(int(at.max()) // _WORD + 1, dtype=numpy.uint64)
    numpy.bitwise_or.at(words, at // _WORD, numpy.uint64(1) << (at % _WORD).astype(numpy.uint64))
    return words.view(numpy.int64)
