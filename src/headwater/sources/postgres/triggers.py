"""PostgreSQL without logical replication: triggers write changes into a table that is polled.

For servers where no slot can be had. Every change of a table of interest adds a row to a log
table, with the number of its transaction. A poll reads, in one snapshot, the transactions that
the last one did not see. The log's own numbers order them: a transaction that had to wait for
another's lock has written after it. A question's marker carries its snapshot, and transactions
are put before or after the marker as that snapshot says.

A position is a snapshot: exactly the transactions in it have been reported.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from psycopg import sql

from headwater.algebra.rows import Rows
from headwater.algebra.values import Row
from headwater.errors import LostConnectionError, SourceError
from headwater.protocol.transactions import Transaction, Update
from headwater.sources.contract import Committed, Logged, Marked, Position, Progressed
from headwater.sources.postgres.connect import Access, Connection
from headwater.sources.postgres.snapshot import XidSnapshot
from headwater.sources.postgres.types import Table

_SCHEMA = "headwater"
_NOTHING = XidSnapshot(3, 3, frozenset())  # the first number that PostgreSQL gives out is 3
_POLL_S = 0.02
_CLEAN_S = 1.0
_POLL = """
SELECT xid::text::int8, kind::text, relation::int8, old, new FROM {log}
WHERE xid >= pg_snapshot_xmin(%s::pg_snapshot) AND NOT pg_visible_in_snapshot(xid, %s::pg_snapshot)
ORDER BY seq
"""
_CREATE_LOG = """
CREATE TABLE {log} (seq bigint GENERATED ALWAYS AS IDENTITY, xid xid8 NOT NULL
DEFAULT pg_current_xact_id(), kind "char" NOT NULL, relation oid, old text[], new text[])
"""
_CREATE_FUNCTION = """
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog SET DateStyle = 'ISO' SET TimeZone = 'UTC'
SET bytea_output = 'hex' SET extra_float_digits = 3 AS $headwater$
BEGIN
  INSERT INTO {log} (kind, relation, old, new) VALUES (left(TG_OP, 1)::"char", TG_RELID,
    CASE WHEN TG_OP IN ('UPDATE', 'DELETE') THEN ARRAY[{old}]::text[] END,
    CASE WHEN TG_OP IN ('INSERT', 'UPDATE') THEN ARRAY[{new}]::text[] END);
  RETURN NULL;
