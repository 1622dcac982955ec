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
from contextlib import contextmanager, suppress
from dataclasses import replace

from psycopg import sql
from psycopg.types.json import Jsonb

from headwater.algebra.rows import Rows
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
from headwater.sources.postgres.snapshot import XidSnapshot, full_xid
from headwater.sources.postgres.triggers.entries import (
    LogEntry,
    Watched,
    delta_of,
    watched,
)
from headwater.sources.postgres.triggers.setup import State, TriggerInstallation, quoted
from headwater.sources.postgres.triggers.units import TriggerUnit, seen_by, units
from headwater.sources.postgres.triggers.watch import (
    Gap,
    Seen,
    bodies_of,
    find_doubted,
    find_gap,
    printed_by,
    read_seen,
)
from headwater.sources.postgres.types import Table, UnreadableError

_POLL_S = 0.02
_CLEAN_S = 1.0
_CLEAN_ROWS = 10_000
_FAR_XIDS, _FAR_S = 10, 0.5  # more than our own statements take, or we would go on for ever
_BEGIN = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY; {}"
_NOW = "SELECT pg_catalog.pg_current_snapshot()::text, {}"
_POLL = """
SELECT xid::text::int8, seen::text, relation::int8, shape, old, new, note FROM ONLY {log}
WHERE xid >= pg_catalog.pg_snapshot_xmin(%s::pg_snapshot)
  AND NOT pg_catalog.pg_visible_in_snapshot(xid, %s::pg_snapshot)
"""
_ACKNOWLEDGE = """
UPDATE ONLY {state} SET acknowledged = %s::pg_snapshot
WHERE pg_catalog.pg_snapshot_xmax(acknowledged)::text::int8 <= %s
"""
_CLEAN = """
DELETE FROM ONLY {log} WHERE ctid = ANY(ARRAY(SELECT ctid FROM ONLY {log}
WHERE pg_catalog.pg_visible_in_snapshot(xid, %s::pg_snapshot) LIMIT %s))
"""


