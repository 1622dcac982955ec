"""Unknown values: which of them are the same one, and which rows tell of them."""

from __future__ import annotations

import pytest

from headwater.algebra.evaluate import evaluate_shown
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT, Value
from headwater.errors import InputError
from headwater.mediation.binding import bind
from tests.mediation.random_settings import schema_of

Row = tuple[Value, ...]
R = Relation("p.r", "p", Schema.of([("a", INT), ("b", INT)]))
S = Relation("q.s", "q", Schema.of([("a", INT), ("b", INT)]))


def rows(schema: str, query: str, **told: list[Row]) -> set[Row]:
    """What a query shows with these rows of r and s; nothing if no source can ever answer it."""
    found = schema_of(schema)
    try:
        sql = bind(found, found.read_in(query), (R, S)).answer(query).sql
    except InputError as error:
        if "no source can ever answer" in str(error):
            return set()
        raise
    state = {each.name: Rows.of(each.schema, told.get(each.name[2:], [])) for each in (R, S)}
    shown = evaluate_shown(parse_view(sql, [R, S]), state)
    return set(shown)


# Which are the same


def test_two_descriptions_of_one_table_speak_of_different_values() -> None:
    schema = (
        "CREATE TABLE t1 (a BIGINT, b BIGINT, c BIGINT);"
        "CREATE SOURCE VIEW p.r AS SELECT a, b FROM t1 WHERE c > 100;"
        "CREATE SOURCE VIEW p.r AS SELECT b AS a, a AS b FROM t1 WHERE c < 3"
    )
    assert rows(schema, "SELECT a, b FROM mediated.t1 WHERE c < 3", r=[(1, 2)]) == {(2, 1)}


def test_two_views_of_one_relation_speak_of_different_values() -> None:
    schema = (
        "CREATE TABLE m (a BIGINT, b BIGINT, c BIGINT NOT NULL, d BIGINT);"
        "CREATE VIEW m AS SELECT a, b FROM p.r; CREATE VIEW m AS SELECT a, b AS d FROM q.s"
    )
    query = "SELECT k.b, l.d FROM m k JOIN m l ON k.c = l.c"
    assert rows(schema, query, r=[(1, 2)], s=[(1, 2)]) == set()


@pytest.mark.parametrize(
    "keys",
    [
        "b BIGINT, FOREIGN KEY (b) REFERENCES n (x), FOREIGN KEY (b) REFERENCES n (y)",
        "b BIGINT REFERENCES n (x) REFERENCES n (y)",
    ],
)
def test_two_foreign_keys_of_one_column_speak_of_different_values(keys: str) -> None:
    schema = (
        "CREATE TABLE n (x BIGINT, y BIGINT, z BIGINT NOT NULL);"
        f"CREATE TABLE m (a BIGINT, {keys});"
        "CREATE SOURCE VIEW p.r AS SELECT a, b FROM m"
    )
    query = "SELECT k.x, l.y FROM n k JOIN n l ON k.z = l.z"
    assert rows(schema, query, r=[(1, 2)]) == set()


def test_two_source_views_of_one_name_speak_of_different_values() -> None:
    schema = (
        "CREATE TABLE m (a BIGINT, b BIGINT, c BIGINT NOT NULL);"
        "CREATE SOURCE VIEW d FROM (SELECT a FROM p.r) AS SELECT a FROM m;"
        "CREATE SOURCE VIEW d FROM (SELECT a AS b FROM q.s) AS SELECT b FROM m"
    )
    query = "SELECT k.a, l.b FROM m k JOIN m l ON k.c = l.c"
    assert rows(schema, query, r=[(1, 2)], s=[(1, 2)]) == set()


UNION = (
    "CREATE TABLE g (x BIGINT, y BIGINT, z BIGINT, u BIGINT NOT NULL);"
    "CREATE SOURCE VIEW d FROM (SELECT a AS x, {} AS y, b AS z FROM p.r UNION "
    "SELECT a AS x, {} AS y, b AS z FROM q.s) AS SELECT x, y, z FROM g"
)
PAIRS = "SELECT k.y AS y1, l.y AS y2 FROM g k JOIN g l ON k.u = l.u"


def test_different_rows_of_a_union_have_different_unknown_values() -> None:
    schema = UNION.format("a", "b")
    assert rows(schema, PAIRS, r=[(1, 2)], s=[(1, 2)]) == {(1, 1), (2, 2)}


def test_equal_rows_of_a_union_are_one_row() -> None:
    query = "SELECT k.y AS y1, l.z AS z2 FROM g k JOIN g l ON k.u = l.u"
    schema = UNION.format("a", "7")
    assert rows(schema, query, r=[(7, 2)], s=[(7, 2)]) == {(7, 2)}
    schema = UNION.format("7", "7")
    assert rows(schema, query, r=[(1, 2)], s=[(1, 3)]) == {(7, 2), (7, 3)}


# Which rows tell


def test_a_column_told_twice_is_refused() -> None:
    schema = (
        "CREATE TABLE m (a BIGINT, b BIGINT); CREATE SOURCE VIEW p.r (a, a) AS SELECT a, b FROM m"
    )
    with pytest.raises(InputError, match=r"schema\.sql:1:.*two columns are the same one"):
        rows(schema, "SELECT a, b FROM m")


