"""A shop over three databases with live writers, and an oracle that knows every state of it.

Customers live in a SQLite file, orders and lines each in a PostgreSQL server. The oracle
replays the change log from the contents before the first transaction, so it can say what any
view was at any version vector; that the log itself is right is shown by comparing its end
with the databases.
"""

from __future__ import annotations

import faulthandler
import json
import re
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise, product
from pathlib import Path
from random import Random
from typing import Any

import psycopg

from headwater import Project
from headwater.algebra.evaluate import evaluate_shown
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.views import View
from headwater.embedded.postgres import PostgresServer
from headwater.pipeline.runner import Runner
from headwater.testing.workload import UndoneError
from headwater.warehouse.change_records import Change
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.commits import ViewCommit
from headwater.warehouse.vectors import VersionVector
from headwater.warehouse.warehouse import Warehouse
from tests.sources.mariadb_harness import MariadbHarness

VIEWS = {
    # over all three sources
    "order_lines": """
        CREATE MATERIALIZED VIEW order_lines WITH STRONG CONSISTENCY AS
        SELECT c.name, o.id, l.item, l.qty * 2 AS pieces
        FROM crm.customers c JOIN shop.orders o ON o.customer = c.id
        JOIN stock.lines l ON l.order_id = o.id WHERE l.qty > 1
    """,
    # without keys: rows occur several times
    "prices": """
        CREATE MATERIALIZED VIEW prices AS
        SELECT l.item, l.price FROM shop.orders o JOIN stock.lines l ON l.order_id = o.id
    """,
    # with a condition across sources
    "large_orders": """
        CREATE MATERIALIZED VIEW large_orders WITH COMPLETE CONSISTENCY AS
        SELECT c.id AS customer, o.id, o.amount
        FROM crm.customers c JOIN shop.orders o ON o.customer = c.id WHERE o.amount > c.credit
    """,
}
BEYOND_A_JOIN = {
    # relations occur several times
    "activity": """
        CREATE MATERIALIZED VIEW activity AS
        SELECT o.id, o.amount FROM crm.customers c JOIN shop.orders o ON o.customer = c.id
        UNION ALL
        SELECT l.item, o.amount FROM shop.orders o JOIN stock.lines l ON l.order_id = o.id
        UNION ALL
        SELECT l.item, l.qty FROM stock.lines l WHERE l.qty > 1
    """,
    # padded by row, then grouped, over all three sources
    "spent": """
        CREATE MATERIALIZED VIEW spent WITH COMPLETE CONSISTENCY AS
        SELECT c.id, count(o.id) AS orders, sum(l.price) AS price, max(l.qty) AS most
        FROM crm.customers c LEFT JOIN shop.orders o ON o.customer = c.id
        LEFT JOIN stock.lines l ON l.order_id = o.id GROUP BY c.id
    """,
    # evaluated whole
    "dearest": """
        CREATE MATERIALIZED VIEW dearest AS SELECT o.id, o.amount FROM shop.orders o
        WHERE EXISTS (SELECT 1 FROM stock.lines l WHERE l.order_id = o.id)
        ORDER BY o.amount DESC LIMIT 5
    """,
}
TABLES = {
    "crm": "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, credit INTEGER)",
    "shop": "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, amount BIGINT)",
    "stock": "CREATE TABLE lines (order_id BIGINT, item BIGINT, qty BIGINT, price NUMERIC(10,2))",
}
ITEMS = "CREATE TABLE items (id BIGINT PRIMARY KEY, stock BIGINT)"
CUSTOMERS, ORDERS = 8, 30
LIMIT_S = 600.0


