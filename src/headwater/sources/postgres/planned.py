"""What a table's owner may let the server run as whoever asks: what planning evaluates.

To plan a question the server evaluates what is constant in the predicates and expressions of
indexes and of extended statistics, as the role that asks. A function there is the table's owner's
choice. So a table is refused if one of them needs a function, an operator, a domain or a range of
a role that may not act as ours anyway, as superusers may. CHECK constraints and partitions would be
evaluated too, if `constraint_exclusion` were not off in every session of ours.
"""

from __future__ import annotations

from headwater.errors import SourceError

_FOREIGN = """
(SELECT pg_catalog.min(f.name) FROM (
  SELECT x.relname::pg_catalog.text AS name, d.refclassid, d.refobjid
  FROM pg_catalog.pg_index i
  JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
  JOIN pg_catalog.pg_depend d ON d.objid = i.indexrelid
    AND d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
  WHERE i.indrelid = {table} AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)
  UNION ALL
  SELECT e.stxname::pg_catalog.text, d.refclassid, d.refobjid
  FROM pg_catalog.pg_statistic_ext e
  JOIN pg_catalog.pg_depend d ON d.objid = e.oid
    AND d.classid = 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass
  WHERE e.stxrelid = {table}
) f WHERE NOT pg_catalog.pg_has_role(CASE f.refclassid
    WHEN 'pg_catalog.pg_proc'::pg_catalog.regclass THEN
      (SELECT p.proowner FROM pg_catalog.pg_proc p WHERE p.oid = f.refobjid)
    WHEN 'pg_catalog.pg_operator'::pg_catalog.regclass THEN
      (SELECT p.proowner FROM pg_catalog.pg_operator o
       JOIN pg_catalog.pg_proc p ON p.oid = o.oprcode WHERE o.oid = f.refobjid)
    WHEN 'pg_catalog.pg_type'::pg_catalog.regclass THEN
      (SELECT t.typowner FROM pg_catalog.pg_type t
       WHERE t.oid = f.refobjid AND t.typtype IN ('d', 'r', 'm'))
  END, current_user, 'MEMBER'))
"""
PLANNED = """
coalesce((SELECT pg_catalog.sum(i.xmin::text::int8 + i.indexrelid::int8)
  FROM pg_catalog.pg_index i
  WHERE i.indrelid = ANY({tables}) AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)), 0)
+ coalesce((SELECT pg_catalog.sum(e.xmin::text::int8 + e.oid::int8)
  FROM pg_catalog.pg_statistic_ext e WHERE e.stxrelid = ANY({tables})), 0)
"""
"""A number that changes whenever such an expression of some tables comes or goes."""


def foreign_expression(table: str) -> str:
    """In SQL: an index or statistics of a table that may run what others have made, or NULL."""
    return _FOREIGN.format(table=table)


def runs_foreign(source: str, table: str, name: str, role: str) -> SourceError:
    """Why a table is refused."""
    return SourceError(
        f"Source {source}: {name}, an index or statistics of {table}, uses a function, an operator "
        f"or a type that belongs to another role, and would run it with the rights of {role}.",
        f"Drop it, or have a superuser or {role} own what it uses (ALTER FUNCTION ... OWNER TO).",
    )
