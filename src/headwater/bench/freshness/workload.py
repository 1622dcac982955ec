"""TPC-H customers, orders and lines in three PostgreSQL servers, and batches of changes.

A change is a new order with its lines, a deleted order with its lines, or a customer's new
segment. A batch of changes is one transaction at each server that it touches.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pyarrow
import pyarrow.csv
import pyarrow.parquet

from headwater.embedded.postgres import PostgresServer
from headwater.errors import InputError

TABLES = ("customer", "orders", "lineitem")
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
SHIPPED_AFTER = "1995-03-15"
SELECT = f"""
SELECT c.c_custkey, c.c_mktsegment, o.o_orderkey, o.o_orderdate, l.l_linenumber,
       l.l_extendedprice, l.l_discount
FROM {{customer}} c JOIN {{orders}} o ON o.o_custkey = c.c_custkey
                    JOIN {{lineitem}} l ON l.l_orderkey = o.o_orderkey
WHERE l.l_shipdate > DATE '{SHIPPED_AFTER}'
"""
_JOINED = SELECT[SELECT.index("FROM") :]
_REVENUE = "sum(l.l_extendedprice * (1 - l.l_discount)) AS revenue, count(*) AS lines"
SELECTS = {
    "v1": SELECT,
    "v2": f"""
SELECT c.c_mktsegment, year(o.o_orderdate) AS year, month(o.o_orderdate) AS month, {_REVENUE}
{_JOINED}GROUP BY c.c_mktsegment, year(o.o_orderdate), month(o.o_orderdate)
""",
    "v3": f"""
SELECT c.c_mktsegment, o.o_orderkey, l.l_linenumber, {_REVENUE}
{_JOINED}GROUP BY c.c_mktsegment, o.o_orderkey, l.l_linenumber
""",
}
"""The join, and sums over it: of some hundred groups, and of as many as it has rows. All use what
the workload changes: who uses none of it is told nothing, and nothing could be timed."""
_INDEXES = {
    "customer": ("ALTER TABLE customer ADD PRIMARY KEY (c_custkey)",),
    "orders": (
        "ALTER TABLE orders ADD PRIMARY KEY (o_orderkey)",
        "CREATE INDEX ON orders (o_custkey)",
    ),
    "lineitem": ("ALTER TABLE lineitem ADD PRIMARY KEY (l_orderkey, l_linenumber)",),
}
_SETTINGS = {"shared_buffers": "256MB", "max_wal_size": "4GB", "fsync": "off"}


def tpch_program() -> str:
    """What makes TPC-H's tables."""
    program = shutil.which("tpchgen-cli", path=str(Path(sys.executable).parent)) or shutil.which(
        "tpchgen-cli"
    )
    if program is None:
        raise InputError(
            "This measurement needs tpchgen-cli.", "Install it: pip install 'headwater[bench]'."
        )
    return program


def generate(folder: Path, scale: float) -> dict[str, Path]:
    """The tables as Parquet files."""
    subprocess.run(
        [
            *(tpch_program(), "parquet", "-s", str(scale), f"--tables={','.join(TABLES)}"),
            *("--output-dir", str(folder)),
        ],
        check=True,
        capture_output=True,
    )
    return {table: folder / f"{table}.parquet" for table in TABLES}


class Servers:
    """One server for each table, filled."""

    def __init__(self, files: dict[str, Path]) -> None:
        self.files = files
        self.servers: dict[str, PostgresServer] = {}
        for table, path in files.items():
            server = self.servers[table] = PostgresServer(settings=_SETTINGS)
            _fill(server, table, path)

    def dsn(self, table: str) -> str:
        return self.servers[table].dsn()

    @property
    def processes(self) -> list[int]:
        return [server.process for server in self.servers.values()]

    def stop(self) -> None:
        for server in self.servers.values():
            server.stop()