class Shop:
    """The databases, and a project over them."""

    def __init__(
        self,
        folder: Path,
        servers: Sequence[PostgresServer],
        engine: str = "auto",
        views: Mapping[str, str] = VIEWS,
        by_triggers: Sequence[str] = (),
        mariadb: MariadbHarness | None = None,
    ) -> None:
        """With a `mariadb` the stock is in it, and there is one PostgreSQL server only."""
        self.folder = folder
        self.file = folder / "crm.db"
        self.mariadb = mariadb
        found = [s.dsn() for s in servers] + ([mariadb.dsn] if mariadb is not None else [])
        self.dsns = dict(zip(("shop", "stock"), found, strict=True))
        self._create()
        (folder / "headwater.toml").write_text(_settings(self.dsns, engine, by_triggers))
        (folder / "views").mkdir()
        for name, text in views.items():
            (folder / "views" / f"{name}.sql").write_text(text)
        self.project = Project.open(folder)
        for source in self.project.sources.values():
            source.setup()
        self.base = self.contents()
        """What the tables held before the first transaction that is logged."""

    def _create(self) -> None:
        with sqlite3.connect(self.file) as crm:
            crm.execute(TABLES["crm"])
            crm.executemany(
                "INSERT INTO customers VALUES (?, ?, ?)",
                [(n, f"name {n % 5}", 50) for n in range(CUSTOMERS)],
            )
        crm.close()
        with psycopg.connect(self.dsns["shop"], autocommit=True) as shop:
            shop.execute("DROP TABLE IF EXISTS orders")
            shop.execute(TABLES["shop"].encode())
            for n in range(ORDERS):
                shop.execute("INSERT INTO orders VALUES (%s, %s, 60)", (n, n % CUSTOMERS))
            shop.execute("CREATE INDEX ON orders (customer)")
        if self.mariadb is not None:
            self._create_in_mariadb(self.mariadb)
            return
        with psycopg.connect(self.dsns["stock"], autocommit=True) as stock:
            stock.execute("DROP TABLE IF EXISTS lines, items")
            stock.execute(ITEMS.encode())
            stock.execute(TABLES["stock"].encode())
            for n in range(2 * ORDERS):
                stock.execute("INSERT INTO lines VALUES (%s, %s, 2, 1.5)", (n % ORDERS, n % 7))
            stock.execute("CREATE INDEX ON lines (order_id)")

    @staticmethod
    def _create_in_mariadb(stock: MariadbHarness) -> None:
        rows = ", ".join(f"({n % ORDERS}, {n % 7}, 2, 1.5)" for n in range(2 * ORDERS))
        stock.execute(
            ITEMS,
            in_mariadb(TABLES["stock"]),
            f"INSERT INTO `lines` VALUES {rows}",
            "CREATE INDEX by_order ON `lines` (order_id)",
        )

    def publish_every(self, duration: str) -> None:
        """Change how often plain tables are renewed, from the next start on."""
        path = self.folder / "headwater.toml"
        setting = f'publish_every = "{duration}"'
        path.write_text(re.sub(r"publish_every = .*", setting, path.read_text()))

    def teardown(self) -> None:
        for source in self.project.sources.values():
            source.teardown()

    @property
    def warehouse(self) -> Warehouse:
        return Warehouse(self.project.warehouse)

    def contents(self) -> dict[str, Rows]:
        """Every table as its database shows it, read by plain SQL."""
        relations = {r.name: r.without_texts() for r in self.project.relations()}
        found = {}
        for name, relation in relations.items():
            columns = ", ".join(relation.schema.names)
            query = f"SELECT {columns} FROM {relation.short_name}"
            found[name] = Rows.of(relation.schema, self._select(relation.source, query))
        return found

    def _select(self, source: str, query: str) -> list[tuple[Any, ...]]:
        if source == "crm":
            connection = sqlite3.connect(self.file)
            try:
                return connection.execute(query).fetchall()
            finally:
                connection.close()
        if source == "stock" and self.mariadb is not None:
            return self.mariadb.contents_of("", in_mariadb(query))
        with psycopg.connect(self.dsns[source]) as postgres:
            return postgres.execute(query.encode()).fetchall()


def in_mariadb(statement: str) -> str:
    """The name of a table is a word of the language there."""
    return re.sub(r"\blines\b", "`lines`", statement)


def _settings(dsns: Mapping[str, str], engine: str, by_triggers: Sequence[str]) -> str:
    changes = {
        name: f'changes = "{"triggers" if name in by_triggers else "replication"}"' for name in dsns
    }
    kind = dsns["stock"].partition("://")[0]
    if kind == "mariadb":
        changes["stock"] = ""
    return f"""
        [warehouse]
        path = "warehouse"
        publish_every = "2 seconds"
        [spark]
        master = "local[2]"
        engine = "{engine}"
        [sources.crm]
        kind = "sqlite"
        path = "crm.db"
        relations = ["customers"]
        [sources.shop]
        kind = "postgres"
        dsn = "{dsns["shop"]}"
        relations = ["orders"]
        {changes["shop"]}
        [sources.stock]
        kind = "{"mariadb" if kind == "mariadb" else "postgres"}"
        dsn = "{dsns["stock"]}"
        relations = ["lines", "items"]
        {changes["stock"]}
    """


def wait_for(runner: Runner, condition: Callable[[], bool]) -> None:
    """Wait as long as views go on, however slowly."""
    deadline, before = time.monotonic() + LIMIT_S, _gone_on(runner)
    while not condition():
        runner.supervise()
        for status in runner.views.values():
            assert status.state != "stopped", status.message
        if time.monotonic() > deadline:
            now = _gone_on(runner)
            assert now != before, _how_it_stands(runner)
            deadline, before = time.monotonic() + LIMIT_S, now
        time.sleep(0.05)


