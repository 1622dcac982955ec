"""Watches the catalog for what the log does not tell: tables changed behind its back.

The log is silent about a rewritten column, a column that was dropped and added again under its
name, a table that left the publication for a while. The catalog is not: each of its rows has
the number of the transaction that wrote it. What was written since the last look is compared
with a digest of how things were (`sight`): a new default or VACUUM FULL by itself changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from headwater.errors import BrokenLogError, LostConnectionError
from headwater.sources.postgres.connect import Access, Connection
from headwater.sources.postgres.definitions import PRINTED
from headwater.sources.postgres.guards import GUARDS
from headwater.sources.postgres.meanings import own_meaning
from headwater.sources.postgres.pgoutput import parse_lsn
from headwater.sources.postgres.sight import Link, Sight, Sighted, SightedColumn
from headwater.sources.postgres.snapshot import XidSnapshot, full_xid
from headwater.sources.postgres.types import Table

_LOOK = """
SELECT pg_catalog.pg_current_snapshot()::text,
  (SELECT pg_catalog.json_build_array(p.xmin::text::int8,
       p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate AND NOT p.pubviaroot)
   FROM pg_catalog.pg_publication p WHERE p.pubname = %(publication)s),
  (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(
       w.relation, c.oid::int8, c.relfilenode::int8, c.xmin::text::int8,
       c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT EXISTS (
         SELECT FROM pg_catalog.pg_partition_tree(c.oid) t JOIN pg_catalog.pg_class p
           ON p.oid = t.relid AND (p.relkind NOT IN ('r', 'p') OR p.relpersistence <> 'p')),
       (SELECT r.xmin::text::int8 FROM pg_catalog.pg_publication_rel r
        WHERE r.prpubid = p.oid AND r.prrelid = c.oid),
       (SELECT pg_catalog.json_agg(w.xid) FROM (
          SELECT r.xmin::text::int8 FROM pg_catalog.pg_publication_rel r
          WHERE r.prpubid = p.oid AND r.prrelid <> c.oid AND r.prrelid IN (
            SELECT a.relid FROM pg_catalog.pg_partition_ancestors(c.oid) a
            UNION ALL SELECT t.relid FROM pg_catalog.pg_partition_tree(c.oid) t)
          UNION ALL SELECT i.xmin::text::int8
          FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_partition_ancestors(c.oid) a
            ON i.inhrelid = a.relid
          WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_publication_rel r
                            WHERE r.prpubid = p.oid AND r.prrelid = c.oid)
          UNION ALL {in_schema}) AS w(xid)),
       p.puballtables OR EXISTS ({in_schema}) OR EXISTS (
         SELECT FROM pg_catalog.pg_partition_ancestors(c.oid) a
         JOIN pg_catalog.pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = a.relid),
       EXISTS (SELECT FROM pg_catalog.pg_publication_rel r
               WHERE r.prpubid = p.oid AND ({narrowed}) AND (r.prrelid = c.oid OR r.prrelid IN (
                 SELECT t.relid FROM pg_catalog.pg_partition_tree(c.oid) t))),
       (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(
            a.attname, a.attnum, a.atttypid::int8, a.atttypmod, a.xmin::text::int8,
            a.attgenerated <> '', {printed}))
        FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
       (SELECT pg_catalog.json_agg(a.xmin::text::int8) FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = c.oid AND a.attisdropped),
       n.xmin::text::int8,
       (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(i.inhrelid::int8, i.inhparent::int8,
          i.xmin::text::int8, i.xmin = y.xmin AND NOT EXISTS (
            SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = p.oid AND a.attnum > 0
              AND NOT (a.xmin = y.xmin AND a.cmin = y.cmin)), p.relfilenode::int8))
        FROM pg_catalog.pg_partition_tree(c.oid) t
        JOIN pg_catalog.pg_inherits i ON i.inhrelid = t.relid AND t.relid <> c.oid
        JOIN pg_catalog.pg_class p ON p.oid = t.relid
        JOIN pg_catalog.pg_type y ON y.oid = p.reltype WHERE c.relkind = 'p'),
       c.relkind <> 'p' AND EXISTS (SELECT FROM pg_catalog.pg_inherits i
                                    WHERE i.inhparent = c.oid),
       {guards}))
   FROM pg_catalog.pg_publication p,
     unnest(%(relations)s::text[], %(schemas)s::text[], %(names)s::text[])
       AS w(relation, schema, name),
     pg_catalog.pg_namespace n, pg_catalog.pg_class c
   WHERE p.pubname = %(publication)s AND n.nspname = w.schema
     AND c.relnamespace = n.oid AND c.relname = w.name),
  pg_catalog.pg_current_wal_insert_lsn()::text