def _fill(server: PostgresServer, table: str, path: Path) -> None:
    file = pyarrow.parquet.ParquetFile(path)
    columns = ", ".join(f"{f.name} {_sql_type(f.type)} NOT NULL" for f in file.schema_arrow)
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {table} ({columns})".encode())
        with (
            connection.cursor() as cursor,
            cursor.copy(f"COPY {table} FROM STDIN (FORMAT csv)".encode()) as copy,
        ):
            for batch in file.iter_batches(100_000):
                sink = pyarrow.BufferOutputStream()
                options = pyarrow.csv.WriteOptions(include_header=False)
                pyarrow.csv.write_csv(_writable(batch), sink, options)
                copy.write(bytes(sink.getvalue()))
        for statement in _INDEXES[table]:
            connection.execute(statement.encode())
        connection.execute(f"ANALYZE {table}".encode())


def _writable(batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    """With texts of a kind that the CSV writer knows."""
    fields = [
        pyarrow.field(f.name, pyarrow.string() if f.type == pyarrow.string_view() else f.type)
        for f in batch.schema
    ]
    return batch.cast(pyarrow.schema(fields))


def _sql_type(kind: pyarrow.DataType) -> str:
    if pyarrow.types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    if pyarrow.types.is_date(kind):
        return "date"
    return "bigint" if pyarrow.types.is_integer(kind) else "text"


# Changes

_DAY = "DATE '1996-01-01' + (k * 7919 %% 700)::int"
_SHIPPED = f"{_DAY} + 1 + ((k * 13 + n * 29) %% 120)::int"
_COME = {
    "orders": "INSERT INTO orders SELECT k, 1 + k * 31 %% %(customers)s, 'O', 100.00, "
    f"{_DAY}, '1-URGENT', 'Clerk#000000001', 0, 'new' "
    "FROM generate_series(%(first)s::bigint, %(last)s) AS g (k)",
    "lineitem": "INSERT INTO lineitem SELECT k, n * 7 %% 1999, n %% 97, n, 17.00, "
    "900 + (k * 31 + n * 17) %% 99100, 0.05, 0.02, 'N', 'O', "
    f"{_SHIPPED}, {_SHIPPED}, {_SHIPPED}, 'NONE', 'AIR', 'new line' "
    "FROM generate_series(%(first)s::bigint, %(last)s) AS g (k), "
    "generate_series(1, 1 + k %% 7) AS h (n)",
}
_GO = {
    "orders": "DELETE FROM orders WHERE o_orderkey BETWEEN %(first)s AND %(last)s",
    "lineitem": "DELETE FROM lineitem WHERE l_orderkey BETWEEN %(first)s AND %(last)s",
}


def bulk_rows(keys: range) -> int:
    """How many orders and lines came with these keys."""
    return len(keys) + sum(1 + key % 7 for key in keys)


@dataclass
class Batch:
    """What one batch does at each server."""

    segments: list[tuple[str, int]] = field(default_factory=list)
    new_orders: list[tuple[Any, ...]] = field(default_factory=list)
    new_lines: list[tuple[Any, ...]] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)

    @property
    def tables(self) -> list[str]:
        found = ["customer"] if self.segments else []
        return found + (["orders", "lineitem"] if self.new_orders or self.gone else [])


