"""How the server prints constants that views compare with columns: asked of the server itself.

Only types that come with the server are asked for, and labels of enumerations looked up: to read a
value of another type could run a function of its owner with our rights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import psycopg
from psycopg import sql

from headwater.sources.contract import Constant
from headwater.sources.postgres.connect import Access, Connection
from headwater.sources.postgres.meanings import FIRST_OWN
from headwater.sources.postgres.types import Table, TableColumn

_LABELS = """
SELECT pg_catalog.bool_or(enumlabel = %s) FROM pg_catalog.pg_enum WHERE enumtypid = %s::oid
"""
_NAME = "SELECT pg_catalog.format_type(%s::oid, -1)"


def printed(
    access: Access,
    connection: Connection,
    tables: Mapping[str, Table],
    constants: Iterable[Constant],
) -> dict[Constant, str | None]:
    """For each constant its text here, None if it is no value; left out where that is not known."""
    found: dict[Constant, str | None] = {}
    for constant in constants:
        table = tables.get(constant.relation)
        column = table.by_name.get(constant.column) if table is not None else None
        if column is None or not column.form.text or column.form_name in ("", "text"):
            continue
        with access.errors("ask how a constant is printed"):
            if column.base < FIRST_OWN:
                found[constant] = _asked(connection, column, constant.text)
            elif (is_label := _is_label(connection, column, constant.text)) is not None:
                found[constant] = constant.text if is_label else None
    return found


def _asked(connection: Connection, column: TableColumn, text: str) -> str | None:
    """The text of a constant, read by the type's own function and printed as columns are."""
    name = (connection.execute(_NAME, [column.base]).fetchone() or ("",))[0]
    value = sql.SQL("(%s::{})").format(sql.SQL(name.replace("%", "%%")))
    statement = sql.SQL("SELECT {}").format(sql.SQL(column.form.text).format(value))
    try:
        row = connection.execute(statement, [text]).fetchone()
    except (psycopg.DataError, psycopg.NotSupportedError):
        return None
    return None if row is None or row[0] is None else str(row[0])


def _is_label(connection: Connection, column: TableColumn, text: str) -> bool | None:
    """Whether a text is a label of an enumeration; None if the type is none."""
    row = connection.execute(_LABELS, [text, column.base]).fetchone()
    return None if row is None or row[0] is None else bool(row[0])
