"""What PostgreSQL's catalog says of the tables of interest, or why they cannot be used."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from psycopg import sql

from headwater.algebra.values import TEXT
from headwater.errors import LostConnectionError, RefusedError, SourceError
from headwater.sources.naming import called, split_name
from headwater.sources.postgres.connect import Access, Connection
from headwater.sources.postgres.definitions import read_definitions
from headwater.sources.postgres.meanings import FIRST_OWN, LOOSE, Definition, base_of, meaning_of
from headwater.sources.postgres.meanings import as_text as as_text_meaning
from headwater.sources.postgres.planned import read_foreign, runs_foreign
from headwater.sources.postgres.privileges import hidden_rows
from headwater.sources.postgres.types import Partition, Table, TableColumn

_TABLES = """
SELECT DISTINCT ON (r.n)
       c.oid::int8, n.nspname, c.relname, c.relkind::text, c.relpersistence::text,
       c.relreplident::text, pg_catalog.has_schema_privilege(n.oid, 'USAGE'),
       pg_catalog.has_table_privilege(c.oid, 'SELECT'), pg_catalog.row_security_active(c.oid),
       pg_catalog.has_any_column_privilege(c.oid, 'SELECT'),
       ARRAY(SELECT i.inhrelid::pg_catalog.regclass::text FROM pg_catalog.pg_inherits i
             WHERE i.inhparent = c.oid AND c.relkind <> 'p' ORDER BY i.inhrelid),
       (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(p.oid::int8, s.nspname, p.relname,
          p.relreplident::text, p.relkind::text, p.relpersistence::text) ORDER BY p.oid)
        FROM pg_catalog.pg_partition_tree(c.oid) t
        JOIN pg_catalog.pg_class p ON p.oid = t.relid AND p.relkind <> 'p'
        JOIN pg_catalog.pg_namespace s ON s.oid = p.relnamespace WHERE c.relkind = 'p'),
       current_user::text, r.n - 1
FROM unnest(%(schemas)s::text[], %(names)s::text[]) WITH ORDINALITY AS r(schema, name, n)
JOIN pg_catalog.pg_namespace n
  ON n.nspname = r.schema OR r.schema IS NULL AND n.nspname = ANY(%(path)s)
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = r.name
ORDER BY r.n, pg_catalog.array_position(%(path)s::text[], n.nspname::text)
"""
_COLUMNS = """
SELECT attrelid::int8, attname, atttypid::int8, atttypmod,
       pg_catalog.format_type(atttypid, atttypmod), attcollation::int8,
       (SELECT coalesce(pg_catalog.pg_get_expr(d.adbin, d.adrelid), '?')
        FROM pg_catalog.pg_attrdef d
        WHERE a.attgenerated <> '' AND d.adrelid = a.attrelid AND d.adnum = a.attnum),
       EXISTS (SELECT FROM pg_catalog.pg_collation l
               WHERE l.oid = a.attcollation AND NOT l.collisdeterministic)
FROM pg_catalog.pg_attribute a
WHERE attrelid = ANY(%s::oid[]) AND attnum > 0 AND NOT attisdropped
ORDER BY attrelid, attnum
"""
_KEYS = """
SELECT i.indrelid::int8, i.indisprimary, i.indimmediate,
       pg_catalog.array_agg(a.attname::text ORDER BY k.n)
FROM pg_catalog.pg_index i, unnest(i.indkey) WITH ORDINALITY AS k(attnum, n),
     pg_catalog.pg_attribute a
WHERE i.indrelid = ANY(%s::oid[]) AND i.indisunique AND i.indisvalid
  AND i.indpred IS NULL AND i.indexprs IS NULL AND k.n <= i.indnkeyatts
  AND a.attrelid = i.indrelid AND a.attnum = k.attnum
GROUP BY i.indexrelid, i.indrelid, i.indisprimary, i.indimmediate
HAVING pg_catalog.bool_and(a.attnotnull)
"""
"""What the database itself keeps free of NULLs and unique."""
_IN_PART_PUBLISHED = """
SELECT w.oid::int8, pg_catalog.min(p.pubname::text)
FROM unnest(%s::oid[]) AS w(oid), pg_catalog.pg_publication_rel r, pg_catalog.pg_publication p
WHERE p.oid = r.prpubid AND (p.pubupdate OR p.pubdelete) AND r.prattrs IS NOT NULL
  AND (r.prrelid = w.oid OR r.prrelid IN (SELECT t.relid FROM pg_catalog.pg_partition_tree(w.oid) t)
       OR r.prrelid IN (SELECT a.relid FROM pg_catalog.pg_partition_ancestors(w.oid) a))
