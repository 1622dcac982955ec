"""The stored parts of a view with a top: a table whose versions those of the plain table name.

A version of the plain table is what the top shows of one version of this table, and an app
transaction of the plain table tells which. So one commit, that of the plain table, decides for
both: what is promised of folds, loads and crashes needs no word more for this table. A version that
no plain version names is of an attempt that was cut off. The next one does not build on it: it
holds exactly the files that it is to hold, whatever the newest one has.

A view without a top has no such table: its plain table is what is stored.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from headwater.algebra.schema import Schema
from headwater.warehouse.commits import APP, LogLine, maintenance_info
from headwater.warehouse.delta_log import DeltaLog, OvertakenError
from headwater.warehouse.table_versions import DataFile, TableVersion
from headwater.warehouse.tables import schema_of, stored_table

_STORED = f"{APP}.stored"
"""The app transaction of a plain table: 1 + the stored version that it shows; 0 for none."""


def names_stored(version: int | None) -> LogLine:
    """The action by which a version of the plain table names what it shows, or that it is all."""
    told = 0 if version is None else version + 1
    now = int(time.time() * 1000)
    return {"txn": {"appId": _STORED, "version": told, "lastUpdated": now}}


def stored_version(plain: TableVersion) -> int | None:
    """The version of the stored parts that a plain version shows; None if there are none."""
    told = plain.transaction(_STORED)
    return told - 1 if told else None


def first_stored(view: str, schema: Schema, files: Sequence[DataFile]) -> list[LogLine]:
    """The entry that makes the table."""
    made = [maintenance_info(view, "store"), *stored_table(view, schema)]
    return [*made, *(file.add() for file in files)]


def put_stored(
    table: DeltaLog,
    view: str,
    schema: Schema,
    files: Sequence[DataFile],
    new: Sequence[DataFile],
) -> int:
    """Let the next version hold exactly these files, some of them new; gives its number."""
    while True:
        newest = table.snapshot()
        wanted = {file.name: file for file in files}
        there = {file.name: file for file in newest.files}
        columns = [] if schema_of(newest) == schema else stored_table(view, schema, newest)
        actions = [
            maintenance_info(view, "store"),
            *columns,
            *(file.remove() for name, file in there.items() if name not in wanted),
            *(file.add() for name, file in wanted.items() if name not in there),
        ]
        try:
            if table.put(newest.version + 1, actions, [table.folder / file.name for file in new]):
                return newest.version + 1
        except OvertakenError:
            pass