END $headwater$
"""


@dataclass(frozen=True)
class TriggerInstallation:
    """The log table, and a function with two triggers for each table of interest."""

    access: Access
    name: str

    @property
    def log(self) -> sql.Identifier:
        return sql.Identifier(_SCHEMA, f"{self.name}_log")

    @property
    def state(self) -> sql.Identifier:
        return sql.Identifier(_SCHEMA, f"{self.name}_state")

    def missing(self, connection: Connection, tables: Iterable[Table]) -> list[str]:
        statements: list[sql.Composed] = []
        with self.access.errors("read the catalog"):
            if not self._exists(connection):
                statements += [
                    sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(_SCHEMA)),
                    sql.SQL(_CREATE_LOG).format(log=self.log),
                    sql.SQL("CREATE INDEX ON {} (xid)").format(self.log),
                    sql.SQL("CREATE TABLE {} (acknowledged text)").format(self.state),
                    sql.SQL("INSERT INTO {} VALUES ({})").format(self.state, str(_NOTHING)),
                ]
            for table in self._unwatched(connection, tables):
                statements += self._watching(table)
        return [" ".join(statement.as_string(connection).split()) for statement in statements]

    def install(self, connection: Connection, tables: Iterable[Table]) -> None:
        for statement in self.missing(connection, tables):
            with self.access.errors(f"run {statement}"):
                connection.execute(statement.encode())

    def remove(self, connection: Connection) -> None:
        """Drop everything that `install` made."""
        with self.access.errors("drop the log table"):
            functions = connection.execute(
                "SELECT p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
                " WHERE n.nspname = %s AND starts_with(p.proname, %s)",
                [_SCHEMA, f"{self.name}_on_"],
            ).fetchall()
            for (function,) in functions:
                name = sql.Identifier(_SCHEMA, function)
                connection.execute(sql.SQL("DROP FUNCTION {}() CASCADE").format(name))
            for table in (self.log, self.state):
                connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table))

    def check(self, connection: Connection, tables: Iterable[Table]) -> XidSnapshot:
        """See that all is in place; what has been acknowledged."""
        with self.access.errors("read the catalog"):
            if not self._exists(connection) or self._unwatched(connection, tables):
                raise SourceError(
                    f"Source {self.access.source}: the log table or a trigger is missing.",
                    "Changes may have been missed: run setup and load the views again.",
                )
            row = connection.execute(
                sql.SQL("SELECT acknowledged FROM {}").format(self.state)
            ).fetchone()
        return XidSnapshot.parse(row[0]) if row else _NOTHING

    def _exists(self, connection: Connection) -> bool:
        row = connection.execute(
            "SELECT to_regclass(%s) IS NOT NULL", [self.state.as_string(connection)]
        ).fetchone()
        return bool(row and row[0])

    def _unwatched(self, connection: Connection, tables: Iterable[Table]) -> list[Table]:
        rows = connection.execute(
            "SELECT tgrelid::int8 FROM pg_trigger WHERE tgname = %s AND tgenabled = 'A'",
            [f"{self.name}_rows"],
        )
        watched = {oid for (oid,) in rows}
        return [table for table in tables if table.oid not in watched]

    def _watching(self, table: Table) -> list[sql.Composed]:
        function = sql.Identifier(_SCHEMA, f"{self.name}_on_{table.oid}")
        names = {"table": table.identifier, "function": function}
        statements = [
            sql.SQL(_CREATE_FUNCTION).format(
                function=function,
                log=self.log,
                old=_as_texts("old", table),
                new=_as_texts("new", table),
            )
        ]
        for suffix, when in (
            ("rows", "AFTER INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW"),
            ("all", "AFTER TRUNCATE ON {table} FOR EACH STATEMENT"),
        ):
            trigger = sql.Identifier(f"{self.name}_{suffix}")
            made = "CREATE TRIGGER {trigger} " + when + " EXECUTE FUNCTION {function}()"
            statements.append(sql.SQL(made).format(trigger=trigger, **names))
            statements.append(
                sql.SQL("ALTER TABLE ONLY {table} ENABLE ALWAYS TRIGGER {trigger}").format(
                    trigger=trigger, table=table.identifier
                )
            )
        return statements


def _as_texts(row: str, table: Table) -> sql.Composed:
    return sql.SQL(", ").join(
        sql.SQL("{}.{}::text").format(sql.Identifier(row), sql.Identifier(column.name))
        for column in table.columns
    )


def marker_statement(installation: TriggerInstallation, marker: str, at: XidSnapshot) -> bytes:
    """Writes a question's marker, with its snapshot, into the log table."""
    return (
        sql.SQL("INSERT INTO {} (kind, new) VALUES ('M', ARRAY[{}, {}])")
        .format(installation.log, marker, str(at))
        .as_string(None)
        .encode()
    )


