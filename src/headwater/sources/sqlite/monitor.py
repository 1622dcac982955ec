"""The monitor of a SQLite source: reads the log of changes in whole transactions.

It always holds a read transaction, and begins the next one before it ends the last, so that
the write-ahead log still has every border since then (`wal`). While it runs, borders
are exact for writers that know nothing of it.

Choices: what was committed while no monitor ran has its borders in the write-ahead log only
until SQLite begins that log anew. Where a border is lost, neighbouring transactions are
reported as one: each still whole, once and in order, and answers still fit. A writer that
must not be merged ends each transaction with

    INSERT OR IGNORE INTO _headwater_border SELECT seq FROM _headwater_head

(with the names of the owner)

Borders that were read and are still needed are kept there too, when the log is pruned and when
the monitor closes, so that reading again gives the same transactions. A VACUUM may move the
page that the borders are read from; what was committed since the last look is then merged. An
answer may reflect a part of such a unit, so each one says with which number it begins.

A position has the number of a change and the random number that was logged with it. If both
are still in the log it is the same history, whatever file is read; where they are not, a file
was restored or the log is another one, and nothing goes on.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from headwater.algebra.rows import Rows
from headwater.algebra.values import Row
from headwater.errors import LostConnectionError
from headwater.protocol.transactions import Tag, Transaction, Update
from headwater.sources.contract import (
    Broken,
    Committed,
    Logged,
    Marked,
    Position,
    Progressed,
    Reader,
)
from headwater.sources.markers import Markers
from headwater.sources.sqlite.access import Access, Connection
from headwater.sources.sqlite.catalog import has_table
from headwater.sources.sqlite.described import Table, UnreadableError, as_written, is_reserved
from headwater.sources.sqlite.keeper import Keeper
from headwater.sources.sqlite.layout import Layouts
from headwater.sources.sqlite.standing import Trouble, follow, has_log
from headwater.sources.sqlite.tagging import LOST, TAGGED, tags_between
from headwater.sources.sqlite.triggers import DELETED, GAP, INSERTED, LEFT
from headwater.sources.sqlite.types import Stored
from headwater.sources.sqlite.wal import Borders

_SHORTEST_S, _LONGEST_S = 0.001, 0.05
_ROWS_PER_READ = 20_000


@dataclass(frozen=True)
class SeqSnapshot:
    """The state after the change with this number."""

    seq: int

    def includes(self, stamp: int) -> bool:
        return stamp <= self.seq

    def __str__(self) -> str:
        return str(self.seq)


@dataclass(frozen=True)
class State:
    """What one read transaction says about the log."""

    head: int
    nonce: int
    pruned: int
    log: str
    reader: str | None
    epoch: int | None
    known: int | None
    """The random number that is logged with a given change; None if that is not there."""
    schema: tuple[int, int, float]
    """Its version, and the triggers, which can be removed without a new one (writable_schema)."""
    statement: tuple[float, int]
    """When the last statement was begun, and how many of its changes seem to be under way."""


def read_state(connection: Connection, access: Access, known: int) -> State:
    names = access.names
    seq, nonce, pruned, log, reader, epoch, at, under_way, logged = connection.execute(
        f"SELECT seq, nonce, pruned, log, reader, epoch, at, open, "
        f"(SELECT nonce FROM {names.log} WHERE seq = ?) FROM {names.head}",
        (known,),
    ).fetchone()
    (version,) = connection.execute("PRAGMA main.schema_version").fetchone()
    (count, places) = connection.execute(
        "SELECT count(*), total(rowid) FROM main.sqlite_master WHERE type = 'trigger'"
    ).fetchone()
    schema = (version, count, places)
    return State(seq, nonce, pruned, log, reader, epoch, logged, schema, (at, under_way))


def root_page(connection: Connection, access: Access) -> int:
    """The page with the number of the last change."""
    (page,) = connection.execute(
        "SELECT rootpage FROM main.sqlite_master WHERE name = ?", (access.names.head,)
    ).fetchone()
    return int(page)


class SqliteMonitor:
    """Reads one log from a position on."""

    def __init__(
        self,
        access: Access,
        tables: Mapping[str, Table],
        markers: Markers,
        after: Position | None,
        reader: Reader | None = None,
        lost: Mapping[str, str] | None = None,
    ) -> None:
        """`lost` has tables that are gone or cannot be read any more, each with the reason."""
        self._access = access
        self._lost = lost or {}
        self._gone: Sequence[str] = ()
        self._tables = tables
        self._markers = markers
        self._told = 0  # the number of the last marker that was passed on
        self._pending: list[tuple[int, str, int]] = []
        self._closed = False
        self._reading = threading.Lock()
        self._keeper = Keeper(access, reader)
        self._connections: list[Connection] = []
        self._troubles: dict[str, Trouble] = {}
        self._found = [  # and not reported yet
            (name, Trouble(None, reason)) for name, reason in self._lost.items()
        ]
        self._statement: tuple[float, int] | None = None
        self._rests: set[int] = set()
        """The relations for which a statement that ended in the middle was reported."""
        self._borders: deque[int] = deque()
        self._is_new = after is None
        try:
            with access.failures():
                self._open(after)
        except BaseException:
            self.close()
            raise

    def _open(self, after: Position | None) -> None:
        self._poller, self._held, self._idle = (self._connect() for _ in range(3))
        if self._poller.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            raise LostConnectionError(
                f"Source {self._access.name}: {self._access.path} is not in WAL mode, so it is not "
                "the file that was set up, or somebody has changed that.",
                "Put the right file back; or, if this one is to be followed from now on, run "
                f"'headwater repair {self._access.name}'.",
            )
        self._version = self._data_version()
        self._file = self._access.identity()
        self._held.execute("BEGIN")
        if after is not None:
            self._check_log(self._held)
        self._gone = [name for name in self._lost if not has_table(self._held, name)]
        self._layouts = self._follow(self._held)
        self._start(after)
        self._keeper.claim()

    def _start(self, after: Position | None) -> None:
        at = after.get("seq") if after is not None else 0
        if not isinstance(at, int):
            raise self._access.broken("the position belongs to another kind of log.")
        state = read_state(self._held, self._access, at)
        if after is not None and after.get("log") != state.log:
            raise self._access.broken("the position belongs to another log.")
        if at > state.head:
            raise self._access.broken(
                f"the position {at} is ahead of the log, which ends at {state.head}: the file was "
                "restored from an earlier state."
            )
        if at < state.pruned:
            raise self._access.broken(
                f"the log no longer has what came after {at}; it begins after {state.pruned}."
            )
        if after is not None and after.get("nonce") != state.known:
            raise self._access.broken(
                f"change {at} in the log is not the one that was read: the file was restored from "
                "an earlier state, and written to since."
            )
        self._state = state
        self._at = self._known = at
        self._nonce = self._at_nonce = state.known
        self._wal = Borders(self._access.path)
        self._page = root_page(self._held, self._access)
        self._keeper.log = state.log
        self._learn(self._held, state, self._page)
        self._look_for_rests(self._held, state)

    # The contract

    def read(self, timeout_s: float) -> Sequence[Logged]:
        end = time.monotonic() + timeout_s
        pause = _SHORTEST_S
        while True:
            with self._reading, self._access.failures():
                logged = [] if self._closed else self._next()
            left = end - time.monotonic()
            if logged or left <= 0 or self._closed:
                return logged
            self._wait(min(pause, left))
            pause = min(2 * pause, _LONGEST_S)

    def acknowledge(self, position: Position) -> None:
        """Let the log be pruned up to here, by the thread that reads."""
        seq = position["seq"]
        assert isinstance(seq, int)
        self._keeper.prune(seq)

    def close(self) -> None:
        with self._markers.changed:
            if self._closed:
                return
            self._closed = True
            self._markers.changed.notify_all()
        with self._reading:
            self._keeper.close()
            for connection in self._connections:
                connection.close()

    # Reading

    def _next(self) -> list[Logged]:
        if self._is_new:
            self._is_new = False
            return [Progressed(self._position)]
        if not self._borders:
            self._advance()
        logged = self._gaps()  # first: what is read now is read without what they have lost
        if self._borders:
            logged += self._units()
        logged += self._marked()
        self._keeper.work(idle=not logged)
        return logged

    def _advance(self) -> None:
        """Look at a newer state of the database, if there is one."""
        self._access.check(self._file)
        version = self._data_version()
        if version == self._version:
            return
        self._version = version
        self._roll()
        self._keeper.shrink(self._poller, self._roll)

    def _roll(self) -> None:
        """Begin to read the newest state, then stop reading the one before."""
        newer = self._idle
        newer.execute("BEGIN")
        try:
            state, page = read_state(newer, self._access, self._known), self._page
            self._check(state)
            if state.schema != self._state.schema:
                self._check_log(newer)
                page = root_page(newer, self._access)
                self._layouts = self._follow(newer)
            self._learn(newer, state, page)
            self._look_for_rests(newer, state)
        except BaseException:
            newer.execute("ROLLBACK")
            raise
        self._held.execute("COMMIT")
        self._held, self._idle, self._state, self._page = newer, self._held, state, page

    def _check_log(self, connection: Connection) -> None:
        if not has_log(connection, self._access.names):
            raise self._access.broken(f"{self._access.path} has no log of changes any more.")

    def _check(self, state: State) -> None:
        """Whether a state of the database comes after what was read."""
        if state.log != self._state.log:
            raise self._access.broken("the log was removed and made anew.")
        if state.known != self._nonce:
            raise self._access.broken(
                f"change {self._known} is not in the log any more: the file was restored from an "
                "earlier state."
            )
        self._keeper.check_reader(state.reader, state.epoch)

    def _follow(self, connection: Connection) -> Layouts:
        """How rows of the log are to be read; what has come to be broken is reported."""
        followed = follow(self._access, connection, self._tables)
        if any(has_table(connection, name) for name in self._gone) or any(
            entry.is_another for entry in followed.values()
        ):
            raise LostConnectionError(
                f"Source {self._access.name}: a table was made anew.", "It is opened again."
            )
        for name, entry in followed.items():
            if entry.trouble is not None and self._troubles.get(name) != entry.trouble:
                self._found.append((name, entry.trouble))
        self._troubles = {n: e.trouble for n, e in followed.items() if e.trouble is not None}
        return Layouts(self._access, followed.values())

    def _learn(self, connection: Connection, state: State, page: int) -> None:
        """Find the borders between what is known and a state's head."""
        if state.head == self._known:
            return
        borders = {state.head}
        if page == self._page:
            borders.update(self._wal.upto(state.head, page))
        kept = connection.execute(
            f"SELECT seq FROM {self._access.names.border} WHERE seq BETWEEN ? AND ?",
            (self._known, state.head),
        )
        borders.update(seq for (seq,) in kept)
        fresh = sorted(border for border in borders if self._known < border <= state.head)
        self._borders.extend(fresh)
        self._keeper.learned(fresh)
        self._known, self._nonce = state.head, state.nonce

    def _units(self) -> list[Logged]:
        """Some of the transactions whose borders are known."""
        rows = self._held.execute(
            f"SELECT * FROM {self._access.names.log} WHERE seq > ? AND seq <= ? ORDER BY seq",
            (self._at, self._known),
        )
        tagged = tags_between(self._held, self._access.names, self._at, self._known)
        logged: list[Logged] = []
        count = 0
        row = rows.fetchone()
        while self._borders and count < _ROWS_PER_READ:
            border = self._borders[0]
            changes: list[tuple[Stored, ...]] = []
            gaps: list[tuple[int, int]] = []
            tags: list[Tag] = []
            nonce = None
            while row is not None and row[0] <= border:
                _, nonce, relation, action = row[:4]
                if action == GAP:
                    gaps.append((row[0], relation))
                elif action == TAGGED:
                    tags.append(tagged.get(row[0], LOST))
                else:
                    changes.append(row)
                count += 1
                row = rows.fetchone()
            if nonce is None:
                raise self._access.broken(f"the log has lost the changes up to {border}.")
            position: Position = {"seq": border, "log": self._state.log, "nonce": nonce}
            for seq, relation in gaps:
                logged += self._gap(seq, relation)
            updates, unreadable = self._readable(changes)
            logged += unreadable
            logged += self._unit(border, position, updates, tuple(dict.fromkeys(tags)))
            self._borders.popleft()
            self._at, self._at_nonce = border, nonce
        rows.close()
        return logged

    def _unit(
        self, border: int, position: Position, updates: list[Update], tags: tuple[Tag, ...]
    ) -> list[Logged]:
        if not updates and not tags:
            return [Progressed(position)]
        name = self._access.name
        whole = tuple(updates)
        transaction = Transaction(f"{name}:{border}", whole, (name,), (name,), tags=tags)
        first = (self._at + 1,) if self._at + 1 < border else ()
        return [Committed(transaction, position, border, first)]

    def _readable(
        self, changes: Sequence[tuple[Stored, ...]]
    ) -> tuple[list[Update], Sequence[Broken]]:
        """What a transaction changes, in the columns of which every value can be read.

        All others have a gap: whatever a view would make of such a value would not be the view.
        """
        lost: dict[Stored, dict[str, Broken]] = {}
        while True:
            updates: list[Update] = []
            for change in changes:
                seq, _, relation, _ = change[:4]
                unread = lost.setdefault(relation, {})
                try:
                    updates += self._update(change, unread)
                except UnreadableError as error:
                    assert isinstance(relation, int)
                    assert isinstance(seq, int)
                    name, columns = self._layouts.followed[relation].table.name, {error.column}
                    unread[error.column] = self._broken(
                        name, frozenset(columns), error.reason, self._position, seq
                    )
                    break
            else:
                return updates, [gap for found in lost.values() for gap in found.values()]

    def _update(self, logged: tuple[Stored, ...], lost: Collection[str]) -> list[Update]:
        """The change in one row of the log: none if it is of no interest."""
        seq, _, relation, action = logged[:4]
        layout = self._layouts.of(relation, seq, lost)
        if layout is None:
            return []
        table = layout.table
        counts: dict[Row, int] = {}
        if action != INSERTED:
            counts[table.read(self._access, self._held, layout.olds(logged))] = -1
        if action != DELETED:
            new = table.read(self._access, self._held, layout.news(logged))
            counts[new] = counts.get(new, 0) + 1
        delta = Rows(table.relation.schema, counts)
        return [Update(table.relation.name, delta)] if delta else []

    # Gaps

    def _gap(self, seq: int, number: int) -> list[Logged]:
        """A gap that the setup or a trigger has noted in the log, before its transaction.

        No view over the relation may take in what else that transaction says of it.
        """
        found = self._layouts.followed.get(number)
        if found is None:
            return []
        columns, reason = self._held.execute(
            f"SELECT columns, reason FROM {self._access.names.gap} WHERE seq = ?", (seq,)
        ).fetchone()
        broken = None if columns is None else _read_as(found.table, json.loads(columns))
        return [self._broken(found.table.name, broken, str(reason), self._position, seq)]

    def _gaps(self) -> list[Logged]:
        """Gaps that were noticed when the file was last looked at."""
        found, self._found = self._found, []
        return [
            self._broken(
                name,
                None if trouble.columns is None else _read_as(self._tables[name], trouble.columns),
                trouble.reason,
                self._position,
                None,
            )
            for name, trouble in found
        ]

    def _look_for_rests(self, connection: Connection, state: State) -> None:
        """A statement that ended in the middle of a change (RAISE(FAIL)) has logged only a part."""
        if state.statement == self._statement:
            return
        self._statement = state.statement
        for entry in self._layouts.followed.values():
            if entry.trouble is not None:
                continue
            found = connection.execute(f"{entry.unlogged} LIMIT 1").fetchone() is not None
            if found and entry.number not in self._rests:
                name = entry.table.name
                self._found.append((name, Trouble(None, f"table {name}: {LEFT}.")))
            (self._rests.add if found else self._rests.discard)(entry.number)

    @property
    def _position(self) -> Position:
        """Up to where everything has been reported."""
        return {"seq": self._at, "log": self._state.log, "nonce": self._at_nonce}

    def _broken(
        self,
        name: str,
        columns: frozenset[str] | None,
        reason: str,
        position: Position,
        stamp: int | None,
    ) -> Broken:
        return Broken({f"{self._access.name}.{name}": columns}, reason, position, stamp)

    def _marked(self) -> list[Logged]:
        """The markers of answers that reflect nothing which was not read."""
        for entry in self._markers.after(self._told):
            self._told = entry[0]
            self._pending.append(entry)
        passed = [marker for _, marker, seq in self._pending if seq <= self._at]
        self._pending = [entry for entry in self._pending if entry[2] > self._at]
        return [Marked(marker) for marker in passed]

    def _wait(self, seconds: float) -> None:
        with self._markers.changed:
            self._markers.changed.wait_for(
                lambda: self._closed or self._markers.count > self._told, seconds
            )

    # Help

    def _connect(self) -> Connection:
        connection = self._access.connect()
        self._connections.append(connection)
        return connection

    def _data_version(self) -> int:
        return int(self._poller.execute("PRAGMA main.data_version").fetchone()[0])


def _read_as(table: Table, columns: Iterable[str]) -> frozenset[str]:
    """These columns of the file, with the texts that they are read as."""
    names = (name for column in columns for name in as_written(column))
    return frozenset(n for n in names if n in table.columns or not is_reserved(n))
