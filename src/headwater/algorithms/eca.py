"""ECA: the Eager Compensating Algorithm, for views over one source.

ECA paper, Algorithm 5.2. For every update the warehouse asks for `V<U>`, less what the queries
under way will wrongly see of it: `Q_i = V<U_i> - sum of Q_j<U_i> over the unanswered Q_j`. Answers
are collected, and the view is updated when no query is unanswered. Strong; needs no keys.

Choices:

- A term with every relation bound is evaluated here and never sent (appendix D); its value
  is added when the answer to the rest of its query arrives, so that a trace shows the sum.
- A transaction over several relations is one unit. Compensating it by the sum of its parts,
  as one would read section 7, is wrong: the parts also meet each other. `substitute` includes
  and excludes the sets of changed occurrences.
- `batch`: while a query is unanswered up to that many transactions wait, and are then taken as one.
  They are taken before the next answer is, since it reflects them and the queries under way have
  to be compensated for all of them. So a long backlog costs two questions, and not one for each
  transaction with a term for each two of them.
- Over several sources it still runs, and is wrong: that is the Strobe paper's subject.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headwater.algebra.hashing import cached_hash
from headwater.algebra.rows import Rows
from headwater.algebra.terms import Query, negated, query_of, substitute
from headwater.algebra.views import View
from headwater.algorithms.parts.manager import Manager
from headwater.algorithms.parts.source_evaluate import Evaluation, begin, incorporate, split_off
from headwater.protocol.effects import Add, Apply, Ask, Effect
from headwater.protocol.events import AnswerArrived
from headwater.protocol.transactions import Transaction, net_change


@cached_hash
@dataclass(frozen=True)
class Unanswered:
    """A query that was sent: its terms as they were, and how far its evaluation is."""

    query: Query
    evaluation: Evaluation


@cached_hash
@dataclass(frozen=True)
class State:
    collect: Rows
    """The answers since the view was last updated (COLLECT)."""
    updates: int = 0
    unanswered: tuple[Unanswered, ...] = ()
    """The queries without an answer (UQS)."""
    received: tuple[str, ...] = ()
    """The transactions received since the view was last updated."""
    waiting: tuple[Transaction, ...] = ()
    """Those of them for which nothing has been asked."""


@dataclass(frozen=True)
class Eca(Manager[State]):
    view: View
    batch: int = 1

    def start(self) -> State:
        return State(Rows.empty(self.view.schema))

    def take_transaction(
        self, state: State, transaction: Transaction
    ) -> tuple[State, tuple[Effect, ...]]:
        """W_up, or wait for others to come along."""
        waiting = (*state.waiting, transaction)
        state = replace(state, waiting=waiting, received=(*state.received, transaction.id))
        if state.unanswered and len(waiting) < self.batch:
            return state, ()
        return self._take_waiting(state)

    def _take_waiting(self, state: State) -> tuple[State, tuple[Effect, ...]]:
        """W_up: ask what the updates change, and compensate what is under way for them."""
        if not state.waiting:
            return state, ()
        number = state.updates + 1
        deltas = net_change(item for t in state.waiting for item in t.deltas.items())
        query = substitute(query_of(self.view), deltas)
        for other in state.unanswered:
            query += negated(substitute(other.query, deltas))
        state = replace(state, updates=number, waiting=())
        evaluation, ask = begin(f"Q{number}", query, self.view.schema)
        return self._go_on(state, Unanswered(to_send(query), evaluation), ask)

    def take_answer(self, state: State, answer: AnswerArrived) -> tuple[State, tuple[Effect, ...]]:
        """W_ans: collect, and update the view when nothing is unanswered."""
        state, asked = self._take_waiting(state)
        found, others = split_off(state.unanswered, answer.label)
        evaluation, ask = incorporate(found.evaluation, answer)
        state = replace(state, unanswered=others)
        state, effects = self._go_on(state, replace(found, evaluation=evaluation), ask)
        return state, (*asked, *effects)

    def _go_on(
        self, state: State, query: Unanswered, ask: Ask | None
    ) -> tuple[State, tuple[Effect, ...]]:
        """Wait for the next answer, or collect the result."""
        if ask is not None:
            return replace(state, unanswered=(*state.unanswered, query)), (ask,)
        state = replace(state, collect=state.collect + query.evaluation.collected)
        if state.unanswered:
            return state, ()
        step = Apply((Add(state.collect),), state.received)
        return replace(state, collect=Rows.empty(self.view.schema), received=()), (step,)


def to_send(query: Query) -> Query:
    """The terms that a source has to evaluate; the others are evaluated at the warehouse."""
    return tuple(term for term in query if term.base)
