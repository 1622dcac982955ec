"""How fast channels are, each figure beside the plain driver doing the same.

For each kind of source: transactions and rows per second through the channel, latency from the
commit to the delivery, the round trip of a question, and the throughput of a load. Run on real
databases that are made for it and removed afterwards.
"""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
from deltalake import DeltaTable, write_deltalake

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import Query, bind_delta, query_of
from headwater.algebra.values import INT, TEXT
from headwater.embedded.mariadb import MariadbServer, is_installed
from headwater.embedded.postgres import PostgresServer
from headwater.protocol.effects import Ask
from headwater.protocol.events import AnswerArrived, TransactionArrived
from headwater.sources.channel import Channel
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
from headwater.sources.subscription import Delivery
from headwater.storage.location import Location

_TABLE = "CREATE TABLE items (id BIGINT PRIMARY KEY, grp BIGINT, name VARCHAR(40))"
_KEYS = Relation("elsewhere.keys", "elsewhere", Schema.of([("id", INT)]))


@dataclass(frozen=True)
class Figures:
    """One kind of source; times in milliseconds, `raw` is the plain driver."""

    kind: str
    transactions_per_s: float
    rows_per_s: float
    raw_rows_per_s: float
    latency_p50_ms: float
    latency_p99_ms: float
    raw_commit_p50_ms: float
    question_p50_ms: float
    question_p99_ms: float
    raw_question_p50_ms: float
    load_rows_per_s: float
    raw_load_rows_per_s: float


@dataclass
class _Database:
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
def _sqlite() -> Iterator[_Database]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.db"
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA synchronous = OFF")  # as the PostgreSQL server of this run
        connection.execute(_TABLE)
        source = SqliteSource("bench", path, ["items"])
        yield _Database("sqlite", source, connection, "?", "SELECT * FROM _headwater_log")
        connection.close()


@contextmanager
def _postgres() -> Iterator[_Database]:
    server = PostgresServer()
    try:
        connection = psycopg.connect(server.dsn(), autocommit=True)
        connection.execute(_TABLE)
        source = PostgresSource("bench", server.dsn(), ["items"])
        log = (
            "SELECT data FROM pg_logical_slot_peek_binary_changes('headwater_bench', NULL, NULL, "
            "'proto_version', '1', 'publication_names', 'headwater_bench')"
        )
        yield _Database("postgres", source, connection, "%s", log)
        connection.close()
    finally:
        server.stop()


@dataclass
class _Mariadb(_Database):
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
def _mariadb() -> Iterator[_Database]:
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


class _Tables(_Database):
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
def _files() -> Iterator[_Database]:
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
def _delta() -> Iterator[_Database]:
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


def measure(kind: str, rows: int, rounds: int) -> Figures:
    """All figures of one kind: `rows` through log and load, `rounds` single steps."""
    with DATABASES[kind]() as database:
        database.source.setup()
        per_transaction = database.rows_at_once
        for first in range(0, rows, per_transaction):
            database.write(first, min(per_transaction, rows - first))
        raw_log_s = _seconds(database.read_log)
        channel = Channel(database.source)
        inbox = _Inbox(channel)
        started = time.perf_counter()
        channel.start()
        inbox.wait(lambda: inbox.rows >= rows)  # a backlog's borders may be lost, its rows not
        through_s = time.perf_counter() - started
        units = inbox.transactions
        try:
            latencies, commits = _latencies(database, inbox, rows, rounds)
            query = _by_key(database.source, rows // 2)
            questions = [_question(inbox, query, n) for n in range(rounds)]
        finally:
            channel.close()
        raw = [_seconds(partial(database.find, rows // 2)) for _ in range(rounds)]
        load_s, raw_load_s = _loads(database)
        figures = Figures(
            kind,
            units / through_s,
            rows / through_s,
            rows / raw_log_s,
            *_percentiles(latencies),
            1000 * statistics.median(commits),
            *_percentiles(questions),
            1000 * statistics.median(raw),
            (rows + rounds) / load_s,
            (rows + rounds) / raw_load_s,
        )
        database.source.teardown()
        return figures


class _Inbox:
    """Takes what a channel has, and counts it."""

    def __init__(self, channel: Channel) -> None:
        self._woken = threading.Event()
        self.subscription = channel.subscribe(lambda at: self._woken.set())
        self.transactions = 0
        self.rows = 0
        self.answers = 0

    def wait_for_transactions(self, count: int) -> None:
        self.wait(lambda: self.transactions >= count)

    def wait(self, ready: Callable[[], bool]) -> None:
        while not ready():
            self._woken.clear()
            deliveries = self.subscription.take(256)
            for delivery in deliveries:
                self._count(delivery)
            if not deliveries and not self._woken.wait(120):
                raise TimeoutError("the channel delivered nothing for two minutes")

    def _count(self, delivery: Delivery) -> None:
        if isinstance(delivery.event, TransactionArrived):
            self.transactions += 1
            self.rows += sum(len(d) for d in delivery.event.transaction.deltas.values())
        self.answers += isinstance(delivery.event, AnswerArrived)


def _latencies(
    database: _Database, inbox: _Inbox, rows: int, rounds: int
) -> tuple[list[float], list[float]]:
    """From the end of a commit to its delivery, and how long the commit itself took."""
    latencies, commits = [], []
    for number in range(rounds):
        delivered = inbox.transactions + 1
        commits.append(_seconds(partial(database.write, rows + number, 1)))
        latencies.append(_seconds(partial(inbox.wait_for_transactions, delivered)))
    return latencies, commits


def _by_key(source: Source, key: int) -> Query:
    """A probe for one key."""
    relations = [*source.relations().values(), _KEYS]
    sql = "SELECT i.id, i.name FROM items i JOIN elsewhere.keys k ON i.id = k.id"
    (term,) = query_of(parse_view(sql, relations))
    return (bind_delta(term, 1, Rows.of(_KEYS.schema, [[key]])),)


def _question(inbox: _Inbox, query: Query, number: int) -> float:
    started = time.perf_counter()
    inbox.subscription.ask(Ask("bench", f"Q{number}", (query,)))
    inbox.wait(lambda: inbox.answers > number)
    return time.perf_counter() - started


def _loads(database: _Database) -> tuple[float, float]:
    def load() -> None:
        opened = database.source.open_load(["items"], 1)
        for part in range(opened.parts("items")):
            for _ in opened.read("items", part):
                pass
        opened.close()

    return _seconds(load), _seconds(database.read_all)


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _percentiles(seconds: list[float]) -> tuple[float, float]:
    """The median and the 99th percentile, in milliseconds."""
    ordered = sorted(seconds)
    return 1000 * statistics.median(ordered), 1000 * ordered[int(0.99 * (len(ordered) - 1))]


def as_json(figures: Figures) -> dict[str, object]:
    return {
        name: round(value, 3) if isinstance(value, float) else value
        for name, value in asdict(figures).items()
    }
