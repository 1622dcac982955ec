"""Upkeep of the warehouse beside maintenance: folding, merging, cleaning up, letting go.

One thread does it, when the policy says so (see `upkeep_policy`), which is its own: nobody else
writes it. What it has to tell of a view (that its plain table cannot be renewed) is read by others.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Protocol

from headwater.errors import EngineError, FencedError, HeadwaterError, InputError
from headwater.frames.engine import Engine
from headwater.frames.failures import state_lost
from headwater.frames.naming import named
from headwater.journal import happened, in_detail
from headwater.pipeline.feed import Feed
from headwater.pipeline.kept_views import KeptView
from headwater.pipeline.upkeep_policy import Activity, UpkeepPolicy, ViewTask, WarehouseTask
from headwater.warehouse.folding import Unfolded
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse

_LOOK_S = 0.5
_MARGIN_S = 60.0
"""What is needed since a moment is kept since a little before."""
_RENEWED = "The plain table could not be renewed: "
_CLEANED = "Old versions could not be deleted: "


class Unpublished(Protocol):
    """What is kept since it is not published yet, for so long."""

    retention_s: float

    def needed(self, source: str) -> int | None:
        """Behind which number a source's change log is needed; None if it is not."""
        ...

    def number(self, unit: str) -> int | None:
        """From which of its commits on a view is needed; None if it is not."""
        ...


