"""MariaDB for the conformance suite: a database of its own in a shared, real server."""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pymysql
import pytest

from headwater.algebra.schema import Schema
from headwater.algebra.values import Type, Value
from headwater.embedded.mariadb import MariadbServer, is_installed, shared_server
from headwater.sources.mariadb.connect import quoted
from headwater.sources.mariadb.source import MariadbSource
from headwater.sources.mariadb.statements import literal
from headwater.testing.workload import UndoneError

_DEADLOCK = 1213
_NUMBERS = itertools.count(1)
MISSING = (
    "there is no MariaDB server here: make test installs mariadb-server-core where it may, and its "
    "tests are skipped where it may not"
)


def is_expected() -> bool:
    """Whether there is a server; in continuous integration one that is missing fails the tests."""
    return is_installed() or os.environ.get("CI") == "true"


needs_mariadb = pytest.mark.skipif(not is_expected(), reason=MISSING)
_RESERVED = re.compile(r'(?<!["`])\blines\b(?!["`])')
_TYPES = {
    "bool": "boolean",
    "int": "bigint",
    "float": "double",
    "text": "longtext",
    "bytes": "longblob",
    "date": "date",
    "timestamp": "datetime(6)",
    "timestamp_tz": "timestamp(6) null",
}


def type_name(kind: Type) -> str:
    if kind.precision:
        return f"decimal({kind.precision},{kind.scale})"
    return _TYPES[kind.name]


class MariadbWriter:
    """An application's connection."""

    def __init__(self, server: MariadbServer, database: str) -> None:
        self.connection = server.connect(database)
        self.connection.cursor().execute("SET time_zone = '+00:00', sql_mode = 'ANSI_QUOTES'")
        # Without gap locks, in which writers of other rows would meet.
        self.connection.cursor().execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        self._is_victim = False
        self._savepoints = 0

    def execute(self, statement: str, parameters: Sequence[Value] = ()) -> None:
        parts = _RESERVED.sub('"lines"', statement).split("?")
        assert len(parts) == len(parameters) + 1
        shown = ["NULL" if v is None else literal(v) for v in parameters]
        text = parts[0] + "".join(f"{v}{p}" for v, p in zip(shown, parts[1:], strict=True))
        if self._is_victim:
            raise UndoneError
        try:
            self.connection.cursor().execute(text)
        except pymysql.err.OperationalError as error:
            if error.args[0] != _DEADLOCK:
                raise
            self._is_victim = True  # the server has undone the whole transaction
            raise UndoneError from None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.connection.begin()
        try:
            yield
            if self._is_victim:
                raise UndoneError
        except BaseException:
            self.connection.rollback()
            raise
        finally:
            self._is_victim = False
        self.connection.commit()

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        self._savepoints += 1
        name = f"s{self._savepoints}"
        self.execute(f"SAVEPOINT {name}")
        try:
            yield
        except BaseException:
            if self._is_victim:
                raise
            self.execute(f"ROLLBACK TO SAVEPOINT {name}")
            raise
        self.execute(f"RELEASE SAVEPOINT {name}")

    def close(self) -> None:
        self.connection.close()


class MariadbHarness:
    """A fresh database of a server; `snapshots` is how places of snapshots are known."""

    kind = "mariadb"

    def __init__(self, server: MariadbServer | None = None, snapshots: str = "status") -> None:
        self.server = server or shared_server()
        self.snapshots = snapshots
        self.name = f"t{os.getpid()}_{next(_NUMBERS)}"
        self._schemas: dict[str, Schema] = {}
        self._writers: list[MariadbWriter] = []
        self.server.execute(
            f"CREATE DATABASE {self.name} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"
        )

    @property
    def dsn(self) -> str:
        return self.server.dsn(self.name)

    def create_table(self, name: str, schema: Schema, key: Sequence[str] = ()) -> None:
        parts = [f"{quoted(column.name)} {type_name(column.type)}" for column in schema.columns]
        if key:
            parts.append(f"PRIMARY KEY ({', '.join(map(quoted, key))})")
        if "." in name:
            self.server.execute(f"CREATE DATABASE IF NOT EXISTS {quoted(name.split('.')[0])}")
        self.execute(f"CREATE TABLE {quoted(*name.split('.'))} ({', '.join(parts)})")
        self._schemas[name] = schema

    def execute(self, *statements: str) -> None:
        self.server.execute(*statements, database=self.name)

    def source(self, relations: Sequence[str], **settings: Any) -> MariadbSource:
        settings = {"dsn": self.dsn, "snapshots": self.snapshots, **settings}
        return MariadbSource(settings.pop("name", "m"), relations=relations, **settings)

    def writer(self) -> MariadbWriter:
        writer = MariadbWriter(self.server, self.name)
        self._writers.append(writer)
        return writer

    def contents(self, name: str) -> Mapping[tuple[Value, ...], int]:
        schema = self._schemas[name]
        columns = ", ".join(
            f"({quoted(c.name)} = 1)" if c.type.name == "bool" else quoted(c.name)
            for c in schema.columns
        )
        writer = self.writer()
        try:
            with writer.connection.cursor() as cursor:
                cursor.execute(f"SELECT {columns} FROM {quoted(*name.split('.'))}")
                return Counter(_row(schema, row) for row in cursor.fetchall())
        finally:
            writer.close()

    def contents_of(self, name: str, statement: str = "") -> list[tuple[object, ...]]:
        """Any table's rows, or what any statement shows, as the driver has it."""
        connection = self.server.connect(self.name)
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement or f"SELECT * FROM {quoted(name)}")
                return list(cursor.fetchall())
        finally:
            connection.close()

    def close(self) -> None:
        for writer in self._writers:
            if writer.connection.open:
                writer.close()
        self.server.execute(f"DROP DATABASE IF EXISTS {self.name}")


def _row(schema: Schema, row: Sequence[object]) -> tuple[Value, ...]:
    from datetime import UTC, datetime

    values: list[object] = []
    for value, kind in zip(row, schema.types, strict=True):
        if kind.name == "bool" and value is not None:
            value = bool(value)
        if kind.name == "timestamp_tz" and isinstance(value, datetime):
            value = value.replace(tzinfo=UTC)
        values.append(value)
    return schema.row(values)
