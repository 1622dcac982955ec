"""Views that ask a source at the same time: what they ask it, and when all have committed.

All views of a runner are over the same join of two tables of a PostgreSQL server; either they ask
the same, or each has a condition of its own. Every transaction changes one of the tables, so that
each view asks for rows of the other. Rounds in which each question is asked alone take turns with
such in which they go together.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import psycopg

from headwater.embedded.postgres import PostgresServer
from headwater.errors import HeadwaterError
from headwater.frames.session import spark_session
from headwater.pipeline.runner import Runner
from headwater.project.project import Project
from headwater.sources.connections import Connections, Inquirer
from headwater.sources.rounds import Question
from headwater.terminal.output import print_json, print_table

_ROWS = 1000
_ROUND = 10
_LIMIT_S = 300.0
_KINDS = ("the same", "each its own")
_WAYS = ("alone", "together")


@dataclass
class Figures:
    """What was measured of one kind of questions, asked in one way."""

    kind: str
    way: str
    milliseconds: list[float] = field(default_factory=list)
    """From the commit at the source until all views have committed, of each transaction."""
    counted: Counter[str] = field(default_factory=Counter)

    def as_json(self) -> dict[str, Any]:
        number = len(self.milliseconds)
        return {
            "questions": self.kind,
            "asked": self.way,
            "all_visible_ms": round(median(self.milliseconds), 2),
            "all_visible_p95_ms": round(sorted(self.milliseconds)[int(0.95 * (number - 1))], 2),
            "questions_each": round(self.counted["questions"] / number, 2),
            "rounds_each": round(self.counted["rounds"] / number, 2),
            "evaluated_each": round(
                (self.counted["questions"] - self.counted["shared"]) / number, 2
            ),
        }


def questions(views: int, transactions: int, as_json: bool) -> None:
    """Measure and show; see `headwater bench questions --help`."""
    found = [figures.as_json() for figures in measure(views, transactions)]
    for alone, together in zip(found[::2], found[1::2], strict=True):
        together["ratio"] = round(together["all_visible_ms"] / alone["all_visible_ms"], 2)
    if as_json:
        for figures in found:
            print_json(figures)
        return
    print_table(
        f"{views} views that ask PostgreSQL at once, a transaction of all of them",
        ["questions", "asked", "questions", "round trips", "evaluated", "all visible, ms", "95 %"],
        (
            [
                f["questions"],
                f["asked"],
                f"{f['questions_each']:.1f}",
                f"{f['rounds_each']:.1f}",
                f"{f['evaluated_each']:.1f}",
                f"{f['all_visible_ms']:.1f}" + (f" (× {f['ratio']:.2f})" if "ratio" in f else ""),
                f"{f['all_visible_p95_ms']:.1f}",
            ]
            for f in found
        ),
    )


def measure(views: int, transactions: int) -> list[Figures]:
    """Each kind of questions: alone, and then together."""
    found: list[Figures] = []
    server = PostgresServer()
    try:
        for number, kind in enumerate(_KINDS):
            ways = {way: Figures(kind, way) for way in _WAYS}
            with _running(server, f"bench{number}", views, kind) as running:
                for way in _WAYS:
                    running.round(Figures(kind, way))  # warms up
                for _ in range(max(1, transactions // _ROUND)):
                    for figures in ways.values():
                        running.round(figures)
            found += ways.values()
    finally:
        server.stop()
    return found


@dataclass
class _Running:
    """A runner with all views, and the database that they are over."""

    runner: Runner
    views: int
    database: psycopg.Connection[Any]
    committed: threading.Semaphore
    written: int = 0

    def round(self, figures: Figures) -> None:
        connections = self.runner.feeds["shop"].channel.connections
        before = Counter(connections.counted)
        with _asked(connections, figures.way):
            for _ in range(_ROUND):
                figures.milliseconds.append(self._transaction())
        figures.counted.update(Counter(connections.counted) - before)

    def _transaction(self) -> float:
        self.written += 1
        row = self.written % _ROWS
        self.database.execute("UPDATE orders SET price = price + 1 WHERE id = %s", [row])
        began = time.monotonic()
        for _ in range(self.views):
            if not self.committed.acquire(timeout=_LIMIT_S):
                raise HeadwaterError("A transaction did not become visible.")
        return 1000 * (time.monotonic() - began)


@contextmanager
def _asked(connections: Connections, way: str) -> Iterator[None]:
    put = connections.put

    def put_alone(question: Question[Inquirer]) -> None:
        put(replace(question, alone=True))

    if way == "alone":
        setattr(connections, "put", put_alone)  # noqa: B010  # a method, which types protect
    try:
        yield
    finally:
        vars(connections).pop("put", None)


@contextmanager
def _running(server: PostgresServer, name: str, views: int, kind: str) -> Iterator[_Running]:
    committed = threading.Semaphore(0)

    def watch(view: str, step: str, seconds: float) -> None:
        if step == "commit":
            committed.release()

    server.execute(f"CREATE DATABASE {name}")
    with (
        tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder,
        psycopg.connect(server.dsn(name), autocommit=True) as database,
    ):
        _fill(database)
        project = _project(Path(folder), server.dsn(name), views, kind)
        for source in project.sources.values():
            source.setup()
        runner = Runner(Project.open(Path(folder)), spark_session, watch)
        runner.start()
        stopping = threading.Event()
        supervisor = threading.Thread(target=_supervise, args=(runner, stopping), daemon=True)
        supervisor.start()
        try:
            _wait_until_loaded(runner, views)
            while committed.acquire(blocking=False):
                pass  # the loads
            yield _Running(runner, views, database, committed)
        finally:
            stopping.set()
            supervisor.join()
            runner.stop()


def _supervise(runner: Runner, stopping: threading.Event) -> None:
    while not stopping.wait(0.2):
        runner.supervise()


def _wait_until_loaded(runner: Runner, views: int) -> None:
    deadline = time.monotonic() + _LIMIT_S
    while True:
        found = list(runner.views.values())
        for view in found:
            if view.failure is not None:
                raise view.failure
        if len(found) == views and all(v.maintainer and v.maintainer.vector for v in found):
            return
        if time.monotonic() > deadline:
            raise HeadwaterError(f"The views were not loaded within {_LIMIT_S:.0f} s.")
        time.sleep(0.1)


def _fill(database: psycopg.Connection[Any]) -> None:
    database.execute("CREATE TABLE customers (id int PRIMARY KEY, name text)")
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, customer int, price int)")
    database.execute(
        "INSERT INTO customers SELECT n, 'name ' || n FROM generate_series(0, %s) n", [_ROWS]
    )
    database.execute("INSERT INTO orders SELECT n, n, n FROM generate_series(0, %s) n", [_ROWS])


def _project(folder: Path, dsn: str, views: int, kind: str) -> Project:
    (folder / "views").mkdir()
    (folder / "headwater.toml").write_text(
        "[warehouse]\npath = 'warehouse'\npublish_every = '1 day'\n"
        f"[sources.shop]\nkind = 'postgres'\ndsn = {dsn!r}\n"
        "relations = ['customers', 'orders']\n"
    )
    for number in range(views):
        own = f" WHERE c.id >= {-number}" if kind == "each its own" else ""
        (folder / "views" / f"v{number}.sql").write_text(
            f"CREATE MATERIALIZED VIEW v{number} WITH COMPLETE CONSISTENCY USING sweep AS "
            "SELECT o.id, o.price, c.name FROM shop.orders o "
            f"JOIN shop.customers c ON c.id = o.customer{own}\n"
        )
    return Project.open(folder)
