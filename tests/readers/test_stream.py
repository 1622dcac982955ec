"""`spark.readStream.format("headwater")`: a view's changes, each once, from version to version."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

import headwater
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import Row
from headwater.errors import InputError
from headwater.frames.arrow import from_arrow
from headwater.readers.source import HeadwaterSource
from headwater.readers.stream import ChangesStream, Offset
from headwater.warehouse.loads import ViewLoad
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.view_writer import ViewWriter
from headwater.warehouse.warehouse import Warehouse
from tests.warehouse import topped
from tests.warehouse.views import SCHEMA, definition, vector

LIMIT_S = 600.0
FOLLOWING = str(Path(__file__).parent / "following.py")


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse", durable=False)


def load(warehouse: Warehouse, contents: Rows) -> ViewTable:
    loaded = definition(schema=contents.schema)
    return warehouse.put(ViewLoad(loaded, vector(0), contents, "strobe", "strong", "loader"))


def commit(view: ViewTable, *changes: Mapping[Any, int]) -> int:
    """Returns the newest version. Taking the view over is one by itself."""
    with view.writer("r") as writer:
        for at, change in enumerate(changes, 1):
            writer.commit(Rows(view.schema, change), vector(at))
    return view.latest().number


def stream(warehouse: Warehouse, view: str = "orders", **options: str) -> ChangesStream:
    source = HeadwaterSource(
        {"warehouse": str(warehouse.path), "view": view, "changes": "true", **options}
    )
    found = source.streamReader(source.schema())
    assert isinstance(found, ChangesStream)
    return found


def batch(reader: ChangesStream, start: Offset, end: Offset, schema: Schema = SCHEMA) -> Rows:
    """What a batch has, as signed rows."""
    tables = [
        pyarrow.Table.from_batches([each])
        for part in reader.partitions(start, end)
        for each in reader.read(part)
    ]
    if not tables:
        return Rows.empty(schema)
    table = pyarrow.concat_tables(tables)
    assert set(table.column("_version").to_pylist()) == {end["version"]}
    return from_arrow(table.drop_columns(["_version"]), schema)


# Offsets


def test_a_stream_begins_with_all_rows_and_goes_on_with_what_changes(warehouse: Warehouse) -> None:
    view = load(warehouse, Rows(SCHEMA, {(1, "a"): 2, (2, "b"): 1}))
    commit(view, {(1, "a"): -1})
    reader = stream(warehouse)
    start = reader.initialOffset()
    assert start["version"] == 0
    first = reader.latestOffset(start, ReadAllAvailable())
    assert batch(reader, start, first) == Rows(SCHEMA, {(1, "a"): 1, (2, "b"): 1})
    commit(view, {(2, "b"): -1}, {(3, None): 1})
    second = reader.latestOffset(first, ReadAllAvailable())
    assert batch(reader, first, second) == Rows(SCHEMA, {(2, "b"): -1, (3, None): 1})
    assert reader.latestOffset(second, ReadAllAvailable()) == second
    assert list(reader.partitions(second, second)) == []


def test_a_stream_may_begin_behind_a_version_or_with_what_comes(warehouse: Warehouse) -> None:
    view = load(warehouse, Rows(SCHEMA, {(1, "a"): 1}))
    newest = commit(view, {(2, "b"): 1})
    assert stream(warehouse, startingVersion="latest").initialOffset()["version"] == newest
    reader = stream(warehouse, startingVersion="1")
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert batch(reader, reader.initialOffset(), end) == Rows(SCHEMA, {(2, "b"): 1})
    with pytest.raises(InputError, match="has no version 99"):
        stream(warehouse, startingVersion="99").initialOffset()


def test_a_batch_has_as_many_versions_as_it_may(warehouse: Warehouse) -> None:
    view = load(warehouse, Rows(SCHEMA, {}))
    newest = commit(view, *({(n, None): 1} for n in range(5)))
    reader = stream(warehouse, maxVersionsPerTrigger="2", startingVersion="1")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxFiles(2)
    at, seen = reader.initialOffset(), [1]
    while (then := reader.latestOffset(at, limit)) != at:
        at = then
        seen.append(at["version"])
    assert seen == [1, 3, 5, newest]
    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable())["version"] == newest


def test_a_batch_has_at_least_one_version(warehouse: Warehouse) -> None:
    load(warehouse, Rows(SCHEMA, {}))
    with pytest.raises(InputError, match="It is a whole number from 1 on"):
        stream(warehouse, maxVersionsPerTrigger="0")


def test_what_is_available_now_ends_there(warehouse: Warehouse) -> None:
    view = load(warehouse, Rows(SCHEMA, {(1, "a"): 1}))
    reader = stream(warehouse)
    reader.prepareForTriggerAvailableNow()
    until = view.latest().number
    commit(view, {(2, "b"): 1})
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert end["version"] == until
    assert reader.latestOffset(end, ReadAllAvailable()) == end


def test_an_offset_that_is_gone_is_told_with_what_to_do(warehouse: Warehouse) -> None:
    view = load(warehouse, Rows(SCHEMA, {(1, "a"): 1}))
    commit(view, *({(n, "b"): 1} for n in range(3)))
    reader = stream(warehouse, startingVersion="1")
    start = reader.initialOffset()
    view.fold(lambda: pytest.fail("no Spark"), "f")
    commit(view, {(7, "c"): 1})
    view.clean_up(timedelta(0), minimum_age=timedelta(0))
    end = reader.latestOffset(start, ReadAllAvailable())
    with pytest.raises(InputError, match=r"Version 1 .* cleaned up.*new checkpointLocation.*reten"):
        reader.partitions(start, end)


def test_a_first_batch_that_comes_too_late_is_told_with_what_to_do(warehouse: Warehouse) -> None:
    view = load(warehouse, Rows(SCHEMA, {(1, "a"): 1}))
    reader = stream(warehouse)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    for n in (7, 8):
        commit(view, {(n, "c"): 1})
        view.fold(lambda: pytest.fail("no Spark"), "f")
    view.clean_up(timedelta(0), minimum_age=timedelta(0))
    with pytest.raises(InputError, match=r"Version 1 .* cleaned up.*new checkpointLocation.*reten"):
        reader.partitions(start, end)


def test_a_view_that_was_dropped_and_loaded_again_is_another(warehouse: Warehouse) -> None:
    load(warehouse, Rows(SCHEMA, {(1, "a"): 1}))
    reader = stream(warehouse)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    warehouse.drop("orders")
    load(warehouse, Rows(SCHEMA, {(1, "a"): 1}))
    with pytest.raises(InputError, match=r"dropped and loaded again.*new checkpointLocation"):
        reader.latestOffset(end, ReadAllAvailable())


def test_a_view_that_is_loaded_anew_in_place_goes_on(warehouse: Warehouse) -> None:
    load(warehouse, Rows(SCHEMA, {(1, "a"): 1, (2, "b"): 2}))
    reader = stream(warehouse)
    first = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    load(warehouse, Rows(SCHEMA, {(1, "a"): 1, (2, "b"): 1, (3, "c"): 1}))
    second = reader.latestOffset(first, ReadAllAvailable())
    assert batch(reader, first, second) == Rows(SCHEMA, {(2, "b"): -1, (3, "c"): 1})


# Views with a top


@pytest.mark.parametrize("name", ["totals", "sums", "greatest"])
def test_the_changes_of_a_top_add_up_to_what_it_shows(warehouse: Warehouse, name: str) -> None:
    contents = topped.rows({("a", 1): 2, ("b", 7): 1, (None, 2): 1})
    view = topped.load(warehouse, name, contents)
    shown = topped.view(name).shown_schema
    reader = stream(warehouse, name, maxVersionsPerTrigger="1")
    at, total = reader.initialOffset(), Rows.empty(shown)
    changes: list[dict[Row, int]] = [{("a", 1): -1, ("c", 3): 1}, {("c", 3): -1}]
    for at_number, change in enumerate(changes, 1):
        with view.writer("r") as writer:
            stored = topped.view(name).stored(topped.rows(change))
            writer.commit(stored, topped.vector(at_number))
        while (then := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
            total += batch(reader, at, then, shown)
            at = then
        assert total == view.rows()


def test_a_stream_waits_while_a_top_fails(warehouse: Warehouse) -> None:
    view = topped.load(warehouse, "shares", topped.rows({("a", 2): 1}))
    reader = stream(warehouse, "shares")
    first = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    change = topped.view("shares").stored
    with view.writer("r") as writer:
        writer.commit(change(topped.rows({("a", 0): 1})), topped.vector(1))
    held = reader.latestOffset(first, ReadAllAvailable())
    with view.writer("r") as writer:
        writer.commit(change(topped.rows({("a", 0): -1, ("b", 1): 1})), topped.vector(2))
    assert held["version"] < view.latest().number - 1
    healed = reader.latestOffset(held, ReadAllAvailable())
    assert healed["version"] == view.latest().number
    total = batch(reader, reader.initialOffset(), first, view.shown_schema)
    for start, end in ((first, held), (held, healed)):
        total += batch(reader, start, end, view.shown_schema)
    assert total == view.rows()


# With Spark


def followed(folder: Path) -> Counter[Row]:
    """What a query has written, added up: of files that Spark's own list of them names."""
    found: Counter[Row] = Counter()
    entries = (folder / "changes" / "_spark_metadata").glob("[0-9]*")
    lines = [line for entry in entries for line in entry.read_text().splitlines()[1:]]
    for path in {json.loads(line)["path"].removeprefix("file://") for line in lines}:
        for row in pyarrow.parquet.ParquetFile(path).read().to_pylist():
            found[row["id"], row["name"]] += row["_change"]
    return Counter({row: count for row, count in found.items() if count})


