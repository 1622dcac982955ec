"""Whether a log that triggers write is one of ours, told by the catalog before any of it is read.

Whoever may make schemas in a database may make one of our name, with a view in it that calls a
function. So nothing in a schema is read unless its owner is our own role, one that may act as
ours, or one that may act for the owner of every table that is followed, as whoever runs setup
does. And what is in it must be what setup makes: plain tables on which nothing else runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.errors import SourceError
from headwater.sources.postgres.catalog import search_path, split_name
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
_ODD = """
SELECT c.relname::text
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname IN ('log', 'state', 'tables', 'shapes', 'bodies') AND (
  c.relkind <> 'r' OR c.relowner <> n.nspowner OR c.relchecks > 0 OR c.relhastriggers
  OR c.relhasrules OR c.relhassubclass OR c.relrowsecurity
  OR EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid
             AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL))
  OR EXISTS (SELECT FROM pg_catalog.pg_statistic_ext e WHERE e.stxrelid = c.oid)
  OR EXISTS (SELECT FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
             WHERE a.attrelid = c.oid AND t.typnamespace <> 'pg_catalog'::pg_catalog.regnamespace)
  OR EXISTS (SELECT FROM pg_catalog.pg_attrdef d JOIN pg_catalog.pg_depend u ON u.objid = d.oid
             AND u.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass
             WHERE d.adrelid = c.oid
             AND u.refclassid <> 'pg_catalog.pg_class'::pg_catalog.regclass))
"""
"""Tables of the log that are not what setup makes: reading or writing them may run something."""


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
) -> None:
    """See that nobody else has put a log into this schema; SourceError says who."""
    found = owners(access, connection, [schema], relations).get(schema)
    if found is None:
        return
    with access.errors("read the catalog"):
        odd = connection.execute(_ODD, [schema]).fetchall()
    owner, is_trusted = found
    if not is_trusted:
        raise SourceError(
            f"Source {access.source}: the role {owner} owns the schema {schema}, and neither is "
            "this role nor owns the tables.",
            "If that role ran setup, make it a member of the roles that own the tables; otherwise "
            "drop the schema, or give the source another slot in headwater.toml.",
        )
    if odd:
        raise SourceError(
            f"Source {access.source}: the table {odd[0][0]} in the schema {schema} is not one "
            "that setup made, or was altered since.",
            f"Nothing of it is read. Have its owner, {owner}, drop the schema, and run 'headwater "
            f"setup {access.source}'; or give the source another slot in headwater.toml.",
        )
