"""Every type's edge values, joined pairwise between kinds of source: one meaning everywhere.

The source's answer must be what Rows gives. What a source would compare in another way (case,
padding, signed zeros) it may only find too much of, and Headwater decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from headwater.algebra.evaluate import evaluate
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import bind_delta, query_of
from headwater.algebra.values import (
    BOOL,
    BYTES,
    DATE,
    FLOAT,
    INT,
    INT_MAX,
    INT_MIN,
    NAN,
    TEXT,
    TIMESTAMP,
    TIMESTAMP_TZ,
    Row,
    Type,
    Value,
    decimal_type,
)
from headwater.sources.contract import Source
from tests.sources.harness import Harness
from tests.sources.kinds import HARNESSES

EDGES: dict[str, tuple[Type, list[Value]]] = {
    "bool": (BOOL, [True, False]),
    "int": (INT, [0, 1, -1, INT_MAX, INT_MIN, 2**53 + 1]),
    "decimal": (
        decimal_type(12, 2),
        [Decimal("0.00"), Decimal("0.10"), Decimal("-0.10"), Decimal("9999999999.99")],
    ),
    "float": (
        FLOAT,
        [0.0, 0.1, -1.5, 1e308, 5e-324, float("inf"), float("-inf"), NAN, float(2**53)],
    ),
    "text": (
        TEXT,
        ["", " ", "a", "A", "a ", " a", "ä", "a\u0308", "ß", "ss", "\U0001f600", "'\"\\%_", "NULL"],
    ),
    "bytes": (BYTES, [b"", b"\x00", b"a", b"\xff\x00\xfe"]),
    "date": (DATE, [date(1, 1, 1), date(1970, 1, 1), date(2024, 2, 29), date(9999, 12, 31)]),
    "timestamp": (
        TIMESTAMP,
        [datetime(1, 1, 1), datetime(2024, 2, 29, 23, 59, 59, 999999), datetime(9999, 12, 31)],
    ),
    "timestamp_tz": (
        TIMESTAMP_TZ,
        [datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, 23, 59, 59, 999999, tzinfo=UTC)],
    ),
}
UNSUPPORTED = {("sqlite", "float", NAN): "SQLite stores NaN as NULL"}


def stores(kind: str, name: str, value: Value) -> bool:
    """Whether a kind of source can hold a value at all."""
    return not any((kind, name) == (k, n) and value is v for k, n, v in UNSUPPORTED)


def schema(name: str) -> Schema:
    return Schema.of([("id", INT), ("v", EDGES[name][0])])


@pytest.fixture(scope="module")
def databases() -> Iterator[dict[str, Harness]]:
    """One database of each kind, with a table of edge values for each type, and NULLs."""
    made: dict[str, Harness] = {}
    try:
        for kind, make in HARNESSES.items():
            made[kind] = make()
            for name in EDGES:
                _fill(made[kind], name)
        yield made
    finally:
        for harness in made.values():
            harness.close()


def _fill(harness: Harness, name: str) -> None:
    harness.create_table(f"edge_{name}", schema(name), key=["id"])
    writer = harness.writer()
    values = [v for v in EDGES[name][1] if stores(harness.kind, name, v)]
    with writer.transaction():
        for number, value in enumerate([*values, None]):
            writer.execute(f"INSERT INTO edge_{name} (id, v) VALUES (?, ?)", (number, value))
    writer.close()


@pytest.fixture(scope="module")
def sources(databases: dict[str, Harness]) -> Iterator[dict[str, Source]]:
    made = {
        kind: harness.source([f"edge_{name}" for name in EDGES])
        for kind, harness in databases.items()
    }
    for source in made.values():
        source.setup()
    yield made
    for source in made.values():
        source.teardown()


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("kind", HARNESSES)
def test_edge_values_are_read_back_as_they_were_written(
    databases: dict[str, Harness], kind: str, name: str
) -> None:
    values = [v for v in EDGES[name][1] if stores(kind, name, v)]
    rows: list[Row] = [(number, value) for number, value in enumerate([*values, None])]
    stored = Rows(schema(name), databases[kind].contents(f"edge_{name}"))
    assert stored == Rows(schema(name), dict.fromkeys(rows, 1))


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("other", HARNESSES)
@pytest.mark.parametrize("kind", HARNESSES)
def test_join_with_values_of_another_kind_is_what_rows_give(
    databases: dict[str, Harness], sources: dict[str, Source], kind: str, other: str, name: str
) -> None:
    here = sources[kind].relations()[f"edge_{name}"].without_texts()
    there = sources[other].relations()[f"edge_{name}"].without_texts()
    sql = "SELECT a.id AS a, b.id AS b FROM {} a JOIN {} b ON a.v = b.v"
    known = {relation.name: relation for relation in (here, there)}
    view = parse_view(sql.format(here.name, there.name), known.values())
    (term,) = query_of(view)
    bound = Rows(there.schema, databases[other].contents(f"edge_{name}"))
    query = (bind_delta(term, 1, bound),)
    wrapper = sources[kind].open_wrapper()
    try:
        (answer,) = wrapper.ask([query]).results
    finally:
        wrapper.close()
    stored = Rows(here.schema, databases[kind].contents(f"edge_{name}"))
    assert answer == evaluate(query, {here.name: stored})
    assert answer, "no edge value found its twin"