def test_a_query_that_goes_on_from_its_checkpoint_holds_the_view(
    warehouse: Warehouse, spark: SparkSession, tmp_path: Path
) -> None:
    view = load(warehouse, Rows(SCHEMA, {(n, "a"): 1 for n in range(5)}))
    headwater.register(spark)
    for change in ({(1, "a"): -1, (9, None): 2}, {(9, None): -1}):
        commit(view, change)
        changes = (
            spark.readStream.format("headwater")
            .options(warehouse=str(warehouse.path), changes="true")
            .load("orders")
        )
        query = (
            changes.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "changes"))
        )
        query.awaitTermination()
        assert followed(tmp_path) == Counter(dict(view.rows().items()))


@pytest.mark.stress
def test_a_query_that_is_killed_again_and_again_ends_with_the_view(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    random = Random(7)
    view = load(warehouse, Rows(SCHEMA, {(n, "a"): 1 for n in range(100)}))
    with view.writer("r") as writer:
        for _ in range(8):
            with following(warehouse, tmp_path, versions=3):
                until = batches(tmp_path) + random.randint(1, 7)
                for _ in waiting(tmp_path, partial(has_batches, tmp_path, until)):
                    change(view, writer, random)
                time.sleep(random.random())  # and it is killed wherever it is then
    with following(warehouse, tmp_path, versions=10**6):
        wanted = Counter(dict(view.rows().items()))
        for _ in waiting(tmp_path, lambda: followed(tmp_path) == wanted):
            pass


@contextlib.contextmanager
def following(warehouse: Warehouse, folder: Path, versions: int) -> Iterator[None]:
    """A process with the query, killed at the end with all that it has started."""
    with (folder / "said").open("a") as said:
        process = subprocess.Popen(
            [sys.executable, FOLLOWING, str(warehouse.path), str(folder), str(versions)],
            stdout=said,
            stderr=said,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            start_new_session=True,
        )
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def batches(folder: Path) -> int:
    """How many batches the query is done with; Spark forgets the first after a while."""
    numbers = [int(entry.name) for entry in folder.glob("checkpoint/commits/[0-9]*")]
    return max(numbers, default=-1) + 1


def has_batches(folder: Path, count: int) -> bool:
    return batches(folder) >= count


def waiting(folder: Path, done: Callable[[], bool]) -> Iterator[None]:
    deadline = time.monotonic() + LIMIT_S
    while not done():
        assert time.monotonic() < deadline, (folder / "said").read_text()[-5000:]
        yield
        time.sleep(0.5)


def change(view: ViewTable, writer: ViewWriter, random: Random) -> None:
    """Three rows go and three come."""
    gone: dict[Row, int] = dict.fromkeys(random.sample(list(view.rows()), 3), -1)
    come: dict[Row, int] = {(random.randrange(10**6), random.choice("abc")): 1 for _ in range(3)}
    writer.commit(Rows(SCHEMA, {**gone, **come}), vector(writer.latest.number))
