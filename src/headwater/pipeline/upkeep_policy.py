"""When what is done to keep a warehouse up: a machine.

A view's tail is folded into its plain table from time to time, and its small files are merged, with
a checkpoint, after so many commits; the change logs are let go behind the views, and old versions
are deleted. What that is, and how long it takes, is its driver's (see `upkeep`), which also says
what time it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

_FOLD_RETRY_S = 30.0
_FOLDING_SHARE = 4
"""Folding waits at least so many times as long as the last fold took."""
_MANY_FILES = 64
"""After how many commits a view's small files are merged."""


class ViewTask(Enum):
    FOLD = "fold"
    MERGE = "merge"


class WarehouseTask(Enum):
    RELEASE = "release"
    CLEAN_UP = "clean up"


_EVERY_S = {WarehouseTask.RELEASE: 60.0, WarehouseTask.CLEAN_UP: 3600.0}


@dataclass(frozen=True)
class Activity:
    """A view that is maintained."""

    name: str
    publish_s: float
    """How old its plain table may become."""
    commits: int
    since: object
    """What tells this count of commits from an earlier one, which began before."""
    changes: bool = False
    """Whether it has a table of its changes."""


@dataclass
class _Schedule:
    fold_at: float
    merge_at: int
    """At which count of commits its small files are merged."""
    folded_s: float = 0.0
    folded: Activity | None = None
    """Where everything was in the plain table."""


@dataclass
class UpkeepPolicy:
    """What is due for each view, and for the warehouse, from a time on."""

    began: float
    every_s: Mapping[WarehouseTask, float] = field(default_factory=lambda: _EVERY_S)
    many_files: int = _MANY_FILES
    _views: dict[str, _Schedule] = field(default_factory=dict)
    _due: dict[WarehouseTask, float] = field(init=False)

    def __post_init__(self) -> None:
        self._due = {task: self.began + every for task, every in self.every_s.items()}

    def for_view(self, view: Activity, now: float) -> ViewTask | None:
        """What is to be done for a view; if that is to fold it, `folded` or `failed` comes next."""
        schedule = self._schedule(view.name, now + view.publish_s)
        if now >= schedule.fold_at:
            if schedule.folded != view:
                return ViewTask.FOLD
            schedule.fold_at = now + view.publish_s
        elif not schedule.merge_at - self.many_files <= view.commits < schedule.merge_at:
            schedule.merge_at = view.commits + self.many_files
            return ViewTask.MERGE
        return None

    def folded(self, view: Activity, took_s: float | None, is_whole: bool, now: float) -> None:
        """Its tail was folded, or there was none (None); whether all of it is shown now."""
        schedule = self._views[view.name]
        if took_s is not None:
            schedule.folded_s = took_s
        schedule.fold_at = now + max(view.publish_s, _FOLDING_SHARE * schedule.folded_s)
        if is_whole:
            schedule.folded = view

    def failed(self, view: str, now: float) -> None:
        """What was to be done for a view could not be: it is tried again later."""
        retry = now + _FOLD_RETRY_S
        self._schedule(view, retry).fold_at = retry

    def _schedule(self, view: str, fold_at: float) -> _Schedule:
        return self._views.setdefault(view, _Schedule(fold_at, self.many_files))

    def for_warehouse(self, now: float) -> list[WarehouseTask]:
        """What is to be done for all of it; call `done` after each."""
        return [task for task, due in self._due.items() if now >= due]

    def done(self, task: WarehouseTask, now: float) -> None:
        self._due[task] = now + self.every_s[task]
