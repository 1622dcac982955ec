"""A small database for sources that speak no SQL: each commit is published in their own way.

Writers execute SQL, as those of every kind do, one transaction at a time; what is committed is
handed on, whole, before the next transaction begins.
"""

from __future__ import annotations

import math
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TypeAlias

from headwater.algebra.schema import Schema
from headwater.algebra.values import NAN, Row, Type, Value, canonical

Tables: TypeAlias = Mapping[str, Counter[Row]]
Publish: TypeAlias = Callable[[Tables, Tables], None]
"""Given all tables before a commit and after it."""

_DECLARED = {"bool": "INTEGER", "int": "INTEGER", "float": "REAL", "bytes": "BLOB"}


class PublishingWriter:
    """An application's connection."""

    def __init__(self, database: PublishedDatabase) -> None:
        self._database = database
        self._inside = False
        self._savepoints = 0

    def execute(self, statement: str, parameters: Sequence[Value] = ()) -> None:
        if self._inside:
            self._database.execute(statement, parameters)
            return
        with self.transaction():
            self._database.execute(statement, parameters)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._database.transaction():
            self._inside = True
            try:
                yield
            finally:
                self._inside = False

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        self._savepoints += 1
        name = f"s{self._savepoints}"
        self._database.execute(f"SAVEPOINT {name}")
        try:
            yield
        except BaseException:
            self._database.execute(f"ROLLBACK TO {name}")
            raise
        finally:
            self._database.execute(f"RELEASE {name}")

    def close(self) -> None:
        """The database goes on."""


class PublishedDatabase:
    """Tables in memory, and what is to be done with each commit."""

    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._lock = threading.RLock()
        self._schemas: dict[str, Schema] = {}
        self._connection = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False
        )
        self._committed: Tables = {}

    @property
    def schemas(self) -> Mapping[str, Schema]:
        return self._schemas

    def create_table(self, name: str, schema: Schema, key: Sequence[str] = ()) -> None:
        with self._lock:
            parts = [f'"{c.name}" {_declared(c.type)}' for c in schema.columns]
            if key:
                quoted = ", ".join(f'"{column}"' for column in key)
                parts.append(f"PRIMARY KEY ({quoted})")
            self._connection.execute(f'CREATE TABLE "{name}" ({", ".join(parts)})')
            self._schemas[name] = schema
            self._hand_on()

    def writer(self) -> PublishingWriter:
        return PublishingWriter(self)

    def execute(self, statement: str, parameters: Sequence[Value] = ()) -> None:
        self._connection.execute(statement, [_stored(value) for value in parameters])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._lock:
            self._connection.execute("BEGIN")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")
            self._hand_on()

    def contents(self, name: str) -> Counter[Row]:
        with self._lock:
            return self._committed[name]

    def _hand_on(self) -> None:
        before, after = self._committed, {name: self._read(name) for name in self._schemas}
        self._committed = after
        self._publish(before, after)

    def _read(self, name: str) -> Counter[Row]:
        kinds = self._schemas[name].types
        rows = self._connection.execute(f'SELECT * FROM "{name}"').fetchall()
        return Counter(
            tuple(_value(value, kind) for value, kind in zip(row, kinds, strict=True))
            for row in rows
        )

    def close(self) -> None:
        self._connection.close()


def _declared(kind: Type) -> str:
    return _DECLARED.get(kind.name, "TEXT")


def _stored(value: Value) -> object:
    match value:
        case float() if math.isnan(value):
            return "NaN"
        case Decimal():
            return str(value)
        case date():
            return value.isoformat()
        case _:
            return value


def _value(value: object, kind: Type) -> Value:
    """What a column holds, in canonical form."""
    if value is None:
        return None
    match kind.name, value:
        case "float", "NaN":
            return NAN
        case "bool", int():
            return bool(value)
        case "decimal", _:
            return canonical(Decimal(str(value)), kind)
        case "date", str():
            return date.fromisoformat(value)
        case (("timestamp" | "timestamp_tz"), str()):
            found = datetime.fromisoformat(value)
            if kind.name == "timestamp":
                return found
            return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return canonical(value, kind)
