"""Everything that a SQLite file has: tables, their declared types, keys and indexes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from headwater.errors import SourceError
from headwater.sources.discovered import DiscoveredColumn, DiscoveredTable
from headwater.sources.sqlite.access import Access, Connection
from headwater.sources.sqlite.catalog import Sort, check_followable, describe, read_sorts
from headwater.sources.sqlite.described import Table

_INDEXES = "SELECT sql FROM main.sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql <> ''"


def discover(
    access: Access, connection: Connection, keys: Mapping[str, Sequence[str]]
) -> Iterator[DiscoveredTable]:
    """Every table and view, in the order of their names."""
    sorts = read_sorts(connection)
    for name in sorted(sorts):
        yield _table(access, connection, name, keys, sorts)


def _table(
    access: Access,
    connection: Connection,
    name: str,
    keys: Mapping[str, Sequence[str]],
    sorts: Mapping[str, Sort],
) -> DiscoveredTable:
    try:
        table = describe(access, connection, name, keys.get(name), None, sorts)
        check_followable(access, table)
    except SourceError as error:
        return DiscoveredTable(name, problem=str(error))
    indexes = tuple(str(sql) for (sql,) in connection.execute(_INDEXES, (name,)))
    return DiscoveredTable(name, tuple(_columns(table)), table.relation.key, indexes=indexes)


def _columns(table: Table) -> Iterator[DiscoveredColumn]:
    for column in table.relation.schema.columns:
        declared = table.declared[column.name]
        yield DiscoveredColumn(column.name, declared, str(column.type), column.equality)
    for name, reason in table.relation.unusable:
        yield DiscoveredColumn(name, "", remark=reason)
