"""What the messages of PostgreSQL's log mean: whole transactions, markers, and progress."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.algebra.rows import Rows
from headwater.algebra.values import Row
from headwater.errors import SourceError
from headwater.protocol.transactions import Transaction, Update
from headwater.sources.contract import Committed, Logged, Marked, Progressed
from headwater.sources.postgres import pgoutput
from headwater.sources.postgres.columnar import MANY, rows_of_messages
from headwater.sources.postgres.pgoutput import (
    Datum,
    PgMessage,
    SentRelation,
    Tuple,
    decode,
    filled,
    lsn_text,
)
from headwater.sources.postgres.setup import altered, not_full
from headwater.sources.postgres.snapshot import LogPosition, full_xid
from headwater.sources.postgres.types import Table

PREFIX = "headwater"
"""Under which wrappers write their markers into the log."""


_MOST_UNREAD = 50_000
"""After so many messages about one table they are read, though their transaction goes on."""


@dataclass
class _Open:
    """A transaction whose commit has not come by yet."""

    xid: int
    covered: bool
    messages: dict[int, list[bytes]] = field(default_factory=dict)
    """What came about each table, not read yet."""
    parts: dict[int, list[Rows]] = field(default_factory=dict)
    """The net change of each table by messages that were read already."""


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
        if data[:1] in (b"I", b"U", b"D"):
            self._keep(data)
            return None
        message = decode(data)
        match message:
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
        updates = tuple(self._updates(done))
        if not updates:
            return self.reached(end_lsn)
        self.at = self.at.moved(end_lsn)
        transaction = Transaction(
            f"{done.xid}@{lsn_text(end_lsn)}",
            updates,
            (self._source,),
            (self._source,),
        )
        return Committed(transaction, self.at.json(), done.xid)

    def _keep(self, data: bytes) -> None:
        """Keep a change of a row until its transaction commits."""
        oid = int.from_bytes(data[1:5])
        if oid not in self._tables or self._open is None or self._open.covered:
            return
        if oid in self._problems:
            raise self._problems[oid]
        messages = self._open.messages.setdefault(oid, [])
        messages.append(data)
        if len(messages) >= _MOST_UNREAD:
            self._read(self._open, oid)

    def _read(self, of: _Open, oid: int) -> None:
        """Read what is kept about a table, in columns if it is much."""
        messages, table = of.messages.pop(oid, []), self._tables[oid]
        delta = rows_of_messages(messages, table) if len(messages) >= MANY else None
        if delta is None:
            delta = self._row_by_row(messages, table)
        of.parts.setdefault(oid, []).append(delta)

    def _updates(self, done: _Open) -> Iterator[Update]:
        for oid in dict.fromkeys([*done.parts, *done.messages]):
            self._read(done, oid)
            table = self._tables[oid]
            if delta := Rows.sum(table.relational_schema, done.parts[oid]):
                yield Update(f"{self._source}.{table.name}", delta)

    def _row_by_row(self, messages: Iterable[bytes], table: Table) -> Rows:
        counts: dict[Row, int] = {}
        for message in map(decode, messages):
            for data, sign in _images(message, table):
                row = self._row(table, data)
                counts[row] = counts.get(row, 0) + sign
        return Rows(table.relational_schema, counts)

    def _row(self, table: Table, data: Sequence[Datum]) -> Row:
        if pgoutput.UNCHANGED in data or len(data) != len(table.columns):
            raise not_full(table)
        return table.row(data)  # type: ignore[arg-type] # nothing is missing

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


def _images(message: PgMessage, table: Table) -> Iterator[tuple[Tuple, int]]:
    """The row that a change takes away and the one that it brings, with their signs."""
    match message:
        case pgoutput.Insert(_, new):
            yield new, 1
        case pgoutput.Update(_, old, True, new) if old is not None:
            yield old, -1
            yield filled(new, old), 1
        case pgoutput.Delete(_, old, True):
            yield old, -1
        case _:
            raise not_full(table)
