"""The monitor of a log that triggers write: polls it, and finds transactions and gaps in it.

A poll reads, in one snapshot, what the last one did not see, and how the catalog shows the
tables. A position is a snapshot: exactly the transactions in it have been reported. With it
goes a token, a row that the monitor put into the log after that snapshot was taken. A database
that was set back to an earlier state, whose numbers would mean other transactions, does not
have it.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from psycopg import sql
from psycopg.types.json import Jsonb

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import Row
from headwater.errors import BrokenLogError, LostConnectionError, SourceError
from headwater.protocol.transactions import Transaction, Update
from headwater.sources.contract import (
    Broken,
    Committed,
    Logged,
    Marked,
    Position,
    Progressed,
)
from headwater.sources.postgres.connect import Connection
from headwater.sources.postgres.snapshot import XidSnapshot
from headwater.sources.postgres.triggers.setup import State, TriggerInstallation, quoted
from headwater.sources.postgres.triggers.units import Unit, seen_by, units
from headwater.sources.postgres.triggers.watch import (
    Gap,
    Seen,
    bodies_of,
    columns_of,
    find_gap,
    read_seen,
)
from headwater.sources.postgres.types import Table, TableColumn, read_value

_POLL_S = 0.02
_CLEAN_S = 1.0
_CLEAN_ROWS = 10_000
_FAR_XIDS, _FAR_S = 10, 0.5  # more than our own statements take, or we would go on for ever
_BEGIN = b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
_POLL = """
SELECT xid::text::int8, seen::text, relation::int8, shape, old, new, note FROM {log}
WHERE xid >= pg_catalog.pg_snapshot_xmin(%s::pg_snapshot)
  AND NOT pg_catalog.pg_visible_in_snapshot(xid, %s::pg_snapshot)
"""
_ACKNOWLEDGE = """
UPDATE {state} SET acknowledged = %s::pg_snapshot
WHERE pg_catalog.pg_snapshot_xmax(acknowledged)::text::int8 <= %s
"""
_CLEAN = """
DELETE FROM {log} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {log}
WHERE pg_catalog.pg_visible_in_snapshot(xid, %s::pg_snapshot) LIMIT %s))
"""


def marker_statement(installation: TriggerInstallation, marker: str, _: XidSnapshot) -> bytes:
    """Writes a question's marker into the log; the log adds the question's own snapshot."""
    statement = sql.SQL("INSERT INTO {} (note) VALUES ({})").format(installation.log, marker)
    return statement.as_string(None).encode()


@dataclass(frozen=True)
class _Entry:
    """A row of the log: a change, a gap (with a note), or a mark (without a relation)."""

    xid: int
    seen: str
    relation: int | None
    shape: int
    old: Sequence[str | None] | None
    new: Sequence[str | None] | None
    note: str | None


@dataclass
class _Watched:
    """A table of interest, and how the catalog showed it last."""

    table: Table
    used: frozenset[str]
    seen: Seen | None
    lost: frozenset[str] = frozenset()
    """Columns that changed since the last look: a poll may have rows from before and after."""

    @cached_property
    def columns(self) -> dict[str, TableColumn]:
        """Those that are used and can be read, in the table's own order."""
        found = {} if self.seen is None else columns_of(self.seen)
        return {name: column for name, column in found.items() if name in self.used}


