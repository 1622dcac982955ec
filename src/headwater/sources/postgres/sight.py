"""What a look at the catalog has found, and what has changed between two looks; values only.

Of a look only a digest of each table is kept, in the position of the log. What was written since
is known by the numbers of the transactions that wrote the catalog's rows.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headwater.sources.postgres.guards import guards_of, lost_key
from headwater.sources.postgres.position import Held, Seen
from headwater.sources.postgres.snapshot import XidSnapshot
from headwater.sources.postgres.types import Table

UNFOLLOWED = "-"
"""Stands in place of a digest for a relation that cannot be followed."""
ANYWAY = ""
"""Stands among columns in doubt where others were dropped meanwhile: names tell nothing then."""
GONE = "is not there any more: it was dropped or has another name"


@dataclass(frozen=True)
class SightedColumn:
    attnum: int
    type: str
    """How its values are read, or which type of somebody's they have."""
    xid: int
    printed_xid: int = 0
    """Who wrote last what its values are printed with: labels, and names of fields."""

    @property
    def written(self) -> int:
        return max(self.xid, self.printed_xid)


@dataclass(frozen=True)
class Link:
    """How a partition became one: by which transaction, and whether it was made as one, empty.

    Nothing keeps somebody from making it UNLOGGED for a while, which leaves it with another file.
    """

    xid: int
    was_born: bool
    file: int


@dataclass(frozen=True)
class Sighted:
    """A table as one look has found it; `xid`s are the transactions that wrote a row."""

    oid: int
    file: int
    xid: int
    is_logged: bool
    listed_xid: int | None
    published_xid: int
    """Who wrote last what else publishes it: its schema, what it is a partition of, a partition."""
    is_included: bool
    """Whether it is published without being listed itself."""
    is_narrowed: bool
    columns: Mapping[str, SightedColumn]
    schema_xid: int
    dropped_by: frozenset[int] = frozenset()
    """Who dropped columns of it."""
    partitions: Mapping[int, Link] = field(default_factory=dict)
    is_parent: bool = False
    """Whether other tables inherit from it that are no partitions."""
    guards: Sequence[tuple[int, Sequence[str]]] = ()
    """What the database keeps unique, by a number."""

    @property
    def linked_by(self) -> list[int]:
        """The transactions that made partitions what they are."""
        return [link.xid for link in self.partitions.values()]

    @property
    def written_by(self) -> Iterator[int]:
        """All transactions that wrote something of it."""
        yield from (self.xid, self.listed_xid or 0, self.published_xid, self.schema_xid)
        yield from self.linked_by
        yield from self.dropped_by
        for column in self.columns.values():
            yield from (column.xid, column.printed_xid)

    def digest(self, wanted: Sequence[str], key: Sequence[str]) -> str:
        """Which table it is, a sum of how it is, what keeps its key, a sum of its partitions."""
        columns = [(n, self.columns[n]) for n in sorted(wanted) if n in self.columns]
        text = f"{self.oid} {self.file} {[(n, c.attnum, c.type) for n, c in columns]}"
        parts = self.sum_of(self.partitions.keys())
        guards = ",".join(map(str, sorted(guards_of(key, self.guards))))
        return f"{self.oid}/{_sum(text)}~{guards}{parts and '+' + parts}"

    def sum_of(self, partitions: Collection[int]) -> str:
        """Which partitions these are, and in which files; empty where there are none."""
        files = sorted((oid, self.partitions[oid].file) for oid in partitions)
        return _sum(str(files)) if files else ""


@dataclass(frozen=True)
class Sight:
    """What one look has found, in one snapshot."""

    snapshot: XidSnapshot
    publication_xid: int
    tables: Mapping[str, Sighted]
    lsn: int = 0
    """Before this place in the log everything stands that it shows."""

    @property
    def recent(self) -> frozenset[int]:
        """The transactions that wrote something of it and are not older than all that ran."""
        found = (xid for table in self.tables.values() for xid in table.written_by)
        oldest = self.snapshot.xmin
        return frozenset(xid for xid in (self.publication_xid, *found) if xid >= oldest)


@dataclass(frozen=True)
class Gap:
    """What the log does not tell: of which columns, why, and what snapshots know it by."""

    columns: Mapping[str, frozenset[str] | None] | None
    reason: str
    stamp: int | None
    waits: bool = True
    """Whether what made it waits until nobody who has changed the table is open any more."""


