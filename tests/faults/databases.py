"""The databases of a round: a SQLite file, and a PostgreSQL database read by log or by triggers.

Everything here is done as an application or an administrator would, by plain drivers; nothing of
Headwater's is used.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import psycopg

from headwater.sources.postgres.embedded import PostgresServer
from tests.faults.commands import FaultError
from tests.faults.schemas import Schema, Table, Value, create_table, quoted
from tests.faults.statements import Statement, Transaction

_NUMBERS = itertools.count(1)
_RETRIES_S = 60


class Database(ABC):
    """One source of a world, from the side of its owner."""

    kind: ClassVar[str]
    dialect: ClassVar[str]

    def __init__(self, source: str, schema: Schema) -> None:
        self.source = source
        self.schema = schema
        self.is_down = False
        self.remembered: Schema | None = None
        """The tables as they were when a copy was made; None if there is no copy."""

    def create(self) -> None:
        """Make the tables; what the database does not take is left out."""
        for table in self.schema.tables.values():
            self.execute(create_table(table))
        self.execute(*self.schema.triggers)

    @abstractmethod
    def settings(self) -> list[str]:
        """What headwater.toml says of it, besides its relations."""

    @abstractmethod
    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        """An application's connection."""

    def apply(self, transaction: Transaction) -> int:
        """Carry it out as far as the database allows; how many statements it took."""
        with self.session() as session:
            return session.apply(transaction)

    def execute(self, *statements: str) -> None:
        with self.session() as session:
            for statement in statements:
                session.execute(Statement(statement))

    def attempt(self, *statements: str) -> bool:
        """Carry out all of them, or none where the database refuses one."""
        with self.session() as session:
            return session.attempt([Statement(text) for text in statements])

    def select(self, query: str) -> list[tuple[Any, ...]]:
        with self.session() as session:
            return session.select(query)

    def rows(self, table: Table, columns: Sequence[str]) -> list[tuple[Value, ...]]:
        """A table's contents, by the driver, each value in one form."""
        names = ", ".join(map(quoted, columns))
        kinds = [table.column(name).kind for name in columns]
        found = self.select(f"SELECT {names} FROM {quoted(table.name)}")
        return [tuple(map(canonical, row, kinds)) for row in found]

    @abstractmethod
    def down(self) -> None: ...

    @abstractmethod
    def up(self) -> None: ...

    @abstractmethod
    def remember(self) -> None:
        """Make a copy, as a backup does."""

    @abstractmethod
    def restore(self) -> None:
        """Put the copy in the place of what is there."""

    @abstractmethod
    def close(self) -> None: ...


class Session(ABC):
    """A connection that commits by itself outside BEGIN."""

    refusals: ClassVar[tuple[type[Exception], ...]]

    @abstractmethod
    def execute(self, statement: Statement) -> None: ...

    @abstractmethod
    def select(self, query: str) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    def begin(self) -> None: ...

    def check(self, error: Exception) -> None:
        """Applications hear only what the database has against their statements."""
        if not isinstance(error, self.refusals) or "_headwater_" in str(error):
            raise FaultError(f"an application's statement failed: {error}") from error

    def attempt(self, statements: Sequence[Statement]) -> bool:
        return self.apply(Transaction(tuple(statements))) == len(statements)

    def apply(self, transaction: Transaction) -> int:
        done = 0
        self.begin()
        try:
            for statement in transaction.statements:
                if transaction.savepoints:
                    done += self._apply_behind_savepoint(statement)
                else:
                    self.execute(statement)
                    done += 1
            self._say("COMMIT" if transaction.commits else "ROLLBACK")
        except Exception as error:
            self._say("ROLLBACK")
            self.check(error)
            return 0
        return done if transaction.commits else 0

    def _apply_behind_savepoint(self, statement: Statement) -> int:
        self._say("SAVEPOINT s")
        try:
            self.execute(statement)
        except Exception as error:
            self.check(error)
            self._say("ROLLBACK TO SAVEPOINT s")
            self._say("RELEASE SAVEPOINT s")
            return 0
        self._say("RELEASE SAVEPOINT s")
        return 1

    def _say(self, text: str) -> None:
        with contextlib.suppress(sqlite3.OperationalError):  # it has rolled back by itself
            self.execute(Statement(text))


