"""A SQLite file in a temporary folder, for the conformance suite."""

from __future__ import annotations

import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headwater.algebra.schema import Schema
from headwater.algebra.values import Type, Value
from headwater.sources.sqlite.source import SqliteSource
from headwater.sources.sqlite.types import reader, stored
from headwater.sources.sqlite.uniques import quoted

_DECLARED = {
    "bool": "BOOLEAN",
    "int": "INTEGER",
    "float": "REAL",
    "text": "TEXT",
    "bytes": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamp_tz": "TIMESTAMPTZ",
}


def declared(kind: Type) -> str:
    if kind.name == "decimal":
        return f"DECIMAL({kind.precision},{kind.scale})"
    return _DECLARED[kind.name]


class SqliteWriter:
    """An application's connection."""

    def __init__(self, path: Path, pragmas: Sequence[str] = ()) -> None:
        self.connection = sqlite3.connect(
            path, timeout=20, isolation_level=None, check_same_thread=False
        )
        for pragma in pragmas:
            self.connection.execute(f"PRAGMA {pragma}")
        self._savepoints = 0

    def execute(self, statement: str, parameters: Sequence[Value] = ()) -> None:
        self.connection.execute(statement, [stored(value) for value in parameters])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        self._savepoints += 1
        name = f"s{self._savepoints}"
        self.connection.execute(f"SAVEPOINT {name}")
        try:
            yield
        except BaseException:
            self.connection.execute(f"ROLLBACK TO {name}")
            self.connection.execute(f"RELEASE {name}")
            raise
        self.connection.execute(f"RELEASE {name}")

    def close(self) -> None:
        self.connection.close()


class SqliteHarness:
    """One file, empty at first."""

    kind = "sqlite"

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name) / "source 1.db"
        self._schemas: dict[str, Schema] = {}
        self._writers: list[SqliteWriter] = []
        self._owner = self.writer()
        self._owner.execute("PRAGMA journal_mode = WAL")

    def create_table(self, name: str, schema: Schema, key: Sequence[str] = ()) -> None:
        parts = [f"{quoted(column.name)} {declared(column.type)}" for column in schema.columns]
        if key:
            parts.append(f"PRIMARY KEY ({', '.join(map(quoted, key))})")
        self._owner.execute(f"CREATE TABLE {quoted(name)} ({', '.join(parts)})")
        self._schemas[name] = schema

    def source(self, relations: Sequence[str], **settings: Any) -> SqliteSource:
        return SqliteSource(settings.pop("name", "s"), self.path, relations, **settings)

    def writer(self, *pragmas: str) -> SqliteWriter:
        writer = SqliteWriter(self.path, pragmas)
        self._writers.append(writer)
        return writer

    def contents(self, name: str) -> Counter[tuple[Value, ...]]:
        readers = [reader(kind) for kind in self._schemas[name].types]
        rows = self._owner.connection.execute(f"SELECT * FROM {quoted(name)}").fetchall()
        return Counter(
            tuple(read(value) for read, value in zip(readers, row, strict=True)) for row in rows
        )

    def release(self) -> None:
        """Close every connection, as when the application is stopped."""
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    def close(self) -> None:
        self.release()
        self._folder.cleanup()
