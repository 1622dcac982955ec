"""What was changed behind the triggers' back: a table, its columns, the triggers themselves.

A log that triggers write is silent about what they did not see: rows that changed while they
were switched off, a column that was rewritten, a table put in another's place. The catalog
tells. It is read in the same snapshot as the log, and compared with how it was when the log
was last acknowledged. The rows of the catalog have the number of the transaction that wrote
them (`xmin`), so that even what was undone again leaves a trace.

A table that was UNLOGGED for a while has a new file, as after VACUUM FULL, and may have lost its
rows if the server crashed meanwhile or another took its place. Then the server's statistics
start anew (`crashed`); a new file and new statistics together are a gap.

Choices: a rewritten column has a new `xmin` in the catalog and its table a new file; one of
both alone is an ordinary thing (SET DEFAULT, VACUUM FULL) and stops nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from headwater.sources.postgres.connect import Connection
from headwater.sources.postgres.definitions import PRINTED
from headwater.sources.postgres.guards import GUARDS, guards_of, lost_key
from headwater.sources.postgres.meanings import own_meaning
from headwater.sources.postgres.types import Table, TableColumn

SEEN = """
pg_catalog.jsonb_build_object(
  'oid', c.oid::pg_catalog.int8, 'file', c.relfilenode::pg_catalog.int8,
  'is_logged', c.relpersistence OPERATOR(pg_catalog.=) 'p',
  'crashed', pg_catalog.date_part('epoch', pg_catalog.pg_stat_get_bgwriter_stat_reset_time()),
  'columns', (SELECT pg_catalog.jsonb_object_agg(a.attname, pg_catalog.jsonb_build_array(
      a.attnum, a.atttypid::pg_catalog.int8, a.atttypmod, a.xmin::pg_catalog.text, {printed}))
    FROM pg_catalog.pg_attribute a
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
  'triggers', (SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_array(
      t.oid::pg_catalog.int8, t.xmin::pg_catalog.text, t.tgenabled::pg_catalog.text,
      p.proname, pg_catalog.md5(p.prosrc), p.xmin::pg_catalog.text) ORDER BY t.oid)
    FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
    JOIN pg_catalog.pg_namespace s ON s.oid = p.pronamespace
    WHERE t.tgrelid = c.oid AND s.nspname = {schema}),
  'guards', {guards})
"""
SEEN = SEEN.replace("{printed}", PRINTED).replace("{guards}", GUARDS)
"""A table `c` of the catalog as the watch sees it."""
_READ = """
SELECT w.schema, w.name, {seen}, c.relhassubclass AND EXISTS (
  SELECT FROM pg_catalog.pg_inherits i WHERE i.inhparent = c.oid)
FROM ROWS FROM (pg_catalog.unnest(%s::pg_catalog.text[]), pg_catalog.unnest(%s::pg_catalog.text[]))
  AS w(schema, name)
JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
WHERE c.relkind = 'r'
"""
ALWAYS = "A"
Seen = Mapping[str, Any]


@dataclass(frozen=True)
class Gap:
    """What the log has missed of a table: these columns, or None for all of it."""

    columns: frozenset[str] | None
    reason: str


def read_seen(
    connection: Connection, schema: str, tables: Sequence[Table]
) -> dict[tuple[str, str], Seen]:
    """How the catalog shows some tables now, by schema and name; what is not there is left out."""
    statement = sql.SQL(_READ).format(seen=sql.SQL(SEEN).format(schema=sql.Placeholder()))
    rows = connection.execute(
        statement, [schema, [table.schema for table in tables], [table.name for table in tables]]
    )
    return {
        (schema, name): {**seen, "is_parent": True} if is_parent else seen
        for schema, name, seen, is_parent in rows
    }


def is_watched(seen: Seen, bodies: Collection[str]) -> bool:
    """Whether both triggers fire in every session, and run what setup made."""
    firing = {row[3] for row in _triggers(seen) if row[2] == ALWAYS and row[4] in bodies}
    return len(firing) == 2  # for rows and for TRUNCATE


def find_gap(
    label: str,
    before: Seen | None,
    now: Seen | None,
    used: Collection[str],
    bodies: Collection[str],
    key: Sequence[str] = (),
) -> Gap | None:
    """What lies between two looks at a table."""
    if now is None:
        return None if before is None else Gap(None, f"the table {label} is no longer there")
    if before is None or before["oid"] != now["oid"]:
        return Gap(None, f"the table {label} was made anew")
    if not now["is_logged"]:
        return Gap(None, f"the table {label} is UNLOGGED: a crash of the server empties it")
    if now.get("is_parent"):
        return Gap(
            None,
            f"the table {label} has got tables that inherit from it: SQL counts their rows as its "
            "own, and its log does not hold them",
        )
    if not before.get("is_logged", True) or _may_be_emptied(before, now):
        return Gap(None, f"the table {label} was UNLOGGED, or may have been, and lost its rows")
    is_same = _same_bodies(before, now, bodies) and not _put_back(before, now)
    if _identities(before) != _identities(now) or not is_same:
        return Gap(
            None,
            f"the triggers on {label} were switched off or replaced; changes may be missing",
        )
    changed = frozenset(name for name in used if _is_changed(name, before, now))
    were, are = (guards_of(key, seen.get("guards")) for seen in (before, now))
    if were and not were & are:
        return Gap(changed.union(key), lost_key(label, key))
    if not changed:
        return None
    names = ", ".join(sorted(changed))
    return Gap(
        changed,
        f"of the table {label} these columns were altered or are gone: {names}",
    )


def find_doubted(before: Seen, now: Seen, used: Collection[str]) -> dict[str, int]:
    """Columns that were written anew and are the same, each with the lower bits of the transaction
    that did it: SET DEFAULT does so, and two that swap their names and swap them back."""
    columns, were = (seen["columns"] or {} for seen in (now, before))
    return {
        name: int(columns[name][3])
        for name in columns.keys() & were.keys() & set(used)
        if columns[name][3] != were[name][3] and not _is_changed(name, before, now)
    }


def printed_by(seen: Seen, used: Collection[str]) -> dict[str, list[int]]:
    """Of columns whose values are printed with labels or names of fields: who wrote these."""
    columns = (seen["columns"] or {}).items()
    return {
        name: row[4][1] or [] for name, row in columns if name in used and len(row) > 4 and row[4]
    }


def columns_of(seen: Seen, table: Table) -> dict[str, TableColumn]:
    """The columns that can be read, as the catalog described them."""
    found = {}
    columns = (seen["columns"] or {}).items()
    for name, (_, oid, modifier, *_) in sorted(columns, key=lambda item: item[1][0]):
        known = table.by_name.get(name)
        if known is not None and (known.oid, known.modifier) == (oid, modifier):
            found[name] = known
            continue
        try:
            meaning = own_meaning(oid, modifier)
        except ValueError:
            continue
        found[name] = TableColumn(name, oid, modifier, "", 0, meaning.type, meaning.form)
    return found


def bodies_of(seen: Seen) -> set[str]:
    """What the triggers run, each by its sum."""
    return {row[4] for row in _triggers(seen)}


def _triggers(seen: Seen) -> Sequence[Sequence[Any]]:
    return seen["triggers"] or ()


def _identities(seen: Seen) -> list[Sequence[Any]]:
    return [row[:4] for row in _triggers(seen)]


def _same_bodies(before: Seen, now: Seen, bodies: Collection[str]) -> bool:
    """Whether functions are what they were, or were replaced by setup."""
    return bodies_of(now) <= bodies_of(before).union(bodies)


def _put_back(before: Seen, now: Seen) -> bool:
    """Whether a function was written anew and is the same: it was another meanwhile."""
    were = {row[0]: row[4:] for row in _triggers(before)}
    return any(
        row[5:] and were[row[0]][1:] and (row[4] == were[row[0]][0]) and row[4:] != were[row[0]]
        for row in _triggers(now)
        if row[0] in were
    )


def _may_be_emptied(before: Seen, now: Seen) -> bool:
    has_crashed = "crashed" in before and before["crashed"] != now["crashed"]
    return has_crashed and before["file"] != now["file"]


def _is_changed(name: str, before: Seen, now: Seen) -> bool:
    was, is_now = ((seen["columns"] or {}).get(name) for seen in (before, now))
    if was is None or is_now is None:
        return was is not is_now
    if was[4:] and is_now[4:] and was[4] != is_now[4]:
        return True
    rewritten = was[3] != is_now[3] and before["file"] != now["file"]
    return bool(was[:3] != is_now[:3] or rewritten)