# SQLite


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

    def __init__(self, source: str, schema: Schema, folder: Path, pragmas: Sequence[str]) -> None:
        super().__init__(source, schema)
        self.path = folder / f"{source}.db"
        self._pragmas = pragmas
        self._copy = folder / f"{source}.copy"

    def settings(self) -> list[str]:
        return ['kind = "sqlite"', f'path = "{self.path}"']

    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        connection = sqlite3.connect(self.path, timeout=_RETRIES_S, isolation_level=None)
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

    def remember(self) -> None:
        self._copy.unlink(missing_ok=True)
        source, target = sqlite3.connect(self.path), sqlite3.connect(self._copy)
        try:
            source.backup(target)
        finally:
            source.close()
            target.close()

    def restore(self) -> None:
        for file in self._files(self.path):
            file.unlink()
        shutil.copy(self._copy, self.path)

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


# PostgreSQL


class PostgresSession(Session):
    refusals = (
        psycopg.errors.IntegrityError,
        psycopg.errors.DataError,
        psycopg.errors.TriggeredDataChangeViolation,
        psycopg.errors.StatementTooComplex,
        psycopg.errors.DependentObjectsStillExist,
        psycopg.errors.FeatureNotSupported,
        psycopg.errors.DatatypeMismatch,
        psycopg.errors.ObjectInUse,
    )

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection

    def execute(self, statement: Statement) -> None:
        if not statement.values:
            self.connection.execute(statement.text.encode())
            return
        text = statement.text.replace("%", "%%").replace("?", "%s")
        self.connection.execute(text.encode(), list(statement.values))

    def select(self, query: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(query.encode()).fetchall()

    def begin(self) -> None:
        self.connection.execute("BEGIN")


class PostgresDatabase(Database):
    dialect = "postgres"

    def __init__(
        self, source: str, schema: Schema, server: PostgresServer, by_triggers: bool
    ) -> None:
        super().__init__(source, schema)
        self.server = server
        self.by_triggers = by_triggers
        self.name = f"f{os.getpid()}_{next(_NUMBERS)}"
        self.dsn = server.dsn(self.name)
        self._copy = f"{self.name}_copy"
        server.execute(f"CREATE DATABASE {self.name} TEMPLATE template0")

    @property
    def kind(self) -> str:  # type: ignore[override]
        return "postgres by triggers" if self.by_triggers else "postgres by log"

    def settings(self) -> list[str]:
        changes = "triggers" if self.by_triggers else "replication"
        return ['kind = "postgres"', f'dsn = "{self.dsn}"', f'changes = "{changes}"']

    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("SET timezone = 'UTC'")
            yield PostgresSession(connection)

    def down(self) -> None:
        """Nobody is let in for a while, and who was in is sent away."""
        self.server.execute(
            f"ALTER DATABASE {self.name} ALLOW_CONNECTIONS false", self._send_away(self.name)
        )

    def up(self) -> None:
        self.server.execute(f"ALTER DATABASE {self.name} ALLOW_CONNECTIONS true")

    def remember(self) -> None:
        self.server.execute(
            self._send_away(self.name),
            f"DROP DATABASE IF EXISTS {self._copy}",
            f"CREATE DATABASE {self._copy} TEMPLATE {self.name}",
        )

    def restore(self) -> None:
        self._drop(self.name)
        self.server.execute(
            self._send_away(self._copy), f"CREATE DATABASE {self.name} TEMPLATE {self._copy}"
        )

    def close(self) -> None:
        self._drop(self.name)
        self._drop(self._copy)

    def _drop(self, name: str) -> None:
        self.server.execute(
            self._send_away(name),
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
            f" WHERE database = '{name}'",
            f"DROP DATABASE IF EXISTS {name}",
        )

    def _send_away(self, name: str) -> str:
        return (
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            f" WHERE datname = '{name}' AND pid <> pg_backend_pid()"
        )


def canonical(value: Any, kind: str) -> Value:
    """A value as either driver gives it, in the one form that Headwater shows it in."""
    if value is None:
        return None
    match kind:
        case "bool":
            return bool(value)
        case "decimal":
            return Decimal(str(value)).quantize(Decimal("0.01"))
        case "float":
            return float(value) + 0.0
        case "text":
            return str(value).rstrip(" ")
        case "bytes":
            return bytes(value)
        case "date":
            return date.fromisoformat(value) if isinstance(value, str) else value
        case "timestamp" | "timestamp_tz":
            moment = datetime.fromisoformat(value) if isinstance(value, str) else value
            return moment.astimezone(UTC) if kind == "timestamp_tz" else moment
        case _:
            return value  # type: ignore[no-any-return]
