"""Functions that only Spark computes: how they are read, and what is stored for them."""

from __future__ import annotations

import pytest

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import Json, parse_type
from headwater.algebra.views import View
from headwater.errors import EngineError, ScenarioError, SqlError
from headwater.lab.scenario import scenario_from_json


def _relation(name: str, columns: str) -> Relation:
    pairs = (column.split(" ", 1) for column in columns.split("; "))
    return Relation(name, "shop", Schema.of((n, parse_type(kind)) for n, kind in pairs))


R = _relation("r", "a int; b float; t text; xs array<int>; p struct<x int, y text>; at timestamp")
S = _relation("s", "a int; c int; u text")


def read(sql: str) -> View:
    return parse_view(sql, [R, S])


STORED = {
    "in the select list": ("SELECT a, EXP(b) AS e FROM r", "a, b"),
    "around what is computed here": ("SELECT SOUNDEX(UPPER(t)) AS e FROM r", "value_1"),
    "in WHERE": ("SELECT a FROM r WHERE GET_JSON_OBJECT(t, '$.x') = 'y'", "t, a"),
    "beside other conditions": ("SELECT a FROM r WHERE a > 1 AND SOUNDEX(t) = 'A000'", "t, a"),
    "as a key": ("SELECT SOUNDEX(t) AS k, COUNT(*) AS n FROM r GROUP BY SOUNDEX(t)", "t"),
    "in an aggregate": ("SELECT a, SUM(EXP(b)) AS s FROM r GROUP BY a", "a, b"),
    "over an aggregate": (
        "SELECT a, LN(COUNT(*)) AS s FROM r GROUP BY a",
        "_key_int_1, _sum, _bin",
    ),
    "in HAVING": ("SELECT a FROM r GROUP BY a HAVING LN(COUNT(*)) > 1", "_key_int_1, _sum, _bin"),
    "in ORDER BY": ("SELECT a FROM r ORDER BY EXP(b) LIMIT 1", "a, b"),
    "in QUALIFY": (
        "SELECT a FROM r QUALIFY ROW_NUMBER() OVER (PARTITION BY SOUNDEX(t) ORDER BY a) = 1",
        "a, t",
    ),
    "beside a join": ("SELECT r.a FROM r JOIN s ON r.a = s.a AND SOUNDEX(t) = u", "t, u, a"),
    "as a key of a join": (
        "SELECT r.a, c FROM r JOIN s ON SOUNDEX(t) = SOUNDEX(u)",
        "_part, int_1, text_1",
    ),
    "in a lambda": ("SELECT TRANSFORM(xs, x -> x + a) AS y FROM r", "xs, a"),
    "in a lambda what is computed here": (
        "SELECT FILTER(SPLIT(t, ','), x -> x <> LOWER(t)) AS y FROM r",
        "t, value_2",
    ),
    "of constants alone": ("SELECT a, EXP(1) AS e FROM r", "a"),
    "for rows": ("SELECT a, x FROM r, UNNEST(SPLIT(t, ',')) AS n(x)", "a, t"),
}


@pytest.mark.parametrize(("sql", "stored"), STORED.values(), ids=STORED.keys())
def test_what_a_late_function_looks_at_is_stored(sql: str, stored: str) -> None:
    view = read(sql)
    schema = view.schema if view.compact is None else view.compact.schema
    assert ", ".join(schema.names) == stored
    assert view.left_to_spark


TYPES = {
    "EXP(a)": "float",
    "SPLIT(t, ',')": "array<text>",
    "TO_NUMBER(t, '99.99')": "decimal(4,2)",
    "TO_DATE(t, 'd.M.yyyy')": "date",
    "FROM_JSON(t, 'x INT, y ARRAY<STRING>')": "struct<x int, y array<text>>",
    "FROM_JSON(t, 'array<struct<k: double>>')": "array<struct<k float>>",
    "FROM_JSON(t, 'x INT').x": "int",
    "TRANSFORM(xs, (x, i) -> x + i > 1)": "array<bool>",
    "TRANSFORM(xs, x -> TRANSFORM(xs, y -> x * y + a))": "array<array<int>>",
    "ZIP_WITH(xs, SPLIT(t, ','), (x, y) -> STRUCT(x AS n, y AS w))": "array<struct<n int, w text>>",
    "AGGREGATE(xs, 0, (total, x) -> total + x)": "int",
    "ARRAY_SORT(xs, (x, y) -> y - x)": "array<int>",
    "REDUCE(xs, 0, (total, x) -> total + x, total -> total > 9)": "bool",
    "EXISTS(xs, x -> x > 1) AND FORALL(xs, x -> x < 9)": "bool",
}


