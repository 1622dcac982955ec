"""What `check` tells of views that compare columns of a SQLite file in another way than it does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.algebra.sql.view import parse_view
from headwater.project.remarks import cautions_of
from headwater.sources.sqlite.uniques import collations
from tests.sources.sqlite_harness import SqliteHarness


@pytest.fixture
def harness() -> Iterator[SqliteHarness]:
    harness = SqliteHarness()
    yield harness
    harness.close()


def told(harness: SqliteHarness, condition: str, *columns: str) -> tuple[str, ...]:
    """The cautions of a view over a table t that joins itself as a and b."""
    harness.writer().execute(f"CREATE TABLE t ({', '.join(columns)})")
    sql = f"SELECT a.n FROM t a JOIN t b ON a.n = b.n AND {condition}"
    return cautions_of(parse_view(sql, harness.source(["t"]).relations()))


@pytest.mark.parametrize("condition", ["a.v = 'x'", "a.v <> b.w", "b.w = a.v"])
@pytest.mark.parametrize("declared", ["TEXT COLLATE NOCASE", "VARCHAR(9) NOT NULL collate [rtrim]"])
def test_a_view_is_told_that_a_collation_is_looser(
    harness: SqliteHarness, declared: str, condition: str
) -> None:
    (caution,) = told(harness, condition, "n INT", f"v {declared}", "w TEXT")
    assert "compares a.v (text): there its collation " in caution


def test_a_collation_stays_with_a_column_that_is_cast(harness: SqliteHarness) -> None:
    (caution,) = told(harness, "CAST(a.v AS STRING) = 'x'", "n INT", "v TEXT COLLATE NOCASE")
    assert "its collation NOCASE" in caution


def test_a_column_without_any_type_has_both_remarks(harness: SqliteHarness) -> None:
    (caution,) = told(harness, "a.v = 'x'", "n INT", "v COLLATE NOCASE")
    assert "are equal here; there its collation NOCASE" in caution


@pytest.mark.parametrize(
    ("declared", "condition"),
    [
        ("TEXT", "a.v = 'x'"),
        ("TEXT COLLATE BINARY", "a.v = 'x'"),
        ("TEXT COLLATE NOCASE", "a.n = 1"),
        ("INT COLLATE NOCASE", "a.v = 1"),
    ],
)
def test_no_view_is_told_of_a_collation_that_makes_no_difference(
    harness: SqliteHarness, declared: str, condition: str
) -> None:
    assert told(harness, condition, "n INT", f"v {declared}") == ()


@pytest.mark.parametrize("condition", ["a.v = b.w", "b.w = a.v", "a.v = CAST(b.x AS STRING)"])
def test_a_view_is_told_that_sqlite_makes_numbers_of_texts_first(
    harness: SqliteHarness, condition: str
) -> None:
    (caution,) = told(harness, condition, "n INT", "v NUMERIC", "w TEXT", "x REAL")
    assert "compares a.v (NUMERIC) with b." in caution
    assert "'5.0' equals 5" in caution


@pytest.mark.parametrize("condition", ["a.v = b.v", "a.w = b.w", "a.w = CAST(b.x AS STRING)"])
def test_no_view_is_told_of_columns_of_one_affinity(harness: SqliteHarness, condition: str) -> None:
    assert told(harness, condition, "n INT", "v NUMERIC", "w TEXT", "x REAL") == ()


def test_a_collation_is_that_of_a_column_itself_however_it_is_written() -> None:
    made = """CREATE TABLE "a (COLLATE x," (
        "collate", b$c TEXT DEFAULT ', COLLATE x', -- COLLATE x,
        d TEXT CHECK (d COLLATE x <> '(') COLLATE /* y, */ "nocase" DEFAULT (1, 2),
        e DECIMAL(5, 2) COLLATE NOCASE COLLATE 'RTRIM', UNIQUE (d COLLATE x)
    )"""
    assert collations(made) == ["BINARY", "BINARY", "NOCASE", "RTRIM", "BINARY"]
