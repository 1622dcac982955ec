"""Deletions by key at the warehouse: what several algorithms share.

The papers' key-delete (ECA 5.4, Strobe 5.2): where the view shows the key of a relation, the rows
of the view that were derived from a deleted base row are those with its key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.algebra.hashing import cached_hash
from headwater.algebra.rows import Rows
from headwater.algebra.terms import Query, query_of, substitute
from headwater.algebra.tops import PART
from headwater.algebra.views import View
from headwater.algorithms.parts.source_evaluate import Evaluation
from headwater.errors import UnsupportedViewError
from headwater.protocol.effects import KeyDelete


@cached_hash
@dataclass(frozen=True)
class Unanswered:
    """A query that was sent, and what has to be taken out of its answer."""

    evaluation: Evaluation
    pending: tuple[KeyDelete, ...] = ()
    """The deletions received since it was sent."""


def key_delete(view: View, relation: str, deleted: Rows) -> tuple[KeyDelete, ...] | None:
    """What deletes the given base rows from the view, part by part, or None if some part does not
    show their key."""
    found = []
    for join in view.joins:
        if all(o.relation.name != relation for o in join.occurrences):
            continue
        positions, base = join.key_positions(relation), view.relation(relation)
        if positions is None or base is None or not view.tells_parts:
            return None
        part = () if join.number is None else (join.number,)
        columns = tuple(view.schema.names[at] for at in positions)
        keys = tuple((*part, *base.key_of(row)) for row in deleted)
        found.append(KeyDelete((PART, *columns) if part else columns, keys))
    return tuple(found)


def key_deletes(view: View, deltas: Mapping[str, Rows]) -> tuple[KeyDelete, ...]:
    """The deletions of a transaction, by key; those of relations without a key left out."""
    found = (
        key_delete(view, relation, delta.negative()) or ()
        for relation, delta in deltas.items()
        if delta.negative()
    )
    return tuple(deletion for deletions in found for deletion in deletions)


def insertions(view: View, deltas: Mapping[str, Rows]) -> Query:
    """The union of `V<U>` over the relations into which a transaction inserts."""
    query: Query = ()
    for relation, delta in deltas.items():
        query += substitute(query_of(view), {relation: delta.positive()})
    return query


def require_keys(view: View, algorithm: str) -> None:
    """UnsupportedViewError unless each part shows the key of every relation, and tells itself."""
    if view.shows_keys:
        return
    several = len(view.joins) > 1
    missing = [
        f"{relation.short_name} ({', '.join(relation.key) or 'has no key'})"
        + (f" in part {number}" if several else "")
        for number, join in enumerate(view.joins, 1)
        for relation in join.keyless
    ]
    told = f"missing: {', '.join(missing)}" if missing else "no column tells its parts apart"
    of = f"each of the {len(view.joins)} parts of the view" if several else "the view"
    raise UnsupportedViewError(
        f"{algorithm} needs the key of every relation in {of}; {told}.",
        f"{_way_out(view)} Or choose an algorithm that needs no keys, such as sweep.",
    )


def _way_out(view: View) -> str:
    if view.with_keys().shows_keys:
        also = ", or select them as well" if len(view.joins) == 1 else ""
        return (
            f'Say KEEP KEYS (in a scenario "keep_keys": true) to have them kept out of sight{also}.'
        )
    if all(relation.key for relation in view.relations):
        return "No key can be kept for a relation that occurs twice in one SELECT."
    return "KEEP KEYS cannot help a relation that has no key: give it one."
