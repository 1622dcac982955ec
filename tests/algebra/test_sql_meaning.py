"""What queries beyond joins mean: the same as in DuckDB, over random tables with NULLs.

And what is stored for them: its top over all rows is the sum of its tops over each key.
"""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta
from decimal import Decimal

import duckdb
import pytest

from headwater.algebra.evaluate import evaluate_shown, evaluate_view
from headwater.algebra.keying import keying
from headwater.algebra.rows import Rows
from headwater.algebra.sql.view import normalised, parse_view
from headwater.algebra.tops import PART, evaluate_top
from headwater.algebra.values import DATE, INT, TEXT, TIMESTAMP, Row, array_type
from headwater.algebra.views import View
from tests.algebra.sql_features import FEATURES, POINT, RELATIONS

QUERIES = [(feature, query) for feature in FEATURES for query in feature.queries]
STATES = 12


def _state(seed: int) -> dict[str, Rows]:
    """Few values and some NULLs, so that rows meet; some tables are empty."""
    chance = random.Random(seed)

    def number(most: int = 3) -> int | None:
        return None if chance.random() < 0.15 else chance.randrange(most)

    def day() -> date | None:
        return chance.choice((None, date(2024, 1, 31), date(2024, 2, 29), date(2024, 3, 1)))

    def moment() -> datetime | None:
        known = chance.choice((None, datetime(1969, 12, 31, 23, 30), datetime(2024, 2, 29)))
        minutes = chance.choice((0, 20, 60, 60 * 25, 60 * 24 * 31))
        return None if known is None else known + timedelta(minutes=minutes)

    sizes = [chance.choice((0, 1, 4, 6)) for _ in range(3)]
    r = [(a, number(), chance.choice((None, "x", "y"))) for a in range(sizes[0])]
    s = [(number(5), number()) for _ in range(sizes[1])]
    u = [(number(), number()) for _ in range(sizes[2])]
    arrays = [None, (), (1,), (0, 2, 1), (2, None, 2)]
    structs = [None, (number(), "x"), (1, None), (2, "y")]
    v = [(number(), chance.choice(arrays), chance.choice(structs)) for _ in range(seed % 7)]
    e = [(number(), moment(), moment(), day()) for _ in range(seed % 5)]
    contents: list[list[tuple[object, ...]]] = [list(r), list(s), list(u), list(v), list(e)]
    return {
        relation.name: Rows.of(relation.schema, rows)
        for relation, rows in zip(RELATIONS, contents, strict=True)
    }


_THEIR_TYPES = {
    INT: "BIGINT",
    TEXT: "VARCHAR",
    TIMESTAMP: "TIMESTAMP",
    DATE: "DATE",
    array_type(INT): "BIGINT[]",
    POINT: "STRUCT(x BIGINT, y VARCHAR)",
}
STATE_LIST = [_state(seed) for seed in range(STATES)]


@pytest.fixture(scope="module")
def databases() -> list[duckdb.DuckDBPyConnection]:
    found = []
    for state in STATE_LIST:
        database = duckdb.connect()
        database.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
        for relation in RELATIONS:
            columns = ", ".join(f"{c.name} {_THEIR_TYPES[c.type]}" for c in relation.schema.columns)
            database.execute(f"CREATE TABLE {relation.name} ({columns})")
            rows = [_given(r) for r, n in state[relation.name].items() for _ in range(n)]
            if rows:
                marks = ", ".join("?" * len(relation.schema))
                database.executemany(f"INSERT INTO {relation.name} VALUES ({marks})", rows)
        found.append(database)
    return found


def _given(row: Row) -> list[object]:
    """A row as DuckDB takes it; the last column of four tables is a struct if it is nested."""
    *others, last = row
    struct = dict(zip(("x", "y"), last, strict=True)) if isinstance(last, tuple) else last
    return [*(list(v) if isinstance(v, tuple) else v for v in others), struct]


