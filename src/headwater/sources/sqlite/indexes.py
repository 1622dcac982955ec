"""Which indexes of a SQLite file serve probes, and the statements that make those missing.

Texts are compared in binary (see `wrapper`), so only an index in that order serves them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from headwater.algebra.values import TEXT
from headwater.sources.sqlite.access import Connection
from headwater.sources.sqlite.described import Table, is_reserved
from headwater.sources.sqlite.types import pushes
from headwater.sources.sqlite.uniques import quoted

_FIRST_COLUMNS = """
SELECT c.name, c.coll, i.partial, i.origin
FROM pragma_index_list(?, 'main') AS i, pragma_index_xinfo(i.name, 'main') AS c WHERE c.seqno = 0
"""


def missing_indexes(
    connection: Connection, table: Table, probes: Collection[tuple[str, ...]]
) -> Iterator[str]:
    """A statement for each probe that no index serves."""
    served = _served(connection, table)
    schema = table.relation.schema
    for probe in dict.fromkeys(probes):
        own = [column for column in probe if not is_reserved(column)]  # no index knows a cast
        types = {column: schema.columns[schema.positions[column]].type for column in own}
        useful = [column for column in own if pushes("=", types[column])]
        if useful and served.isdisjoint(useful):
            listed = ", ".join(
                quoted(column) + (" COLLATE BINARY" if types[column] == TEXT else "")
                for column in useful
            )
            name = quoted("_".join([table.name, *useful]))
            yield f"CREATE INDEX {name} ON {quoted(table.name)} ({listed})"


def _served(connection: Connection, table: Table) -> frozenset[str]:
    """The columns with which an index starts that knows every row."""
    rows = connection.execute(_FIRST_COLUMNS, (table.name,)).fetchall()
    texts = {column.name for column in table.relation.schema.columns if column.type == TEXT}
    served = {
        str(column)
        for column, collation, partial, _ in rows
        if column is not None
        and not partial
        and (column not in texts or str(collation).upper() == "BINARY")
    }
    if not any(origin == "pk" for *_, origin in rows):
        served.update(table.primary[:1])  # another name of the rowid, which needs no index
    return frozenset(served)
