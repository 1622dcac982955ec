"""Loads whole tables of PostgreSQL from one exported snapshot, in parts, as Arrow batches.

One connection holds the snapshot open; every read joins it over a connection of its own.
Rows come by COPY as CSV, which Arrow reads. The position lines up with the log: it says from
where to read and which transactions the snapshot had seen already.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import psycopg
import pyarrow
import pyarrow.compute
import pyarrow.csv
from psycopg import sql

from headwater.algebra.values import Type
from headwater.errors import LostConnectionError, SourceError
from headwater.frames.arrow import arrow_array, arrow_type
from headwater.sources.contract import Position
from headwater.sources.postgres.capture import Locate
from headwater.sources.postgres.connect import Access, Connection
from headwater.sources.postgres.locks import lock_statement, still_named
from headwater.sources.postgres.pgoutput import parse_lsn
from headwater.sources.postgres.planned import check_planned
from headwater.sources.postgres.snapshot import XidSnapshot
from headwater.sources.postgres.types import Table, TableColumn, UnreadableError, read_value

_BATCH_BYTES = 4 << 20
_NULL = "\\N"
_DOING = "load"
_COLUMNS = """
SELECT count(*) FROM unnest(%s::text[], %s::oid[], %s::int4[]) AS w(name, type, modifier)
JOIN pg_catalog.pg_attribute a ON a.attname = w.name AND a.atttypid = w.type
  AND a.atttypmod = w.modifier AND a.attgenerated = '' AND NOT a.attisdropped
