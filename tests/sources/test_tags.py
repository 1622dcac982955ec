"""Transactions that applications tag as parts of global ones, by every kind of source."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from headwater.algebra.schema import Schema
from headwater.algebra.values import INT
from headwater.protocol.transactions import Tag, Transaction
from headwater.sources.contract import Committed, Position, Source
from headwater.testing.harness import Harness, Writer, local
from tests.sources.kinds import HARNESSES, SPEAKING_SQL
from tests.sources.postgres_harness import PostgresHarness
from tests.sources.sqlite_harness import SqliteHarness

ACCOUNTS = Schema.of([("id", INT), ("amount", INT)])
WRONG = {
    "sqlite": "INSERT INTO _headwater_global (id, parts) VALUES ('transfer 17', 'two')",
    "mariadb": "INSERT INTO _headwater_global (id, parts) VALUES ('transfer 17', 'two')",
    "mariadb by lock": "INSERT INTO _headwater_global (id, parts) VALUES ('transfer 17', NULL)",
    "postgres": "SELECT pg_logical_emit_message(true, 'headwater.global', 'transfer 17')",
    "postgres by triggers": "SELECT {schema}.tag('transfer 17', 0)",
}


@pytest.fixture(scope="module", params=SPEAKING_SQL)
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    made = HARNESSES[request.param]()
    made.create_table("accounts", ACCOUNTS, ["id"])
    made.create_table("others", ACCOUNTS, ["id"])
    yield made
    made.close()


@pytest.fixture
def source(harness: Harness, writer: Writer) -> Iterator[Source]:
    made = harness.source(["accounts"])
    made.setup()
    yield made
    made.teardown()


@pytest.fixture
def writer(harness: Harness) -> Iterator[Writer]:
    made = harness.writer()
    made.execute("DELETE FROM accounts")
    yield made
    made.close()


def read(source: Source, count: int, after: Position | None = None) -> list[Transaction]:
    """So many transactions, and whatever else has come with them."""
    monitor = source.open_monitor(after)
    found: list[Transaction] = []
    try:
        while len(found) < count:
            logged = monitor.read(60)
            found += [item.transaction for item in logged if isinstance(item, Committed)]
    finally:
        monitor.close()
    return found


def insert(writer: Writer, number: int) -> None:
    writer.execute("INSERT INTO accounts (id, amount) VALUES (?, 10)", [number])


def test_a_tag_comes_with_its_transaction(source: Source, writer: Writer) -> None:
    with writer.transaction():
        writer.execute(source.tagging)
        insert(writer, 1)
    with writer.transaction():
        insert(writer, 2)
    first, second = read(source, 2)
    assert first.tags == (Tag("transfer 17", 2),)
    assert [row[0] for row in local(first)["accounts"]] == [1]
    assert second.tags == ()


def test_a_tag_may_be_the_last_thing_in_its_transaction(source: Source, writer: Writer) -> None:
    with writer.transaction():
        insert(writer, 1)
        writer.execute(source.tagging)
    (found,) = read(source, 1)
    assert found.tags == (Tag("transfer 17", 2),)
    assert len(local(found)["accounts"]) == 1


def test_a_part_that_changes_nothing_of_interest_is_reported(
    source: Source, writer: Writer
) -> None:
    """Else nobody would know that it has come."""
    with writer.transaction():
        writer.execute(source.tagging)
        writer.execute("DELETE FROM others")
    (found,) = read(source, 1)
    assert (found.tags, found.deltas) == ((Tag("transfer 17", 2),), {})


def test_a_tag_that_is_rolled_back_is_none(source: Source, writer: Writer) -> None:
    with writer.transaction():
        insert(writer, 1)
        with suppress(ZeroDivisionError), writer.savepoint():
            writer.execute(source.tagging)
            raise ZeroDivisionError
    (found,) = read(source, 1)
    assert found.tags == ()


def test_a_tag_that_cannot_be_read_stops_nobody_and_is_told(
    harness: Harness, source: Source, writer: Writer, request: pytest.FixtureRequest
) -> None:
    kind = request.node.callspec.params["harness"]
    schema = source.tagging.removeprefix("SELECT ").partition(".")[0]
    with writer.transaction():
        insert(writer, 1)
        writer.execute(WRONG[kind].format(schema=schema))
    (found,) = read(source, 1)
    assert len(local(found)["accounts"]) == 1
    (tag,) = found.tags
    assert tag.mistake


def test_what_setup_makes_for_tags_is_shown_made_once_and_removed(
    harness: Harness, writer: Writer
) -> None:
    made = harness.source(["accounts"])
    before = [without_values(statement) for statement in made.setup_statements()]
    made.setup()
    assert made.setup_statements() == []
    with writer.transaction():
        writer.execute(made.tagging)
        insert(writer, 1)
    made.teardown()
    assert [without_values(statement) for statement in made.setup_statements()] == before


def without_values(statement: str) -> str:
    """MariaDB is told where its log begins, which is another place each time."""
    return statement.partition(" VALUES ")[0]


def test_a_tag_outside_of_a_transaction_is_told_with_the_next() -> None:
    harness = PostgresHarness()
    harness.create_table("accounts", ACCOUNTS, ["id"])
    source, writer = harness.source(["accounts"]), harness.writer()
    source.setup()
    try:
        writer.execute(source.tagging.replace("true", "false"))
        insert(writer, 1)
        (found,) = read(source, 1)
        assert [tag.mistake for tag in found.tags] == [
            "it was written outside of a transaction, so nobody knows what it belongs to"
        ]
    finally:
        source.teardown()
        writer.close()
        harness.close()


def test_two_warehouses_that_follow_one_file_both_learn_of_a_tag() -> None:
    harness = SqliteHarness()
    harness.create_table("accounts", ACCOUNTS, ["id"])
    sources = [harness.source(["accounts"], owner=owner) for owner in ("0123abcd", "4567cdef")]
    writer = harness.writer()
    for source in sources:
        source.setup()
    with writer.transaction():
        writer.execute(sources[0].tagging)
        insert(writer, 1)
    for source in sources:
        (found,) = read(source, 1)
        assert found.tags == (Tag("transfer 17", 2),)
    sources[0].teardown()
    with writer.transaction():
        writer.execute(sources[1].tagging)  # the other still has its trigger
    sources[1].teardown()
    writer.close()
    harness.close()
