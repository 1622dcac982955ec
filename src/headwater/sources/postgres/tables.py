"""The tables that a source is about, as they were described, with the columns that are wanted.

Both halves of a source look at the same ones. Once they were described, columns that are added
later are not wanted, and a table that is gone is no error: the log tells what became of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from headwater.errors import SourceError
from headwater.sources.contract import UsedColumns
from headwater.sources.postgres.catalog import read_tables, search_path, split_name
from headwater.sources.postgres.connect import Access, Connection
from headwater.sources.postgres.types import Table


class Tables:
    """Some tables of one database; `keys` replaces primary keys."""

    def __init__(
        self,
        access: Access,
        names: Sequence[str],
        keys: Mapping[str, Sequence[str]],
        used: UsedColumns | None = None,
    ) -> None:
        self.access = access
        self.names = tuple(names)
        self._keys = dict(keys)
        self._used = dict(used or {})
        self._described: Mapping[str, Table] = {}

    def narrowed(self, columns: UsedColumns) -> Tables:
        """The same tables, not described yet, of which no other columns than these are wanted."""
        return Tables(self.access, self.names, self._keys, columns)

    def describe(self) -> dict[str, Table]:
        """The tables as they are now, from here on."""
        self._described = {}
        with self.looking() as (_, tables):
            return tables

    @contextmanager
    def looking(self) -> Iterator[tuple[Connection, dict[str, Table]]]:
        """A connection for a short while, and the tables by the names of their relations."""
        with self.access.connect() as connection:
            yield connection, self.read(connection)

    @contextmanager
    def keeping(self) -> Iterator[tuple[Connection, dict[str, Table]]]:
        """A connection that stays open unless the body fails, and the tables."""
        connection = self.access.connect()
        try:
            yield connection, self.read(connection)
        except BaseException:
            connection.close()
            raise

    def read(self, connection: Connection) -> dict[str, Table]:
        found = read_tables(self.access, connection, self.names, self._keys, bool(self._described))
        tables = {name: self._narrow(table) for name, table in found.items()}
        self._described = {**tables, **self._described}
        return tables

    def _narrow(self, table: Table) -> Table:
        used = self._used.get(table.name)
        if used is None and table.name in self._described:
            used = [column.name for column in self._described[table.name].wanted]
        return table if used is None else replace(table, used=frozenset(used))

    def absent(
        self, connection: Connection, tables: Mapping[str, Table]
    ) -> list[tuple[str, str, str]]:
        """Where tables would be that are not there: relation, schema and name."""
        split = [split_name(name) for name in self.names]
        missing = [(schema, name) for schema, name in split if name not in tables]
        if not missing:
            return []
        path = search_path(connection)
        return [
            (name, place, name)
            for schema, name in missing
            for place in ([schema] if schema else path)
        ]

    def unaltered(self, tables: Mapping[str, Table]) -> dict[str, Table]:
        """The tables with those of the wanted columns that are as they were described."""
        found: dict[str, Table] = {}
        for name, table in tables.items():
            before = {c.name: (c.type, c.form_name) for c in self._described[name].wanted}
            same = (c.name for c in table.wanted if before.get(c.name) == (c.type, c.form_name))
            found[name] = replace(table, used=frozenset(same))
        return found

    def as_described(self, table: Table) -> Table:
        """The table, if it is as it was described; SourceError if not."""
        before = self._described[table.name]
        if before.relational_schema == table.relational_schema:
            return table
        columns = ", ".join(table.by_name)
        raise SourceError(
            f"Table {before.label} was altered: now it is {table.schema}.{table.name} ({columns}).",
            "Start 'headwater run' anew, then run 'headwater reload VIEW'; where it lacks a "
            "column that the view names, define the view anew first.",
        )
