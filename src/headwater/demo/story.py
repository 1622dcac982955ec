"""What happens in the demonstration, one phase after the other, and that nothing is left of it.

Whatever takes time is done by threads; the main one only waits, renews what is shown, and
notices when it is told to stop. So stopping never falls into the middle of a step, and what
the steps have made is removed in any case.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from headwater.demo import shop, writers
from headwater.demo.audience import Audience
from headwater.demo.writers import Postgres, Sqlite, Writer
from headwater.embedded.postgres import PostgresServer
from headwater.errors import HeadwaterError, StoppedError
from headwater.frames.session import spark_session
from headwater.pipeline.runner import Runner
from headwater.pipeline.verify import verify_view
from headwater.project.project import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

_REFRESH_S = 0.2
_PAUSES_S = {"auto": 0.08, "spark": 1.0}
"""Spark takes longer for a small change than memory does, so it gets fewer."""
_INTERRUPTED = 130
_END_S = 30


@contextmanager
def folder_for(keep: Path | None) -> Iterator[Path]:
    """Where the project is: a folder that is removed afterwards, or the one to be kept."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    folder = Path(tempfile.mkdtemp(prefix="headwater-demo-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Story:
    """One demonstration in one folder."""

    def __init__(
        self, folder: Path, engine: str, seconds: float, told: Audience, *, kept: bool
    ) -> None:
        self._folder = folder
        self._engine = engine
        self._seconds = seconds
        self._told = told
        self._kept = kept
        self._asked_to_stop = threading.Event()
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="demo")
        self._spark: Future[SparkSession] | None = None
        self._servers: list[Future[PostgresServer]] = []
        self._writers: list[Writer] = []
        self._runner: Runner | None = None
        self._left_s: float | None = None

    def play(self) -> int:
        """The exit code: 0 if every view was proved right."""
        with _noticing(self._asked_to_stop):
            try:
                return self._play()
            except StoppedError:
                self._told.end("Stopping: writers, views, Spark and the servers end.")
                return _INTERRUPTED
            finally:
                self._clean_up()

    def _play(self) -> int:
        dsns = self._start_databases()
        project = self._make_project(dsns)
        self._start_writers(dsns)
        self._maintain(project)
        holds = self._verify(project)
        self._told.end(self._summary())
        return 0 if holds else 1

    # Phases

    def _start_databases(self) -> dict[str, str]:
        self._told.phase("Two PostgreSQL servers, a SQLite file and Spark start.")
        self._spark = self._pool.submit(self._start_spark)
        self._servers = [self._pool.submit(PostgresServer) for _ in range(2)]
        self._do(partial(shop.fill_customers, self._folder / "crm.db"))
        orders, lines = (self._wait(server) for server in self._servers)
        self._told.phase(
            f"They get {shop.CUSTOMERS:,} customers, {shop.ORDERS:,} orders, {shop.LINES:,} lines."
        )
        self._do(partial(shop.fill_orders, orders))
        self._do(partial(shop.fill_lines, lines))
        return {"SHOP_DSN": orders.dsn(), "STOCK_DSN": lines.dsn()}

    def _make_project(self, dsns: dict[str, str]) -> Project:
        paths = shop.write_project(self._folder, self._engine)
        self._told.files(paths, self._folder)
        os.environ.update(dsns)
        project = Project.open(self._folder)
        self._told.phase("headwater setup: each database gets what is needed to see its changes.")
        for source in project.sources.values():
            self._do(source.setup)
        return project

    def _start_writers(self, dsns: dict[str, str]) -> None:
        pause_s = _PAUSES_S[self._engine]
        crm = partial(Sqlite, self._folder / "crm.db")
        self._writers = [
            Writer("crm", crm, writers.CRM, 2 * pause_s),
            Writer("shop", partial(Postgres, dsns["SHOP_DSN"]), writers.SHOP, pause_s),
            Writer("stock", partial(Postgres, dsns["STOCK_DSN"]), writers.STOCK, pause_s),
        ]
        for writer in self._writers:
            writer.start()

    def _maintain(self, project: Project) -> None:
        self._told.phase("headwater run: Spark loads the views; the databases go on changing.")
        self._do(partial(self._bring_up, Runner(project, self._session)))
        while any(view["state"] != "running" for view in self._describe()["views"].values()):
            self._look_and_pause()
        self._told.phase("The views follow: every commit is a state that the databases had.")
        until = time.monotonic() + self._seconds
        while (now := time.monotonic()) < until:
            self._left_s = until - now
            self._look_and_pause()
        self._left_s = None

    def _bring_up(self, runner: Runner) -> None:
        runner.start()
        self._runner = runner

    def _verify(self, project: Project) -> bool:
        self._told.phase(
            "headwater verify: views are recomputed at their version vectors; nobody pauses."
        )
        holds = True
        for name in shop.VIEWS:
            found = self._do(partial(verify_view, project, name, self._session()))
            self._told.verified(found)
            holds = holds and found.holds
        return holds

    def _summary(self) -> str:
        found = self._describe()
        transactions = sum(source["read"] for source in found["sources"].values())
        commits = sum(view["commits"] for view in found["views"].values())
        step = "headwater init DIR makes a project to play with; docs/quickstart.md goes on."
        if self._kept:
            step = f"read {self._folder}/warehouse/{shop.VIEWS[0]} with anything that knows Delta."
        return (
            f"{transactions:,} transactions became {commits:,} commits, while three databases "
            f"went on.\nNext: {step}"
        )

    # Steps

    def _do(self, work: Callable[[], T]) -> T:
        return self._wait(self._pool.submit(work))

    def _wait(self, future: Future[T]) -> T:
        while not future.done():
            self._look()
            wait([future], _REFRESH_S)
        return future.result()

    def _look_and_pause(self) -> None:
        self._look()
        self._asked_to_stop.wait(_REFRESH_S)

    def _look(self) -> None:
        if self._asked_to_stop.is_set():
            raise StoppedError("The demonstration was stopped.")
        for writer in self._writers:
            if writer.failure is not None:
                raise HeadwaterError(f"The {writer.name} failed: {writer.failure}.")
        if self._runner is None:
            self._told.look(None, None)
            return
        self._runner.supervise()
        for status in self._runner.views.values():
            if status.state == "stopped":
                raise HeadwaterError(f"View {status.name} stopped: {status.message}")
        self._told.look(self._describe(), self._left_s)

    def _describe(self) -> dict[str, Any]:
        assert self._runner is not None
        return self._runner.describe()

    # What runs beside

    def _start_spark(self) -> SparkSession:
        log = self._folder / "warehouse" / "_headwater" / "spark.log"
        return spark_session(master="local[2]", app="headwater demo", log=log)

    def _session(self) -> SparkSession:
        assert self._spark is not None
        session = self._spark.result()
        if self._asked_to_stop.is_set():
            raise StoppedError("The demonstration was stopped.")
        return session

    def _clean_up(self) -> None:
        """End everything, from the top down; what goes wrong with one does not keep the others."""
        with ExitStack() as last_first:
            if self._spark is not None:
                last_first.callback(_end_spark, self._spark)
            for server in self._servers:
                last_first.callback(_stop_server, server)
            for writer in self._writers:
                last_first.callback(writer.stop)
            last_first.callback(self._stop_runner)
            last_first.callback(self._end_step)

    def _end_step(self) -> None:
        """Wait for the step that is at work; loads and proofs are no longer wanted."""
        if self._spark is not None and self._spark.done() and self._spark.exception() is None:
            context = self._spark.result().sparkContext
            for name in shop.VIEWS:
                context.cancelJobGroup(f"{name}: load")
                context.cancelJobGroup(f"{name}: verify")
        self._pool.shutdown()

    def _stop_runner(self) -> None:
        if self._runner is not None:
            self._runner.stop()


def _stop_server(server: Future[PostgresServer]) -> None:
    if server.exception() is None:
        server.result().stop()


def _end_spark(session: Future[SparkSession]) -> None:
    """End the virtual machine too, and wait for it, since it removes files of its own."""
    if session.exception() is not None:
        return
    context = session.result().sparkContext
    gateway: Any = context._gateway
    session.result().stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=_END_S)


@contextmanager
def _noticing(stop: threading.Event) -> Iterator[None]:
    def notice(number: int, frame: object) -> None:
        stop.set()

    before = {s: signal.signal(s, notice) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
