"""Whole relations, all parts of one source from one snapshot: as Spark DataFrames, or in memory.

Where a snapshot can be shared with other processes, executors read it, one task for each part; a
task that is run again reads the same state. Elsewhere the
driver reads, with several threads, and puts the rows into Parquet files that Spark reads.
What several loads read is put into such files in either case. What is small can do without Spark:
the driver reads it into memory.
"""

from __future__ import annotations

import pickle
import shutil
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable
from urllib.parse import quote, unquote

import pyarrow
import pyarrow.parquet

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation
from headwater.errors import TooManyRowsError
from headwater.frames.arrow import arrow_schema, plain_from_arrow
from headwater.frames.small import is_small
from headwater.frames.spark_types import spark_schema
from headwater.pipeline.progress import Progress
from headwater.sources.contract import PartReader
from headwater.storage.location import Location
from headwater.warehouse.netting import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_NOTHING: Mapping[str, float] = {}

Check: TypeAlias = Callable[[], None]
"""Raises if what is under way is to end."""


def as_file(name: str) -> str:
    """A name that is a single part of a path, whatever the database calls its table."""
    return quote(name, safe="").replace(".", "%2E")


class Tally:
    """How many rows were read so far: a file for each part, which any process may write."""

    def __init__(self, folder: Path, expected: Mapping[str, float] = _NOTHING) -> None:
        self._folder = folder
        self._expected = expected
        self._began = time.monotonic()
        self._shared: list[tuple[Tally, Collection[str]]] = []
        Location.of(folder).make_folder(durable=False)

    def include(self, other: Tally, relations: Collection[str]) -> None:
        """Count what is read of some relations for several loads, too."""
        self._shared.append((other, relations))

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
        for other, relations in list(self._shared):
            counts |= {name: rows for name, rows in other.counted().items() if name in relations}
        return counts


class Parts(Protocol):
    """Relations in parts, as a snapshot of a source has them (see `sources.contract.Load`)."""

    def parts(self, relation: str) -> int: ...

    def read(self, relation: str, part: int) -> Iterator[pyarrow.RecordBatch]: ...

    def remote(self, relation: str, part: int) -> PartReader | None: ...

    def close(self) -> None: ...


@runtime_checkable
class Files(Protocol):
    """Relations that are put into files, once for all loads that read them."""

    def files(self, relation: str) -> Sequence[Path]:
        """Those of a relation, once all of them are there."""
        ...

    def close(self) -> None: ...


Readable: TypeAlias = Parts | Files
"""What a view is loaded from."""


def read_relation(
    spark: SparkSession,
    load: Readable,
    relation: Relation,
    columns: Sequence[str],
    scratch: Path,
    tally: Tally,
) -> DataFrame:
    """Some columns of a relation in the load's snapshot; `relation` is as the source has it."""
    data = _read_all(spark, load, relation, scratch, tally)
    return data.select(*(data[quoted(name)] for name in columns))


def _read_all(
    spark: SparkSession, load: Readable, relation: Relation, scratch: Path, tally: Tally
) -> DataFrame:
    if isinstance(load, Files):
        return _of_files(spark, relation, load.files(relation.short_name))
    if remote := _remote(load, relation):
        return _through_executors(spark, relation, Readers.put(scratch, remote), tally)
    folder = scratch / as_file(relation.name)
    return _of_files(spark, relation, _copied_here(load, relation, folder, tally, lambda: None))


def _remote(load: Parts, relation: Relation) -> Sequence[PartReader]:
    """Who reads the parts elsewhere; nobody, if only this process can."""
    name = relation.short_name
    parts = range(load.parts(name))
    remote = [reader for part in parts if (reader := load.remote(name, part)) is not None]
    return remote if len(remote) == len(parts) else ()


def _of_files(spark: SparkSession, relation: Relation, files: Sequence[Path]) -> DataFrame:
    return spark.read.schema(spark_schema(relation.schema)).parquet(*map(str, files))


# In memory