GROUP BY w.oid
"""
"""Tables of which a publication sends some columns; servers before 15 know no such thing."""
_FIRST_COLUMNS = """
SELECT i.indrelid::int8, a.attname
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid JOIN pg_catalog.pg_am m ON m.oid = c.relam
WHERE i.indrelid = ANY(%s::oid[]) AND i.indisvalid AND i.indpred IS NULL
  AND m.amname IN ('btree', 'hash') AND i.indcollation[0] = a.attcollation
"""
_NAMES = """
SELECT n.nspname, c.relname, pg_catalog.has_schema_privilege(n.oid, 'USAGE'), current_user::text
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
"""
_KINDS = {
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table",
    "S": "a sequence",
    "i": "an index",
    "I": "an index",
    "c": "a composite type",
    "t": "a part of another table (TOAST)",
}
_IN_PART = (
    " as a whole: rights to some of its columns are not enough, since PostgreSQL lets nobody lock "
    "a table with them, and it must not be altered while it is read"
)
_REMEDIES = {
    "v": "Name the tables that it reads, and write its query as a view of Headwater's.",
    "m": "Name the tables that it reads, and write its query as a view of Headwater's.",
    "f": "Name the table at its own server, as another source.",
}


def read_tables(
    access: Access,
    connection: Connection,
    names: Sequence[str],
    keys: Mapping[str, Sequence[str]],
    partitioned: bool = True,
    as_text: Mapping[str, Sequence[str]] | None = None,
) -> tuple[dict[str, Table], dict[str, SourceError]]:
    """The tables by the names of their relations, and why others cannot be used.

    Whether `partitioned` tables can be followed depends on how changes are captured.
    """
    _check_encoding(access, connection)
    split = [split_name(name) for name in names]
    with access.errors("read the catalog"):
        wanted = {
            "schemas": [schema for schema, _ in split],
            "names": [table for _, table in split],
            "path": search_path(connection),
        }
        found = {int(row[-1]): row for row in connection.execute(_TABLES, wanted)}
        oids = [row[0] for row in found.values()]
        columns = connection.execute(_COLUMNS, [oids]).fetchall()
        unique = connection.execute(_KEYS, [oids]).fetchall()
        foreign = read_foreign(connection, oids)
        knows_lists = partitioned and connection.pgconn.server_version >= 150000
        in_part = dict(connection.execute(_IN_PART_PUBLISHED, [oids])) if knows_lists else {}
        types = read_definitions(connection, {row[2] for row in columns})
    columns_of, unique_of = _by_table(columns), _by_table(unique)
    relations = called(names)
    tables: dict[str, Table] = {}
    unusable: dict[str, SourceError] = {}
    for at, name in enumerate(names):
        relation = relations[at]
        try:
            if at not in found:
                raise _missing(access, connection, name)
            oid = found[at][0]
            own, indexes = columns_of[oid], unique_of[oid]
            kept = [tuple(names) for _, _, names in indexes]
            key = next((names for primary, _, names in indexes if primary), ())
            texts = (as_text or {}).get(name, (as_text or {}).get(relation, ()))
            table = _table(access, found[at], own, key, types, partitioned, texts, foreign.get(oid))
            immediate = any(primary and at_once for primary, at_once, _ in indexes)
            if table.partitions is not None and not immediate:
                raise _without_identity(access, table)
            if oid in in_part and any(part.identity != "f" for part in table.stored):
                raise _published_in_part(access, table, in_part[oid])
            _check_texts(access, table, [c[0] for c in own], texts)
            table = replace(table, called=relation)
            declared = keys.get(name, keys.get(relation))
            if declared is not None:
                _check_key(access, table, [c[0] for c in own], declared, kept)
                table = replace(table, key=tuple(declared))
            if twice := [t for n, t in tables.items() if t.oid == oid and n != relation]:
                raise SameTableError(
                    f"Source {access.source}: {relation} is {twice[0].relation_name}."
                )
            tables[relation] = table
        except LostConnectionError:
            raise
        except SourceError as error:
            unusable[relation] = error
    return tables, unusable


def _by_table(rows: Iterable[Sequence[Any]]) -> Mapping[int, Sequence[Sequence[Any]]]:
    """Rows by the number of a table with which they begin."""
    found: dict[int, list[Sequence[Any]]] = defaultdict(list)
    for oid, *row in rows:
        found[oid].append(row)
    return found


def _check_encoding(access: Access, connection: Connection) -> None:
    """In a database without an encoding any bytes are text, and one bad value would end the log."""
    if connection.pgconn.parameter_status(b"server_encoding") == b"SQL_ASCII":
        raise SourceError(
            f"Source {access.source}: the database has no encoding (SQL_ASCII), so its texts may "
            "be any bytes, and the log could not be read past one that is not UTF-8.",
            "Move the tables to a database that was created with ENCODING 'UTF8'.",
        )


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
    access: Access,
    row: Sequence[Any],
    columns: Sequence[Sequence[Any]],
    key: Sequence[str],
    types: Mapping[int, Definition],
    partitioned: bool,
    texts: Collection[str],
    foreign: str | None,
) -> Table:
    oid, schema, name, kind, persistence, identity, *may, children, parts, role, _ = row
    entered, readable, hidden, in_part = may
    label = f"Source {access.source}: {schema}.{name}"
    if kind == "p" and not partitioned:
        raise SourceError(
            f"{label} is a partitioned table, which triggers do not follow as a whole.",
            "Name its partitions instead, and put them together with UNION ALL in the view.",
        )
    if kind not in ("r", "p"):
        raise SourceError(
            f"{label} is {_KINDS.get(kind, 'a different object')}, not a table: there is no log "
            "of its rows.",
            _REMEDIES.get(kind, ""),
        )
    if oid < FIRST_OWN:
        raise SourceError(
            f"{label} is one of the server's own tables, of whose rows there is no log.",
            "Name tables that were made in this database.",
        )
    if others := [part for part in parts or () if part[4:] != ["r", "p"]]:
        raise SourceError(
            f"{label} has a partition that is foreign or unlogged, {others[0][1]}.{others[0][2]}: "
            "changes of its rows are not in the log."
        )
    if persistence != "p":
        raise SourceError(
            f"{label} is unlogged or temporary, so its changes are not in the log.",
            f"Run: {_logged(schema, name)}; then 'headwater setup {access.source}'.",
        )
    if children:
        raise SourceError(
            f"{label} has tables that inherit from it ({', '.join(children)}): SQL counts their "
            "rows as its own, and its log does not hold them.",
            "List those tables instead, and join them with UNION ALL in the view.",
        )
    if not entered or not readable:
        raise _unreadable(access, schema, name, role, entered, in_part)
    if hidden:
        raise hidden_rows(access.source, f"{schema}.{name}", role)
    if foreign is not None:
        raise runs_foreign(access.source, f"{schema}.{name}", foreign, role)
    described: list[TableColumn] = []
    left_out: list[tuple[str, str]] = []
    for column in columns:
        try:
            described.append(_column(column, types, column[0] in texts))
        except ValueError as error:
            left_out.append((column[0], str(error)))
    if not columns:
        raise SourceError(
            f"{label} has no columns that can be read, so its rows could not be told apart.",
            "Give it a column, or leave it out of the view.",
        )
    if not described:
        raise SourceError(f"{label}: none of its columns can be used; {': '.join(left_out[0])}")
    return Table(
        oid,
        schema,
        name,
        identity,
        tuple(described),
        tuple(key),
        left_out=tuple(left_out),
        partitions=tuple(Partition(*part[:4]) for part in parts or ()) if kind == "p" else None,
    )


def _logged(schema: str, name: str) -> str:
    statement = sql.SQL("ALTER TABLE {} SET LOGGED")
    return statement.format(sql.Identifier(schema, name)).as_string(None)


def _unreadable(
    access: Access, schema: str, name: str, role: str, entered: bool, in_part: bool = False
) -> RefusedError:
    """The role may not read a table, or not even enter its schema."""
    statement = sql.SQL("GRANT SELECT ON {} TO {}" if entered else "GRANT USAGE ON SCHEMA {} TO {}")
    what = sql.Identifier(schema, name) if entered else sql.Identifier(schema)
    text = statement.format(what, sql.Identifier(role)).as_string(None)
    return RefusedError(
        f"Source {access.source}: {schema}.{name} may not be read by the role {role}"
        f"{_IN_PART if entered and in_part else ''}.",
        f"As its owner run: {text};",
    )


def _column(row: Sequence[Any], types: Mapping[int, Definition], is_text: bool) -> TableColumn:
    """A column; ValueError says why it cannot be used."""
    name, oid, modifier, shown, collation, generated, is_loose = row
    if generated is not None:
        raise ValueError(
            "it is generated, and generated columns are not in the log. It is computed as "
            f"{generated}, which a view can say itself."
        )
    try:
        meaning = meaning_of(oid, modifier, types)
        if is_text and meaning.type != TEXT:
            meaning = as_text_meaning(oid, modifier, types)
    except ValueError as error:
        raise ValueError(f"its type is {shown}, and {error}.") from None
    base = base_of(oid, types)
    equality = meaning.equality or (LOOSE if is_loose else "")
    return TableColumn(
        name, oid, modifier, shown, collation, meaning.type, meaning.form, equality, base
    )


def _check_texts(
    access: Access, table: Table, columns: Sequence[str], texts: Collection[str]
) -> None:
    for name in texts:
        if name not in columns:
            raise SourceError(
                f"Source {access.source}: as_text names the column {name} of {table.label}, which "
                "it does not have.",
                "Its columns are " + ", ".join(columns) + ".",
            )


def _check_key(
    access: Access,
    table: Table,
    columns: Sequence[str],
    key: Sequence[str],
    kept: Sequence[Sequence[str]],
) -> None:
    """A key that the database does not keep would sooner or later delete the wrong rows."""
    label = f"Source {access.source}: the key given for {table.label}"
    for name in key:
        if name not in columns:
            raise SourceError(
                f"{label} names the column {name}, which it does not have.",
                "Its columns are " + ", ".join(columns) + ".",
            )
    if not any(set(unique) <= set(key) for unique in kept):
        statements = [
            *(
                sql.SQL("ALTER TABLE {} ALTER COLUMN {} SET NOT NULL").format(
                    table.identifier, sql.Identifier(name)
                )
                for name in key
            ),
            sql.SQL("CREATE UNIQUE INDEX ON {} ({})").format(
                table.identifier, sql.SQL(", ").join(map(sql.Identifier, key))
            ),
        ]
        raise SourceError(
            f"{label} ({', '.join(key)}) is none that the database keeps: rows may share it, or "
            "have NULL in it.",
            "Leave the key out, or run: "
            + "; ".join(statement.as_string(None) for statement in statements)
            + ";",
        )


def _published_in_part(access: Access, table: Table, publication: str) -> SourceError:
    """With a list of columns and whole old rows the server refuses the application's changes."""
    return SourceError(
        f"Source {access.source}: the publication {publication} sends only some columns of "
        f"{table.label}. Headwater needs whole old rows in the log (REPLICA IDENTITY FULL), and "
        "with both the server would refuse every UPDATE and DELETE of the table.",
        f"Have {publication} publish all columns of it, or follow the source with changes = "
        '"triggers".',
    )


