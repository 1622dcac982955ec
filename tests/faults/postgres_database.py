"""A PostgreSQL database as a source, from the side of its owner."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import psycopg

from headwater.embedded.postgres import PostgresServer
from tests.faults.databases import Database, Session
from tests.faults.schemas import Schema
from tests.faults.statements import Statement

_NUMBERS = itertools.count(1)


class PostgresSession(Session):
    refusals = (
        psycopg.errors.IntegrityError,
        psycopg.errors.CardinalityViolation,
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
        self.by_triggers = self.is_unordered = by_triggers
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

    def move(self) -> None:
        self.server.execute(
            self._send_away(self.name), f"ALTER DATABASE {self.name} RENAME TO {self.name}m"
        )
        self.name += "m"
        self.dsn = self.server.dsn(self.name)

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


class WholePostgresDatabase(PostgresDatabase):
    """One whose copies are those of a storage snapshot: the whole server, slots and all.

    The server stands still meanwhile, so it is for one database at a time.
    """

    @property
    def kind(self) -> str:  # type: ignore[override]
        return f"{super().kind}, restored whole"

    def remember(self) -> None:
        self._replace(self.server.folder / "data", self.server.folder / "copy")

    def restore(self) -> None:
        self._replace(self.server.folder / "copy", self.server.folder / "data")

    def move(self) -> None:
        """It stays: a copy of the server would have it under the old name."""

    def _replace(self, source: Path, target: Path) -> None:
        self.server.halt("immediate")
        shutil.rmtree(target, ignore_errors=True)
        subprocess.run(["cp", "-a", source, target], check=True)
        self.server.start()


@cache
def own_server() -> PostgresServer:
    """A server that can be stopped and put back without harm to others."""
    return PostgresServer()
