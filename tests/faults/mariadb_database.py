"""A MariaDB database as a source, from the side of its owner."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from functools import cache
from typing import Any

import pymysql

from headwater.embedded.mariadb import MariadbServer
from tests.faults.databases import Database, Session
from tests.faults.schemas import Schema
from tests.faults.statements import Statement

_NUMBERS = itertools.count(1)
_MODE = "ANSI_QUOTES,PIPES_AS_CONCAT,STRICT_TRANS_TABLES"


class MariadbSession(Session):
    refusals = (
        pymysql.err.IntegrityError,
        pymysql.err.DataError,
        pymysql.err.OperationalError,
        pymysql.err.ProgrammingError,
        pymysql.err.NotSupportedError,
    )

    def __init__(self, connection: pymysql.Connection) -> None:
        self.connection = connection

    def execute(self, statement: Statement) -> None:
        text, values = statement.text, statement.values
        if values:
            text = text.replace("%", "%%").replace("?", "%s")
        self.connection.cursor().execute(text, list(values) or None)

    def select(self, query: str) -> list[tuple[Any, ...]]:
        cursor = self.connection.cursor()
        cursor.execute(query)
        return list(cursor.fetchall())

    def begin(self) -> None:
        self.connection.begin()


class MariadbDatabase(Database):
    """Alone on its server, whose files are copied when it is restored."""

    kind = "mariadb"
    dialect = "mariadb"

    def __init__(self, source: str, schema: Schema, server: MariadbServer, snapshots: str) -> None:
        super().__init__(source, schema)
        self.server = server
        self.name = f"f{os.getpid()}_{next(_NUMBERS)}"
        self._snapshots = snapshots
        server.execute(
            f"CREATE DATABASE {self.name} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"
        )

    def settings(self) -> list[str]:
        dsn = self.server.dsn(self.name)
        return ['kind = "mariadb"', f'dsn = "{dsn}"', f'snapshots = "{self._snapshots}"']

    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        connection = self.server.connect(self.name)
        try:
            connection.cursor().execute(f"SET time_zone = '+00:00', sql_mode = '{_MODE}'")
            yield MariadbSession(connection)
        finally:
            connection.close()

    def attempt(self, *statements: str) -> bool:
        """Each commits by itself there, so what was left half done is taken away."""
        done = super().attempt(*statements)
        if not done and len(statements) > 1:
            self.execute("DROP TABLE IF EXISTS rebuilt")
        return done

    def down(self) -> None:
        self.server.halt()

    def up(self) -> None:
        self.server.start()

    def move(self) -> None:
        """It stays: a database cannot be renamed there."""

    def remember(self) -> None:
        self.server.halt()
        self.server.copy_data("copy")
        self.server.start()

    def restore(self) -> None:
        self.server.halt(kill=True)
        self.server.restore_data("copy")
        self.server.start()

    def close(self) -> None:
        if self.is_down:
            self.up()
        self.server.execute(f"DROP DATABASE IF EXISTS {self.name}")


@cache
def own_mariadb() -> MariadbServer:
    """A server that can be stopped and put back without harm to others."""
    return MariadbServer()
