"""The tables of a SQLite file that a source is about, with the columns that are logged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from headwater.errors import SourceError, one_of
from headwater.sources.contract import UsedColumns
from headwater.sources.sqlite.access import Access, Connection
from headwater.sources.sqlite.catalog import (
    actual_name,
    check_followable,
    describe_all,
    has_table,
    read_sorts,
)
from headwater.sources.sqlite.described import Table


class Tables:
    """Some tables of one file; `keys` has keys that are not declared there.

    With `columns` only the tables that it names are looked at, and only these columns of them.
    """

    def __init__(
        self,
        access: Access,
        names: Sequence[str],
        keys: Mapping[str, Sequence[str]],
        columns: UsedColumns,
    ) -> None:
        self.access = access
        self.keys = keys
        self.columns = columns
        self._names = tuple(names)
        self._unusable: Mapping[str, SourceError] = {}

    def now(self) -> dict[str, Table]:
        with self.reading() as (_, tables):
            return tables

    def present(self) -> tuple[dict[str, Table], dict[str, str]]:
        """The tables that can be read, and why others that are used or gone cannot.

        What became of a table is no reason to stop reading others, and neither is a table that
        cannot be followed and that no view uses.
        """
        with self.connected() as connection:
            names = self.names(connection)
            gone = [
                name
                for name in names
                if name in (self.columns or names) and not has_table(connection, name)
            ]
            tables, unusable = self._described(connection)
            if unusable and not (tables or gone):
                raise one_of(unusable.values())
            unused = self._unfollowable(tables).keys() - self.columns.keys()
            lost = {name: f"there is no table {name}." for name in gone}
            for name in (unusable.keys() & self.columns.keys()) - lost.keys():
                lost[name] = str(unusable[name]).partition(": ")[2]
            return {n: table for n, table in tables.items() if n not in unused}, lost

    def names(self, connection: Connection) -> list[str]:
        """The tables as the file calls them, each once."""
        sorts = read_sorts(connection)
        return list(dict.fromkeys(actual_name(name, sorts) for name in self._names))

    @contextmanager
    def reading(self) -> Iterator[tuple[Connection, dict[str, Table]]]:
        """A connection for a short while, and the tables as they are now."""
        with self.connected() as connection:
            yield connection, self.described(connection)

    def described(self, connection: Connection) -> dict[str, Table]:
        """The tables that can be used; SourceError if none can."""
        tables, unusable = self._described(connection)
        self._unusable = {**unusable, **self._unfollowable(tables)}
        found = {name: table for name, table in tables.items() if name not in self._unusable}
        if self._unusable and not found:
            raise one_of(self._unusable.values())
        return found

    def chosen(self, names: Iterable[str]) -> dict[str, Table]:
        """Some tables; SourceError if one of them cannot be used."""
        tables = self.now()
        for name in names:
            if name in self._unusable:
                raise self._unusable[name]
        return {name: tables[name] for name in names}

    def problems(self) -> list[SourceError]:
        """Why tables cannot be used, all that there is."""
        with self.connected() as connection:
            tables, unusable = self._described(connection)
            return [*unusable.values(), *self._unfollowable(tables).values()]

    @property
    def unusable(self) -> Mapping[str, SourceError]:
        """Why tables could not be used when they were last described."""
        return self._unusable

    def _described(self, connection: Connection) -> tuple[dict[str, Table], dict[str, SourceError]]:
        return describe_all(self.access, connection, self._names, self.keys, self.columns)

    def _unfollowable(self, tables: Mapping[str, Table]) -> dict[str, SourceError]:
        found = {}
        for name, table in tables.items():
            try:
                check_followable(self.access, table)
            except SourceError as error:
                found[name] = error
        return found

    @contextmanager
    def connected(self, write: bool = False) -> Iterator[Connection]:
        connection = self.access.connect(write=write)
        try:
            with self.access.failures():
                yield connection
        finally:
            connection.close()
