"""LCA: the Lazy Compensating Algorithm, complete over one source.

ECA paper, end of section 5.3, which only sketches it. As in ECA every query under way is
compensated for every update that arrives, but each compensation belongs to the update whose
query it corrects, not to the one that caused it. An update's effect is known when all its
answers are there, compensations included, and is applied then, in order of arrival.

Choices: the compensations for one update that a new update makes necessary go as one query.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headwater.algebra.hashing import cached_hash
from headwater.algebra.rows import Rows
from headwater.algebra.terms import Query, negated, query_of, substitute
from headwater.algebra.views import View
from headwater.algorithms.eca import Unanswered, to_send
from headwater.algorithms.parts.manager import Manager
from headwater.algorithms.parts.source_evaluate import begin, incorporate
from headwater.protocol.effects import Add, Apply, Effect
from headwater.protocol.events import AnswerArrived
from headwater.protocol.transactions import Transaction


@cached_hash
@dataclass(frozen=True)
class Pending:
    """An update whose effect is not applied yet."""

    number: int
    transaction: str
    effect: Rows
    """What is known of it."""
    unanswered: tuple[Unanswered, ...] = ()


@cached_hash
@dataclass(frozen=True)
class State:
    updates: int = 0
    pending: tuple[Pending, ...] = ()
    """In order of arrival."""


@dataclass(frozen=True)
class Lca(Manager[State]):
    view: View

    def start(self) -> State:
        return State()

    def take_transaction(
        self, state: State, transaction: Transaction
    ) -> tuple[State, tuple[Effect, ...]]:
        number = state.updates + 1
        effects: list[Effect] = []
        pending = []
        for earlier in state.pending:
            wrong: Query = ()
            for other in earlier.unanswered:
                wrong += substitute(other.query, transaction.deltas)
            label = f"Q{number}.{earlier.number}"
            pending.append(self._ask(earlier, label, negated(wrong), effects))
        own = Pending(number, transaction.id, Rows.empty(self.view.schema))
        query = substitute(query_of(self.view), transaction.deltas)
        pending.append(self._ask(own, f"Q{number}.{number}", query, effects))
        return self._apply(State(number, tuple(pending)), effects)

    def _ask(self, pending: Pending, label: str, query: Query, effects: list[Effect]) -> Pending:
        """Send a query for an update, or add its value where nothing is to be sent."""
        evaluation, ask = begin(label, query, self.view.schema)
        if ask is None:
            return replace(pending, effect=pending.effect + evaluation.collected)
        effects.append(ask)
        unanswered = Unanswered(to_send(query), evaluation)
        return replace(pending, unanswered=(*pending.unanswered, unanswered))

    def take_answer(self, state: State, answer: AnswerArrived) -> tuple[State, tuple[Effect, ...]]:
        label = answer.label.split("^")[0]
        effects: list[Effect] = []
        pending = list(state.pending)
        for at, update in enumerate(pending):
            for found in update.unanswered:
                if found.evaluation.label != label:
                    continue
                evaluation, ask = incorporate(found.evaluation, answer)
                left = tuple(u for u in update.unanswered if u is not found)
                if ask is None:
                    effect = update.effect + evaluation.collected
                    pending[at] = replace(update, effect=effect, unanswered=left)
                else:
                    effects.append(ask)
                    again = replace(found, evaluation=evaluation)
                    pending[at] = replace(update, unanswered=(*left, again))
        return self._apply(replace(state, pending=tuple(pending)), effects)

    def _apply(self, state: State, effects: list[Effect]) -> tuple[State, tuple[Effect, ...]]:
        """Apply the updates that are known completely, as far as they come first."""
        pending = list(state.pending)
        while pending and not pending[0].unanswered:
            done = pending.pop(0)
            effects.append(Apply((Add(done.effect),), (done.transaction,)))
        return replace(state, pending=tuple(pending)), tuple(effects)
