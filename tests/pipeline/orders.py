"""Orders, their lines and customers in two databases, and a view by each algorithm that may be.

Orders and lines are in a PostgreSQL server, customers in a SQLite file. All views are maintained
together by one runner, beside writers; each version of each is judged by what the change log says
that the databases held. No view is large, so no Spark is needed.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from headwater import Project
from headwater.algorithms.registry import ALGORITHMS
from headwater.check.levels import Level
from headwater.embedded.postgres import PostgresServer
from headwater.pipeline.runner import Runner
from headwater.pipeline.verify import verify_view
from headwater.project.choice import promised, usable
from headwater.protocol.managers import Need
from tests.pipeline.world import Oracle, Shop, Writer, wait_for
from tests.warehouse.test_small import no_spark

ONE, BOTH = ("shop",), ("crm", "shop")
SELECTS = {
    ONE: "SELECT o.customer, l.item, l.qty FROM shop.orders o "
    "JOIN shop.lines l ON l.order_id = o.id",
    BOTH: "SELECT c.name, o.amount, l.qty FROM crm.customers c "
    "JOIN shop.orders o ON o.customer = c.id JOIN shop.lines l ON l.order_id = o.id",
}
BEYOND_JOINS = {
    "sums": "SELECT c.name, count(*) AS n, sum(o.amount) AS amount FROM crm.customers c "
    "JOIN shop.orders o ON o.customer = c.id GROUP BY c.name",
    "may_fail": "SELECT c.name, o.amount / (o.customer + 1) AS share FROM crm.customers c "
    "JOIN shop.orders o ON o.customer = c.id",
}
"""Rows that would be condensed, and a column that tells of errors, by an algorithm with keys."""
IN_PARTS = {
    "outer_by_key": (
        "c-t-strobe",
        "SELECT c.name, o.amount FROM crm.customers c LEFT JOIN shop.orders o ON o.customer = c.id",
    ),
    "sum_by_key": (
        "t-strobe",
        "SELECT c.name, o.amount FROM crm.customers c JOIN shop.orders o ON o.customer = c.id "
        "UNION ALL SELECT c.name, c.credit FROM crm.customers c",
    ),
}
"""Several parts, by an algorithm with keys."""
WITH_COPIES = {
    "customers_copied": ("sweep", "crm.customers", SELECTS[BOTH]),
    "lines_copied": ("t-strobe", "lines", SELECTS[BOTH]),
    "sums_over_copies": ("pvm-cc", "crm.customers, shop.orders", BEYOND_JOINS["sums"]),
    "outer_over_copies": (
        "copies",
        "",
        "SELECT o.id, o.amount, l.qty FROM shop.orders o LEFT JOIN shop.lines l "
        "ON l.order_id = o.id AND l.qty > 1",
    ),
}
"""Copies beside an algorithm that asks: of some relations, and of all."""
CUSTOMERS, ORDERS, LINES = 6, 12, 3


def kept(name: str, sources: Sequence[str]) -> Level:
    return promised(ALGORITHMS[name], {}, sources)


def views() -> dict[str, tuple[str, Sequence[str]]]:
    """Each algorithm that USING may name, over one source and over both: the view's text."""
    found: dict[str, tuple[str, Sequence[str]]] = {}
    for sources, select in SELECTS.items():
        for name in usable(Level.CONVERGENT, sources):
            view = f"{name.replace('-', '_')}_{'one' if sources == ONE else 'both'}"
            words = {Level.CONVERGENT: "CONVERGENCE"}.get(kept(name, sources), "")
            keys = "KEEP KEYS" if Need.KEYS in ALGORITHMS[name].needs else ""
            level = words or str(kept(name, sources)).upper()
            header = f"CREATE MATERIALIZED VIEW {view} WITH {level} USING {name} {keys}"
            found[view] = (f"{header} AS {select}", sources)
    for view, select in BEYOND_JOINS.items():
        header = f"CREATE MATERIALIZED VIEW {view} WITH COMPLETE USING c-t-strobe KEEP KEYS"
        found[view] = (f"{header} AS {select}", BOTH)
    for view, (name, select) in IN_PARTS.items():
        level = str(kept(name, BOTH)).upper()
        header = f"CREATE MATERIALIZED VIEW {view} WITH {level} USING {name} KEEP KEYS"
        found[view] = (f"{header} AS {select}", BOTH)
    for view, (name, copied, select) in WITH_COPIES.items():
        sources = BOTH if "crm." in select else ONE
        level = str(kept(name, sources)).upper()
        header = f"CREATE MATERIALIZED VIEW {view} WITH {level} USING {name} KEEP KEYS"
        copies = f"KEEP COPY OF {copied}" if copied else ""
        found[view] = (f"{header} {copies} AS {select}", sources)
    return found


VIEWS = views()
PLAIN = {name for name in VIEWS if name.endswith(("_one", "_both"))}
"""A view by each algorithm, over one source and over both, with nothing else to it."""