WHERE a.attrelid = %s
"""
EXPORT = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
Covers = Callable[[Position, XidSnapshot, int], bool]
"""Whether a log that was read up to a position holds a snapshot, taken before a place in it."""


class PostgresLoad:
    """A snapshot that several readers share until it is closed."""

    def __init__(
        self,
        access: Access,
        connection: Connection,
        tables: Mapping[str, Table],
        readers: int,
        locate: Locate,
        covers: Covers,
    ) -> None:
        self._access = access
        self._holder = connection
        self._tables = tables
        self._readers = max(1, readers)
        with access.errors(_DOING):
            connection.execute(EXPORT)
            row = connection.execute(
                "SELECT pg_export_snapshot(), pg_current_snapshot()::text"
            ).fetchone()
            assert row is not None
            self._exported, seen = row
            # Asked after the snapshot was taken: what it holds was committed before here.
            (until,) = connection.execute(
                "SELECT pg_current_wal_insert_lsn()::text"
            ).fetchone() or ("0/0",)
            self._blocks = {table.oid: self._count_blocks(table) for table in tables.values()}
        self._until = parse_lsn(until)
        self._seen = XidSnapshot.parse(seen)
        self._position = locate(self._seen, self._until)
        self._covers = covers

    @property
    def position(self) -> Position:
        return self._position

    @property
    def snapshot(self) -> XidSnapshot:
        return self._seen

    def within(self, position: Position | None) -> bool:
        if position is None:
            return False  # a question leaves a mark, and then there is a position
        return self._covers(position, self._seen, self._until)

    def parts(self, relation: str) -> int:
        return max(1, min(self._readers, self._blocks[self._table(relation).oid]))

    def read(self, relation: str, part: int) -> Iterator[pyarrow.RecordBatch]:
        return self.remote(relation, part).read()

    def remote(self, relation: str, part: int) -> PostgresPart:
        table = self._table(relation)
        return PostgresPart(
            self._access,
            replace(table),  # without what it has computed, which cannot be sent
            self._exported,
            _copy_statement(table, part, self.parts(relation), self._blocks[table.oid]),
        )

    def close(self) -> None:
        self._holder.close()

    def _table(self, relation: str) -> Table:
        name = relation.removeprefix(f"{self._access.source}.")
        if name not in self._tables:
            raise SourceError(
                f"Source {self._access.source}: {relation} is not part of this load.",
                "Its relations are " + ", ".join(self._tables) + ".",
            )
        return self._tables[name]

    def _count_blocks(self, table: Table) -> int:
        row = self._holder.execute(
            "SELECT max(pg_relation_size(oid::regclass)) / current_setting('block_size')::int"
            " FROM unnest(%s::oid[]) AS t(oid)",
            [[part.oid for part in table.stored]],
        ).fetchone()
        return int(row[0] or 0) if row else 0


@dataclass(frozen=True)
class PostgresPart:
    """One part of a table in an exported snapshot; whoever holds it may read it, and again."""

    access: Access
    table: Table
    snapshot: str
    statement: sql.Composed

    def read(self) -> Iterator[pyarrow.RecordBatch]:
        connection = self.access.connect()
        try:
            with self.access.errors(f"{_DOING} {self.table.label}"):
                connection.execute(b"SET statement_timeout = 0")
                connection.execute(EXPORT)
                connection.execute(lock_statement([self.table]).encode())
                join_snapshot(self.access, connection, self.snapshot)
                self._check_as_it_was()
                yield from self._copied(connection)
                self._check_as_it_was()
        finally:
            connection.close()

    def _check_as_it_was(self) -> None:
        """See, while the table is locked, that nothing but its rows is read.

        Over another connection: the one that reads has a snapshot from before its lock.
        """
        columns = self.table.wanted
        parts = [[c.name for c in columns], [c.oid for c in columns], [c.modifier for c in columns]]
        with self.access.connect() as connection, self.access.errors("read the catalog"):
            check_planned(self.access, connection, [self.table])
            named = connection.execute(still_named([self.table]).encode()).fetchone()
            found = connection.execute(_COLUMNS, [*parts, self.table.oid]).fetchone()
        if named != (True,) or found != (len(columns),):
            raise LostConnectionError(
                f"Source {self.access.source}: something else is called {self.table.label} now, or "
                "its columns were altered; it is loaded anew."
            )

    def _copied(self, connection: Connection) -> Iterator[pyarrow.RecordBatch]:
        with connection.cursor() as cursor, cursor.copy(self.statement) as copy:
            lines: list[bytes] = []
            size = 0
            for line in copy:
                lines.append(bytes(line))
                size += len(line)
                if size >= _BATCH_BYTES:
                    yield parse_csv(self.table, b"".join(lines))
                    lines, size = [], 0
            if lines:
                yield parse_csv(self.table, b"".join(lines))


def join_snapshot(access: Access, connection: Connection, snapshot: str) -> None:
    """See in this transaction what the one that has exported the snapshot sees."""
    try:
        connection.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'".encode())
    except (psycopg.errors.InvalidParameterValue, psycopg.errors.UndefinedObject):
        raise LostConnectionError(
            f"Source {access.source}: the snapshot that is read is gone, as after a restart of the "
            "server; it is read anew."
        ) from None


def _copy_statement(table: Table, part: int, parts: int, blocks: int) -> sql.Composed:
    """One range of blocks; the last is open, since the table may have grown."""
    conditions = []
    if part > 0:
        conditions.append(f"ctid >= '({blocks * part // parts},0)'::tid")
    if part < parts - 1:
        conditions.append(f"ctid < '({blocks * (part + 1) // parts},0)'::tid")
    where = " WHERE " + " AND ".join(conditions) if conditions else ""
    return sql.SQL("COPY (SELECT {} FROM {}{}) TO STDOUT (FORMAT csv, NULL '\\N')").format(
        sql.SQL(", ").join(map(_copied_column, table.wanted)),
        table.from_clause,
        sql.SQL(where),  # made of numbers only
    )


def _copied_column(column: TableColumn) -> sql.Composable:
    name = sql.Identifier(column.name)
    match column.type.name:
        case "float":
            return sql.SQL("{}::float8 + 0.0::float8").format(name)  # 0.0 for -0.0
        case "text" if column.form_name == "padded":
            return sql.SQL("{}::text").format(name)  # unpadded
        case "bytes":
            return sql.SQL("encode({}, 'hex')").format(name)
        case "timestamp_tz":
            return sql.SQL("{} AT TIME ZONE 'UTC'").format(name)
        case _:
            return name


def parse_csv(table: Table, data: bytes) -> pyarrow.RecordBatch:
    """Lines of COPY as one batch; SourceError names a value that cannot be represented."""
    names = [f"f{at}" for at in range(len(table.wanted))]
    wire = {name: _wire_type(column.type) for name, column in zip(names, table.wanted, strict=True)}
    try:
        read = pyarrow.csv.read_csv(
            pyarrow.BufferReader(data),
            pyarrow.csv.ReadOptions(
                column_names=names, block_size=len(data) + 1, use_threads=False
            ),
            pyarrow.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            pyarrow.csv.ConvertOptions(
                column_types=wire,
                null_values=[_NULL],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                true_values=["t"],
                false_values=["f"],
            ),
        )
        columns = [
            _finished(table, column, read.column(at).combine_chunks())
            for at, column in enumerate(table.wanted)
        ]
    except pyarrow.ArrowInvalid as error:
        raise _refused(table, str(error)) from None
    schema = pyarrow.schema([(c.name, arrow_type(c.type)) for c in table.wanted])
    return pyarrow.RecordBatch.from_arrays(columns, schema=schema)


def _wire_type(kind: Type) -> pyarrow.DataType:
    match kind.name:
        case "bytes":
            return pyarrow.string()
        case "timestamp_tz":
            return pyarrow.timestamp("us")
        case "array" | "struct":
            return pyarrow.string()
        case _:
            return arrow_type(kind)


def _finished(table: Table, column: TableColumn, values: pyarrow.Array) -> pyarrow.Array:
    match column.type.name:
        case "text" if not column.form.is_plain:
            read = column.form.read
            texts = [None if v is None else read(v.encode()) for v in values.to_pylist()]
            return pyarrow.array(texts, pyarrow.string())
        case "bytes":
            found = [None if v is None else bytes.fromhex(v) for v in values.to_pylist()]
            return pyarrow.array(found, pyarrow.binary())
        case "array" | "struct":
            printed = (None if v is None else v.encode() for v in values.to_pylist())
            return arrow_array([read_value(table, column, v) for v in printed], column.type)
        case "timestamp_tz":
            return pyarrow.compute.assume_timezone(values, "UTC")
        case _:
            return values


def _refused(table: Table, text: str) -> SourceError:
    match = re.search(r"CSV column #(\d+).*?'([^']*)'", text)
    if match is None:
        return SourceError(f"Table {table.label}: its rows cannot be read: {text}.")
    return UnreadableError(table, table.wanted[int(match[1])].name, match[2])
