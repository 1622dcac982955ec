"""Hundreds of views on one runner: what a transaction costs that concerns one of them.

Three SQLite databases hold pairs of tables, a pair in one of them or in two; each view joins a
pair. The first pairs belong to one view each, and get the transactions; all further views share
the others. Each number of views is measured in a process of its own over databases that are alike,
in short rounds that take turns, so that a noisy machine disturbs all of them alike.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

from headwater.bench.processes import memory_mb
from headwater.errors import HeadwaterError
from headwater.frames.session import spark_session
from headwater.pipeline.runner import Runner
from headwater.project.project import Project
from headwater.terminal.output import print_json, print_table

_SOURCES = ("one", "two", "three")
_ROWS = 20
_WRITTEN_TO = 5
"""So many pairs of tables get the transactions, however many views there are."""
_PAIRS = 15
_ROUND = 20
_LIMIT_S = 900.0
_IDLE_S = 5.0
_SUPERVISE_S = 0.2


@dataclass
class Figures:
    """What was measured with one number of views."""

    views: int
    load_s: float = 0.0
    """Until all views were loaded for the first time."""
    start_s: float = 0.0
    """Until all were followed again after a restart."""
    threads: int = 0
    memory_mb: float = 0.0
    idle: float = 0.0
    """Share of a processor while nothing happens."""
    milliseconds: list[float] = field(default_factory=list)
    """From the commit at the source to the commit of the view, of each transaction."""
    processor_ms: list[float] = field(default_factory=list)
    """Of the process, for a transaction, of each round."""

    def as_json(self) -> dict[str, Any]:
        ordered = sorted(self.milliseconds)
        return {
            "views": self.views,
            "threads": self.threads,
            "memory_mb": round(self.memory_mb, 1),
            "load_s": round(self.load_s, 2),
            "start_s": round(self.start_s, 2),
            "idle_processor": round(self.idle, 4),
            "visible_ms": round(median(ordered), 3),
            "visible_p99_ms": round(ordered[int(0.99 * (len(ordered) - 1))], 3),
            "processor_ms": round(median(self.processor_ms), 3),
        }


def views(counts: Sequence[int], transactions: int, as_json: bool) -> None:
    """Measure and show; see `headwater bench views --help`."""
    found = [figures.as_json() for figures in measure(counts, transactions)]
    fewest = min(found, key=lambda figures: int(figures["views"]))
    for figures in found:
        for name in ("visible_ms", "processor_ms"):
            figures[f"{name.removesuffix('_ms')}_ratio"] = round(figures[name] / fewest[name], 2)
    if as_json:
        for figures in found:
            print_json(figures)
        return
    shown: dict[str, Callable[[dict[str, Any]], str]] = {
        "threads": lambda f: f"{f['threads']}",
        "memory, MB": lambda f: f"{f['memory_mb']:,.0f}",
        "first load of all, s": lambda f: f"{f['load_s']:.1f}",
        "start, s": lambda f: f"{f['start_s']:.1f}",
        "processor while nothing happens": lambda f: f"{f['idle_processor']:.1%}",
        "a transaction of one view, visible after, ms": lambda f: (
            f"{f['visible_ms']:.2f} (× {f['visible_ratio']:.2f})"
        ),
        "99 per cent, ms": lambda f: f"{f['visible_p99_ms']:.2f}",
        "processor for a transaction, ms": lambda f: (
            f"{f['processor_ms']:.2f} (× {f['processor_ratio']:.2f})"
        ),
    }
    print_table(
        f"Views on one runner, three SQLite sources, {transactions} transactions of one view each",
        ["", *(f"{figures['views']:,} views" for figures in found)],
        ([name, *(show(figures) for figures in found)] for name, show in shown.items()),
    )


def measure(counts: Sequence[int], transactions: int) -> list[Figures]:
    """The figures of each number of views."""
    with ExitStack() as stack:
        measured = [stack.enter_context(_elsewhere(count)) for count in counts]
        for _ in range(2):
            for elsewhere in measured:
                elsewhere.round()  # warms up
        for _ in range(max(1, transactions // _ROUND)):
            for elsewhere in measured:
                milliseconds, processor = elsewhere.round()
                elsewhere.figures.milliseconds += milliseconds
                elsewhere.figures.processor_ms.append(1000 * processor / _ROUND)
        return [elsewhere.figures for elsewhere in measured]


# The other processes


@dataclass
class _Elsewhere:
    """A runner in a process of its own."""

    figures: Figures
    told: Connection

    def round(self) -> tuple[list[float], float]:
        """Some transactions: how long each took, and the seconds of processor for all."""
        self.told.send("round")
        found: tuple[list[float], float] = _received(self.told)
        return found


@contextmanager
def _elsewhere(count: int) -> Iterator[_Elsewhere]:
    _say(f"starting {count} views")
    context = get_context("spawn")
    told, other = context.Pipe()
    process = context.Process(target=_serve, args=(count, other), daemon=True)
    process.start()
    other.close()
    try:
        yield _Elsewhere(_received(told), told)
        told.send("stop")
        process.join(_LIMIT_S)
    finally:
        process.kill()


def _received(told: Connection) -> Any:
    try:
        found = told.recv()
    except EOFError:
        raise HeadwaterError("The measured process ended.") from None
    if isinstance(found, HeadwaterError):
        raise found
    return found


def _serve(count: int, told: Connection) -> None:
    """One number of views, until the other end of the pipe has enough."""
    try:
        with tempfile.TemporaryDirectory() as folder, _Running(Path(folder), count) as found:
            told.send(found.figures)
            while told.recv() == "round":
                told.send(found.round())
    except HeadwaterError as error:
        told.send(error)


class _Running:
    """A project with its databases and a runner that is being supervised."""

    def __init__(self, folder: Path, count: int) -> None:
        self.figures = Figures(count)
        self._folder = folder
        self._visible = threading.Semaphore(0)
        self._stopping = threading.Event()
        self._written = 0
        _write_project(folder, count)
        self._databases = {source: _database(folder, source) for source in _SOURCES}
        for source in Project.open(folder).sources.values():
            source.setup()
        self._runner, self.figures.load_s = self._start()
        self._runner.stop()
        self._runner, self.figures.start_s = self._start()
        self._supervisor = threading.Thread(target=self._supervise, daemon=True)

    def __enter__(self) -> _Running:
        self._supervisor.start()
        for _ in range(_WRITTEN_TO):
            self.round()
        began, used = time.monotonic(), time.process_time()
        time.sleep(_IDLE_S)
        self.figures.idle = (time.process_time() - used) / (time.monotonic() - began)
        self.figures.threads = threading.active_count()
        self.figures.memory_mb = memory_mb()["python"]
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._supervisor.join()
        self._runner.stop()

    def _start(self) -> tuple[Runner, float]:
        """A runner that follows all views, and how long that took."""
        runner = Runner(Project.open(self._folder), spark_session, watch=self._watch)
        began = time.monotonic()
        runner.start()
        _wait(lambda: _all_follow(runner), runner)
        return runner, time.monotonic() - began

    def _watch(self, view: str, step: str, seconds: float) -> None:
        if step == "commit":
            self._visible.release()

    def _supervise(self) -> None:
        while not self._stopping.wait(_SUPERVISE_S):
            self._runner.supervise()

    def round(self) -> tuple[list[float], float]:
        found = []
        used = time.process_time()
        for _ in range(_ROUND):
            self._written += 1
            pair, row = self._written % min(_WRITTEN_TO, self.figures.views), self._written % _ROWS
            database = self._databases[_places(pair)[0]]
            database.execute(f"UPDATE a{pair} SET v = v + 1 WHERE id = {row}")
            began = time.monotonic()
            if not self._visible.acquire(timeout=_LIMIT_S):
                raise HeadwaterError("A transaction did not become visible.")
            found.append(1000 * (time.monotonic() - began))
        return found, time.process_time() - used


def _all_follow(runner: Runner) -> bool:
    for status in runner.views.values():
        if status.failure is not None:
            raise status.failure
    return all(s.maintainer is not None and s.maintainer.vector for s in runner.views.values())


def _wait(condition: Callable[[], bool], runner: Runner) -> None:
    deadline = time.monotonic() + _LIMIT_S
    while not condition():
        runner.supervise()
        if time.monotonic() > deadline:
            raise HeadwaterError(f"Nothing came within {_LIMIT_S:.0f} s.")
        time.sleep(0.05)


# The project


def _places(pair: int) -> tuple[str, str]:
    """Where the tables of a pair are: every third is in one source."""
    first = pair % len(_SOURCES)
    second = first if pair % 3 == 2 else (first + 1) % len(_SOURCES)
    return _SOURCES[first], _SOURCES[second]


def _tables(source: str) -> list[str]:
    found = [f"a{pair}" for pair in range(_PAIRS) if _places(pair)[0] == source]
    return found + [f"b{pair}" for pair in range(_PAIRS) if _places(pair)[1] == source]


def _pair_of(view: int) -> int:
    """The tables of a view; those that are written to are of no other."""
    if view < _WRITTEN_TO:
        return view
    return _WRITTEN_TO + (view - _WRITTEN_TO) % (_PAIRS - _WRITTEN_TO)


def _write_project(folder: Path, count: int) -> None:
    (folder / "views").mkdir()
    text = "[warehouse]\npath = 'warehouse'\n"
    for source in _SOURCES:
        text += f"[sources.{source}]\nkind = 'sqlite'\npath = '{source}.db'\n"
        text += f"relations = {_tables(source)}\n"
    (folder / "headwater.toml").write_text(text)
    for view in range(count):
        pair = _pair_of(view)
        first, second = _places(pair)
        (folder / "views" / f"v{view}.sql").write_text(
            f"CREATE MATERIALIZED VIEW v{view} AS SELECT a.id, a.v, b.name "
            f"FROM {first}.a{pair} a JOIN {second}.b{pair} b ON b.id = a.b\n"
        )


def _database(folder: Path, source: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        folder / f"{source}.db", isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = OFF")  # the source's disk is not measured
    connection.execute("BEGIN")
    for table in _tables(source):
        column = "b INTEGER, v INTEGER" if table.startswith("a") else "name TEXT"
        values = "?, ?, 0" if table.startswith("a") else "?, 'name ' || ?"
        connection.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, {column})")
        connection.executemany(
            f"INSERT INTO {table} VALUES ({values})", [(n, n) for n in range(_ROWS)]
        )
    connection.execute("COMMIT")
    return connection


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
