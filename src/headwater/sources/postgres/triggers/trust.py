"""Whether a log that triggers write is one of ours, told by the catalog before any of it is read.

Whoever may make schemas in a database may make one of our name, with a view in it that calls a
function. So nothing in a schema is read unless its owner is our own role, one that may act as
ours, or one that may act for the owner of every table that is followed, as whoever runs setup
does. And what is in it must be exactly what setup makes: plain tables with these columns, defaults
and indexes, on which nothing else runs. Its owner could alter them at any time. So whoever reads or
writes them locks them first, then looks, and holds the locks until it is done. To look each time
at all of it would take long; a text that changes whenever a table is altered is compared instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from headwater.errors import LostConnectionError, SourceError
from headwater.sources.naming import split_name
from headwater.sources.postgres.catalog import search_path
from headwater.sources.postgres.connect import Access, Connection

_OWNER = """
SELECT n.nspname::text, pg_catalog.pg_get_userbyid(n.nspowner)::text,
  pg_catalog.pg_has_role(n.nspowner, current_user, 'MEMBER') OR (
    SELECT count(*) > 0 AND pg_catalog.bool_and(
        pg_catalog.pg_has_role(n.nspowner, f.relowner, 'MEMBER'))
    FROM (SELECT DISTINCT ON (r.at) c.relowner
          FROM unnest(%(schemas)s::text[], %(names)s::text[]) WITH ORDINALITY AS r(schema, name, at)
          JOIN pg_catalog.pg_namespace s
            ON s.nspname = r.schema OR r.schema IS NULL AND s.nspname = ANY(%(path)s)
          JOIN pg_catalog.pg_class c ON c.relnamespace = s.oid AND c.relname = r.name
          ORDER BY r.at, pg_catalog.array_position(%(path)s::text[], s.nspname::text)) f)
FROM pg_catalog.pg_namespace n WHERE n.nspname = ANY(%(logs)s)
"""
_LOOK = """
SELECT c.relname::text,
  c.relkind = 'r' AND c.relpersistence = 'p' AND c.relowner = n.nspowner AND c.reloftype = 0
  AND NOT c.relispartition AND NOT c.relrowsecurity AND NOT c.relforcerowsecurity
  AND NOT c.relhastriggers AND NOT c.relhasrules AND NOT c.relhassubclass
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE i.inhrelid = c.oid)
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_policy p WHERE p.polrelid = c.oid)
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_statistic_ext e WHERE e.stxrelid = c.oid)
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k
                  WHERE k.conrelid = c.oid AND k.contype NOT IN ('p', 'n')),
  ARRAY(SELECT pg_catalog.jsonb_build_array(a.attname,
          pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull,
          a.attgenerated = '' AND a.attidentity = '' AND a.attcollation IN (0, 100),
          pg_catalog.pg_get_expr(d.adbin, d.adrelid))
        FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_attrdef d
          ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE a.attrelid = c.oid AND a.attnum > 0 ORDER BY a.attnum),
  ARRAY(SELECT pg_catalog.jsonb_build_array(i.indkey::text, i.indisprimary, m.amname,
          i.indexprs IS NULL AND i.indpred IS NULL AND 16384::oid > ALL (i.indclass::oid[]))
        FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
        JOIN pg_catalog.pg_am m ON m.oid = x.relam WHERE i.indrelid = c.oid)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = ANY(%s)
"""
_SEAL = """
(SELECT coalesce(pg_catalog.md5(pg_catalog.string_agg(pg_catalog.concat(
    c.oid, ' ', c.relkind, c.relpersistence, ' ', c.relowner, ' ', c.relchecks, c.relispartition,
    c.relhastriggers, c.relhasrules, c.relhassubclass, c.relrowsecurity, c.relforcerowsecurity, '/',
    (SELECT pg_catalog.string_agg(a.xmin::text, ',' ORDER BY a.attnum)
     FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0), '/',
    (SELECT pg_catalog.string_agg(pg_catalog.concat(i.indexrelid, '.', i.xmin), ','
       ORDER BY i.indexrelid) FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid), '/',
    (SELECT count(*) FROM pg_catalog.pg_statistic_ext e WHERE e.stxrelid = c.oid)),
  ' ' ORDER BY c.relname)), '-')
 FROM pg_catalog.pg_class c
 WHERE c.relnamespace = (SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname = {schema})
   AND c.relname = ANY({names}))