class Small:
    """Reads relations into memory, as long as they are small together."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._rows: dict[str, int] = {}
        self._bytes = 0

    def read(self, load: Parts, relation: Relation, whole: Relation) -> Rows:
        """The columns of `relation`; `whole` is as the source has it. TooManyRowsError if it is
        too much."""
        wanted = arrow_schema(relation.schema)
        batches: list[pyarrow.RecordBatch] = []
        for part in range(load.parts(whole.short_name)):
            for batch in load.read(whole.short_name, part):
                batches.append(batch.select(wanted.names))
                self._count(relation.name, batches[-1])
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
    """One task for each part.

    Only executors run Python for that: a data source would have a process beside the driver plan
    it, for which Spark takes the executors' Python by its name there.
    """
    parts = spark.range(0, readers.count, 1, readers.count)
    schema = spark_schema(relation.schema)
    return parts.mapInArrow(reading_parts(relation.name, readers, tally), schema)


def reading_parts(
    relation: str, readers: Readers, tally: Tally
) -> Callable[[Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    """What tasks do; it travels to the executors as it is."""

    def read(numbers: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for part in [number for batch in numbers for number in batch[0].to_pylist()]:
            rows = 0
            for batch in readers.read(part):
                rows += batch.num_rows
                tally.note(f"{relation}#{part}", rows)
                yield batch

    return read


# Files


def copied(
    spark: SparkSession,
    load: Parts,
    relation: Relation,
    folder: Path,
    tally: Tally,
    check: Check,
    turn: AbstractContextManager[object],
) -> Sequence[Path]:
    """A relation in Parquet files, one for each part.

    Where the driver reads, it does when it is its `turn`, and asks `check` now and then.
    """
    if remote := _remote(load, relation):
        return _copied_by_executors(spark, relation, folder, Readers.put(folder, remote), tally)
    with turn:
        return _copied_here(load, relation, folder, tally, check)


def _copied_by_executors(
    spark: SparkSession, relation: Relation, folder: Path, readers: Readers, tally: Tally
) -> Sequence[Path]:
    parts = spark.range(0, readers.count, 1, readers.count)
    write = _writing_parts(relation, readers, folder, tally)
    try:
        parts.mapInArrow(write, "part bigint").collect()
    finally:
        readers.path.unlink(missing_ok=True)
    return [_part_file(folder, part) for part in range(readers.count)]


def _writing_parts(
    relation: Relation, readers: Readers, folder: Path, tally: Tally
) -> Callable[[Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    """What tasks do; it travels to the executors as it is."""
    schema, name = arrow_schema(relation.schema), relation.name

    def write(numbers: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in numbers:
            for part in batch[0].to_pylist():
                _write_part(readers.read(part), schema, folder, name, part, tally, lambda: None)
            yield pyarrow.RecordBatch.from_arrays([batch[0]], ["part"])

    return write


def _copied_here(
    load: Parts, relation: Relation, folder: Path, tally: Tally, check: Check
) -> Sequence[Path]:
    shutil.rmtree(folder, ignore_errors=True)
    Location.of(folder).make_folder(durable=False)
    schema, name = arrow_schema(relation.schema), relation.name

    def copy(part: int) -> Path:
        batches = load.read(relation.short_name, part)
        return _write_part(batches, schema, folder, name, part, tally, check)

    parts = range(load.parts(relation.short_name))
    with ThreadPoolExecutor(len(parts)) as pool:
        return list(pool.map(copy, parts))


def _write_part(
    batches: Iterator[pyarrow.RecordBatch],
    schema: pyarrow.Schema,
    folder: Path,
    relation: str,
    part: int,
    tally: Tally,
    check: Check,
) -> Path:
    """Write a part whole, or not at all: of a task that is run twice, both write the same rows."""
    path, aside = _part_file(folder, part), folder / f".{part}-{uuid.uuid4().hex}"
    rows = 0
    try:
        with pyarrow.parquet.ParquetWriter(aside, schema) as writer:
            for batch in batches:
                check()
                writer.write_batch(batch)
                rows += batch.num_rows
                tally.note(f"{relation}#{part}", rows)
        aside.rename(path)
    finally:
        aside.unlink(missing_ok=True)
    return path


def _part_file(folder: Path, part: int) -> Path:
    return folder / f"{part}.parquet"
