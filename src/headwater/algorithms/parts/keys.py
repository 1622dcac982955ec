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


def key_delete(view: View, relation: str, deleted: Rows) -> KeyDelete | None:
    """What deletes the given base rows from the view, or None if it does not show their key."""
    positions = view.key_positions(relation)
    base = view.relation(relation)
    if positions is None or base is None:
        return None
    columns = tuple(view.schema.names[at] for at in positions)
    return KeyDelete(columns, tuple(base.key_of(row) for row in deleted))


def key_deletes(view: View, deltas: Mapping[str, Rows]) -> tuple[KeyDelete, ...]:
    """The deletions of a transaction, by key; those of relations without a key left out."""
    found = (
        key_delete(view, relation, delta.negative())
        for relation, delta in deltas.items()
        if delta.negative()
    )
    return tuple(deletion for deletion in found if deletion is not None)


def insertions(view: View, deltas: Mapping[str, Rows]) -> Query:
    """The union of `V<U>` over the relations into which a transaction inserts."""
    query: Query = ()
    for relation, delta in deltas.items():
        query += substitute(query_of(view), {relation: delta.positive()})
    return query


def require_keys(view: View, algorithm: str) -> None:
    """UnsupportedViewError unless the view shows the key of every relation."""
    if len(view.joins) > 1:
        raise UnsupportedViewError(
            f"{algorithm} deletes rows by key, and a row of this view does not tell which of its "
            f"{len(view.joins)} parts it belongs to: a UNION ALL has several, and so has an outer "
            "join or an EXISTS.",
            "Choose an algorithm that needs no keys, such as sweep, or make each part a view.",
        )
    missing = [
        f"{relation.short_name} ({', '.join(relation.key) or 'has no key'})"
        for relation in view.relations
        if view.key_positions(relation.name) is None
    ]
    if missing:
        raise UnsupportedViewError(
            f"{algorithm} needs the key of every relation in the view; missing: "
            f"{', '.join(missing)}.",
            f"{_way_out(view)} Or choose an algorithm that needs no keys, such as sweep.",
        )


def _way_out(view: View) -> str:
    wider = view.with_keys()
    if all(wider.key_positions(relation.name) is not None for relation in view.relations):
        return (
            'Say KEEP KEYS (in a scenario "keep_keys": true) to have them kept out of sight, or '
            "select them as well."
        )
    if all(relation.key for relation in view.relations):
        return "No key can be kept for a relation that occurs twice, or in several SELECTs."
    return "KEEP KEYS cannot help a relation that has no key: give it one."
