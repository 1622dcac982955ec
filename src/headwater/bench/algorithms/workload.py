"""Four workloads over real databases: customers, orders and lines, and seeded changes of them.

In the first all three tables are in one PostgreSQL database; in the others customers are in a
SQLite file, orders and lines in a PostgreSQL database each. Every change changes the view: there
are orders without their customers and lines without their orders, which an insertion completes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random

import psycopg

from headwater.embedded.postgres import PostgresServer

TABLES = {
    "customers": ("id", "name", "city"),
    "orders": ("id", "customer", "amount"),
    "lines": ("id", "order_id", "qty"),
}
_INDEXED = {"orders": "customer", "lines": "order_id"}
_TEXTS = ("name", "city")
SELECT = """SELECT c.id AS customer, c.name, o.id AS order_id, o.amount, l.id AS line, l.qty
FROM {customers}.customers c JOIN {orders}.orders o ON o.customer = c.id
JOIN {lines}.lines l ON l.order_id = o.id"""
CUSTOMERS, ORDERS, LINES = 300, 1500, 6000
_SETTINGS = {"max_connections": "500", "max_wal_senders": "100", "max_replication_slots": "100"}
SPARE = 100
"""So many customers, and so many orders, are not there yet though others refer to them."""


@dataclass(frozen=True)
class Workload:
    """Where the tables are, what happens to them, and how much of it at once."""

    name: str
    title: str
    places: Mapping[str, str]
    """The source of each table."""
    kinds: Mapping[str, int]
    """How often rows are inserted, deleted and updated, as weights."""
    together: int = 1
    """How many transactions happen before anybody waits for the view."""
    rounds: int = 30

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.places.values()))

    @property
    def select(self) -> str:
        return SELECT.format(**self.places)


_ONE = dict.fromkeys(TABLES, "shop")
_THREE = {"customers": "crm", "orders": "shop", "lines": "stock"}
WORKLOADS = (
    Workload("one", "one source", _ONE, {"insert": 2, "delete": 1, "update": 1}),
    Workload("inserts", "three sources, inserts", _THREE, {"insert": 18, "delete": 1, "update": 1}),
    Workload("deletes", "three sources, deletes", _THREE, {"insert": 1, "delete": 18, "update": 1}),
    Workload(
        "bursts",
        "three sources, bursts",
        _THREE,
        {"insert": 2, "delete": 1, "update": 1},
        together=25,
        rounds=6,
    ),
)
_WEIGHTS = {"customers": 1, "orders": 3, "lines": 6}


@dataclass(frozen=True)
class Change:
    """One transaction at one table: a row comes, goes, or becomes another."""

    table: str
    statement: str
    values: tuple[object, ...]


class Templates:
    """A server with databases that are copied for each run, as is a SQLite file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = PostgresServer(settings=_SETTINGS)
        self._names = (f"run{number}" for number in count(1))
        self._fill_postgres("one", list(TABLES))
        self._fill_postgres("shop", ["orders"])
        self._fill_postgres("stock", ["lines"])
        with sqlite3.connect(folder / "crm.db") as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            _fill(connection.execute, ["customers"], "?")
        connection.close()

    def _fill_postgres(self, name: str, tables: Sequence[str]) -> None:
        self.server.execute(f"CREATE DATABASE {name}")
        with psycopg.connect(self.server.dsn(name), autocommit=True) as connection:
            _fill(lambda text, *given: connection.execute(text.encode(), *given), tables, "%s")
            connection.execute("ANALYZE")

    def copies(self, workload: Workload, folder: Path) -> Databases:
        """Databases of a workload for one run, in a folder of its own."""
        found: dict[str, str] = {}
        for source in workload.sources:
            if source == "crm":
                (folder / "crm.db").write_bytes((self.folder / "crm.db").read_bytes())
                continue
            template = "one" if len(workload.sources) == 1 else source
            name = next(self._names)
            self.server.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
            found[source] = name
        return Databases(self.server, workload, folder, found)

    def stop(self) -> None:
        self.server.stop()