class TriggerMonitor:
    """Polls the log table. One thread reads; any may acknowledge or close."""

    def __init__(
        self,
        installation: TriggerInstallation,
        connection: Connection,
        tables: Mapping[str, Table],
        after: Position | None,
        watch_s: float,
    ) -> None:
        self._installation = installation
        self._connection = connection
        self._source = installation.access.source
        state = installation.check(connection, tables.values(), seek=after is not None)
        self._at = self._told = self._start(after, state)
        self._told_at = time.monotonic()
        self._shapes, self._bodies = state.shapes, state.bodies
        self._watched = [_watched(table, state) for table in tables.values()]
        self._noticed: list[tuple[XidSnapshot, dict[str, Seen | None]]] = []
        self._lock = threading.Lock()
        self._acknowledged: XidSnapshot | None = None
        self._watch_s = watch_s
        self._next_watch = 0.0
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
        self._acknowledged = XidSnapshot.parse(str(position["snapshot"]))

    def close(self) -> None:
        with self._lock:
            self._pending = LostConnectionError(f"Source {self._source}: its monitor was closed.")
            with suppress(SourceError), self._installation.access.errors("clean the log"):
                self._next_clean = 0.0
                self._clean()  # what fails here is cleaned the next time
            self._connection.close()

    # Where to go on

    def _start(self, after: Position | None, state: State) -> XidSnapshot:
        """The snapshot to go on from, if the database still is the one that it was taken of."""
        if after is None:
            return state.acknowledged
        at = XidSnapshot.parse(str(after["snapshot"]))
        with self._installation.access.errors("read the log"):
            now = self._snapshot()
            known = (
                "token" not in after
                or self._connection.execute(
                    sql.SQL("SELECT FROM {} WHERE note = %s").format(self._installation.log),
                    [after["token"]],
                ).fetchone()
            )
        if not at.contains(state.acknowledged):
            raise BrokenLogError(
                self._source,
                "its log was cleaned beyond the position; what lies between was acknowledged and "
                "is gone.",
            )
        if known is None or at.xmax > now.xmax:
            raise BrokenLogError(
                self._source,
                "the database was set back to an earlier state, or replaced by another.",
            )
        return at

    def _snapshot(self) -> XidSnapshot:
        row = self._connection.execute("SELECT pg_catalog.pg_current_snapshot()::text").fetchone()
        assert row is not None
        return XidSnapshot.parse(row[0])

    # Reading

    def _poll(self) -> list[Logged]:
        """Everything that is visible now and was not before."""
        at = str(self._at)
        statement = sql.SQL(_POLL).format(log=self._installation.log)
        with self._connection.transaction():
            self._connection.execute(_BEGIN)
            now = self._snapshot()
            rows = self._connection.execute(statement, [at, at]).fetchall()
            gaps = self._look(now) if rows or time.monotonic() >= self._next_watch else {}
        entries = [_Entry(*row) for row in rows]
        marks = [entry.note for entry in entries if self._is_mark(entry)]
        changed = any(entry.relation is not None for entry in entries)
        if not gaps and not marks and not changed and not self._is_far(now):
            self._at = now
            return []
        self._learn_shapes(entries)
        token = self._leave_token()
        position = _position(self._at, token)
        logged: list[Logged] = [
            Broken({name: columns}, reason, position) for name, (columns, reason) in gaps.items()
        ]
        self._at = self._told = now
        self._told_at = time.monotonic()
        try:
            for item in self._changes(entries, now, token):
                logged.append(item)
        except SourceError as error:
            self._pending = error
            if not logged:
                raise
            return logged
        logged += [Marked(mark) for mark in marks if mark is not None]
        logged.append(Progressed(_position(now, token)))
        return logged

    def _is_mark(self, entry: _Entry) -> bool:
        """Whether this is a question's marker; a monitor's token has no slash."""
        return entry.relation is None and (entry.note or "").startswith(
            f"{self._installation.name}/"
        )

    def _is_far(self, now: XidSnapshot) -> bool:
        """Whether much has happened elsewhere since a position was last told."""
        return now.xmax - self._told.xmax > _FAR_XIDS and time.monotonic() - self._told_at > _FAR_S

    def _leave_token(self) -> str:
        token = uuid.uuid4().hex
        self._connection.execute(
            sql.SQL("INSERT INTO {} (note) VALUES (%s)").format(self._installation.log), [token]
        )
        return token

    def _learn_shapes(self, entries: Iterable[_Entry]) -> None:
        if any(entry.relation is not None and entry.shape not in self._shapes for entry in entries):
            state = self._installation.state(self._connection)
            if state is not None:
                self._shapes = state.shapes

    # Gaps

    def _look(self, now: XidSnapshot) -> dict[str, tuple[frozenset[str] | None, str]]:
        """Compare the catalog with how it was; what was missed, by relation."""
        self._next_watch = time.monotonic() + self._watch_s
        tables = [watched.table for watched in self._watched]
        found = read_seen(self._connection, self._installation.name, tables)
        gaps = {}
        noticed: dict[str, Seen | None] = {}
        for at, watched in enumerate(self._watched):
            table = watched.table
            seen = found.get((table.schema, table.name))
            gap = None if seen == watched.seen else self._gap(watched, seen)
            lost = frozenset[str]()
            if gap is not None:
                gaps[f"{self._source}.{table.name}"] = (gap.columns, gap.reason)
                lost = watched.used if gap.columns is None else gap.columns
            if seen != watched.seen:
                noticed[quoted(table)] = seen
            if seen != watched.seen or lost != watched.lost:
                self._watched[at] = _Watched(table, watched.used, seen, lost)
        if noticed:
            self._noticed.append((now, noticed))
        return gaps

    def _gap(self, watched: _Watched, seen: Seen | None) -> Gap | None:
        if seen is not None and not bodies_of(seen) <= self._bodies:
            rows = self._connection.execute(
                sql.SQL("SELECT body FROM {}").format(self._installation.table("bodies"))
            )
            self._bodies = frozenset(body for (body,) in rows)
        return find_gap(watched.table.label, watched.seen, seen, watched.used, self._bodies)

    # Changes

    def _changes(self, entries: Sequence[_Entry], now: XidSnapshot, token: str) -> Iterator[Logged]:
        of: dict[int, list[_Entry]] = {}
        for entry in entries:
            if entry.relation is not None:
                of.setdefault(entry.xid, []).append(entry)
        snapshots = {
            seen_by(xid, XidSnapshot.parse(seen))
            for xid, seen in {(entry.xid, entry.seen) for entry in entries}
        }
        for unit in units(of, snapshots, now):
            yield from self._unit(unit, [entry for xid in unit.xids for entry in of[xid]], token)

    def _unit(self, unit: Unit, entries: Sequence[_Entry], token: str) -> Iterator[Logged]:
        position = _position(unit.state, token)
        by_oid = {w.seen["oid"]: w for w in self._watched if w.seen is not None}
        changes: dict[int, list[_Entry]] = {}
        for entry in entries:
            watched = by_oid.get(entry.relation)
            if watched is None:
                continue
            if entry.note is None:
                changes.setdefault(entry.relation or 0, []).append(entry)
                continue
            reason = f"TRUNCATE of {watched.table.label} cannot be followed: {entry.note}"
            name = f"{self._source}.{watched.table.name}"
            yield Broken({name: None}, reason, position, entry.xid)
        updates = []
        for found in changes.values():
            watched = by_oid[found[0].relation]
            if delta := _delta(watched, self._shapes, found):
                updates.append(Update(f"{self._source}.{watched.table.name}", delta))
        if not updates:
            return
        *others, last = unit.xids
        name = f"{last}+{len(others)}" if others else f"{last}"
        whole = Transaction(name, tuple(updates), (self._source,), (self._source,))
        yield Committed(whole, position, last, others=tuple(others))

    # Cleaning

    def _clean(self) -> None:
        """Remove what was acknowledged from the log, from time to time and not all at once."""
        upto = self._acknowledged
        if upto is None or time.monotonic() < self._next_clean:
            return
        state, tables = (self._installation.table(name) for name in ("state", "tables"))
        with self._connection.transaction():
            self._connection.execute(
                sql.SQL(_ACKNOWLEDGE).format(state=state), [str(upto), upto.xmax]
            )
            while self._noticed and upto.contains(self._noticed[0][0]):
                for relation, seen in self._noticed.pop(0)[1].items():
                    self._connection.execute(
                        sql.SQL("UPDATE {} SET seen = %s WHERE relation = %s").format(tables),
                        [None if seen is None else Jsonb(seen), relation],
                    )
        gone = self._connection.execute(
            sql.SQL(_CLEAN).format(log=self._installation.log), [str(upto), _CLEAN_ROWS]
        ).rowcount
        if gone < _CLEAN_ROWS:
            self._next_clean = time.monotonic() + _CLEAN_S
            if self._acknowledged is upto:
                self._acknowledged = None


