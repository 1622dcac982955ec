"""Upkeep of a simulated warehouse: what `UpkeepPolicy` says is due.

It is done as `pipeline.upkeep` does it. Time passes in large steps here and processes live
shortly, so everything is due sooner.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from headwater.errors import FencedError
from headwater.pipeline.upkeep_policy import Activity, UpkeepPolicy, ViewTask, WarehouseTask
from headwater.simulation.judge import demand
from headwater.simulation.load import no_spark
from headwater.simulation.maintainer import Maintainer
from headwater.warehouse.folding import Unfolded

if TYPE_CHECKING:
    from headwater.simulation.process import Process

_KEPT_S = 3600.0


class Upkeep:
    """What is kept up beside the maintenance of one runner's views."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        pace = self._world.upkeep_s
        every = {WarehouseTask.RELEASE: 2 * pace, WarehouseTask.CLEAN_UP: 4 * pace}
        self._policy = UpkeepPolicy(self._world.disk.now, every, many_files=1)

    def look(self) -> None:
        """Do what is due."""
        for name, maintainer in self._process.lives.running:
            with self._attempting(name):
                self._keep_up(name, maintainer)
        for task in self._policy.for_warehouse(self._world.disk.now):
            match task:
                case WarehouseTask.RELEASE:
                    self._release()
                case WarehouseTask.CLEAN_UP:
                    self._clean_up()
            self._policy.done(task, self._world.disk.now)

    @contextmanager
    def _attempting(self, name: str) -> Iterator[None]:
        """What another runner does at the same time, who was replaced, is no reason to end."""
        try:
            yield
        except (FencedError, FileNotFoundError):
            self._process.claim.check()  # raises if it is this one that was replaced
            self._policy.failed(name, self._world.disk.now)

    def _keep_up(self, name: str, maintainer: Maintainer) -> None:
        now = self._world.disk.now
        activity = Activity(name, self._world.publish_s, maintainer.commits, maintainer)
        match self._policy.for_view(activity, now):
            case ViewTask.FOLD:
                self._fold(activity)
            case ViewTask.MERGE:
                self._process.does("merge")
                table = self._process.warehouse.view(name)
                table.compact(at_least=2)
                table.log.try_checkpoint()

    def _fold(self, activity: Activity) -> None:
        self._process.does("fold")
        table = self._process.warehouse.view(activity.name)
        began, took_s = self._world.disk.now, None
        if table.tail().rows:
            done = table.fold(no_spark, self._process.claim.runner)
            took_s = self._world.disk.now - began
            unsound = isinstance(done, Unfolded) and done.is_unsound
            demand(not unsound, f"{activity.name} cannot be folded: {done}")
        self._world.judge.look_at_plain(activity.name)
        self._policy.folded(activity, took_s, True, self._world.disk.now)

    def _release(self) -> None:
        """Let the change logs go, as far as every view has come, and every load needs them."""
        self._process.does("release")
        if self._world.settings.across:
            return  # what is let go is not known any more, and nothing is released in time
        for source, reading in self._process.readings.items():
            if reading.log.has_old(_KEPT_S):
                upto = min([*self._process.warehouse.reached(source), reading.order.needed - 1])
                reading.log.release(upto, _KEPT_S)

    def _clean_up(self) -> None:
        """Delete versions of views that are older than they are to be kept."""
        self._process.does("clean up")
        for name, _ in self._process.lives.running:
            with self._attempting(name):
                self._process.warehouse.view(name).clean_up(timedelta(seconds=_KEPT_S))