class TriggerMonitor:
    """Polls the log table. One thread reads; any may acknowledge or close."""

    def __init__(
        self,
        installation: TriggerInstallation,
        connection: Connection,
        tables: Mapping[str, Table],
        at: XidSnapshot,
    ) -> None:
        self._installation = installation
        self._connection = connection
        self._tables = {table.oid: table for table in tables.values()}
        self._at = at
        self._source = installation.access.source
        self._lock = threading.Lock()
        self._acknowledged: Position | None = None
        self._next_clean = time.monotonic() + _CLEAN_S
        self._pending: SourceError | None = None

    def read(self, timeout_s: float) -> Sequence[Logged]:
        deadline = time.monotonic() + timeout_s
        while True:
            with self._lock:
                if self._pending is not None:
                    raise self._pending
                with self._installation.access.errors("read the log"):
                    self._clean()
                    logged = self._poll()
            left = deadline - time.monotonic()
            if logged or left <= 0:
                return logged
            time.sleep(min(_POLL_S, left))

    def acknowledge(self, position: Position) -> None:
        self._acknowledged = position

    def close(self) -> None:
        with self._lock:
            self._pending = LostConnectionError(f"Source {self._source}: its monitor was closed.")
            try:
                with self._installation.access.errors("clean the log"):
                    self._next_clean = 0.0
                    self._clean()
            except SourceError:
                pass  # cleaned the next time
            self._connection.close()

    def _poll(self) -> list[Logged]:
        """Everything that is visible now and was not before, in an order that fits."""
        seen = str(self._at)
        with self._connection.transaction():
            self._connection.execute(b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            row = self._connection.execute("SELECT pg_current_snapshot()::text").fetchone()
            assert row is not None
            statement = sql.SQL(_POLL).format(log=self._installation.log)
            rows = self._connection.execute(statement, [seen, seen]).fetchall()
        now = XidSnapshot.parse(row[0])
        if not rows:
            moved = now.xmin > self._at.xmin
            self._at = now
            return [Progressed({"snapshot": str(now)})] if moved else []
        return self._ordered(rows, now)

    def _ordered(self, rows: Sequence[Sequence[Any]], now: XidSnapshot) -> list[Logged]:
        changes: dict[int, list[Sequence[Any]]] = {}
        markers: list[tuple[str, XidSnapshot]] = []
        for row in rows:
            if row[1] == "M":
                markers.append((row[4][0], XidSnapshot.parse(row[4][1])))
                continue
            found = changes.pop(row[0], [])
            found.append(row)
            changes[row[0]] = found  # put last again: the last number counts
        markers.sort(key=lambda marker: (marker[1].xmax, -len(marker[1].running)))
        logged: list[Logged] = []
        left = dict(changes)
        try:
            for marker, snapshot in markers:
                inside = [xid for xid in left if snapshot.includes(xid)]
                for xid in inside:
                    logged += self._committed(xid, left, now)
                logged.append(Marked(marker))
            for xid in list(left):
                logged += self._committed(xid, left, now)
        except SourceError as error:
            if not logged:
                raise
            self._pending = error
            return logged
        self._at = now
        logged.append(Progressed({"snapshot": str(now)}))
        return logged

    def _committed(
        self, xid: int, left: dict[int, list[Sequence[Any]]], now: XidSnapshot
    ) -> list[Logged]:
        updates = tuple(u for row in left.pop(xid) for u in self._updates(row))
        at = replace(now, xmin=min([now.xmin, *left]), running=now.running | frozenset(left))
        if not updates:
            return []
        whole = Transaction(f"{xid}", updates, (self._source,), (self._source,))
        return [Committed(whole, {"snapshot": str(at)}, xid)]

    def _updates(self, row: Sequence[Any]) -> list[Update]:
        _, kind, relation, old, new = row
        table = self._tables.get(relation)
        if table is None:
            return []
        if kind == "T":
            raise SourceError(
                f"Source {self._source}: TRUNCATE of {table.label}, whose rows the log does not "
                "hold.",
                "The views over it must be loaded again; DELETE can be followed.",
            )
        counts: dict[Row, int] = {}
        for values, sign in ((old, -1), (new, 1)):
            if values is not None:
                data = table.row([None if v is None else v.encode() for v in values])
                counts[data] = counts.get(data, 0) + sign
        delta = Rows(table.relational_schema, counts)
        return [Update(f"{self._source}.{table.name}", delta)] if delta else []

    def _clean(self) -> None:
        """Remove from the log what was acknowledged, from time to time."""
        if self._acknowledged is None or time.monotonic() < self._next_clean:
            return
        upto = str(self._acknowledged["snapshot"])
        with self._connection.transaction():
            self._connection.execute(
                sql.SQL("UPDATE {} SET acknowledged = %s").format(self._installation.state), [upto]
            )
            self._connection.execute(
                sql.SQL("DELETE FROM {} WHERE pg_visible_in_snapshot(xid, %s::pg_snapshot)").format(
                    self._installation.log
                ),
                [upto],
            )
        self._acknowledged = None
        self._next_clean = time.monotonic() + _CLEAN_S


def check_reachable(access: Access, at: XidSnapshot, acknowledged: XidSnapshot) -> None:
    """A position must hold everything that was acknowledged, for that has been removed."""
    beyond = acknowledged.xmax - at.xmax
    hidden = sum(1 for xid in acknowledged.running if xid >= at.xmax)
    if beyond > hidden or any(acknowledged.includes(xid) for xid in at.running):
        raise SourceError(
            f"Source {access.source}: the log was cleaned beyond the position.",
            "What lies between was acknowledged and is gone: load the views again.",
        )
