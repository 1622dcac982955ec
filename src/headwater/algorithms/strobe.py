"""Strobe and T-Strobe: action lists, applied when no query is unanswered.

Strobe paper, sections 5.2 and 6.1: for views over several sources that show the key of every
relation. A deletion is put on the action list AL by key, and remembered by every query under
way (`pending`), to be applied to its answer. An insertion is asked for, through the query
processor, and its answer put on AL. When no query is unanswered AL is applied to the view as
one step, without adding duplicate rows.

Strobe takes each update by itself: strong for transactions of one update, only convergent for
others, since it may show the middle of a transaction. T-Strobe takes a source-local transaction
as one unit, with one query for all its insertions: strong for those.

Choices: a row that a transaction inserts and deletes again is left out, and of a row that it
changes several times only the last form is inserted: its net change is taken. A modification is
a deletion and an insertion of one key; T-Strobe applies both in one step.
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
from headwater.protocol.effects import (
    Action,
    AddNew,
    Apply,
    Ask,
    Effect,
    apply_actions,
)
from headwater.protocol.events import AnswerArrived
from headwater.protocol.transactions import Transaction


@cached_hash
@dataclass(frozen=True)
class State:
    updates: int = 0
    actions: tuple[Action, ...] = ()
    """The action list (AL)."""
    unanswered: tuple[Unanswered, ...] = ()
    """The queries without an answer (UQS)."""
    received: tuple[str, ...] = ()


@dataclass(frozen=True)
class Strobe(Manager[State]):
    view: View
    whole_transactions: bool = False
    """Whether a transaction is one unit (T-Strobe)."""

    def __post_init__(self) -> None:
        require_keys(self.view, "t-strobe" if self.whole_transactions else "strobe")

    def start(self, contents: Rows, base: Mapping[str, Rows]) -> State:
        return State()

    def take_transaction(
        self, state: State, transaction: Transaction
    ) -> tuple[State, tuple[Effect, ...]]:
        state = replace(state, received=(*state.received, transaction.id))
        if self.whole_transactions:
            return self._take_unit(state, transaction.deltas)
        effects: tuple[Effect, ...] = ()
        for update in transaction.updates:
            state, more = self._take_unit(state, {update.relation: update.delta})
            effects += more
        return state, effects

    def _take_unit(
        self, state: State, deltas: Mapping[str, Rows]
    ) -> tuple[State, tuple[Effect, ...]]:
        number = state.updates + 1
        deletions = key_deletes(self.view, deltas)
        state = replace(
            state,
            updates=number,
            actions=(*state.actions, *deletions),
            unanswered=tuple(
                replace(query, pending=(*query.pending, *deletions)) for query in state.unanswered
            ),
        )
        evaluation, ask = begin(f"Q{number}", insertions(self.view, deltas), self.view.schema)
        return self._go_on(state, Unanswered(evaluation), ask)

    def take_answer(self, state: State, answer: AnswerArrived) -> tuple[State, tuple[Effect, ...]]:
        found, others = split_off(state.unanswered, answer.label)
        evaluation, ask = incorporate(found.evaluation, answer)
        state = replace(state, unanswered=others)
        return self._go_on(state, replace(found, evaluation=evaluation), ask)

    def _go_on(
        self, state: State, query: Unanswered, ask: Ask | None
    ) -> tuple[State, tuple[Effect, ...]]:
        """Wait for the next answer, or put the compensated result on the action list."""
        if ask is not None:
            return replace(state, unanswered=(*state.unanswered, query)), (ask,)
        answer = apply_actions(query.evaluation.collected, query.pending)
        actions = (*state.actions, AddNew(answer)) if answer else state.actions
        if state.unanswered:
            return replace(state, actions=actions), ()
        step = Apply(actions, state.received)
        return replace(state, actions=(), received=()), (step,)
