"""Filters of Spark as expressions of Arrow: none leaves out a row that Spark lets through."""

from datetime import date
from typing import Any

import pyarrow
import pytest
from pyspark.sql import datasource as spark

from headwater.algebra.schema import Schema
from headwater.algebra.values import parse_type
from headwater.readers.filters import as_arrow

SCHEMA = Schema.of(
    (name, parse_type(kind))
    for name, kind in {"n": "int", "s": "text", "d": "date", "f": "float"}.items()
)
TABLE = pyarrow.table(
    {
        "at": [0, 1, 2],
        "n": [1, 2, None],
        "s": ["a", "b", None],
        "d": [date(2024, 1, 1), date(2024, 1, 2), None],
        "f": [1.0, float("nan"), None],
    }
)


@pytest.mark.parametrize(
    ("one", "places"),
    [
        (spark.EqualTo(("n",), 2), [1]),
        (spark.EqualNullSafe(("s",), "a"), [0]),
        (spark.GreaterThan(("d",), date(2024, 1, 1)), [1]),
        (spark.GreaterThanOrEqual(("n",), 1), [0, 1]),
        (spark.LessThan(("s",), "b"), [0]),
        (spark.LessThanOrEqual(("n",), 1), [0]),
        (spark.In(("s",), ("b", "c")), [1]),
        (spark.IsNull(("f",)), [2]),
        (spark.IsNotNull(("n",)), [0, 1]),
    ],
)
def test_a_filter_leaves_out_what_spark_would(one: spark.Filter, places: list[int]) -> None:
    wanted = as_arrow([one], SCHEMA)
    assert TABLE.filter(wanted).column("at").to_pylist() == places


@pytest.mark.parametrize(
    "one",
    [
        spark.EqualTo(("f",), 1.0),
        spark.EqualNullSafe(("n",), None),
        spark.In(("n",), (1, None)),
        spark.EqualTo(("n", "inner"), 1),
        spark.Not(spark.EqualTo(("n",), 1)),
        spark.StringStartsWith(("s",), "a"),
    ],
)
def test_what_arrow_might_take_otherwise_is_left_to_spark(one: Any) -> None:
    assert as_arrow([one], SCHEMA) is None


def test_all_filters_hold_together() -> None:
    wanted = as_arrow([spark.IsNotNull(("n",)), spark.GreaterThan(("n",), 1)], SCHEMA)
    assert TABLE.filter(wanted).column("n").to_pylist() == [2]
