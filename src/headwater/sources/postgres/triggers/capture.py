"""Changes of a PostgreSQL database from triggers, for servers where no slot can be had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from psycopg import sql

from headwater.errors import SourceError
from headwater.sources.contract import Monitor, Position, Reader, Retained
from headwater.sources.postgres.capture import Locate, Mark, PostgresCapture
from headwater.sources.postgres.connect import Connection
from headwater.sources.postgres.locks import MarkedLog
from headwater.sources.postgres.privileges import lacking_for_triggers, not_owned
from headwater.sources.postgres.snapshot import XidSnapshot
from headwater.sources.postgres.triggers.functions import TAG
from headwater.sources.postgres.triggers.monitor import TriggerMonitor
from headwater.sources.postgres.triggers.setup import TriggerInstallation
from headwater.sources.postgres.triggers.units import MERGED
from headwater.sources.postgres.types import Table


class TriggerCapture(PostgresCapture):
    """Polls a log that triggers write; the schema that it is in is called as a slot would be."""

    way: ClassVar[str] = "triggers"
    limits: ClassVar[str] = MERGED
    follows_partitioned: ClassVar[bool] = False

    @property
    def installation(self) -> TriggerInstallation:
        return TriggerInstallation(
            self.tables.access, self.names.slot, self.names.owner, self.tables.names
        )

    @property
    def tagging(self) -> str:
        function = self.installation.table(TAG).as_string(None)
        return f"SELECT {function}('transfer 17', 2)"

    def cautions(self) -> Sequence[str]:
        """That triggers can be made by the tables' owner only, until they are."""
        access = self.tables.access
        with self.tables.looking() as (connection, tables):
            if self.installation.state(connection) is not None:
                return ()
            names = not_owned(access, connection, [table.oid for table in tables.values()])
        if not names:
            return ()
        return [
            f"Source {access.source}: setup needs a role that owns {', '.join(names)}, which this "
            f"one does not; 'headwater setup {access.source} --print' shows what it is to run."
        ]

    def lacking(self) -> Sequence[SourceError]:
        with self.tables.access.connect() as connection:
            return lacking_for_triggers(self.tables.access, connection, self.names.slot)

    def stays(self) -> Sequence[str]:
        return ()

    def retained(self) -> Retained | None:
        with self.tables.access.connect() as connection:
            return self.installation.retained(connection)

    def marks(self) -> Mark:
        """A mark is a row of the log, which adds the question's own snapshot."""
        insert = sql.SQL("INSERT INTO {} (note) VALUES ({})")
        log = self.installation.log
        return lambda marker: insert.format(log, marker).as_string(None).encode()

    def marked_log(self) -> MarkedLog:
        return self.installation.guarded(["log"])

    def locate(self, connection: Connection, tables: Mapping[str, Table]) -> Locate:
        self.installation.check_watched(connection, list(tables.values()))
        return lambda snapshot, _: {"snapshot": str(snapshot)}

    def covers(self, position: Position, snapshot: XidSnapshot, until: int) -> bool:
        if "lsn" in position:
            return False
        return XidSnapshot.parse(str(position["snapshot"])).contains(snapshot)

    def open_monitor(self, after: Position | None, reader: Reader | None = None) -> Monitor:
        if after is not None and "lsn" in after:
            raise self.captured_otherwise()
        with self.tables.keeping() as (connection, tables):
            places = self.tables.places(connection, self.tables.unusable)
            gone = (
                Table(0, schema, name, "", (), (), called=called) for called, schema, name in places
            )
            watched, refused = [*tables.values(), *gone], self.tables.refused
            return TriggerMonitor(
                self.installation, connection, watched, refused, after, self.watch_s
            )
