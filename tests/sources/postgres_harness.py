"""PostgreSQL for the conformance suite: a database of its own in a shared, real server."""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

from headwater.algebra.schema import Schema
from headwater.algebra.values import Type, Value
from headwater.embedded.postgres import PostgresServer, shared_server
from headwater.sources.postgres.source import PostgresSource

_NUMBERS = itertools.count(1)
_TYPES = {
    "bool": "boolean",
    "int": "bigint",
    "float": "double precision",
    "text": "text",
    "bytes": "bytea",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_tz": "timestamptz",
}


class PostgresWriter:
    """An application's connection."""

    def __init__(self, dsn: str) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True)

    def execute(self, statement: str, parameters: Sequence[Value] = ()) -> None:
        if not parameters:
            self.connection.execute(statement.encode())
            return
        self.connection.execute(_with_placeholders(statement).encode(), list(parameters))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self.connection.transaction():
            yield

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        with self.connection.transaction():
            yield

    def close(self) -> None:
        self.connection.close()


class PostgresHarness:
    """A fresh database; its slots go with it."""

    kind = "postgres"

    def __init__(self, server: PostgresServer | None = None, changes: str = "replication") -> None:
        self.server = server or shared_server()
        self.changes = changes
        self.name = f"t{os.getpid()}_{next(_NUMBERS)}"
        self.dsn = self.server.dsn(self.name)
        self._schemas: dict[str, Schema] = {}
        self._writers: list[PostgresWriter] = []
        self.server.execute(f'CREATE DATABASE "{self.name}" TEMPLATE template0')

    def create_table(self, name: str, schema: Schema, key: Sequence[str] = ()) -> None:
        columns = [
            sql.SQL("{} {}").format(sql.Identifier(column.name), sql.SQL(_type_name(column.type)))
            for column in schema.columns
        ]
        if key:
            names = sql.SQL(", ").join(map(sql.Identifier, key))
            columns.append(sql.SQL("PRIMARY KEY ({})").format(names))
        statement = sql.SQL("CREATE TABLE {} ({})").format(
            sql.Identifier(*name.split(".")), sql.SQL(", ").join(columns)
        )
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            if "." in name:
                folder = sql.Identifier(name.split(".")[0])
                connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(folder))
            connection.execute(statement)
        self._schemas[name] = schema

    def source(self, relations: Sequence[str], **settings: Any) -> PostgresSource:
        settings = {
            "slot": self.name,
            "dsn": self.dsn,
            "changes": self.changes,
            **settings,
        }
        return PostgresSource(settings.pop("name", "pg"), relations=relations, **settings)

    def writer(self) -> PostgresWriter:
        writer = PostgresWriter(self.dsn)
        self._writers.append(writer)
        return writer

    def contents(self, name: str) -> Mapping[tuple[Value, ...], int]:
        schema = self._schemas[name]
        statement = sql.SQL("SELECT {} FROM {}").format(
            sql.SQL(", ").join(map(sql.Identifier, schema.names)), sql.Identifier(*name.split("."))
        )
        with psycopg.connect(self.dsn) as connection:
            return Counter(schema.row(row) for row in connection.execute(statement))

    def close(self) -> None:
        for writer in self._writers:
            writer.close()
        with psycopg.connect(self.server.dsn(), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s",
                [self.name],
            )
            connection.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
                " WHERE database = %s",
                [self.name],
            )
            connection.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(self.name)))


def _type_name(kind: Type) -> str:
    if kind.name == "array":
        return f"{_type_name(kind.element)}[]"
    if kind.precision:
        return f"numeric({kind.precision},{kind.scale})"
    return _TYPES[kind.name]


def _with_placeholders(statement: str) -> str:
    """`?` outside of quotes becomes `%s`."""
    parts = re.split(r"""('[^']*'|"[^"]*")""", statement.replace("%", "%%"))
    return "".join(part if at % 2 else part.replace("?", "%s") for at, part in enumerate(parts))
