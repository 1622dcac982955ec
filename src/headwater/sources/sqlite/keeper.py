"""The writes of a SQLite monitor: pruning the log, keeping borders, beginning the WAL anew.

Each is short and gives way: a writer that is busy is not waited for, and what could not be
done is done at the next chance.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager

from headwater.errors import SourceError
from headwater.sources.sqlite.catalog import Connection, Place

_CHUNK = 5_000
_GIVE_WAY_S = 0.05
_WAIT_FOR_TURN_S = 1.0
_SHORT_S = 0.0002
_WAL_PAGES = 1_000  # where SQLite itself begins to checkpoint
_WAL_PAGES_TOO_MANY = 8_000
_CHECKPOINT_EVERY_S = 0.5


class Keeper:
    """Writes for one monitor; used by any thread."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.log = ""
        """The name of the log that the monitor reads; no other is written to."""
        self._lock = threading.RLock()
        self._connection: Connection | None = None
        self._borders: list[int] = []
        """Those that are not kept in the database yet."""
        self._upto = self._pruned = 0
        self._looked = 0.0
        self._closed = False

    def learned(self, borders: Iterable[int]) -> None:
        with self._lock:
            self._borders += borders

    def prune(self, upto: int) -> None:
        """Forget the log up to a number, and keep the borders after it."""
        with self._lock:
            self._upto = max(self._upto, upto)
            self._write()

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._write()
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    # Pruning

    def _write(self) -> None:
        self._borders = [border for border in self._borders if border > self._upto]
        if self._closed or not (self._borders or self._pruned < self._upto):
            return
        try:
            with self._writing() as connection:
                connection.executemany(
                    "INSERT OR IGNORE INTO _headwater_border VALUES (?)",
                    [(border,) for border in self._borders],
                )
                connection.execute("DELETE FROM _headwater_border WHERE seq <= ?", (self._upto,))
                connection.execute(
                    "UPDATE _headwater_head SET pruned = ? WHERE pruned < ?",
                    (self._upto, self._upto),
                )
            self._borders = []
            while self._prune_some():
                time.sleep(0)  # lets a writer in
            self._pruned = self._upto
        except (sqlite3.Error, SourceError):
            return  # a writer is busy, or the log is gone: the reader says so

    def _prune_some(self) -> bool:
        with self._writing() as connection:
            gone = connection.execute(
                "DELETE FROM _headwater_log WHERE seq IN (SELECT seq FROM _headwater_log "
                "WHERE seq <= ? ORDER BY seq LIMIT ?)",
                (self._upto, _CHUNK),
            ).rowcount
        return gone == _CHUNK

    @contextmanager
    def _writing(self, wait_s: float = _GIVE_WAY_S) -> Iterator[Connection]:
        """A write transaction on the log that this monitor reads."""
        if self._connection is None:
            self._connection = self._place.connect(0.0, write=True)
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection = self._connection
        _begin(connection, wait_s)
        try:
            (log,) = connection.execute("SELECT log FROM _headwater_head").fetchone()
            if log != self.log:
                raise self._place.error("the log was made anew.", "Load the relations anew.")
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
        with self._lock, ExitStack() as stack:
            try:
                stack.enter_context(self._writing(_WAIT_FOR_TURN_S))
            except sqlite3.OperationalError:
                return  # a writer is busy
            roll()
            _checkpoint(poller)
            roll()

    def _is_long(self, poller: Connection) -> bool:
        try:
            size = os.stat(f"{self._place.path}-wal").st_size  # noqa: PTH116 (no Path per poll)
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
