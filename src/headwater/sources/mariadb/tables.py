"""The tables that a source is about, as they were described, with the columns that are wanted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from headwater.errors import SourceError, one_of
from headwater.sources.contract import UsedColumns
from headwater.sources.mariadb.catalog import Wanted, read_tables
from headwater.sources.mariadb.connect import Access, Connection
from headwater.sources.mariadb.types import Table


class Tables:
    """Some tables of a server; with `used` only those that it names, and these columns of them."""

    def __init__(self, access: Access, wanted: Wanted, used: UsedColumns | None = None) -> None:
        self.access = access
        self.wanted = wanted
        self._used = dict(used or {})
        self._unusable: Mapping[str, SourceError] = {}

    def narrowed(self, columns: UsedColumns) -> Tables:
        return Tables(self.access, self.wanted, columns)

    def is_wanted(self, relation: str) -> bool:
        return not self._used or relation in self._used

    def read(self, connection: Connection) -> dict[str, Table]:
        """The tables that can be used; SourceError if none can."""
        tables, unusable = self._look(connection)
        self._unusable = unusable
        if unusable and not tables:
            raise one_of(unusable.values())
        return tables

    def present(self, connection: Connection) -> tuple[dict[str, Table], dict[str, str]]:
        """The tables that can be read, and why others that are used cannot."""
        tables, unusable = self._look(connection)
        prefix = f"Source {self.access.source}: "
        return tables, {
            name: error.message.removeprefix(prefix).rstrip(".") for name, error in unusable.items()
        }

    def now(self) -> dict[str, Table]:
        with self.access.connected() as connection:
            return self.read(connection)

    def chosen(self, connection: Connection, names: Iterable[str]) -> dict[str, Table]:
        """Some tables, by the names of relations; SourceError if one of them cannot be used."""
        source = f"{self.access.source}."
        tables, unusable = self._look(connection)
        wanted = [name.removeprefix(source) for name in names]
        for name in wanted:
            if name in unusable:
                raise unusable[name]
        return {name: tables[name] for name in wanted}

    def problems(self) -> list[SourceError]:
        with self.access.connected() as connection:
            return list(self._look(connection)[1].values())

    @property
    def unusable(self) -> Mapping[str, SourceError]:
        """Why tables could not be used when they were last described."""
        return self._unusable

    @contextmanager
    def looking(self) -> Iterator[tuple[Connection, dict[str, Table]]]:
        """A connection for a short while, and the tables as they are now."""
        with self.access.connected() as connection:
            yield connection, self.read(connection)

    def _look(self, connection: Connection) -> tuple[dict[str, Table], dict[str, SourceError]]:
        found, unusable = read_tables(self.access, connection, self.wanted)
        if not self._used:
            return found, unusable
        narrow = {
            name: replace(table, used=frozenset(self._used[name]))
            for name, table in found.items()
            if name in self._used
        }
        return narrow, {n: error for n, error in unusable.items() if n in self._used}