class Databases:
    """The databases of one run, open for changes."""

    def __init__(
        self, server: PostgresServer, workload: Workload, folder: Path, names: Mapping[str, str]
    ) -> None:
        self._server, self._names = server, names
        self.workload = workload
        self.folder = folder
        self.committed = dict.fromkeys(workload.sources, 0)
        self._postgres = {
            source: psycopg.connect(server.dsn(name), autocommit=True)
            for source, name in names.items()
        }
        self._sqlite = None
        if "crm" in workload.sources:
            self._sqlite = sqlite3.connect(folder / "crm.db", isolation_level=None)
            self._sqlite.execute("PRAGMA synchronous = OFF")  # the source's disk is not measured

    @property
    def settings(self) -> str:
        """The sources as `headwater.toml` has them."""
        text = ""
        for source in self.workload.sources:
            tables = [table for table, place in self.workload.places.items() if place == source]
            text += f"[sources.{source}]\nrelations = {tables}\n"
            if source == "crm":
                text += "kind = 'sqlite'\npath = 'crm.db'\n"
            else:
                text += f"kind = 'postgres'\ndsn = \"{self._server.dsn(self._names[source])}\"\n"
        return text

    def commit(self, change: Change) -> str:
        """Commit a change; its source."""
        source = self.workload.places[change.table]
        if source == "crm":
            assert self._sqlite is not None
            self._sqlite.execute(change.statement.replace("%s", "?"), change.values)
        else:
            self._postgres[source].execute(change.statement.encode(), change.values)
        self.committed[source] += 1
        return source

    def close(self) -> None:
        for connection in self._postgres.values():
            connection.close()
        if self._sqlite is not None:
            self._sqlite.close()
        for name in self._names.values():
            with suppress(psycopg.Error):  # it goes with the server
                self._server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _fill(execute: object, tables: Sequence[str], mark: str) -> None:
    assert callable(execute)
    for table in tables:
        columns = ", ".join(
            f"{name} {'TEXT' if name in _TEXTS else 'BIGINT'}{' PRIMARY KEY' * (name == 'id')}"
            for name in TABLES[table]
        )
        execute(f"CREATE TABLE {table} ({columns})")
        if table in _INDEXED:
            execute(f"CREATE INDEX {table}_by ON {table} ({_INDEXED[table]})")
        for row in _rows(table):
            execute(f"INSERT INTO {table} VALUES ({mark}, {mark}, {mark})", row)


def _rows(table: str) -> Iterator[tuple[object, ...]]:
    match table:
        case "customers":
            yield from ((n, f"customer number {n}", f"city {n % 20}") for n in range(CUSTOMERS))
        case "orders":  # the last ones are of customers that are not there
            for n in range(ORDERS + SPARE):
                customer = n % CUSTOMERS if n < ORDERS else CUSTOMERS + (n - ORDERS) % SPARE
                yield n, customer, 10 * (n % 50)
        case "lines":  # the last ones are of orders that are not there
            for n in range(LINES + 5 * SPARE):
                order = n % (ORDERS + SPARE) if n < LINES else ORDERS + SPARE + n % SPARE
                yield n, order, 1 + n % 7


class Changes:
    """Changes of a workload from a seed: always the same."""

    def __init__(self, workload: Workload, seed: int) -> None:
        self._workload = workload
        self._random = Random(f"{workload.name}/{seed}")
        self._there = {
            "customers": list(range(CUSTOMERS)),
            "orders": list(range(ORDERS)),
            "lines": list(range(LINES)),
        }
        self._next = {
            "customers": iter(range(CUSTOMERS, CUSTOMERS + SPARE)),
            "orders": iter(range(ORDERS + SPARE, ORDERS + 2 * SPARE)),
            "lines": count(LINES + 5 * SPARE),
        }
        self._updates = count(1)
        for rows in self._there.values():
            self._random.shuffle(rows)

    def rounds(self) -> Iterator[list[Change]]:
        """The transactions that happen at once, again and again."""
        for _ in range(self._workload.rounds):
            yield [self._change() for _ in range(self._workload.together)]

    def _change(self) -> Change:
        kinds = self._workload.kinds
        (kind,) = self._random.choices(list(kinds), list(kinds.values()))
        (table,) = self._random.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
        if kind == "delete":
            table = "lines" if table == "customers" else table
            row = self._there[table].pop()
            return Change(table, f"DELETE FROM {table} WHERE id = %s", (row,))
        if kind == "update":
            row, n = self._random.choice(self._there[table]), next(self._updates)
            column = {"customers": "name", "orders": "amount", "lines": "qty"}[table]
            value: object = f"renamed {n}" if column == "name" else 1000 + n
            return Change(table, f"UPDATE {table} SET {column} = %s WHERE id = %s", (value, row))
        return self._insertion(table)

    def _insertion(self, table: str) -> Change:
        row = next(self._next[table])
        values: tuple[object, ...]
        match table:
            case "customers":
                values = (row, f"customer number {row}", "city new")
            case "orders":
                values = (row, self._random.choice(self._there["customers"]), 500)
            case _:
                values = (row, self._random.choice(self._there["orders"]), 1)
        return Change(table, f"INSERT INTO {table} VALUES (%s, %s, %s)", values)
