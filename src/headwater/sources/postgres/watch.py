"""Watches the catalog for what the log does not tell: tables changed behind its back.

The log is silent about a rewritten column, a column that was dropped and added again under its
name, a table that left the publication for a while. The catalog is not: each of its rows has
the number of the transaction that wrote it. What was written since the last look is compared
with a digest of how things were: a new default or VACUUM FULL by itself changes nothing.

`look` reads the catalog, in one snapshot; `compare` is a function of values.
"""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwater.errors import BrokenLogError, LostConnectionError
from headwater.sources.postgres.connect import Access, Connection
from headwater.sources.postgres.definitions import PRINTED
from headwater.sources.postgres.meanings import own_meaning
from headwater.sources.postgres.position import Seen
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
       p.puballtables OR {in_schema} OR EXISTS (
         SELECT FROM pg_catalog.pg_partition_ancestors(c.oid) a
         JOIN pg_catalog.pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = a.relid),
       EXISTS (SELECT FROM pg_catalog.pg_publication_rel r
               WHERE r.prpubid = p.oid AND r.prrelid = c.oid AND ({narrowed})),
       (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(
            a.attname, a.attnum, a.atttypid::int8, a.atttypmod, a.xmin::text::int8,
            a.attgenerated <> '', {printed}))
        FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
       n.xmin::text::int8,
       (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(i.inhrelid::int8, i.inhparent::int8,
          i.xmin::text::int8, i.xmin = y.xmin
            AND i.cmin::text::int8 - y.cmin::text::int8 BETWEEN 0 AND {born}))
        FROM pg_catalog.pg_partition_tree(c.oid) t
        JOIN pg_catalog.pg_inherits i ON i.inhrelid = t.relid AND t.relid <> c.oid
        JOIN pg_catalog.pg_class p ON p.oid = t.relid
        JOIN pg_catalog.pg_type y ON y.oid = p.reltype WHERE c.relkind = 'p')))
   FROM pg_catalog.pg_publication p,
     unnest(%(relations)s::text[], %(schemas)s::text[], %(names)s::text[])
       AS w(relation, schema, name),
     pg_catalog.pg_namespace n, pg_catalog.pg_class c
   WHERE p.pubname = %(publication)s AND n.nspname = w.schema
     AND c.relnamespace = n.oid AND c.relname = w.name)
"""
_IN_SCHEMA = """c.relnamespace IN (SELECT s.pnnspid FROM pg_catalog.pg_publication_namespace s
                                   WHERE s.pnpubid = p.oid)"""
_NARROWED = "r.prqual IS NOT NULL OR r.prattrs IS NOT NULL"
_ALTERING = """
SELECT EXISTS (
  SELECT FROM pg_catalog.pg_locks t JOIN pg_catalog.pg_locks l USING (virtualtransaction)
  WHERE t.locktype = 'transactionid' AND t.transactionid = %s::text::xid AND t.granted
    AND l.locktype = 'relation' AND l.relation = ANY(%s::oid[]) AND l.mode IN (
      'ShareUpdateExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock',
      'AccessExclusiveLock'))
"""
"""Whether a transaction that has not ended may have altered one of some tables."""
_BORN_COMMANDS = 3
"""Between making a table's type and making it a partition, where one statement does both. To put
rows into it in between takes statements of their own, which are counted too."""
_DOING = "look at the catalog"
_LIMIT_S = 20
_PAUSE_S = 0.01
POST = "post"
UNFOLLOWED = "-"
"""Stands in place of a digest for a relation that cannot be followed."""


@dataclass(frozen=True)
class SightedColumn:
    attnum: int
    type: str
    """How its values are read, or which type of somebody's they have."""
    xid: int


@dataclass(frozen=True)
class Link:
    """How a partition became one: by which transaction, and whether it was made as one, empty."""

    xid: int
    was_born: bool


