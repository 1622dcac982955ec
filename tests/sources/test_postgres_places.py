"""What a connection string may lead to beside a primary: a pooler, a standby. Each is told."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from headwater.embedded.postgres import PostgresServer
from headwater.errors import SourceError
from headwater.sources.postgres.connect import Access
from headwater.sources.postgres.source import PostgresSource
from tests.sources.pgbouncer import pooled
from tests.sources.postgres_harness import PostgresHarness
from tests.sources.postgres_tools import LINES, answered, read_log, whole


@pytest.fixture
def harness() -> Iterator[PostgresHarness]:
    harness = PostgresHarness(changes="triggers")
    harness.create_table("a", LINES, ["id"])
    yield harness
    harness.close()


def test_a_pool_that_lends_its_sessions_by_the_transaction_is_refused(
    harness: PostgresHarness,
) -> None:
    with pooled(harness.dsn, "transaction") as dsn:
        source = harness.source(["a"], dsn=dsn)
        for use in (source.relations, source.setup, source.discover):
            with pytest.raises(SourceError, match=r"connection pooler .* server itself") as told:
                use()
            assert "pool_mode = session" in str(told.value)


def test_a_pool_that_lends_each_statement_is_refused_in_its_own_words(
    harness: PostgresHarness,
) -> None:
    with pooled(harness.dsn, "statement") as dsn, pytest.raises(SourceError, match="pool"):
        harness.source(["a"], dsn=dsn).relations()


def test_over_a_pool_of_whole_sessions_changes_come_by_triggers_only(
    harness: PostgresHarness,
) -> None:
    with pooled(harness.dsn, "session") as dsn:
        source = harness.source(["a"], dsn=dsn)
        source.setup()
        monitor = source.open_monitor(None)
        harness.writer().execute("INSERT INTO a VALUES (1, 'x')")
        read_log(monitor, 1)
        monitor.close()
        assert answered(source, whole(source.relations(), "a")) == [{(1, "x"): 1}]
        by_log = harness.source(["a"], dsn=dsn, changes="replication")
        (error,) = by_log.lacking()
        assert "connection pooler" in str(error)
        assert 'changes = "triggers"' in str(error)


@pytest.fixture
def standby() -> Iterator[str]:
    """A standby that was copied from a running server and follows it."""
    server = PostgresServer()
    data, socket = server.folder / "standby", server.folder / "there"
    server.execute("CREATE TABLE a (id int PRIMARY KEY)")
    server._run(
        "pg_basebackup",
        "-D",
        str(data),
        "-h",
        str(server.folder),
        "-U",
        "postgres",
        "-R",
        "-c",
        "fast",
    )
    server._shell('mkdir "$1"', str(socket))
    control = ("pg_ctl", "-D", str(data), "-l", str(server.folder / "its log"))
    server._run(*control, "-o", f"-k {socket}", "-w", "start")
    yield make_conninfo(server.dsn(), host=str(socket))
    server._run(*control, "-m", "immediate", "-w", "stop")
    server.stop()


def test_a_standby_is_refused_because_its_snapshots_do_not_say_what_they_hold(
    standby: str,
) -> None:
    for changes in ("replication", "triggers"):
        source = PostgresSource("pg", standby, ["a"], changes=changes)
        with pytest.raises(SourceError, match=r"leads to a standby.* Name the primary"):
            source.relations()
    with psycopg.connect(standby) as connection:
        told = connection.execute("SELECT pg_current_snapshot()::text").fetchone()
    assert told is not None
    assert told[0].endswith(":")  # a running transaction is never listed


def test_a_server_before_version_14_is_refused_by_name() -> None:
    with pytest.raises(SourceError, match=r"PostgreSQL 13 is too old.* 14 or newer"):
        Access("pg", "")._check_version(130_000)


OTHERS = {
    "pg_catalog.pg_class": "one of the server's own tables",
    "information_schema.sql_features": "one of the server's own tables",
    "a_pkey": "an index",
    "pair": "a composite type",
    "far": "a foreign table",
}


def test_what_is_no_table_of_users_is_refused_by_name(harness: PostgresHarness) -> None:
    writer = harness.writer()
    writer.execute("CREATE TYPE pair AS (a int, b int); CREATE FOREIGN DATA WRAPPER w")
    writer.execute(
        "CREATE SERVER s FOREIGN DATA WRAPPER w; CREATE FOREIGN TABLE far (id int) SERVER s"
    )
    for name, told in OTHERS.items():
        with pytest.raises(SourceError, match=f"is {told}"):
            harness.source([name]).relations()
