"""How many bytes a log takes in a SQLite file.

Its pages are counted where this build of SQLite can tell them (`dbstat`), else the values are.
Either way a very large log is counted for a while only: it then takes at least that much.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing

from headwater.sources.sqlite.access import Connection
from headwater.sources.sqlite.uniques import quoted

_LIMIT_S = 3.0
_PAGES = "SELECT pgsize FROM dbstat WHERE name = ?"


def size_of(connection: Connection, table: str) -> int:
    """The bytes of a table's rows, as far as they can be counted soon."""
    try:
        return _summed(connection, _PAGES, table)
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
    columns = connection.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
    lengths = (f"coalesce(length(CAST({quoted(name)} AS BLOB)), 0)" for (name,) in columns)
    return _summed(connection, f"SELECT {' + '.join(lengths)} FROM {quoted(table)}")


def _summed(connection: Connection, query: str, *values: str) -> int:
    until = time.monotonic() + _LIMIT_S
    total = 0
    with closing(connection.execute(query, values)) as found:
        for (size,) in found:
            total += size
            if time.monotonic() > until:
                break
    return total
