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
from contextlib import contextmanager
from copy import copy
from pathlib import Path

from headwater.algebra.schema import Relation
from headwater.errors import SourceError
from headwater.sources.contract import Lift, OtherLog, Position, Reader, Retained, as_it_is
from headwater.sources.sqlite.catalog import (
    Connection,
    Place,
    Table,
    describe_all,
    has_table,
)
from headwater.sources.sqlite.indexes import missing_indexes
from headwater.sources.sqlite.load import SqliteLoad
from headwater.sources.sqlite.monitor import Markers, SqliteMonitor
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
from headwater.sources.sqlite.wrapper import SqliteWrapper

_WAL = "PRAGMA main.journal_mode = WAL"


class SqliteSource:
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
        self._place = Place(name, Path(path), Names(owner))
        self._names = tuple(dict.fromkeys(relations))
        self._keys = dict(keys or {})
        self._columns: Mapping[str, Collection[str]] = {}
        self._markers = Markers()

    @property
    def name(self) -> str:
        return self._place.name

    @property
    def path(self) -> Path:
        return self._place.path

    def relations(self) -> Mapping[str, Relation]:
        return {name: table.relation for name, table in self._tables().items()}

    def missing_indexes(self, probes: Mapping[str, Collection[tuple[str, ...]]]) -> Sequence[str]:
        with self._reading() as (connection, tables):
            return [
                statement
                for name, columns in probes.items()
                for statement in missing_indexes(connection, tables[name], columns)
            ]

    def narrowed(self, columns: Mapping[str, Collection[str]]) -> SqliteSource:
        """The same source, whose triggers log only these columns, and keys.

        Relations that are not named keep all of theirs.
        """
        narrow = copy(self)
        narrow._columns = {name: frozenset(used) for name, used in columns.items()}
        return narrow

    @property
    def limits(self) -> str:
        return (
            "Transactions that are committed while no runner is up may come as one step: SQLite "
            "keeps their ends only until it begins its write-ahead log anew. A view WITH COMPLETE "
            "CONSISTENCY then shows their common result, and not every state in between."
        )

    def cautions(self) -> Sequence[str]:
        return ()

    def lacking(self) -> Sequence[SourceError]:
        path = self._place.path
        for place in (path, path.absolute().parent):
            if place.exists() and not os.access(place, os.W_OK):
                return [
                    self._place.error(
                        f"{place} may not be written by this user: the log is in the same file, "
                        "and SQLite needs two more beside it.",
                        "Run Headwater as a user that may.",
                    )
                ]
        return []

    def stays(self) -> Sequence[str]:
        return ("the file stays in WAL mode.",)

    def retained(self) -> Retained | None:
        with self._connected() as connection:
            names = self._place.names
            if not has_log(connection, names):
                return None
            (rows,) = connection.execute(f"SELECT seq - pruned FROM {names.head}").fetchone()
            return Retained(size_of(connection, names.log), rows)

    def other_logs(self) -> Sequence[OtherLog]:
        with self._connected() as connection:
            own = self._place.names.owner
            return [OtherLog(owner, None) for owner in owners(connection) if owner != own]

    def remove_log(self, owner: str) -> None:
        with self._connected(write=True) as connection:
            run_all(connection, lambda: removal_statements(connection, Names(owner)))

    def setup_statements(self) -> Sequence[str]:
        with self._reading() as (connection, tables):
            (mode,) = connection.execute("PRAGMA main.journal_mode").fetchone()
            wal = [] if mode == "wal" else [_WAL]
            return wal + setup_statements(self._place, connection, tables)

    def setup(self) -> None:
        self._tables()  # says what is wrong before anything is changed
        with self._connected(write=True) as connection:
            (mode,) = connection.execute(_WAL).fetchone()
            if mode != "wal":
                raise self._place.error(
                    f"{self._place.path} stays in {mode} mode.",
                    "Close its other connections, and keep it on a local disk.",
                )

            def statements() -> Iterator[str]:
                tables = self._described(connection)
                failing = writing_failures(connection, tables.values())
                yield from setup_statements(self._place, connection, tables)
                check_writers(self._place, connection, tables.values(), failing)

            run_all(connection, statements)

    def set_up_again(self) -> None:
        self.teardown()
        self.setup()

    def teardown(self) -> None:
        """Remove what the setup added; the file stays in WAL mode."""
        with self._connected(write=True) as connection:
            run_all(
                connection,
                lambda: teardown_statements(connection, self._place.names, self._names),
            )

    def open_monitor(self, after: Position | None, reader: Reader | None = None) -> SqliteMonitor:
        tables = self._present()
        lost = tuple(name for name in self._names if name not in tables)
        return SqliteMonitor(self._place, tables, self._markers, after, reader, lost)

    def open_wrapper(self, lift: Lift = as_it_is) -> SqliteWrapper:
        return SqliteWrapper(self._place, self._present(), self._markers, lift)

    def open_load(self, relations: Sequence[str], readers: int) -> SqliteLoad:
        tables = self._tables()
        return SqliteLoad(self._place, {name: tables[name] for name in relations}, readers)

    def _tables(self) -> dict[str, Table]:
        with self._reading() as (_, tables):
            return tables

    def _present(self) -> dict[str, Table]:
        """The tables that are there: what became of others is no reason to stop reading these."""
        with self._connected() as connection:
            there = [name for name in self._names if has_table(connection, name)]
            return describe_all(self._place, connection, there, self._keys, self._columns)

    @contextmanager
    def _reading(self) -> Iterator[tuple[Connection, dict[str, Table]]]:
        """A connection for a short while, and the tables as they are now."""
        with self._connected() as connection:
            yield connection, self._described(connection)

    def _described(self, connection: Connection) -> dict[str, Table]:
        return describe_all(self._place, connection, self._names, self._keys, self._columns)

    @contextmanager
    def _connected(self, write: bool = False) -> Iterator[Connection]:
        connection = self._place.connect(write=write)
        try:
            with self._place.failures():
                yield connection
        finally:
            connection.close()
