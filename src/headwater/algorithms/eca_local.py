"""ECA-Local: ECA that does without asking where the view itself tells what changes.

ECA paper, section 5.5, which leaves the details open. Local are:

- changes that the view's own conditions on their relation rule out;
- deletions from a relation whose key the view shows: by key, whatever the other relations;
- insertions whose partners the view shows (`known_partners`). Only when no query is under
  way, since otherwise the view is not the one to look at.

Everything else is asked for with ECA's compensation. Strong; never asks more than ECA.

How a local deletion fits among queries under way, which the paper calls not straightforward. At
any moment the view, the collected answers and the terms under way, evaluated now, add up to the
right view. Deleting by key from all three keeps that true. For a term in which the relation is
still a base relation nothing is to be done: it will be evaluated after the deletion. For a term
in which rows of that relation are bound, the deleted one perhaps among them, the answer has to
lose the key when it comes. So each term is answered by itself, and keeps the deletions that
concern it; a compensation inherits them from the term that it compensates.

Choices: of a transaction the local deletions are taken first, then the rest as one update. `batch`
is ECA's: transactions that come while a question is unanswered wait, and are taken as one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headwater.algebra.hashing import cached_hash
from headwater.algebra.rows import Rows
from headwater.algebra.terms import Term, negated, query_of, substitute
from headwater.algebra.views import View
from headwater.algorithms.parts.keys import key_delete
from headwater.algorithms.parts.known_partners import known_effect, to_look_up
from headwater.algorithms.parts.manager import Manager
from headwater.algorithms.parts.source_evaluate import Evaluation, begin, incorporate
from headwater.protocol.effects import Action, Add, Apply, Ask, Effect, KeyDelete, apply_actions
from headwater.protocol.events import AnswerArrived, Event, TransactionArrived
from headwater.protocol.look_ups import LookUp
from headwater.protocol.transactions import Transaction, net_change


@cached_hash
@dataclass(frozen=True)
class Part:
    """A term under way, with the deletions that its answer has to lose."""

    term: Term
    evaluation: Evaluation
    question: str
    """The question in which it was asked."""
    pending: tuple[KeyDelete, ...] = ()


@cached_hash
@dataclass(frozen=True)
class State:
    collect: Rows
    updates: int = 0
    deletions: tuple[KeyDelete, ...] = ()
    """Deletions by key since the view was last updated."""
    parts: tuple[Part, ...] = ()
    received: tuple[str, ...] = ()
    waiting: tuple[Transaction, ...] = ()
    """Transactions of which nothing was taken in yet."""
    seen: Rows | None = None
    """What was looked up in the view for the transaction that is being taken in."""


@dataclass(frozen=True)
class EcaLocal(Manager[State]):
    view: View
    batch: int = 1

    def start(self) -> State:
        return State(Rows.empty(self.view.schema))

    def looks_up(self, state: State, event: Event) -> tuple[LookUp, ...]:
        if not isinstance(event, TransactionArrived) or state.parts:
            return ()
        state, left = self._without_local(replace(state, seen=event.seen), event.transaction.deltas)
        if len(left) != 1:
            return ()
        ((relation, delta),) = left.items()
        return to_look_up(self.view, self._now(state), event.looked_up, relation, delta)

    def handle(self, state: State, event: Event) -> tuple[State, tuple[Effect, ...]]:
        if isinstance(event, TransactionArrived):
            state = replace(state, seen=event.seen)
        state, effects = super().handle(state, event)
        return replace(state, seen=None), effects

    def take_transaction(
        self, state: State, transaction: Transaction
    ) -> tuple[State, tuple[Effect, ...]]:
        waiting = (*state.waiting, transaction)
        state = replace(state, waiting=waiting, received=(*state.received, transaction.id))
        if state.parts and len(waiting) < self.batch:
            return state, ()
        return self._take_waiting(state)

    def _take_waiting(self, state: State) -> tuple[State, tuple[Effect, ...]]:
        """Take in what waits, as one transaction."""
        if not state.waiting:
            return state, ()
        deltas = net_change(item for t in state.waiting for item in t.deltas.items())
        state = replace(state, updates=state.updates + 1, waiting=())
        state, left = self._without_local(state, deltas)
        effect = self._told_by_view(state, left)
        if effect is not None:
            return self._install(replace(state, collect=state.collect + effect), ())
        state, asks = self._ask(state, left)
        return self._install(state, asks)

    # What is local

    def _without_local(
        self, state: State, deltas: Mapping[str, Rows]
    ) -> tuple[State, dict[str, Rows]]:
        """Take in what is local whatever the view holds; what is left."""
        left = {}
        for relation, delta in deltas.items():
            relevant = self.view.relevant_rows(relation, delta)
            state, rest = self._delete(state, relation, relevant)
            if rest:
                left[relation] = rest
        return state, left

    def _now(self, state: State) -> Rows:
        """What was looked up in the view, with everything applied that was received."""
        seen = state.seen if state.seen is not None else Rows.empty(self.view.schema)
        return apply_actions(seen, state.deletions) + state.collect

    def _delete(self, state: State, relation: str, delta: Rows) -> tuple[State, Rows]:
        """Take the deletions in by key, if the view shows it; what is left of the change."""
        found = key_delete(self.view, relation, delta.negative()) if delta.negative() else None
        if found is None:
            return state, delta
        parts = tuple(
            replace(part, pending=(*part.pending, *found))
            if _is_bound(part.term, relation)
            else part
            for part in state.parts
        )
        collect = apply_actions(state.collect, found)
        deletions = (*state.deletions, *found)
        return replace(state, parts=parts, collect=collect, deletions=deletions), delta.positive()

    def _told_by_view(self, state: State, left: Mapping[str, Rows]) -> Rows | None:
        """The effect of insertions whose partners the view shows."""
        if not left:
            return Rows.empty(self.view.schema)
        if state.parts or len(left) > 1:
            return None
        ((relation, delta),) = left.items()
        if delta.negative():
            return None
        return known_effect(self.view, self._now(state), relation, delta)

    # What is asked for

    def _ask(self, state: State, left: Mapping[str, Rows]) -> tuple[State, tuple[Ask, ...]]:
        """ECA's query: `V<U>` and a compensation for every term under way."""
        terms = [(term, ()) for term in substitute(query_of(self.view), left)]
        wanted: list[tuple[Term, tuple[KeyDelete, ...]]] = list(terms)
        for part in state.parts:
            for term in negated(substitute((part.term,), left)):
                wanted.append((term, part.pending))
        collect, parts, asks = state.collect, [], []
        for number, (term, pending) in enumerate(wanted, 1):
            label = f"Q{state.updates}.{number}"
            evaluation, ask = begin(label, (term,), self.view.schema)
            if ask is None:
                collect = collect + apply_actions(evaluation.collected, pending)
            else:
                parts.append(Part(term, evaluation, label, pending))
                asks.append(ask)
        state = replace(state, collect=collect)
        if len(self.view.sources) == 1 and asks:
            together = f"Q{state.updates}"
            parts = [replace(part, question=together) for part in parts]
            queries = tuple(query for ask in asks for query in ask.queries)
            asks = [Ask(asks[0].source, together, queries)]
        return replace(state, parts=(*state.parts, *parts)), tuple(asks)

    def take_answer(self, state: State, answer: AnswerArrived) -> tuple[State, tuple[Effect, ...]]:
        state, more = self._take_waiting(state)  # the answer reflects it
        state, effects = self._incorporate(state, answer)
        return state, (*more, *effects)

    def _incorporate(self, state: State, answer: AnswerArrived) -> tuple[State, tuple[Effect, ...]]:
        label = answer.label.split("^")[0]
        asked = [part for part in state.parts if part.question == label]
        state = replace(state, parts=tuple(p for p in state.parts if p.question != label))
        asks = []
        for part, result in zip(asked, answer.results, strict=True):
            own = AnswerArrived(answer.source, part.evaluation.label, (result,))
            evaluation, ask = incorporate(part.evaluation, own)
            if ask is None:
                found = apply_actions(evaluation.collected, part.pending)
                state = replace(state, collect=state.collect + found)
            else:
                asks.append(ask)
                again = replace(part, evaluation=evaluation)
                state = replace(state, parts=(*state.parts, again))
        return self._install(state, tuple(asks))

    def _install(self, state: State, asks: tuple[Ask, ...]) -> tuple[State, tuple[Effect, ...]]:
        """Update the view when nothing is under way."""
        if state.parts:
            return state, asks
        actions: tuple[Action, ...] = (*state.deletions, Add(state.collect))
        step = Apply(actions, state.received)
        return State(Rows.empty(self.view.schema), state.updates), (*asks, step)


def _is_bound(term: Term, relation: str) -> bool:
    """Whether rows stand in place of this relation in the term."""
    return any(
        term.occurrence(at).relation.name == relation for factor in term.bound for at in factor.at
    )
