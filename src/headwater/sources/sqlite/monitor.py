"""The monitor of a SQLite source: reads the log of changes in whole transactions.

It always holds a read transaction, and begins the next one before it ends the last, so that
the write-ahead log still has every border since then (`wal`). While it runs, borders
are exact for writers that know nothing of it.

Choices: what was committed while no monitor ran has its borders in the write-ahead log only
until SQLite begins that log anew. Where a border is lost, neighbouring transactions are
reported as one: each still whole, once and in order, and answers still fit. A writer that
must not be merged ends each transaction with

    INSERT OR IGNORE INTO _headwater_border SELECT seq FROM _headwater_head

Borders that were read and are still needed are kept there too, when the monitor acknowledges
and when it closes, so that reading again gives the same transactions. A VACUUM may move the
page that the borders are read from; what was committed since the last look is then merged.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.algebra.rows import Rows
from headwater.algebra.values import Row
from headwater.protocol.transactions import Transaction, Update
from headwater.sources.contract import Committed, Logged, Marked, Position, Progressed
from headwater.sources.sqlite.catalog import Connection, Place, Table
from headwater.sources.sqlite.keeper import Keeper
from headwater.sources.sqlite.setup import check_setup
from headwater.sources.sqlite.triggers import DELETED, INSERTED
from headwater.sources.sqlite.types import Stored
from headwater.sources.sqlite.wal import Borders

_SHORTEST_S, _LONGEST_S = 0.001, 0.05
_ROWS_PER_READ = 20_000
_MOST_MARKERS = 10_000


@dataclass(frozen=True)
class SeqSnapshot:
    """The state after the change with this number."""

    seq: int

    def includes(self, stamp: int) -> bool:
        return stamp <= self.seq


class Markers:
    """Where wrappers tell monitors of the same source which numbers answers wait for."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._count = 0
        self._waiting: deque[tuple[int, str, int]] = deque(maxlen=_MOST_MARKERS)

    def add(self, seq: int) -> str:
        with self.changed:
            self._count += 1
            marker = f"seq:{seq}:{self._count}"
            self._waiting.append((self._count, marker, seq))
            self.changed.notify_all()
            return marker

    def after(self, count: int) -> list[tuple[int, str, int]]:
        with self.changed:
            return [entry for entry in self._waiting if entry[0] > count]

    @property
    def count(self) -> int:
        return self._count


@dataclass(frozen=True)
class State:
    """What one read transaction says about the log."""

    head: int
    pruned: int
    log: str
    page: int
    schema: int


def read_state(connection: Connection) -> State:
    head, pruned, log = connection.execute(
        "SELECT seq, pruned, log FROM _headwater_head"
    ).fetchone()
    (page,) = connection.execute(
        "SELECT rootpage FROM main.sqlite_master WHERE name = '_headwater_head'"
    ).fetchone()
    (schema,) = connection.execute("PRAGMA main.schema_version").fetchone()
    return State(int(head), int(pruned), str(log), int(page), int(schema))


