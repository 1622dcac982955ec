"""How large tables are, and how many values columns have: by what ANALYZE left in the catalog."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.sources.contract import UsedColumns
from headwater.sources.discovered import RelationSize
from headwater.sources.postgres.connect import Access, Connection
from headwater.sources.postgres.types import Table

_ROWS = """
SELECT pg_catalog.sum(greatest(p.reltuples, 0))::float8 FROM pg_catalog.pg_class p
WHERE p.oid = %(oid)s OR p.oid IN (
  SELECT relid FROM pg_catalog.pg_partition_tree(%(oid)s) t WHERE t.isleaf)
"""
_COLUMNS = """
SELECT s.attname::text, s.n_distinct::float8, s.avg_width::float8 FROM pg_catalog.pg_stats s
WHERE s.schemaname = %(schema)s AND s.tablename = %(name)s ORDER BY s.inherited
"""


def sizes(
    access: Access, connection: Connection, tables: Mapping[str, Table], columns: UsedColumns
) -> dict[str, RelationSize]:
    """Of tables that were analyzed."""
    found = {}
    for name, wanted in columns.items():
        if table := tables.get(name):
            with access.errors("read the catalog"):
                (rows,) = connection.execute(_ROWS, {"oid": table.oid}).fetchone() or (None,)
                given = {"schema": table.schema, "name": table.name}
                told = connection.execute(_COLUMNS, given).fetchall()
            if rows:
                widths = {column: width for column, _, width in told}
                counted = {c: _distinct(n, rows) for c, n, _ in told if c in set(wanted)}
                read = [widths.get(column.name, 8.0) for column in table.wanted]
                found[name] = RelationSize(rows, sum(read) if told else None, counted)
    return found


def _distinct(told: float, rows: float) -> float:
    """The catalog tells a number, or below zero a share of all rows."""
    return max(1.0, told if told >= 0 else -told * rows)
