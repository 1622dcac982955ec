"""Source transactions: what the monitors report."""

from __future__ import annotations

import json
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


LONGEST_ID = 200
MOST_PARTS = 1000


@dataclass(frozen=True)
class Tag:
    """A transaction is one of so many parts of a global one, as its application says.

    One that cannot be read is told by `mistake`; its transaction is a local one.
    """

    id: str
    parts: int
    mistake: str = ""

    @classmethod
    def of(cls, id_: object, parts: object) -> Tag:
        """What an application has written, if it can be read."""
        if not isinstance(id_, str) or not 0 < len(id_) <= LONGEST_ID:
            return cls("", 0, f"its id is not a text of 1 to {LONGEST_ID} characters")
        if not isinstance(parts, int) or isinstance(parts, bool) or not 1 <= parts <= MOST_PARTS:
            return cls(id_, 0, f"its number of parts is not a whole number from 1 to {MOST_PARTS}")
        return cls(id_, parts)

    @classmethod
    def from_json(cls, text: str | bytes) -> Tag:
        """What an application has written as `{"id": "...", "parts": 2}`."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return cls("", 0, "it is not JSON")
        if not isinstance(found, dict) or set(found) != {"id", "parts"}:
            return cls("", 0, "it is not an object with the members id and parts")
        return cls.of(found["id"], found["parts"])


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
    tags: tuple[Tag, ...] = ()
    """Of which global transactions it is a part, where it is not told which sources they span.

    They are several where a source reports several transactions as one. What of these cancels out
    is then an update that changes nothing: it still belongs to each of them.
    """

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
    """The whole of a global transaction from all of its parts; of several, under all their ids."""
    parts = list(parts)
    return Transaction(
        "+".join(dict.fromkeys(part.id for part in parts)),
        tuple(update for part in parts for update in part.updates),
        tuple(dict.fromkeys(source for part in parts for source in part.sources)),
        tuple(dict.fromkeys(source for part in parts for source in part.spans)),
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
