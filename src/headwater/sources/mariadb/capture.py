"""How MariaDB and MySQL are captured: by their binary log, which they keep anyway."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from headwater.errors import BrokenLogError, SourceError, one_of
from headwater.sources.contract import (
    Capture,
    Logged,
    Monitor,
    OtherLog,
    Position,
    Progressed,
    Reader,
    Retained,
)
from headwater.sources.mariadb.connect import Connection, quoted, run
from headwater.sources.mariadb.ddl import Name
from headwater.sources.mariadb.log import Interpreter
from headwater.sources.mariadb.monitor import MariadbMonitor, Questions
from headwater.sources.mariadb.places import LogPosition
from headwater.sources.mariadb.standing import (
    TAGGING,
    Own,
    beginning,
    faults,
    lacking,
    owners,
    read_own,
    started_at,
    statements,
)
from headwater.sources.mariadb.stream import Stream
from headwater.sources.mariadb.tables import Tables
from headwater.sources.naming import called, split_name


@dataclass(frozen=True)
class MariadbCapture(Capture):
    """The binary log of a server, for some tables."""

    tables: Tables
    owner: str
    questions: Questions
    by_lock: bool

    limits: ClassVar[str] = ""

    @property
    def own(self) -> Own:
        access = self.tables.access
        if not access.database:
            raise SourceError(
                f"Source {access.source}: its connection string names no database, and setup makes "
                "its tables in that.",
                "Name one behind the host: mariadb://account@host/database.",
            )
        return Own(access.database, self.owner)

    @property
    def tagging(self) -> str:
        return f"INSERT INTO {TAGGING} (id, parts) VALUES ('transfer 17', 2)"

    def cautions(self) -> Sequence[str]:
        access = self.tables.access
        told = []
        with access.connected() as connection, access.errors("read the server's settings"):
            rows = dict(run(connection, "SHOW GLOBAL VARIABLES LIKE '%expire_logs%'"))
        seconds = int(str(rows.get("binlog_expire_logs_seconds") or "0"))
        days = float(str(rows.get("expire_logs_days") or "0"))
        kept_s = seconds or int(days * 86400)
        if 0 < kept_s < 86400:
            told.append(
                f"Source {access.source}: the server keeps its log for {kept_s:,} s only; a runner "
                "that is away for longer cannot go on, and its views are loaded anew."
            )
        if self.by_lock:
            told.append(
                f"Source {access.source}: each question holds back writers of the tables that it "
                "reads, for the moment in which its snapshot is taken."
            )
        return told

    def lacking(self) -> Sequence[SourceError]:
        access = self.tables.access
        with access.connected() as connection:
            found = lacking(access, connection, by_lock=self.by_lock)
            return found or faults(access, connection)

    def stays(self) -> Sequence[str]:
        with self.tables.access.connected() as connection:
            if owners(self.tables.access, connection, self.own):
                return (f"the table {TAGGING} stays, since other warehouses use it.",)
        return ()

    def retained(self) -> Retained | None:
        """The server keeps its log for itself, and as long as its settings say."""
        return None

    def other_logs(self) -> Sequence[OtherLog]:
        with self.tables.access.connected() as connection:
            found = owners(self.tables.access, connection, self.own)
        return [OtherLog(owner, None) for owner in found]

    def remove_log(self, owner: str) -> None:
        own = replace(self.own, owner=owner)
        with self.tables.access.connected() as connection:
            self._run(connection, f"DROP TABLE IF EXISTS {quoted(own.database, own.table)}")

    def setup_statements(self) -> Sequence[str]:
        with self.tables.looking() as (connection, _):
            return list(statements(self.tables.access, connection, self.own))

    def setup(self) -> None:
        access = self.tables.access
        with self.tables.looking() as (connection, _):
            if found := faults(access, connection):
                raise one_of(found)
            for statement in statements(access, connection, self.own):
                self._run(connection, statement)

    def set_up_again(self) -> None:
        access = self.tables.access
        self.setup()
        with access.connected() as connection:
            self._run(connection, beginning(access, connection, self.own))
            self._run(connection, f"DELETE FROM {quoted(self.own.database, TAGGING)}")

    def teardown(self) -> None:
        access = self.tables.access
        with access.connected() as connection:
            gone = [self.own.table]
            if not owners(access, connection, self.own):
                gone.append(TAGGING)
            for name in gone:
                self._run(connection, f"DROP TABLE IF EXISTS {quoted(self.own.database, name)}")

    def log(self, connection: Connection) -> str:
        """What setup wrote there, by which a log is known."""
        return read_own(self.tables.access, connection, self.own)[0]

    def open_monitor(self, after: Position | None, reader: Reader | None = None) -> Monitor:
        access = self.tables.access
        with access.connected() as connection:
            if found := faults(access, connection):
                raise one_of(found)
            log, begin = read_own(access, connection, self.own)
            start = started_at(access, connection)
            tables, missing = self.tables.present(connection)
        at = LogPosition(begin, log) if after is None else LogPosition.of(after)
        if at.log != log:
            raise BrokenLogError(
                access.source,
                "it was set up again, or its database was put back to an earlier state.",
            )
        at = replace(at, start=start)
        interpreter = Interpreter(
            access.source,
            tables,
            missing,
            self._places(),
            (self.own.database.lower(), self.own.table.lower()),
            at,
            is_xa_exact=self.by_lock,
        )
        stream = Stream(access, at.begin.file, at.begin.position)
        self.questions.start = start
        told = interpreter.opened()
        first: list[Logged] = [Progressed(interpreter.at.json()), *told]
        return MariadbMonitor(access.source, stream, interpreter, self.questions, first)

    def _places(self) -> dict[Name, list[str]]:
        """Where the tables of all relations are, or were; names that differ by case are one."""
        names = self.tables.wanted.names
        found: dict[Name, list[str]] = {}
        for relation, name in zip(called(names), names, strict=True):
            database, table = split_name(name)
            if self.tables.is_wanted(relation):
                place = (database or self.tables.access.database).lower()
                found.setdefault((place, table.lower()), []).append(relation)
        return found

    def _run(self, connection: Connection, statement: str) -> None:
        with self.tables.access.errors("set up or take down what is needed there"):
            run(connection, statement)
