"""What a PostgreSQL database answers: its tables, questions, and loads, each from one snapshot."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from psycopg import sql

from headwater.algebra.schema import Relation
from headwater.errors import SourceError
from headwater.sources.contract import (
    Constant,
    Lift,
    Load,
    Reply,
    UsedColumns,
    Wrapper,
    as_it_is,
)
from headwater.sources.discovered import DiscoveredTable, RelationSize
from headwater.sources.postgres.capture import PostgresCapture
from headwater.sources.postgres.catalog import served_columns
from headwater.sources.postgres.constants import printed
from headwater.sources.postgres.discovery import discover
from headwater.sources.postgres.load import PostgresLoad
from headwater.sources.postgres.sizes import sizes
from headwater.sources.postgres.snapshot import XidSnapshot
from headwater.sources.postgres.tables import Tables
from headwater.sources.postgres.types import Table
from headwater.sources.postgres.wrapper import PostgresWrapper, baseline, new_marker

_IDENTITY = b"""
SELECT system_identifier, pg_catalog.current_database(), pg_catalog.to_char(
  pg_catalog.timezone('UTC', pg_catalog.pg_postmaster_start_time()), 'YYYY-MM-DD HH24:MI:SS.US')
FROM pg_catalog.pg_control_system()
"""
"""A copy of a server has the server's number, and was started at another time."""


def _indexable(table: Table, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns that are compared as they are; no index knows the texts of others."""
    return tuple(name for name in columns if table.by_name[name].form.parameter)


@dataclass(frozen=True)
class PostgresAnswers:
    """Answers about the tables that `capture` captures."""

    tables: Tables
    capture: PostgresCapture

    def relations(self) -> Mapping[str, Relation]:
        source = self.tables.access.source
        return {name: table.relation(source) for name, table in self.tables.describe().items()}

    def missing_indexes(self, probes: Mapping[str, Collection[tuple[str, ...]]]) -> Sequence[str]:
        with self.tables.looking() as (connection, tables):
            served = served_columns(self.tables.access, connection, tables)
        statement = sql.SQL("CREATE INDEX ON {} ({})")
        return [
            statement.format(
                tables[name].identifier, sql.SQL(", ").join(map(sql.Identifier, probe))
            ).as_string(None)
            for name, wanted in probes.items()
            for probe in dict.fromkeys(_indexable(tables[name], columns) for columns in wanted)
            if probe and served[name].isdisjoint(probe)
        ]

    def sizes(self, columns: UsedColumns) -> Mapping[str, RelationSize]:
        with self.tables.looking() as (connection, tables):
            return sizes(self.tables.access, connection, tables, columns)

    def cautions(self) -> Sequence[str]:
        told: list[str] = []
        if self.tables.access.is_unprotected:
            told.append(
                f"Source {self.tables.access.source}: its connection string has no sslmode, so "
                "that the connection may be neither encrypted nor checked; use sslmode=verify-full."
            )
        return told

    def discover(self) -> Sequence[DiscoveredTable]:
        with self.tables.access.connect() as connection:
            return list(discover(self.tables, connection))

    def printed(self, constants: Collection[Constant]) -> Mapping[Constant, str | None]:
        with self.tables.looking() as (connection, tables):
            return printed(self.tables.access, connection, tables, constants)

    def problems(self) -> Sequence[SourceError]:
        return self.tables.problems()

    def unusable(self) -> Mapping[str, SourceError]:
        return self.tables.unusable

    def open_wrapper(self, lift: Lift = as_it_is) -> Wrapper:
        with self.tables.keeping() as (connection, tables):
            log = self.capture.marked_log()
            seen = baseline(self.tables.access, connection, tables.values(), log)
            # Read again: what was altered before the columns were watched is seen here.
            tables = self.tables.unaltered(self.tables.read(connection))
            return PostgresWrapper(self.tables.access, connection, tables, self.capture, seen, lift)

    def open_load(self, relations: Sequence[str], readers: int) -> Load:
        with self.tables.keeping() as (connection, tables):
            source = f"{self.tables.access.source}."
            wanted = {name.removeprefix(source) for name in relations}
            self.tables.check(wanted)
            chosen = {
                name: self.tables.as_described(tables[name]) for name in wanted if name in tables
            }
            locate = self.capture.locate(connection, chosen)
            return PostgresLoad(
                self.tables.access, connection, chosen, readers, locate, self.capture.covers
            )

    def identity(self) -> str:
        access = self.tables.access
        with access.connect() as connection, access.errors("identify the server"):
            row = connection.execute(_IDENTITY).fetchone()
        assert row is not None
        return (
            f"database {row[1]} of server {row[0]}, started at {row[2]}, "
            f"with changes by {self.capture.way}"
        )

    def expected_marker(self) -> str | None:
        marker = new_marker(self.capture.names.slot)
        self.capture.marks()(marker)  # tells the monitor, before it can come by
        return marker

    def replied_elsewhere(self, snapshot: str, marker: str | None) -> Reply:
        return Reply((), XidSnapshot.parse(snapshot), marker)
