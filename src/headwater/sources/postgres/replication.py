"""Changes of a PostgreSQL database from its own log: a publication, a slot, and who reads it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

from headwater.errors import SourceError
from headwater.sources.contract import Logged, Monitor, Position, Progressed, Reader, Retained
from headwater.sources.postgres.capture import Locate, Mark, PostgresCapture
from headwater.sources.postgres.connect import Connection
from headwater.sources.postgres.history import check_history, check_known, identify
from headwater.sources.postgres.log import PREFIX, TAG_PREFIX, Interpreter
from headwater.sources.postgres.monitor import PostgresMonitor
from headwater.sources.postgres.pgoutput import parse_lsn
from headwater.sources.postgres.position import LogPosition
from headwater.sources.postgres.retention import is_unbounded, retained
from headwater.sources.postgres.setup import SlotInstallation, application_name
from headwater.sources.postgres.sight import GONE
from headwater.sources.postgres.snapshot import XidSnapshot
from headwater.sources.postgres.types import Table
from headwater.sources.postgres.watch import CatalogWatch

_MOST_AWAITED = 10_000


@dataclass(frozen=True)
class Questions:
    """What questions tell the monitor of the same source."""

    begun: threading.Event = field(default_factory=threading.Event)
    """That the catalog is looked at before the next marker is passed on."""
    awaited: dict[str, None] = field(default_factory=dict)
    """The markers that they have written, the last ones."""

    def await_marker(self, marker: str) -> None:
        self.awaited[marker] = None
        if len(self.awaited) > 2 * _MOST_AWAITED:
            for old in list(self.awaited)[:-_MOST_AWAITED]:
                self.awaited.pop(old, None)


@dataclass(frozen=True)
class ReplicationCapture(PostgresCapture):
    """Reads a replication slot, transactions in the order of their commits."""

    questions: Questions = field(default_factory=Questions)

    way: ClassVar[str] = "replication"

    @property
    def installation(self) -> SlotInstallation:
        names = self.names
        return SlotInstallation(self.tables.access, names.publication, names.slot, names.owner)

    @property
    def tagging(self) -> str:
        tag = """'{"id": "transfer 17", "parts": 2}'"""
        return f"SELECT pg_logical_emit_message(true, '{TAG_PREFIX}', {tag})"

    def cautions(self) -> Sequence[str]:
        with self.tables.access.connect() as connection:
            if not is_unbounded(self.tables.access, connection):
                return ()
        return [
            f"Source {self.tables.access.source}: while nobody reads, the server keeps its log "
            "without a limit; max_slot_wal_keep_size would keep its disk from filling."
        ]

    def lacking(self) -> Sequence[SourceError]:
        """Whether the log can be read, by opening such a connection: services name the right
        differently."""
        try:
            self.tables.access.connect_replication().finish()
        except SourceError as error:
            return [error]
        return []

    def stays(self) -> Sequence[str]:
        with self.tables.access.connect() as connection:
            return self.installation.stays(connection)

    def retained(self) -> Retained | None:
        with self.tables.access.connect() as connection:
            return retained(self.tables.access, connection, self.names.slot)

    def marks(self) -> Mark:
        """A mark is a message in the log, of which the monitor is told before it can come by."""
        self.questions.begun.set()

        def message(marker: str) -> bytes:
            self.questions.await_marker(marker)
            return f"SELECT pg_logical_emit_message(true, '{PREFIX}', '{marker}')".encode()

        return message

    def locate(self, connection: Connection, tables: Mapping[str, Table]) -> Locate:
        confirmed = self.installation.check(connection, is_fresh=True)
        self.installation.check_tables(connection, tables.values())
        self.questions.begun.set()
        return lambda snapshot, until: LogPosition(confirmed, snapshot, until).json()

    def covers(self, position: Position, snapshot: XidSnapshot, until: int) -> bool:
        return "lsn" in position and parse_lsn(str(position["lsn"])) >= until

    def open_monitor(self, after: Position | None, reader: Reader | None = None) -> Monitor:
        if after is not None and "lsn" not in after:
            raise self.captured_otherwise()
        access, installation = self.tables.access, self.installation
        with self.tables.looking() as (connection, tables):
            absent = self.tables.places(connection, self.tables.absent)
            unfollowed = dict.fromkeys(self.tables.absent, GONE) | self.tables.refused
            confirmed = installation.check(connection, is_fresh=after is None)
        at = LogPosition(confirmed) if after is None else LogPosition.of(after)
        watch = CatalogWatch(access, installation.publication, tables, absent)
        named = {} if reader is None else {"application_name": application_name(reader)}
        pgconn = access.connect_replication(**named)
        try:
            server = identify(access, pgconn)
            check_history(access, pgconn, at, server)
            installation.check_reachable(at.start, confirmed)
            if after is not None:
                check_known(access, at)
            at = replace(at, server=server.server)
            sight = watch.look()
            near_xid = sight.snapshot.xmax
            interpreter = Interpreter(
                access.source, tables, unfollowed, self.questions.awaited, at, near_xid, watch
            )
            first: list[Logged] = [*interpreter.compare(sight)]
            if after is None:
                first.append(Progressed(interpreter.at.json()))
        except BaseException:
            watch.close()
            pgconn.finish()
            raise
        monitor = PostgresMonitor(
            access, pgconn, interpreter, watch, self.watch_s, self.questions.begun, first
        )
        try:
            monitor.start(installation.slot, installation.publication, partial(self._evict, reader))
        except BaseException:
            monitor.close()
            raise
        return monitor

    def _evict(self, reader: Reader | None) -> None:
        """End the connection of an earlier epoch of this reader that still holds the slot."""
        if reader is not None:
            with self.tables.access.connect() as connection:
                self.installation.evict(connection, reader)