def _gone_on(runner: Runner) -> dict[str, object]:
    """How many commits each view has made."""
    return {name: view.get("commits") for name, view in runner.describe()["views"].items()}


def _how_it_stands(runner: Runner) -> str:
    """Everything that tells why a runner stands still: its views, its sources, its threads."""
    with tempfile.TemporaryFile("w+") as stacks:
        faulthandler.dump_traceback(stacks)
        stacks.seek(0)
        return f"{json.dumps(runner.describe(), indent=1, default=str)}\n{stacks.read()}"


# Writers


class Writer(threading.Thread):
    """Changes one database, a transaction at a time, until it is told to stop, or `most` times."""

    def __init__(
        self, shop: Shop, source: str, seed: int, pause_s: float, most: int = 1_000_000
    ) -> None:
        super().__init__(name=f"writer of {source}", daemon=True)
        self.shop = shop
        self.source = source
        self.random = Random(seed)
        self.pause_s = pause_s
        self.most = most
        self.stopping = threading.Event()
        self.failure: BaseException | None = None
        self.next_order = ORDERS + seed * 1_000_000

    def run(self) -> None:
        try:
            if self.source == "crm":
                self._write_sqlite()
            elif self.source == "stock" and self.shop.mariadb is not None:
                self._write_mariadb(self.shop.mariadb)
            else:
                self._write_postgres()
        except BaseException as error:
            self.failure = error

    def stop(self) -> None:
        self.stopping.set()
        self.join()
        if self.failure is not None:
            raise self.failure

    def _goes_on(self) -> bool:
        self.most -= 1
        return self.most >= 0 and not self.stopping.wait(self.pause_s)

    def _write_sqlite(self) -> None:
        connection = sqlite3.connect(self.shop.file, timeout=30, isolation_level=None)
        while self._goes_on():
            connection.execute("BEGIN IMMEDIATE")
            for _ in range(self.random.randint(1, 2)):
                connection.execute(*self._customer())
            connection.execute("COMMIT")
        connection.close()

    def _customer(self) -> tuple[str, tuple[Any, ...]]:
        number = self.random.randrange(CUSTOMERS)
        match self.random.randrange(3):
            case 0:
                credit = self.random.choice([40, 50, 70, None])
                return "UPDATE customers SET credit = ? WHERE id = ?", (credit, number)
            case 1:
                return "DELETE FROM customers WHERE id = ?", (number,)
            case _:
                name = f"name {self.random.randrange(5)}"
                statement = "INSERT INTO customers VALUES (?, ?, 50) ON CONFLICT DO NOTHING"
                return statement, (number, name)

    def _write_postgres(self) -> None:
        with psycopg.connect(self.shop.dsns[self.source], autocommit=True) as connection:
            while self._goes_on():
                with connection.transaction():
                    for _ in range(self.random.randint(1, 3)):
                        statement, values = self._order() if self.source == "shop" else self._line()
                        connection.execute(statement.encode(), values)

    def _write_mariadb(self, stock: MariadbHarness) -> None:
        writer = stock.writer()
        while self._goes_on():
            with suppress(UndoneError), writer.transaction():
                for _ in range(self.random.randint(1, 3)):
                    statement, values = self._line()
                    writer.execute(statement.replace("%s", "?"), values)
        writer.close()

    def _order(self) -> tuple[str, tuple[Any, ...]]:
        number = self.random.randrange(ORDERS)
        match self.random.randrange(3):
            case 0:
                self.next_order = (self.next_order + 1) % ORDERS
                customer = self.random.randrange(CUSTOMERS + 1)
                statement = "INSERT INTO orders VALUES (%s, %s, 60) ON CONFLICT DO NOTHING"
                return statement, (self.next_order, customer)
            case 1:
                return "DELETE FROM orders WHERE id = %s", (number,)
            case _:
                amount = self.random.choice([30, 60, 90])
                return "UPDATE orders SET amount = %s WHERE id = %s", (amount, number)

    def _line(self) -> tuple[str, tuple[Any, ...]]:
        order, item = self.random.randrange(ORDERS), self.random.randrange(7)
        match self.random.randrange(4):
            case 0:
                return "DELETE FROM lines WHERE order_id = %s AND item = %s", (order, item)
            case 1:
                statement = "UPDATE lines SET qty = qty + 1 WHERE order_id = %s AND item = %s"
                return statement, (order, item)
            case _:
                statement = "INSERT INTO lines VALUES (%s, %s, %s, 1.5)"
                return statement, (order, item, self.random.choice([1, 2, 3]))


