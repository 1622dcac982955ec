"""A small project over SQLite files, for what goes wrong around a view rather than in it."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from headwater import Project
from headwater.errors import HeadwaterError
from headwater.pipeline.runner import Runner
from headwater.warehouse.warehouse import Warehouse

LIMIT_S = 600.0
TABLES = {
    "shop": "CREATE TABLE orders (id INTEGER PRIMARY KEY, amount INTEGER, note TEXT, state TEXT)",
    "crm": "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)",
}
AMOUNTS = "CREATE MATERIALIZED VIEW amounts AS SELECT id, amount FROM shop.orders"
NOTES = "CREATE MATERIALIZED VIEW notes AS SELECT id, note FROM shop.orders"
NAMES = "CREATE MATERIALIZED VIEW names AS SELECT id, name FROM crm.customers"
VIEWS = {"amounts": AMOUNTS, "notes": NOTES, "names": NAMES}


class Small:
    """Two databases, `shop` and `crm`, with one table each, and a project over them."""

    def __init__(self, folder: Path, views: Mapping[str, str] = VIEWS, run: str = "") -> None:
        self.folder = folder
        (folder / "views").mkdir(parents=True)
        (folder / "headwater.toml").write_text(
            "[warehouse]\npublish_every = '1 hour'\n[spark]\nmaster = 'local[2]'\n"
            f"[run]\n{run}\n"
            "[sources.shop]\nkind = 'sqlite'\npath = 'shop.db'\nrelations = ['orders']\n"
            "[sources.crm]\nkind = 'sqlite'\npath = 'crm.db'\nrelations = ['customers']\n"
        )
        for name, statement in TABLES.items():
            self.write(name, statement)
        self.write("shop", "INSERT INTO orders VALUES (1, 10, 'a', 'new'), (2, 20, 'b', 'new')")
        self.write("crm", "INSERT INTO customers VALUES (1, 'Ada')")
        for name, text in views.items():
            self.view_file(name).write_text(text)
        for source in self.project.sources.values():
            source.setup()

    @property
    def project(self) -> Project:
        return Project.open(self.folder)

    @property
    def warehouse(self) -> Warehouse:
        return Warehouse(self.folder / "warehouse")

    @property
    def arguments(self) -> tuple[str, str]:
        return ("--project", str(self.folder))

    def view_file(self, name: str) -> Path:
        return self.folder / "views" / f"{name}.sql"

    def write(self, database: str, *statements: str) -> None:
        """Run statements, all of them in one transaction."""
        connection = sqlite3.connect(self.folder / f"{database}.db", isolation_level=None)
        connection.execute("BEGIN")
        for statement in statements:
            connection.execute(statement)
        connection.execute("COMMIT")
        connection.close()

    def run(self, spark: SparkSession) -> None:
        self.project.run(once=True, spark=spark)

    def rows(self, view: str, version: int | None = None) -> set[tuple[object, ...]]:
        return set(self.warehouse.view(view).rows(version))


@contextlib.contextmanager
def running(small: Small, spark: SparkSession) -> Iterator[Runner]:
    """A runner of a small project, supervised in a thread of its own."""
    with supervised(Runner(small.project, lambda: spark)) as runner:
        yield runner


@contextlib.contextmanager
def supervised(runner: Runner) -> Iterator[Runner]:
    """A runner from beginning to end, supervised in a thread of its own."""
    runner.start()
    stopping = threading.Event()
    failures: list[HeadwaterError] = []

    def supervise() -> None:
        try:
            while not stopping.wait(0.02):
                runner.supervise()
        except HeadwaterError as error:
            failures.append(error)

    thread = threading.Thread(target=supervise, daemon=True)
    thread.start()
    try:
        yield runner
    finally:
        stopping.set()
        thread.join()
        runner.stop()
    assert not failures, failures


def wait_until(condition: Callable[[], bool], about: Callable[[], object] = lambda: "") -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, about()
        time.sleep(0.02)
