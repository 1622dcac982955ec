"""Reads from the catalog what types are made of that users and extensions have defined."""

from __future__ import annotations

from collections.abc import Collection

from headwater.sources.postgres.connect import Connection
from headwater.sources.postgres.meanings import FIRST_OWN, KNOWN, Definition, Field

_PARTS = """
SELECT t.typbasetype WHERE t.typtype = 'd'
UNION ALL SELECT t.typelem WHERE t.typelem <> 0 AND t.typcategory = 'A' AND t.typtype = 'b'
UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range r
  WHERE t.oid IN (r.rngtypid, r.rngmultitypid)
UNION ALL SELECT f.atttypid FROM pg_catalog.pg_attribute f
  WHERE t.typtype = 'c' AND f.attrelid = t.typrelid AND f.attnum > 0 AND NOT f.attisdropped
"""
_DEFINITIONS = f"""
WITH RECURSIVE needed(oid) AS (
  SELECT unnest(%s::oid[])
  UNION
  SELECT p.oid FROM needed n JOIN pg_catalog.pg_type t ON t.oid = n.oid,
    LATERAL ({_PARTS}) AS p(oid))
SELECT t.oid::int8, t.typname, t.typtype::text, t.typbasetype::int8, t.typtypmod,
       ARRAY({_PARTS})::int8[],
       (SELECT e.typdelim::text FROM pg_catalog.pg_type e
        WHERE e.oid = t.typelem AND t.typoutput = 'pg_catalog.array_out'::regproc),
       (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(
            f.attname, f.atttypid::int8, f.atttypmod) ORDER BY f.attnum)
        FROM pg_catalog.pg_attribute f
        WHERE t.typtype = 'c' AND f.attrelid = t.typrelid AND f.attnum > 0 AND NOT f.attisdropped)
FROM needed n JOIN pg_catalog.pg_type t ON t.oid = n.oid
"""


PRINTED = f"""
CASE WHEN a.atttypid >= {FIRST_OWN} THEN (
  WITH RECURSIVE needed(oid) AS (
    SELECT a.atttypid
    UNION
    SELECT p.oid FROM needed n JOIN pg_catalog.pg_type t ON t.oid = n.oid,
      LATERAL ({_PARTS}) AS p(oid))
  SELECT pg_catalog.json_build_array(
    pg_catalog.md5(pg_catalog.string_agg(x.text, ',' ORDER BY x.text)),
    pg_catalog.json_agg(x.xid))
  FROM needed n, LATERAL (
    SELECT pg_catalog.concat(e.oid, ':', e.enumlabel), e.xmin::pg_catalog.text::pg_catalog.int8
    FROM pg_catalog.pg_enum e WHERE e.enumtypid = n.oid
    UNION ALL
    SELECT pg_catalog.concat(
        f.attrelid, '.', f.attnum, ':', f.atttypid, ':', f.attisdropped, ':', f.attname),
      f.xmin::pg_catalog.text::pg_catalog.int8
    FROM pg_catalog.pg_type t JOIN pg_catalog.pg_attribute f ON f.attrelid = t.typrelid
    WHERE t.oid = n.oid AND t.typtype = 'c' AND f.attnum > 0) AS x(text, xid)) END
"""
"""In SQL, of a column `a` whose type users made: a sum of what its values are printed with, which
are labels of enumerations and the fields of composites, and the transactions that wrote these."""


def read_definitions(connection: Connection, oids: Collection[int]) -> dict[int, Definition]:
    """The types that are not in the table of types, and all that they are made of."""
    others = sorted(set(oids) - KNOWN.keys())
    if not others:
        return {}
    return {
        oid: Definition(
            name,
            kind,
            base,
            modifier,
            tuple(parts),
            delimiter or "",
            tuple(Field(*field) for field in fields or ()),
        )
        for oid, name, kind, base, modifier, parts, delimiter, fields in connection.execute(
            _DEFINITIONS.encode(), [others]
        )
    }