def start_writers(shop: Shop, pause_s: float, seed: int = 1, most: int = 1_000_000) -> list[Writer]:
    writers = [
        Writer(shop, source, seed + at, pause_s, most)
        for at, source in enumerate(("crm", "shop", "stock", "stock"))
    ]
    for writer in writers:
        writer.start()
    return writers


# The oracle


class Oracle:
    """What every view was at every version vector."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.relations: tuple[Relation, ...] = shop.project.relations()
        self.changes: dict[str, list[Change]] = {
            source: [
                change
                for change in ChangeLog(shop.warehouse.changes, source).read()
                if isinstance(change, Change)
            ]
            for source in shop.project.settings.sources
        }
        self._schemas = self._used_columns()
        self._states: dict[str, list[Rows]] = {}
        for name, schema in self._schemas.items():
            states = [shop.base[name].only(schema)]
            for change in self.changes[name.partition(".")[0]]:
                delta = change.transaction.deltas.get(name)
                states.append(states[-1] + delta.only(schema) if delta else states[-1])
            self._states[name] = states

    def _used_columns(self) -> dict[str, Schema]:
        """What the log has to know of each relation: the columns that some view uses."""
        used: dict[str, set[str]] = {}
        for view in map(self.view, self.shop.project.view_files):
            for name, columns in view.used_columns.items():
                used.setdefault(name, set()).update(columns)
        return {
            relation.name: relation.schema.only(
                [name for name in relation.schema.names if name in used[relation.name]]
            )
            for relation in self.relations
            if relation.name in used
        }

    def view(self, name: str) -> View:
        return self.shop.project.definition(name, self.relations).view.narrowed()

    def at(self, view: View, numbers: Mapping[str, int]) -> Rows:
        """The view computed from the relations after so many transactions of each source."""
        return evaluate_shown(
            view,
            {
                r.name: self._states[r.name][numbers[r.source]].only(r.schema)
                for r in view.relations
            },
        )

    def at_vector(self, view: View, vector: VersionVector) -> Rows:
        assert all(not reached.also for reached in vector.values())
        return self.at(view, {source: reached.number for source, reached in vector.items()})

    def check_log(self) -> None:
        """The log leads to what the databases show now."""
        contents = self.shop.contents()
        for name, states in self._states.items():
            assert states[-1] == contents[name].only(self._schemas[name])

    def check_view(self, name: str) -> list[ViewCommit]:
        """Every version of a view is right at its vector, and vectors only grow."""
        view = self.view(name)
        table = self.shop.warehouse.view(name)
        commits = list(table.commits())[::-1]
        known: dict[int, Rows] = {}
        for before, after in pairwise(commits):
            assert all(before.vector[s].number <= r.number for s, r in after.vector.items())
        for commit in commits:
            known[commit.number] = self.at_vector(view, commit.vector)
            found = table.rows(commit.number)
            wrong = found - known[commit.number]
            assert not wrong, (name, commit, wrong)
        return commits

    def check_reached_the_end(self, name: str) -> None:
        vector = self.shop.warehouse.view(name).latest().vector
        assert {s: r.number for s, r in vector.items()} == {
            source: len(self.changes[source]) for source in vector
        }

    def check_complete(self, name: str, commits: Sequence[ViewCommit]) -> None:
        """No commit takes in more than one transaction that changes the view."""
        view = self.view(name)
        for before, after in pairwise(commits):
            changes = self._fewest_changes(view, _numbers(before.vector), _numbers(after.vector))
            assert changes <= 1, (name, after)

    def _fewest_changes(self, view: View, start: Mapping[str, int], end: Mapping[str, int]) -> int:
        """How often the view changes on the best walk, one transaction at a time."""
        ranges = [range(start[source], end[source] + 1) for source in start]
        fewest: dict[tuple[int, ...], int] = {}
        states: dict[tuple[int, ...], Rows] = {}
        for place in product(*ranges):
            states[place] = self.at(view, dict(zip(start, place, strict=True)))
            steps = [
                fewest[earlier] + (states[earlier] != states[place])
                for at in range(len(place))
                if (earlier := (*place[:at], place[at] - 1, *place[at + 1 :])) in fewest
            ]
            fewest[place] = min(steps, default=0)
        return fewest[tuple(end[source] for source in start)]


def _numbers(vector: VersionVector) -> dict[str, int]:
    return {source: reached.number for source, reached in vector.items()}
