"""PostgreSQL's operators for JSON on Spark: the values, and the failures, of rows in memory."""

from __future__ import annotations

from random import Random

from pyspark.sql import SparkSession

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.expressions import Call, ColumnRef, Expression, Literal
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Column, Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.typing_rules import call
from headwater.algebra.values import BOOL, INT, TEXT
from tests.frames.lifting import unsettled
from tests.json_texts import any_json

SCHEMA = Schema.of([("id", INT), ("t", TEXT)])
CALLS = [
    call(name, ColumnRef("t", TEXT), key)
    for name, key in [
        ("->", Literal("a", TEXT)),
        ("->>", Literal("", TEXT)),
        ("->>", Literal(-1, INT)),
        ("#>", Literal("{a,0}", TEXT)),
        ("#>>", Literal("{}", TEXT)),
    ]
]


def test_they_have_the_same_values_and_failures_as_in_memory(spark: SparkSession) -> None:
    random = Random(5)
    texts = [any_json(random) for _ in range(300)] + ["{", "", "x", "[1,]", '"\x00"']
    rows = Rows.of(SCHEMA, [(0, None), *enumerate(texts, 1)])
    outputs: list[Expression] = [ColumnRef("id", INT)]
    outputs += [Call("tried", (each,), TEXT) for each in CALLS]
    outputs += [Call("fails", (each,), BOOL) for each in CALLS]
    result = Schema.of((f"v{at}", output.type) for at, output in enumerate(outputs))
    expected = {row[0]: row for row in rows.project(result, outputs)}
    assert {row[0]: row for row in unsettled(spark, rows).project(result, outputs)} == expected
    assert sum(value is not None for row in expected.values() for value in row) > 2000
    assert {row[-1] for row in expected.values()} == {True, False}


def test_they_stand_in_conditions_joins_and_keys(spark: SparkSession) -> None:
    docs = Relation("docs", "x", Schema((Column("id", INT), Column("d", TEXT, printed="jsonb"))))
    names = Relation("names", "x", SCHEMA)
    view = parse_view(
        "SELECT d ->> 'k' AS k, COUNT(*) AS n, SUM(CAST(d #>> '{v,0}' AS INT)) AS s "
        "FROM docs JOIN names ON d ->> 'k' = t -> 'k' ->> 0 WHERE d ->> 'k' <> 'z' "
        "GROUP BY d ->> 'k'",
        [docs, names],
    )
    rows = {
        "docs": Rows.of(
            docs.schema,
            [(1, '{"k": "x", "v": [2]}'), (2, '{"k": "x", "v": 7}'), (3, '{"k": "z"}'), (4, "[]")],
        ),
        "names": Rows.of(SCHEMA, [(1, '{"k": ["x"]}'), (2, '{"k": ["z"]}'), (3, None)]),
    }
    expected = view.shown(evaluate_view(view, rows))
    lifted = {name: unsettled(spark, each) for name, each in rows.items()}
    assert set(view.shown(evaluate_view(view, lifted))) == set(expected) == {("x", 2, 2)}
