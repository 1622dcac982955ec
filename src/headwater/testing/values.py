"""Every type's edge values, written, read back, and found again by a join: one meaning everywhere.

    class TestMyValues(ValueConformance):
        @pytest.fixture
        def harness(self) -> Iterator[Harness]:
            made = MyHarness()
            yield made
            made.close()

A source's answer must be what Rows gives. What it would compare in another way (case, padding,
signed zeros) it may only find too much of, and Headwater decides. A value that a kind has no room
for is listed in `unsupported`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import ClassVar

import pytest

from headwater.algebra.evaluate import evaluate
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
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
from headwater.testing.harness import Harness

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


def schema(name: str) -> Schema:
    return Schema.of([("id", INT), ("v", EDGES[name][0])])


def fill(harness: Harness, name: str, values: Sequence[Value]) -> None:
    """A table with edge values of a type, and a NULL."""
    harness.create_table(f"edge_{name}", schema(name), key=["id"])
    writer = harness.writer()
    with writer.transaction():
        for number, value in enumerate([*values, None]):
            writer.execute(f"INSERT INTO edge_{name} (id, v) VALUES (?, ?)", (number, value))
    writer.close()


def check_read_back(harness: Harness, name: str, values: Sequence[Value]) -> None:
    rows: list[Row] = [(number, value) for number, value in enumerate([*values, None])]
    stored = Rows(schema(name), harness.contents(f"edge_{name}"))
    assert stored == Rows(schema(name), dict.fromkeys(rows, 1))


def check_join(harness: Harness, source: Source, name: str, there: Relation, bound: Rows) -> None:
    """A join with known values of another relation is what Rows give."""
    here = source.relations()[f"edge_{name}"].without_texts()
    sql = "SELECT a.id AS a, b.id AS b FROM {} a JOIN {} b ON a.v = b.v"
    known = {relation.name: relation for relation in (here, there)}
    view = parse_view(sql.format(here.name, there.name), known.values())
    (term,) = query_of(view)
    query = (bind_delta(term, 1, bound),)
    wrapper = source.open_wrapper()
    try:
        (answer,) = wrapper.ask([query]).results
    finally:
        wrapper.close()
    stored = Rows(here.schema, harness.contents(f"edge_{name}"))
    assert answer == evaluate(query, {here.name: stored})
    assert answer, "no edge value found its twin"


class ValueConformance:
    """What every kind of source does with values; `harness` is a fixture of who uses it."""

    unsupported: ClassVar[Collection[tuple[str, Value]]] = ()

    @pytest.mark.parametrize("name", EDGES)
    def test_edge_values_are_read_back_and_joined(self, harness: Harness, name: str) -> None:
        values = [
            v for v in EDGES[name][1] if not any(n == name and u is v for n, u in self.unsupported)
        ]
        fill(harness, name, values)
        check_read_back(harness, name, values)
        source = harness.source([f"edge_{name}"])
        source.setup()
        rows: list[Row] = [(number, value) for number, value in enumerate([*EDGES[name][1], None])]
        there = Relation("elsewhere.twins", "elsewhere", schema(name))
        check_join(harness, source, name, there, Rows(schema(name), dict.fromkeys(rows, 1)))
        source.teardown()
