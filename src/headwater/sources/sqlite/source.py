"""SQLite as a source: a file that applications write, with a log filled by triggers.

The log is an ordinary table of the same file, so a change and its log row commit together or
not at all, and one read transaction shows both. Where transactions end is read from the
write-ahead log (`wal`); what holds when no monitor runs is in `monitor`.

Choices: changes are numbered in the head of the log, and a transaction is known by its last
number; since SQLite lets one transaction write at a time, an answer reflects exactly the
transactions up to the number that it was read with. Each owner has a log of its own in the file
(`names`), and one reader at a time.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from headwater.algebra.schema import Relation
from headwater.errors import SourceError
from headwater.sources.contract import (
    Answers,
    Capture,
    Constant,
    Lift,
    Load,
    Monitor,
    OtherLog,
    Position,
    Reader,
    Reply,
    Retained,
    Source,
    UsedColumns,
    Wrapper,
    as_it_is,
)
from headwater.sources.discovered import DiscoveredTable, RelationSize
from headwater.sources.markers import Markers
from headwater.sources.sqlite.access import Access
from headwater.sources.sqlite.constants import printed
from headwater.sources.sqlite.counting import sizes
from headwater.sources.sqlite.discovery import discover
from headwater.sources.sqlite.indexes import missing_indexes
from headwater.sources.sqlite.load import SqliteLoad
from headwater.sources.sqlite.monitor import SeqSnapshot, SqliteMonitor
from headwater.sources.sqlite.names import Names
from headwater.sources.sqlite.setup import (
    check_writers,
    owners,
    removal_statements,
    run_all,
    setup_statements,
    teardown_statements,
    writing_failures,
)
from headwater.sources.sqlite.sizes import size_of
from headwater.sources.sqlite.standing import has_log
from headwater.sources.sqlite.tables import Tables
from headwater.sources.sqlite.tagging import STATEMENT
from headwater.sources.sqlite.wrapper import SqliteWrapper

_WAL = "PRAGMA main.journal_mode = WAL"


class SqliteSource(Source):
    """Tables of one SQLite file; `keys` has keys that are not declared there.

    `owner` is the warehouse that the log is for: eight hexadecimal digits.
    """

    def __init__(
        self,
        name: str,
        path: str | Path,
        relations: Sequence[str],
        keys: Mapping[str, Sequence[str]] | None = None,
        *,
        owner: str = "",
    ) -> None:
        access = Access(name, Path(path), Names(owner))
        names, markers = tuple(dict.fromkeys(relations)), Markers()

        def halves(columns: UsedColumns) -> tuple[Capture, Answers]:
            tables = Tables(access, names, keys or {}, columns)
            return SqliteCapture(tables, markers), SqliteAnswers(tables, markers)

        super().__init__(name, halves)


@dataclass(frozen=True)
class SqliteCapture:
    """A log in the file itself, which triggers fill."""

    tables: Tables
    markers: Markers

    limits: ClassVar[str] = (
        "Transactions that are committed while no runner is up may come as one step: SQLite "
        "keeps their ends only until it begins its write-ahead log anew. A view WITH COMPLETE "
        "CONSISTENCY then shows their common result, and not every state in between."
    )

    tagging: ClassVar[str] = STATEMENT

    def cautions(self) -> Sequence[str]:
        return ()

    def lacking(self) -> Sequence[SourceError]:
        path = self.tables.access.path
        for written in (path, path.absolute().parent):
            if written.exists() and not os.access(written, os.W_OK):
                return [
                    self.tables.access.error(
                        f"{written} may not be written by this user: the log is in the same file, "
                        "and SQLite needs two more beside it.",
                        "Run Headwater as a user that may.",
                    )
                ]
        return []

    def stays(self) -> Sequence[str]:
        return ("the file stays in WAL mode.",)

    def retained(self) -> Retained | None:
        with self.tables.connected() as connection:
            names = self.tables.access.names
            if not has_log(connection, names):
                return None
            (rows,) = connection.execute(f"SELECT seq - pruned FROM {names.head}").fetchone()
            return Retained(size_of(connection, names.log), rows)

    def other_logs(self) -> Sequence[OtherLog]:
        with self.tables.connected() as connection:
            own = self.tables.access.names.owner
            return [OtherLog(owner, None) for owner in owners(connection) if owner != own]

    def remove_log(self, owner: str) -> None:
        with self.tables.connected(write=True) as connection:
            run_all(connection, lambda: removal_statements(connection, Names(owner)))

    def setup_statements(self) -> Sequence[str]:
        with self.tables.reading() as (connection, tables):
            (mode,) = connection.execute("PRAGMA main.journal_mode").fetchone()
            wal = [] if mode == "wal" else [_WAL]
            return wal + setup_statements(self.tables.access, connection, tables)

    def setup(self) -> None:
        access = self.tables.access
        self.tables.now()  # says what is wrong before anything is changed
        with self.tables.connected(write=True) as connection:
            (mode,) = connection.execute(_WAL).fetchone()
            if mode != "wal":
                raise access.error(
                    f"{access.path} stays in {mode} mode.",
                    "Close its other connections, and keep it on a local disk.",
                )

            def statements() -> Iterator[str]:
                tables = self.tables.described(connection)
                failing = writing_failures(connection, tables.values())
                yield from setup_statements(access, connection, tables)
                check_writers(access, connection, tables.values(), failing)

            run_all(connection, statements)

    def set_up_again(self) -> None:
        self.teardown()
        self.setup()

    def teardown(self) -> None:
        """Remove what the setup added; the file stays in WAL mode."""
        with self.tables.connected(write=True) as connection:
            names, relations = self.tables.access.names, self.tables.names(connection)
            run_all(connection, lambda: teardown_statements(connection, names, relations))

    def open_monitor(self, after: Position | None, reader: Reader | None = None) -> Monitor:
        present, lost = self.tables.present()
        return SqliteMonitor(self.tables.access, present, self.markers, after, reader, lost)


@dataclass(frozen=True)
class SqliteAnswers:
    """Answers of the file, each from one read transaction, which also shows the log's end."""

    tables: Tables
    markers: Markers

    def relations(self) -> Mapping[str, Relation]:
        return {
            name: table.relation if name in self.tables.columns else table.offered
            for name, table in self.tables.now().items()
        }

    def discover(self) -> Sequence[DiscoveredTable]:
        with self.tables.connected() as connection:
            return list(discover(self.tables.access, connection, self.tables.keys))

    def printed(self, constants: Collection[Constant]) -> Mapping[Constant, str | None]:
        return printed(self.tables.now(), constants)

    def problems(self) -> Sequence[SourceError]:
        return self.tables.problems()

    def unusable(self) -> Mapping[str, SourceError]:
        return self.tables.unusable

    def missing_indexes(self, probes: Mapping[str, Collection[tuple[str, ...]]]) -> Sequence[str]:
        with self.tables.reading() as (connection, tables):
            return [
                statement
                for name, columns in probes.items()
                for statement in missing_indexes(connection, tables[name], columns)
            ]

    def sizes(self, columns: UsedColumns) -> Mapping[str, RelationSize]:
        with self.tables.reading() as (connection, tables):
            return sizes(connection, tables, columns)

    def cautions(self) -> Sequence[str]:
        access = self.tables.access
        return [
            f"Source {access.name}: table {name} has no key here, because values of its primary "
            f"key ({', '.join(table.primary)}) that differ in the file may be equal here. If "
            "another unique index keeps its rows apart, name that under keys."
            for name, table in self.tables.now().items()
            if table.primary and not table.relation.key
        ]

    def open_wrapper(self, lift: Lift = as_it_is) -> Wrapper:
        return SqliteWrapper(self.tables.access, self.tables.present()[0], self.markers, lift)

    def open_load(self, relations: Sequence[str], readers: int) -> Load:
        return SqliteLoad(self.tables.access, self.tables.chosen(relations), readers)

    def identity(self) -> str:
        access = self.tables.access
        device, file, *_ = access.file_identity()
        return f"file {file} on device {device} of machine {access.machine()}"

    def expected_marker(self) -> str | None:
        return None

    def replied_elsewhere(self, snapshot: str, marker: str | None) -> Reply:
        found = SeqSnapshot(int(snapshot))
        return Reply((), found, self.markers.add(found.seq))  # monitors know only those of here
