"""What the ways to capture a PostgreSQL database have in common, and what answers need of them.

An answer and a load have to find their place among the changes that a monitor reports. So whoever
captures says how a question leaves its mark in the log, and where in the log a snapshot stands.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias

from headwater.errors import BrokenLogError, SourceError
from headwater.sources.contract import Capture, OtherLog, Position
from headwater.sources.postgres.connect import Connection
from headwater.sources.postgres.locks import MarkedLog
from headwater.sources.postgres.retention import other_logs, remove_log
from headwater.sources.postgres.snapshot import XidSnapshot
from headwater.sources.postgres.tables import Tables
from headwater.sources.postgres.types import Table

Mark: TypeAlias = Callable[[str], bytes]
"""The statement that puts a marker into the log."""
Locate: TypeAlias = Callable[[XidSnapshot, int], Position]
"""The position of a snapshot that holds nothing committed after a place in the server's log."""


@dataclass(frozen=True)
class ServerNames:
    """What is made at a server is called so, and belongs to the warehouse `owner`."""

    publication: str
    slot: str
    """Also of the schema, where triggers write the log."""
    owner: str = ""


class Installation(Protocol):
    """What is made at a server so that changes are captured there."""

    def missing(self, connection: Connection, tables: Iterable[Table]) -> list[str]: ...

    def install(self, connection: Connection, tables: Iterable[Table]) -> None: ...

    def renew(self, connection: Connection, tables: Iterable[Table]) -> None: ...

    def remove(self, connection: Connection) -> None: ...


@dataclass(frozen=True)
class PostgresCapture(Capture, ABC):
    """One way to capture some tables; `watch_s` is how often the catalog is looked at."""

    tables: Tables
    names: ServerNames
    watch_s: float

    way: ClassVar[str]
    """As `changes` in the settings calls it."""
    limits: ClassVar[str] = ""
    follows_partitioned: ClassVar[bool] = True
    """Whether a partitioned table can be followed as one."""

    @property
    @abstractmethod
    def installation(self) -> Installation: ...

    @abstractmethod
    def marks(self) -> Mark:
        """How the questions of a wrapper that is opened now leave their marks in the log."""

    def marked_log(self) -> MarkedLog | None:
        """The table that a mark is written to, where there is one."""
        return None

    @abstractmethod
    def locate(self, connection: Connection, tables: Mapping[str, Table]) -> Locate:
        """How to find a snapshot's position; SourceError if the log does not tell all of these."""

    @abstractmethod
    def covers(self, position: Position, snapshot: XidSnapshot, until: int) -> bool:
        """Whether a log that was read up to a position holds all that is in a snapshot."""

    def captured_otherwise(self) -> BrokenLogError:
        return BrokenLogError(
            self.tables.access.source,
            "its changes were captured in another way before, and its position belongs to that.",
        )

    def setup_statements(self) -> Sequence[str]:
        with self.tables.looking() as (connection, tables):
            return self.installation.missing(connection, self._some(tables))

    def setup(self) -> None:
        with self.tables.looking() as (connection, tables):
            self.installation.install(connection, self._some(tables))

    def set_up_again(self) -> None:
        with self.tables.looking() as (connection, tables):
            self.installation.renew(connection, self._some(tables))

    def _some(self, tables: Mapping[str, Table]) -> Collection[Table]:
        if not tables:
            raise SourceError(
                f"Source {self.tables.access.source}: no view names a table of it, so there is "
                "nothing to set up.",
                "Write a view; 'headwater tables' shows what there is.",
            )
        return tables.values()

    def teardown(self) -> None:
        with self.tables.access.connect() as connection:
            self.installation.remove(connection)

    def other_logs(self) -> Sequence[OtherLog]:
        with self.tables.access.connect() as connection:
            return other_logs(self.tables.access, connection, self.names.slot, self.tables.names)

    def remove_log(self, owner: str) -> None:
        with self.tables.access.connect() as connection:
            remove_log(self.tables.access, connection, self.names.slot, self.tables.names, owner)