def _watched(table: Table, state: State) -> _Watched:
    """Columns that are used may have gone since the table was last seen."""
    _, seen = state.tables[quoted(table)]
    every = {*table.by_name, *(columns_of(seen) if seen else ())}
    return _Watched(table, frozenset(every if table.used is None else table.used), seen)


def _position(at: XidSnapshot, token: str) -> Position:
    return {"snapshot": str(at), "token": token}


def _delta(
    watched: _Watched, shapes: Mapping[int, Sequence[str]], entries: Sequence[_Entry]
) -> Rows:
    """What some rows of the log change, in the columns that all of them have."""
    logged = {entry.shape: shapes[entry.shape] for entry in entries}
    columns = [
        column
        for name, column in watched.columns.items()
        if name not in watched.lost and all(name in names for names in logged.values())
    ]
    readers = {
        shape: [(names.index(column.name), column) for column in columns]
        for shape, names in logged.items()
    }
    counts: dict[Row, int] = {}
    for entry in entries:
        for values, sign in ((entry.old, -1), (entry.new, 1)):
            if values is not None:
                row = _row(watched.table, readers[entry.shape], values)
                counts[row] = counts.get(row, 0) + sign
    return Rows(Schema.of((column.name, column.type) for column in columns), counts)


def _row(
    table: Table, readers: Sequence[tuple[int, TableColumn]], values: Sequence[str | None]
) -> Row:
    try:
        return tuple(
            [
                None if (t := values[at]) is None else column.read(t.encode())
                for at, column in readers
            ]
        )
    except ValueError:
        for at, column in readers:
            text = values[at]
            read_value(table, column, None if text is None else text.encode())
        raise
