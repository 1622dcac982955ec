"""Plain tables as other readers of Delta find them: the same rows, and statistics to go by."""

import json
import os
import subprocess
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import INT, TEXT, parse_type
from headwater.frames.arrow import plain_from_arrow
from headwater.warehouse.loads import ViewLoad
from headwater.warehouse.netting import local_frame
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse
from tests.warehouse.views import definition, vector

TYPES = {
    "n": "int",
    "s": "text",
    "d": "date",
    "t": "timestamp",
    "z": "timestamp_tz",
    "f": "float",
    "m": "decimal(10,2)",
    "b": "bool",
    "x": "bytes",
}
SCHEMA = Schema.of((name, parse_type(kind)) for name, kind in TYPES.items())
DELTA_SPARK = os.environ.get("HEADWATER_DELTA_PYTHON", "")
NOON = datetime(2024, 5, 1, 12, 0, 0, 123_456)


def row(n: int, text: str | None = "a") -> tuple[Any, ...]:
    moment = NOON + timedelta(seconds=n)
    day = date(2024, 1, 1) + timedelta(days=n)
    values = (n, text, day, moment, moment.replace(tzinfo=UTC), n / 3, Decimal(n), n > 0, b"x")
    return SCHEMA.row(values)


def rows(*found: tuple[Any, ...]) -> Rows:
    return Rows(SCHEMA, dict.fromkeys(found, 1))


@pytest.fixture(params=["memory", "spark"])
def view(warehouse: Warehouse, request: pytest.FixtureRequest, spark: SparkSession) -> ViewTable:
    """Loaded in memory or by Spark: each has writers of its own."""
    contents = rows(*(row(n) for n in range(1, 6)), row(7, None))
    put = contents if request.param == "memory" else local_frame(spark, contents)
    return warehouse.create(
        ViewLoad(definition(schema=SCHEMA), vector(0), put, "strobe", "strong", "loader")
    )


def statistics(view: ViewTable) -> list[dict[str, Any]]:
    entry = view.plain.entry(view.plain.snapshot().version) or []
    return [json.loads(action["add"]["stats"]) for action in entry if "add" in action]


def bounds(view: ViewTable, column: str) -> tuple[Any, Any, int]:
    found = statistics(view)
    return (
        min(each["minValues"][column] for each in found if column in each["minValues"]),
        max(each["maxValues"][column] for each in found if column in each["maxValues"]),
        sum(each["nullCount"][column] for each in found),
    )


def test_each_file_tells_its_bounds_and_never_too_narrow_ones(view: ViewTable) -> None:
    assert bounds(view, "n") == (1, 7, 0)
    assert bounds(view, "s") == ("a", "a", 1)
    assert bounds(view, "d") == ("2024-01-02", "2024-01-08", 0)
    assert bounds(view, "t") == ("2024-05-01T12:00:01.123", "2024-05-01T12:00:07.124", 0)
    assert bounds(view, "z") == ("2024-05-01T12:00:01.123Z", "2024-05-01T12:00:07.124Z", 0)
    for each in statistics(view):
        assert not {"f", "m", "b", "x"} & each["minValues"].keys()
        assert each["numRecords"] >= 1


def test_long_texts_have_no_bounds(warehouse: Warehouse) -> None:
    schema = Schema.of([("n", INT), ("s", TEXT)])
    contents = Rows(schema, {(1, "a" * 33): 1, (2, "b"): 1})
    loaded = definition(schema=schema)
    view = warehouse.create(ViewLoad(loaded, vector(0), contents, "strobe", "strong", "loader"))
    assert statistics(view)[0]["minValues"] == {"n": 1}