THEIR_WORDS = {
    "PERCENTILE(GREATEST(a, b), 0.4)": (
        "PERCENTILE_CONT(0.4) WITHIN GROUP (ORDER BY GREATEST(a, b))"
    ),
    "LEFT SEMI JOIN": "SEMI JOIN",
    "LEFT ANTI JOIN": "ANTI JOIN",
    "COUNT(DISTINCT c, d)": "COUNT(DISTINCT (c, d)) FILTER (WHERE c + d > -1)",
    " LATERAL VIEW EXPLODE(xs) AS x": ", UNNEST(xs) AS n(x)",
    "POSEXPLODE(xs) AS (at, x)": "GENERATE_SUBSCRIPTS(xs, 1) - 1 AS at, UNNEST(xs) AS x",
    "EXPLODE(SEQUENCE(0, b))": "UNNEST(RANGE(0, b + 1))",
    "ARRAY_MAX(": "LIST_MAX(",
    "SIZE(": "LEN(",
    "GET(xs, 0)": "xs[1]",
    "ELEMENT_AT(xs, -1)": "xs[-1]",
    "STRING_AGG(t, CAST(a AS STRING) ORDER BY a) AS x": (
        "SUBSTRING(STRING_AGG(CAST(a AS STRING) || t, '' ORDER BY a), 2) AS x"
    ),
    "APPROX_PERCENTILE(c, ARRAY(0, 0.5, 1.0), 100)": "QUANTILE_DISC(c, [0, 0.5, 1.0])",
    "APPROX_PERCENTILE(": "QUANTILE_DISC(",
    "APPROX_COUNT_DISTINCT(b)": "COUNT(DISTINCT b)",
    "TIMESTAMPDIFF(HOUR, since, until)": "DATE_SUB('hour', since, until)",
    "DATEDIFF(MONTH, since, until)": "DATE_SUB('month', since, until)",
    "TIMESTAMPADD(MONTH, 1, since)": "since + INTERVAL 1 MONTH",
    "DATEADD(HOUR, -a, until)": "until - to_hours(a)",
    "window.start, COUNT(*) AS n FROM e GROUP BY WINDOW(since, '1 hour')": (
        "TIME_BUCKET(INTERVAL 1 HOUR, since), COUNT(*) AS n FROM e WHERE since IS NOT NULL "
        "GROUP BY 1"
    ),
    "DATE_BIN('15 minutes', since, TIMESTAMP_NTZ '2024-01-01 00:05:00')": (
        "TIME_BUCKET(INTERVAL 15 MINUTE, since, TIMESTAMP '2024-01-01 00:05:00')"
    ),
    "w.start AS t, w.end AS u": "w AS t, w + INTERVAL 1 DAY AS u",
    "WINDOW(since, '1 day', '1 day', '6 hours') AS w FROM e GROUP BY a, "
    "WINDOW(since, '1 day', '1 day', '6 hours')": (
        "TIME_BUCKET(INTERVAL 1 DAY, since, TIMESTAMP '1970-01-01 06:00:00') AS w FROM e "
        "WHERE since IS NOT NULL GROUP BY ALL"
    ),
    "FROM (SELECT t, b, a FROM r) PIVOT (SUM(a) FOR b IN (0 AS zero, 1 AS one))": (
        "FROM (SELECT t, SUM(a) FILTER (b = 0), SUM(a) FILTER (b = 1) FROM r GROUP BY t)"
    ),
    "FROM r PIVOT (COUNT(*) AS n, MAX(a) AS m FOR t IN ('x' AS x, 'y' AS y))": (
        "FROM (SELECT b, NULLIF(COUNT(*) FILTER (t = 'x'), 0) AS x_n, MAX(a) FILTER (t = 'y') AS "
        "y_m FROM r GROUP BY b)"
    ),
    "t LIKE ANY ('x%', '%z')": "(t LIKE 'x%' OR t LIKE '%z')",
    "t NOT LIKE ANY ('x', 'z')": "(t NOT LIKE 'x' OR t NOT LIKE 'z')",
    "t NOT LIKE ALL ('y%', 'z')": "t NOT LIKE 'y%' AND t NOT LIKE 'z'",
    "* EXCEPT (t)": "* EXCLUDE (t)",
    "LIMIT ALL ": "",
    "ST_DISTANCE(ST_POINT(a, b), ST_POINT(0, 0.5))": (
        "SQRT(a::DOUBLE * a::DOUBLE + (b - 0.5::DOUBLE) * (b - 0.5::DOUBLE))"
    ),
    "ST_POINT(a, b) AS p, COUNT(*) AS n FROM r GROUP BY ST_POINT(a, b)": (
        "CASE WHEN a + b >= 0 THEN {'x': a::DOUBLE, 'y': b::DOUBLE} END AS p, COUNT(*) AS n FROM r "
        "GROUP BY 1"
    ),
    "HAVING ST_X(p) > 0": "HAVING MAX(a + b) >= 0 AND MAX(a) > 0",
    "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY b)": "QUANTILE_CONT(b, 0.5)",
    "FIRST(a) IGNORE NULLS": "MIN(a)",
    "LAST(t, TRUE)": "MAX(t)",
    "KURTOSIS(": "KURTOSIS_POP(",
    "ROUND(CORR(a, b), 9)": "CASE WHEN NOT ISNAN(CORR(a, b)) THEN ROUND(CORR(a, b), 9) END",
    "ROUND(REGR_SLOPE(a, b), 9)": (
        "CASE WHEN NOT ISNAN(REGR_SLOPE(a, b)) THEN ROUND(REGR_SLOPE(a, b), 9) END"
    ),
    "PERCENTILE_CONT(NULL) WITHIN GROUP (ORDER BY a)": "NULL",
}


