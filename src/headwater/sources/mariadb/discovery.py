"""Everything that a database has: tables, their declared types, keys and indexes."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.errors import SourceError
from headwater.sources.discovered import DiscoveredColumn, DiscoveredTable
from headwater.sources.mariadb.catalog import OWN_PREFIX, Catalog, Found, describe
from headwater.sources.mariadb.connect import Connection, quoted
from headwater.sources.mariadb.tables import Tables
from headwater.sources.mariadb.types import Table
from headwater.sources.naming import written


def discover(tables: Tables, connection: Connection) -> Iterator[DiscoveredTable]:
    """Every table and view of the database that the connection string names, by name."""
    access = tables.access
    catalog = Catalog(access, connection, access.database)
    for name in sorted(catalog.tables):
        if name.startswith(OWN_PREFIX) or name == OWN_PREFIX.rstrip("_"):
            continue
        try:
            table = describe(access, catalog, name, name, tables.wanted)
        except SourceError as error:
            yield DiscoveredTable(_shown(name), problem=str(error))
            continue
        found = catalog.tables[name]
        yield DiscoveredTable(
            _shown(name),
            tuple(_columns(table)),
            table.key,
            found.rows,
            found.size,
            tuple(_indexes(found)),
        )


def _shown(name: str) -> str:
    """As settings and views have it, whose names are told apart by case only in quotes."""
    return written(name)


def _columns(table: Table) -> Iterator[DiscoveredColumn]:
    for column in table.columns:
        yield DiscoveredColumn(column.name, column.declared, str(column.form.type), column.equality)
    for name, reason in table.left_out:
        yield DiscoveredColumn(name, "", remark=reason)


def _indexes(found: Found) -> Iterator[str]:
    for index in found.indexes.values():
        unique = "UNIQUE " if index.is_unique else ""
        yield f"{unique}INDEX {index.name} ({', '.join(map(quoted, index.columns))})"
