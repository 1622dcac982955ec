"""How large tables are, by the server's statistics, which are rough; what these lack is sampled."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headwater.sources.contract import UsedColumns
from headwater.sources.discovered import RelationSize
from headwater.sources.mariadb.connect import Access, Connection, quoted, run, text_literal
from headwater.sources.mariadb.types import Table

_ROWS = """
SELECT TABLE_ROWS, AVG_ROW_LENGTH FROM information_schema.TABLES
WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {}
"""
_DISTINCT = """
SELECT COLUMN_NAME, MAX(CARDINALITY) FROM information_schema.STATISTICS
WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {} AND SEQ_IN_INDEX = 1 GROUP BY COLUMN_NAME
"""
_SAMPLED = 10_000
_MOSTLY_DIFFERENT = 0.9


def sizes(
    access: Access, connection: Connection, tables: Mapping[str, Table], columns: UsedColumns
) -> dict[str, RelationSize]:
    with access.errors("ask how large tables are"):
        found = {
            name: _size(connection, tables[name], wanted)
            for name, wanted in columns.items()
            if name in tables
        }
    return {name: size for name, size in found.items() if size is not None}


def _size(connection: Connection, table: Table, wanted: Collection[str]) -> RelationSize | None:
    place = text_literal(table.database), text_literal(table.name)
    told = run(connection, _ROWS.format(*place))
    if not told or told[0][0] is None:
        return None
    rows, length = float(told[0][0]), float(told[0][1] or 0)
    indexed = run(connection, _DISTINCT.format(*place))
    distinct = {str(c): float(n) for c, n in indexed if n is not None and c in wanted}
    for name in wanted:
        if name in table.by_name and name not in distinct:
            distinct[name] = _sampled(connection, table, name, rows)
    return RelationSize(rows, length or None, distinct)


def _sampled(connection: Connection, table: Table, column: str, rows: float) -> float:
    name = quoted(column)
    ((counted,),) = run(
        connection,
        f"SELECT COUNT(DISTINCT {name}) FROM (SELECT {name} FROM {table.identifier} "
        f"LIMIT {_SAMPLED}) AS sample",
    )
    found, sampled = float(counted), min(rows, float(_SAMPLED))
    grows = found > _MOSTLY_DIFFERENT * sampled
    return max(1.0, found * rows / sampled if grows and sampled else found)
