"""Which rows go to Spark, and which come back."""

from typing import Literal

import pytest
from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import INT
from headwater.frames.engine import Engine
from headwater.frames.frame import Frame
from tests.frames.lifting import unsettled

SCHEMA = Schema.of([("k", INT)])
TWO, THREE = (Rows.of(SCHEMA, [(k,) for k in range(size)]) for size in (2, 3))


def test_below_the_threshold_spark_is_never_started() -> None:
    def start() -> SparkSession:
        raise AssertionError("nothing needs Spark")

    engine = Engine(start, "auto", threshold=3)
    assert engine.lift(THREE) is THREE
    assert engine.settle(THREE) is THREE


def test_above_the_threshold_rows_go_to_spark(spark: SparkSession) -> None:
    engine = Engine(lambda: spark, "auto", threshold=2)
    assert engine.lift(TWO) is TWO
    lifted = engine.lift(THREE)
    assert isinstance(lifted, Frame)
    assert engine.lift(lifted) is lifted
    assert lifted == THREE


def test_a_settled_frame_comes_back_if_it_is_small(spark: SparkSession) -> None:
    engine = Engine(lambda: spark, "auto", threshold=2)
    small, large = (engine.settle(unsettled(spark, rows)) for rows in (TWO, THREE))
    assert type(small) is Rows
    assert isinstance(large, Frame)
    assert large.is_settled
    assert (small, large) == (TWO, THREE)


@pytest.mark.parametrize("rows", [TWO, Rows.empty(SCHEMA)], ids=["some", "none"])
def test_with_spark_all_rows_are_frames(spark: SparkSession, rows: Rows) -> None:
    engine = Engine(lambda: spark, "spark", threshold=1000)
    for kept in (engine.lift(rows), engine.settle(rows), engine.settle(unsettled(spark, rows))):
        assert isinstance(kept, Frame)
        assert kept.is_settled
        assert kept == rows


@pytest.mark.parametrize(
    ("mode", "threshold", "at_once"),
    [("auto", 1_000_000, False), ("auto", 100, True), ("spark", 1_000_000, True)],
)
def test_small_work_needs_spark_at_once_only_if_the_settings_say_so(
    spark: SparkSession, mode: Literal["auto", "spark"], threshold: int, at_once: bool
) -> None:
    asked: list[str] = []

    def start() -> SparkSession:
        asked.append("session")
        return spark

    given = Engine(start, mode, threshold).for_small
    assert bool(asked) == at_once
    assert (given is spark) == at_once
