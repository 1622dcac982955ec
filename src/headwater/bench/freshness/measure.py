"""What is measured: batches through a running system, against recomputing everything."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from headwater.bench.freshness.workload import (
    SELECT,
    SELECTS,
    TABLES,
    Batch,
    Changes,
    Servers,
    generate,
)
from headwater.bench.processes import processor_s
from headwater.errors import HeadwaterError
from headwater.frames.session import spark_session
from headwater.pipeline.kept_views import KeptView
from headwater.pipeline.runner import Runner
from headwater.project.project import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VIEW = "v1"
_LIMIT_S = 3600.0
_LOOK_S = 0.01
_PAUSE_S = 0.02
_SUPERVISE_S = 0.25
"""As often as a runner looks after its views."""
STEPS = ("delivery", "probe", "join", "change log", "commit")


@dataclass
class Timing:
    """How long batches of one size took to become visible, and where the time went."""

    size: int
    seconds: list[float] = field(default_factory=list)
    steps: dict[str, float] = field(default_factory=dict)
    """Milliseconds of a batch spent in each step, at the median; steps may overlap."""
    rows: float = 0.0
    """Rows of the view that a batch changed, on average."""
    questions: float = 0.0

    def at(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    @property
    def median_ms(self) -> float:
        return 1000 * median(self.seconds)

    @property
    def p99_ms(self) -> float:
        return 1000 * self.at(0.99)


class World:
    """The servers of one scale, a project over them, and a runner."""

    def __init__(
        self,
        scale: float,
        say: Callable[[str], None],
        views: Mapping[str, str] = SELECTS,
    ) -> None:
        self.scale = scale
        self._views = views
        self.say = say
        self.folder = Path(tempfile.mkdtemp(prefix="headwater-bench-"))
        say(f"scale {scale:g}: generating and loading three PostgreSQL servers")
        self.files = generate(self.folder, scale)
        self.servers = Servers(self.files)
        self.changes = Changes(self.servers)
        self._spark: SparkSession | None = None
        self.steps: dict[str, list[float]] = defaultdict(list)
        self.committed = threading.Event()
        """Set whenever the view has been committed."""

    def set_up(self, view: str, clauses: str = "") -> None:
        """Make the project of a view; what is committed from now on counts for it."""
        select = self._views[view].format(**{table: f"{table}db.{table}" for table in TABLES})
        (self.folder / view / "views").mkdir(parents=True)
        (self.folder / view / "views" / f"{view}.sql").write_text(
            f"CREATE MATERIALIZED VIEW {view} {clauses} AS {select}"
        )
        for source in self.project("auto", view).sources.values():
            source.setup()
        self.changes.committed = dict.fromkeys(TABLES, 0)

    def take_down(self, view: str) -> None:
        """Remove what a project has at the servers, and its warehouse."""
        for source in self.project("auto", view).sources.values():
            source.teardown()
        shutil.rmtree(self.folder / view, ignore_errors=True)

    def project(self, engine: str, view: str = VIEW) -> Project:
        """One view in a warehouse of its own."""
        sources = "".join(
            f'[sources.{table}db]\nkind = "postgres"\nrelations = ["{table}"]\n'
            f'dsn = "{self.servers.dsn(table)}"\n'
            for table in TABLES
        )
        (self.folder / view / "headwater.toml").write_text(
            f'[warehouse]\npath = "warehouse"\npublish_every = "1 day"\n'
            f'[spark]\nengine = "{engine}"\n{sources}'
        )
        return Project.open(self.folder / view)

    def spark(self) -> SparkSession:
        if self._spark is None:
            memory = {"spark.driver.memory": "4g"}
            self._spark = spark_session(memory, log=self.folder / "spark.log")
        return self._spark

    def close(self) -> None:
        self.changes.close()
        self.servers.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def running(self, engine: str, view: str = VIEW) -> Iterator[Running]:
        runner = Runner(self.project(engine, view), self.spark, self._watch)
        runner.start()
        try:
            running = Running(self, runner, view)
            running.wait(lambda: running.is_loaded and running.is_visible())
            yield running
        finally:
            runner.stop()

    def _watch(self, view: str, step: str, seconds: float) -> None:
        self.steps[step].append(seconds)
        if step == "commit":
            self.committed.set()

    def recompute_on_spark(self) -> float:
        """Read the three tables, join them, write the view; seconds."""
        spark = self.spark()
        for table, path in self.files.items():
            spark.read.parquet(str(path)).createOrReplaceTempView(table)
        query = SELECT.format(**{table: table for table in TABLES})
        target = str(self.folder / "recomputed")
        began = time.monotonic()
        spark.sql(query).write.mode("overwrite").parquet(target)
        return time.monotonic() - began

    def recompute_in_duckdb(self) -> float | None:
        """The same in DuckDB, from Parquet to Parquet; None if it is not installed."""
        try:
            import duckdb
        except ImportError:
            return None
        names = {table: f"read_parquet('{path}')" for table, path in self.files.items()}
        target = self.folder / "recomputed.parquet"
        with duckdb.connect() as connection:
            connection.execute("SET threads = 2")
            began = time.monotonic()
            connection.execute(f"COPY ({SELECT.format(**names)}) TO '{target}' (FORMAT parquet)")
            return time.monotonic() - began


class Running:
    """A runner that has loaded the view."""

    def __init__(self, world: World, runner: Runner, view: str = VIEW) -> None:
        self.world = world
        self.runner = runner
        self.view = view

    @property
    def _status(self) -> KeptView:
        status = self.runner.views[self.view]
        if status.state == "stopped":
            raise HeadwaterError(status.message)
        return status

    @property
    def is_loaded(self) -> bool:
        status = self._status
        return status.maintainer is not None and status.maintainer.vector is not None

    @property
    def is_recomputed(self) -> bool:
        """Whether the view was recomputed for what was committed last."""
        kinds = (commit.kind for commit in self.runner.warehouse.view(self.view).commits())
        return next(kind for kind in kinds if kind in ("change", "load")) == "load"

    def wait(self, condition: Callable[[], bool], pause_s: float = 0.05) -> None:
        deadline = time.monotonic() + _LIMIT_S
        look = 0.0
        while not condition():
            if time.monotonic() > look:
                self.runner.supervise()
                look = time.monotonic() + 1.0
            if time.monotonic() > deadline:
                raise HeadwaterError(f"Nothing came within {_LIMIT_S:.0f} s.")
            time.sleep(pause_s)

    def is_visible(self) -> bool:
        """Whether everything that was committed at the sources is committed in the view."""
        maintainer = self._status.maintainer
        if maintainer is None or not (vector := maintainer.visible):
            return False  # it is being recomputed
        committed = self.world.changes.committed
        return all(vector[f"{table}db"].number >= committed[table] for table in TABLES)

    def weigh(self) -> tuple[float, float]:
        """From now, where the last commit has returned, to visible, and what of processors that
        took."""
        servers = self.world.servers.processes
        returned, before = time.monotonic(), processor_s(servers)
        self._wait_visible(returned)
        return time.monotonic() - returned, processor_s(servers) - before

    def time_batch(self, batch: Batch) -> float:
        """From the return of the last commit to visible; nobody looks before the view commits."""
        returned = self.world.changes.commit(batch)
        self._wait_visible(returned)
        return time.monotonic() - returned

    def _wait_visible(self, returned: float) -> None:
        look = returned + _SUPERVISE_S
        while not self.is_visible():
            self.world.committed.wait(_LOOK_S)
            self.world.committed.clear()
            if time.monotonic() > look:
                self.runner.supervise()
                look = time.monotonic() + _SUPERVISE_S
            if time.monotonic() > returned + _LIMIT_S:
                raise HeadwaterError(f"Nothing came within {_LIMIT_S:.0f} s.")

    def measure(self, size: int, warm_up: int, repeat: int) -> Timing:
        changes = self.world.changes
        for _ in range(warm_up):
            self.time_batch(changes.batch(size))
        timing = Timing(size)
        steps: dict[str, list[float]] = {step: [] for step in STEPS}
        maintainer = self.runner.views[self.view].maintainer
        assert maintainer is not None
        counters = maintainer.counters
        rows, questions = counters.rows, counters.questions
        for _ in range(repeat):
            self.world.steps.clear()
            timing.seconds.append(self.time_batch(changes.batch(size)))
            for step in STEPS:
                steps[step].append(1000 * sum(self.world.steps[step]))
            time.sleep(_PAUSE_S)
        timing.steps = {step: median(found) for step, found in steps.items()}
        timing.rows = (counters.rows - rows) / repeat
        timing.questions = (counters.questions - questions) / repeat
        return timing

    @property
    def _column(self) -> str:
        """The column that is summed up where reading is timed."""
        return "l_extendedprice" if self.view == VIEW else "revenue"

    def time_newest(self, repeat: int = 5) -> dict[str, float]:
        """A scan of the newest state as it is now, and how many rows it has."""
        spark = self.world.spark()
        table = self.runner.warehouse.view(self.view)
        times = _scan_times(lambda: table.dataframe(spark), repeat, self._column)
        return {
            "groups": table.dataframe(spark).count(),
            "tail_rows": table.tail().rows,
            "read_s": round(median(times), 3),
        }

    def time_read(self, tail_rows: int, repeat: int = 5) -> dict[str, float]:
        """A scan of the newest state with a tail of so many rows, against one without a tail."""
        spark = self.world.spark()
        table, column = self.runner.warehouse.view(self.view), self._column
        table.fold(spark, "bench")
        plain = _scan_times(lambda: table.dataframe(spark), repeat, column)
        while table.tail().rows < tail_rows:
            missing = tail_rows - table.tail().rows
            self.time_batch(self.world.changes.batch(max(1, min(2000, missing // 20))))
        newest = _scan_times(lambda: table.dataframe(spark), repeat, column)
        again = _scan_times(lambda: table.at().plain_frame(spark), repeat, column)
        base = min(median(plain), median(again))
        return {
            "tail_rows": table.tail().rows,
            "plain_s": base,
            "newest_s": median(newest),
            "ratio": median(newest) / base,
        }


def _scan_times(frame: Callable[[], Any], repeat: int, column: str) -> list[float]:
    found = []
    for at in range(repeat + 2):
        began = time.monotonic()
        frame().selectExpr(f"sum({column})", "count(*)").collect()
        if at >= 2:
            found.append(time.monotonic() - began)
    return found
