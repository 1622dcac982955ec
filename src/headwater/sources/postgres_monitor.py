"""The monitor of PostgreSQL: reads a replication slot, whole transactions in commit order.

What the caller has acknowledged, and nothing beyond, is reported back to the server, which may
then forget it. After a lost connection the server sends everything since then again; what the
position covers is skipped.
"""

from __future__ import annotations

import select
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import psycopg
from psycopg import pq

from headwater.algebra.rows import Rows
from headwater.algebra.values import Row
from headwater.errors import LostConnectionError, SourceError
from headwater.protocol.transactions import Transaction, Update
from headwater.sources import pgoutput
from headwater.sources.contract import Committed, Logged, Marked, Position, Progressed
from headwater.sources.pgoutput import Datum, SentRelation, decode, filled, lsn_text
from headwater.sources.postgres_connect import Access
from headwater.sources.postgres_setup import altered, not_full
from headwater.sources.postgres_snapshot import LogPosition, full_xid
from headwater.sources.postgres_types import Table

PREFIX = "headwater"
_MOST_AT_ONCE = 1000
_FEEDBACK_S = 10.0
_EPOCH_2000_S = 946_684_800
_MANY_REQUESTS = 5
_DOING = "read the log"
_NOT_READY = b"55000"


@dataclass
class _Open:
    """A transaction whose commit has not come by yet."""

    xid: int
    covered: bool
    updates: list[Update] = field(default_factory=list)


class Interpreter:
    """Makes transactions out of the messages of the log; knows no connection."""

    def __init__(
        self, source: str, tables: Mapping[str, Table], slot: str, at: LogPosition, near_xid: int
    ) -> None:
        self.at = at
        """Up to where everything has been reported."""
        self._source = source
        self._tables = {table.oid: table for table in tables.values()}
        self._marks = slot + "/"
        self._near_xid = near_xid
        self._problems: dict[int, SourceError] = {}
        self._open: _Open | None = None

    def take(self, data: bytes) -> Logged | None:
        """What one message means; SourceError if reading cannot go on."""
        message = decode(data)
        match message:
            case pgoutput.Insert(oid, new):
                self._change(oid, None, new)
            case pgoutput.Update(oid, old, whole, new):
                self._change(oid, old, filled(new, old) if old and whole else new, whole)
            case pgoutput.Delete(oid, old, whole):
                self._change(oid, old, None, whole)
            case pgoutput.Begin(commit_lsn, xid):
                self._near_xid = full_xid(xid, self._near_xid)
                covered = self.at.covers(commit_lsn, self._near_xid)
                self._open = _Open(self._near_xid, covered)
            case pgoutput.Commit(_, end_lsn):
                return self._commit(end_lsn)
            case pgoutput.SentRelation():
                self._compare(message)
            case pgoutput.Truncate(oids):
                self._truncate(oids)
            case pgoutput.Message(_, _, prefix, content) if prefix == PREFIX:
                marker = content.decode(errors="replace")
                return Marked(marker) if marker.startswith(self._marks) else None
        return None

    def reached(self, lsn: int) -> Logged | None:
        """The server says that it has sent everything up to here."""
        if self._open is not None or lsn <= self.at.lsn:
            return None
        self.at = self.at.moved(lsn)
        return Progressed(self.at.json())

    def _commit(self, end_lsn: int) -> Logged | None:
        assert self._open is not None, "a commit without a begin"
        done, self._open = self._open, None
        if not done.updates:
            return self.reached(end_lsn)
        self.at = self.at.moved(end_lsn)
        transaction = Transaction(
            f"{done.xid}@{lsn_text(end_lsn)}",
            tuple(done.updates),
            (self._source,),
            (self._source,),
        )
        return Committed(transaction, self.at.json(), done.xid)

    def _change(
        self,
        oid: int,
        old: Sequence[Datum] | None,
        new: Sequence[Datum] | None,
        whole: bool = True,
    ) -> None:
        table = self._tables.get(oid)
        if table is None or self._open is None or self._open.covered:
            return
        if oid in self._problems:
            raise self._problems[oid]
        if not whole:
            raise not_full(table)
        counts: dict[Row, int] = {}
        if old is not None:
            counts[self._row(table, old)] = -1
        if new is not None:
            row = self._row(table, new)
            counts[row] = counts.get(row, 0) + 1
        delta = Rows(table.relational_schema, counts)
        if delta:
            self._open.updates.append(Update(table.name, delta))

    def _row(self, table: Table, data: Sequence[Datum]) -> Row:
        present = [value for value in data if not isinstance(value, pgoutput.Missing)]
        if len(present) != len(table.columns):
            raise not_full(table)
        return table.row(present)

    def _compare(self, sent: SentRelation) -> None:
        """Note whether a table still is what it was; it matters once it changes."""
        table = self._tables.get(sent.oid)
        if table is None:
            return
        self._problems.pop(sent.oid, None)
        columns = [(c.name, c.type_oid, c.modifier) for c in sent.columns]
        expected = [(c.name, c.oid, c.modifier) for c in table.columns]
        if (sent.namespace, sent.name) != (table.schema, table.name) or columns != expected:
            self._problems[sent.oid] = altered(
                table, sent.namespace, sent.name, [c.name for c in sent.columns]
            )
        elif sent.identity != "f":
            self._problems[sent.oid] = not_full(table)

    def _truncate(self, oids: Sequence[int]) -> None:
        hit = [self._tables[oid].label for oid in oids if oid in self._tables]
        if hit and self._open is not None and not self._open.covered:
            raise SourceError(
                f"Source {self._source}: TRUNCATE of {', '.join(hit)}, whose rows the log does "
                "not hold.",
                "The views over it must be loaded again; DELETE can be followed.",
            )