@dataclass(frozen=True)
class Sighted:
    """A table as one look has found it; `xid`s are the transactions that wrote a row."""

    oid: int
    file: int
    xid: int
    is_logged: bool
    listed_xid: int | None
    is_included: bool
    """Whether it is published without being listed itself."""
    is_narrowed: bool
    columns: Mapping[str, SightedColumn]
    schema_xid: int
    partitions: Mapping[int, Link] = field(default_factory=dict)

    def digest(self, wanted: Sequence[str]) -> str:
        """Which table it is, and a sum of how it is, and of its partitions."""
        columns = [(n, self.columns[n]) for n in sorted(wanted) if n in self.columns]
        text = f"{self.oid} {self.file} {[(n, c.attnum, c.type) for n, c in columns]}"
        parts = self.sum_of(self.partitions)
        return f"{self.oid}/{_sum(text)}{parts and '+' + parts}"

    def sum_of(self, partitions: Collection[int]) -> str:
        """Which partitions these are; empty where there are none."""
        return _sum(str(sorted(partitions))) if partitions else ""


@dataclass(frozen=True)
class Sight:
    """What one look has found, in one snapshot."""

    snapshot: XidSnapshot
    publication_xid: int
    tables: Mapping[str, Sighted]


@dataclass(frozen=True)
class Gap:
    """What the log does not tell: of which columns, why, and what snapshots know it by."""

    columns: Mapping[str, frozenset[str] | None] | None
    reason: str
    stamp: int | None


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
            in_schema=_IN_SCHEMA if narrows else "false",
            narrowed=_NARROWED if narrows else "false",
            born=_BORN_COMMANDS,
            printed=PRINTED,
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
        return Sight(snapshot, _full(row[1][0], snapshot), tables)

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


def compare(
    seen: Seen | None, sight: Sight, tables: Mapping[str, Table], absent: Sequence[str] = ()
) -> tuple[Seen, list[Gap]]:
    """What has changed since the last look; nothing is known of before the first one."""
    wanted = {
        name: sorted(table.by_name if table.used is None else table.used)
        for name, table in tables.items()
    }
    digests = {
        name: UNFOLLOWED
        if name in absent or _problem(sight.tables.get(name))
        else sight.tables[name].digest(wanted[name])
        for name in (*tables, *absent)
    }
    now = Seen(sight.snapshot, digests)
    if seen is None:
        return now, []
    if not seen.snapshot.includes(sight.publication_xid):
        reason = "the publication was altered, and changes may have been left out meanwhile"
        return now, [Gap(None, reason, sight.publication_xid)]
    gaps = [gap for name in digests for gap in _gaps(name, seen, now, sight, wanted.get(name, ()))]
    return now, gaps


def _gaps(name: str, seen: Seen, now: Seen, sight: Sight, wanted: Sequence[str]) -> Iterator[Gap]:
    before, digest, table = seen.digests.get(name), now.digests[name], sight.tables.get(name)
    if digest == UNFOLLOWED:
        if before != UNFOLLOWED:
            yield Gap({name: None}, f"the table {name} {_problem(table)}", None)
        return
    assert table is not None
    written = [
        xid
        for xid in (table.listed_xid, None if table.listed_xid else table.xid)
        if xid is not None and not seen.snapshot.includes(xid)
    ]
    if before is None:
        reason = f"the table {name} was not followed before"
        yield Gap({name: None}, reason, max(written, default=0))
    elif before == UNFOLLOWED:
        reason = f"the table {name} could not be followed for a while"
        back = [*written, *(x for x in [table.xid] if not seen.snapshot.includes(x))]
        yield Gap({name: None}, reason, max(back, default=None))
    elif written:
        reason = f"the table {name} was taken out of the publication, or altered in it"
        yield Gap({name: None}, reason, max(written))
    elif _oid(before) not in ("", _oid(digest)):
        reason = f"another table is called {name} now"
        yield Gap({name: None}, reason, _named_by(seen, table))
    elif digest != before:
        yield from _partition_gaps(name, seen, before, table)
        yield from _column_gaps(name, seen, table, wanted)