@pytest.mark.parametrize(("expression", "kind"), TYPES.items())
def test_types_are_known_without_spark(expression: str, kind: str) -> None:
    assert str(read(f"SELECT {expression} AS v FROM r").shown_schema.types[0]) == kind


REFUSED = {
    "SELECT r.a FROM r, s WHERE SOUNDEX(t) = SOUNDEX(u)": "every pair of their rows",
    "SELECT r.a FROM r LEFT JOIN s ON SOUNDEX(t) < u": "every pair of their rows",
    "SELECT SOUNDEX(a) AS x FROM r": "SOUNDEX takes (text), not (int)",
    "SELECT UNIX_TIMESTAMP() AS x FROM r": "depends on time",
    "SELECT AES_ENCRYPT(X'00', X'00') AS x FROM r": "depends on time, chance",
    "SELECT STR_TO_MAP(t) AS x FROM r": "a type that views do not have",
    "SELECT FROM_JSON(t, u) AS x FROM r JOIN s USING (a)": "its schema as a constant",
    "SELECT FROM_JSON(t, 'x MAP<STRING, INT>') AS x FROM r": "is not supported",
    "SELECT FROM_JSON(t, 'nonsense') AS x FROM r": "is no schema",
    "SELECT TRANSFORM(xs, x -> y) AS x FROM r": "there is no column y",
    "SELECT TRANSFORM(xs, (x, y, z) -> x) AS x FROM r": "takes 1 or 2 variables",
    "SELECT FILTER(xs, x -> x) AS x FROM r": "gives int, not bool",
    "SELECT AGGREGATE(xs, 0.0, (s, x) -> s + x) AS x FROM r": "goes on with decimal(22,1)",
    "SELECT TRANSFORM(t, x -> x) AS x FROM r": "takes an array, not text",
    "SELECT ARRAY_SORT(xs, (x, y) -> x < y) AS x FROM r": "gives bool, not int",
    "SELECT TRANSFORM(xs, x -> SUM(x)) AS x FROM r": "x is an element of an array",
    "SELECT x -> x + 1 AS x FROM r": "a function of elements, x -> x + 1, stands only in",
    "SELECT a FROM (VALUES (EXP(1))) AS v(x), r": "is not a constant",
}


def test_the_place_of_a_condition_that_ties_tables_is_told() -> None:
    with pytest.raises(SqlError) as caught:
        read("SELECT SOUNDEX(t) AS x\nFROM r, s\nWHERE r.a > 1 AND SOUNDEX(t) < SOUNDEX(u)")
    assert (caught.value.line, caught.value.column) == (3, 19)


@pytest.mark.parametrize(("sql", "words"), REFUSED.items())
def test_what_cannot_wait_for_spark_is_refused(sql: str, words: str) -> None:
    with pytest.raises(SqlError) as caught:
        read(sql)
    assert words in str(caught.value)


def test_the_engines_in_memory_do_not_guess() -> None:
    view = read("SELECT SOUNDEX(u) AS x FROM s")
    stored = evaluate_view(view, {"s": Rows.of(S.schema, [(1, 2, "a")])})
    with pytest.raises(EngineError, match="without Spark"):
        view.shown(stored)


def test_the_lab_refuses_what_it_cannot_compute() -> None:
    data: dict[str, Json] = {
        "relations": {"r": {"source": "x", "columns": {"A": "int"}, "key": ["A"], "rows": []}},
        "view": "SELECT EXP(A) AS e FROM r",
        "transactions": [],
    }
    with pytest.raises(ScenarioError, match="only Spark computes EXP"):
        scenario_from_json(data)