class PostgresMonitor:
    """A replication connection. One thread reads; any may acknowledge or close."""

    def __init__(self, access: Access, pgconn: pq.abc.PGconn, interpreter: Interpreter) -> None:
        self._access = access
        self._pgconn = pgconn
        self._interpreter = interpreter
        self._lock = threading.Lock()
        self._failure: SourceError | None = None
        self._received = interpreter.at.lsn
        self._acknowledged = 0
        self._reported = 0
        self._next_feedback = time.monotonic() + _FEEDBACK_S
        self._requests: list[float] = []
        self._warning: SourceError | None = None
        pgconn.notice_handler = self._notice

    def start(self, slot: str, publication: str) -> None:
        """Ask the server to send from the position on."""
        at = lsn_text(self._interpreter.at.lsn)
        name = publication.replace('"', '""').replace("'", "''")
        command = (
            f"START_REPLICATION SLOT \"{slot}\" LOGICAL {at} (proto_version '1', "
            f"publication_names '\"{name}\"', messages 'true')"
        )
        result = self._pgconn.exec_(command.encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            raise self._access.result_failure(result, _DOING)

    def read(self, timeout_s: float) -> Sequence[Logged]:
        deadline = time.monotonic() + timeout_s
        logged: list[Logged] = []
        while len(logged) < _MOST_AT_ONCE:
            more = self._step(logged)
            left = deadline - time.monotonic()
            if left <= 0 or (logged and not more):
                break
            if not more:
                self._wait(left)
        return logged

    def _step(self, logged: list[Logged]) -> bool:
        """Read what has arrived. What came before an error is handed over before the error."""
        with self._lock:
            if self._failure is None:
                try:
                    with self._access.errors(_DOING):
                        return self._take(logged)
                except SourceError as error:
                    self._failure = error
            if logged:
                return False
            raise self._failure

    def acknowledge(self, position: Position) -> None:
        lsn = LogPosition.of(position).lsn
        with self._lock:
            self._acknowledged = max(self._acknowledged, lsn)

    def close(self) -> None:
        with self._lock:
            if self._pgconn.status != pq.ConnStatus.OK:
                self._pgconn.finish()
                return
            self._failure = LostConnectionError(
                f"Source {self._access.source}: its monitor was closed."
            )
            try:
                if self._acknowledged > self._reported:
                    self._send_feedback()
            except psycopg.Error:
                pass  # the server sends it again
            finally:
                self._pgconn.finish()

    # With the lock held

    def _take(self, logged: list[Logged]) -> bool:
        """Read what has arrived; whether there may be more."""
        if self._acknowledged > self._reported or time.monotonic() >= self._next_feedback:
            self._send_feedback()
        self._pgconn.consume_input()
        for _ in range(_MOST_AT_ONCE):
            size, data = self._pgconn.get_copy_data(1)
            if self._warning is not None:
                raise self._warning
            if size == 0:
                return False
            if size < 0:
                raise self._ended()
            if (item := self._message(bytes(data))) is not None:
                logged.append(item)
        return True

    def _message(self, data: bytes) -> Logged | None:
        if data[:1] == b"w":
            self._requests.clear()
            start, end = struct.unpack_from("!QQ", data, 1)
            self._received = max(self._received, start, end)
            return self._interpreter.take(data[25:])
        if data[:1] == b"k":
            (end,) = struct.unpack_from("!Q", data, 1)
            self._received = max(self._received, end)
            if data[17]:
                self._send_feedback()
                self._notice_shutdown()
            return self._interpreter.reached(end)
        return None

    def _notice(self, result: pq.abc.PGresult) -> None:
        """From version 18 on the server only warns when the publication is gone."""
        if result.error_field(pq.DiagnosticField.SQLSTATE) == _NOT_READY:
            failure = self._access.result_failure(result, _DOING)
            hint = "Changes have been missed: run setup and load the views again."
            self._warning = SourceError(failure.message, hint)

    def _notice_shutdown(self) -> None:
        """A server that shuts down asks over and over until all is acknowledged, or we go."""
        now = time.monotonic()
        self._requests = [asked for asked in self._requests if asked > now - 1.0] + [now]
        if len(self._requests) > _MANY_REQUESTS:
            raise LostConnectionError(f"Source {self._access.source}: the server shuts down.")

    def _send_feedback(self) -> None:
        clock = int((time.time() - _EPOCH_2000_S) * 1_000_000)
        acknowledged = self._acknowledged
        self._pgconn.put_copy_data(
            struct.pack("!cQQQqB", b"r", self._received, acknowledged, acknowledged, clock, 0)
        )
        self._pgconn.flush()
        self._reported = acknowledged
        self._next_feedback = time.monotonic() + _FEEDBACK_S

    def _ended(self) -> SourceError:
        result = self._pgconn.get_result()
        if result is None or result.status != pq.ExecStatus.FATAL_ERROR:
            return LostConnectionError(f"Source {self._access.source}: the server ended the log.")
        return self._access.result_failure(result, _DOING)

    # Without the lock

    def _wait(self, seconds: float) -> None:
        until_feedback = max(0.0, self._next_feedback - time.monotonic())
        try:
            poll = select.poll()
            poll.register(self._pgconn.socket, select.POLLIN)
            poll.poll(1000 * min(seconds, until_feedback + 0.001))
        except (psycopg.Error, OSError, ValueError):
            return  # closed meanwhile; the next step says so
