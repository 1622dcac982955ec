"""Tables made whole aside and moved into place, also where a damaged or lost one was."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from pathlib import Path

from headwater.errors import EngineError
from headwater.warehouse.commits import Action, commit_of
from headwater.warehouse.delta_log import DeltaLog, is_table
from headwater.warehouse.durable import make_folder, mode_of, set_modes, sync_folder, write_file
from headwater.warehouse.snapshots import Snapshot


def write_table(folder: Path, actions: Sequence[Action], *, durable: bool) -> None:
    """Make a table whose first version has its contents already."""
    first = folder / "_delta_log" / f"{0:020}.json"
    make_folder(first.parent, durable=durable)
    write_file(first, "\n".join(map(json.dumps, actions)).encode(), durable=durable)
    if durable:
        sync_folder(first.parent)


def move(folder: Path, target: Path, *, durable: bool) -> None:
    make_folder(target.parent, durable=durable)
    set_modes(folder, mode_of(target.parent) & 0o755)
    folder.rename(target)
    if durable:
        sync_folder(target.parent)


def whole(log: DeltaLog) -> Snapshot | None:
    """The newest version of a table whose entries can all be read; None if there is no such."""
    if not is_table(log.folder):
        return None
    try:
        for version in log.entry_times():
            log.entry(version)
        return log.snapshot()
    except EngineError:
        return None


def remade(log: DeltaLog, aside: Path, actions: Sequence[Action], staging: Path) -> DeltaLog:
    """Put a table, made in the folder `aside`, where a damaged or lost one was.

    Whoever still holds that one is refused from then on, as after a drop.
    """
    write_table(aside, actions, durable=log.durable)
    if log.folder.exists():
        move(log.folder, staging / uuid.uuid4().hex, durable=log.durable)
    move(aside, log.folder, durable=log.durable)
    return DeltaLog(log.folder, durable=log.durable)


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
