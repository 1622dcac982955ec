"""What a table's owner may let the server run as whoever asks: what planning evaluates.

To plan a question the server evaluates what is constant in the predicates and expressions of
indexes and of extended statistics, as the role that asks. It also turns operators round: for
NOT (a = b) it takes the negator of =, another operator with another function. All of these are
the table's owner's choice. So a table is refused if an index or statistics of it needs a function,
an operator, an operator class or a type of a role that may not act as ours anyway, as superusers
may; with an operator go its negator and commutator, and the functions behind all of them.
Enumerated types carry no functions and may be anybody's. CHECK constraints and partitions would be
evaluated too, if `constraint_exclusion` were not off in every session of ours.

No lock that a reader may take keeps an index or statistics from being made. So questions compare,
before they are planned and again behind their answers, a text that changes when one is.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from headwater.errors import SourceError
from headwater.sources.postgres.connect import Access, Connection
from headwater.sources.postgres.meanings import FIRST_OWN
from headwater.sources.postgres.privileges import current_role
from headwater.sources.postgres.types import Table

_FOREIGN = """
WITH RECURSIVE own AS (
  SELECT w.oid AS root, w.oid AS part FROM unnest(%s::oid[]) AS w(oid)
  UNION
  SELECT w.oid, t.relid::oid
  FROM unnest(%s::oid[]) AS w(oid), pg_catalog.pg_partition_tree(w.oid) t),
needed(root, name, class, object) AS (
  (SELECT own.root, x.relname::text, d.refclassid, d.refobjid
   FROM own JOIN pg_catalog.pg_index i ON i.indrelid = own.part
   JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
   JOIN pg_catalog.pg_depend d ON d.objid = i.indexrelid
     AND d.classid = 'pg_catalog.pg_class'::regclass
   UNION ALL
   SELECT own.root, e.stxname::text, d.refclassid, d.refobjid
   FROM own JOIN pg_catalog.pg_statistic_ext e ON e.stxrelid = own.part
   JOIN pg_catalog.pg_depend d ON d.objid = e.oid
     AND d.classid = 'pg_catalog.pg_statistic_ext'::regclass
   UNION ALL
   SELECT own.root, 'its partition key', d.refclassid, d.refobjid
   FROM own JOIN pg_catalog.pg_partitioned_table k ON k.partrelid = own.part
   JOIN pg_catalog.pg_depend d ON d.objid = k.partrelid AND d.objsubid = 0
     AND d.classid = 'pg_catalog.pg_class'::regclass
     AND d.refclassid IN ('pg_catalog.pg_opclass'::regclass, 'pg_catalog.pg_proc'::regclass))
  UNION
  SELECT n.root, n.name, f.class, f.object FROM needed n, LATERAL (
    SELECT v.class::oid, v.object::oid FROM pg_catalog.pg_operator o, LATERAL (VALUES
        ('pg_catalog.pg_proc'::regclass, o.oprcode::oid),
        ('pg_catalog.pg_proc'::regclass, o.oprrest::oid),
        ('pg_catalog.pg_proc'::regclass, o.oprjoin::oid),
        ('pg_catalog.pg_operator'::regclass, o.oprcom),
        ('pg_catalog.pg_operator'::regclass, o.oprnegate)) AS v(class, object)
    WHERE n.class = 'pg_catalog.pg_operator'::regclass AND o.oid = n.object AND v.object <> 0
    UNION ALL
    SELECT 'pg_catalog.pg_type'::regclass::oid, t.typelem FROM pg_catalog.pg_type t
    WHERE n.class = 'pg_catalog.pg_type'::regclass AND t.oid = n.object AND t.typelem <> 0
    UNION ALL
    SELECT 'pg_catalog.pg_opfamily'::regclass::oid, c.opcfamily FROM pg_catalog.pg_opclass c
    WHERE n.class = 'pg_catalog.pg_opclass'::regclass AND c.oid = n.object
    UNION ALL
    SELECT 'pg_catalog.pg_proc'::regclass::oid, p.amproc::oid FROM pg_catalog.pg_amproc p
    WHERE n.class = 'pg_catalog.pg_opfamily'::regclass AND p.amprocfamily = n.object
    UNION ALL
    SELECT 'pg_catalog.pg_operator'::regclass::oid, p.amopopr FROM pg_catalog.pg_amop p
    WHERE n.class = 'pg_catalog.pg_opfamily'::regclass AND p.amopfamily = n.object
  ) AS f)
