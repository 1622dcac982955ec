"""Late functions on Spark: of the types that the table says, and with Spark's own values."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import types as spark_types

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.expressions import Call, Expression, columns_of
from headwater.algebra.functions.late import LATE_FUNCTIONS
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.tops import Project, evaluate_top
from headwater.algebra.values import INT, TEXT, Row, parse_type
from headwater.errors import ExpressionError
from headwater.frames.expressions import to_column
from headwater.frames.frame import Frame
from headwater.frames.late import plain_column
from headwater.frames.spark_types import spark_schema, spark_type
from tests.frames.lifting import unsettled

ROWS = Relation("r", "x", Schema.of([("a", parse_type("int"))]))
NUMBERS = Relation(
    "numbers",
    "x",
    Schema.of(
        (name, parse_type(kind))
        for name, kind in {
            "a": "int", "xs": "array<int>", "fs": "array<float>", "t": "text",
            "p": "struct<x int, y text>",
        }.items()
    ),
)  # fmt: skip
EXAMPLES = [function.example for function in LATE_FUNCTIONS if function.example]


def _expression(example: str) -> Call:
    top = parse_view(f"SELECT {example} AS v FROM r", [ROWS]).top
    assert isinstance(top, Project)
    assert isinstance(top.outputs[0], Call)
    return top.outputs[0]


def _own(call: Call) -> Column:
    """The call as Spark types it itself."""
    return plain_column(call, [to_column(part, ROWS.schema) for part in call.arguments])


def test_spark_gives_the_types_of_the_table_and_takes_no_late_function_for_random(
    spark: SparkSession,
) -> None:
    calls = [_expression(example) for example in EXAMPLES]
    chosen = spark.range(1).toDF("c0").select(*map(_own, calls))
    for example, call, field in zip(EXAMPLES, calls, chosen.schema.fields, strict=True):
        assert _alike(field.dataType, spark_type(call.type)), (example, field.dataType)
    plan = chosen._jdf.queryExecution().analyzed()
    assert plan.deterministic()


def _alike(found: spark_types.DataType, ours: spark_types.DataType) -> bool:
    """The same but for the sizes of whole numbers, and what may be NULL."""
    if isinstance(found, spark_types.ArrayType) and isinstance(ours, spark_types.ArrayType):
        return _alike(found.elementType, ours.elementType)
    return found == ours or (
        isinstance(found, spark_types.IntegralType) and isinstance(ours, spark_types.LongType)
    )


def test_late_functions_have_the_values_that_spark_has_for_the_same_words(
    spark: SparkSession,
) -> None:
    calls = [_expression(example) for example in EXAMPLES]
    data = spark.range(1).toDF("c0")
    (ours,) = data.select(*(to_column(call, ROWS.schema) for call in calls)).collect()
    (theirs,) = spark.sql(f"SELECT {', '.join(EXAMPLES)}").collect()
    wrong = [
        f"{example} is {here!r}, not {there!r}"
        for example, here, there in zip(EXAMPLES, ours, theirs, strict=True)
        if repr(here) != repr(there)
    ]
    assert not wrong, "\n".join(wrong)


VALUES: dict[str, object] = {
    "TRANSFORM(xs, (x, i) -> x * 10 + i + a)": (17, None, 39),
    "TRANSFORM(xs, x -> FILTER(xs, y -> y < x))": ((), (), (1,)),
    "FILTER(xs, x -> x IS NULL OR x > a)": (None,),
    "EXISTS(xs, x -> x > 2)": True,
    "FORALL(xs, x -> x > 0)": None,
    "ARRAY_SORT(SPLIT('b,c,a', ','), (x, y) -> IF(x < y, 1, IF(x > y, -1, 0)))": ("c", "b", "a"),
    "AGGREGATE(xs, 0, (s, x) -> s + COALESCE(x, 100), s -> CAST(s AS STRING))": "104",
    "ZIP_WITH(xs, SPLIT(t, 'k'), (x, y) -> y || CAST(x AS STRING))": ('{"1', None, None),
    "TRANSFORM(fs, x -> -x)": (0.0, -1.5),
    "FROM_JSON(t, 'k ARRAY<DOUBLE>').k": (1.5,),
    "FROM_JSON(t, 'k STRING').k": "[1.5]",
    "FROM_JSON('[1', 'ARRAY<INT>')": None,
    "FROM_CSV('1,x', 'a INT, b STRING')": (1, "x"),
    "TO_JSON(p)": '{"x":1}',
    "SHIFTLEFT(a, 40)": 7 << 40,
    "HASH(a, t) = HASH(a, t)": True,
    "CONVERT_TIMEZONE('UTC', 'Asia/Tokyo', CAST(NULL AS TIMESTAMP_NTZ))": None,
    "LN(0)": None,
    "PARSE_JSON(t)": '{"k":[1.5]}',
    "TO_JSON(PARSE_JSON(t))": '{"k":[1.5]}',
    "TRY_PARSE_JSON('{x')": None,
    "PARSE_JSON('\"x\"')": '"x"',
    "VARIANT_GET(PARSE_JSON(t), '$.k[0]', 'double')": 1.5,
    "VARIANT_GET(PARSE_JSON(t), '$.k')": "[1.5]",
    "VARIANT_GET(PARSE_JSON('{\"a\": 7}'), '$.a', 'int')": 7,
    "TRY_VARIANT_GET(TRY_PARSE_JSON(t), '$.k', 'date')": None,
    "VARIANT_GET(PARSE_JSON(t), '$.k', 'array<double>')": (1.5,),
}  # fmt: skip


def test_lambdas_schemas_and_columns_mean_what_they_mean_in_spark(spark: SparkSession) -> None:
    items = ", ".join(f"{expression} AS v{at}" for at, expression in enumerate(VALUES))
    view = parse_view(f"SELECT {items} FROM numbers", [NUMBERS])
    row: Row = (7, (1, None, 3), (0.0, 1.5), '{"k":[1.50]}', (1, None))
    assert view.top is not None
    stored = Rows.of(NUMBERS.schema, [row])
    (join,) = view.joins
    qualified = stored.renamed(join.occurrences[0].schema)
    rows = unsettled(spark, qualified.project(view.schema, join.outputs))
    (found,) = evaluate_top(view.top, rows)
    wrong = {
        expression: value
        for (expression, expected), value in zip(VALUES.items(), found, strict=True)
        if repr(value) != repr(expected)
    }
    assert not wrong


def test_a_late_call_looks_at_columns_only_and_not_at_its_own_variables() -> None:
    view = parse_view("SELECT TRANSFORM(xs, x -> x + a) AS y FROM numbers", [NUMBERS])
    assert isinstance(view.top, Project)
    expression: Expression = view.top.outputs[0]
    assert len(columns_of(expression)) == 2


LEFT = Relation("left", "x", Schema.of([("a", INT), ("t", TEXT)]))
RIGHT = Relation("right", "x", Schema.of([("c", INT), ("u", TEXT)]))
CONTENTS: dict[str, list[Row]] = {
    "left": [(1, "Robert"), (1, "Robert"), (2, "a"), (3, None)],
    "right": [(1, "R163"), (0, "A000"), (4, "x")],
}
QUERIES = (
    "SELECT l.a, r.c FROM left l FULL JOIN right r ON SOUNDEX(l.t) = r.u AND r.c > 0",
    "SELECT SOUNDEX(t) AS k, COUNT(*) AS n, SUM(POWER(a, 2)) AS s FROM left "
    "WHERE EXP(a) > 1 GROUP BY SOUNDEX(t)",
)


def test_a_late_function_may_be_the_key_of_a_join_or_a_group(
    spark: SparkSession,
) -> None:
    state = {}
    for relation in (LEFT, RIGHT):
        rows = unsettled(spark, Rows.of(relation.schema, CONTENTS[relation.name]))
        state[relation.name] = rows
        repeated = spark.createDataFrame(CONTENTS[relation.name], spark_schema(relation.schema))
        repeated.createOrReplaceTempView(relation.name)
    for sql in QUERIES:
        view = parse_view(sql, [LEFT, RIGHT])
        assert view.stored_top is not None
        stored = view.stored(evaluate_view(view, state))
        found = evaluate_top(view.stored_top, Frame.of_rows(spark, stored))
        assert dict(found.items()) == Counter(map(tuple, spark.sql(sql).collect())), sql


@pytest.mark.parametrize(
    ("failing", "reason"),
    [
        ("TO_NUMBER(t, '99')", "does not fit the format"),
        ("SPLIT(t, t)", "Unclosed character class"),
    ],
)
def test_a_late_function_that_fails_names_the_row_and_the_reason(
    spark: SparkSession, failing: str, reason: str
) -> None:
    view = parse_view(f"SELECT a, {failing} AS v FROM numbers", [NUMBERS])
    stored = evaluate_view(view, {"numbers": Rows.of(NUMBERS.schema, [(1, None, None, "[", None)])})
    with pytest.raises(ExpressionError, match=rf"numbers\.t = '\[', numbers\.a = 1: .*{reason}"):
        len(view.shown(unsettled(spark, stored)))
