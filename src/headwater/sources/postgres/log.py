"""What the messages of PostgreSQL's log mean: whole transactions, markers, gaps, and progress.

Rows are read by the names of their columns, as the log last described their table, so columns
that nobody wants may come and go. Whatever the log cannot tell is a gap, for the relation or
the columns concerned; the rest goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Protocol

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import TEXT, Row
from headwater.protocol.transactions import Tag, Transaction, Update
from headwater.sources.contract import Broken, Committed, Logged, Marked, Progressed
from headwater.sources.postgres import pgoutput
from headwater.sources.postgres.columnar import MANY, rows_of_messages
from headwater.sources.postgres.history import other_history
from headwater.sources.postgres.meanings import FIRST_OWN, PRINTED, own_meaning
from headwater.sources.postgres.pgoutput import (
    Datum,
    PgMessage,
    SentColumn,
    SentRelation,
    Tuple,
    decode,
    filled,
    is_message,
    lsn_text,
)
from headwater.sources.postgres.position import Last, LogPosition
from headwater.sources.postgres.sight import ANYWAY, Gap, Sight, compare
from headwater.sources.postgres.snapshot import full_xid
from headwater.sources.postgres.types import Table, TableColumn, UnreadableError

PREFIX = "headwater"
"""Under which wrappers write their markers into the log."""
TAG_PREFIX = "headwater.global"
"""Under which applications say that a transaction is a part of a global one."""
_LONGEST_MARKER = 200
_LONGEST_TAG = 2000
_OUTSIDE = "it was written outside of a transaction, so nobody knows what it belongs to"
_MOST_STRAY = 10
_MOST_UNREAD = 50_000
"""After so many messages about one table they are read, though their transaction goes on."""
_NOT_WHOLE = "the log does not hold its whole old rows; 'headwater setup' makes it"
_TRUNCATED = "it was emptied by TRUNCATE, and the log does not hold the rows"


class Catalog(Protocol):
    """What can be seen at the source now."""

    def look(self, including: int | None = None) -> Sight:
        """The tables, in a snapshot that holds a transaction."""

    def columns(self, oid: int) -> Sequence[str]:
        """The columns of a table or a partition, in the order in which the log sends them."""


class _NotWholeError(Exception):
    """A change of a row came without all of its old values."""


@dataclass
class _Open:
    """A transaction whose commit has not come by yet."""

    xid: int
    last: Last
    covered: bool
    messages: dict[int, list[bytes]] = field(default_factory=dict)
    """What came about each table, not read yet."""
    parts: dict[int, list[Rows]] = field(default_factory=dict)
    """The net change of each table by messages that were read already."""
    broken: dict[int, str] = field(default_factory=dict)
    """The tables of which the log does not tell all that happened, and why."""
    unreadable: dict[int, dict[str, str]] = field(default_factory=dict)
    """The columns of tables with a value that has no equal here, and why."""
    tags: list[Tag] = field(default_factory=list)
    """The global transactions that it is a part of."""

    def forget(self, oid: int) -> None:
        for kept in (self.messages, self.parts, self.broken, self.unreadable):
            kept.pop(oid, None)


class Interpreter:
    """Makes transactions out of the messages of the log; knows no connection.

    `unfollowed` are relations that cannot be read, each with the reason; `awaited` are the markers
    that questions have written: any role may write others.
    """

    def __init__(
        self,
        source: str,
        tables: Mapping[str, Table],
        unfollowed: Mapping[str, str],
        awaited: Container[str],
        at: LogPosition,
        near_xid: int,
        catalog: Catalog,
    ) -> None:
        self.at = at
        """Up to where everything has been reported."""
        self._source = source
        self._tables = dict(tables)
        self._unfollowed = unfollowed
        self._by_oid = {table.oid: table for table in tables.values()}
        self._by_label = {(table.schema, table.name): table for table in tables.values()}
        self._sent: dict[int, SentRelation] = {}
        self._shapes: dict[int, Table] = {}  # the tables as the log last described them
        self._absent: dict[str, frozenset[str]] = {}
        """The wanted columns that tables lacked when the catalog was last looked at, or of which
        that has told a gap."""
        self._missed: dict[int, set[str]] = {}
        """Those that rows of a table lack for now, which has been told."""
        self._awaited = awaited
        self._near_xid = near_xid
        self._catalog = catalog
        self._expected = at.last
        self._open: _Open | None = None
        self._stray: deque[Tag] = deque(maxlen=_MOST_STRAY)
        """Tags that were written outside of transactions, and not told yet."""

    def take(self, data: bytes | memoryview) -> Sequence[Logged]:
        """What one message means; SourceError if reading cannot go on.

        Only what is of interest is copied: any role may write messages, and large ones.
        """
        kind = bytes(data[:1])
        if kind in (b"I", b"U", b"D"):
            self._keep(data)
            return ()
        if kind == b"M" and not is_message(data, PREFIX, _LONGEST_MARKER):
            self._tag(data)
            return ()
        message = decode(bytes(data))
        match message:
            case pgoutput.Begin(commit_lsn, xid, committed_at):
                self._near_xid = full_xid(xid, self._near_xid)
                last = Last(commit_lsn, xid, committed_at)
                self._verify(last)
                seen = self.at.seen
                if seen and seen.doubted and commit_lsn > seen.doubted_upto:
                    self.at = replace(self.at, seen=replace(seen, doubted={}))
                covered = self.at.covers(commit_lsn, self._near_xid)
                self._open = _Open(self._near_xid, last, covered)
            case pgoutput.Commit(_, end_lsn):
                return self._commit(end_lsn)
            case pgoutput.SentRelation():
                return self._describe(message)
            case pgoutput.Truncate(oids):
                self._truncate(oids)
            case pgoutput.Message(_, _, _, content):
                marker = content.decode(errors="replace")
                return (Marked(marker),) if marker in self._awaited else ()
        return ()

    def _tag(self, data: bytes | memoryview) -> None:
        """Keep a tag for its transaction; one that belongs to none is told with the next."""
        if not is_message(data, TAG_PREFIX, len(data)):
            return
        if not is_message(data, TAG_PREFIX, _LONGEST_TAG):
            tag = Tag("", 0, f"it is longer than {_LONGEST_TAG} bytes")
        else:
            message = decode(bytes(data))
            assert isinstance(message, pgoutput.Message)
            tag = Tag.from_json(message.content)
            if not message.transactional:
                tag = Tag(tag.id, 0, _OUTSIDE)
        if self._open is None:
            self._stray.append(tag)
        elif tag not in self._open.tags:
            self._open.tags.append(tag)

    def reached(self, lsn: int) -> Sequence[Logged]:
        """The server says that it has sent everything up to here."""
        if self._open is not None or lsn <= self.at.lsn:
            return ()
        if self._expected is not None:
            raise other_history(self._source, self._expected.commit_lsn)
        return self._progressed(lsn, None)

    def look(self, including: int | None = None) -> Sequence[Broken]:
        """Look at the catalog; what has changed there behind the log's back."""
        return self.compare(self._catalog.look(including))

    def compare(self, sight: Sight) -> Sequence[Broken]:
        """What has changed since the catalog was last looked at."""
        self._route(sight)
        seen, gaps = compare(self.at.seen, sight, self._tables, self._unfollowed)
        self.at = replace(self.at, seen=seen)
        for name, table in self._tables.items():
            wanted = frozenset(column.name for column in table.wanted)
            there = sight.tables.get(name)
            lost = wanted - (there.columns.keys() if there is not None else frozenset())
            told = (gap.columns.get(name, ()) for gap in gaps if gap.columns is not None)
            everything = any(gap.columns is None for gap in gaps)
            self._absent[name] = lost.union(*(wanted if of is None else of for of in told))
            self._absent[name] |= wanted if everything else frozenset()
        return [self._gap(gap, self.at) for gap in gaps]

    def _route(self, sight: Sight) -> None:
        """Read under each name the table that has it now.

        What had the name before and is not read yet is behind no load: both have a gap.
        """
        by_oid = {
            oid: replace(self._tables[name], oid=oid)
            for name, found in sight.tables.items()
            if name in self._tables
            for oid in (found.oid, *found.partitions)
        }
        other = {
            oid
            for oid, table in self._by_oid.items()
            if oid not in by_oid or by_oid[oid].relation_name != table.relation_name
        }
        self._by_oid = by_oid
        for oid in other:
            self._shapes.pop(oid, None)
            if self._open is not None:
                self._open.forget(oid)
        for oid in by_oid.keys() & self._sent.keys() - self._shapes.keys():
            self._shapes[oid] = self._shaped(oid)

    def _verify(self, last: Last) -> None:
        """The last transaction that was read comes first again, and then what was not read."""
        if self._expected is not None:
            if last.commit_lsn < self._expected.commit_lsn:
                return
            if last != self._expected:
                raise other_history(self._source, self._expected.commit_lsn)
            self._expected = None
        elif last.commit_lsn < self.at.lsn and self.at.snapshot is None:
            raise other_history(self._source, last.commit_lsn)

    def _progressed(self, lsn: int, last: Last | None) -> Sequence[Logged]:
        if lsn <= self.at.lsn:
            return ()
        self.at = self.at.moved(lsn, last)
        return (Progressed(self.at.json()),)

    def _commit(self, end_lsn: int) -> Sequence[Logged]:
        assert self._open is not None, "a commit without a begin"
        gaps = self._gaps_before(self._open)
        done, self._open = self._open, None
        return [*gaps, *self._committed(done, end_lsn)]

    def _gaps_before(self, of: _Open) -> Sequence[Broken]:
        """What the catalog tells and the log does not, where that could be: labels that have other
        names, partitions that have gone. It was done before the changes that are behind it."""
        seen = self.at.seen
        if seen is None or of.covered or seen.snapshot.includes(of.xid):
            return ()
        changed = (self._by_oid[oid] for oid in {*of.messages, *of.parts} if oid in self._by_oid)
        return self.look(of.xid) if any(map(_is_altered_unseen, changed)) else ()

    def _committed(self, done: _Open, end_lsn: int) -> Sequence[Logged]:
        updates = tuple(self._updates(done))
        broken = self._broken(done)
        tags = () if done.covered else (*self._stray, *done.tags)
        if not updates and not broken and not tags:
            return self._progressed(end_lsn, done.last)
        logged: list[Logged] = []
        if broken and self.at.told != done.last.commit_lsn:
            if updates or tags:
                at = replace(self.at, told=done.last.commit_lsn)
            else:
                at = self.at.moved(end_lsn, done.last)
            logged = [self._gap(gap, at) for gap in broken]
        self.at = self.at.moved(end_lsn, done.last)
        if updates or tags:
            self._stray.clear()
            transaction = Transaction(
                f"{done.xid}@{lsn_text(end_lsn)}",
                updates,
                (self._source,),
                (self._source,),
                tags=tags,
            )
            logged.append(Committed(transaction, self.at.json(), done.xid))
        return logged

    def _keep(self, data: bytes | memoryview) -> None:
        """Keep a change of a row until its transaction commits."""
        oid = int.from_bytes(data[1:5])
        if oid not in self._shapes or self._open is None or self._open.covered:
            return
        messages = self._open.messages.setdefault(oid, [])
        messages.append(bytes(data))
        if len(messages) >= _MOST_UNREAD:
            self._read(self._open, oid)

    def _read(self, of: _Open, oid: int) -> None:
        """Read what is kept about a table, in columns if it is much."""
        messages, table = of.messages.pop(oid, []), self._shapes[oid]
        if messages:
            self._miss(of, oid)
        delta = rows_of_messages(messages, table) if len(messages) >= MANY else None
        if delta is None:
            try:
                delta = self._readable(of, oid, messages)
            except _NotWholeError:
                of.broken[oid] = _NOT_WHOLE
                return
        of.parts.setdefault(oid, []).append(delta)

    def _miss(self, of: _Open, oid: int) -> None:
        """Rows changed while a wanted column had another name, or another type: what became of it
        is not known, also if they look alike without it and the catalog is as it was."""
        table = self._by_oid[oid]
        told = self._missed.setdefault(oid, set())
        lacking = {c.name for c in table.wanted} - {c.name for c in self._shapes[oid].wanted}
        told &= lacking
        for column in sorted(lacking - told - self._absent.get(table.relation_name, frozenset())):
            reason = f"table {table.label} was changed while it had no column {column} as before"
            of.unreadable.setdefault(oid, {})[column] = reason
        told |= lacking

    def _readable(self, of: _Open, oid: int, messages: Sequence[bytes]) -> Rows:
        """What messages change, in the columns of which every value can be read."""
        table, lost = self._shapes[oid], of.unreadable.setdefault(oid, {})
        while True:
            used = frozenset(table.relational_schema.names) - lost.keys()
            try:
                return self._row_by_row(messages, replace(table, used=used))
            except UnreadableError as error:
                lost[error.column] = error.reason

    def _updates(self, done: _Open) -> Iterator[Update]:
        found: dict[str, list[Rows]] = {}
        for oid in dict.fromkeys([*done.parts, *done.messages]):
            self._read(done, oid)
            table = self._by_oid[oid]
            if oid not in done.broken:
                ordered = (_ordered(part, table) for part in done.parts[oid])
                found.setdefault(table.relation_name, []).extend(ordered)
        for name, of in found.items():
            for schema, parts in groupby(of, lambda part: part.schema):
                if delta := Rows.sum(schema, parts):
                    yield Update(f"{self._source}.{name}", delta)

    def _broken(self, done: _Open) -> list[Gap]:
        found: list[Gap] = []
        for oid, reason in done.broken.items():
            table = self._by_oid[oid]
            found.append(
                Gap({table.relation_name: None}, f"table {table.label}: {reason}", done.xid)
            )
        for oid, reasons in done.unreadable.items():
            for column, reason in reasons.items():
                name = self._by_oid[oid].relation_name
                found.append(Gap({name: frozenset({column})}, reason, done.xid))
        return found

    def _gap(self, gap: Gap, at: LogPosition) -> Broken:
        columns = None
        if gap.columns is not None:
            columns = {f"{self._source}.{name}": of for name, of in gap.columns.items()}
        return Broken(columns, gap.reason, at.json(), gap.stamp)

    def _row_by_row(self, messages: Iterable[bytes], table: Table) -> Rows:
        counts: dict[Row, int] = {}
        for message in map(decode, messages):
            for data, sign in _images(message):
                row = self._row(table, data)
                counts[row] = counts.get(row, 0) + sign
        return Rows(table.relational_schema, counts)

    def _row(self, table: Table, data: Sequence[Datum]) -> Row:
        if pgoutput.UNCHANGED in data or len(data) != len(table.columns):
            raise _NotWholeError
        return table.row(data)  # type: ignore[arg-type] # nothing is missing

    def _describe(self, sent: SentRelation) -> Sequence[Logged]:
        """A table as it is from here on; if it was altered just now, the catalog tells how."""
        of = self._open
        self._sent[sent.oid] = sent
        if of is None or not self._is_of_interest(sent):
            return ()
        if of.messages.get(sent.oid):
            self._read(of, sent.oid)
        logged: Sequence[Logged] = ()
        if self.at.seen is not None and not self.at.seen.snapshot.includes(of.xid):
            logged = self.look(of.xid)
        if sent.oid in self._by_oid:
            self._shapes[sent.oid] = self._shaped(sent.oid)
        return logged

    def _shaped(self, oid: int) -> Table:
        """How rows of a table are read from here on.

        Columns in doubt are themselves if nothing has become of the others but that new ones came.
        """
        table, sent = self._by_oid[oid], self._sent[oid]
        doubted = self.at.seen.doubted.get(table.relation_name) if self.at.seen else ()
        if not doubted:
            return _shape(table, sent)
        was = [column.name for column in sent.columns]
        now = self._catalog.columns(oid)
        shape = _shape(table, sent)
        if ANYWAY not in doubted and now[: len(was)] == was:
            return shape
        return replace(shape, used=(shape.used or frozenset()).difference(doubted))

    def _is_of_interest(self, sent: SentRelation) -> bool:
        """Whether this is a table that is followed, or may be a new partition of one."""
        is_known = sent.oid in self._by_oid or (sent.namespace, sent.name) in self._by_label
        return is_known or any(t.partitions is not None for t in self._tables.values())

    def _truncate(self, oids: Sequence[int]) -> None:
        if self._open is not None and not self._open.covered:
            for oid in oids:
                if oid in self._by_oid:
                    self._open.broken[oid] = _TRUNCATED


