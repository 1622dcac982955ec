"""What PostgreSQL's catalog says of the tables of interest, or why they cannot be used."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from headwater.errors import SourceError
from headwater.sources.postgres.connect import Access, Connection
from headwater.sources.postgres.types import Table, TableColumn, type_of

_QUOTED = r'"((?:[^"]|"")+)"'
_TABLES = """
SELECT c.oid::int8, n.nspname, c.relname, c.relkind::text, c.relpersistence::text,
       c.relreplident::text, has_table_privilege(c.oid, 'SELECT'), r.n - 1
FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS r(schema, name, n)
JOIN pg_class c ON c.oid = to_regclass(
    CASE WHEN r.schema IS NULL THEN quote_ident(r.name)
         ELSE quote_ident(r.schema) || '.' || quote_ident(r.name) END)
JOIN pg_namespace n ON n.oid = c.relnamespace
"""
_COLUMNS = """
SELECT attrelid::int8, attname, atttypid::int8, atttypmod, format_type(atttypid, atttypmod),
       attcollation::int8, attgenerated::text
FROM pg_attribute WHERE attrelid = ANY(%s::oid[]) AND attnum > 0 AND NOT attisdropped
ORDER BY attrelid, attnum
"""
_KEYS = """
SELECT i.indrelid::int8, a.attname
FROM pg_index i, unnest(i.indkey) WITH ORDINALITY AS k(attnum, n), pg_attribute a
WHERE i.indrelid = ANY(%s::oid[]) AND i.indisprimary
  AND a.attrelid = i.indrelid AND a.attnum = k.attnum ORDER BY i.indrelid, k.n
"""
_FIRST_COLUMNS = """
SELECT i.indrelid::int8, a.attname
FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam
WHERE i.indrelid = ANY(%s::oid[]) AND i.indisvalid AND i.indpred IS NULL
  AND m.amname IN ('btree', 'hash') AND i.indcollation[0] = a.attcollation
"""
_NAMES = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
"""
_KINDS = {
    "p": "partitioned table (name its partitions instead)",
    "v": "view",
    "m": "materialized view",
    "f": "foreign table",
    "S": "sequence",
}


def split_name(name: str) -> tuple[str | None, str]:
    """`lines`, `sales.lines` or `"sales"."lines"` as schema and name."""
    if match := re.fullmatch(rf"(?:{_QUOTED}\.)?{_QUOTED}", name):
        schema, table = match[1], match[2]
        return schema and schema.replace('""', '"'), table.replace('""', '"')
    schema, dot, table = name.rpartition(".")
    return (schema, table) if dot and schema and table else (None, name)


def read_tables(
    access: Access,
    connection: Connection,
    names: Sequence[str],
    keys: Mapping[str, Sequence[str]],
) -> dict[str, Table]:
    """The tables by the names of their relations."""
    split = [split_name(name) for name in names]
    with access.errors("read the catalog"):
        found = {
            int(row[-1]): row
            for row in connection.execute(_TABLES, [[s for s, _ in split], [t for _, t in split]])
        }
        oids = [row[0] for row in found.values()]
        columns = connection.execute(_COLUMNS, [oids]).fetchall()
        primary = connection.execute(_KEYS, [oids]).fetchall()
    tables: dict[str, Table] = {}
    for at, name in enumerate(names):
        if at not in found:
            raise _missing(access, connection, name)
        oid = found[at][0]
        own = [row[1:] for row in columns if row[0] == oid]
        key = [row[1] for row in primary if row[0] == oid]
        table = _table(access, found[at], own, key)
        table = _with_key(access, table, keys.get(name, keys.get(table.name)))
        if (other := tables.get(table.name)) is not None:
            raise SourceError(
                f"Source {access.source}: {other.label} and {table.label} are both called "
                f"{table.name}.",
                "Put them into two sources, or give one of them another name.",
            )
        tables[table.name] = table
    return tables


def served_columns(
    access: Access, connection: Connection, tables: Mapping[str, Table]
) -> dict[str, frozenset[str]]:
    """For each table the columns with which an index starts that knows every row."""
    with access.errors("read the catalog"):
        oids = [table.oid for table in tables.values()]
        rows = connection.execute(_FIRST_COLUMNS, [oids]).fetchall()
    return {
        name: frozenset(column for oid, column in rows if oid == table.oid)
        for name, table in tables.items()
    }


def _table(
    access: Access, row: Sequence[Any], columns: Sequence[Sequence[Any]], key: Sequence[str]
) -> Table:
    oid, schema, name, kind, persistence, identity, readable, _ = row
    label = f"Source {access.source}: {schema}.{name}"
    if kind != "r":
        raise SourceError(f"{label} is a {_KINDS.get(kind, 'different object')}, not a table.")
    if persistence != "p":
        raise SourceError(
            f"{label} is unlogged or temporary, so its changes are not in the log.",
            f"Run: ALTER TABLE {schema}.{name} SET LOGGED;",
        )
    if not readable:
        raise SourceError(
            f"{label} may not be read by this role.",
            f"As its owner run: GRANT SELECT ON {schema}.{name} TO <role>;",
        )
    described = tuple(_column(label, column) for column in columns)
    return Table(oid, schema, name, identity, described, tuple(key))


def _column(label: str, row: Sequence[Any]) -> TableColumn:
    name, oid, modifier, shown, collation, generated = row
    if generated:
        raise SourceError(f"{label}, column {name}: generated columns are not in the log.")
    try:
        kind = type_of(oid, modifier)
    except ValueError as error:
        hint = "Leave the table out, or change the column's type."
        if shown.startswith("numeric"):
            hint = (
                "Declare a precision of at most 38 digits and a scale, for example: ALTER TABLE "
                f"... ALTER COLUMN {name} TYPE numeric(38,10);"
            )
        raise SourceError(
            f"{label}, column {name} of type {shown} cannot be read: {error}.", hint
        ) from None
    return TableColumn(name, oid, modifier, shown, collation, kind)


def _with_key(access: Access, table: Table, key: Sequence[str] | None) -> Table:
    if key is None:
        return table
    for name in key:
        if name not in table.by_name:
            raise SourceError(
                f"Source {access.source}: the key given for {table.label} names the column "
                f"{name}, which it does not have.",
                "Its columns are " + ", ".join(table.by_name) + ".",
            )
    return Table(table.oid, table.schema, table.name, table.identity, table.columns, tuple(key))


def _missing(access: Access, connection: Connection, name: str) -> SourceError:
    with access.errors("read the catalog"):
        known = [f"{schema}.{table}" for schema, table in connection.execute(_NAMES)]
    by_table = {table.split(".", 1)[1].lower(): table for table in known}
    schema, table = split_name(name)
    close = difflib.get_close_matches(f"{schema or 'public'}.{table}", known, 3, 0.7)
    close += [by_table[n] for n in difflib.get_close_matches(table.lower(), by_table, 3, 0.7)]
    shown = ", ".join(dict.fromkeys(close))
    hint = f"Close names are: {shown}." if shown else "No table there has a name close to it."
    return SourceError(
        f"Source {access.source}: there is no table {name}.",
        f"{hint} Correct relations in headwater.toml.",
    )
