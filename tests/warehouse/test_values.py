"""Every type of value goes through both tables, both writers and both readers unchanged."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import (
    BOOL,
    BYTES,
    DATE,
    FLOAT,
    INT,
    INT_MAX,
    INT_MIN,
    NAN,
    TEXT,
    TIMESTAMP,
    TIMESTAMP_TZ,
    array_type,
    decimal_type,
    struct_type,
)
from headwater.frames.arrow import plain_from_arrow
from headwater.warehouse.netting import local_frame
from headwater.warehouse.warehouse import Warehouse
from tests.warehouse.views import load, rows, vector

SCHEMA = Schema.of(
    [
        ("truth", BOOL),
        ("whole", INT),
        ("exact", decimal_type(38, 10)),
        ("small.exact", decimal_type(9, 2)),
        ("approximate", FLOAT),
        ("text", TEXT),
        ("bytes", BYTES),
        ("day", DATE),
        ("local `time`", TIMESTAMP),
        ("moment", TIMESTAMP_TZ),
        ("array", array_type(FLOAT)),
        ("struct", struct_type([("Of_it", array_type(decimal_type(9, 2))), ("at", TIMESTAMP_TZ)])),
    ]
)
SCHEMA = Schema.of((c.name.replace(" ", "_"), c.type) for c in SCHEMA.columns)
LATE = datetime(9999, 12, 31, 23, 59, 59, 999999)
EARLY = datetime(1, 1, 1, 0, 0, 0, 1)
NULLS = (None,) * 12
EXTREME = (
    True,
    INT_MAX,
    Decimal("9999999999999999999999999999.9999999999"),
    Decimal("-9999999.99"),
    float("inf"),
    "Ångström 水 🦆\n\t'\"\\",
    bytes(range(256)),
    date(9999, 12, 31),
    LATE,
    LATE.replace(tzinfo=UTC),
    (float("-inf"), NAN, None),
    ((Decimal("9999999.99"), None), LATE.replace(tzinfo=UTC)),
)
LEAST = (
    False,
    INT_MIN,
    Decimal(0),
    Decimal("0.01"),
    NAN,
    "",
    b"",
    date(1, 1, 1),
    EARLY,
    EARLY.replace(tzinfo=UTC),
    (),
    (None, None),
)
EVERYDAY = (
    False,
    0,
    Decimal("1.5"),
    Decimal("2.50"),
    -0.5,
    "null",
    b"\0",
    date(1582, 10, 10),
    datetime(2024, 3, 31, 2, 30),
    datetime(2024, 3, 31, 1, 30, tzinfo=UTC) + timedelta(microseconds=1),
    (0.0, 1.5),
    ((), datetime(2024, 3, 31, 1, 30, tzinfo=UTC)),
)
ALL = {NULLS: 2, EXTREME: 1, LEAST: 3, EVERYDAY: 1}


@pytest.fixture
def berlin(spark: SparkSession) -> SparkSession:
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    return other


def collected(frame: DataFrame) -> Rows:
    return plain_from_arrow(frame.toArrow(), SCHEMA)


def test_values_survive_loading_changing_folding_and_both_readers(
    tmp_path: Path, spark: SparkSession, berlin: SparkSession
) -> None:
    warehouse = Warehouse(tmp_path / "a b, ü: c", durable=False)
    start = rows(ALL, SCHEMA)
    view = load(warehouse, spark, start)
    assert view.schema == SCHEMA
    assert view.rows() == start
    change = rows({NULLS: -1, EXTREME: 2, LEAST: -3, EVERYDAY: 1}, SCHEMA)
    with view.writer("r") as writer:
        small = writer.commit(change, vector(1))
        large = writer.commit(local_frame(berlin, change.negative()), vector(2))
    for commit, expected in ((small, start + change), (large, start + change + change.negative())):
        assert view.at(commit.number).signed_rows() == expected
        assert view.rows(commit.number) == expected.positive()
        assert collected(view.dataframe(berlin, commit.number)) == expected.positive()
    with view.writer("r") as writer:
        writer.commit(rows({LEAST: 3}, SCHEMA), vector(3))
    final = view.rows()
    assert final == rows({EXTREME: 3, EVERYDAY: 2}, SCHEMA)
    assert view.fold(berlin, "f") is not None
    assert view.tail().files == 0
    assert view.rows() == final
    assert collected(view.dataframe(spark)) == final
