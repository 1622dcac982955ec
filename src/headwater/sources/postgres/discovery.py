"""Everything that a PostgreSQL database has, by its catalog: tables, types, keys, sizes, indexes.

Nothing of a table is read. Partitions are not listed beside the table that they are part of, and
neither are logs that Headwater's triggers write.
"""

from __future__ import annotations

from collections.abc import Iterator

from headwater.sources.discovered import DiscoveredColumn, DiscoveredTable
from headwater.sources.naming import called, written
from headwater.sources.postgres.connect import Connection
from headwater.sources.postgres.tables import Tables
from headwater.sources.postgres.types import Table

_LISTED = """
SELECT n.nspname::text, c.relname::text,
  (SELECT pg_catalog.sum(greatest(p.reltuples, 0))::int8 FROM pg_catalog.pg_class p
   WHERE p.oid = c.oid OR p.oid IN (SELECT relid FROM pg_catalog.pg_partition_tree(c.oid) t
                                    WHERE t.isleaf)),
  (SELECT pg_catalog.sum(pg_catalog.pg_table_size(p.oid))::int8 FROM pg_catalog.pg_class p
   WHERE p.oid = c.oid OR p.oid IN (SELECT relid FROM pg_catalog.pg_partition_tree(c.oid))),
  ARRAY(SELECT pg_catalog.pg_get_indexdef(i.indexrelid) FROM pg_catalog.pg_index i
        WHERE i.indrelid = c.oid ORDER BY i.indexrelid)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
  AND n.nspname <> 'information_schema' AND NOT pg_catalog.starts_with(n.nspname, 'pg_')
  AND NOT pg_catalog.starts_with(coalesce(
    pg_catalog.obj_description(n.oid, 'pg_namespace'), ''), 'Headwater''s log')
ORDER BY 1, 2
"""


_OF_JSON = "each of its elements is JSON as a text, of which -> and ->> take parts"


def discover(source: Tables, connection: Connection) -> Iterator[DiscoveredTable]:
    """Every table, view and the like, in the order of their names."""
    access = source.access
    with access.errors("read the catalog"):
        rows = connection.execute(_LISTED).fetchall()
    names = [f"{written(schema)}.{written(name)}" for schema, name, *_ in rows]
    tables, unusable = source.look_up(connection, names)
    for relation, name, (*_, count, size, indexes) in zip(called(names), names, rows, strict=True):
        if error := unusable.get(relation):
            yield DiscoveredTable(name, problem=str(error))
        else:
            table = tables[relation]
            columns = tuple(_columns(table))
            yield DiscoveredTable(name, columns, table.key, count, size, tuple(indexes))


def _columns(table: Table) -> Iterator[DiscoveredColumn]:
    for column in table.columns:
        of_json = _OF_JSON if column.shown_type in ("json[]", "jsonb[]") else ""
        remark = "; ".join(filter(None, (of_json, column.equality)))
        yield DiscoveredColumn(column.name, column.shown_type, str(column.type), remark)
    for name, reason in table.left_out:
        yield DiscoveredColumn(name, "", remark=reason)