class Changes:
    """Makes batches and commits them, over a connection to each server."""

    def __init__(self, servers: Servers, seed: int = 1) -> None:
        self.random = Random(seed)
        self.connections = {
            table: psycopg.connect(servers.dsn(table), autocommit=True) for table in TABLES
        }
        self.customers = self._one("customer", "SELECT count(*) FROM customer")
        self.next_order = self._one("orders", "SELECT max(o_orderkey) FROM orders") + 1
        rows = self.connections["orders"].execute(
            "SELECT o_orderkey FROM orders ORDER BY hashint8(o_orderkey) LIMIT 400000"
        )
        self.deletable = [int(row[0]) for row in rows]
        self.renamed = 0
        self.committed = dict.fromkeys(TABLES, 0)

    def close(self) -> None:
        for connection in self.connections.values():
            connection.close()

    def _one(self, table: str, query: str) -> int:
        row = self.connections[table].execute(query.encode()).fetchone()
        assert row is not None
        return int(row[0])

    def batch(self, size: int) -> Batch:
        made = Batch()
        for _ in range(size):
            kind = self.random.randrange(3)
            if kind == 0:
                self._new_order(made)
            elif kind == 1:
                made.gone.append(self.deletable.pop())
            else:
                customer = self.random.randrange(self.customers) + 1
                # Never the same again: a change that changes nothing would not be seen.
                self.renamed += 1
                made.segments.append((f"{self.random.choice(SEGMENTS)} {self.renamed}", customer))
        return made

    def _new_order(self, made: Batch) -> None:
        order, self.next_order = self.next_order, self.next_order + 1
        day = date(1996, 1, 1) + timedelta(days=self.random.randrange(700))
        customer = self.random.randrange(self.customers) + 1
        made.new_orders.append(
            (order, customer, "O", "100.00", day, "1-URGENT", "Clerk#000000001", 0, "new")
        )
        for line in range(1, self.random.randint(1, 7) + 1):
            shipped = day + timedelta(days=self.random.randrange(1, 121))
            price = f"{self.random.randrange(90000, 10000000) / 100:.2f}"
            made.new_lines.append(
                (
                    *(order, line * 7 % 1999, line % 97, line, "17.00", price, "0.05", "0.02"),
                    *("N", "O", shipped, shipped, shipped, "NONE", "AIR", "new line"),
                )
            )

    # In bulk: the servers make the rows themselves, so that nothing of them is held here

    def come(self, orders: int) -> range:
        """Commit so many new orders with their lines, one transaction at each server."""
        keys = range(self.next_order, self.next_order + orders)
        self.next_order = keys.stop
        bounds = {"first": keys.start, "last": keys.stop - 1, "customers": self.customers}
        for table, statement in _COME.items():
            self._bulk(table, statement, bounds)
        return keys

    def go(self, keys: range) -> None:
        """Commit that these orders and their lines are gone."""
        for table, statement in _GO.items():
            self._bulk(table, statement, {"first": keys.start, "last": keys.stop - 1})

    def _bulk(self, table: str, statement: str, bounds: dict[str, int]) -> None:
        self.connections[table].execute(statement.encode(), bounds)
        self.committed[table] += 1

    def commit(self, batch: Batch) -> float:
        """Commit a batch, one transaction at each server; when the last commit returned."""
        for table in batch.tables:
            connection = self.connections[table]
            with connection.transaction():
                getattr(self, f"_write_{table}")(connection, batch)
            self.committed[table] += 1
        return time.monotonic()

    def _write_customer(self, connection: psycopg.Connection[Any], batch: Batch) -> None:
        connection.execute(
            "UPDATE customer SET c_mktsegment = n.segment FROM unnest(%s::text[], %s::bigint[]) "
            "AS n (segment, key) WHERE c_custkey = n.key",
            ([s for s, _ in batch.segments], [c for _, c in batch.segments]),
        )

    def _write_orders(self, connection: psycopg.Connection[Any], batch: Batch) -> None:
        self._write(connection, "orders", "o_orderkey", batch.new_orders, batch.gone)

    def _write_lineitem(self, connection: psycopg.Connection[Any], batch: Batch) -> None:
        self._write(connection, "lineitem", "l_orderkey", batch.new_lines, batch.gone)

    def _write(
        self,
        connection: psycopg.Connection[Any],
        table: str,
        key: str,
        rows: list[tuple[Any, ...]],
        gone: list[int],
    ) -> None:
        if gone:
            connection.execute(f"DELETE FROM {table} WHERE {key} = ANY(%s)".encode(), (gone,))
        if rows:
            with (
                connection.cursor() as cursor,
                cursor.copy(f"COPY {table} FROM STDIN".encode()) as copy,
            ):
                for row in rows:
                    copy.write_row(row)
