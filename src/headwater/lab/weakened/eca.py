"""The ECA family with one thing left out, or as printed: each must be caught."""

from __future__ import annotations

from dataclasses import replace

from headwater.algebra.rows import Rows
from headwater.algebra.terms import Query, negated, query_of, substitute
from headwater.algorithms.eca import Eca, State, Unanswered, to_send
from headwater.algorithms.parts.keys import Unanswered as KeyUnanswered
from headwater.algorithms.parts.source_evaluate import begin
from headwater.algorithms.recompute import Recompute
from headwater.algorithms.recompute import State as RecomputeState
from headwater.algorithms.strobe import Strobe
from headwater.protocol.effects import Add, Apply, Ask, Effect, KeyDelete
from headwater.protocol.transactions import Transaction


class WithoutCompensation(Eca):
    """Collects answers, but does not take out what they wrongly see."""

    def take_transaction(
        self, state: State, transaction: Transaction
    ) -> tuple[State, tuple[Effect, ...]]:
        alone, effects = super().take_transaction(replace(state, unanswered=()), transaction)
        unanswered = (*state.unanswered, *alone.unanswered)
        return replace(alone, unanswered=unanswered), effects


class InstallsEarly(Eca):
    """Updates the view after every answer, whether or not a query is unanswered."""

    def _go_on(
        self, state: State, query: Unanswered, ask: Ask | None
    ) -> tuple[State, tuple[Effect, ...]]:
        if ask is not None:
            return super()._go_on(state, query, ask)
        step = Apply((Add(query.evaluation.collected),), state.received)
        return replace(state, collect=Rows.empty(self.view.schema), received=()), (step,)


class CompensatesByParts(Eca):
    """Takes a transaction as the sum of its relations' changes: they also meet each other."""

    def take_transaction(
        self, state: State, transaction: Transaction
    ) -> tuple[State, tuple[Effect, ...]]:
        number = state.updates + 1
        query: Query = ()
        for relation, delta in transaction.deltas.items():
            query += substitute(query_of(self.view), {relation: delta})
            for other in state.unanswered:
                query += negated(substitute(other.query, {relation: delta}))
        state = replace(state, updates=number, received=(*state.received, transaction.id))
        evaluation, ask = begin(f"Q{number}", query, self.view.schema)
        return self._go_on(state, Unanswered(to_send(query), evaluation), ask)


class WithoutALastOne(Recompute):
    """RV as printed: after every few updates, and never when nothing goes on."""

    def wants_idle(self, state: RecomputeState) -> bool:
        return False


class ForgetsDeletions(Strobe):
    """ECA-Key as printed: a deletion does not reach the answers under way."""

    def remember(self, query: KeyUnanswered, deletions: tuple[KeyDelete, ...]) -> KeyUnanswered:
        return query
