"""Tables made whole aside and moved into place, also where a damaged or lost one was."""

from __future__ import annotations

from collections.abc import Sequence

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
    if not is_table(log.folder):
        return None
    log.forget()
    try:
        for version in log.entry_times():
            log.entry(version)
        return log.snapshot()
    except EngineError:
        return None


def remade(
    log: DeltaLog, aside: Location, actions: Sequence[LogLine], staging: Location
) -> DeltaLog:
    """Put a table, made in the folder `aside`, where a damaged or lost one was.

    Whoever still holds that one is refused from then on, as after a drop.
    """
    write_table(aside, actions)
    if log.folder.exists():
        log.folder.move(staging / log.folder.storage.fresh_name())
    aside.move(log.folder)
    return DeltaLog(log.folder)


def number_above(log: DeltaLog, known: int) -> int:
    """A number that no commit of a damaged log has: each of its entries gave one at most."""
    versions = log.entry_times()
    for version in versions:
        try:
            commit = commit_of(log.entry(version) or [], version)
        except EngineError:
            continue
        known = max(known, commit.number if commit else 0)
    return known + max(versions, default=0) + 2
