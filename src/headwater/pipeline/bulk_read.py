"""Whole relations, all parts of one source from one snapshot: as Spark DataFrames, or in memory.

Where a snapshot can be shared with other processes, executors read it through a Spark data
source, one task for each part; a task that is run again reads the same state. Elsewhere the
driver reads, with several threads, and puts the rows into Parquet files that Spark reads.
What is small can do without Spark: the driver reads it into memory.
"""

from __future__ import annotations

import pickle
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import pyarrow
import pyarrow.parquet
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation
from headwater.errors import TooManyRowsError
from headwater.frames.arrow import arrow_schema, plain_from_arrow
from headwater.frames.expressions import spark_schema
from headwater.frames.small import is_small
from headwater.pipeline.progress import Progress
from headwater.sources.contract import Load, PartReader
from headwater.storage.location import Location
from headwater.warehouse.netting import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_NOTHING: Mapping[str, float] = {}


def as_file(name: str) -> str:
    """A name that is a single part of a path, whatever the database calls its table."""
    return quote(name, safe="").replace(".", "%2E")


class Tally:
    """How many rows were read so far: a file for each part, which any process may write."""

    def __init__(self, folder: Path, expected: Mapping[str, float] = _NOTHING) -> None:
        self._folder = folder
        self._expected = expected
        self._began = time.monotonic()
        Location.of(folder).make_folder(durable=False)

    @property
    def progress(self) -> Progress:
        return Progress(self.counted(), self._expected, time.monotonic() - self._began)

    def note(self, part: str, rows: int) -> None:
        (self._folder / as_file(part)).write_text(str(rows))

    def counted(self) -> dict[str, int]:
        """Rows for each relation."""
        counts: dict[str, int] = {}
        with suppress(FileNotFoundError):  # it is over
            for path in self._folder.iterdir():
                relation = unquote(path.name).rpartition("#")[0]
                counts[relation] = counts.get(relation, 0) + int(path.read_text() or 0)
        return counts


def read_relation(
    spark: SparkSession,
    load: Load,
    relation: Relation,
    columns: Sequence[str],
    scratch: Path,
    tally: Tally,
) -> DataFrame:
    """Some columns of a relation in the load's snapshot; `relation` is as the source has it."""
    data = _read_all(spark, load, relation, scratch, tally)
    return data.select(*(data[quoted(name)] for name in columns))


def _read_all(
    spark: SparkSession, load: Load, relation: Relation, scratch: Path, tally: Tally
) -> DataFrame:
    name = relation.short_name
    parts = range(load.parts(name))
    remote = [reader for part in parts if (reader := load.remote(name, part)) is not None]
    if len(remote) == len(parts):
        return _through_executors(spark, relation, Readers.put(scratch, remote), tally)
    return _through_files(spark, load, relation, scratch, tally)


# In memory


class Small:
    """Reads relations into memory, as long as they are small together."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._rows: dict[str, int] = {}
        self._bytes = 0

    def read(self, load: Load, relation: Relation, whole: Relation) -> Rows:
        """The columns of `relation`; `whole` is as the source has it. TooManyRowsError if it is
        too much."""
        wanted = arrow_schema(relation.schema)
        batches: list[pyarrow.RecordBatch] = []
        for part in range(load.parts(whole.short_name)):
            for batch in load.read(whole.short_name, part):
                self._count(relation.name, batch)
                batches.append(batch.select(wanted.names))
        table = pyarrow.Table.from_batches(batches, wanted)
        return plain_from_arrow(table, relation.schema)

    def _count(self, relation: str, batch: pyarrow.RecordBatch) -> None:
        self._rows[relation] = self._rows.get(relation, 0) + batch.num_rows
        self._bytes += batch.nbytes
        if not is_small(sum(self._rows.values()), self._bytes):
            raise TooManyRowsError("The relations are too large for memory.")
        self._tally.note(f"{relation}#all", self._rows[relation])


# Executors read


@dataclass(frozen=True)
class Readers:
    """Readers of a relation's parts, in a file that only this user may read.

    They know how to connect to a source. A plan would carry that in the clear to wherever Spark
    keeps, logs or sends it; so only the file's name is in the plan.
    """

    path: Path
    count: int

    @classmethod
    def put(cls, folder: Path, readers: Sequence[PartReader]) -> Readers:
        Location.of(folder).make_folder(durable=False)
        path = folder / f"{uuid.uuid4().hex}.readers"
        Location.of(path, durable=False).write(pickle.dumps(tuple(readers)))
        return cls(path, len(readers))

    def read(self, part: int) -> Iterator[pyarrow.RecordBatch]:
        readers: Sequence[PartReader] = pickle.loads(self.path.read_bytes())
        return readers[part].read()


def _through_executors(
    spark: SparkSession, relation: Relation, readers: Readers, tally: Tally
) -> DataFrame:
    schema = spark_schema(relation.schema)
    # A name of its own: loads that run side by side read different snapshots.
    title = f"headwater_{uuid.uuid4().hex}"
    source = data_source(title, schema, relation.name, readers, tally)
    spark.dataSource.register(source)
    return spark.read.format(source.name()).load()


def data_source(
    title: str, schema: Any, relation: str, readers: Readers, tally: Tally
) -> type[DataSource]:
    """A Spark data source over these readers; it travels to the executors as it is."""

    class Reader(DataSourceReader):
        def partitions(self) -> Sequence[InputPartition]:
            return [InputPartition(at) for at in range(readers.count)]

        def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
            rows = 0
            for batch in readers.read(partition.value):
                rows += batch.num_rows
                tally.note(f"{relation}#{partition.value}", rows)
                yield batch

    class Relations(DataSource):
        @classmethod
        def name(cls) -> str:
            return title

        def schema(self) -> Any:
            return schema

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader()

    return Relations


# The driver reads


def _through_files(
    spark: SparkSession, load: Load, relation: Relation, scratch: Path, tally: Tally
) -> DataFrame:
    folder = scratch / as_file(relation.name)
    shutil.rmtree(folder, ignore_errors=True)
    Location.of(folder).make_folder(durable=False)
    schema = arrow_schema(relation.schema)

    def copy(part: int) -> None:
        rows = 0
        with pyarrow.parquet.ParquetWriter(folder / f"{part}.parquet", schema) as writer:
            for batch in load.read(relation.short_name, part):
                writer.write_batch(batch)
                rows += batch.num_rows
                tally.note(f"{relation.name}#{part}", rows)

    parts = range(load.parts(relation.short_name))
    with ThreadPoolExecutor(len(parts)) as pool:
        list(pool.map(copy, parts))
    return spark.read.schema(spark_schema(relation.schema)).parquet(str(folder))
