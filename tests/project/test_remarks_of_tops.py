"""What `check` tells of views that tell values apart beyond joins."""

from __future__ import annotations

import pytest

from headwater.algebra.schema import Column, Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT, TEXT
from headwater.errors import SqlError
from headwater.project.remarks import cautions_of

DOCS = Relation(
    "shop.docs",
    "shop",
    Schema(
        (
            Column("id", INT),
            Column("body", TEXT, printed="jsonb", equality="1.0 and 1.00 are equal there"),
        )
    ),
    ("id",),
)


@pytest.mark.parametrize(
    "select",
    [
        "SELECT body, COUNT(*) AS n FROM docs GROUP BY body",
        "SELECT DISTINCT body FROM docs",
        "SELECT body FROM docs UNION SELECT body FROM docs",
        "SELECT body FROM docs EXCEPT ALL SELECT body FROM docs WHERE id = 1",
        "SELECT COUNT(DISTINCT body) AS n FROM docs",
        "SELECT id, RANK() OVER (PARTITION BY body ORDER BY id) AS n FROM docs",
        "SELECT x.b, COUNT(*) AS n FROM (SELECT body AS b FROM docs) x GROUP BY x.b",
    ],
)
def test_values_that_are_told_apart_are_told_of(select: str) -> None:
    told = "tells values of docs.body (jsonb) apart: 1.0 and 1.00 are equal there."
    assert any(told in caution for caution in cautions_of(parse_view(select, [DOCS])))


def test_values_that_are_only_counted_are_not_told_of() -> None:
    view = parse_view("SELECT id, COUNT(body) AS n FROM docs GROUP BY id", [DOCS])
    assert cautions_of(view) == ()


def test_values_of_any_type_are_said_to_be_shown_as_json() -> None:
    told = "shows what PARSE_JSON gives as JSON text"
    shown = parse_view("SELECT id, PARSE_JSON(body) AS b FROM docs", [DOCS])
    picked = parse_view("SELECT VARIANT_GET(PARSE_JSON(body), '$.a', 'int') AS b FROM docs", [DOCS])
    assert any(told in caution for caution in cautions_of(shown))
    assert not any(told in caution for caution in cautions_of(picked))


MOODS = Relation(
    "shop.moods",
    "shop",
    Schema(
        (
            Column("id", INT),
            Column("mood", TEXT, printed="mood"),
            Column("during", TEXT, printed="tstzrange"),
        )
    ),
    ("id",),
)


@pytest.mark.parametrize(
    "select",
    [
        "SELECT MAX(mood) AS m FROM moods",
        "SELECT MIN(mood) OVER () AS m FROM moods",
        "SELECT MAX_BY(id, mood) AS m FROM moods",
        "SELECT STRING_AGG(mood, ',' ORDER BY mood) AS m FROM moods",
        "SELECT RANK() OVER (ORDER BY mood) AS n FROM moods",
        "SELECT id FROM moods ORDER BY mood LIMIT 1",
        "SELECT mood FROM moods ORDER BY mood LIMIT 1",
        "SELECT mood AS m FROM moods ORDER BY 1 LIMIT 1",
        "SELECT x.m FROM (SELECT mood AS m FROM moods) x ORDER BY x.m LIMIT 1",
        "SELECT GREATEST(mood, 'sad') AS m FROM moods",
        "SELECT LOWER(during) AS d FROM moods",
        "SELECT id FROM moods WHERE UPPER(during) = 'X'",
    ],
)
def test_a_text_is_not_sorted_and_taken_apart_for_the_value_that_it_is_at_its_source(
    select: str,
) -> None:
    with pytest.raises(SqlError, match="at its source and a text here"):
        parse_view(select, [MOODS])


@pytest.mark.parametrize(
    "select",
    [
        "SELECT MAX(CAST(mood AS STRING)) AS m FROM moods",
        "SELECT id FROM moods ORDER BY CAST(mood AS STRING) LIMIT 1",
        "SELECT LOWER(CAST(during AS STRING)) AS d FROM moods",
        "SELECT UPPER(mood) AS m FROM moods",
        "SELECT MAX(id) AS m FROM moods ORDER BY m",
        "SELECT mood FROM moods ORDER BY mood",
    ],
)
def test_what_is_said_to_be_a_text_or_needs_no_order_is_accepted(select: str) -> None:
    assert parse_view(select, [MOODS]).joins
