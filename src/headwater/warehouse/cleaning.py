"""Clean-up: old versions of a view are forgotten, then the files that only they needed.

The clean-up that delta-rs offers deletes every file that is in no version, or needs a retention
of days to be safe beside running jobs. Here a file goes only if no version that is kept
refers to it and it is old itself, so a file that is about to be committed stays. A job that stood
still until its files were old cannot commit them any more: the entry that was to name them goes
before it is looked which files are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import unquote

from headwater.storage.location import Location
from headwater.warehouse.commits import OWN_FILES, ViewCommit
from headwater.warehouse.delta_log import YOUNG_S, DeltaLog
from headwater.warehouse.replacing import loaded_files, loaded_plain, settle
from headwater.warehouse.stored import stored_version

if TYPE_CHECKING:
    from headwater.warehouse.view_table import ViewTable

HOUR = timedelta(hours=1)
ABANDONED = timedelta(days=1)
"""What no job has written to for so long in the staging folder was left by one that died."""


def clean_up(view: ViewTable, keep: timedelta, minimum_age: timedelta) -> None:
    """Keep every version that was the newest at some moment of the last `keep`.

    The newest numbered commit is kept in any case, with its vector. Nothing younger than
    `minimum_age` is touched: a reader may be at it, or a job about to commit it.
    """
    now = view.staging.storage.now()
    horizon = now - max(keep, minimum_age).total_seconds()
    untouched = now - minimum_age.total_seconds()
    for table in (view.log, *view.bases(view.plain.snapshot())):
        table.refuse_waiting(_waited(now, minimum_age), view.name)
    settle(view)
    oldest = min(_current_at(view.log, horizon), view.latest().version)
    kept = [commit for commit in view.commits() if commit.version >= oldest]
    bases = [commit.base.plain for commit in kept if commit.base.plain != OWN_FILES]
    view.log.make_durable()  # what only its earlier commits need goes
    newest = view.plain.snapshot().version
    stored = _stored(view, [min(bases, default=newest), newest], kept)
    if stored:
        _clean(view.stored, min(stored), horizon, untouched)
    _clean(view.plain, min(bases, default=newest), horizon, untouched, _loaded(view, kept))
    _clean(view.log, oldest, horizon, untouched)
    _clean_staging(view.staging, now - max(ABANDONED, minimum_age).total_seconds())


def clean_published(view: ViewTable, keep: timedelta, minimum_age: timedelta) -> None:
    """The same for the plain table of a group's member, on which nothing relies."""
    clean_versions(view.plain, view.staging.storage.now(), keep, minimum_age)


def clean_versions(table: DeltaLog, now: float, keep: timedelta, minimum_age: timedelta) -> None:
    """The same for a table by itself."""
    table.refuse_waiting(_waited(now, minimum_age), table.folder.name)
    horizon = now - max(keep, minimum_age).total_seconds()
    _clean(table, table.snapshot().version, horizon, now - minimum_age.total_seconds())


def oldest_kept(log: DeltaLog, moment: float) -> int | None:
    """The version that was the newest at a moment; None if all that there are are younger."""
    found = _current_at(log, moment)
    return found if log.entry_times().get(found, moment + 1) <= moment else None


def _waited(now: float, minimum_age: timedelta) -> float:
    """An entry that was written before gets its name no more: see `DeltaLog.put`."""
    return min(now, now - minimum_age.total_seconds() + YOUNG_S)


def _loaded(view: ViewTable, commits: Iterable[ViewCommit]) -> set[str]:
    """The plain files of loads, which their commits name themselves."""
    loads = [commit for commit in commits if commit.base.plain == OWN_FILES]
    entries = [view.log.entry(commit.version) or [] for commit in loads]
    return {file.name for entry in entries for file in loaded_files(entry)}


def _stored(view: ViewTable, plain: Iterable[int], commits: Iterable[ViewCommit]) -> list[int]:
    """The versions of stored parts that these plain versions name, and these loads."""
    loads = [commit for commit in commits if commit.base.plain == OWN_FILES]
    tables = [view.plain.snapshot(version) for version in plain]
    tables += [loaded_plain(view, commit) for commit in loads]
    found = map(stored_version, tables)
    return [version for version in found if version is not None]


def _clean(
    log: DeltaLog,
    oldest: int,
    horizon: float,
    untouched: float,
    needed: Set[str] = frozenset(),
) -> None:
    """Forget the versions before `oldest`, and those that were replaced before `horizon`."""
    oldest = min(oldest, _current_at(log, horizon))
    candidates = [
        log.folder / name
        for name, about in sorted(log.folder.listed().items())
        if name.endswith(".parquet") and about.modified < untouched
    ]
    snapshot = log.snapshot(oldest)
    if oldest > log.oldest():
        log.write_checkpoint(snapshot)
        log.set_oldest(oldest)
    log.delete_before(oldest)
    needed = needed | {file.name for file in snapshot.files} | _added_after(log, oldest)
    for file in candidates:
        if file.name not in needed:
            file.remove()


def _current_at(log: DeltaLog, moment: float) -> int:
    """The version that was the newest at a moment, or the oldest there is."""
    times = log.entry_times()
    return max(
        (version for version, written in times.items() if written <= moment),
        default=max(min(times), log.oldest()),
    )


def _added_after(log: DeltaLog, version: int) -> set[str]:
    return {
        unquote(line["add"]["path"])
        for entry in log.entries_after(version)
        for line in entry
        if "add" in line
    }


def _clean_staging(staging: Location, moment: float) -> None:
    for folder in staging.files():
        if folder.touched() < moment:
            folder.remove_tree()
