"""The writes of a SQLite monitor: pruning the log, keeping borders, beginning the WAL anew.

Each is short and gives way: a writer that is busy is not waited for, and what could not be
done is done at the next chance. All happen in the monitor's own thread.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager

from headwater.errors import SourceError
from headwater.sources.contract import Reader
from headwater.sources.sqlite.access import BUSY_TIMEOUT_S, Access, Connection
from headwater.sources.sqlite.catalog import has_table

_CHUNK = 2_000
_GIVE_WAY_S = 0.05
_TRY_AGAIN_S = 0.1
_BETWEEN_CHUNKS_S = 0.02
_CLOSING_S = 1.0
_WAIT_FOR_TURN_S = 1.0
_SHORT_S = 0.0002
_WAL_PAGES = 1_000  # where SQLite itself begins to checkpoint
_WAL_PAGES_TOO_MANY = 8_000
_CHECKPOINT_EVERY_S = 0.5


class Keeper:
    """Writes for one monitor, by its thread; only `prune` is called by others."""

    def __init__(self, access: Access, reader: Reader | None) -> None:
        self._access = access
        self._reader = reader
        self.log = ""
        """The name of the log that the monitor reads; no other is written to."""
        self._connection: Connection | None = None
        self._borders: list[int] = []
        """Those that are not kept in the database yet."""
        self._upto = self._noted = self._pruned = 0
        self._again_at = 0.0
        self._looked = 0.0

    def learned(self, borders: Iterable[int]) -> None:
        self._borders += borders

    def prune(self, upto: int) -> None:
        """The log may be forgotten up to a number; `work` does it."""
        self._upto = max(self._upto, upto)

    def work(self, idle: bool) -> None:
        """Do a little of what is to be done: if nothing else is to be done, or after a while."""
        now = time.monotonic()
        if self._pruned >= self._upto or now < self._again_at + (0 if idle else _TRY_AGAIN_S):
            return
        try:
            self._prune_some()
            self._again_at = time.monotonic() + _BETWEEN_CHUNKS_S
        except (
            sqlite3.Error,
            SourceError,
        ):  # a writer is busy, or the log is gone: reading says so
            self._again_at = time.monotonic() + _TRY_AGAIN_S

    def close(self) -> None:
        """Keep the borders, and prune what can be pruned in a short while."""
        end = time.monotonic() + _CLOSING_S
        try:
            if self._borders and self.log:
                with self._writing() as connection:
                    self._keep(connection, self._upto)
            while self._pruned < self._upto and time.monotonic() < end:
                self._prune_some()
                time.sleep(0)  # lets a writer in
        except (sqlite3.Error, SourceError):
            pass
        finally:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def claim(self) -> None:
        """Be the reader of this log from here on; an earlier epoch gives way to a later one."""
        if self._reader is None:
            return
        with self._writing(BUSY_TIMEOUT_S, claims=True) as connection:
            head = self._access.names.head
            name, epoch = connection.execute(f"SELECT reader, epoch FROM {head}").fetchone()
            if name == self._reader.name and epoch > self._reader.epoch:
                raise self._access.error(
                    "a later runner of the same warehouse reads its log already.",
                    "Nothing is to be done here: only one of them may go on.",
                )
            connection.execute(
                f"UPDATE {head} SET reader = ?, epoch = ?", (self._reader.name, self._reader.epoch)
            )

    def check_reader(self, name: str | None, epoch: int | None) -> None:
        """SourceError if somebody else has become the reader of this log."""
        if self._reader is not None and (name, epoch) != (self._reader.name, self._reader.epoch):
            raise self._access.error(
                f"another runner ({name}, epoch {epoch}) reads the log of this warehouse now.",
                "If that is a copy of the project, give the copy a warehouse of its own and run "
                f"'headwater setup {self._access.name}' there; one of both has to be loaded anew.",
            )

    # Pruning

    def _prune_some(self) -> None:
        """Forget some of what lies before the last number that is durable elsewhere.

        The change with that number stays: it shows whether this is still the same history.
        """
        names, upto = self._access.names, self._upto
        with self._writing() as connection:
            if self._noted < upto:
                self._keep(connection, upto)
                self._noted = upto
            gone = connection.execute(
                f"DELETE FROM {names.log} WHERE seq IN (SELECT seq FROM {names.log} "
                "WHERE seq < ? ORDER BY seq LIMIT ?)",
                (upto, _CHUNK),
            ).rowcount
        if gone < _CHUNK:
            self._pruned = upto

    def _keep(self, connection: Connection, upto: int) -> None:
        names = self._access.names
        connection.executemany(
            f"INSERT OR IGNORE INTO {names.border} VALUES (?)",
            [(border,) for border in self._borders if border > upto],
        )
        self._borders = []
        tag = [names.tag] if has_table(connection, names.tag) else []
        for table in (names.border, names.gap, *tag):
            connection.execute(f"DELETE FROM {table} WHERE seq <= ?", (upto,))
        connection.execute(f"UPDATE {names.head} SET pruned = ? WHERE pruned < ?", (upto, upto))

    @contextmanager
    def _writing(self, wait_s: float = _GIVE_WAY_S, claims: bool = False) -> Iterator[Connection]:
        """A write transaction on the log that this monitor reads."""
        if self._connection is None:
            self._connection = self._access.connect(0.0, write=True)
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection = self._connection
        _begin(connection, wait_s)
        try:
            log, *reader = connection.execute(
                f"SELECT log, reader, epoch FROM {self._access.names.head}"
            ).fetchone()
            if log != self.log:
                raise self._access.broken("the log was removed and made anew.")
            if not claims:
                self.check_reader(*reader)
            yield connection
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    # The write-ahead log

    def shrink(self, poller: Connection, roll: Callable[[], None]) -> None:
        """Let SQLite begin the write-ahead log anew, when it has become long.

        A checkpoint reaches only as far as the monitor has read, and SQLite begins anew only
        after a checkpoint of everything. So it is checkpointed here, and the monitor reads
        on at once; if writers never pause, they are held back for that moment.
        """
        if time.monotonic() < self._looked + _CHECKPOINT_EVERY_S or not self._is_long(poller):
            return
        self._looked = time.monotonic()
        frames = _checkpoint(poller)
        roll()
        if frames > _WAL_PAGES_TOO_MANY:
            self._hold_back(poller, roll)

    def _hold_back(self, poller: Connection, roll: Callable[[], None]) -> None:
        with ExitStack() as stack:
            try:
                stack.enter_context(self._writing(_WAIT_FOR_TURN_S))
            except sqlite3.OperationalError:
                return  # a writer is busy
            roll()
            _checkpoint(poller)
            roll()

    def _is_long(self, poller: Connection) -> bool:
        try:
            size = os.stat(f"{self._access.path}-wal").st_size  # noqa: PTH116 (no Path per poll)
        except OSError:
            return False
        (page,) = poller.execute("PRAGMA page_size").fetchone()
        return bool(size > _WAL_PAGES * page)


def _begin(connection: Connection, wait_s: float) -> None:
    """Begin to write between two writers; they pause only shortly, so it is tried often."""
    end = time.monotonic() + wait_s
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > end:
                raise
        time.sleep(_SHORT_S)


def _checkpoint(connection: Connection) -> int:
    """Checkpoint all that was read, and say how many frames the write-ahead log has."""
    end = time.monotonic() + _WAIT_FOR_TURN_S
    while True:
        _, frames, _ = connection.execute("PRAGMA main.wal_checkpoint(PASSIVE)").fetchone()
        if frames >= 0 or time.monotonic() > end:
            return int(frames)
        time.sleep(_SHORT_S)  # a writer is doing the same
