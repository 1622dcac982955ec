"""A SQLite file as a source, from the side of its owner."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.faults.databases import Database, Session
from tests.faults.schemas import Schema, Value
from tests.faults.statements import Statement

_BUSY_S = 60


class SqliteSession(Session):
    refusals = (sqlite3.IntegrityError, sqlite3.OperationalError)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def execute(self, statement: Statement) -> None:
        self.connection.execute(statement.text, [_stored(v) for v in statement.values])

    def select(self, query: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(query).fetchall()

    def begin(self) -> None:
        self.connection.execute("BEGIN IMMEDIATE")


class SqliteDatabase(Database):
    kind = "sqlite"
    dialect = "sqlite"

    def __init__(
        self,
        source: str,
        schema: Schema,
        folder: Path,
        pragmas: Sequence[str],
        by_snapshot: bool,
    ) -> None:
        super().__init__(source, schema)
        self._by_snapshot = by_snapshot
        self.path = folder / f"{source}.db"
        self._pragmas = pragmas
        self._copy = folder / f"{source}.copy"

    def settings(self) -> list[str]:
        return ['kind = "sqlite"', f'path = "{self.path}"']

    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        connection = sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None)
        try:
            for pragma in self._pragmas:
                connection.execute(f"PRAGMA {pragma}")
            yield SqliteSession(connection)
        finally:
            connection.close()

    def down(self) -> None:
        """The file is away for a while, with its log."""
        for file in self._files(self.path):
            file.rename(file.with_name(f"away {file.name}"))

    def up(self) -> None:
        for file in self._files(self.path.with_name(f"away {self.path.name}")):
            file.rename(file.with_name(file.name.removeprefix("away ")))

    def move(self) -> None:
        files = self._files(self.path)
        self.path = self.path.with_name(f"moved {self.path.name}")
        for file in files:
            file.rename(file.with_name(f"moved {file.name}"))

    def remember(self) -> None:
        """By SQLite's own backup, or as a storage snapshot: every file as it is."""
        for file in self._files(self._copy):
            file.unlink()
        if self._by_snapshot:
            for file in self._files(self.path):
                shutil.copy(file, str(self._copy) + file.name.removeprefix(self.path.name))
            return
        source, target = sqlite3.connect(self.path), sqlite3.connect(self._copy)
        try:
            source.backup(target)
        finally:
            source.close()
            target.close()

    def restore(self) -> None:
        """Another file under the name, or other contents of the same file."""
        for file in self._files(self.path):
            if file != self.path or self._by_snapshot:
                file.unlink()
        for file in self._files(self._copy):
            shutil.copy(file, str(self.path) + file.name.removeprefix(self._copy.name))

    def close(self) -> None:
        pass

    def _files(self, path: Path) -> list[Path]:
        every = [path.with_name(path.name + end) for end in ("", "-wal", "-shm")]
        return [file for file in every if file.exists()]


def _stored(value: Value) -> Any:
    match value:
        case Decimal():
            return float(value)
        case datetime():
            return value.isoformat(" ")
        case date():
            return value.isoformat()
        case _:
            return value
