"""Copies of all base relations at the warehouse (SC): complete, and as big as the sources.

ECA paper, section 1.2. Nothing is ever asked: each transaction's effect on the view is
computed from the copies, as a telescoped delta, and added in one step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.algebra.evaluate import telescoped_delta
from headwater.algebra.hashing import cached_hash
from headwater.algebra.rows import Rows
from headwater.algebra.views import View
from headwater.algorithms.parts.manager import Manager
from headwater.protocol.effects import Add, Apply, Effect
from headwater.protocol.events import AnswerArrived
from headwater.protocol.transactions import Transaction


@cached_hash
@dataclass(frozen=True)
class State:
    copies: tuple[Rows, ...]
    """The base relations, in the order of `view.relations`."""


@dataclass(frozen=True)
class Copies(Manager[State]):
    view: View

    def start(self, contents: Rows, base: Mapping[str, Rows]) -> State:
        return State(tuple(base[relation.name] for relation in self.view.relations))

    def take_transaction(
        self, state: State, transaction: Transaction
    ) -> tuple[State, tuple[Effect, ...]]:
        names = [relation.name for relation in self.view.relations]
        old = dict(zip(names, state.copies, strict=True))
        deltas = {n: delta for n, delta in transaction.deltas.items() if n in old}
        new = {name: rows + deltas[name] if name in deltas else rows for name, rows in old.items()}
        change = telescoped_delta(self.view, deltas, old, new)
        return State(tuple(new.values())), (Apply((Add(change),), (transaction.id,)),)

    def take_answer(self, state: State, answer: AnswerArrived) -> tuple[State, tuple[Effect, ...]]:
        raise AssertionError("nothing is ever asked")
