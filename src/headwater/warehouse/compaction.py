"""Maintenance of a signed log beside its running writer: commits without a number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.storage.location import Location
from headwater.warehouse.columns import COMMIT, log_arrow_schema
from headwater.warehouse.commits import FoldedBase, LogLine, maintenance_info
from headwater.warehouse.delta_log import DeltaLog, OvertakenError
from headwater.warehouse.files import delete, read_arrow, write_arrow
from headwater.warehouse.tables import schema_of

if TYPE_CHECKING:
    from headwater.warehouse.view_table import ViewTable

SMALL_FILE = 4 * 1024 * 1024
MOST_BYTES = 64 * 1024 * 1024
"""How much is merged at a time: it passes through the driver's memory."""


def compact(view: ViewTable, at_least: int) -> bool:
    """Merge small files into one; each row keeps its commit number."""
    snapshot = view.log.snapshot()
    small, total = [], 0
    for file in sorted(snapshot.files, key=lambda file: file.size):
        total += file.size
        if file.size <= SMALL_FILE and total <= MOST_BYTES and file.last is not None:
            small.append(file)
    if len(small) < at_least:
        return False
    table = read_arrow(view.log.folder, small, log_arrow_schema(schema_of(snapshot))).sort_by(
        COMMIT
    )
    numbers = table.column(COMMIT)
    merged = write_arrow(table, view.log.folder, numbers[0].as_py(), numbers[-1].as_py())
    actions = [
        maintenance_info(view.name, "compact"),
        *(file.remove(data_change=False) for file in small),
        merged.add(data_change=False),
    ]
    if put_beside_writer(view.log, snapshot.version, actions, [view.log.folder / merged.name]):
        return True
    delete(view.log.folder, [merged])
    return False


def remove_folded(view: ViewTable) -> None:
    """Remove from the log the files whose rows are all in the plain table."""
    while True:
        log, plain = view.tables()
        base = FoldedBase(plain.version, plain.number)
        folded = [file for file in log.files if file.last is not None and file.last <= base.number]
        if not folded:
            return
        for table in view.bases(plain):
            table.make_durable()  # before what it has taken in goes
        actions = [
            maintenance_info(view.name, "clean", base),
            *(file.remove() for file in folded),
        ]
        if put_beside_writer(view.log, log.version, actions):
            return


def put_beside_writer(
    log: DeltaLog, version: int, actions: Sequence[LogLine], new: Sequence[Location] = ()
) -> bool:
    """Commit after `version`, stepping over commits that only add; False if files went."""
    while True:
        try:
            if log.put(version + 1, actions, new):
                return True
        except OvertakenError:
            return False
        entry = log.entry(version + 1)
        if entry is None or any("remove" in action or "metaData" in action for action in entry):
            return False
        version += 1
