"""What a program does with a project: run it, and read its views."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.errors import HeadwaterError, InputError, SeveralError
from headwater.frames.arrow import COUNT
from headwater.pipeline.runner import Runner
from headwater.pipeline.sessions import session_of
from headwater.pipeline.verify import Verification, verify_view
from headwater.project.project import Project
from headwater.warehouse.columns import CHANGE
from headwater.warehouse.groups import GroupTable
from headwater.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    import pandas
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

_REFRESH_S = 0.25
_TARGET_S = 0.05


@dataclass(frozen=True)
class MaintainedView:
    """A view that has been loaded; `Project.view` gives it."""

    project: Project
    name: str

    def df(self, spark: SparkSession, version: int | None = None) -> DataFrame:
        """The view as it is now, or after one of its commits; duplicates as repeated rows.

        The DataFrame is fixed to that state: read again for a newer one.
        """
        return Warehouse(self.project.warehouse).view(self.name).dataframe(spark, version)

    def arrow(self, version: int | None = None) -> pyarrow.Table:
        """The same as a table of Arrow, read without Spark.

        LeftToSparkError where only Spark can compute what the view shows.
        """
        return Warehouse(self.project.warehouse).view(self.name).scan(version).table()

    def pandas(self, version: int | None = None) -> pandas.DataFrame:
        """The same as a DataFrame of pandas."""
        return self.arrow(version).to_pandas()

    def changes(self, spark: SparkSession, first: int, last: int | None = None) -> DataFrame:
        """The rows that went and came from one version to another, or until now.

        Each row once, with the column `_change` behind the view's own: how many copies came, or,
        below zero, went.
        """
        from headwater.frames.frame import Frame

        table = Warehouse(self.project.warehouse).view(self.name)
        changed = Frame.of_rows(spark, table.shown_changes(first, last, spark))
        return changed.dataframe.withColumnRenamed(COUNT, CHANGE)

    @property
    def version(self) -> int:
        """The number of the newest commit."""
        return Warehouse(self.project.warehouse).view(self.name).latest().number

    def verify(self, spark: SparkSession) -> Verification:
        """Recompute the view at its own version vector, and compare."""
        return verify_view(self.project, self.name, spark)


@dataclass(frozen=True)
class MaintainedGroup:
    """A group of views that has been loaded; `Project.group` gives it."""

    project: Project
    name: str

    @property
    def views(self) -> tuple[str, ...]:
        """The names of its views."""
        return tuple(member.name for member in self._table.members)

    def dfs(self, spark: SparkSession, version: int | None = None) -> dict[str, DataFrame]:
        """All views of the group by their names, as they are now or after one of its commits.

        They belong together: all are of one version, and at one version vector.
        """
        return self._table.frames(spark, version)

    @property
    def version(self) -> int:
        """The number of the newest commit, which is one for all of its views."""
        return self._table.latest().number

    def verify(self, spark: SparkSession) -> Verification:
        """Recompute the views at their version vector, and compare."""
        return verify_view(self.project, self.name, spark)

    @property
    def _table(self) -> GroupTable:
        return Warehouse(self.project.warehouse).group(self.name)


def run_project(
    project: Project,
    once: bool = False,
    spark: SparkSession | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Load what is not loaded and maintain every view until `stop` is set, or with `once` until
    everything is reflected that the sources had when it started."""
    runner = Runner(project, session_of(project, spark))
    keep_running(runner, once, stop or threading.Event())


def keep_running(
    runner: Runner, once: bool, stop: threading.Event, look: Callable[[], None] = lambda: None
) -> str:
    """Run until told to stop; `look` is called several times a second.

    Raises why views stand still at the end, if some do, or with `once` what keeps readers from
    seeing their newest states. Returns what had been asked for and was not done when it was told
    to stop; nothing, if all was.
    """
    runner.start()
    finished = False
    try:
        targets = runner.targets() if once else None
        while not stop.is_set() and not finished:
            runner.supervise()
            look()
            finished = targets is not None and runner.reach(targets)
            if not finished:
                stop.wait(_REFRESH_S if targets is None else _TARGET_S)
        loading = runner.loading
        if once:
            runner.look_for_held_back()
    finally:
        runner.stop()
    held_back = [HeadwaterError(f"{name}: {why}") for name, why in runner.held_back.items()]
    found = (*runner.failures, *held_back)
    if failures := list({str(failure): failure for failure in found}.values()):
        failure, *others = failures
        if others or isinstance(failure, InputError):  # not all is refused, as its exit code says
            raise SeveralError(failures)
        raise failure
    if finished or not (once or loading):
        return ""
    return f"{', '.join(loading)} could be loaded" if loading else "everything was reflected"
