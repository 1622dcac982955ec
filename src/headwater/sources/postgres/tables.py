"""The tables that a source is about, as they were described, with the columns that are wanted.

Both halves of a source look at the same ones. Once they were described, columns that are added
later are not wanted, and a table that is gone is no error: the log tells what became of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from headwater.errors import SourceError, one_of
from headwater.sources.contract import UsedColumns
from headwater.sources.naming import called, split_name
from headwater.sources.postgres.catalog import (
    MissingTableError,
    SameTableError,
    read_tables,
    search_path,
)
from headwater.sources.postgres.connect import Access, Connection
from headwater.sources.postgres.types import Table


class Tables:
    """Some tables of one database; `keys` replaces primary keys, `as_text` columns' types.

    With `used` only those tables that it names are looked at, and only these columns of them.

    Whether `partitioned` tables can be followed depends on how changes are captured.
    """

    def __init__(
        self,
        access: Access,
        names: Sequence[str],
        keys: Mapping[str, Sequence[str]],
        used: UsedColumns | None = None,
        partitioned: bool = True,
        as_text: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.access = access
        self.names = tuple(names)
        self.keys = dict(keys)
        self.partitioned = partitioned
        self.as_text = dict(as_text or {})
        self._used = dict(used or {})
        self._described: Mapping[str, Table] = {}
        self._unusable: Mapping[str, SourceError] = {}

    def narrowed(self, columns: UsedColumns) -> Tables:
        """Those of the tables that are named, not described yet, with these columns alone."""
        return Tables(self.access, self.names, self.keys, columns, self.partitioned, self.as_text)

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
        """The tables that can be used; SourceError if none ever could.

        One that cannot concerns only who relies on it, who is told why (see `check`).
        """
        found, unusable = self._look(connection)
        self._unusable = {n: e for n, e in unusable.items() if not isinstance(e, SameTableError)}
        if self._unusable and not found and not self._described:
            raise one_of(self._unusable.values())
        tables = {name: self._narrow(table) for name, table in found.items()}
        self._described = {**tables, **self._described}
        return tables

    def check(self, names: Iterable[str]) -> None:
        """SourceError if one of these could not be used when the tables were last read."""
        for name in names:
            if name in self._unusable:
                raise self._unusable[name]

    def look_up(
        self, connection: Connection, names: Sequence[str]
    ) -> tuple[dict[str, Table], dict[str, SourceError]]:
        """Tables of these names as they are now, and why others cannot be used."""
        return read_tables(
            self.access, connection, names, self.keys, self.partitioned, self.as_text
        )

    def _look(self, connection: Connection) -> tuple[dict[str, Table], dict[str, SourceError]]:
        found, unusable = self.look_up(connection, self.names)
        if not self._used:
            return found, unusable
        return (
            {name: table for name, table in found.items() if name in self._used},
            {name: error for name, error in unusable.items() if name in self._used},
        )

    def problems(self) -> list[SourceError]:
        """Why tables cannot be used, all that there is."""
        with self.access.connect() as connection:
            _, unusable = self._look(connection)
        return [error for error in unusable.values() if not isinstance(error, SameTableError)]

    @property
    def unusable(self) -> dict[str, SourceError]:
        """Why tables could not be used when they were last read."""
        return dict(self._unusable)

    def _narrow(self, table: Table) -> Table:
        used = self._used.get(table.relation_name)
        if used is None and table.relation_name in self._described:
            used = [column.name for column in self._described[table.relation_name].wanted]
        return table if used is None else replace(table, used=frozenset(used))

    @property
    def refused(self) -> dict[str, str]:
        """Why tables that are there could not be used when they were last read."""
        return {
            name: "cannot be followed any more: "
            + error.message.removeprefix(f"Source {self.access.source}: ").removesuffix(".")
            for name, error in self._unusable.items()
            if not isinstance(error, MissingTableError)
        }

    @property
    def absent(self) -> list[str]:
        """The relations whose tables were not there when they were last read."""
        return [name for name in self._unusable if name not in self.refused]

    def places(
        self, connection: Connection, relations: Collection[str]
    ) -> list[tuple[str, str, str]]:
        """Where the tables of some relations would be: relation, schema and name."""
        if not relations:
            return []
        path = search_path(connection)
        names = zip(called(self.names), map(split_name, self.names), strict=True)
        return [
            (relation, place, name)
            for relation, (schema, name) in names
            if relation in relations
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
        before = self._described[table.relation_name]
        if before.relational_schema == table.relational_schema:
            return table
        columns = ", ".join(table.by_name)
        raise SourceError(
            f"Table {before.label} was altered: now it is {table.schema}.{table.name} ({columns}).",
            "Where it lacks a column that a view names, change the view.",
        )
