"""Functions of one's own mean what Spark's SQL functions mean: the same script in both."""

import pytest
from pyspark.sql import SparkSession

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT, TEXT
from tests.frames.lifting import unsettled

T = Relation("t", "x", Schema.of([("a", INT), ("b", INT), ("w", TEXT)]))
ROWS = [(1, 5, "ab"), (2, None, "b c"), (3, 7, None), (3, 7, None)]
SCRIPTS = {
    "casts": "FUNCTION cut(x BIGINT) RETURNS STRING RETURN x * 2; "
    "SELECT cut(a) AS c, cut('7') AS d, cut(b / 2) AS e FROM t",
    "defaults and names": "FUNCTION joined(x STRING, y STRING DEFAULT UPPER('q'), z BIGINT "
    "DEFAULT 3) RETURNS STRING RETURN CONCAT(x, y, CAST(z AS STRING)); SELECT joined(w) AS i, "
    "joined(w, w) AS j, joined(z => a, x => w) AS k FROM t",
    "no type": "FUNCTION twice(x BIGINT) RETURN x + x; "
    "SELECT twice(a) AS c, twice(twice(b)) AS d FROM t",
    "lambdas": "FUNCTION near(a BIGINT) RETURNS ARRAY<BIGINT> RETURN TRANSFORM(SEQUENCE(0L, a), "
    "x -> x * a); SELECT a, near(b) AS l FROM t",
    "around aggregates": "FUNCTION per(x BIGINT, y BIGINT) RETURNS DOUBLE RETURN x / y; "
    "SELECT a, per(SUM(b), COUNT(*)) AS p, per(a, 2) AS q FROM t GROUP BY a HAVING per(a, 1) > 1",
    "rows": "FUNCTION high(least BIGINT, b STRING DEFAULT 'x') RETURNS TABLE (k BIGINT, c STRING, "
    "d STRING) RETURN SELECT a, b, high.b FROM t WHERE a >= least; "
    "SELECT k, c, d, COUNT(*) AS n FROM high(2) GROUP BY k, c, d",
    "rows of rows": "FUNCTION low() RETURNS TABLE RETURN SELECT a, w FROM t WHERE a < 3; "
    "FUNCTION lowest(w BIGINT) RETURNS TABLE (a BIGINT) RETURN SELECT x.a + lowest.w FROM low() "
    "AS x JOIN low() AS y ON x.a <= y.a; SELECT * FROM lowest(10)",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_gives_what_spark_gives(spark: SparkSession, name: str) -> None:
    *functions, query = SCRIPTS[name].split("; ")
    rows = Rows.of(T.schema, ROWS)
    view = parse_view("; ".join([*(f"CREATE {each}" for each in functions), query]), [T])
    shown = view.shown(unsettled(spark, evaluate_view(view, {"t": rows})))
    spark.createDataFrame(ROWS, "a bigint, b bigint, w string").createOrReplaceTempView("t")
    for function in functions:
        spark.sql(f"CREATE OR REPLACE TEMPORARY {function}")
    theirs = spark.sql(query).collect()
    assert shown == Rows.of(view.shown_schema, [_values(row) for row in theirs])


def _values(row: object) -> list[object]:
    assert isinstance(row, tuple)
    return [tuple(value) if isinstance(value, list) else value for value in row]


def test_a_variable_around_a_call_is_none_inside_the_function(spark: SparkSession) -> None:
    """Spark has no calls in lambdas: the same is written out."""
    near = "CREATE FUNCTION near(a BIGINT) RETURNS ARRAY<BIGINT> RETURN {}; "
    called = near.format("TRANSFORM(SEQUENCE(0, a), x -> x * a)") + (
        "SELECT a, TRANSFORM(near(a), x -> ARRAY_MAX(near(x)) + x) AS l FROM t"
    )
    written = (
        "SELECT a, TRANSFORM(TRANSFORM(SEQUENCE(0, a), x -> x * a), "
        "x -> ARRAY_MAX(TRANSFORM(SEQUENCE(0, x), y -> y * x)) + x) AS l FROM t"
    )
    rows = unsettled(spark, Rows.of(T.schema, ROWS))
    found = [parse_view(query, [T]) for query in (called, written)]
    shown = [view.shown(evaluate_view(view, {"t": rows})) for view in found]
    assert shown[0] == shown[1]