def test_others_read_the_same_rows_after_folds_checkpoints_and_clean_up(
    view: ViewTable, spark: SparkSession
) -> None:
    for at in range(1, 4):
        with view.writer("r") as writer:
            writer.commit(rows(row(10 + at)) - rows(row(at)), vector(at))
        view.fold(spark, "f")
    view.plain.write_checkpoint(view.plain.snapshot())
    view.clean_up(timedelta(0), minimum_age=timedelta(0))
    table = DeltaTable(str(view.plain.folder.local))
    assert plain_from_arrow(table.to_pyarrow_table(), SCHEMA) == view.rows()
    features = table.protocol()
    assert (features.min_reader_version, features.reader_features) == (3, ["timestampNtz"])
    files = table.file_uris()
    counted = (
        duckdb.connect().execute(f"SELECT count(*), sum(n) FROM read_parquet({files!r})").fetchall()
    )
    assert counted == [(6, sum(table.to_pandas()["n"]))]


def test_a_filter_of_others_passes_over_files_and_misses_no_row(
    view: ViewTable, spark: SparkSession
) -> None:
    with view.writer("r") as writer:
        writer.commit(rows(row(100)), vector(1))
    view.fold(spark, "f")
    dataset = DeltaTable(str(view.plain.folder.local)).to_pyarrow_dataset()
    everything = list(dataset.get_fragments())
    assert len(everything) > 1
    for wanted in (
        pc.field("n") == 100,
        pc.field("d") == row(100)[2],
        pc.field("t") == row(100)[3],
    ):
        assert dataset.to_table(filter=wanted).column("n").to_pylist() == [100]
        assert len(list(dataset.get_fragments(wanted))) < len(everything)
    for n in range(1, 6):
        found = dataset.to_table(filter=pc.field("z") == pyarrow.scalar(row(n)[4]))
        assert found.column("n").to_pylist() == [n]


def test_polars_reads_the_same_rows_by_a_path_and_by_an_address(
    view: ViewTable, spark: SparkSession
) -> None:
    polars = pytest.importorskip("polars")
    for at in range(1, 4):
        with view.writer("r") as writer:
            writer.commit(rows(row(10 + at)) - rows(row(at)), vector(at))
        view.fold(spark, "f")
    view.plain.write_checkpoint(view.plain.snapshot())
    view.clean_up(timedelta(0), minimum_age=timedelta(0))
    folder = view.plain.folder.local
    for place in (str(folder), folder.as_uri()):
        frame = polars.read_delta(place)
        assert sorted(frame.rows()) == sorted(view.rows())
        for n in (4, 12):
            lazy = polars.scan_delta(place)
            for wanted in (polars.col("n") == n, polars.col("t") == row(n)[3]):
                assert lazy.filter(wanted).collect()["n"].to_list() == [n]
    assert polars.scan_delta(str(folder)).filter(polars.col("s").is_null()).collect().height == 1
    assert duckdb.from_arrow(DeltaTable(folder.as_uri()).to_pyarrow_dataset()).aggregate(
        "sum(n)"
    ).fetchall() == [(52,)]


@pytest.mark.stress
@pytest.mark.skipif(not DELTA_SPARK, reason="HEADWATER_DELTA_PYTHON is not set")
def test_deltas_own_reader_for_spark_reads_the_same_rows(
    view: ViewTable, spark: SparkSession
) -> None:
    """It lags behind Spark, so it is of another Python: one with `delta-spark` and its Spark."""
    for at in range(1, 4):
        with view.writer("r") as writer:
            writer.commit(rows(row(10 + at)) - rows(row(at)), vector(at))
        view.fold(spark, "f")
    view.plain.write_checkpoint(view.plain.snapshot())
    view.clean_up(timedelta(0), minimum_age=timedelta(0))
    script = str(Path(__file__).parent / "delta_spark.py")
    others = {"PYTHONPATH", "SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_SUBMIT_ARGS"}
    done = subprocess.run(
        [DELTA_SPARK, script, str(view.plain.folder.local)],
        capture_output=True,
        text=True,
        check=True,
        env={k: v for k, v in os.environ.items() if k not in others}
        | {"PYSPARK_PYTHON": DELTA_SPARK},
    )
    told = json.loads(done.stdout.strip().splitlines()[-1])
    assert told == {"rows": [4, 5, 7, 11, 12, 13], "found": [1]}
