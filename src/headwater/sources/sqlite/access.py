"""Connections to a SQLite file, which fail in words."""

from __future__ import annotations

import os
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headwater.errors import BrokenLogError, LostConnectionError, SourceError
from headwater.sources.sqlite.names import Names
from headwater.sources.sqlite.types import text_or_bytes

BUSY_TIMEOUT_S = 5.0
_TRY_LATER = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR_SHM", "SQLITE_PROTOCOL")

Connection = sqlite3.Connection


@dataclass(frozen=True)
class Access:
    """The name of a source, the file it is, and the names of our log in it."""

    name: str
    path: Path
    names: Names = field(default_factory=Names)

    @property
    def set_up(self) -> str:
        """What to do where the setup does not fit."""
        return f"Run 'headwater setup {self.name}'."

    def broken(self, message: str) -> BrokenLogError:
        return BrokenLogError(self.name, message)

    def error(self, message: str, hint: str) -> SourceError:
        return SourceError(f"Source {self.name}: {message}", hint)

    def connect(self, timeout_s: float = BUSY_TIMEOUT_S, write: bool = False) -> Connection:
        """A connection to an existing file; it commits by itself outside BEGIN."""
        if not self.path.is_file():
            raise LostConnectionError(
                f"Source {self.name}: there is no file {self.path}.", "Check the path."
            )
        with self.failures():
            connection = sqlite3.connect(
                self.path.absolute().as_uri() + "?mode=rw",
                uri=True,
                timeout=timeout_s,
                isolation_level=None,
                check_same_thread=False,
            )
            try:
                connection.text_factory = text_or_bytes
                connection.execute("PRAGMA schema_version").fetchone()
                if not write:
                    connection.execute("PRAGMA query_only = 1")
            except BaseException:
                connection.close()
                raise
        return connection

    def identity(self) -> tuple[int, ...]:
        """What tells this file, with its write-ahead log, from another one under the same name."""
        try:
            status = os.stat(self.path)  # noqa: PTH116 (called at every poll)
            ahead = os.stat(f"{self.path}-wal")  # noqa: PTH116 (called at every poll)
        except OSError as error:
            if error.filename != str(self.path):  # SQLite keeps it while it is open
                raise self._replaced() from None
            raise LostConnectionError(
                f"Source {self.name}: {error.filename} is gone ({error.strerror}).",
                "Put the file back.",
            ) from None
        return status.st_dev, status.st_ino, ahead.st_ino

    def file_identity(self) -> tuple[int, int]:
        """What tells the file from others of this machine."""
        try:
            status = self.path.stat()
        except OSError as error:
            raise LostConnectionError(
                f"Source {self.name}: there is no file {self.path} ({error.strerror}).",
                "Check the path.",
            ) from None
        return status.st_dev, status.st_ino

    def machine(self) -> str:
        """This start of this machine: on a copy of its disk the file has the same identity."""
        try:
            return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        except OSError:
            return socket.gethostname()

    def check(self, identity: tuple[int, ...]) -> None:
        """Nothing is known of another file; who connects to it looks whether it is the same log."""
        if self.identity() != identity:
            raise self._replaced()

    def _replaced(self) -> LostConnectionError:
        return LostConnectionError(
            f"Source {self.name}: {self.path} was replaced.", "It is opened again."
        )

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Turns what SQLite says inside into an error with a remedy."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._translated(error) from error

    def _translated(self, error: sqlite3.Error) -> SourceError:
        code = getattr(error, "sqlite_errorname", "") or ""
        if code.startswith(_TRY_LATER):
            return LostConnectionError(
                f"Source {self.name}: {self.path} is locked by another connection ({error}).",
                "Look for a writer that keeps its transaction open.",
            )
        if code.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
            return self.error(f"{self.path} is not a sound SQLite database ({error}).",
                              "Check the path, or restore the file.")  # fmt: skip
        if "_headwater_" in str(error):
            return self.broken(f"the log in {self.path} is gone ({error}).")
        return self.error(
            f"SQLite says: {error}.",
            f"See whether the file can be read; if so, run: headwater repair {self.name}.",
        )
