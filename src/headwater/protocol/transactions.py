"""Source transactions: what the monitors report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from headwater.algebra.hashing import cached_hash
from headwater.algebra.rows import Rows, show_row


@cached_hash
@dataclass(frozen=True)
class Update:
    """One change of one relation as signed rows: `+new`, `-old`, or both at once."""

    relation: str
    delta: Rows


@cached_hash
@dataclass(frozen=True)
class Transaction:
    """Updates that take effect together, in order.

    `sources` are the sources whose updates are here; `spans` are all sources that the whole
    transaction touches. They differ in one part of a global transaction, reported by its site.
    """

    id: str
    updates: tuple[Update, ...]
    sources: tuple[str, ...]
    spans: tuple[str, ...]
    numbers: tuple[int, ...] = ()
    """Its number, from 1 on, among the transactions of each of `sources`; () if not told."""

    @property
    def is_whole(self) -> bool:
        return len(self.sources) == len(self.spans)

    @cached_property
    def deltas(self) -> dict[str, Rows]:
        """The net change of each relation that changes."""
        return net_change((update.relation, update.delta) for update in self.updates)


def net_change(changes: Iterable[tuple[str, Rows]]) -> dict[str, Rows]:
    """The sum of changes for each relation, in time linear in their size; empty ones left out."""
    parts: dict[str, list[Rows]] = {}
    for relation, delta in changes:
        parts.setdefault(relation, []).append(delta)
    sums = {
        name: Rows.sum(found[0].schema, found) if len(found) > 1 else found[0]
        for name, found in parts.items()
    }
    return {relation: delta for relation, delta in sums.items() if delta}


def joined(parts: Iterable[Transaction]) -> Transaction:
    """The whole of a global transaction from all of its parts."""
    parts = list(parts)
    return Transaction(
        parts[0].id,
        tuple(update for part in parts for update in part.updates),
        tuple(source for part in parts for source in part.sources),
        parts[0].spans,
        tuple(number for part in parts for number in part.numbers),
    )


def show_update(update: Update) -> str:
    """`insert(r2, [2, 3])`, as the papers print it."""
    shown = []
    removed = [row for row, n in update.delta.sorted_items() for _ in range(-n)]
    added = [row for row, n in update.delta.sorted_items() for _ in range(n)]
    if len(removed) == len(added) == 1:
        return f"update({update.relation}, {show_row(removed[0])} → {show_row(added[0])})"
    shown += [f"delete({update.relation}, {show_row(row)})" for row in removed]
    shown += [f"insert({update.relation}, {show_row(row)})" for row in added]
    return ", ".join(shown) or f"no change of {update.relation}"


def show_transaction(transaction: Transaction) -> str:
    shown = ", ".join(show_update(update) for update in transaction.updates)
    return f"{transaction.id} = " + (f"⟨{shown}⟩" if len(transaction.updates) > 1 else shown)
