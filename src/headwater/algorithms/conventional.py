"""The conventional algorithm: ask what an update changes, add the answer. Wrong, on purpose.

ECA paper, Algorithm 5.1, and its form for several sources as in the Strobe paper's
Example 0. It is what a centralized database does, applied to a warehouse: neither convergent
nor weakly consistent, since a question is answered later than the update that caused it.

Choices: it does not understand transactions and takes each update by itself. Over several
sources a deletion is done at the warehouse by key where the view shows the key (the
Strobe paper's Example 0 does so); over one source it is asked for, as Algorithm 5.1 does. A
transaction counts as taken in when the last of its updates is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headwater.algebra.hashing import cached_hash
from headwater.algebra.terms import query_of, substitute
from headwater.algebra.views import View
from headwater.algorithms.parts.keys import key_delete
from headwater.algorithms.parts.manager import Manager
from headwater.algorithms.parts.source_evaluate import Evaluation, begin, incorporate
from headwater.protocol.effects import Add, Apply, Effect, KeyDelete
from headwater.protocol.events import AnswerArrived
from headwater.protocol.transactions import Transaction, Update


@cached_hash
@dataclass(frozen=True)
class State:
    updates: int = 0
    """How many updates have been received."""
    under_way: tuple[tuple[Evaluation, str], ...] = ()
    """The queries without an answer, each with the transaction that caused it."""


@dataclass(frozen=True)
class Conventional(Manager[State]):
    view: View

    def start(self) -> State:
        return State()

    def take_transaction(
        self, state: State, transaction: Transaction
    ) -> tuple[State, tuple[Effect, ...]]:
        effects: list[Effect] = []
        for update in transaction.updates:
            state, caused = self._take_update(state, update, transaction.id)
            effects += caused
        if effects and not _is_under_way(state, transaction.id):
            effects = _naming(effects, transaction.id)
        return state, tuple(effects)

    def _take_update(
        self, state: State, update: Update, transaction: str
    ) -> tuple[State, list[Effect]]:
        state = replace(state, updates=state.updates + 1)
        effects: list[Effect] = []
        delta = update.delta
        if deletions := self._key_deletes(update):
            effects.append(Apply(deletions))
            delta = delta.positive()
        query = substitute(query_of(self.view), {update.relation: delta})
        if not query:
            return state, effects
        evaluation, ask = begin(f"Q{state.updates}", query, self.view.schema)
        if ask is None:
            return state, [*effects, Apply((Add(evaluation.collected),))]
        under_way = (*state.under_way, (evaluation, transaction))
        return replace(state, under_way=under_way), [*effects, ask]

    def _key_deletes(self, update: Update) -> tuple[KeyDelete, ...]:
        deleted = update.delta.negative()
        if not deleted or len(self.view.sources) == 1:
            return ()
        return key_delete(self.view, update.relation, deleted) or ()

    def take_answer(self, state: State, answer: AnswerArrived) -> tuple[State, tuple[Effect, ...]]:
        number = answer.label.split("^")[0]
        at = next(i for i, (e, _) in enumerate(state.under_way) if e.label == number)
        evaluation, transaction = state.under_way[at]
        others = state.under_way[:at] + state.under_way[at + 1 :]
        evaluation, ask = incorporate(evaluation, answer)
        if ask is None:
            state = replace(state, under_way=others)
            named = () if _is_under_way(state, transaction) else (transaction,)
            return state, (Apply((Add(evaluation.collected),), named),)
        under_way = (*state.under_way[:at], (evaluation, transaction), *state.under_way[at + 1 :])
        return replace(state, under_way=under_way), (ask,)


def _is_under_way(state: State, transaction: str) -> bool:
    """Whether something of a transaction has no answer yet."""
    return any(caused == transaction for _, caused in state.under_way)


def _naming(effects: list[Effect], transaction: str) -> list[Effect]:
    """The effects of a transaction that is whole with them: the last step says so."""
    *earlier, last = effects
    assert isinstance(last, Apply)
    return [*earlier, replace(last, transactions=(transaction,))]
