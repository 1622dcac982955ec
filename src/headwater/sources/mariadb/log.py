"""What the events of a binary log mean: whole transactions, gaps, and progress.

Rows are read by the names of their columns, as the log describes their table before each change,
so columns that nobody wants may come and go. Whatever the log cannot tell is a gap, for the
relation or the columns concerned; the rest goes on. Knows no connection.
"""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headwater.errors import BrokenLogError, SourceError
from headwater.protocol.transactions import Tag, Transaction, Update
from headwater.sources.contract import Broken, Committed, Logged
from headwater.sources.mariadb import binlog
from headwater.sources.mariadb.binlog import Event, Header, RowChanges, TableMap
from headwater.sources.mariadb.changes import (
    Change,
    ChangeReader,
    NotWholeError,
    Shape,
    shape_of_tags,
)
from headwater.sources.mariadb.ddl import Name, effect_of
from headwater.sources.mariadb.places import Group, LogPosition, Place
from headwater.sources.mariadb.types import Table

TAGGING = "_headwater_global"
_ONE_PHASE = re.compile(r"\s+ONE\s+PHASE", re.IGNORECASE)
_LOW_BITS = (1 << 32) - 1
_FILE_BEGINS = 4
_NAMES_OF_GROUPS = (35, 163)
_COMPRESSED_TRANSACTION = 40
_XA = (
    "an XA transaction changed it, and snapshots that are known by the server's status may lack "
    'what such a transaction has committed already; write snapshots = "lock" in the settings of '
    "the source"
)
_XA_UNSEEN = "an XA transaction was committed whose changes were logged before what was read"


@dataclass
class _Open:
    """A group whose end has not come by yet."""

    id: str
    start: Place
    logged_at: int
    has_begun: bool
    """Whether it has an end of its own; else the first statement is all of it."""
    is_covered: bool = False
    checksum: int = 0
    changes: list[Change] = field(default_factory=list)
    effects: list[tuple[str, dict[str, frozenset[str] | None]]] = field(default_factory=list)
    """Gaps that statements in it made: why, and what is concerned."""
    savepoints: list[tuple[str, int]] = field(default_factory=list)