"""
"""What setup never makes is told by the first one: it sets a mark at the table, and none is set."""


def _column(name: str, kind: str, default: str | None = None) -> list[object]:
    return [name, kind, default is not None, True, default]


def _key(name: str, kind: str) -> list[object]:
    return [name, kind, True, True, None]


_BY_KEY: list[list[object]] = [["1", True, "btree", True]]
_MADE: dict[str, tuple[list[list[object]], list[list[object]]]] = {
    "log": (
        [
            _column("xid", "xid8", "pg_current_xact_id()"),
            _column("seen", "pg_snapshot", "pg_current_snapshot()"),
            _column("relation", "oid"),
            _column("shape", "bigint"),
            _column("old", "text[]"),
            _column("new", "text[]"),
            _column("note", "text"),
        ],
        [["1", False, "btree", True]],
    ),
    "state": (
        [
            _column("version", "bigint"),
            _column("owner", "text"),
            _column("log", "oid"),
            _column("acknowledged", "pg_snapshot"),
        ],
        [],
    ),
    "tables": (
        [_key("relation", "text"), _column("shape", "bigint"), _column("seen", "jsonb")],
        _BY_KEY,
    ),
    "shapes": ([_key("shape", "bigint"), _column("columns", "text[]")], _BY_KEY),
    "bodies": ([_key("body", "text")], _BY_KEY),
}
"""The tables that setup makes: their columns and indexes, as the catalog tells them."""
TABLES = tuple(_MADE)
_WRITTEN = ("log", "state", "tables")
"""Those that the role of every day writes."""


def owners(
    access: Access, connection: Connection, schemas: Sequence[str], relations: Sequence[str]
) -> dict[str, tuple[str, bool]]:
    """Who owns some schemas, as far as they are there, and whether setup may have made them."""
    split = [split_name(name) for name in relations]
    with access.errors("read the catalog"):
        wanted = {
            "schemas": [schema for schema, _ in split],
            "names": [name for _, name in split],
            "path": search_path(connection),
            "logs": list(schemas),
        }
        rows = connection.execute(_OWNER, wanted).fetchall()
    return {schema: (owner, bool(is_trusted)) for schema, owner, is_trusted in rows}


def check_trusted(
    access: Access, connection: Connection, schema: str, relations: Sequence[str]
) -> list[str]:
    """See that nobody else has put a log into this schema; SourceError says who.

    Returns the tables of the log that are there.
    """
    found = owners(access, connection, [schema], relations).get(schema)
    if found is None:
        return []
    owner, is_trusted = found
    if not is_trusted:
        raise SourceError(
            f"Source {access.source}: the role {owner} owns the schema {schema}, and neither is "
            "this role nor owns the tables.",
            "If that role ran setup, make it a member of the roles that own the tables; otherwise "
            "drop the schema, or give the source another slot in headwater.toml.",
        )
    with access.errors("read the catalog"):
        tables = connection.execute(_LOOK, [schema, list(TABLES)]).fetchall()
    for name, is_plain, columns, indexes in tables:
        if not is_plain or (columns, indexes) != _MADE[name]:
            raise SourceError(
                f"Source {access.source}: the table {name} in the schema {schema} is not one "
                "that setup made, or was altered since.",
                f"Nothing of it is read. Have its owner, {owner}, drop the schema, and run "
                f"'headwater setup {access.source}'; or give the source another slot in "
                "headwater.toml.",
            )
    return [name for name, *_ in tables]


@dataclass(frozen=True)
class GuardedLog:
    """Some tables of a log, for whoever reads or writes them without owning them."""

    access: Access
    schema: str
    relations: Sequence[str]
    tables: Sequence[str]

    @property
    def lock(self) -> str:
        """The statement that keeps those that may be written as they are."""
        return lock_log(self.schema, [t for t in self.tables if t in _WRITTEN], "ROW EXCLUSIVE")

    @property
    def lock_to_read(self) -> str:
        """The statement that keeps all of them as they are, for who only reads them."""
        return lock_log(self.schema, self.tables, "ACCESS SHARE")

    @property
    def seal(self) -> str:
        """In SQL: a text that changes whenever one of them is altered."""
        parts = {"schema": sql.Literal(self.schema), "names": sql.Literal(list(self.tables))}
        return sql.SQL(_SEAL).format(**parts).as_string(None)

    def check(self, connection: Connection) -> None:
        """See that they are what setup makes."""
        check_trusted(self.access, connection, self.schema, self.relations)

    def read_seal(self, connection: Connection) -> str:
        with self.access.errors("read the catalog"):
            row = connection.execute(f"SELECT {self.seal}".encode()).fetchone()
        assert row is not None
        return str(row[0])

    def altered(self, connection: Connection) -> SourceError:
        """Why nothing more is done with them as they are."""
        try:
            self.check(connection)
        except SourceError as error:
            return error
        return LostConnectionError(
            f"Source {self.access.source}: the log in the schema {self.schema} was altered; it is "
            "read anew."
        )


def lock_log(schema: str, tables: Sequence[str], mode: str) -> str:
    """A statement that keeps tables of a log as they are, until the transaction ends."""
    names = sql.SQL(", ").join(
        sql.SQL("ONLY {}").format(sql.Identifier(schema, table)) for table in tables
    )
    return sql.SQL("LOCK TABLE {} IN {} MODE; ").format(names, sql.SQL(mode)).as_string(None)
