"""The demonstration's databases: customers in a SQLite file, orders and lines in two servers."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from headwater.embedded.postgres import PostgresServer

CUSTOMERS, ORDERS, LINES = 2_000, 6_000, 15_000
CITIES = ("Lisbon", "Oslo", "Porto", "Riga", "Turin")
ARTICLES = tuple(f"{kind} {size}" for kind in ("tea", "cup", "pot") for size in "SML")
PRICES = tuple(map(Decimal, ("4.50", "7.25", "12.00", "24.00")))

_CUSTOMERS = "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT, credit INTEGER)"
_ORDERS = """
    CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, amount BIGINT, state TEXT);
    CREATE INDEX ON orders (customer)
"""
_LINES = """
    CREATE TABLE lines (order_id BIGINT, article TEXT, quantity BIGINT, price NUMERIC(8,2));
    CREATE INDEX ON lines (order_id)
"""
VIEWS = ("order_lines", "prices", "over_credit", "bulk")


def write_project(folder: Path, engine: str) -> list[Path]:
    """The project's files as a user would write them; where they are."""
    (folder / "views").mkdir(parents=True)
    ours = files(__package__) / "files"
    names = ["headwater.toml", *(f"views/{name}.sql" for name in VIEWS)]
    for name in names:
        text = ours.joinpath(name).read_text(encoding="utf-8").replace("ENGINE", engine)
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in names]


def fill_customers(path: Path) -> None:
    chance = Random(1)
    rows = (
        (n, f"customer {n}", chance.choice(CITIES), chance.randrange(200, 1000))
        for n in range(CUSTOMERS)
    )
    connection = sqlite3.connect(path)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(_CUSTOMERS)
        connection.executemany("INSERT INTO customers VALUES (?, ?, ?, ?)", rows)
        connection.commit()
    finally:
        connection.close()


def fill_orders(server: PostgresServer) -> None:
    chance = Random(2)
    rows = (
        (n, chance.randrange(CUSTOMERS), chance.randrange(10, 800), "open") for n in range(ORDERS)
    )
    _fill(server, _ORDERS, "orders", rows)


def fill_lines(server: PostgresServer) -> None:
    chance = Random(3)
    rows = (
        (
            chance.randrange(ORDERS),
            chance.choice(ARTICLES),
            chance.randint(1, 9),
            chance.choice(PRICES),
        )
        for _ in range(LINES)
    )
    _fill(server, _LINES, "lines", rows)


def _fill(
    server: PostgresServer, definition: str, table: str, rows: Iterable[tuple[object, ...]]
) -> None:
    with psycopg.connect(server.dsn()) as connection:
        connection.execute(definition.encode())
        with connection.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
            for row in rows:
                copy.write_row(row)
