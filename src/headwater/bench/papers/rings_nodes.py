"""Rings over real nodes: processes beside databases of their own, and how late a view is.

Each item is a table of a SQLite database with a node of its own (`headwater node`); messages
between nodes go through the runner. An item is updated and the time taken until the view has
committed it, each in turn; then all items at once, until the last is in.
"""

from __future__ import annotations

import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from headwater.errors import HeadwaterError
from headwater.frames.session import spark_session
from headwater.pipeline.runner import Runner
from headwater.project.project import Project

_LIMIT_S = 300.0
_COLUMNS = "k INTEGER PRIMARY KEY, v INTEGER NOT NULL, w INTEGER NOT NULL"


@dataclass
class Late:
    """Milliseconds from a commit until the view shows it."""

    one_ms: list[float] = field(default_factory=list)
    all_ms: list[float] = field(default_factory=list)

    @property
    def one(self) -> float:
        return median(self.one_ms)

    @property
    def all(self) -> float:
        return median(self.all_ms)


def measure(protocol: str, items: int, rounds: int) -> Late:
    """Rounds, each with an update of every item by itself and one of all at once."""
    found, warming = Late(), Late()
    with tempfile.TemporaryDirectory(prefix="headwater-rings-") as made, ExitStack() as stack:
        folder = Path(made)
        _make(folder, protocol, items)
        tables = {
            f"x{n}": stack.enter_context(closing(_opened(folder / f"s{n}.db")))
            for n in range(1, items + 1)
        }
        shown = stack.enter_context(_running(folder, items))
        for at in range(rounds + 1):
            late = found if at else warming
            late.one_ms += [_late({name: tables[name]}, shown) for name in tables]
            late.all_ms.append(_late(tables, shown))
    return found


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


def _make(folder: Path, protocol: str, items: int) -> None:
    names = [f"x{number}" for number in range(1, items + 1)]
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    settings = f"[warehouse]\npublish_every = '1 day'\n[nodes]\nlisten = '127.0.0.1:{port}'\n"
    for number, name in enumerate(names, 1):
        with closing(_opened(folder / f"s{number}.db")) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute(f"CREATE TABLE {name} ({_COLUMNS})")
            database.execute(f"INSERT INTO {name} VALUES (1, 1, 0)")
        settings += (
            f"[sources.s{number}]\nkind = 'sqlite'\npath = 's{number}.db'\n"
            f"relations = ['{name}']\nnode = 'by itself'\n"
        )
    (folder / "headwater.toml").write_text(settings)
    (folder / "views").mkdir()
    shown = ", ".join(f"{name}.w AS w{name[1:]}" for name in names)
    tables = ", ".join(f"s{name[1:]}.{name} {name}" for name in names)
    joins = " AND ".join(f"x1.v = {name}.v" for name in names[1:])
    (folder / "views" / "v.sql").write_text(
        f"CREATE MATERIALIZED VIEW v USING {protocol} AS SELECT {shown} FROM {tables} WHERE {joins}"
    )


class _Shown:
    """Waits until the view shows so many more updates."""

    def __init__(self) -> None:
        self.runner: Runner | None = None
        self._changed = threading.Condition()
        self._wanted = 0
        self._at = 0.0

    def watch(self, view: str, step: str, seconds: float) -> None:
        if step == "commit":
            with self._changed:
                self._at = time.monotonic()
                self._changed.notify_all()

    def reached(self) -> int | None:
        """How many updates the view shows in all; None before it is there."""
        assert self.runner is not None
        view = self.runner.views["v"]
        if view.failure is not None:
            raise view.failure
        if view.maintainer is None or view.maintainer.vector is None:
            return None
        return sum(reached.number for reached in view.maintainer.visible.values())

    def after(self, more: int) -> float:
        """When the commit came that shows so many more."""
        self._wanted += more
        deadline = time.monotonic() + _LIMIT_S
        with self._changed:
            while (self.reached() or 0) < self._wanted:
                self._changed.wait(0.05)
                if time.monotonic() > deadline:
                    raise HeadwaterError(f"Nothing came within {_LIMIT_S:.0f} s.")
            return self._at

    def loaded(self) -> None:
        deadline = time.monotonic() + _LIMIT_S
        assert self.runner is not None
        while (reached := self.reached()) is None:
            self.runner.supervise()
            if time.monotonic() > deadline:
                raise HeadwaterError(f"The view was not loaded within {_LIMIT_S:.0f} s.")
            time.sleep(0.05)
        self._wanted = reached


def _late(tables: Mapping[str, sqlite3.Connection], shown: _Shown) -> float:
    began = time.monotonic()
    for name, connection in tables.items():
        connection.execute(f"UPDATE {name} SET w = w + 1")
    return 1000 * (shown.after(len(tables)) - began)


@contextmanager
def _running(folder: Path, items: int) -> Iterator[_Shown]:
    """A runner, and a node process for each item."""
    for source in Project.open(folder).sources.values():
        source.setup()
    shown = _Shown()
    shown.runner = Runner(Project.open(folder), spark_session, shown.watch)
    nodes: list[subprocess.Popen[bytes]] = []
    shown.runner.start()
    try:
        command = [sys.executable, "-m", "headwater", "node", "--project", str(folder)]
        for number in range(1, items + 1):
            with (folder / f"node{number}.out").open("wb") as said:
                nodes.append(
                    subprocess.Popen(
                        [*command, f"s{number}"], stdin=subprocess.DEVNULL, stdout=said, stderr=said
                    )
                )
        shown.loaded()
        yield shown
    finally:
        for node in nodes:
            node.terminate()
        for node in nodes:
            node.wait()
        shown.runner.stop()
