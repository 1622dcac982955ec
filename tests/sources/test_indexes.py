"""Which indexes a source lacks for the probes of views, on real databases."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from headwater.algebra.schema import Schema
from headwater.algebra.values import INT, TEXT, decimal_type
from headwater.testing.harness import Harness
from tests.sources.kinds import HARNESSES, SPEAKING_SQL
from tests.sources.sqlite_harness import SqliteHarness

LINES = Schema.of([("order", INT), ("line", INT), ("Article", TEXT), ("price", decimal_type(9, 2))])


@contextmanager
def closing(make: Callable[[], Harness]) -> Iterator[Harness]:
    harness = make()
    try:
        harness.create_table("lines", LINES, ["order", "line"])
        yield harness
    finally:
        harness.close()


@pytest.fixture(params=SPEAKING_SQL)
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    with closing(HARNESSES[request.param]) as made:
        yield made


def missing(harness: Harness, *probe: str) -> list[str]:
    return list(harness.source(["lines"]).missing_indexes({"lines": [probe]}))


def execute(harness: Harness, *statements: str) -> None:
    writer = harness.writer()
    for statement in statements:
        writer.execute(statement)


@pytest.mark.parametrize("probe", [("order",), ("Article", "order")])
def test_a_probe_that_the_primary_key_starts_with_needs_no_index(
    harness: Harness, probe: tuple[str, ...]
) -> None:
    assert missing(harness, *probe) == []


@pytest.mark.parametrize("probe", [("line",), ("Article",), ("line", "Article")])
def test_a_missing_index_is_missing_until_its_statement_is_run(
    harness: Harness, probe: tuple[str, ...]
) -> None:
    (statement,) = missing(harness, *probe)
    assert re.findall('["`](.*?)["`]', statement)[-len(probe) :] == list(probe)
    execute(harness, statement)
    assert missing(harness, *probe) == []


@pytest.mark.parametrize(
    "index",
    [
        'CREATE INDEX other ON lines ("order", line)',
        "CREATE INDEX part ON lines (line) WHERE line > 3",
        "CREATE INDEX computed ON lines (abs(line))",
    ],
)
def test_an_index_that_does_not_start_with_the_column_for_every_row_does_not_count(
    harness: Harness, index: str
) -> None:
    if harness.kind == "mariadb" and "other" not in index:
        return  # it has no such indexes
    execute(harness, index)
    assert len(missing(harness, "line")) == 1


def test_one_statement_for_one_probe_of_two_views(harness: Harness) -> None:
    source = harness.source(["lines"])
    assert len(source.missing_indexes({"lines": [("line",), ("line",)]})) == 1


def test_a_table_in_a_schema_of_its_own_is_named_with_it() -> None:
    harness = HARNESSES["postgres"]()
    try:
        harness.create_table("sales.lines", LINES)
        source = harness.source(["sales.lines"])
        assert list(source.missing_indexes({"lines": [("line",)]})) == [
            'CREATE INDEX ON "sales"."lines" ("line")'
        ]
    finally:
        harness.close()


def test_no_index_is_asked_for_that_knows_nothing_of_a_text_that_is_compared() -> None:
    harness = HARNESSES["postgres"]()
    try:
        writer = harness.writer()
        writer.execute("CREATE TABLE lines (id uuid, kind inet, amount numeric)")
        source = harness.source(["lines"])
        probes = [("kind",), ("id", "kind"), ("amount",)]
        assert list(source.missing_indexes({"lines": probes})) == [
            'CREATE INDEX ON "public"."lines" ("id")',
            'CREATE INDEX ON "public"."lines" ("amount")',
        ]
    finally:
        harness.close()


@pytest.fixture
def sqlite() -> Iterator[SqliteHarness]:
    harness = SqliteHarness()
    yield harness
    harness.close()


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("CREATE TABLE lines (id INTEGER PRIMARY KEY, a INT)", "id"),
        ("CREATE TABLE lines (id TEXT, a INT, PRIMARY KEY (id, a)) WITHOUT ROWID", "id"),
        ("CREATE TABLE lines (id INT, a INT UNIQUE)", "a"),
    ],
)
def test_sqlite_finds_rows_by_what_identifies_them(
    sqlite: SqliteHarness, table: str, column: str
) -> None:
    execute(sqlite, table)
    assert missing(sqlite, column) == []


def test_a_text_needs_an_index_in_binary_order(sqlite: SqliteHarness) -> None:
    execute(
        sqlite, "CREATE TABLE lines (name TEXT COLLATE NOCASE)", "CREATE INDEX i ON lines (name)"
    )
    (statement,) = missing(sqlite, "name")
    execute(sqlite, statement)
    assert missing(sqlite, "name") == []


def test_no_index_helps_a_comparison_that_sqlite_does_not_make(sqlite: SqliteHarness) -> None:
    sqlite.create_table("lines", LINES)
    assert missing(sqlite, "price") == []


def test_a_column_that_is_taken_as_a_text_asks_for_no_index(sqlite: SqliteHarness) -> None:
    execute(sqlite, "CREATE TABLE lines (k REAL, name TEXT)")
    assert missing(sqlite, "k (as text)") == []
    (statement,) = missing(sqlite, "k (as text)", "name")
    assert statement.endswith('("name" COLLATE BINARY)')