SELECT n.root::int8, pg_catalog.min(n.name) FROM needed n WHERE n.object >= {own}
AND NOT pg_catalog.pg_has_role(CASE n.class
    WHEN 'pg_catalog.pg_proc'::regclass THEN
      (SELECT p.proowner FROM pg_catalog.pg_proc p WHERE p.oid = n.object)
    WHEN 'pg_catalog.pg_operator'::regclass THEN
      (SELECT o.oprowner FROM pg_catalog.pg_operator o WHERE o.oid = n.object)
    WHEN 'pg_catalog.pg_opclass'::regclass THEN
      (SELECT c.opcowner FROM pg_catalog.pg_opclass c WHERE c.oid = n.object)
    WHEN 'pg_catalog.pg_opfamily'::regclass THEN
      (SELECT f.opfowner FROM pg_catalog.pg_opfamily f WHERE f.oid = n.object)
    WHEN 'pg_catalog.pg_type'::regclass THEN
      (SELECT t.typowner FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_type e
         ON e.oid = t.typelem AND t.typtype = 'b'
       WHERE t.oid = n.object AND 'e' NOT IN (t.typtype, coalesce(e.typtype, t.typtype)))
  END, current_user, 'MEMBER')
GROUP BY n.root
""".replace("{own}", str(FIRST_OWN))
"""Of all tables at once, so that the catalog is read once and not for each."""
PLANNED = """
pg_catalog.md5(pg_catalog.concat((
  SELECT pg_catalog.string_agg(pg_catalog.concat(i.indexrelid, '.', i.xmin), ','
    ORDER BY i.indexrelid)
  FROM pg_catalog.pg_index i WHERE i.indrelid = ANY({tables})), '/', (
  SELECT pg_catalog.string_agg(pg_catalog.concat(e.oid, '.', e.xmin), ',' ORDER BY e.oid)
  FROM pg_catalog.pg_statistic_ext e WHERE e.stxrelid = ANY({tables}))))
"""
"""In SQL: a text that changes whenever an index or statistics of some tables comes or goes."""


def planned_tables(tables: Sequence[Table]) -> sql.SQL:
    """In SQL: the tables with all that is planned with them, which is their partitions' own."""
    oids = ",".join(str(table.oid) for table in tables)
    listed = f"'{{{oids}}}'::oid[]"
    if all(table.partitions is None for table in tables):
        return sql.SQL(listed)
    return sql.SQL(
        f"{listed} || ARRAY(SELECT p.relid::oid FROM unnest({listed}) AS w(oid),"
        " pg_catalog.pg_partition_tree(w.oid) p)"
    )


def read_foreign(connection: Connection, tables: Sequence[int]) -> dict[int, str]:
    """By table an index or statistics that may run what others have made, where there is one."""
    return dict(connection.execute(_FOREIGN.encode(), [list(tables), list(tables)]).fetchall())


def check_planned(access: Access, connection: Connection, tables: Sequence[Table]) -> None:
    """See that planning a question about some tables runs nothing of others."""
    with access.errors("read the catalog"):
        foreign = read_foreign(connection, [table.oid for table in tables])
    for table in tables:
        if table.oid in foreign:
            role = current_role(access, connection)
            raise runs_foreign(access.source, table.label, foreign[table.oid], role)


def runs_foreign(source: str, table: str, name: str, role: str) -> SourceError:
    """Why a table is refused."""
    return SourceError(
        f"Source {source}: {name}, an index or statistics of {table}, uses a function, an operator "
        f"or a type that belongs to another role, and would run it with the rights of {role}.",
        f"Drop it, or have a superuser or {role} own what it uses (ALTER FUNCTION ... OWNER TO), "
        "an operator and its negator and commutator included.",
    )
