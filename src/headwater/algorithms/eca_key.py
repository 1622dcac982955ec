"""ECA-Key: deletions by key without asking, insertions without compensation.

ECA paper, section 5.4: for views over one source that show the key of every relation. The view has
no duplicates then. COLLECT is a working copy of the view. Strong.

Choices:

- As printed it is wrong for a deletion of a tuple that takes part in a query under way: the
  deletion is applied to COLLECT before the answer that contains the tuple arrives. So each
  query keeps the deletions that were received while it was under way, and they are applied to
  its answer, as Strobe does. The printed form's counterexample is kept in the tests.
- Of a transaction, the deletions are applied first, then one query asks for all insertions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headwater.algebra.hashing import cached_hash
from headwater.algebra.rows import Rows
from headwater.algebra.views import View
from headwater.algorithms.keys import Unanswered, insertions, key_deletes, require_keys
from headwater.algorithms.manager import Manager
from headwater.algorithms.source_evaluate import begin, incorporate, split_off
from headwater.protocol.effects import AddNew, Apply, Ask, Effect, KeyDelete, Replace, apply_actions
from headwater.protocol.events import AnswerArrived
from headwater.protocol.transactions import Transaction


@cached_hash
@dataclass(frozen=True)
class State:
    collect: Rows
    """A working copy of the view (COLLECT)."""
    updates: int = 0
    unanswered: tuple[Unanswered, ...] = ()
    received: tuple[str, ...] = ()


@dataclass(frozen=True)
class EcaKey(Manager[State]):
    view: View

    def __post_init__(self) -> None:
        require_keys(self.view, "eca-key")

    def start(self, contents: Rows, base: Mapping[str, Rows]) -> State:
        return State(contents)

    def take_transaction(
        self, state: State, transaction: Transaction
    ) -> tuple[State, tuple[Effect, ...]]:
        number = state.updates + 1
        deletions = key_deletes(self.view, transaction.deltas)
        state = replace(
            state,
            updates=number,
            received=(*state.received, transaction.id),
            collect=apply_actions(state.collect, deletions),
            unanswered=tuple(self.remember(u, deletions) for u in state.unanswered),
        )
        evaluation, ask = begin(
            f"Q{number}", insertions(self.view, transaction.deltas), self.view.schema
        )
        return self._go_on(state, Unanswered(evaluation), ask)

    def remember(self, query: Unanswered, deletions: tuple[KeyDelete, ...]) -> Unanswered:
        return replace(query, pending=(*query.pending, *deletions))

    def take_answer(self, state: State, answer: AnswerArrived) -> tuple[State, tuple[Effect, ...]]:
        found, others = split_off(state.unanswered, answer.label)
        evaluation, ask = incorporate(found.evaluation, answer)
        state = replace(state, unanswered=others)
        return self._go_on(state, replace(found, evaluation=evaluation), ask)

    def _go_on(
        self, state: State, query: Unanswered, ask: Ask | None
    ) -> tuple[State, tuple[Effect, ...]]:
        if ask is not None:
            return replace(state, unanswered=(*state.unanswered, query)), (ask,)
        answer = apply_actions(query.evaluation.collected, query.pending)
        state = replace(state, collect=apply_actions(state.collect, (AddNew(answer),)))
        if state.unanswered:
            return state, ()
        step = Apply((Replace(state.collect),), state.received)
        return replace(state, received=()), (step,)