@pytest.mark.parametrize(
    "compared",
    [
        "m AS x WHERE x.a < x.c",
        "m AS x WHERE x.c <> x.a + 1",
        "m AS x WHERE ABS(x.a) > x.c",
        "m AS x WHERE x.a < x.c OR x.a = 3",
        "m AS x, m AS y WHERE x.a <= y.c",
    ],
)
def test_a_row_with_null_where_it_is_compared_with_an_unknown_value_tells_nothing(
    compared: str,
) -> None:
    schema = (
        "CREATE TABLE m (a BIGINT, b BIGINT, c BIGINT);"
        f"CREATE SOURCE VIEW p.r AS SELECT x.a, x.b FROM {compared}"
    )
    told: list[Row] = [(1, 2), (None, 4)]
    assert rows(schema, "SELECT b FROM mediated.m", r=told) == {(2,)}


def test_a_row_with_null_tells_where_an_unknown_value_may_fit_it() -> None:
    schema = (
        "CREATE TABLE m (a BIGINT, b BIGINT, c BIGINT);"
        "CREATE SOURCE VIEW p.r AS SELECT a, b FROM m WHERE a < c OR c = 3"
    )
    assert rows(schema, "SELECT b FROM mediated.m", r=[(1, 2), (None, 4)]) == {(2,), (4,)}


@pytest.mark.parametrize(
    "required", ["a BIGINT NOT NULL, b BIGINT", "a BIGINT PRIMARY KEY, b BIGINT"]
)
@pytest.mark.parametrize(
    "told", ["SOURCE VIEW p.r AS SELECT a, b FROM m", "VIEW m AS SELECT a, b FROM p.r"]
)
def test_a_row_with_null_where_there_is_none_tells_nothing(required: str, told: str) -> None:
    schema = f"CREATE TABLE m ({required}); CREATE {told}"
    assert rows(schema, "SELECT b FROM mediated.m", r=[(1, 2), (None, 4), (5, None)]) == {
        (2,),
        (None,),
    }


def test_what_is_never_null_at_the_source_is_not_asked_for() -> None:
    keyed = Relation("p.r", "p", R.schema, ("a",))
    found = schema_of(
        "CREATE TABLE m (a INT PRIMARY KEY, b INT); CREATE VIEW m AS SELECT a, b FROM p.r"
    )
    assert "WHERE" not in bind(found, ["m"], (keyed,)).answer("SELECT a, b FROM m").sql


# What a description fixes and its source shows


@pytest.mark.parametrize(
    ("description", "wanted"),
    [
        ("SELECT a, b FROM m WHERE b = 7", {(1,), (7,)}),
        ("SELECT m.a, n.a AS b FROM m JOIN n ON m.a = n.a", {(7,)}),
        ("SELECT a, a AS b FROM m", {(7,)}),
        ("SELECT a, 7 AS b FROM m", {(1,), (7,)}),
        ("SELECT a, CAST(7 AS BIGINT) AS b FROM m WHERE b = 3", {(1,), (7,)}),
    ],
)
@pytest.mark.parametrize("key", [(), ("a",)])
def test_a_column_may_be_shown_and_fixed(
    description: str, wanted: set[Row], key: tuple[str, ...]
) -> None:
    schema = (
        "CREATE TABLE m (a BIGINT, b BIGINT); CREATE TABLE n (a BIGINT);"
        f"CREATE SOURCE VIEW p.r AS {description}"
    )
    told = Relation("p.r", "p", R.schema, key)
    found = schema_of(schema)
    sql = bind(found, ["m"], (told,)).answer("SELECT a FROM m").sql
    state = {"p.r": Rows.of(R.schema, [(1, 7), (7, 7), (3, 4)])}
    assert set(evaluate_shown(parse_view(sql, [told]), state)) == wanted


@pytest.mark.parametrize(
    ("shown", "value"),
    [
        ("UPPER(shop)", "A"),
        ("LENGTH(shop) + a", 2),
        ("CASE shop WHEN 'a' THEN -cents ELSE 0 END", -5),
        ("COALESCE(shop, '?') || '1'", "a1"),
    ],
)
def test_what_is_computed_from_fixed_columns_may_be_shown(shown: str, value: Value) -> None:
    schema = (
        "CREATE TABLE m (shop STRING, a BIGINT, cents BIGINT);"
        "CREATE SOURCE VIEW p.r (a) AS SELECT a FROM m WHERE shop = 'a' AND cents = 5"
    )
    assert rows(schema, f"SELECT {shown} AS x FROM m", r=[(1, 2)]) == {(value,)}


def test_constants_are_told_beside_rows() -> None:
    schema = (
        "CREATE TABLE m (a BIGINT, b BIGINT); CREATE VIEW m AS SELECT 1 AS a, 2 AS b;"
        "CREATE VIEW m AS SELECT a, b FROM p.r"
    )
    assert rows(schema, "SELECT a, b FROM m", r=[(3, 4)]) == {(1, 2), (3, 4)}


def test_of_conditions_with_or_the_part_that_is_told_counts() -> None:
    schema = "CREATE TABLE m (a INT, b INT, c INT); CREATE SOURCE VIEW p.r AS SELECT a, b FROM m"
    for condition in ("a = 1 OR c = 2", "c = 2 OR b = 2 AND a = 1", "(a = 1 OR c = 2) AND b = 2"):
        query = f"SELECT a FROM m WHERE {condition}"
        assert rows(schema, query, r=[(1, 2), (3, 4)]) == {(1,)}
    assert rows(schema, "SELECT a FROM m WHERE a = 1 AND c = 2 OR c = 3", r=[(1, 2)]) == set()
    known = f"{schema} WHERE c < 3"
    for condition in ("c < 4 OR a = 1", "c < 4 AND a > 0 OR c = 9"):
        query = f"SELECT a FROM m WHERE {condition}"
        assert rows(known, query, r=[(1, 2), (3, 4)]) == {(1,), (3,)}
