"""Strobe and T-Strobe: action lists, applied when no query is unanswered.

Strobe paper, sections 5.2 and 6.1: for views over several sources that show the key of every
relation. A deletion is put on the action list AL by key, and remembered by every query under
way (`pending`), to be applied to its answer. An insertion is asked for, through the query
processor, and its answer put on AL. When no query is unanswered AL is applied to the view as
one step, without adding duplicate rows.

Strobe takes each update by itself: strong for transactions of one update, only convergent for
others, since it may show the middle of a transaction. T-Strobe takes a source-local transaction
as one unit, with one query for all its insertions: strong for those. ECA-Key and G-Strobe are the
same machine with other surroundings.

Choices: a transaction is said to be in the view with the last of its updates. A row that a
transaction inserts and deletes again is left out, and of a row that it changes several times only
the last form is inserted: its net change is taken. A modification is a deletion and an insertion of
one key; T-Strobe applies both in one step.

Section 9 lists what saves questions; each is an option, and none lowers the level:

- `order`: which source is asked first (`source_evaluate`).
- `fetch` (not the paper's): sources send partners alone (`fetching`).
- `local`: an insertion whose partners are known by key is taken in without asking. As printed the
  view is looked into as it was last updated, which brings back rows whose deletion is on AL; here
  AL is applied to it first. That holds also while queries are under way: a row that is there by
  then was derived from base rows that no received deletion has removed. While much is on AL it
  asks: for all at once that is cheaper than to apply AL for each.
- `batch`: while a query is under way, the insertions of up to that many units wait and are asked
  for in one query. Deletions never wait, and take out what waits under their key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headwater.algebra.hashing import cached_hash
from headwater.algebra.rows import Rows
from headwater.algebra.views import View
from headwater.algorithms.parts.keys import Unanswered, insertions, key_deletes, require_keys
from headwater.algorithms.parts.known_partners import known_effect, to_look_up
from headwater.algorithms.parts.manager import Effects, Manager
from headwater.algorithms.parts.source_evaluate import (
    NextSource,
    begin,
    incorporate,
    leftmost,
    split_off,
)
from headwater.protocol.effects import Action, AddNew, Apply, Ask, KeyDelete, apply_actions
from headwater.protocol.events import AnswerArrived, Event, TransactionArrived
from headwater.protocol.look_ups import LookUp, together
from headwater.protocol.transactions import Transaction

MOST_ACTIONS = 32
"""With more on the action list partners are not looked up in the view (`local`)."""


@cached_hash
@dataclass(frozen=True)
class State:
    updates: int = 0
    actions: tuple[Action, ...] = ()
    """The action list (AL)."""
    unanswered: tuple[Unanswered, ...] = ()
    """The queries without an answer (UQS)."""
    received: tuple[str, ...] = ()
    """The transactions taken in since the view was last updated (TT)."""
    waiting: tuple[tuple[str, Rows], ...] = ()
    """Insertions that have not been asked for, by relation."""
    waited: int = 0
    """How many units they are from."""
    contents: Rows | None = None
    """What was looked up in the view for the transaction that is being taken in (`local`)."""
    held: tuple[Transaction, ...] = ()
    """Parts of transactions that are not whole yet (G-Strobe)."""


@dataclass(frozen=True)
class Strobe(Manager[State]):
    view: View
    name: str = "strobe"
    whole_transactions: bool = False
    """Whether a transaction is one unit (T-Strobe)."""
    order: NextSource = leftmost
    local: bool = False
    fetch: bool = False
    batch: int = 1

    def __post_init__(self) -> None:
        require_keys(self.view, self.name)

    def start(self) -> State:
        return State()

    def looks_up(self, state: State, event: Event) -> tuple[LookUp, ...]:
        if not isinstance(event, TransactionArrived) or not self._looks(state):
            return ()
        now = self.current(replace(state, contents=event.seen))
        found: list[LookUp] = []
        for relation, delta in event.transaction.deltas.items():
            if self.view.relation(relation) is not None:
                rows = delta.positive()
                found += to_look_up(self.view, now, event.looked_up, relation, rows)
        return together(found)

    def handle(self, state: State, event: Event) -> tuple[State, Effects]:
        if isinstance(event, TransactionArrived):
            state = replace(state, contents=event.seen)
        state, effects = super().handle(state, event)
        return replace(state, contents=None), effects

    def take_transaction(self, state: State, transaction: Transaction) -> tuple[State, Effects]:
        *first, last = [transaction.deltas] if self.whole_transactions else _by_update(transaction)
        effects: Effects = ()
        for deltas in first:
            state, more = self._take_unit(state, deltas)
            effects += more
        state = replace(state, received=(*state.received, transaction.id))
        state, more = self._take_unit(state, last)
        return state, (*effects, *more)

    def _take_unit(self, state: State, deltas: Mapping[str, Rows]) -> tuple[State, Effects]:
        deletions = key_deletes(self.view, deltas)
        state = replace(
            state,
            updates=state.updates + 1,
            actions=(*state.actions, *deletions),
            unanswered=tuple(self.remember(query, deletions) for query in state.unanswered),
        )
        state, unknown = self._take_in_known(state, deltas)
        return self._go_on(self._let_wait(state, deltas, unknown))

    def remember(self, query: Unanswered, deletions: tuple[KeyDelete, ...]) -> Unanswered:
        return replace(query, pending=(*query.pending, *deletions))

    def take_answer(self, state: State, answer: AnswerArrived) -> tuple[State, Effects]:
        found, others = split_off(state.unanswered, answer.label)
        evaluation, ask = incorporate(found.evaluation, answer)
        state = replace(state, unanswered=others)
        state, asked = self._follow(state, replace(found, evaluation=evaluation), ask)
        state, effects = self._go_on(state)
        return state, (*asked, *effects)

    # Insertions

    def _take_in_known(
        self, state: State, deltas: Mapping[str, Rows]
    ) -> tuple[State, dict[str, Rows]]:
        """Put on the action list what the view itself tells; the insertions it does not tell."""
        inserted = {
            relation: delta.positive()
            for relation, delta in deltas.items()
            if self.view.relation(relation) is not None and delta.positive()
        }
        if not self._looks(state):
            return state, inserted
        current = self.current(state)
        unknown: dict[str, Rows] = {}
        for relation, rows in inserted.items():
            for row, count in rows.items():
                one = Rows(rows.schema, {row: count})
                effect = known_effect(self.view, current, relation, one)
                if effect is None:
                    unknown[relation] = unknown[relation] + one if relation in unknown else one
                else:
                    state = self._add(state, effect)
        return state, unknown

    def _looks(self, state: State) -> bool:
        return self.local and len(state.actions) <= MOST_ACTIONS

    def current(self, state: State) -> Rows:
        """The view with the action list applied, to look up partners in."""
        return apply_actions(self.looked_up(state), state.actions)

    def looked_up(self, state: State) -> Rows:
        return state.contents if state.contents is not None else Rows.empty(self.view.schema)

    def _let_wait(
        self, state: State, deltas: Mapping[str, Rows], inserted: Mapping[str, Rows]
    ) -> State:
        """The insertions wait to be asked for; what was deleted waits no longer."""
        waiting = dict(state.waiting)
        for relation, rows in state.waiting:
            base, deleted = self.view.relation(relation), deltas.get(relation)
            assert base is not None
            if deleted is not None:
                gone = [base.key_of(row) for row in deleted.negative()]
                waiting[relation] = rows.key_delete(base.key, gone)
        for relation, rows in inserted.items():
            waiting[relation] = waiting[relation] + rows if relation in waiting else rows
        left = tuple((relation, rows) for relation, rows in waiting.items() if rows)
        return replace(state, waiting=left, waited=state.waited + bool(inserted) if left else 0)

    # Going on

    def _go_on(self, state: State) -> tuple[State, Effects]:
        """Ask for what waits, if it is time; update the view if nothing is missing."""
        effects: Effects = ()
        if state.waiting and (not state.unanswered or state.waited >= self.batch):
            query = insertions(self.view, dict(state.waiting))
            evaluation, ask = begin(
                f"Q{state.updates}", query, self.view.schema, self.order, self.fetch
            )
            state = replace(state, waiting=(), waited=0)
            state, effects = self._follow(state, Unanswered(evaluation), ask)
        if not self.may_update(state):
            return state, effects
        step = Apply(state.actions, state.received)
        if state.contents is not None:
            state = replace(state, contents=apply_actions(state.contents, state.actions))
        return replace(state, actions=(), received=()), (*effects, step)

    def may_update(self, state: State) -> bool:
        """Whether the action list may be applied to the view."""
        return not state.unanswered

    def _follow(
        self, state: State, query: Unanswered, ask: Ask | None
    ) -> tuple[State, tuple[Ask, ...]]:
        """Wait for the next answer, or put the compensated result on the action list."""
        if ask is not None:
            return replace(state, unanswered=(*state.unanswered, query)), (ask,)
        return self._add(state, apply_actions(query.evaluation.collected, query.pending)), ()

    def _add(self, state: State, rows: Rows) -> State:
        return replace(state, actions=(*state.actions, AddNew(rows))) if rows else state


def _by_update(transaction: Transaction) -> list[Mapping[str, Rows]]:
    """What each update changes; nothing if there is none."""
    return [{update.relation: update.delta} for update in transaction.updates] or [{}]