def _is_altered_unseen(table: Table) -> bool:
    """Whether something can be done to a table after which the log does not describe it anew."""
    own = any(column.oid >= FIRST_OWN for column in table.wanted)
    return own or table.partitions is not None


def _shape(table: Table, sent: SentRelation) -> Table:
    """The table with the columns that rows have here, and of the wanted ones those as before."""
    known = {column.name: column for column in table.wanted}
    columns = [_column(known.get(column.name), column) for column in sent.columns]
    used = frozenset(column.name for column, is_wanted in columns if is_wanted)
    return replace(table, columns=tuple(column for column, _ in columns), used=used)


def _column(known: TableColumn | None, sent: SentColumn) -> tuple[TableColumn, bool]:
    """How a column is read, and whether it is."""
    if known is not None:
        if (sent.type_oid, sent.modifier) == (known.oid, known.modifier):
            return known, True
        if sent.type_oid == known.oid and known.form_name == PRINTED:
            return replace(known, modifier=sent.modifier), True
        try:
            meaning = own_meaning(sent.type_oid, sent.modifier)
        except ValueError:
            meaning = None
        if meaning is not None and meaning.type == known.type:
            column = replace(known, oid=sent.type_oid, modifier=sent.modifier)
            return replace(column, form_name=meaning.form), True
    return TableColumn(sent.name, sent.type_oid, sent.modifier, "", 0, TEXT), False


def _ordered(delta: Rows, table: Table) -> Rows:
    """With the columns in the order that the relation has them."""
    kinds = dict(zip(delta.schema.names, delta.schema.columns, strict=True))
    names = [column.name for column in table.wanted if column.name in kinds]
    if names == list(delta.schema.names):
        return delta
    return delta.only(Schema(tuple(kinds[name] for name in names)))


def _images(message: PgMessage) -> Iterator[tuple[Tuple, int]]:
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
            raise _NotWholeError
