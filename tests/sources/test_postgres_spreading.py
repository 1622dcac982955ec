"""Questions by keys that Spark holds: its workers read what belongs to theirs, in one snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark import cloudpickle, serializers
from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import Query, bind_delta, query_of
from headwater.algebra.values import INT, TEXT, Row
from headwater.errors import LostConnectionError
from headwater.frames import frame as frame_module
from headwater.frames import held
from headwater.frames.engine import Engine
from headwater.frames.frame import Frame
from headwater.sources.postgres import spreading, wrapper
from headwater.sources.postgres.source import PostgresSource
from tests.sources.postgres_harness import PostgresHarness

KEYS = 40


@pytest.fixture
def harness() -> Iterator[PostgresHarness]:
    made = PostgresHarness()
    made.create_table("lines", Schema.of([("id", INT), ("key", INT), ("note", TEXT)]), ["id"])
    made.create_table("orders", Schema.of([("key", INT), ("name", TEXT)]), ["key"])
    writer = made.writer()
    for at in range(3 * KEYS):
        writer.execute("INSERT INTO lines VALUES (?, ?, ?)", [at, at % (KEYS + 7), "n"])
    yield made
    made.close()


@pytest.fixture
def source(harness: PostgresHarness) -> Iterator[PostgresSource]:
    found = harness.source(["lines", "orders"])
    found.setup()
    yield found
    found.teardown()


@pytest.fixture(autouse=True)
def _few_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that some rows are more than the driver is to hold."""
    for module in (held, frame_module):
        monkeypatch.setattr(module, "SMALL", 5)


def question(source: PostgresSource, orders: Rows) -> Query:
    """The lines of some orders."""
    relations = list(source.relations().values())
    select = "SELECT o.name, l.id, l.note FROM pg.orders o JOIN pg.lines l ON l.key = o.key"
    (term,) = query_of(parse_view(select, relations, "v"))
    return (bind_delta(term, 0, orders),)


ORDERS = Schema.of([("key", INT), ("name", TEXT)])


def orders() -> Rows:
    rows: dict[Row, int] = {(at, f"o{at}"): 1 for at in range(KEYS)}
    return Rows(ORDERS, rows | {(None, "none"): 1, (3, "another"): -1})


def test_workers_find_what_one_connection_finds_in_the_snapshot_of_the_question(
    spark: SparkSession,
    harness: PostgresHarness,
    source: PostgresSource,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer, spread = harness.writer(), spreading.spread_out

    def later(*told: Any) -> Rows:
        """Workers begin when the question's transaction has its snapshot; rows change then."""
        writer.execute("UPDATE lines SET note = 'later'")
        writer.execute("DELETE FROM lines WHERE key = 5")
        return spread(*told)

    monkeypatch.setattr(wrapper, "spread_out", later)
    engine = Engine(lambda: spark, "spark")
    near, far = source.open_wrapper(), source.open_wrapper(engine.lift)
    try:
        (expected,) = near.ask([question(source, orders())]).results
        (found,) = far.ask([question(source, Frame.of_rows(spark, orders()))]).results
        assert found == expected
        assert len(expected) > KEYS
        (changed,) = near.ask([question(source, orders())]).results
        assert {row[2] for row in changed} == {"later"}
    finally:
        near.close()
        far.close()


def test_a_snapshot_that_is_gone_when_workers_come_has_the_question_asked_again(
    spark: SparkSession, source: PostgresSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(access: Any, tables: Any, snapshot: str, *rest: Any) -> Rows:
        return spread(access, tables, "00000003-00000002-1", *rest)

    spread = spreading.spread_out
    monkeypatch.setattr(wrapper, "spread_out", gone)
    far = source.open_wrapper(Engine(lambda: spark, "spark").lift)
    try:
        with pytest.raises(LostConnectionError, match="snapshot"):
            far.ask([question(source, Frame.of_rows(spark, orders()))])
    finally:
        far.close()


def test_how_a_worker_connects_is_not_in_what_spark_shows_of_a_plan(
    spark: SparkSession, source: PostgresSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan has the functions that workers run, and Spark may log it."""
    seen: list[bytes] = []

    def dumps(serializer: object, of: object) -> bytes:
        seen.append(cloudpickle.dumps(of))  # type: ignore[no-untyped-call]
        return seen[-1]

    monkeypatch.setattr(serializers.CloudPickleSerializer, "dumps", dumps)
    far = source.open_wrapper(Engine(lambda: spark, "spark").lift)
    try:
        assert far.ask([question(source, Frame.of_rows(spark, orders()))]).results[0]
    finally:
        far.close()
    assert any(b"_reading" in each for each in seen)
    assert not any(b"dsn" in each for each in seen)
