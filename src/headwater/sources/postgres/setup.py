"""What Headwater needs at a PostgreSQL server: a publication, whole old rows, and a slot.

The statements can be read, and run by someone else, before anything is changed. Running them
again does nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from psycopg import sql

from headwater.errors import SourceError
from headwater.sources.contract import Reader
from headwater.sources.postgres.connect import Access, Connection
from headwater.sources.postgres.pgoutput import lsn_text, parse_lsn
from headwater.sources.postgres.types import Table

# Not from pg_publication_tables, which waits for whoever has locked one of the tables.
_PUBLISHED = """
WITH wanted AS (SELECT oid, oid AS above FROM unnest(%s::oid[]) oid
                UNION SELECT oid, relid FROM unnest(%s::oid[]) oid, pg_partition_ancestors(oid))
SELECT p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate AND NOT p.pubviaroot,
       coalesce((SELECT array_agg(w.oid::int8) FROM wanted w JOIN pg_class c ON c.oid = w.above
                 WHERE p.puballtables {}
                 OR c.oid IN (SELECT prrelid FROM pg_publication_rel WHERE prpubid = p.oid)),
                '{{}}')
FROM pg_publication p WHERE p.pubname = %s
"""
_OF_SCHEMAS = """
OR c.relnamespace IN (SELECT pnnspid FROM pg_publication_namespace WHERE pnpubid = p.oid)
"""
_NARROWED = """
SELECT r.prrelid::int8 FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
WHERE p.pubname = %s AND (r.prqual IS NOT NULL OR r.prattrs IS NOT NULL)
"""
_SLOT = """
SELECT plugin, database = current_database(), wal_status, confirmed_flush_lsn::text
FROM pg_replication_slots WHERE slot_name = %s
"""
_HOLDER = """
SELECT s.active_pid, a.application_name FROM pg_replication_slots s
JOIN pg_stat_activity a ON a.pid = s.active_pid WHERE s.slot_name = %s
"""
_PATIENCE_S = 5.0


@dataclass(frozen=True)
class Installation:
    """The names of what is set up at one server."""

    access: Access
    publication: str
    slot: str

    def missing(self, connection: Connection, tables: Iterable[Table]) -> list[str]:
        """The statements that are still to be run."""
        self._check_wal_level(connection)
        tables = list(tables)
        statements = self._publication_statements(connection, tables)
        for table in tables:
            if table.identity != "f":
                statements.append(
                    sql.SQL("ALTER TABLE ONLY {} REPLICA IDENTITY FULL").format(table.identifier)
                )
        texts = [statement.as_string(connection) for statement in statements]
        if self._slot(connection) is None:
            texts.append(f"SELECT pg_create_logical_replication_slot('{self.slot}', 'pgoutput')")
        return texts

    def install(self, connection: Connection, tables: Iterable[Table]) -> None:
        statements = self.missing(connection, tables)
        try:
            for statement in statements:
                with self.access.errors(f"run {statement}"):
                    connection.execute(statement.encode())
        except SourceError as error:
            if "no privilege" not in error.message:
                raise
            raise SourceError(
                error.message, "As a role that may, run: " + "; ".join(statements) + ";"
            ) from None

    def remove(self, connection: Connection) -> None:
        """Drop the slot and the publication, if they are there."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                with self.access.errors(f"drop the slot {self.slot}"):
                    connection.execute(
                        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
                        " WHERE slot_name = %s AND database = current_database()",
                        [self.slot],
                    )
                break
            except SourceError as error:
                if "is active" not in error.message or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        with self.access.errors(f"drop the publication {self.publication}"):
            connection.execute(
                sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(self.publication))
            )

    def check(self, connection: Connection, tables: Iterable[Table]) -> int:
        """See that all is in place; where in the log the slot stands."""
        self._check_wal_level(connection)
        slot = self._slot(connection)
        source = f"Source {self.access.source}"
        if slot is None:
            raise SourceError(
                f"{source}: there is no replication slot {self.slot}.",
                "Without it changes may have been missed: run setup and load the views again.",
            )
        plugin, here, status, confirmed = slot
        if plugin != "pgoutput" or not here:
            raise SourceError(
                f"{source}: the replication slot {self.slot} belongs to something else.",
                "Choose another name for the slot.",
            )
        if status == "lost" or confirmed is None:
            raise SourceError(
                f"{source}: the server has dropped log that the slot {self.slot} still needed.",
                "Run teardown and setup, load the views again, and raise "
                "max_slot_wal_keep_size at the server.",
            )
        left = self._publication_statements(connection, list(tables))
        if left:
            raise SourceError(
                f"{source}: the publication {self.publication} does not publish every table.",
                "Changes may have been missed: run setup and load the views again.",
            )
        for table in tables:
            if table.identity != "f":
                raise not_full(table)
        return parse_lsn(confirmed)

    def evict(self, connection: Connection, reader: Reader) -> None:
        """End the connection that holds the slot if it is one of this reader's past epochs."""
        with self.access.errors(f"read who holds the slot {self.slot}"):
            row = connection.execute(_HOLDER, [self.slot]).fetchone()
        if row is None or not _is_past(reader, row[1] or ""):
            return
        with self.access.errors(f"end the connection that holds the slot {self.slot}"):
            connection.execute("SELECT pg_terminate_backend(%s)", [row[0]])

    def check_reachable(self, lsn: int, confirmed: int) -> None:
        if lsn < confirmed:
            raise SourceError(
                f"Source {self.access.source}: the slot {self.slot} stands at "
                f"{lsn_text(confirmed)}, after the position {lsn_text(lsn)}.",
                "What lies between was acknowledged and is gone: load the views again.",
            )

    def _publication_statements(
        self, connection: Connection, tables: Sequence[Table]
    ) -> list[sql.Composed]:
        name = sql.Identifier(self.publication)
        with self.access.errors("read the catalog"):
            narrows = connection.pgconn.server_version >= 150000
            published_tables = _PUBLISHED.format(_OF_SCHEMAS if narrows else "")
            oids = [table.oid for table in tables]
            row = connection.execute(
                published_tables.encode(), [oids, oids, self.publication]
            ).fetchone()
            narrowed: set[int] = set()
            if narrows:
                rows = connection.execute(_NARROWED, [self.publication])
                narrowed = {oid for (oid,) in rows}
        if row is None:
            return [sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(name, _listed(tables))]
        whole, published = row
        if not whole or any(table.oid in narrowed for table in tables):
            raise SourceError(
                f"Source {self.access.source}: the publication {self.publication} leaves out "
                "some rows, columns or kinds of changes.",
                "Give another name for the publication, and setup makes it.",
            )
        missing = [table for table in tables if table.oid not in published]
        if not missing:
            return []
        return [sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(name, _listed(missing))]

    def _slot(self, connection: Connection) -> tuple[str, bool, str, str | None] | None:
        with self.access.errors("read the catalog"):
            return connection.execute(_SLOT, [self.slot]).fetchone()

    def _check_wal_level(self, connection: Connection) -> None:
        with self.access.errors("read the settings"):
            row = connection.execute("SHOW wal_level").fetchone()
        if row is not None and row[0] != "logical":
            raise SourceError(
                f"Source {self.access.source}: the server's wal_level is {row[0]}; "
                "it must be logical.",
                "As a superuser run: ALTER SYSTEM SET wal_level = 'logical'; and restart the "
                "server.",
            )


def application_name(reader: Reader) -> str:
    """How the connection of a reader is known at the server."""
    return f"headwater {reader.name} {reader.epoch}"


def _is_past(reader: Reader, application: str) -> bool:
    prefix, _, epoch = application.rpartition(" ")
    same = f"{prefix} {reader.epoch}" == application_name(reader)
    return same and epoch.isdecimal() and int(epoch) < reader.epoch


def not_full(table: Table) -> SourceError:
    return SourceError(
        f"Table {table.label}: the log does not hold its whole old rows.",
        f"Run: {identity_statement(table)}; then load the views again.",
    )


def altered(table: Table, schema: str, name: str, columns: Sequence[str]) -> SourceError:
    return SourceError(
        f"Table {table.label} was altered: now it is {schema}.{name} ({', '.join(columns)}).",
        "Define the views anew over the table as it is now, and load them.",
    )


def identity_statement(table: Table) -> str:
    statement = sql.SQL("ALTER TABLE ONLY {} REPLICA IDENTITY FULL").format(table.identifier)
    return statement.as_string(None)


def _listed(tables: Iterable[Table]) -> sql.Composed:
    return sql.SQL(", ").join(sql.SQL("ONLY {}").format(table.identifier) for table in tables)
