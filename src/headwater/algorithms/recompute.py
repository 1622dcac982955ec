"""Recompute the view after every `every` updates, and once more when idle (RV).

ECA paper, Algorithm D.1. What it keeps depends on how often a recomputation visits a source:

- one source: strong. The answer is the view at one state of the source.
- several sources, each visited once: strong as well. The answer puts together a state of
  each source, which is a vector that some order of the transactions passes through, and
  one recomputation after the other only moves forward.
- a source visited twice (relations r1 and r3 there, r2 elsewhere, joined in this order):
  only convergent. Its two visits see different states, and the mixture may match none.
- global transactions: at most weak. The sources are visited at different moments, and one
  may show its part of a transaction before another does.

Choices: as printed, RV converges only if `every` divides the number of updates, and over
several sources overlapping recomputations may finish in the wrong order. So one
recomputation runs at a time, and a last one when nothing has happened for a while.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headwater.algebra.hashing import cached_hash
from headwater.algebra.terms import query_of
from headwater.algebra.views import View
from headwater.algorithms.parts.manager import Manager
from headwater.algorithms.parts.source_evaluate import Evaluation, begin, incorporate, joins
from headwater.protocol.effects import Apply, Effect, Replace
from headwater.protocol.events import AnswerArrived
from headwater.protocol.transactions import Transaction


@cached_hash
@dataclass(frozen=True)
class State:
    recomputations: int = 0
    count: int = 0
    """Updates received since the last recomputation was sent; none once all are in the view."""
    received: tuple[Transaction, ...] = ()
    """Transactions received and not yet said to be in the view, without their updates."""
    under_way: Evaluation | None = None
    heard: tuple[tuple[str, int], ...] = ()
    """For each source that has answered, how many of `received` there were at its first answer."""


@dataclass(frozen=True)
class Recompute(Manager[State]):
    view: View
    every: int = 1

    def start(self) -> State:
        return State()

    def wants_idle(self, state: State) -> bool:
        return state.under_way is None and state.count > 0

    def take_transaction(
        self, state: State, transaction: Transaction
    ) -> tuple[State, tuple[Effect, ...]]:
        count = state.count + len(transaction.updates)
        received = (*state.received, replace(transaction, updates=()))
        return self._recompute_if_due(replace(state, count=count, received=received), self.every)

    def take_idle(self, state: State) -> tuple[State, tuple[Effect, ...]]:
        return self._recompute_if_due(state, 1)

    def _recompute_if_due(self, state: State, every: int) -> tuple[State, tuple[Effect, ...]]:
        if state.under_way is not None or state.count < every:
            return state, ()
        number = state.recomputations + 1
        evaluation, ask = begin(f"Q{number}", query_of(self.view), self.view.schema)
        assert ask is not None, "a view reads at least one base relation"
        state = replace(state, recomputations=number, count=0, under_way=evaluation, heard=())
        return state, (ask,)

    def take_answer(self, state: State, answer: AnswerArrived) -> tuple[State, tuple[Effect, ...]]:
        under_way = state.under_way
        assert under_way is not None
        if answer.source not in dict(state.heard):
            heard = (*state.heard, (answer.source, len(state.received)))
            state = replace(state, heard=heard)
        evaluation, ask = incorporate(under_way, answer)
        if ask is not None:
            return replace(state, under_way=evaluation), (ask,)
        shown, later = _divided(state)
        step = Apply((Replace(evaluation.collected),), shown)
        count = state.count if later else 0  # what came meanwhile may be in the answers already
        state, more = self._recompute_if_due(
            replace(state, count=count, under_way=None, received=later), self.every
        )
        return state, (step, *more)


def asks_each_once(view: View) -> bool:
    """Whether one recomputation visits each source once, so that it shows one state of each.

    That is so where conditions connect the relations of each source with each other.
    """
    if len(view.sources) == 1:
        return True
    if len(view.joins) > 1:
        return False
    (term,) = query_of(view)
    for source in view.sources:
        first, *others = (at for at in term.base if term.occurrence(at).relation.source == source)
        reached = {first}
        for _ in others:
            reached |= {at for at in others if any(joins(term, at, there) for there in reached)}
        if not reached >= set(others):
            return False
    return True


def _divided(state: State) -> tuple[tuple[str, ...], tuple[Transaction, ...]]:
    """The transactions that the answers reflect, and those that came behind an answer.

    A source that was not asked made no difference: what is received of it is reflected.
    """
    heard = dict(state.heard)
    shown, later = [], []
    for at, transaction in enumerate(state.received):
        if all(at < heard.get(source, at + 1) for source in transaction.sources):
            shown.append(transaction.id)
        else:
            later.append(transaction)
    return tuple(shown), tuple(later)