class SqliteMonitor:
    """Reads one log from a position on."""

    def __init__(
        self,
        place: Place,
        tables: Mapping[str, Table],
        markers: Markers,
        after: Position | None,
    ) -> None:
        self._place = place
        self._tables = tables
        self._markers = markers
        self._told = 0  # the number of the last marker that was passed on
        self._pending: list[tuple[int, str, int]] = []
        self._closed = False
        self._reading = threading.Lock()
        self._keeper = Keeper(place)
        self._connections: list[Connection] = []
        try:
            with place.failures():
                self._open(after)
        except BaseException:
            self.close()
            raise

    def _open(self, after: Position | None) -> None:
        self._file = self._place.identity()
        self._poller, self._held, self._idle = (self._connect() for _ in range(3))
        if self._poller.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            raise self._place.error(
                f"{self._place.path} is no longer in WAL mode.", "Run the setup again."
            )
        self._version = self._data_version()
        self._held.execute("BEGIN")
        self._numbered = check_setup(self._place, self._held, self._tables)
        self._state = read_state(self._held)
        self._at = self._known = self._start(after)
        self._wal = Borders(self._place.path)
        self._borders: deque[int] = deque()
        self._keeper.log = self._state.log
        self._learn(self._held, self._state)

    def _start(self, after: Position | None) -> int:
        state = self._state
        at = after.get("seq") if after is not None else 0
        again = "Load the relations anew and go on from the position of the load."
        if not isinstance(at, int) or (
            after is not None and after.get("log", state.log) != state.log
        ):
            raise self._place.error("the position belongs to another log.", again)
        if at > state.head:
            raise self._place.error(
                f"the position {at} is ahead of the log, which ends at {state.head}.", again
            )
        if at < state.pruned:
            raise self._place.error(
                f"the log no longer has what came after {at}; it begins after {state.pruned}.",
                again,
            )
        return at

    # The contract

    def read(self, timeout_s: float) -> Sequence[Logged]:
        end = time.monotonic() + timeout_s
        pause = _SHORTEST_S
        while True:
            with self._reading, self._place.failures():
                logged = [] if self._closed else self._next()
            left = end - time.monotonic()
            if logged or left <= 0 or self._closed:
                return logged
            self._wait(min(pause, left))
            pause = min(2 * pause, _LONGEST_S)

    def acknowledge(self, position: Position) -> None:
        """Prune the log up to here, or later if a writer is in the way."""
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
        if not self._borders:
            self._advance()
        logged = self._units() if self._borders else []
        return logged + self._marked()

    def _advance(self) -> None:
        """Look at a newer state of the database, if there is one."""
        self._place.check(self._file)
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
            state = read_state(newer)
            if state.log != self._state.log:
                raise self._place.error(
                    "the log was removed and made anew.", "Load the relations anew."
                )
            if state.schema != self._state.schema:
                self._numbered = check_setup(self._place, newer, self._tables)
            self._learn(newer, state)
        except BaseException:
            newer.execute("ROLLBACK")
            raise
        self._held.execute("COMMIT")
        self._held, self._idle, self._state = newer, self._held, state

    def _learn(self, connection: Connection, state: State) -> None:
        """Find the borders between what is known and a state's head."""
        if state.head == self._known:
            return
        borders = {state.head}
        if state.page == self._state.page:
            borders.update(self._wal.upto(state.head, state.page))
        kept = connection.execute(
            "SELECT seq FROM _headwater_border WHERE seq BETWEEN ? AND ?",
            (self._known, state.head),
        )
        borders.update(seq for (seq,) in kept)
        fresh = sorted(border for border in borders if self._known < border <= state.head)
        self._borders.extend(fresh)
        self._keeper.learned(fresh)
        self._known = state.head

    def _units(self) -> list[Logged]:
        """Some of the transactions whose borders are known."""
        rows = self._held.execute(
            "SELECT * FROM _headwater_log WHERE seq > ? AND seq <= ? ORDER BY seq",
            (self._at, self._known),
        )
        logged: list[Logged] = []
        count = 0
        row = rows.fetchone()
        while self._borders and count < _ROWS_PER_READ:
            border = self._borders[0]
            updates: list[Update] = []
            while row is not None and row[0] <= border:
                updates += self._update(row)
                count += 1
                row = rows.fetchone()
            logged.append(self._unit(border, updates))
            self._borders.popleft()
            self._at = border
        rows.close()
        return logged

    def _unit(self, border: int, updates: list[Update]) -> Logged:
        position: Position = {"seq": border, "log": self._state.log}
        if not updates:
            return Progressed(position)
        name = self._place.name
        transaction = Transaction(f"{name}:{border}", tuple(updates), (name,), (name,))
        return Committed(transaction, position, border)

    def _update(self, logged: tuple[Stored, ...]) -> list[Update]:
        """The change in one row of the log: none if it is of no interest."""
        _, relation, action = logged[:3]
        table = self._numbered.get(relation) if isinstance(relation, int) else None
        if table is None:
            return []
        width = len(table.columns)
        olds, news = logged[3 : 3 + 2 * width : 2], logged[4 : 4 + 2 * width : 2]
        counts: dict[Row, int] = {}
        if action != INSERTED:
            counts[table.read(self._place, olds)] = -1
        if action != DELETED:
            new = table.read(self._place, news)
            counts[new] = counts.get(new, 0) + 1
        delta = Rows(table.relation.schema, counts)
        return [Update(table.relation.name, delta)] if delta else []

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
        connection = self._place.connect()
        self._connections.append(connection)
        return connection

    def _data_version(self) -> int:
        return int(self._poller.execute("PRAGMA main.data_version").fetchone()[0])
