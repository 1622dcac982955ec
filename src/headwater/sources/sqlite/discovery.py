"""Everything that a SQLite file has: tables, their declared types, keys and indexes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from headwater.errors import SourceError
from headwater.sources.discovered import DiscoveredColumn, DiscoveredTable
from headwater.sources.sqlite.catalog import Access, Connection, describe
from headwater.sources.sqlite.names import is_ours
from headwater.sources.sqlite.types import type_of

_LISTED = """
SELECT name FROM main.sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%'
  ESCAPE '\\' ORDER BY name
"""
_INDEXES = "SELECT sql FROM main.sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql <> ''"
_COLUMNS = "SELECT name, type, hidden FROM pragma_table_xinfo(?, 'main') WHERE hidden <> 1"
_GENERATED = (2, 3)


def discover(
    access: Access, connection: Connection, keys: Mapping[str, Sequence[str]]
) -> Iterator[DiscoveredTable]:
    """Every table and view, in the order of their names."""
    for (name,) in connection.execute(_LISTED).fetchall():
        if not is_ours(name):
            yield _table(access, connection, name, keys)


def _table(
    access: Access, connection: Connection, name: str, keys: Mapping[str, Sequence[str]]
) -> DiscoveredTable:
    try:
        key = describe(access, connection, name, keys.get(name), ()).relation.key
    except SourceError as error:
        return DiscoveredTable(name, problem=str(error))
    columns = tuple(_column(*row) for row in connection.execute(_COLUMNS, (name,)))
    indexes = tuple(str(sql) for (sql,) in connection.execute(_INDEXES, (name,)))
    return DiscoveredTable(name, columns, key, indexes=indexes)


def _column(name: str, declared: str, hidden: int) -> DiscoveredColumn:
    if hidden in _GENERATED:
        return DiscoveredColumn(name, declared, remark="it is generated, and not in the log.")
    try:
        return DiscoveredColumn(name, declared, str(type_of(declared)))
    except ValueError as error:
        return DiscoveredColumn(name, declared, remark=str(error))
