"""Reads from the catalog what types are made of that users and extensions have defined."""

from __future__ import annotations

from collections.abc import Collection

from headwater.sources.postgres.connect import Connection
from headwater.sources.postgres.meanings import KNOWN, Definition

_PARTS = """
SELECT t.typbasetype WHERE t.typtype = 'd'
UNION ALL SELECT t.typelem WHERE t.typelem <> 0 AND t.typcategory = 'A' AND t.typtype = 'b'
UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range r
  WHERE t.oid IN (r.rngtypid, r.rngmultitypid)
UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a
  WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
"""
_DEFINITIONS = f"""
WITH RECURSIVE needed(oid) AS (
  SELECT unnest(%s::oid[])
  UNION
  SELECT p.oid FROM needed n JOIN pg_catalog.pg_type t ON t.oid = n.oid,
    LATERAL ({_PARTS}) AS p(oid))
SELECT t.oid::int8, t.typname, t.typtype::text, t.typbasetype::int8, t.typtypmod,
       ARRAY({_PARTS})::int8[]
FROM needed n JOIN pg_catalog.pg_type t ON t.oid = n.oid
"""


def read_definitions(connection: Connection, oids: Collection[int]) -> dict[int, Definition]:
    """The types that are not in the table of types, and all that they are made of."""
    others = sorted(set(oids) - KNOWN.keys())
    if not others:
        return {}
    return {
        oid: Definition(name, kind, base, modifier, tuple(parts))
        for oid, name, kind, base, modifier, parts in connection.execute(
            _DEFINITIONS.encode(), [others]
        )
    }
