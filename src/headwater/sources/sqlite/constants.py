"""How values are written that views compare with columns: asked of SQLite itself, in memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping

from headwater.sources.contract import Constant
from headwater.sources.sqlite.described import Table
from headwater.sources.sqlite.types import can_be_stored, read_printed


def printed(
    tables: Mapping[str, Table], constants: Iterable[Constant]
) -> dict[Constant, str | None]:
    """For each constant its text in a column that has any value, None if no value has it."""
    found: dict[Constant, str | None] = {}
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE loose (v NUMERIC)")
        for constant in constants:
            table = tables.get(constant.relation)
            if table is None or constant.column not in table.declared:
                continue
            meaning = table.meaning(constant.column)
            if meaning.is_printed and meaning.affinity != "NONE":
                found[constant] = _stored(connection, constant.text)
    connection.close()
    return found


def _stored(connection: sqlite3.Connection, text: str) -> str | None:
    """What a text becomes that is written to such a column."""
    if not can_be_stored(text):
        return None
    connection.execute("DELETE FROM loose")
    connection.execute("INSERT INTO loose VALUES (?)", (text,))
    try:
        value = read_printed(connection.execute("SELECT v FROM loose").fetchone()[0])
    except ValueError:
        return text  # it is how another value is written
    return str(value)