class Interpreter:
    """Makes transactions out of the events of the log.

    `tables` are those that are followed by the names of their relations, `missing` the wanted
    ones that are not there, and why. `places` has the tables' names for both. `own` is the table
    that setup has made, without which nothing is followed; it is in the database of tags.
    `is_xa_exact` says whether snapshots are right about XA transactions.
    """

    def __init__(
        self,
        source: str,
        tables: Mapping[str, Table],
        missing: Mapping[str, str],
        places: Mapping[Name, Sequence[str]],
        own: Name,
        at: LogPosition,
        *,
        is_xa_exact: bool = True,
    ) -> None:
        self.at = at
        """Up to where everything has been reported."""
        self._source = source
        self._tables = tables
        self._places = places
        self._own = own
        self._is_xa_exact = is_xa_exact
        self._by_name = {(t.database, t.name): n for n, t in tables.items()}
        self._all = dict.fromkeys(name for names in places.values() for name in names)
        self._expected = at.last
        begin = at.begin
        self._now = begin
        self._is_first = True
        self._open: _Open | None = None
        self._prepared: dict[str, _Open] = {}
        self._maps: dict[int, tuple[bytes, Shape | None]] = {}
        self._reader = ChangeReader(tables)
        self._missing = dict(missing)

    @property
    def reached(self) -> int:
        """The stamp up to which everything has been read."""
        if self._expected is not None:
            return -1
        if self._now.stamp < self.at.at.stamp:
            return -1
        return (self._now if self._open is None else self._open.start).stamp

    def opened(self) -> list[Broken]:
        """Gaps of what is not there any more, unless they have been told."""
        back = {n for n, of in self.at.lost.items() if of is None and n in self._tables}
        lost = {name: of for name, of in self.at.lost.items() if name not in back}
        told = []
        for name, reason in self._missing.items():
            if name not in lost:
                lost[name] = None
                told.append((name, reason))
        self.at = replace(self.at, lost=lost)
        return [self._gap({name: None}, reason, None) for name, reason in told]

    def take(self, header: Header, body: memoryview) -> Sequence[Logged]:
        """What one event means; SourceError if reading cannot go on."""
        try:
            return self._taken(header, body)
        except binlog.CorruptEventError as error:  # its checksum was right: it comes again
            raise BrokenLogError(
                self._source,
                f"the log has an event behind {self._now} that cannot be read here: {error}.",
            ) from None

    def _taken(self, header: Header, body: memoryview) -> Sequence[Logged]:
        if header.type == 19 and self._open is not None:
            self._map(header, body)
            return ()
        event = binlog.decode(header, body)
        match event:
            case binlog.Rotate(file, position):
                self._rotated(Place(file, position), header.is_artificial)
                return ()
            case binlog.Format():
                self._maps.clear()
                self._moved(header)
                return ()
            case binlog.Heartbeat():
                return ()
        start = self._moved(header)
        if header.is_artificial and not isinstance(event, binlog.Gtid):
            return ()
        return self._event(event, header, start, body)

    def _event(
        self, event: Event, header: Header, start: Place, body: memoryview
    ) -> Sequence[Logged]:
        if isinstance(event, binlog.Gtid):
            covered = self._now.stamp <= self.at.at.stamp
            self._open = _Open(event.id, start, header.timestamp, event.has_end, covered)
        if self._open is not None:
            self._open.checksum = zlib.crc32(body, self._open.checksum)
        match event:
            case binlog.Gtid():
                return ()
            case binlog.Statement(database, text, is_certain):
                return self._statement(database, text, is_certain)
            case RowChanges():
                self._changed(event)
            case binlog.Commit():
                return self._ended()
            case binlog.Prepared(xid, is_committed):
                return self._was_prepared(_xid(xid), is_committed)
            case binlog.Incident():
                return [self._everything("the server says that its log has a gap here")]
            case binlog.Other(kind) if kind in _NAMES_OF_GROUPS:
                self._file_began(header, start, body)
            case binlog.Other(kind) if kind not in binlog.PASSED_OVER:
                raise self._unknown(kind)
        return ()

    # Places

    def _rotated(self, to: Place, is_artificial: bool) -> None:
        """The log goes on in another file; what has no end in the one before never was."""
        if not is_artificial and self._open is not None:
            self._open = None
        if to.file != self._now.file:
            self._open = None
        self._now = to

    def _moved(self, header: Header) -> Place:
        """Step over an event; where it begins."""
        if not header.end or (header.is_artificial and header.type != 162):
            return self._now
        end = self._now.position & ~_LOW_BITS | header.end
        if end < self._now.position:
            end += _LOW_BITS + 1
        start = Place(self._now.file, end - header.size)
        if self._is_first and self._now.position > _FILE_BEGINS and start != self._now:
            raise self._other_history()  # what is sent first begins where it was asked for
        self._is_first = False
        self._now = Place(self._now.file, end)
        return start

    def _file_began(self, header: Header, start: Place, body: memoryview) -> None:
        """A file begins with the names of what is before it, by which it is known."""
        if start.position > 4096:
            return
        found = Group(
            Place(start.file, _FILE_BEGINS),
            self._now,
            header.timestamp,
            zlib.crc32(body),
        )
        if self._is_verified(found) and self._now.stamp > self.at.at.stamp:
            self.at = self.at.moved(self._now, found)

    def _is_verified(self, group: Group) -> bool:
        """Whether the log is the one that was read; only then anything goes on."""
        expected = self._expected
        if expected is None:
            return True
        if group.end.stamp < expected.end.stamp and group != expected:
            return False
        if group != expected:
            raise self._other_history()
        self._expected = None
        return True

    def _other_history(self) -> SourceError:
        return BrokenLogError(
            self._source,
            "the log has something else where it was read last, so it is another server's, or one "
            "that was reset or restored.",
        )

    def _unknown(self, kind: int) -> SourceError:
        if kind == _COMPRESSED_TRANSACTION:
            return BrokenLogError(
                self._source,
                "the log has compressed transactions, which cannot be read here: set "
                "binlog_transaction_compression = OFF.",
            )
        return BrokenLogError(
            self._source, f"the log has events of the kind {kind}, which is not known here."
        )

    # What a group holds

    def _map(self, header: Header, body: memoryview) -> None:
        self._moved(header)
        assert self._open is not None
        self._open.checksum = zlib.crc32(body, self._open.checksum)
        number = int.from_bytes(body[:6], "little")
        data = bytes(body)
        known = self._maps.get(number)
        if known is None or known[0] != data:
            self._maps[number] = (data, self._shape_of(header, body))

    def _shape_of(self, header: Header, body: memoryview) -> Shape | None:
        """None for a table that nobody wants, of which nothing but the name is looked at."""
        name = binlog.name_of(header, body)
        is_tags = name[1] == TAGGING and name[0].lower() == self._own[0]
        if name not in self._by_name and not is_tags:
            return None
        event = binlog.decode(header, body)
        assert isinstance(event, TableMap)
        if is_tags:
            return shape_of_tags(event)
        return self._reader.shape(self._by_name[event.database, event.table], event)

    def _changed(self, rows: RowChanges) -> None:
        if self._open is None:
            return
        _, shape = self._maps.get(rows.number, (b"", None))
        if shape is not None:
            self._open.changes.append(Change(shape, rows))

    def _statement(self, database: str, text: str, is_certain: bool) -> Sequence[Logged]:
        group = self._open
        if group is None:
            return ()
        words = text.lstrip("( \t\n").split(None, 2)
        first = words[0].upper().rstrip(";") if words else ""
        second = words[1].upper() if len(words) > 1 else ""
        match first, second:
            case ("BEGIN", _) | ("XA", "START" | "BEGIN"):
                group.has_begun = True
                return ()
            case "XA", "END" | "PREPARE":
                return ()
            case "XA", "COMMIT":
                return self._xa_committed(text.strip()[len("XA COMMIT") :].strip())
            case "XA", "ROLLBACK":
                xid = _xid(text.strip()[len("XA ROLLBACK") :])
                self._forget_prepared(xid)
                group.changes.clear()
                return self._ended()
            case "COMMIT", _:
                return self._ended()
            case "ROLLBACK", "TO":
                self._roll_back_to(text)
                return ()
            case "ROLLBACK", _:
                group.changes.clear()
                return self._ended()
            case "SAVEPOINT", _:
                group.savepoints.append((_savepoint(text), len(group.changes)))
                return ()
        if is_certain:
            self._note_effect(group, database, text)
        else:
            group.effects.append((_UNCERTAIN, dict(self._all)))
        return () if group.has_begun else self._ended()

    def _roll_back_to(self, text: str) -> None:
        assert self._open is not None
        name = _savepoint(text)
        for known, count in reversed(self._open.savepoints):
            if known == name:
                del self._open.changes[count:]
                return
        if not all(known.isascii() for known in (name, *(n for n, _ in self._open.savepoints))):
            self._open.effects.append((_SAVEPOINT, dict(self._all)))
        self._open.changes.clear()

    def _note_effect(self, group: _Open, database: str, text: str) -> None:
        effect = effect_of(text, database)
        if effect.everything:
            group.effects.append((effect.everything, dict(self._all)))
            return
        if self._own in effect.tables or self._own[0] in effect.databases:
            raise BrokenLogError(self._source, "what setup made there was removed.")
        for name, what in effect.tables.items():
            self._note(group, [name], what)
        for gone, what in effect.databases.items():
            self._note(group, [name for name in self._places if name[0] == gone], what)
        for name in effect.keys:
            if any(self._tables[r].is_key_given for r in self._followed(name)):
                self._note(group, [name], "may have lost the index that keeps its key")
        for name, columns in effect.columns.items():
            for relation in self._followed(name):
                table = self._tables[relation]
                if used := sorted(table.concerned(columns)):
                    told = ", ".join(f"column {c} {columns[c.lower()]}" for c in used)
                    reason = f"table {table.label}: {told}"
                    group.effects.append((reason, {relation: frozenset(used)}))

    def _followed(self, name: Name) -> list[str]:
        """The relations that a statement may mean by a name."""
        return [relation for relation in self._places.get(name, ()) if relation in self._tables]

    def _note(self, group: _Open, names: Iterable[Name], what: str) -> None:
        for name in names:
            for relation in self._places.get(name, ()):
                group.effects.append((f"table {'.'.join(name)} {what}", {relation: None}))

    # The end of a group

    def _was_prepared(self, xid: str, is_committed: bool) -> Sequence[Logged]:
        if self._open is None:
            return ()
        if is_committed:
            return self._ended()
        group = self._open
        self._prepared[xid] = group
        if not group.is_covered:
            self.at = replace(self.at, prepared={**self.at.prepared, xid: group.start})
        self._open = replace(group, changes=[])
        return self._ended()

    def _xa_committed(self, name: str) -> Sequence[Logged]:
        """What waited is committed now."""
        assert self._open is not None
        xid = _xid(name)
        found = self._prepared.get(xid)
        self._forget_prepared(xid)
        if found is None:
            if not self._open.changes:
                self._open.effects.append((_XA_UNSEEN, dict(self._all)))
        elif self._is_xa_exact:
            self._open.changes[:0] = found.changes
        else:
            relations = {change.shape.relation for change in found.changes}
            if concerned := relations - {""}:
                self._open.effects.append((_XA, dict.fromkeys(sorted(concerned))))
        return self._ended()

    def _forget_prepared(self, xid: str) -> None:
        self._prepared.pop(xid, None)
        if self._open is not None and not self._open.is_covered:
            left = {name: place for name, place in self.at.prepared.items() if name != xid}
            self.at = replace(self.at, prepared=left)

    def _ended(self) -> Sequence[Logged]:
        group, self._open = self._open, None
        if group is None:
            return ()
        found = Group(group.start, self._now, group.logged_at, group.checksum)
        verified = self._is_verified(found)
        if group.is_covered or not verified:
            return ()
        return self._committed(group, found)

    def _committed(self, group: _Open, found: Group) -> Sequence[Logged]:
        logged: list[Logged] = []
        stamp = found.end.stamp
        for reason, concerned in group.effects:
            logged.append(self._gap(concerned, reason, stamp))
        updates, tags, gaps = self._read(group.changes)
        logged += [self._gap(concerned, reason, stamp) for reason, concerned in gaps]
        self.at = self.at.moved(found.end, found)
        if updates or tags:
            transaction = Transaction(
                f"{group.id}@{found.end}", updates, (self._source,), (self._source,), tags=tags
            )
            logged.append(Committed(transaction, self.at.json(), stamp))
        return logged

    def _is_untold(self, relation: str, column: str, changes: Sequence[Change]) -> bool:
        """Whether nobody knows yet that a column is not in the log; from here on it is known."""
        if not any(column in change.shape.lost for change in changes):
            return True  # a value cannot be read, each of which is told
        known = self.at.lost.get(relation, ())
        if known is None or column in known:
            return False
        lost = {**self.at.lost, relation: (*known, column)}
        self.at = replace(self.at, lost=lost)
        return True

    def _gap(
        self, concerned: Mapping[str, frozenset[str] | None], reason: str, stamp: int | None
    ) -> Broken:
        columns = {f"{self._source}.{name}": of for name, of in concerned.items()}
        return Broken(columns, reason, self.at.json(), stamp)

    def _everything(self, reason: str) -> Broken:
        return self._gap(dict(self._all), reason, self._now.stamp)

    # Rows

    def _read(
        self, changes: Sequence[Change]
    ) -> tuple[
        tuple[Update, ...], tuple[Tag, ...], list[tuple[str, dict[str, frozenset[str] | None]]]
    ]:
        """The updates and tags of a transaction, and what cannot be known of it."""
        by_relation: dict[str, list[Change]] = defaultdict(list)
        for change in changes:
            by_relation[change.shape.relation].append(change)
        tags = tuple(dict.fromkeys(self._reader.tags(by_relation.pop("", ()))))
        updates, gaps = [], list[tuple[str, dict[str, frozenset[str] | None]]]()
        for relation, found in by_relation.items():
            lost: dict[str, str] = {}
            for change in found:
                lost.update(change.shape.lost)
            try:
                delta = self._reader.delta(relation, found, lost)
            except NotWholeError as error:
                gaps.append((f"table {self._tables[relation].label}: {error}", {relation: None}))
                continue
            for column, reason in lost.items():
                if self._is_untold(relation, column, found):
                    gaps.append((reason, {relation: frozenset({column})}))
            if delta:
                updates.append(Update(f"{self._source}.{relation}", delta))
        return tuple(updates), tags, gaps


_UNCERTAIN = (
    "a statement was logged that cannot be read with certainty: its session had another "
    "character set than UTF-8, or backslashes that escape nothing"
)
_SAVEPOINT = "a transaction went back to a savepoint whose name may be that of several"
_TO_SAVEPOINT = re.compile(
    r"\s*(?:SAVEPOINT|ROLLBACK\s+TO(?:\s+SAVEPOINT)?)\s+(.*?)[;\s]*", re.IGNORECASE | re.DOTALL
)


def _savepoint(text: str) -> str:
    found = _TO_SAVEPOINT.fullmatch(text)
    name = found[1] if found else text
    return (name[1:-1].replace("``", "`") if name.startswith("`") else name).lower()


def _xid(text: str) -> str:
    """The name of an XA transaction as both servers log it: X'..',X'..',1."""
    parts = _ONE_PHASE.sub("", text.strip().rstrip(";")).replace(" ", "").split(",")
    gtrid, bqual, form = ([*parts, "X''", "1"] if len(parts) == 1 else [*parts, "1"])[:3]
    if len(parts) >= 3:
        form = parts[2]
    return f"{gtrid},{bqual},{form}".lower()