class TriggerMonitor:
    """Polls the log table. One thread reads; any may acknowledge or close.

    `tables` has those that are gone too, without a number, and those that are `refused`, which
    are as good as gone; why, is told.
    """

    def __init__(
        self,
        installation: TriggerInstallation,
        connection: Connection,
        tables: Sequence[Table],
        refused: Mapping[str, str],
        after: Position | None,
        watch_s: float,
    ) -> None:
        self._installation = installation
        self._connection = connection
        self._source = installation.access.source
        self._refused = refused
        present = [table for table in tables if table.oid]
        self._log = installation.guarded()
        self._seal = self._log.read_seal(connection)  # before it is seen that all is in order
        state = installation.check(connection, present, seek=after is not None)
        self._at = self._told = self._start(after, state)
        self._told_at = time.monotonic()
        self._shapes, self._bodies = state.shapes, state.bodies
        self._watched = [
            watched(table, state.tables[quoted(table)][1])
            for table in tables
            if quoted(table) in state.tables
        ]
        self._by_oid: dict[int | None, Watched] = {}
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
        with self._installation.access.errors("read the log"), self._reading() as now:
            known = (
                "token" not in after
                or self._connection.execute(
                    sql.SQL("SELECT FROM ONLY {} WHERE note = %s").format(self._installation.log),
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

    # In the log nothing is read or written unless it is locked and still what was trusted

    @contextmanager
    def _reading(self) -> Iterator[XidSnapshot]:
        """A transaction that reads the log, in one snapshot."""
        with self._connection.transaction():
            begin = _BEGIN.format(self._log.lock_to_read)
            self._connection.execute(begin.encode(), prepare=False)
            row = self._connection.execute(_NOW.format(self._log.seal).encode()).fetchone()
            assert row is not None
            if row[1] != self._seal:
                raise self._log.altered(self._connection)
            yield XidSnapshot.parse(row[0])

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A transaction that writes the log."""
        with self._connection.transaction():
            self._connection.execute(self._log.lock.encode())
            if self._log.read_seal(self._connection) != self._seal:
                raise self._log.altered(self._connection)
            yield

    # Reading

    def _poll(self) -> list[Logged]:
        """Everything that is visible now and was not before."""
        at = str(self._at)
        statement = sql.SQL(_POLL).format(log=self._installation.log)
        with self._reading() as now:
            rows = self._connection.execute(statement, [at, at]).fetchall()
            entries = [LogEntry(*row) for row in rows]
            is_due = entries or time.monotonic() >= self._next_watch
            gaps = self._look(now, entries) if is_due else {}
        marks = [entry.note for entry in entries if self._is_mark(entry)]
        changed = any(entry.relation is not None or entry.tag for entry in entries)
        if not gaps and not marks and not changed and not self._is_far(now):
            self._at = now
            return []
        self._learn_shapes(entries)
        token = self._leave_token()
        before, self._at, self._told = self._at, now, now
        logged: list[Logged] = [
            Broken({name: gap.columns}, gap.reason, _position(before, token))
            for name, gap in gaps.items()
        ]
        self._told_at = time.monotonic()
        try:
            for item in self._changes(entries, before, now, token):
                logged.append(item)
        except SourceError as error:
            self._pending = error
            if not logged:
                raise
            return logged
        logged += [Marked(mark) for mark in marks if mark is not None]
        logged.append(Progressed(_position(now, token)))
        return logged

    def _is_mark(self, entry: LogEntry) -> bool:
        """Whether this is a question's marker; a monitor's token has no slash."""
        return entry.relation is None and (entry.note or "").startswith(
            f"{self._installation.name}/"
        )

    def _is_far(self, now: XidSnapshot) -> bool:
        """Whether much has happened elsewhere since a position was last told."""
        return now.xmax - self._told.xmax > _FAR_XIDS and time.monotonic() - self._told_at > _FAR_S

    def _leave_token(self) -> str:
        token = uuid.uuid4().hex
        statement = sql.SQL("INSERT INTO {} (note) VALUES (%s)").format(self._installation.log)
        with self._writing():
            self._connection.execute(statement, [token])
        return token

    def _learn_shapes(self, entries: Iterable[LogEntry]) -> None:
        if any(entry.relation is not None and entry.shape not in self._shapes for entry in entries):
            state = self._installation.state(self._connection)
            if state is not None:
                self._shapes = state.shapes

    # Gaps

    def _look(self, now: XidSnapshot, entries: Sequence[LogEntry]) -> dict[str, Gap]:
        """Compare the catalog with how it was; what was missed, by relation."""
        self._next_watch = time.monotonic() + self._watch_s
        self._check_names()
        tables = [watched.table for watched in self._watched]
        found = read_seen(self._connection, self._installation.name, tables)
        gaps: dict[str, Gap] = {}
        noticed: dict[str, Seen | None] = {}
        for at, known in enumerate(self._watched):
            table = known.table
            refused = table.relation_name in self._refused
            seen = None if refused else found.get((table.schema, table.name))
            gap = None
            if seen != known.seen:
                gap = _both(self._gap(known, seen), self._doubt(known, seen, now, entries))
            elif seen is not None:
                gap = _printed_otherwise(known, seen, now, entries)
            if gap is not None:
                gaps[self._full_name(known)] = gap
            if seen != known.seen:
                noticed[quoted(table)] = seen
            lost = frozenset[str]() if gap is None else gap.columns
            if seen != known.seen or lost != known.lost:
                self._watched[at] = Watched(table, known.used, seen, lost)
        if noticed:
            self._noticed.append((now, noticed))
        self._by_oid = {w.seen["oid"]: w for w in self._watched if w.seen is not None}
        return gaps

    def _check_names(self) -> None:
        """Setup forgets a table when another has come to be meant by its relation."""
        rows = self._connection.execute(
            sql.SQL("SELECT relation FROM ONLY {}").format(self._installation.table("tables"))
        )
        if not {quoted(watched.table) for watched in self._watched} <= {name for (name,) in rows}:
            raise LostConnectionError(
                f"Source {self._source}: setup has put triggers on other tables; the log is read "
                "anew."
            )

    def _full_name(self, of: Watched) -> str:
        return f"{self._source}.{of.table.relation_name}"

    def _gap(self, known: Watched, seen: Seen | None) -> Gap | None:
        if reason := self._refused.get(known.table.relation_name):
            return Gap(None, f"the table {known.table.label} {reason}")
        if seen is not None and not bodies_of(seen) <= self._bodies:
            rows = self._connection.execute(
                sql.SQL("SELECT body FROM ONLY {}").format(self._installation.table("bodies"))
            )
            self._bodies = frozenset(body for (body,) in rows)
        table = known.table
        return find_gap(table.label, known.seen, seen, known.used, self._bodies, table.key)

    def _doubt(
        self, known: Watched, seen: Seen | None, now: XidSnapshot, entries: Sequence[LogEntry]
    ) -> Gap | None:
        """A gap if rows were changed before a column was written in the catalog that is as it was:
        it may have had another name meanwhile, and another column its name."""
        if known.seen is None or seen is None:
            return None
        doubted = find_doubted(known.seen, seen, known.used)
        changes = (e for e in entries if e.relation == seen["oid"] and e.note is None)
        written = {(e.xid, e.seen) for e in changes} if doubted else ()
        snapshots = [seen_by(xid, XidSnapshot.parse(text)) for xid, text in written]
        # Parts of transactions have numbers too, which a snapshot says nothing of.
        columns = frozenset(
            name
            for name, xid in doubted.items()
            if any(full_xid(xid, now.xmax) >= snapshot.xmin for snapshot in snapshots)
        )
        if not columns:
            return None
        names = ", ".join(sorted(columns))
        reason = (
            f"{known.table.label} was changed before its column {names} was altered, which may "
            "have had another name meanwhile"
        )
        return Gap(columns, reason)

    # Changes

    def _changes(
        self, entries: Sequence[LogEntry], at: XidSnapshot, now: XidSnapshot, token: str
    ) -> Iterator[Logged]:
        """The units between two snapshots, and the gaps in them."""
        of: dict[int, list[LogEntry]] = {}
        for entry in entries:
            if entry.relation is not None or entry.tag:
                of.setdefault(entry.xid, []).append(entry)
        snapshots = {
            seen_by(xid, XidSnapshot.parse(seen))
            for xid, seen in {(entry.xid, entry.seen) for entry in entries}
        }
        for unit in units(of, snapshots, now):
            found = [entry for xid in unit.xids for entry in of[xid]]
            yield from self._gaps(found, _position(at, token))
            yield from self._unit(unit, found, token, _position(at, token))
            at = unit.state

    def _gaps(self, entries: Sequence[LogEntry], before: Position) -> Iterator[Broken]:
        """What the triggers themselves could not log."""
        for entry in entries:
            table = self._by_oid.get(entry.relation)
            if table is not None and entry.note is not None:
                label = table.table.label
                reason = f"TRUNCATE of {label} cannot be followed: {entry.note}"
                yield Broken({self._full_name(table): None}, reason, before, entry.xid)

    def _unit(
        self, unit: TriggerUnit, entries: Sequence[LogEntry], token: str, before: Position
    ) -> Iterator[Logged]:
        changes: dict[int | None, list[LogEntry]] = {}
        for entry in entries:
            if entry.relation in self._by_oid and entry.note is None:
                changes.setdefault(entry.relation, []).append(entry)
        *others, last = unit.xids
        tags = tuple(dict.fromkeys(tag for entry in entries if (tag := entry.tag)))
        updates = []
        for oid, found in changes.items():
            table, name = self._by_oid[oid], self._full_name(self._by_oid[oid])
            if not table.is_readable:
                continue
            delta, unreadable = self._delta(table, found)
            for error in unreadable:
                yield Broken({name: frozenset({error.column})}, error.reason, before, last)
            if delta or tags:
                updates.append(Update(name, delta))
        if not updates and not tags:
            return
        name = f"{last}+{len(others)}" if others else f"{last}"
        whole = Transaction(name, tuple(updates), (self._source,), (self._source,), tags=tags)
        yield Committed(whole, _position(unit.state, token), last, others=tuple(others))

    def _delta(
        self, of: Watched, entries: Sequence[LogEntry]
    ) -> tuple[Rows, Sequence[UnreadableError]]:
        """What entries change, in the columns of which every value can be read."""
        unreadable: list[UnreadableError] = []
        while True:
            lost = (of.lost or frozenset()).union(error.column for error in unreadable)
            try:
                return delta_of(replace(of, lost=lost), self._shapes, entries), unreadable
            except UnreadableError as error:
                unreadable.append(error)

    # Cleaning

    def _clean(self) -> None:
        """Remove what was acknowledged from the log, from time to time and not all at once."""
        upto = self._acknowledged
        if upto is None or time.monotonic() < self._next_clean:
            return
        state, tables = (self._installation.table(name) for name in ("state", "tables"))
        with self._writing():
            self._connection.execute(
                sql.SQL(_ACKNOWLEDGE).format(state=state), [str(upto), upto.xmax]
            )
            while self._noticed and upto.contains(self._noticed[0][0]):
                for relation, seen in self._noticed.pop(0)[1].items():
                    self._connection.execute(
                        sql.SQL("UPDATE ONLY {} SET seen = %s WHERE relation = %s").format(tables),
                        [None if seen is None else Jsonb(seen), relation],
                    )
        clean = sql.SQL(_CLEAN).format(log=self._installation.log)
        with self._writing():
            gone = self._connection.execute(clean, [str(upto), _CLEAN_ROWS]).rowcount
        if gone < _CLEAN_ROWS:
            self._next_clean = time.monotonic() + _CLEAN_S
            if self._acknowledged is upto:
                self._acknowledged = None


def _printed_otherwise(
    known: Watched, seen: Seen, now: XidSnapshot, entries: Sequence[LogEntry]
) -> Gap | None:
    """A gap if rows were logged by somebody who was open when labels or fields got other names."""
    writers = printed_by(seen, known.used)
    changes = (e for e in entries if e.relation == seen["oid"]) if writers else ()
    snapshots = [XidSnapshot.parse(text) for text in {entry.seen for entry in changes}]
    columns = frozenset(
        name
        for name, xids in writers.items()
        for xid in xids
        if not all(snapshot.includes(full_xid(xid, now.xmax)) for snapshot in snapshots)
    )
    if not columns:
        return None
    names = ", ".join(sorted(columns))
    reason = f"{known.table.label} was changed before the type of its column {names} was altered"
    return Gap(columns, reason)


def _both(gap: Gap | None, doubt: Gap | None) -> Gap | None:
    if gap is None or doubt is None:
        return gap or doubt
    if gap.columns is None or doubt.columns is None:
        return gap
    return Gap(gap.columns | doubt.columns, f"{gap.reason}; {doubt.reason}")


def _position(at: XidSnapshot, token: str) -> Position:
    return {"snapshot": str(at), "token": token}
