"""The databases that channels are measured over: each with a source and its plain driver."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
from deltalake import DeltaTable, write_deltalake

from headwater.algebra.schema import Schema
from headwater.algebra.values import INT, TEXT
from headwater.embedded.mariadb import MariadbServer, is_installed
from headwater.embedded.postgres import PostgresServer
from headwater.sources.contract import Source
from headwater.sources.delta.source import DeltaSource
from headwater.sources.files.options import FilesOptions
from headwater.sources.files.source import FilesSource
from headwater.sources.mariadb.connect import Access
from headwater.sources.mariadb.source import MariadbSource
from headwater.sources.mariadb.standing import log_end
from headwater.sources.mariadb.stream import Stream
from headwater.sources.postgres.source import PostgresSource
from headwater.sources.sqlite.source import SqliteSource
from headwater.storage.location import Location

_TABLE = "CREATE TABLE items (id BIGINT PRIMARY KEY, grp BIGINT, name VARCHAR(40))"


@dataclass
class MeasuredDatabase:
    """A database to measure: a source over its table, and the plain driver."""

    kind: str
    source: Source
    connection: Any
    mark: str
    log: str
    """A statement that reads the changes as the plain driver would, which makes nothing of them."""

    rows_at_once: int = 10
    """How many rows a transaction of the backlog has."""

    def read_log(self) -> None:
        self.connection.execute(self.log).fetchall()

    def find(self, key: int) -> None:
        """A question by key, as the plain driver asks it."""
        plain = f"SELECT id, name FROM items WHERE id = {self.mark}"
        self.connection.execute(plain, (key,)).fetchall()

    def read_all(self) -> None:
        self.connection.execute("SELECT id, grp, name FROM items").fetchall()

    def write(self, first: int, count: int) -> None:
        """One transaction that inserts rows."""
        self.connection.execute("BEGIN")
        self.connection.cursor().executemany(
            f"INSERT INTO items VALUES ({self.mark}, {self.mark}, {self.mark})",
            [(first + n, n % 100, "a name of some length") for n in range(count)],
        )
        self.connection.execute("COMMIT")


@contextmanager
def _sqlite() -> Iterator[MeasuredDatabase]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.db"
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA synchronous = OFF")  # as the PostgreSQL server of this run
        connection.execute(_TABLE)
        source = SqliteSource("bench", path, ["items"])
        yield MeasuredDatabase("sqlite", source, connection, "?", "SELECT * FROM _headwater_log")
        connection.close()


@contextmanager
def _postgres() -> Iterator[MeasuredDatabase]:
    server = PostgresServer()
    try:
        connection = psycopg.connect(server.dsn(), autocommit=True)
        connection.execute(_TABLE)
        source = PostgresSource("bench", server.dsn(), ["items"])
        log = (
            "SELECT data FROM pg_logical_slot_peek_binary_changes('headwater_bench', NULL, NULL, "
            "'proto_version', '1', 'publication_names', 'headwater_bench')"
        )
        yield MeasuredDatabase("postgres", source, connection, "%s", log)
        connection.close()
    finally:
        server.stop()


@dataclass
class _Mariadb(MeasuredDatabase):
    """The plain driver receives all events of the log, and decodes none."""

    server: MariadbServer | None = None

    def read_log(self) -> None:
        assert self.server is not None
        access = Access("bench", "mariadb", self.server.dsn("bench"))
        with access.connected() as connection:
            end = log_end(access, connection)
        stream = Stream(access, "binlog.000001", 4)
        try:
            while not any(raw.header.end >= end.position for raw in stream.read(60)):
                pass
        finally:
            stream.close()


@contextmanager
def _mariadb() -> Iterator[MeasuredDatabase]:
    server = MariadbServer()
    try:
        server.execute("CREATE DATABASE bench")
        connection = _Executing(server.connect("bench"))
        connection.execute(_TABLE)
        source = MariadbSource("bench", server.dsn("bench"), ["items"])
        yield _Mariadb("mariadb", source, connection, "%s", "", server=server)
        connection.close()
    finally:
        server.stop()


class _Executing:
    """A connection of the driver for MariaDB that executes by itself, as the others do."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.cursor = connection.cursor
        self.close = connection.close

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> Any:
        cursor = self._connection.cursor()
        cursor.execute(statement, parameters or None)
        return cursor


class _Tables(MeasuredDatabase):
    """What Arrow reads: the plain driver is pyarrow, and delta-rs."""

    def __init__(self, kind: str, folder: Path, source: Source) -> None:
        super().__init__(kind, source, None, "", "", rows_at_once=1_000)
        self.folder = folder
        self.files: list[Path] = []

    def rows(self, first: int, count: int) -> pyarrow.Table:
        ids = range(first, first + count)
        names = ["a name of some length"] * count
        return pyarrow.table({"id": ids, "grp": [n % 100 for n in ids], "name": names})

    def dataset(self) -> Any:
        return pyarrow.dataset.dataset(self.folder / "items")

    def find(self, key: int) -> None:
        self.dataset().to_table(["id", "name"], filter=pyarrow.dataset.field("id") == key)

    def read_all(self) -> None:
        self.dataset().to_table()


class _Reports(_Tables):
    """A folder of Parquet files, each a report of insertions."""

    def write(self, first: int, count: int) -> None:
        rows = self.rows(first, count)
        reported = rows.add_column(0, "op", pyarrow.array(["I"] * count))
        folder = self.folder / "items"
        hidden = folder / f".{first:012}.parquet"
        pyarrow.parquet.write_table(reported, hidden)
        self.files.append(hidden.rename(folder / f"{first:012}.items.parquet"))

    def read_log(self) -> None:
        for file in self.files:
            pyarrow.parquet.read_table(file)


class _Delta(_Tables):
    """A Delta table that delta-rs appends to."""

    def write(self, first: int, count: int) -> None:
        write_deltalake(self.folder / "items", self.rows(first, count), mode="append")

    def dataset(self) -> Any:
        return DeltaTable(self.folder / "items").to_pyarrow_dataset()

    def read_log(self) -> None:
        self.dataset().to_table()


@contextmanager
def _files() -> Iterator[MeasuredDatabase]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "items").mkdir()
        columns = Schema.of([("id", INT), ("grp", INT), ("name", TEXT)])
        options = FilesOptions("changes", "renamed", columns={"items": columns})
        source = FilesSource(
            "bench",
            folder / "items",
            ["items"],
            {"items": ["id"]},
            options,
            place=Location.of(folder / "kept"),
            look_every_s=0.01,
        )
        yield _Reports("files", folder, source)


@contextmanager
def _delta() -> Iterator[MeasuredDatabase]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        place = Location.of(folder / "kept")
        source = DeltaSource("bench", folder, ["items"], place=place, look_every_s=0.01)
        database = _Delta("delta", folder, source)
        database.write(-1, 1)  # a table that is there can be set up
        yield database


DATABASES = {
    "sqlite": _sqlite,
    "postgres": _postgres,
    "mariadb": _mariadb,
    "files": _files,
    "delta": _delta,
}


def kinds() -> list[str]:
    """Those of which there is a server here."""
    return [kind for kind in DATABASES if kind != "mariadb" or is_installed()]
