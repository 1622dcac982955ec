"""The tables of a SQLite file that a source is about, with the columns that are logged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from headwater.sources.contract import UsedColumns
from headwater.sources.sqlite.catalog import Access, Connection, Table, describe_all, has_table


@dataclass(frozen=True)
class Tables:
    """Some tables of one file; `keys` has keys that are not declared there.

    Of a relation that `columns` does not name all columns are logged.
    """

    access: Access
    names: Sequence[str]
    keys: Mapping[str, Sequence[str]]
    columns: UsedColumns

    def now(self) -> dict[str, Table]:
        with self.reading() as (_, tables):
            return tables

    def present(self) -> dict[str, Table]:
        """The tables that are there: what became of others is no reason to stop reading these."""
        with self.connected() as connection:
            there = [name for name in self.names if has_table(connection, name)]
            return describe_all(self.access, connection, there, self.keys, self.columns)

    @contextmanager
    def reading(self) -> Iterator[tuple[Connection, dict[str, Table]]]:
        """A connection for a short while, and the tables as they are now."""
        with self.connected() as connection:
            yield connection, self.described(connection)

    def described(self, connection: Connection) -> dict[str, Table]:
        return describe_all(self.access, connection, self.names, self.keys, self.columns)

    @contextmanager
    def connected(self, write: bool = False) -> Iterator[Connection]:
        connection = self.access.connect(write=write)
        try:
            with self.access.failures():
                yield connection
        finally:
            connection.close()
