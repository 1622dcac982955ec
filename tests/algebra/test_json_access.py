"""How PostgreSQL's operators for JSON are read in a view."""

from __future__ import annotations

import pytest

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.expressions import show_expression
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Column, Relation, Schema
from headwater.algebra.sql.view import normalised, parse_view
from headwater.algebra.values import INT, TEXT, Value, array_type
from headwater.algebra.views import View
from headwater.errors import ExpressionError, SqlError

_TEXTS = [Column("j", TEXT, printed="json"), Column("h", TEXT, printed="hstore"), Column("t", TEXT)]
DOCS = Relation(
    "docs",
    "shop",
    Schema(
        (
            Column("id", INT),
            Column("d", TEXT, printed="jsonb"),
            *_TEXTS,
            Column("xs", array_type(TEXT)),
        )
    ),
)


def read(sql: str) -> View:
    return parse_view(sql, [DOCS])


def shown(sql: str, *rows: tuple[int, str | None]) -> set[tuple[Value, ...]]:
    view = read(sql)
    stored = Rows.of(DOCS.schema, [(id, d, d, "", d, None) for id, d in rows])
    return set(view.shown(evaluate_view(view, {"docs": stored})))


MEANT = {
    "d -> 'a' -> 0": "(d -> 'a') -> 0",
    "docs.d ->> 'it''s.[0]'": "d ->> 'it''s.[0]'",
    "d -> -1": "d -> -1",
    "(d ->> 'n')::int": "CAST(d ->> 'n' AS int)",
    "d ->> 'n'::text": "d ->> 'n'",
    "d #>> '{a,b}'::text[]": "d #>> '{a,b}'",
    "d #> ARRAY['a', 'b'::text]": 'd #> \'{"a","b"}\'',
    "t || d ->> 'k'": "(t || d) ->> 'k'",
    "d ->> 'k' || t": "(d ->> 'k') || t",
    "d ->> 'k' = 'x' AND id = 1": "((d ->> 'k') = 'x') AND (id = 1)",
    "COALESCE(d -> 'k', t)": "coalesce(d -> 'k', t)",
    "STRUCT(d -> 'k' AS x)": "struct(d -> 'k')",
    "j -> 'a' ->> 'b'": "(j -> 'a') ->> 'b'",
    "j ->> 0": "CASE WHEN startswith(j #> '{}', '[') THEN j ->> 0 ELSE NULL END",
    "'{\"a\": 1.10}' ->> 'a'": "'1.10'",
}


@pytest.mark.parametrize(("sql", "meaning"), MEANT.items())
def test_they_bind_as_in_postgresql(sql: str, meaning: str) -> None:
    output = read(f"SELECT {sql} AS v FROM docs").joins[0].outputs[0]
    assert show_expression(output, lambda name: name.removeprefix("docs.")) == meaning


REFUSED = {
    "d -> t": "column 8: -> takes the name of a member or the number of an element as a constant",
    "d -> 'a' + 1": "as a constant",
    "d -> 1.5": "as a constant",
    "d -> '5'::int": "as a constant",
    "d #>> t": "#>> takes a path that is a constant",
    "d #>> ARRAY['a', t]": "#>> takes a path that is a constant",
    "d #>> 'a'": "'a' is no path",
    "d -> '$.a'": "which takes no paths",
    "d -> 'a' > '5'": "CAST(t ->> 'k' AS DECIMAL(38,10))",
    "h -> 'a'": "of type hstore at its source",
    "id -> 'a'": "-> takes (text, text constant)",
    "FILTER(xs, x -> x ->> 'k' = 'a')": "column 24: ->> cannot stand in a function",
}


@pytest.mark.parametrize(("sql", "words"), REFUSED.items())
def test_what_they_cannot_mean_is_refused(sql: str, words: str) -> None:
    with pytest.raises(SqlError) as caught:
        read(f"SELECT {sql} AS v FROM docs")
    assert words in str(caught.value)


def test_an_arrow_is_a_function_where_a_function_is_taken() -> None:
    assert read("SELECT TRANSFORM(xs, x -> UPPER(x)) AS v FROM docs").left_to_spark


def test_a_view_is_written_as_it_was_read() -> None:
    sql = "SELECT d -> 'a' ->> 0, d #>> '{a,b}', d #> ARRAY('x') FROM docs"
    assert normalised(sql) == sql


def test_they_stand_in_conditions_and_keys() -> None:
    rows = [(1, '{"k": "x", "n": 2}'), (2, '{"k": "x", "n": 3}'), (3, '{"k": "y"}'), (4, None)]
    sql = "SELECT d ->> 'k' AS k, SUM((d ->> 'n')::int) AS s FROM docs WHERE d ->> 'k' <> 'z' "
    assert shown(f"{sql} GROUP BY d ->> 'k'", *rows) == {("x", 5), ("y", None)}


def test_of_a_column_of_type_jsonb_nothing_fails_so_its_parts_are_stored_alone() -> None:
    assert read("SELECT id, d ->> 'k' AS k FROM docs").schema.names == ("id", "k")
    assert read("SELECT id, t ->> 'k' AS k FROM docs").schema.names == ("id", "k", "_error")


def test_a_text_that_is_no_json_fails_like_a_cast() -> None:
    with pytest.raises(ExpressionError, match=r"docs.t ->> 'k' fails for docs.t = 'x'"):
        shown("SELECT t ->> 'k' AS k FROM docs", (1, "x"))