class Upkeep:
    """The thread; `troubles` has for each view what could not be done for it.

    It calls `gather` from time to time, too, which gathers statistics.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        views: Callable[[], Sequence[KeptView]],
        feeds: Callable[[], Mapping[str, Feed]],
        engine: Engine,
        runner: str,
        retention_s: float,
        changes_s: float,
        is_replaced: Callable[[], bool],
        gather: Callable[[], None] = lambda: None,
        unpublished: Unpublished | None = None,
    ) -> None:
        self._gather = gather
        self._unpublished = unpublished
        self._warehouse = warehouse
        self._views = views
        self._feeds = feeds
        self._engine = engine
        self._runner = runner
        self._retention_s = retention_s
        self._changes_s = changes_s
        self._is_replaced = is_replaced
        self._stopping = threading.Event()
        self._policy = UpkeepPolicy(time.monotonic())
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)
        self.troubles: dict[str, str] = {}
        self.unsound: set[str] = set()
        """Views with rows that were taken away more often than they were there."""
        self._whole: dict[str, tuple[float, Activity]] = {}
        """When the plain table of a view last had everything, and how it stood then."""
        self._began = time.time()
        self.failure: HeadwaterError | None = None
        """Why nothing is kept up any more, if that is so."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def unfolded_since(self, view: KeptView) -> float | None:
        """Since when a view's plain table lacks something; None if it has everything."""
        if view.maintainer is None or view.maintainer.table is None:
            return None
        commits = view.maintainer.counters.commits
        at, activity = self._whole.get(view.name, (self._began, None))
        if activity is None:
            return at if commits else None
        is_whole = (activity.commits, activity.since) == (commits, view.maintainer)
        return None if is_whole else at

    def join(self, limit_s: float) -> None:
        if self._thread.is_alive():
            self._thread.join(limit_s)

    # In the thread

    def _run(self) -> None:
        try:
            while not self._stopping.wait(_LOOK_S):
                self._look()
        except HeadwaterError as error:
            self.failure = error
        except Exception as error:
            self.failure = EngineError(
                f"The warehouse could not be kept up: {type(error).__name__}: {error}.",
                "Look at its folder and disk; every version that was committed is there.",
            )
            self.failure.__cause__ = error

    def _look(self) -> None:
        for view in self._views():
            self._look_at(view)
        self._gather()
        for task in self._policy.for_warehouse(time.monotonic()):
            match task:
                case WarehouseTask.RELEASE:
                    with suppress(InputError, FileNotFoundError):  # a view is dropped just now
                        self._release()
                case WarehouseTask.CLEAN_UP:
                    self._clean_up()
            self._policy.done(task, time.monotonic())

    def _look_at(self, view: KeptView) -> None:
        with self._attempting(view, _RENEWED), named(f"{view.name}: fold"):
            self._keep_up(view)

    @contextmanager
    def _attempting(self, view: KeptView, what: str) -> Iterator[None]:
        """Do something for a view; a failure is told, and it is tried again later."""
        try:
            with view.lock:
                yield
        except Exception as error:
            if isinstance(error, FencedError) and self._is_replaced():
                raise
            if self._stopping.is_set():
                return  # its job was cancelled
            told = state_lost(error) or error
            text = next(iter(str(told).splitlines()), type(error).__name__)
            self._trouble(view.name, what + text)
            self._policy.failed(view.name, time.monotonic())

    def _keep_up(self, view: KeptView) -> None:
        maintainer = view.maintainer
        if maintainer is None or maintainer.table is None or not maintainer.is_running:
            return
        commits, publish_s = maintainer.counters.commits, maintainer.plan.publish_s
        activity = Activity(view.name, publish_s, commits, maintainer, maintainer.plan.changes)
        match self._policy.for_view(activity, time.monotonic()):
            case ViewTask.FOLD:
                self._fold(view, activity)
            case ViewTask.MERGE:
                table = self._warehouse.view(view.name)
                table.compact()
                table.log.try_checkpoint()

    def _fold(self, view: KeptView, activity: Activity) -> None:
        """Bring the tail of a view's log into its plain table, if it has one."""
        table = self._warehouse.view(view.name)
        began, done, took_s = time.monotonic(), None, None
        if table.tail().rows:
            done = table.fold(self._engine.for_small, self._runner)
            took_s = time.monotonic() - began
        if activity.changes:
            table.follow_changes(self._engine.for_small)
        if isinstance(done, Unfolded):
            self._trouble(view.name, _RENEWED + done.reason)
            if done.is_unsound:
                self.unsound.add(view.name)
        else:
            self._whole[view.name] = time.time(), activity
            self._mended(view.name)
            if took_s is not None:
                in_detail("fold", view=view.name, seconds=round(took_s, 3))
        self._policy.folded(activity, took_s, not isinstance(done, Unfolded), time.monotonic())

    def _release(self) -> None:
        """Let the change log go as far as every view has come, and every load needs it."""
        for source, feed in self._feeds().items():
            if feed.log.has_old(self._retention_s):
                upto = min([*self._warehouse.reached(source), feed.channel.needed - 1])
                if (kept := self._unpublished) and (needed := kept.needed(source)) is not None:
                    feed.log.release(upto, max(kept.retention_s, self._retention_s))
                    upto = min(upto, needed)
                feed.log.release(upto, self._retention_s)

    def _unpublished_for(self, table: ViewTable) -> timedelta:
        """For how long something of a view has waited to be published, up to the limit."""
        number = None if self._unpublished is None else self._unpublished.number(table.name)
        if self._unpublished is None or number is None:
            return timedelta(0)
        last = next((c for c in table.commits() if c.number <= number and c.timestamp), None)
        waited_s = math.inf if last is None else time.time() - last.timestamp / 1000 + _MARGIN_S
        return timedelta(seconds=min(waited_s, self._unpublished.retention_s))

    def _clean_up(self) -> None:
        """Delete versions of views that are older than they are to be kept."""
        keep = timedelta(seconds=self._retention_s)
        for view in self._views():
            with self._attempting(view, _CLEANED), named(f"{view.name}: clean up"):
                if self._warehouse.has_view(view.name):
                    table = self._warehouse.view(view.name)
                    if view.maintainer is not None and view.maintainer.plan.changes:
                        table.follow_changes(self._engine.for_small)
                        changes = timedelta(seconds=self._changes_s)
                        table.trim_changes(changes, keep, self._engine.for_small)
                    table.clean_up(max(keep, self._unpublished_for(table)))
                if self.troubles.get(view.name, "").startswith(_CLEANED):
                    self._mended(view.name)

    def _trouble(self, view: str, why: str) -> None:
        if self.troubles.get(view) != why:
            happened("upkeep", logging.WARNING, view=view, because=why)
        self.troubles[view] = why

    def _mended(self, view: str) -> None:
        if self.troubles.pop(view, None) is not None:
            happened("upkeep", view=view, state="mended")
