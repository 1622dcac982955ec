"""Snapshots whose place in the log is known exactly.

By status: MariaDB says in a status variable up to where a consistent snapshot holds the log. It
writes that variable into memory that its sessions share, so that one session may read what belongs
to another: it is read until two readings in a row agree, and by one of our sessions at a time.

By lock: writers of the tables are held back until the snapshot is taken and the end of the log
is read. What has changed these tables is then either committed or not begun. It works with
every server, and is the only way with MySQL.

Either way a session holds the tables' definitions as they are, from before the snapshot is taken
until the tables have been read, so that no ALTER TABLE comes between.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeAlias

from headwater.errors import LostConnectionError
from headwater.sources.mariadb.connect import Access, Connection, run, text_literal
from headwater.sources.mariadb.places import Place
from headwater.sources.mariadb.standing import log_end
from headwater.sources.mariadb.types import Table

_DOING = "take a snapshot"
_TRIES = 20
_BEGIN = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
_STATUS = "SHOW STATUS LIKE 'binlog_snapshot_%'"
_COLUMNS = """
SELECT COLUMN_NAME, COLUMN_TYPE, COLLATION_NAME FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {}
"""
Status: TypeAlias = Callable[[], Any]


def read_twice(status: Status) -> Place:
    """What two readings in a row agree on; LostConnectionError where there is no such thing."""
    before = None
    for _ in range(_TRIES):
        found = {str(name).lower(): str(value) for name, value in status()}
        if found == before and found.get("binlog_snapshot_file"):
            return Place(found["binlog_snapshot_file"], int(found["binlog_snapshot_position"]))
        before = found
    raise LostConnectionError(
        "The server does not say twice in a row which place a snapshot has.", "It is asked again."
    )


class Holder:
    """A session that keeps tables as they are described while others read them."""

    def __init__(self, access: Access, connection: Connection, *, by_lock: bool) -> None:
        self._access = access
        self._connection = connection
        self._by_lock = by_lock

    def hold(self, tables: Collection[Table], *, locked: bool = False) -> None:
        """LostConnectionError if they are others than described: all is looked at anew."""
        with self._access.errors(_DOING):
            if (self._by_lock or locked) and tables:
                named = ", ".join(f"{table.identifier} READ" for table in tables)
                run(self._connection, f"LOCK TABLES {named}")
            else:
                run(self._connection, "START TRANSACTION")
                touch(self._connection, tables)
            for table in tables:
                self._check(table)

    def end_of_log(self) -> Place:
        return log_end(self._access, self._connection)

    def release(self) -> None:
        with self._access.errors(_DOING):
            run(self._connection, "UNLOCK TABLES")
            run(self._connection, "ROLLBACK")

    def _check(self, table: Table) -> None:
        asked = _COLUMNS.format(text_literal(table.database), text_literal(table.name))
        there = {
            f"{name} {shown} {collation or ''}"
            for name, shown, collation in run(self._connection, asked)
        }
        if not there.issuperset(table.signature[1:]):
            raise LostConnectionError(
                f"Source {self._access.source}: table {table.label} was altered; the question is "
                "asked anew."
            )


def touch(connection: Connection, tables: Iterable[Table]) -> None:
    """Hold the definitions of tables, and read nothing of them."""
    for table in tables:
        run(connection, f"SELECT 1 FROM {table.identifier} LIMIT 0")


def begin(
    access: Access, connection: Connection, holder: Holder, tables: Collection[Table], by_lock: bool
) -> Place:
    """Take a snapshot of tables that are held, and say what it holds."""
    with access.errors(_DOING):
        if by_lock:
            run(connection, _BEGIN)
            place = holder.end_of_log()
            touch(connection, tables)
            return place
        with access.stamping:
            run(connection, _BEGIN)
            return read_twice(lambda: run(connection, _STATUS))