def compare(
    seen: Seen | None,
    sight: Sight,
    tables: Mapping[str, Table],
    unfollowed: Mapping[str, str] | None = None,
) -> tuple[Seen, list[Gap]]:
    """What has changed since the last look; nothing is known of before the first one.

    `unfollowed` are relations beside the tables that cannot be followed, each with the reason.
    """
    wanted = {
        name: sorted(table.by_name if table.used is None else table.used)
        for name, table in tables.items()
    }
    problems = {name: _problem(sight.tables.get(name)) for name in tables} | dict(unfollowed or {})
    digests = {
        name: UNFOLLOWED if problem else sight.tables[name].digest(wanted[name], _key(tables, name))
        for name, problem in problems.items()
    }
    now = Seen(sight.snapshot, digests, sight.recent)
    if seen is None:
        return now, []
    doubted = _doubted(seen, sight, wanted)
    upto = seen.doubted_upto if doubted == seen.doubted else sight.lsn
    now = replace(now, doubted=doubted, doubted_upto=upto)
    if not seen.knows(sight.publication_xid):
        reason = "the publication was altered, and changes may have been left out meanwhile"
        gaps = [Gap(None, reason, sight.publication_xid, waits=False)]
    else:
        gaps = [
            gap
            for name, problem in problems.items()
            for gap in (
                _lost(name, seen, problem)
                if problem
                else _gaps(name, seen, now, sight, wanted[name], _key(tables, name))
            )
        ]
    return replace(now, held=_held(seen, sight, gaps)), [*gaps, *_told_again(seen, sight)]


def _held(seen: Seen, sight: Sight, gaps: Sequence[Gap]) -> tuple[Held, ...]:
    """The gaps that have to be told again, with who is still open."""
    running = sight.snapshot.running
    before = (replace(held, running=held.running & running) for held in seen.held)
    new = (Held(gap.columns, gap.reason, running) for gap in gaps if not gap.waits)
    return tuple(held for held in (*before, *new) if held.running)


def _told_again(seen: Seen, sight: Sight) -> Iterator[Gap]:
    """What was told when transactions were open that have ended since."""
    for held in seen.held:
        if any(map(sight.snapshot.includes, held.running)):
            reason = f"{held.reason}; a transaction that was open meanwhile has ended now"
            yield Gap(held.columns, reason, None)


def _doubted(
    seen: Seen, sight: Sight, wanted: Mapping[str, Sequence[str]]
) -> dict[str, Sequence[str]]:
    """What is written anew and yet the same, by SET DEFAULT or by two that swap their names and
    swap them back; with what was in doubt before."""
    found = {}
    for name in wanted.keys() & sight.tables.keys():
        table = sight.tables[name]
        again = {
            column
            for column in table.columns.keys() & wanted[name]
            if not seen.knows(table.columns[column].xid)
        }
        before = seen.doubted.get(name, ())
        found[name] = sorted(again.union(before) & table.columns.keys())
        is_reshaped = not all(map(seen.knows, table.dropped_by))
        if found[name] and (is_reshaped or ANYWAY in before):
            found[name] = [ANYWAY, *found[name]]
    return {name: columns for name, columns in sorted(found.items()) if columns}


def _lost(name: str, seen: Seen, problem: str) -> Iterator[Gap]:
    """The gap of a table that cannot be followed, told once."""
    if seen.digests.get(name) != UNFOLLOWED:
        yield Gap({name: None}, f"the table {name} {problem}", None)


def _gaps(
    name: str, seen: Seen, now: Seen, sight: Sight, wanted: Sequence[str], key: Sequence[str]
) -> Iterator[Gap]:
    before, digest, table = seen.digests.get(name), now.digests[name], sight.tables[name]
    written = [
        xid for xid in (table.listed_xid or table.xid, table.published_xid) if not seen.knows(xid)
    ]
    if before is None:
        reason = f"the table {name} was not followed before"
        yield Gap({name: None}, reason, max(written, default=0), waits=False)
    elif before == UNFOLLOWED:
        reason = f"the table {name} could not be followed for a while"
        back = [*written, *(x for x in [table.xid] if not seen.knows(x))]
        yield Gap({name: None}, reason, max(back, default=None), waits=False)
    elif written:
        reason = f"the table {name} was taken out of the publication, or altered in it"
        yield Gap({name: None}, reason, max(written), waits=False)
    elif _oid(before) not in ("", _oid(digest)):
        reason = f"another table is called {name} now"
        yield Gap({name: None}, reason, _named_by(seen, table))
    else:
        # One that was detached and attached again makes no difference to the digest.
        if digest != before or not all(seen.knows(x) for x in table.linked_by):
            yield from _partition_gaps(name, seen, before, table)
        if digest != before:
            yield from _column_gaps(name, seen, table, wanted)
        else:
            yield from _printed_gaps(name, seen, table, wanted)
        yield from _key_gaps(name, before, digest, key)