def _oid(digest: str) -> str:
    """Which table a digest is of; digests of earlier versions do not say."""
    return digest.rpartition("/")[0]


def _named_by(seen: Seen, table: Sighted) -> int | None:
    """The transaction that gave a table its name, unless its schema may have been renamed."""
    is_told = seen.snapshot.includes(table.schema_xid) and not seen.snapshot.includes(table.xid)
    return table.xid if is_told else None


def _partition_gaps(name: str, seen: Seen, before: str, table: Sighted) -> Iterator[Gap]:
    """Rows come and go with partitions that are attached, detached or dropped; the log is silent.

    One that was made as a partition was empty, and what came into it later is in the log.
    """
    reason = f"partitions of {name} were attached, detached or dropped, and rows with them"
    kept = [oid for oid, link in table.partitions.items() if seen.snapshot.includes(link.xid)]
    if table.sum_of(kept) != before.partition("+")[2]:
        yield Gap({name: None}, reason, None)
        return
    added = [link for oid, link in table.partitions.items() if oid not in kept]
    if attached := [link.xid for link in added if not link.was_born]:
        yield Gap({name: None}, reason, max(attached))


def _column_gaps(name: str, seen: Seen, table: Sighted, wanted: Sequence[str]) -> Iterator[Gap]:
    gone = frozenset(wanted) - table.columns.keys()
    if gone:
        shown = ", ".join(sorted(gone))
        yield Gap({name: gone}, f"the table {name} has no column {shown} any more", None)
    written: dict[int, set[str]] = defaultdict(set)
    for column in wanted:
        found = table.columns.get(column)
        if found is not None and not seen.snapshot.includes(found.xid):
            written[found.xid].add(column)
    for xid, columns in sorted(written.items()):
        shown = ", ".join(sorted(columns))
        reason = (
            f"the table {name} was altered: its column {shown} was made anew or rewritten, or its "
            "type was altered"
        )
        yield Gap({name: frozenset(columns)}, reason, xid)


def _problem(table: Sighted | None) -> str:
    """Why a table cannot be followed as it is now; empty if it can."""
    if table is None:
        return "is not there any more: it was dropped or has another name"
    if not table.is_logged:
        return "is no longer a table whose changes are in the log"
    if table.listed_xid is None and not table.is_included:
        return "is not in the publication; 'headwater setup' puts it there"
    if table.is_narrowed:
        return "is published without some of its rows or columns"
    return ""


def _sighted(found: Sequence[Any], snapshot: XidSnapshot) -> Sighted:
    _, oid, file, xid, is_logged, listed, is_included, is_narrowed, columns, *rest = found
    schema_xid, partitions = rest
    return Sighted(
        oid,
        file,
        _full(xid, snapshot),
        is_logged,
        None if listed is None else _full(listed, snapshot),
        is_included,
        is_narrowed,
        {
            name: _column(snapshot, attnum, kind, modifier, written, printed)
            for name, attnum, kind, modifier, written, is_generated, printed in columns or ()
            if not is_generated
        },
        _full(schema_xid, snapshot),
        {part: Link(_full(written, snapshot), born) for part, _, written, born in partitions or ()},
    )


def _column(
    snapshot: XidSnapshot, attnum: int, oid: int, modifier: int, xid: int, printed: Sequence[Any]
) -> SightedColumn:
    kind, xids = _type_name(oid, modifier), [xid]
    if printed:
        kind, xids = f"{kind} {printed[0]}", [xid, *(printed[1] or ())]
    return SightedColumn(attnum, kind, max(_full(each, snapshot) for each in xids))


def _type_name(oid: int, modifier: int) -> str:
    try:
        return str(own_meaning(oid, modifier).type)
    except ValueError:
        return f"{oid} {modifier}"


def _sum(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=5).hexdigest()


def _full(xid: int, snapshot: XidSnapshot) -> int:
    """The 64-bit number of a transaction whose work is visible, so none of the future."""
    full = full_xid(xid, snapshot.xmax)
    return full if full < snapshot.xmax else max(full - (1 << 32), 0)