def _theirs(database: duckdb.DuckDBPyConnection, view: View, query: str) -> Rows:
    for ours, theirs in THEIR_WORDS.items():
        query = query.replace(ours, theirs)
    rows = database.execute(query).fetchall()
    return Rows.of(view.shown_schema, [[_taken(value) for value in row] for row in rows])


def _taken(value: object) -> object:
    """A value of DuckDB as we have it: sums are whole, and structs have no names."""
    if isinstance(value, dict):
        return tuple(value.values())
    return int(value) if isinstance(value, Decimal) else value


@pytest.mark.parametrize(("feature", "query"), QUERIES, ids=[q for _, q in QUERIES])
def test_a_view_shows_what_the_query_gives(
    databases: list[duckdb.DuckDBPyConnection], feature: object, query: str
) -> None:
    view = parse_view(query, RELATIONS)
    for state, database in zip(STATE_LIST, databases, strict=True):
        assert evaluate_shown(view, state) == _theirs(database, view, query), state


@pytest.mark.parametrize(("feature", "query"), QUERIES, ids=[q for _, q in QUERIES])
def test_a_keyed_top_is_the_sum_over_its_keys(feature: object, query: str) -> None:
    view = parse_view(query, RELATIONS)
    keys = keying(view.top) if view.top else None
    if view.top is None or keys is None:
        return
    for state in STATE_LIST:
        stored = evaluate_view(view, state)
        by_key: dict[Row, dict[Row, int]] = {}
        for row, count in stored.items():
            number = row[view.schema.positions[PART]] if PART in view.schema.positions else None
            columns = keys[number]  # type: ignore[index]
            key = tuple(row[view.schema.positions[name]] for name in columns)
            by_key.setdefault(key, {})[row] = count
        tops = [evaluate_top(view.top, Rows(view.schema, rows)) for rows in by_key.values()]
        assert Rows.sum(view.shown_schema, tops) == evaluate_top(view.top, stored)


@pytest.mark.parametrize(("feature", "query"), QUERIES, ids=[q for _, q in QUERIES])
def test_the_normal_form_of_a_query_stores_and_shows_the_same(feature: object, query: str) -> None:
    view, again = parse_view(query, RELATIONS), parse_view(normalised(query), RELATIONS)
    assert (again.joins, again.schema, again.top) == (view.joins, view.schema, view.top)