def _key(tables: Mapping[str, Table], name: str) -> tuple[str, ...]:
    return tables[name].key if name in tables else ()


def _key_gaps(name: str, before: str, digest: str, key: Sequence[str]) -> Iterator[Gap]:
    """A key that nothing has kept all the time; views that show none of it are not concerned."""
    were, are = _guards(before), _guards(digest)
    if key and were and not were & are:
        yield Gap({name: frozenset(key)}, lost_key(name, key), None)


def _guards(digest: str) -> frozenset[str]:
    """What keeps the key, as a digest has it; digests of earlier versions do not say."""
    text = digest.partition("~")[2].partition("+")[0]
    return frozenset(text.split(",")) - {""}


def _oid(digest: str) -> str:
    """Which table a digest is of; digests of earlier versions do not say."""
    return digest.rpartition("/")[0]


def _named_by(seen: Seen, table: Sighted) -> int | None:
    """The transaction that gave a table its name, unless its schema may have been renamed."""
    is_told = seen.knows(table.schema_xid) and not seen.knows(table.xid)
    return table.xid if is_told else None


def _partition_gaps(name: str, seen: Seen, before: str, table: Sighted) -> Iterator[Gap]:
    """Rows come and go with partitions that are attached, detached or dropped; the log is silent.

    One that was made as a partition was empty, and what came into it later is in the log.
    """
    reason = (
        f"partitions of {name} were attached, detached or dropped, and rows with them, or have new "
        "files (rewritten, VACUUM FULL, UNLOGGED for a while)"
    )
    kept = [oid for oid, link in table.partitions.items() if seen.knows(link.xid)]
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
        reason = f"the table {name} has no column {shown} any more"
        yield Gap({name: gone}, reason, None)
    for xid, columns in _written(
        seen, {n: table.columns[n].written for n in wanted if n not in gone}
    ):
        shown = ", ".join(sorted(columns))
        reason = (
            f"the table {name} was altered: its column {shown} was made anew or rewritten, or its "
            "type was altered"
        )
        printed = not all(seen.knows(table.columns[n].printed_xid) for n in columns)
        yield Gap({name: columns}, reason, xid, waits=not printed)


def _printed_gaps(name: str, seen: Seen, table: Sighted, wanted: Sequence[str]) -> Iterator[Gap]:
    """Labels that were renamed and have their names again: rows came with others meanwhile."""
    there = {n: table.columns[n].printed_xid for n in wanted if n in table.columns}
    for xid, columns in _written(seen, there):
        shown = ", ".join(sorted(columns))
        reason = (
            f"the table {name}: labels or fields of the type of its column {shown} were renamed, "
            "and have their names again"
        )
        yield Gap({name: columns}, reason, xid, waits=False)


def _written(seen: Seen, xids: Mapping[str, int]) -> Sequence[tuple[int, frozenset[str]]]:
    """The columns that were written since, by the transaction that did it."""
    found: dict[int, set[str]] = defaultdict(set)
    for column, xid in xids.items():
        if not seen.knows(xid):
            found[xid].add(column)
    return [(xid, frozenset(columns)) for xid, columns in sorted(found.items())]


def _problem(table: Sighted | None) -> str:
    """Why a table cannot be followed as it is now; empty if it can."""
    if table is None:
        return GONE
    if not table.is_logged:
        return "is no longer a table whose changes are in the log"
    if table.is_parent:
        return (
            "has got tables that inherit from it: SQL counts their rows as its own, and its log "
            "does not hold them"
        )
    if table.listed_xid is None and not table.is_included:
        return "is not in the publication; 'headwater setup' puts it there"
    if table.is_narrowed:
        return "is published without some of its rows or columns"
    return ""


def _sum(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=5).hexdigest()