class Orders(Shop):
    """Both databases, and a project with all views over them."""

    def __init__(self, folder: Path, server: PostgresServer, views: Mapping[str, str]) -> None:
        self.folder = folder
        self.file = folder / "crm.db"
        self.dsns = {"shop": server.dsn()}
        self._create()
        (folder / "headwater.toml").write_text(
            f"""
            [warehouse]
            publish_every = "1 second"
            [spark]
            master = "local[2]"
            [sources.crm]
            kind = "sqlite"
            path = "crm.db"
            relations = ["customers"]
            [sources.shop]
            kind = "postgres"
            dsn = "{server.dsn()}"
            relations = ["orders", "lines"]
            """
        )
        (folder / "views").mkdir()
        for name, text in views.items():
            (folder / "views" / f"{name}.sql").write_text(text)
        self.project = Project.open(folder)
        for source in self.project.sources.values():
            source.setup()
        self.base = self.contents()

    def _create(self) -> None:
        with sqlite3.connect(self.file) as crm:
            crm.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, credit INT)")
            rows = [(n, f"name {n % 2}", 50) for n in range(CUSTOMERS)]
            crm.executemany("INSERT INTO customers VALUES (?, ?, ?)", rows)
        crm.close()
        with psycopg.connect(self.dsns["shop"], autocommit=True) as shop:
            shop.execute("DROP TABLE IF EXISTS orders, lines")
            shop.execute("CREATE TABLE orders (id INT PRIMARY KEY, customer INT, amount INT)")
            shop.execute(
                "CREATE TABLE lines (order_id INT, line INT, item INT, qty INT, "
                "PRIMARY KEY (order_id, line))"
            )
            for n in range(ORDERS):
                shop.execute("INSERT INTO orders VALUES (%s, %s, 60)", (n, n % CUSTOMERS))
                shop.execute("INSERT INTO lines VALUES (%s, 0, %s, 1)", (n, n % 3))


class OrdersWriter(Writer):
    """Changes orders, their lines, and customers: rows come, go, move and come back."""

    def _order(self) -> tuple[str, tuple[Any, ...]]:
        random = self.random
        order, line, item = random.randrange(ORDERS), random.randrange(LINES), random.randrange(3)
        match random.randrange(6):
            case 0:
                return "DELETE FROM orders WHERE id = %s", (order,)
            case 1:
                statement = "UPDATE orders SET customer = %s, amount = %s WHERE id = %s"
                return statement, (random.randrange(CUSTOMERS), random.choice([30, 60]), order)
            case 2:
                statement = "INSERT INTO orders VALUES (%s, %s, 60) ON CONFLICT DO NOTHING"
                return statement, (order, random.randrange(CUSTOMERS))
            case 3:
                return "DELETE FROM lines WHERE order_id = %s AND line = %s", (order, line)
            case 4:
                statement = "UPDATE lines SET qty = 3 - qty WHERE order_id = %s AND line = %s"
                return statement, (order, line)
            case _:
                statement = "INSERT INTO lines VALUES (%s, %s, %s, 1) ON CONFLICT DO NOTHING"
                return statement, (order, line, item)


def write(shop: Orders, pause_s: float, most: int, seed: int) -> list[Writer]:
    writers: list[Writer] = [
        OrdersWriter(shop, source, seed + at, pause_s, most)
        for at, source in enumerate(("crm", "shop", "shop"))
    ]
    for writer in writers:
        writer.start()
    return writers


@contextmanager
def maintained(shop: Orders) -> Iterator[Runner]:
    """A runner of all views, which are loaded."""
    runner = Runner(shop.project, no_spark)
    runner.start()
    try:
        wait_for(runner, lambda: all(s.state == "running" for s in runner.views.values()))
        yield runner
    finally:
        runner.stop()


def run_beside_writers(shop: Orders, transactions: int, pause_s: float = 0.05) -> None:
    """Maintain all views while so many transactions of each writer happen, and verify them."""
    with maintained(shop) as runner:
        for writer in write(shop, pause_s, transactions, seed=1):
            writer.join()
            assert writer.failure is None
        targets = runner.targets()
        wait_for(runner, partial(runner.reach, targets))
        for name in VIEWS:
            assert verify_view(shop.project, name, no_spark).holds, name


@dataclass(frozen=True)
class Judged:
    """What a run has shown of one view."""

    view: str
    algorithm: str
    sources: Sequence[str]
    level: Level
    """The highest that every version of it has kept."""
    versions: int

    @property
    def promised(self) -> Level:
        return kept(self.algorithm, self.sources)


def judged(shop: Orders) -> Iterator[Judged]:
    """Each view by what its versions were; all must have reached the end, and be right there."""
    oracle = Oracle(shop)
    oracle.check_log()
    for name in shop.project.view_files:
        _, sources = VIEWS[name]
        table = shop.warehouse.view(name)
        oracle.check_reached_the_end(name)
        assert table.shown_schema == oracle.view(name).shown_schema
        assert table.rows() == oracle.at_vector(oracle.view(name), table.latest().vector)
        algorithm = shop.project.view_files[name].algorithm
        assert algorithm is not None
        level, versions = _level(oracle, name)
        yield Judged(name, algorithm, sources, level, versions)


def _level(oracle: Oracle, name: str) -> tuple[Level, int]:
    try:
        commits = oracle.check_view(name)
    except AssertionError:
        return Level.CONVERGENT, 0
    try:
        oracle.check_complete(name, commits)
    except AssertionError:
        return Level.STRONG, len(commits)
    return Level.COMPLETE, len(commits)
