"""How large tables of a SQLite file are: counted up to a bound, since the file does not know."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headwater.sources.contract import UsedColumns
from headwater.sources.discovered import RelationSize
from headwater.sources.sqlite.access import Connection
from headwater.sources.sqlite.described import Table
from headwater.sources.sqlite.uniques import quoted

_COUNTED = 200_000
_SAMPLED = 10_000
_MOSTLY_DIFFERENT = 0.9


def sizes(
    connection: Connection, tables: Mapping[str, Table], columns: UsedColumns
) -> dict[str, RelationSize]:
    return {
        name: _size(connection, tables[name], wanted)
        for name, wanted in columns.items()
        if name in tables
    }


def _size(connection: Connection, table: Table, columns: Collection[str]) -> RelationSize:
    rows = _rows(connection, table)
    sampled = min(rows, float(_SAMPLED))
    distinct = {}
    for column in columns:
        if column in table.stored:
            counted = _one(
                connection,
                f"SELECT count(DISTINCT c) FROM (SELECT {quoted(column)} AS c "
                f"FROM {quoted(table.name)} LIMIT {_SAMPLED})",
            )
            grows = counted > _MOSTLY_DIFFERENT * sampled
            distinct[column] = max(1.0, counted * rows / sampled if grows and sampled else counted)
    return RelationSize(rows, None, distinct)


def _rows(connection: Connection, table: Table) -> float:
    """Counted; of a large table the highest rowid, where there is one."""
    name = quoted(table.name)
    counted = _one(connection, f"SELECT count(*) FROM (SELECT 1 FROM {name} LIMIT {_COUNTED})")
    if counted < _COUNTED or table.rowid is None:
        return counted
    return max(counted, _one(connection, f"SELECT max({quoted(table.rowid)}) FROM {name}"))


def _one(connection: Connection, statement: str) -> float:
    (found,) = connection.execute(statement).fetchone() or (0,)
    return float(found or 0)
