"""Upkeep of the warehouse beside maintenance: folding, merging, cleaning up, letting go.

One thread does it, and what it knows of each view's schedule is its own: nobody else writes it.
What it has to tell of a view (that its plain table cannot be renewed) is read by others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from headwater.errors import EngineError, FencedError, HeadwaterError, InputError
from headwater.frames.engine import Engine
from headwater.pipeline.feed import Feed
from headwater.pipeline.maintain import Maintainer
from headwater.warehouse.folding import Unfolded
from headwater.warehouse.warehouse import Warehouse

_LOOK_S = 0.5
_RELEASE_S = 60.0
_CLEAN_UP_S = 3600.0
_FOLD_RETRY_S = 30.0
_FOLDING_SHARE = 4
"""Folding waits at least so many times as long as the last fold took."""
_MANY_FILES = 64


@dataclass
class _Schedule:
    """When something is next to be done for one view."""

    fold_at: float
    folded_s: float = 0.0
    merge_at: int = _MANY_FILES
    """After how many commits its small files are merged, and a checkpoint is written."""
    folded: tuple[Maintainer, int] | None = None
    """Up to which commit of which maintainer everything is in the plain table."""


@dataclass(frozen=True)
class Upkept:
    """A view as upkeep sees it; `lock` is held while it works on the view's tables."""

    name: str
    maintainer: Maintainer | None
    lock: threading.Lock = field(default_factory=threading.Lock)


class Upkeep:
    """The thread; `troubles` has for each view what keeps its plain table from being renewed."""

    def __init__(
        self,
        warehouse: Warehouse,
        views: Callable[[], Sequence[Upkept]],
        feeds: Callable[[], Mapping[str, Feed]],
        engine: Engine,
        runner: str,
        retention_s: float,
        is_replaced: Callable[[], bool],
    ) -> None:
        self._warehouse = warehouse
        self._views = views
        self._feeds = feeds
        self._engine = engine
        self._runner = runner
        self._retention_s = retention_s
        self._is_replaced = is_replaced
        self._schedules: dict[str, _Schedule] = {}
        self._stopping = threading.Event()
        self._release_at = time.monotonic() + _RELEASE_S
        self._clean_up_at = time.monotonic() + _CLEAN_UP_S
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)
        self.troubles: dict[str, str] = {}
        self.unsound: set[str] = set()
        """Views with rows that were taken away more often than they were there."""
        self.failure: HeadwaterError | None = None
        """Why nothing is kept up any more, if that is so."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

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
        if time.monotonic() >= self._release_at:
            with suppress(InputError, FileNotFoundError):  # a view is dropped just now
                self._release()
            self._release_at = time.monotonic() + _RELEASE_S
        if time.monotonic() >= self._clean_up_at:
            self._clean_up()
            self._clean_up_at = time.monotonic() + _CLEAN_UP_S

    def _look_at(self, view: Upkept) -> None:
        """Fold or merge if it is time; a failure is told, and tried again later."""
        try:
            with view.lock:
                self._fold_or_merge(view)
        except Exception as error:
            if isinstance(error, FencedError) and self._is_replaced():
                raise
            if self._stopping.is_set():
                return  # its job was cancelled
            text = next(iter(str(error).splitlines()), type(error).__name__)
            self.troubles[view.name] = f"The plain table could not be renewed: {text}"
            retry = time.monotonic() + _FOLD_RETRY_S
            self._schedules.setdefault(view.name, _Schedule(retry)).fold_at = retry

    def _fold_or_merge(self, view: Upkept) -> None:
        """Keep a view's log short, and its plain table young."""
        maintainer = view.maintainer
        if maintainer is None or maintainer.table is None or not maintainer.is_running:
            return
        publish_s = maintainer.plan.publish_s
        schedule = self._schedules.setdefault(view.name, _Schedule(time.monotonic() + publish_s))
        commits = maintainer.counters.commits
        if time.monotonic() >= schedule.fold_at and schedule.folded == (maintainer, commits):
            schedule.fold_at = time.monotonic() + publish_s
        elif time.monotonic() >= schedule.fold_at:
            table = self._warehouse.view(view.name)
            began = time.monotonic()
            done = None
            if table.tail().rows:
                done = table.fold(self._engine.for_small, self._runner)
                schedule.folded_s = time.monotonic() - began
            wait = max(publish_s, _FOLDING_SHARE * schedule.folded_s)
            schedule.fold_at = time.monotonic() + wait
            if isinstance(done, Unfolded):
                self.troubles[view.name] = f"The plain table could not be renewed: {done.reason}"
                self.unsound.add(view.name)
            else:
                self.troubles.pop(view.name, None)
                schedule.folded = (maintainer, commits)
        elif commits >= schedule.merge_at or commits < schedule.merge_at - _MANY_FILES:
            schedule.merge_at = commits + _MANY_FILES
            table = self._warehouse.view(view.name)
            table.compact()
            table.log.try_checkpoint()

    def _release(self) -> None:
        """Let the change log go as far as every view has come, and every load needs it."""
        for source, feed in self._feeds().items():
            if feed.log.has_old(self._retention_s):
                upto = min([*reached(self._warehouse, source), feed.channel.needed - 1])
                feed.log.release(upto, self._retention_s)

    def _clean_up(self) -> None:
        """Delete versions of views that are older than they are to be kept."""
        keep = timedelta(seconds=self._retention_s)
        for view in self._views():
            with view.lock:
                if self._warehouse.has_view(view.name):
                    self._warehouse.view(view.name).clean_up(keep)


def reached(warehouse: Warehouse, source: str) -> list[int]:
    """How far each view of the warehouse has come with a source; 0 if that cannot be told."""
    found = []
    for name in warehouse.view_names():
        try:
            vector = warehouse.view(name).latest().vector
        except HeadwaterError:
            found.append(0)
            continue
        if source in vector:
            found.append(vector[source].number)
    return found
