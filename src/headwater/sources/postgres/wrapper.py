"""The wrapper of PostgreSQL: answers questions, each in one snapshot that it names.

A question is one repeatable-read transaction: locks that keep its tables what they are, its
snapshot, then the reads, and at the end a marker in the log. Everything that the snapshot holds
was committed before the marker, so it has been read once the marker comes by.

What planning evaluates, and the log if the marker is a row in it, are looked at when the locks are
held, and what planning evaluates once more behind the answer: see `planned`.
"""

from __future__ import annotations

import select
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import psycopg
from psycopg import pq, sql

from headwater.algebra.rows import Rows
from headwater.algebra.terms import Query
from headwater.errors import LostConnectionError, SourceError
from headwater.sources.contract import Lift, Reply
from headwater.sources.fetch import Far, Fetch, answer_query
from headwater.sources.postgres.capture import PostgresCapture
from headwater.sources.postgres.connect import Access, Connection
from headwater.sources.postgres.locks import MarkedLog, lock_statement, still_named
from headwater.sources.postgres.planned import PLANNED, check_planned, planned_tables
from headwater.sources.postgres.reading import DOING, Reading
from headwater.sources.postgres.snapshot import XidSnapshot
from headwater.sources.postgres.spreading import spread_out
from headwater.sources.postgres.statements import pushes
from headwater.sources.postgres.types import Table

_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ {}; {}EXECUTE headwater_begin"
_END = b"; COMMIT; EXECUTE headwater_planned"
"""Behind the commit: before it, only what the question's snapshot knows could be seen."""
_PREPARE = """
PREPARE headwater_begin AS SELECT pg_catalog.pg_current_snapshot()::text || ' ' || coalesce((
  SELECT pg_catalog.sum((xmin::text::int8 + attrelid::int8) * attnum)
  FROM pg_catalog.pg_attribute WHERE attrelid = ANY({tables}) AND attnum > 0), 0)
  || ' ' || {seal} || ' ' || {planned} || ' ' || (
  SELECT count(*) FROM unnest({tables}, {schemas}::text[], {names}::text[]) AS w(oid, schema, name)
  JOIN pg_catalog.pg_class c ON c.oid = w.oid AND c.relname = w.name AND c.relkind IN ('r', 'p')
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace AND n.nspname = w.schema)
"""
"""A question's snapshot, and numbers that change whenever a column of the tables does, or what is
evaluated to plan a question about them; the last is how many have the names that they had."""
_PREPARE_PLANNED = "PREPARE headwater_planned AS SELECT {planned}"


@dataclass(frozen=True)
class Baseline:
    """How tables, columns, what planning evaluates, and the log were when all was in order."""

    begin: str
    planned: str


def baseline(
    access: Access, connection: Connection, tables: Iterable[Table], log: MarkedLog | None = None
) -> Baseline:
    """Let every question see whether tables and log are as they are now."""
    tables = list(tables)
    oids = ",".join(str(table.oid) for table in tables)
    parts = {
        "tables": sql.SQL(f"'{{{oids}}}'::oid[]"),
        "schemas": sql.Literal([table.schema for table in tables]),
        "names": sql.Literal([table.name for table in tables]),
        "seal": sql.SQL("'-'" if log is None else log.seal),
    }
    with access.errors(DOING):
        parts["planned"] = sql.SQL(PLANNED).format(tables=planned_tables(tables))
        connection.execute(sql.SQL(_PREPARE).format(**parts))
        connection.execute(sql.SQL(_PREPARE_PLANNED).format(planned=parts["planned"]))
        row = connection.execute(b"EXECUTE headwater_begin").fetchone()
    assert row is not None
    found = str(row[0]).partition(" ")[2]
    *_, planned, present = found.split(" ")
    if present != str(len(tables)):
        raise _altered(access)
    check_planned(access, connection, tables)
    if log is not None:
        log.check(connection)
    return Baseline(found, planned)


