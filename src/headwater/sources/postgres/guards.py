"""What keeps a table's key: unique indexes over its columns, which must not go unnoticed.

Some algorithms take a deleted row away by its key. Where nothing keeps the key any more, rows may
share it, and the others would go with it. A constraint is known by its own number, which outlives
an index that is made anew for it (REINDEX CONCURRENTLY).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

GUARDS = """
(SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_array(u.id, u.columns) ORDER BY u.id) FROM (
   SELECT coalesce((SELECT k.oid FROM pg_catalog.pg_constraint k
       WHERE k.conrelid OPERATOR(pg_catalog.=) i.indrelid
         AND k.conindid OPERATOR(pg_catalog.=) i.indexrelid AND k.contype IN ('p', 'u')),
     i.indexrelid)::pg_catalog.int8 AS id,
     pg_catalog.array_agg(a.attname::pg_catalog.text) AS columns
   FROM pg_catalog.pg_index i,
     pg_catalog.unnest(i.indkey) WITH ORDINALITY AS n(attnum, at), pg_catalog.pg_attribute a
   WHERE i.indrelid OPERATOR(pg_catalog.=) c.oid AND i.indisunique AND i.indisvalid
     AND i.indpred IS NULL AND i.indexprs IS NULL
     AND n.at OPERATOR(pg_catalog.<=) i.indnkeyatts
     AND a.attrelid OPERATOR(pg_catalog.=) c.oid AND a.attnum OPERATOR(pg_catalog.=) n.attnum
   GROUP BY i.indexrelid, i.indrelid HAVING pg_catalog.bool_and(a.attnotnull)) AS u)
"""
"""Of a table `c` of the catalog: what the database keeps unique and free of NULLs."""


def guards_of(key: Collection[str], found: Sequence[Sequence[Any]] | None) -> frozenset[int]:
    """Which of them keep a key."""
    return frozenset(number for number, columns in found or () if set(columns) <= set(key))


def lost_key(label: str, key: Collection[str]) -> str:
    return (
        f"the table {label}: what kept its key ({', '.join(key)}) unique was dropped, and rows may "
        "have shared it since"
    )