def _without_identity(access: Access, table: Table) -> SourceError:
    """A new partition is published with its root, and has no identity but the primary key's."""
    return SourceError(
        f"Source {access.source}: {table.label} is a partitioned table without a primary key (or "
        "with one that is deferrable): the server would refuse the application's UPDATE and DELETE "
        "in every partition that is made later, because it would be published without a replica "
        "identity.",
        "Give it a primary key; or name its partitions instead, and put them together with UNION "
        "ALL in the view.",
    )


def search_path(connection: Connection) -> list[str]:
    """Where the role's own search path looks for a table without a schema."""
    connection.execute(b"RESET search_path")
    try:
        row = connection.execute(b"SELECT pg_catalog.current_schemas(false)::pg_catalog.text[]")
        return list((row.fetchone() or ([],))[0])
    finally:
        connection.execute(b"SET search_path = ''")


class SameTableError(SourceError):
    """A table is there under another name already, which is no mistake: views may say both."""


class MissingTableError(SourceError):
    """A table is not there."""


def _missing(access: Access, connection: Connection, name: str) -> SourceError:
    with access.errors("read the catalog"):
        rows = connection.execute(_NAMES).fetchall()
    schema, table = split_name(name)
    for place, found, entered, role in rows:
        if schema is None and found == table and not entered:  # no search path leads there
            return _unreadable(access, place, found, role, entered)
    known = [f"{place}.{found}" for place, found, *_ in rows]
    by_table = {table.split(".", 1)[1].lower(): table for table in known}
    close = difflib.get_close_matches(f"{schema or 'public'}.{table}", known, 3, 0.7)
    close += [by_table[n] for n in difflib.get_close_matches(table.lower(), by_table, 3, 0.7)]
    shown = ", ".join(dict.fromkeys(close))
    hint = f"Close names are: {shown}." if shown else "No table there has a name close to it."
    return MissingTableError(
        f"Source {access.source}: there is no table {name}.",
        f"{hint} Correct relations in headwater.toml, or the views that name it.",
    )
