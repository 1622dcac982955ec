"""Those who change the demonstration's databases meanwhile, a transaction at a time.

Each writer is a thread with a connection of its own and knows nothing of Headwater. What it does
has several shapes: single rows, several rows and tables of one database, rows that come and go.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import TypeAlias

import psycopg

from headwater.demo.shop import ARTICLES, CITIES, CUSTOMERS, ORDERS, PRICES

Statement: TypeAlias = tuple[str, tuple[object, ...]]
Shape: TypeAlias = Callable[[Random], Sequence[Statement]]
"""Makes one transaction's statements."""

_RECENT = 500
"""So many of the newest orders are what most transactions are about."""
_new_orders = count(ORDERS)


def _some_order(chance: Random) -> int:
    return chance.randrange(ORDERS - _RECENT, ORDERS)


def _some_customer(chance: Random) -> int:
    return chance.randrange(CUSTOMERS)


# Customers, in SQLite


def _moves(chance: Random) -> Sequence[Statement]:
    values = (chance.choice(CITIES), _some_customer(chance))
    return [("UPDATE customers SET city = ? WHERE id = ?", values)]


def _gets_other_credit(chance: Random) -> Sequence[Statement]:
    values = (chance.randrange(200, 1000), _some_customer(chance))
    return [("UPDATE customers SET credit = ? WHERE id = ?", values)]


def _comes_back(chance: Random) -> Sequence[Statement]:
    """A customer is deleted and entered again, in one transaction."""
    who = _some_customer(chance)
    again = (who, f"customer {who}", chance.choice(CITIES), chance.randrange(200, 1000))
    return [
        ("DELETE FROM customers WHERE id = ?", (who,)),
        ("INSERT INTO customers VALUES (?, ?, ?, ?)", again),
    ]


# Orders, in one PostgreSQL server


def _ordered(chance: Random) -> Sequence[Statement]:
    values = (next(_new_orders), _some_customer(chance), chance.randrange(10, 800))
    return [("INSERT INTO orders VALUES (%s, %s, %s, 'open')", values)]


def _changes_hands(chance: Random) -> Sequence[Statement]:
    values = (_some_customer(chance), _some_order(chance))
    return [("UPDATE orders SET customer = %s WHERE id = %s", values)]


def _several_are_shipped(chance: Random) -> Sequence[Statement]:
    first = _some_order(chance)
    state = chance.choice(["open", "shipped"])
    statement = "UPDATE orders SET state = %s WHERE id BETWEEN %s AND %s"
    return [(statement, (state, first, first + 4))]


def _cancelled(chance: Random) -> Sequence[Statement]:
    return [("DELETE FROM orders WHERE id = %s", (_some_order(chance),))]


# Lines, in the other


def _added(chance: Random) -> Sequence[Statement]:
    order = chance.choice([_some_order(chance), chance.randrange(ORDERS, ORDERS + 200)])
    statement = "INSERT INTO lines VALUES (%s, %s, %s, %s)"
    return [
        (statement, (order, chance.choice(ARTICLES), chance.randint(1, 9), chance.choice(PRICES)))
        for _ in range(chance.randint(1, 4))
    ]


def _more_of_it(chance: Random) -> Sequence[Statement]:
    statement = "UPDATE lines SET quantity = quantity %% 9 + 1 WHERE order_id = %s"
    return [(statement, (_some_order(chance),))]


def _priced_anew(chance: Random) -> Sequence[Statement]:
    first = _some_order(chance)
    statement = "UPDATE lines SET price = %s WHERE order_id BETWEEN %s AND %s AND article = %s"
    return [(statement, (chance.choice(PRICES), first, first + 20, chance.choice(ARTICLES)))]


def _removed(chance: Random) -> Sequence[Statement]:
    values = (_some_order(chance), chance.choice(ARTICLES))
    return [("DELETE FROM lines WHERE order_id = %s AND article = %s", values)]


CRM: Sequence[Shape] = (_moves, _gets_other_credit, _comes_back)
SHOP: Sequence[Shape] = (_ordered, _ordered, _changes_hands, _several_are_shipped, _cancelled)
STOCK: Sequence[Shape] = (_added, _added, _more_of_it, _priced_anew, _removed)


class Writer(threading.Thread):
    """Changes one database until it is told to stop."""

    def __init__(
        self, name: str, connect: Callable[[], Connection], shapes: Sequence[Shape], pause_s: float
    ) -> None:
        super().__init__(name=f"writer of {name}", daemon=True)
        self.failure: Exception | None = None
        self._connect = connect
        self._shapes = shapes
        self._pause_s = pause_s
        self._chance = Random(name)
        self._stopping = threading.Event()

    def run(self) -> None:
        try:
            connection = self._connect()
            try:
                while not self._stopping.wait(self._chance.uniform(0.2, 1.8) * self._pause_s):
                    connection.transaction(self._chance.choice(self._shapes)(self._chance))
            finally:
                connection.close()
        except Exception as error:
            self.failure = error

    def stop(self) -> None:
        self._stopping.set()
        self.join()


class Connection:
    """A connection that takes whole transactions."""

    def transaction(self, statements: Sequence[Statement]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class Sqlite(Connection):
    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, timeout=30, isolation_level=None)

    def transaction(self, statements: Sequence[Statement]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        for statement, values in statements:
            self._connection.execute(statement, values)
        self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


class Postgres(Connection):
    def __init__(self, dsn: str) -> None:
        self._connection = psycopg.connect(dsn, autocommit=True)

    def transaction(self, statements: Sequence[Statement]) -> None:
        with self._connection.transaction():
            for statement, values in statements:
                self._connection.execute(statement.encode(), values)

    def close(self) -> None:
        self._connection.close()
