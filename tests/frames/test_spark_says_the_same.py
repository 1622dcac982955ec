"""Queries that Spark runs as they are written: a view shows the same rows, up to the last digits.

Sums of floats are exact here, so that floats are compared by their first nine digits.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.algebra.evaluate import evaluate_shown
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import parse_type
from headwater.frames.spark_types import spark_schema

UNITS = (
    "MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER",
    "YEAR",
)  # fmt: skip


def _relation(name: str, columns: dict[str, str]) -> Relation:
    return Relation(name, "x", Schema.of((n, parse_type(kind)) for n, kind in columns.items()))


SPANS = _relation(
    "spans", {"a": "int", "since": "timestamp", "until": "timestamp", "day": "date",
              "sent": "timestamp_tz"},
)  # fmt: skip
POINTS = _relation("points", {"k": "text", "i": "int", "f": "float", "m": "decimal(6,2)"})
CONTENTS: dict[str, tuple[Relation, list[tuple[Any, ...]]]] = {
    "spans": (
        SPANS,
        [
            (1, datetime(2024, 1, 31, 10), datetime(2024, 2, 29, 9, 59, 59, 500000),
             date(2024, 1, 31), datetime(2024, 2, 29, 12, tzinfo=UTC)),
            (2, datetime(2024, 1, 31, 10), datetime(2024, 3, 1, 9), date(2024, 3, 1), None),
            (2, datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1969, 12, 30),
             date(1969, 12, 31), datetime(1970, 1, 1, tzinfo=UTC)),
            (3, datetime(2023, 12, 31, 23, 30), datetime(2024, 3, 31, 23, 30, 0, 1),
             date(2024, 2, 29), datetime(1999, 12, 31, 23, 59, 59, tzinfo=UTC)),
            (None, datetime(2024, 3, 31), datetime(2024, 2, 29), None, None),
            (4, None, datetime(2024, 3, 31, 12), date(2024, 3, 31), None),
        ],
    ),
    "points": (
        POINTS,
        [
            ("x", 1, 2.0, Decimal("1.50")), ("x", 2, 3.5, Decimal("-2.25")),
            ("x", 4, 0.1, Decimal("3.00")), ("x", None, 1.0, None), ("y", 5, 1.0, Decimal(1)),
            ("y", 5, 2.0, Decimal(1)), ("z", 3, None, None), (None, 7, 1e9, Decimal("0.01")),
            (None, 6, -1e9, Decimal("0.01")), (None, 6, 0.3, Decimal("99.99")),
        ],
    ),
}  # fmt: skip


def _units(call: str) -> str:
    return ", ".join(f"{call.format(unit=unit)} AS {unit.lower()}" for unit in UNITS)


OF_PAIRS = ["CORR", "COVAR_SAMP", "REGR_COUNT", "REGR_SLOPE", "REGR_INTERCEPT", "REGR_R2"]
OF_ONE = ["REGR_AVGX", "REGR_AVGY", "REGR_SXX", "REGR_SYY", "REGR_SXY"]
QUICK = f"SELECT a, {_units('TIMESTAMPDIFF({unit}, since, until)')} FROM spans"
QUERIES = (
    QUICK,
    f"SELECT a, {_units('TIMESTAMPADD({unit}, a - 3, since)')} FROM spans",
    f"SELECT k, {', '.join(f'{f}(f, i) AS {f}' for f in OF_PAIRS)} FROM points GROUP BY k",
    f"SELECT a, {_units('DATEDIFF({unit}, until, day)')} FROM spans",
    f"SELECT a, {_units('DATEADD({unit}, -13, day)')} FROM spans",
    f"SELECT a, {_units('DATE_ADD({unit}, 1, sent)')} FROM spans",
    "SELECT a, until - since > INTERVAL '1' DAY AS x, until - day <= INTERVAL '36' HOURS AS y, "
    "day - since <=> since - day AS z FROM spans",
    "SELECT a FROM spans WHERE until - since BETWEEN INTERVAL '-1' DAY AND INTERVAL '29' DAYS",
    "SELECT TIME_BUCKET(INTERVAL '90' MINUTES, since) AS b, COUNT(*) AS n FROM spans GROUP BY 1",
    "SELECT window.start AS s, window.end AS e, COUNT(*) AS n FROM spans "
    "GROUP BY WINDOW(since, '36 hours', '36 hours', '10 minutes')",
    "SELECT WINDOW(sent, '1 week') AS w, MAX(a) AS m FROM spans GROUP BY WINDOW(sent, '1 week')",
    f"SELECT k, {', '.join(f'{f}(m, f) AS {f}' for f in OF_ONE)} FROM points GROUP BY k",
    "SELECT k, SKEWNESS(f) AS a, KURTOSIS(f) AS b, SKEWNESS(m) AS c FROM points GROUP BY k",
    "SELECT k, BIT_AND(i) AS a, BIT_OR(i) AS b, BIT_XOR(i) AS c FROM points GROUP BY k",
    "SELECT * FROM (SELECT k, i, f FROM points) PIVOT (SUM(f) AS s, COUNT(*) AS n FOR i IN (1, 5 "
    "AS five, NULL AS none))",
    "SELECT * FROM (SELECT k, i, f FROM points) PIVOT (MAX(k) AS s, COUNT(*) AS n FOR i IN (1, 8))",
    "SELECT * FROM (SELECT i, f FROM points WHERE f > 1e10) PIVOT (COUNT(f) FOR i IN (1, 8))",
    "SELECT i, k NOT LIKE ANY ('x', 'z%') AS a, k LIKE ALL ('%', 'x') AS b FROM points",
    "SELECT i, SUM(i) FILTER (WHERE f > 1) OVER (PARTITION BY k) AS s, COUNT(*) FILTER (WHERE k "
    "IS NULL) OVER (ORDER BY i) AS n FROM points",
    "SELECT i + 1 AS x, x * 2 AS y, NAMED_STRUCT('z', y) AS p, p.z + x AS q FROM points",
    "SELECT k, i FROM points ORDER BY ALL DESC LIMIT 4",
)


@pytest.mark.parametrize(
    "query",
    [pytest.param(q, marks=() if q == QUICK else pytest.mark.stress, id=q) for q in QUERIES],
)
def test_a_view_shows_the_rows_that_spark_gives(spark: SparkSession, query: str) -> None:
    for name, (relation, rows) in CONTENTS.items():
        data = spark.createDataFrame(rows, spark_schema(relation.schema))
        data.createOrReplaceTempView(name)
    relations = [relation for relation, _ in CONTENTS.values()]
    state = {name: Rows.of(r.schema, rows) for name, (r, rows) in CONTENTS.items()}
    shown = evaluate_shown(parse_view(query, relations), state)
    ours = [row for row, count in shown.items() for _ in range(count)]
    assert _compared(ours) == _compared(spark.sql(query).collect())


def _compared(rows: Any) -> list[Any]:
    return sorted((tuple(map(_plain, row)) for row in rows), key=repr)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value:.9g}")
    if isinstance(value, Decimal):
        return value.normalize()
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value
