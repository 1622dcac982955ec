"""Copies of relations beside a view: what was received of them and is not stored yet, and the
questions that they answer.

The copies that are stored are at the vector of the newest commit. What was handed to the view's
manager since then is kept here, so that both together are the relations exactly as the manager
knows them. Questions are answered one at a time, each when everything before it is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from headwater.algebra.copies import CopyParts
from headwater.algebra.rows import Rows
from headwater.protocol.action_lists import StoredView
from headwater.protocol.copies import answer_from, find_in, is_answered_by, relations_of
from headwater.protocol.effects import Ask
from headwater.protocol.events import AnswerArrived
from headwater.protocol.transactions import Transaction


@dataclass(frozen=True)
class Consult:
    """Answer a question from the copies; nothing else is to be done to the view before."""

    ask: Ask
    parts: CopyParts
    ahead: Mapping[str, Rows]
    """What the copied relations have changed by since what is stored."""

    def answer(
        self, stored: StoredView, lift: Callable[[Rows], Rows] = lambda rows: rows
    ) -> AnswerArrived:
        return answer_from(self.ask, find_in(stored, self.parts, self.ahead, lift))


class Copied:
    """What has happened to the copied relations of one view; nothing if there are none."""

    def __init__(self, parts: CopyParts | None) -> None:
        self._parts = parts
        self._received: dict[str, dict[str, Rows]] = {}
        """By transaction, what was received and the view does not reflect yet."""
        self._reflected: list[dict[str, Rows]] = []
        """What it reflects and was not committed."""
        self._asked: deque[Ask] = deque()

    def takes(self, ask: Ask) -> bool:
        """Whether the copies answer a question; its turn comes in `next`."""
        if self._parts is None or not is_answered_by(self._parts.by_name, ask):
            return False
        self._asked.append(ask)
        return True

    @property
    def is_asked(self) -> bool:
        """Whether a question waits for its turn."""
        return bool(self._asked)

    def receive(self, transaction: Transaction) -> None:
        if self._parts is not None:
            known = self._parts.by_name
            found = {name: rows for name, rows in transaction.deltas.items() if name in known}
            if found:
                self._received[transaction.id] = found

    def reflect(self, transaction: str) -> Iterator[Rows]:
        """What is to be stored of a transaction, which the next commit takes in."""
        found = self._received.pop(transaction, None)
        if found is not None and self._parts is not None:
            self._reflected.append(found)
            for name, rows in found.items():
                yield self._parts.copied(name, rows)

    def committed(self) -> None:
        """What was reflected is in the commit that comes next."""
        self._reflected.clear()

    def next(self) -> Consult:
        """The question whose turn it is."""
        assert self._parts is not None
        ask = self._asked.popleft()
        return Consult(ask, self._parts, self._ahead(relations_of(ask)))

    def _ahead(self, names: Collection[str]) -> dict[str, Rows]:
        parts: dict[str, list[Rows]] = {}
        for changes in (*self._received.values(), *self._reflected):
            for name in changes.keys() & names:
                parts.setdefault(name, []).append(changes[name])
        return {name: Rows.sum(found[0].schema, found) for name, found in parts.items()}