"""
_IN_SCHEMA = """SELECT s.xmin::text::int8 FROM pg_catalog.pg_publication_namespace s
                WHERE s.pnpubid = p.oid AND s.pnnspid = c.relnamespace"""
_NO_SCHEMA = "SELECT NULL::int8 WHERE false"
_NARROWED = "r.prqual IS NOT NULL OR r.prattrs IS NOT NULL"
_COLUMNS = """
SELECT attname FROM pg_catalog.pg_attribute
WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum
"""
_ALTERING = """
SELECT EXISTS (
  SELECT FROM pg_catalog.pg_locks t JOIN pg_catalog.pg_locks l USING (virtualtransaction)
  WHERE t.locktype = 'transactionid' AND t.transactionid = %s::text::xid AND t.granted
    AND l.locktype = 'relation' AND l.relation = ANY(%s::oid[]) AND l.mode IN (
      'ShareUpdateExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock',
      'AccessExclusiveLock'))
"""
"""Whether a transaction that has not ended may have altered one of some tables."""
_TEXTS = (25, 1043)
"""text and varchar: of one another the same values, in the same files."""
_DOING = "look at the catalog"
_LIMIT_S = 20
_PAUSE_S = 0.01
POST = "post"


class CatalogWatch:
    """Looks at the catalog over a connection of its own. Used by one thread.

    `absent` are places, as relation, schema and name, of tables that were not there.
    """

    def __init__(
        self,
        access: Access,
        publication: str,
        tables: Mapping[str, Table],
        absent: Sequence[tuple[str, str, str]] = (),
    ) -> None:
        self._access = access
        self._publication = publication
        self._absent = {relation for relation, _, _ in absent}
        places = [(name, table.schema, table.name) for name, table in tables.items()]
        places += absent
        self._wanted = {
            "publication": publication,
            "relations": [relation for relation, _, _ in places],
            "schemas": [schema for _, schema, _ in places],
            "names": [name for _, _, name in places],
        }
        self._connection: Connection | None = None
        self._is_closed = False

    def look(self, including: int | None = None) -> Sight:
        """The catalog now, or as soon as it shows what a transaction has done to it.

        A transaction may be in the log and not visible for long, if it waits for a standby. What
        alters a table keeps a lock until it is visible; without one there is nothing to wait for.
        """
        sight = self._look()
        deadline = time.monotonic() + _LIMIT_S
        while including is not None and not sight.snapshot.includes(including):
            may_alter = self._may_alter(including, sight)
            sight = self._look()
            if not may_alter:
                break
            if time.monotonic() > deadline:
                raise LostConnectionError(
                    f"Source {self._access.source}: the transaction {including} is in the log and "
                    "not visible yet.",
                    "It may wait for a synchronous standby.",
                )
            time.sleep(_PAUSE_S)
        return sight

    def columns(self, oid: int) -> Sequence[str]:
        """The columns of a table or a partition now, in the order in which the log sends them."""
        with self._access.errors(_DOING):
            return [name for (name,) in self._connected().execute(_COLUMNS, [oid])]

    def post(self, prefix: str) -> None:
        """Put a transaction into the log that stands for nothing but its place."""
        connection = self._connected()
        with self._access.errors("write into the log"):
            connection.execute(
                "SELECT pg_catalog.pg_logical_emit_message(true, %s, %s)", [prefix, POST]
            )

    def close(self) -> None:
        self._is_closed = True
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> Connection:
        if self._is_closed:
            raise LostConnectionError(f"Source {self._access.source}: its monitor was closed.")
        if self._connection is None or self._connection.closed or self._connection.broken:
            self._connection = self._access.connect()
            self._connection.execute(f"SET statement_timeout = '{_LIMIT_S}s'".encode())
        return self._connection

    def _look(self) -> Sight:
        connection = self._connected()
        narrows = connection.pgconn.server_version >= 150000
        statement = _LOOK.format(
            in_schema=_IN_SCHEMA if narrows else _NO_SCHEMA,
            narrowed=_NARROWED if narrows else "false",
            printed=PRINTED,
            guards=GUARDS,
        )
        with self._access.errors(_DOING):
            row = connection.execute(statement.encode(), self._wanted).fetchone()
        assert row is not None
        snapshot = XidSnapshot.parse(row[0])
        if row[1] is None or not row[1][1]:
            raise BrokenLogError(self._access.source, self._unpublished(row[1] is None))
        tables = {found[0]: _sighted(found, snapshot) for found in row[2] or ()}
        if appeared := self._absent & tables.keys():
            raise LostConnectionError(
                f"Source {self._access.source}: there is a table {min(appeared)} now; the log is "
                "read anew."
            )
        return Sight(snapshot, _full(row[1][0], snapshot), tables, parse_lsn(row[3]))

    def _may_alter(self, xid: int, sight: Sight) -> bool:
        oids = [table.oid for table in sight.tables.values()]
        with self._access.errors(_DOING):
            row = self._connected().execute(_ALTERING, [str(xid % (1 << 32)), oids]).fetchone()
        return bool(row and row[0])

    def _unpublished(self, is_gone: bool) -> str:
        name = self._publication
        if is_gone:
            return f"there is no publication {name}, so changes have not been sent."
        return f"the publication {name} leaves out some kinds of changes."


def _sighted(found: Sequence[Any], snapshot: XidSnapshot) -> Sighted:
    _, oid, file, xid, is_logged, listed, published, is_included, *rest = found
    is_narrowed, columns, dropped, schema_xid, partitions, is_parent, guards = rest
    return Sighted(
        oid,
        file,
        _full(xid, snapshot),
        is_logged,
        None if listed is None else _full(listed, snapshot),
        max((_full(each, snapshot) for each in published or ()), default=0),
        is_included,
        is_narrowed,
        {
            name: _column(snapshot, attnum, kind, modifier, written, printed)
            for name, attnum, kind, modifier, written, is_generated, printed in columns or ()
            if not is_generated
        },
        _full(schema_xid, snapshot),
        frozenset(_full(each, snapshot) for each in dropped or ()),
        {
            part: Link(_full(written, snapshot), born, file)
            for part, _, written, born, file in partitions or ()
        },
        is_parent,
        guards or (),
    )


def _column(
    snapshot: XidSnapshot, attnum: int, oid: int, modifier: int, xid: int, printed: Sequence[Any]
) -> SightedColumn:
    kind, xids = _type_name(oid, modifier), list[int]()
    if printed:
        kind, xids = f"{kind} {printed[0]}", printed[1] or []
    printed_xid = max((_full(each, snapshot) for each in xids), default=0)
    return SightedColumn(attnum, kind, _full(xid, snapshot), printed_xid)


def _type_name(oid: int, modifier: int) -> str:
    """What a column's values are, the same for types that differ in how long they may be."""
    try:
        kind = str(own_meaning(oid, modifier).type)
    except ValueError:
        return f"{oid} {modifier}"
    return kind if oid in _TEXTS else f"{oid} {kind}"


def _full(xid: int, snapshot: XidSnapshot) -> int:
    """The 64-bit number of a transaction whose work is visible, so none of the future."""
    full = full_xid(xid, snapshot.xmax)
    return full if full < snapshot.xmax else max(full - (1 << 32), 0)
