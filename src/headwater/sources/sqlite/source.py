"""SQLite as a source: a file that applications write, with a log filled by triggers.

The log is an ordinary table of the same file, so a change and its log row commit together or
not at all, and one read transaction shows both. Where transactions end is read from the
write-ahead log (`wal`); what holds when no monitor runs is in `monitor`.

Choices: changes are numbered in `_headwater_head`, and a transaction is known by its last
number; since SQLite lets one transaction write at a time, an answer reflects exactly the
transactions up to the number that it was read with. One consumer acknowledges each log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from headwater.algebra.schema import Relation
from headwater.sources.contract import Lift, Position, Reader, as_it_is
from headwater.sources.sqlite.catalog import Connection, Place, Table, describe_all
from headwater.sources.sqlite.indexes import missing_indexes
from headwater.sources.sqlite.load import SqliteLoad
from headwater.sources.sqlite.monitor import Markers, SqliteMonitor
from headwater.sources.sqlite.setup import run_all, setup_statements, teardown_statements
from headwater.sources.sqlite.wrapper import SqliteWrapper

_WAL = "PRAGMA main.journal_mode = WAL"


class SqliteSource:
    """Tables of one SQLite file; `keys` has keys that are not declared there."""

    def __init__(
        self,
        name: str,
        path: str | Path,
        relations: Sequence[str],
        keys: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._place = Place(name, Path(path))
        self._names = tuple(dict.fromkeys(relations))
        self._keys = dict(keys or {})
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
        """All columns: they are in the log anyway, and reading them costs little."""
        return self

    def setup_statements(self) -> Sequence[str]:
        with self._reading() as (connection, tables):
            (mode,) = connection.execute("PRAGMA main.journal_mode").fetchone()
            wal = [] if mode == "wal" else [_WAL]
            return wal + setup_statements(self._place, connection, tables)

    def setup(self) -> None:
        self._tables()  # says what is wrong before anything is changed
        connection = self._place.connect(write=True)
        try:
            with self._place.failures():
                (mode,) = connection.execute(_WAL).fetchone()
                if mode != "wal":
                    raise self._place.error(
                        f"{self._place.path} stays in {mode} mode.",
                        "Close its other connections, and keep it on a local disk.",
                    )
                tables = describe_all(self._place, connection, self._names, self._keys)
                run_all(connection, lambda: setup_statements(self._place, connection, tables))
        finally:
            connection.close()

    def teardown(self) -> None:
        """Remove what the setup added; the file stays in WAL mode."""
        connection = self._place.connect(write=True)
        try:
            with self._place.failures():
                run_all(connection, lambda: teardown_statements(connection, self._names))
        finally:
            connection.close()

    def open_monitor(self, after: Position | None, reader: Reader | None = None) -> SqliteMonitor:
        return SqliteMonitor(self._place, self._tables(), self._markers, after)

    def open_wrapper(self, lift: Lift = as_it_is) -> SqliteWrapper:
        return SqliteWrapper(self._place, self._tables(), self._markers, lift)

    def open_load(self, relations: Sequence[str], readers: int) -> SqliteLoad:
        tables = self._tables()
        return SqliteLoad(self._place, {name: tables[name] for name in relations}, readers)

    def _tables(self) -> dict[str, Table]:
        with self._reading() as (_, tables):
            return tables

    @contextmanager
    def _reading(self) -> Iterator[tuple[Connection, dict[str, Table]]]:
        """A connection for a short while, and the tables as they are now."""
        connection = self._place.connect()
        try:
            with self._place.failures():
                yield connection, describe_all(self._place, connection, self._names, self._keys)
        finally:
            connection.close()
