"""Recursion on Spark, as a loop of plans: the same rows as in memory, and as Spark's own."""

from random import Random

import pytest
from pyspark.sql import SparkSession

from headwater.algebra.evaluate import evaluate_shown, evaluate_view
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT
from headwater.errors import ExpressionError
from headwater.frames import frame
from headwater.frames.frame import Frame
from tests.frames.lifting import unsettled

E = Relation("e", "x", Schema.of([("a", INT), ("b", INT)]))
CLOSURE = (
    "WITH RECURSIVE p AS (SELECT a, b FROM e UNION SELECT p.a, e.b FROM p JOIN e ON p.b = e.a) "
    "SELECT a, b FROM p"
)
WALKS = (
    "WITH RECURSIVE p(a, b, n) AS (SELECT a, b, 1 FROM e UNION ALL SELECT p.a, e.b, n + 1 "
    "FROM p JOIN e ON p.b = e.a WHERE n < 3) SELECT a, b, n FROM p"
)
LATE = (
    "WITH RECURSIVE p(a, t) AS (SELECT a, CAST(b AS STRING) FROM e UNION SELECT e.b, "
    "SOUNDEX(CONCAT('R', t)) FROM p JOIN e ON p.a = e.a) SELECT a, t FROM p"
)


def _graph(seed: int) -> dict[str, Rows]:
    chance = Random(seed)
    pairs = [(chance.randrange(5), chance.randrange(5)) for _ in range(6)]
    return {"e": Rows.of(E.schema, pairs)}


@pytest.mark.parametrize("most_in_memory", [0, 50_000])
@pytest.mark.parametrize("query", [CLOSURE, WALKS], ids=["closure", "walks"])
def test_a_recursion_finds_the_same_on_spark(
    spark: SparkSession, query: str, most_in_memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame, "ROWS", most_in_memory)
    view, state = parse_view(query, [E]), _graph(1)
    shown = view.shown(unsettled(spark, evaluate_view(view, state)))
    assert isinstance(shown, Frame)
    assert shown == evaluate_shown(view, state)


def test_all_rows_that_steps_find_are_those_of_sparks_own_recursion(spark: SparkSession) -> None:
    for seed in (2, 3):
        view, state = parse_view(WALKS, [E]), _graph(seed)
        rows = [row for row, count in state["e"].items() for _ in range(count)]
        spark.createDataFrame(rows, "a bigint, b bigint").createOrReplaceTempView("e")
        own = WALKS.replace(", 1 FROM", ", 1L FROM")
        theirs = [tuple(row) for row in spark.sql(own).collect()]
        assert evaluate_shown(view, state) == Rows.of(view.shown_schema, theirs)


def test_a_recursion_with_a_function_that_only_spark_has(spark: SparkSession) -> None:
    view, state = parse_view(LATE, [E]), {"e": Rows.of(E.schema, [(1, 2), (2, 1)])}
    shown = view.shown(unsettled(spark, evaluate_view(view, state)))
    assert set(shown) == {(1, "2"), (2, "1"), (2, "R000"), (1, "R000")}


def test_a_recursion_that_does_not_end_fails_on_spark_too(spark: SparkSession) -> None:
    query = CLOSURE.replace("UNION", "UNION ALL").replace("p AS", "p MAX RECURSION LEVEL 3 AS")
    view, state = parse_view(query, [E]), {"e": Rows.of(E.schema, [(1, 1)])}
    with pytest.raises(ExpressionError, match="p has not ended after 3 steps"):
        view.shown(unsettled(spark, evaluate_view(view, state)))
