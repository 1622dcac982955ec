"""Tables made whole and then put into place, also where a damaged or lost one was.

Where folders are moved, a table is made aside, and what was in its place is moved away. Elsewhere
its files are written where they are to be, and are nothing until its first entry names them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from headwater.errors import EngineError
from headwater.storage.location import Location
from headwater.warehouse.commits import LogLine, commit_of
from headwater.warehouse.delta_log import DeltaLog, entry_of, is_table
from headwater.warehouse.table_versions import TableVersion


def write_table(folder: Location, actions: Sequence[LogLine]) -> None:
    """Make a table whose first version has its contents already."""
    first = folder / "_delta_log" / f"{0:020}.json"
    first.parent.make_folder()
    first.write(entry_of(actions))


def whole(log: DeltaLog) -> TableVersion | None:
    """The newest version of a table whose entries can all be read; None if there is no such."""
    log.look_at_place()
    if not is_table(log.folder):
        return None
    log.forget()
    try:
        for version in log.entry_times():
            log.entry(version)
        return log.snapshot()
    except EngineError:
        return None


@contextmanager
def aside_for(folder: Location, staging: Location) -> Iterator[Location]:
    """Where the files are written of a table that is to be made in a folder."""
    if not folder.storage.moves_folders:
        yield folder
        return
    aside = staging / staging.storage.fresh_name()
    try:
        aside.make_folder(durable=False)
        yield aside
    finally:
        aside.remove_tree()


def remade(
    log: DeltaLog, version: int, aside: Location, actions: Sequence[LogLine], staging: Location
) -> DeltaLog:
    """Put a table, whose files are `aside_for` it, where a damaged or lost one was, or none.

    It begins with `log.first_version()`.

    Whoever still holds that one is refused from then on, as after a drop.
    """
    if not log.folder.storage.moves_folders:
        log.begin(version, actions)
        return DeltaLog(log.folder)
    write_table(aside, actions)
    if log.folder.exists():
        log.folder.move(staging / log.folder.storage.fresh_name())
    aside.move(log.folder)
    return DeltaLog(log.folder)


def looked_at(folder: Location) -> DeltaLog:
    """A table that may go, or whatever is left of it, as it is now."""
    log = DeltaLog(folder)
    if not folder.storage.moves_folders:
        log.look_at_place()
    return log


def throw_away(log: DeltaLog, trash: Location) -> None:
    """Let a table go that was looked at, whole or damaged, or whatever is left of it.

    Where folders are not moved: FencedError if another process has done so since.
    """
    if not log.folder.storage.moves_folders:
        log.end(number_above(log, 0))
    elif log.folder.exists():
        log.folder.move(trash / log.folder.storage.fresh_name())


def number_above(log: DeltaLog, known: int) -> int:
    """A number that no commit of a damaged log has: each of its entries gave one at most.

    Nor has one of a log that was in its place before.
    """
    versions = log.entry_times()
    if not versions:
        return max(known + 1, log.oldest())
    for version in versions:
        try:
            commit = commit_of(log.entry(version) or [], version)
        except EngineError:
            continue
        known = max(known, commit.number if commit else 0)
    return known + max(versions, default=0) + 2
