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
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, NoReturn

import psycopg
from psycopg import pq, sql
from psycopg.types.string import TextLoader

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.terms import Query
from headwater.algebra.values import Row, Value
from headwater.errors import LostConnectionError, SourceError
from headwater.sources.contract import Lift, Reply
from headwater.sources.fetch import Fetch, answer_query
from headwater.sources.postgres.capture import PostgresCapture
from headwater.sources.postgres.columnar import MANY, copy_out, is_readable, rows_of_csv
from headwater.sources.postgres.connect import Access, Connection
from headwater.sources.postgres.locks import MarkedLog, lock_statement, still_named
from headwater.sources.postgres.planned import PLANNED, check_planned, planned_tables
from headwater.sources.postgres.snapshot import XidSnapshot
from headwater.sources.postgres.statements import build_statement, pushes
from headwater.sources.postgres.types import Table, TableColumn, read_value

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
_PLANNING = "SET random_page_cost = 1.1"
"""Questions look rows up by key. With the default, meant for disks that seek, the server would
read all of a large table for some thousand keys, and a question would cost more as it grows."""
_DOING = "answer a question"


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
    with access.errors(_DOING):
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
        with access.errors(_DOING):
            connection.execute(_PLANNING)
        self._tables = tables
        self._refused = {n: capture.tables.unusable[n] for n in capture.tables.refused}
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
        results = tuple(answer_query(query, self.run, pushes, self._lift) for query in queries)
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

    def run(self, fetch: Fetch) -> Rows:
        """Execute one statement inside the question's transaction."""
        if any(not keys.values for keys in fetch.keys):
            return Rows.empty(fetch.schema)
        places = {item.alias: self._table(item.relation) for item in fetch.items}
        self._check_columns(fetch, places)
        statement, parameters = build_statement(fetch, places)
        columns = [
            (places[ref.alias], places[ref.alias].by_name[ref.column]) for ref in fetch.columns
        ]
        with self._access.errors(_DOING):
            if _is_large(fetch) and is_readable([column for _, column in columns]):
                found = self._copied(statement, parameters, columns, fetch.schema)
                if found is not None:
                    return found
            cursor = self._connection.cursor()
            for column in (column for _, column in columns if column.form.is_loaded_as_text):
                cursor.adapters.register_loader(column.base, TextLoader)
            cursor.execute(statement, parameters)
            if not columns:
                return Rows(fetch.schema, {(): int((cursor.fetchone() or (0,))[0])})
            return Rows(fetch.schema, Counter(_canonical(cursor, columns)))

    def _copied(
        self,
        statement: sql.Composed,
        parameters: Sequence[object],
        columns: Sequence[tuple[Table, TableColumn]],
        schema: Schema,
    ) -> Rows | None:
        """What a SELECT finds, by COPY; it takes no parameters, so they are written out, quoted."""
        cursor = psycopg.ClientCursor(self._connection)
        copy = sql.SQL("COPY ({}) TO STDOUT (FORMAT csv)").format(statement)
        pgconn = self._connection.pgconn
        self._expect(pgconn.exec_(cursor.mogrify(copy, parameters).encode()))
        text = copy_out(pgconn)
        while (result := pgconn.get_result()) is not None:
            self._expect(result)
        return rows_of_csv(text, [column for _, column in columns], schema)

    def _check_columns(self, fetch: Fetch, places: Mapping[str, Table]) -> None:
        """A column that was altered since the relation was described has other values."""
        asked = [*fetch.columns, *(ref for a, _, b in fetch.joins for ref in (a, b))]
        asked += [ref for ref, _, _ in fetch.filters]
        asked += [ref for keys in fetch.keys for ref in keys.columns]
        for ref in asked:
            table = places[ref.alias]
            if ref.column not in table.relational_schema.positions:
                raise SourceError(
                    f"Source {self._access.source}: the column {ref.column} of {table.label} is "
                    "gone or was altered.",
                    "Where the table lacks it now, change the views that name it.",
                )

    def _table(self, relation: str) -> Table:
        if relation not in self._tables:
            if relation in self._refused:
                raise self._refused[relation]
            raise SourceError(
                f"Source {self._access.source}: {relation} is not one of its relations, or its "
                "table is gone.",
                "They are " + ", ".join(self._tables) + ".",
            )
        return self._tables[relation]

    def _simple(self, statements: bytes) -> list[str]:
        """Run statements without parameters; the first value of each that returns one."""
        pgconn, found = self._connection.pgconn, []
        with self._access.errors(_DOING):
            pgconn.send_query(statements)
            results = []
            while (result := _next_result(pgconn)) is not None:
                results.append(result)
        for result in results:
            self._expect(result)
            if result.status == pq.ExecStatus.TUPLES_OK:
                found.append((result.get_value(0, 0) or b"").decode())
        return found

    def _expect(self, result: pq.abc.PGresult) -> None:
        """SourceError if the server refused."""
        if result.status == pq.ExecStatus.FATAL_ERROR:
            if self._connection.pgconn.status != pq.ConnStatus.OK:
                raise self._access.failure(None, "the server closed it", _DOING)
            raise self._access.result_failure(result, _DOING)

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


def _is_large(fetch: Fetch) -> bool:
    """Whether so many rows may come that they are better kept in columns."""
    return all(len(keys.values) >= MANY for keys in fetch.keys)


def _canonical(
    cursor: psycopg.Cursor[Any], columns: Sequence[tuple[Table, TableColumn]]
) -> Iterable[Row]:
    """The rows that were found; values are read by the driver, where it reads them as we do.

    What a type is loaded as holds for all of its columns, also for those that are no texts here.
    """
    texts = {column.base for _, column in columns if column.form.is_loaded_as_text}
    given = [column.base in texts and not column.form.is_loaded_as_text for _, column in columns]
    found = [
        partial(_read, column) if is_text else column.form.repair
        for (_, column), is_text in zip(columns, given, strict=True)
    ]
    repairs = [(at, repair) for at, repair in enumerate(found) if repair is not None]
    decimals = [
        at for at, (_, c) in enumerate(columns) if c.type.name == "decimal" and not given[at]
    ]
    try:
        rows: list[Row] = cursor.fetchall()
        for at in decimals:
            if not all(map(Decimal.is_finite, (row[at] for row in rows if row[at] is not None))):  # type: ignore[arg-type]
                raise ValueError("not a number")
        if not repairs:
            return rows
        repaired = list(zip(*rows, strict=True)) or [()] * len(columns)
        for at, repair in repairs:
            repaired[at] = tuple(None if v is None else repair(v) for v in repaired[at])
        return zip(*repaired, strict=True)
    except (psycopg.DataError, ValueError):
        _find_unreadable(cursor, columns)
        raise


def _read(column: TableColumn, text: str) -> Value:
    return column.form.read(text.encode())


def _find_unreadable(
    cursor: psycopg.Cursor[Any], columns: Sequence[tuple[Table, TableColumn]]
) -> None:
    """Raise a SourceError that names the first value which cannot be represented."""
    result = cursor.pgresult
    assert result is not None
    for at in range(result.ntuples):
        for number, (table, column) in enumerate(columns):
            read_value(table, column, result.get_value(at, number))