class PostgresWrapper:
    """A connection that answers questions, as long as the tables' columns are as they were."""

    def __init__(
        self,
        access: Access,
        connection: Connection,
        tables: Mapping[str, Table],
        capture: PostgresCapture,
        baseline: Baseline,
        lift: Lift,
    ) -> None:
        self._lift = lift
        self._slot = capture.names.slot
        self._mark = capture.marks()
        self._log = capture.marked_log()
        self._access = access
        self._connection = connection
        self._tables = tables
        refused = {n: capture.tables.unusable[n] for n in capture.tables.refused}
        self._reading = Reading(access, connection, tables, refused)
        self._baseline = baseline
        self._statements: dict[frozenset[str], tuple[bytes, bytes]] = {}

    def ask(self, queries: Sequence[Query], marker: str | None = None) -> Reply:
        try:
            return self._ask(queries, marker or new_marker(self._slot))
        except SourceError:
            self._roll_back()
            raise

    def close(self) -> None:
        self._connection.close()

    def _ask(self, queries: Sequence[Query], marker: str) -> Reply:
        begin, still = self._around(self._asked(queries))
        seen, _, found = self._simple(begin)[-1].partition(" ")
        if found != self._baseline.begin:
            self._look_again()
        snapshot = XidSnapshot.parse(seen)
        results = tuple(
            answer_query(query, self._reading.run, pushes, self._lift, spread=self._spread)
            for query in queries
        )
        named, *_, planned = self._simple(still + self._mark(marker) + _END)
        if named != "t":
            raise _altered(self._access)
        if planned != self._baseline.planned:
            self._look_again()
        return Reply(results, snapshot, marker)

    def _around(self, names: frozenset[str]) -> tuple[bytes, bytes]:
        """What is run before a question about some tables, and what is asked behind it."""
        if names not in self._statements:
            tables = [self._tables[name] for name in sorted(names)]
            access, locks = "READ ONLY", lock_statement(tables)
            if self._log is not None:
                access, locks = "READ WRITE", locks + self._log.lock
            begin = _BEGIN.format(access, locks)
            self._statements[names] = begin.encode(), still_named(tables).encode()
        return self._statements[names]

    def _look_again(self) -> NoReturn:
        """Say what has come; if nothing of others has, the question is asked anew."""
        check_planned(self._access, self._connection, list(self._tables.values()))
        if self._log is not None:
            self._log.check(self._connection)
        raise _altered(self._access)

    def _asked(self, queries: Iterable[Query]) -> frozenset[str]:
        """The tables that questions are about, as far as they are there."""
        names = {
            term.occurrence(at).relation.short_name
            for query in queries
            for term in query
            for at in term.base
        }
        return frozenset(names & self._tables.keys())

    def _spread(self, fetch: Fetch, far: Far) -> Rows:
        """Execute one statement for keys that Spark holds, over connections of its workers, which
        all see this question's snapshot; it is there as long as this transaction is."""
        with self._access.errors(DOING):
            row = self._connection.execute(b"SELECT pg_catalog.pg_export_snapshot()").fetchone()
        assert row is not None
        tables = {item.relation: self._reading.table(item.relation) for item in fetch.items}
        return spread_out(self._access, tables, str(row[0]), fetch, far)

    def _simple(self, statements: bytes) -> list[str]:
        """Run statements without parameters; the first value of each that returns one."""
        pgconn, found = self._connection.pgconn, []
        with self._access.errors(DOING):
            pgconn.send_query(statements)
            results = []
            while (result := _next_result(pgconn)) is not None:
                results.append(result)
        for result in results:
            self._reading.expect(result)
            if result.status == pq.ExecStatus.TUPLES_OK:
                found.append((result.get_value(0, 0) or b"").decode())
        return found

    def _roll_back(self) -> None:
        try:
            self._connection.pgconn.exec_(b"ROLLBACK")
        except psycopg.Error:
            return  # lost, and with it the transaction


def new_marker(slot: str) -> str:
    """A marker that no question had before."""
    return f"{slot}/{uuid.uuid4().hex}"


def _next_result(pgconn: pq.abc.PGconn) -> pq.abc.PGresult | None:
    """What a statement gave; while the server works on it, the other threads of this process run.

    The driver would wait for it, and keep them from running meanwhile.
    """
    poll = select.poll()
    poll.register(pgconn.socket, select.POLLIN)
    while pgconn.is_busy():
        poll.poll()
        pgconn.consume_input()
    return pgconn.get_result()


def _altered(access: Access) -> LostConnectionError:
    return LostConnectionError(
        f"Source {access.source}: a table was altered; the question is asked anew."
    )
