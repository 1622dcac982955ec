"""C-Strobe and C-TStrobe: every update by itself, without waiting for silence. Complete.

Strobe paper, section 7: for views over several sources that show the key of every relation.
Updates wait in a holding queue and are taken one at a time, in order of arrival. A deletion is
done by key. For an insertion U_i the query `V<U_i>` is asked, and its answer, collected in
Delta, must become what it would have been had nothing happened since U_i:

- rows deleted since then may be missing, so compensating queries ask for what they would have
  given, with the deleted rows in place of their relation. Those may miss rows in turn, but each
  has one base relation less, so it ends: under updates that never pause the view still changes;
- rows inserted since then must not be seen: what they take part in leaves Delta by
  `key_delete*`, which compares whole rows, since an older row with the same key may belong there.

C-TStrobe takes a transaction as one unit: its deletions by key, and one query for all its
insertions. Complete for source-local transactions, and for global ones that the integrator has
joined. C-Strobe takes the updates of a transaction one after the other and shows its middle.

Choices:

- Line 16 as printed compares what the view shows of the rows. That is wrong when a join column
  is not shown: a row that was deleted and came back with another value there looks the same.
  So Delta holds whole base rows, whole rows are compared, and the projection, with all conditions
  that may fail, comes last. Columns that the view's conditions equate are held once.
- Line 16's "unless a deletion of the same row came before" is told by the first thing that
  happened to a row since U_i: a row that went first was there at U_i, one that came first was not,
  whatever happened to it later. The same tells which deletions to compensate.
- As section 7 suggests, compensating queries are grouped, here by the set of relations that are
  replaced: all rows deleted from them so far go together, and a query waits until no other one
  that could lead to it is unanswered. So there is one for each set, at most 2^(n-1) - 2 for an
  insertion into one of n relations. The printed bounds, K^(n-2) and (n-1)!, count the last
  level only.
- A query whose known rows do not join is not sent.
- `every`: the paper's periodic form. As soon as so many updates wait they are taken together, as
  the net change that they make; the last few, if they are fewer, when nothing goes on. Strong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from headwater.algebra.evaluate import evaluate_term
from headwater.algebra.expressions import ColumnRef
from headwater.algebra.hashing import cached_hash
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.terms import Query, Term, bind_delta, query_of
from headwater.algebra.values import Row
from headwater.algebra.views import Join, View
from headwater.algorithms.parts.keys import key_deletes, require_keys
from headwater.algorithms.parts.manager import Manager
from headwater.algorithms.parts.source_evaluate import Evaluation, begin, incorporate, split_off
from headwater.protocol.effects import Action, AddNew, Apply, Ask, Effect, apply_actions
from headwater.protocol.events import AnswerArrived
from headwater.protocol.transactions import Transaction, net_change

Places: TypeAlias = frozenset[int]
"""The relations of the view in whose place a query has deleted rows."""


@cached_hash
@dataclass(frozen=True)
class Update:
    """A unit in the holding queue: one update, or a whole transaction in C-TStrobe."""

    number: int
    transaction: Transaction
    """With this one update, unless whole transactions are taken."""
    is_last: bool = True
    """Whether its transaction ends with it."""


@cached_hash
@dataclass(frozen=True)
class Unanswered:
    """A query of `Q_i`, sent for the update in work, that is not answered."""

    evaluation: Evaluation
    places: Places


@cached_hash
@dataclass(frozen=True)
class State:
    delta: Rows
    """What the update in work adds to the view, as far as it is known (Delta)."""
    arrived: int = 0
    queue: tuple[Update, ...] = ()
    """The updates that are held, oldest first."""
    in_work: tuple[Update, ...] = ()
    """The update U_i that is processed; several with `every`."""
    unanswered: tuple[Unanswered, ...] = ()
    """The queries for it that have no answer yet (UQS)."""
    answered: tuple[tuple[Places, int], ...] = ()
    """Its other queries, each with the number of the last update received before the answer."""


@dataclass(frozen=True)
class CStrobe(Manager[State]):
    view: View
    whole_transactions: bool = False
    """Whether a transaction is one unit (C-TStrobe)."""
    every: int = 1
    """How many updates make one step of the view."""

    def __post_init__(self) -> None:
        assert len(self.view.joins) == 1  # several parts: see in_parts
        require_keys(self.view, "c-t-strobe" if self.whole_transactions else "c-strobe")

    @cached_property
    def whole(self) -> Term:
        """The view before its projection: whole base rows, nothing that may fail."""
        return query_of(replace(self.view, joins=(_unprojected(self.join),)))[0]

    @property
    def join(self) -> Join:
        (join,) = self.view.joins
        return join

    def start(self) -> State:
        return State(self._nothing)

    @property
    def _nothing(self) -> Rows:
        return Rows.empty(self.whole.join.schema)

    # Events

    def take_transaction(
        self, state: State, transaction: Transaction
    ) -> tuple[State, tuple[Effect, ...]]:
        units = [transaction] if self.whole_transactions else _by_update(transaction)
        held = tuple(
            Update(state.arrived + at, unit, at == len(units)) for at, unit in enumerate(units, 1)
        )
        arrived = state.arrived + len(units)
        return self._go_on(replace(state, arrived=arrived, queue=(*state.queue, *held)), self.every)

    def take_answer(self, state: State, answer: AnswerArrived) -> tuple[State, tuple[Effect, ...]]:
        found, others = split_off(state.unanswered, answer.label)
        evaluation, ask = incorporate(found.evaluation, answer)
        if ask is not None:
            waiting = replace(found, evaluation=evaluation)
            return replace(state, unanswered=(*others, waiting)), (ask,)
        state = replace(
            state,
            unanswered=others,
            answered=(*state.answered, (found.places, state.arrived)),
            delta=_added(state.delta, evaluation.collected),
        )
        return self._go_on(state, self.every)

    def wants_idle(self, state: State) -> bool:
        return not state.in_work and bool(state.queue)

    def take_idle(self, state: State) -> tuple[State, tuple[Effect, ...]]:
        return self._go_on(state, 1)

    def _go_on(self, state: State, fewest: int) -> tuple[State, tuple[Effect, ...]]:
        """Work on updates, one after the other, until an answer or an update is missing."""
        effects: list[Effect] = []
        while state.in_work or len(state.queue) >= fewest:
            if not state.in_work:
                state, asks = self._begin(state)
            else:
                state, asks = self._compensate_deletions(state)
            effects += asks
            if state.unanswered:
                break
            state, step = self._install(state)
            effects.append(step)
        return state, tuple(effects)

    # One update

    def _begin(self, state: State) -> tuple[State, list[Ask]]:
        """Take the next update and ask for its insertions: `Q_{i,i,0}`."""
        taken, rest = state.queue[: self.every], state.queue[self.every :]
        state = replace(state, in_work=taken, queue=rest)
        number = taken[0].number
        return self._ask(state, frozenset(), f"Q{number},{number},0")

    def _compensate_deletions(self, state: State) -> tuple[State, list[Ask]]:
        """Lines 12 to 15: ask for what the answers may have missed."""
        asks: list[Ask] = []
        for places in self._missed(state):
            if any(query.places < places for query in state.unanswered):
                continue  # its answer may ask for the same
            cause = max(update.number for update in state.queue if self._deletes(update, places))
            label = f"Q{state.in_work[0].number},{cause},{_asked(state)}"
            state, more = self._ask(state, places, label)
            asks += more
        return state, asks

    def _missed(self, state: State) -> list[Places]:
        """The sets of relations for which a query is needed and was not asked, small ones first.

        One is needed if it adds to an answered query a relation that lost rows before the answer.
        """
        known = {places for places, _ in state.answered} | {q.places for q in state.unanswered}
        needed = {
            places | {at}
            for places, heard in state.answered
            for at in self._lost(u for u in state.queue if u.number <= heard)
        }
        return sorted(needed - known, key=lambda places: (len(places), sorted(places)))

    def _ask(self, state: State, places: Places, label: str) -> tuple[State, list[Ask]]:
        """Ask what the insertions in work give with the deleted rows in these places."""
        lost = self._lost(state.queue)
        query: Query = ()
        for at, inserted in self._at_places(_net(state.in_work), 1).items():
            if at in places:
                continue
            term = bind_delta(self.whole, at, inserted)
            for place in places:
                term = bind_delta(term, place, lost[place])
            if _joins(term):
                query += (term,)
        evaluation, ask = begin(label, query, self.whole.join.schema)
        if ask is None:
            delta = _added(state.delta, evaluation.collected)
            return replace(state, answered=(*state.answered, (places, 0)), delta=delta), []
        unanswered = (*state.unanswered, Unanswered(evaluation, places))
        return replace(state, unanswered=unanswered), [ask]

    def _install(self, state: State) -> tuple[State, Apply]:
        """Lines 16 and 17: the update is known completely; change the view."""
        delta = self.compensate_insertions(self._whole_rows(state.delta), state.queue)
        added = evaluate_term(self._bound(delta), {})
        actions: tuple[Action, ...] = (*key_deletes(self.view, _net(state.in_work)), AddNew(added))
        done = tuple(update.transaction.id for update in state.in_work if update.is_last)
        state = replace(state, in_work=(), answered=(), delta=self._nothing)
        return state, Apply(actions, done)

    def compensate_insertions(self, delta: Rows, queue: tuple[Update, ...]) -> Rows:
        """Line 16: without the rows that were inserted since, by `key_delete*`."""
        for at, rows in self._at_places(first_changes(queue), 1).items():
            delta = delta.key_delete(self.join.occurrences[at].schema.names, rows)
        return delta

    def _lost(self, updates: Iterable[Update]) -> dict[int, Rows]:
        """The rows that were there before these updates and that they deleted, by place."""
        return self._at_places(first_changes(updates), -1)

    def _deletes(self, update: Update, places: Places) -> bool:
        return bool(places & self._at_places(update.transaction.deltas, -1).keys())

    def _at_places(self, changes: Mapping[str, Rows], sign: int) -> dict[int, Rows]:
        """What these changes insert (or delete), by the relation's place in the view."""
        found = {}
        for at, occurrence in enumerate(self.join.occurrences):
            delta = changes.get(occurrence.relation.name)
            if delta and (rows := delta.scaled(sign).positive()):
                found[at] = rows
        return found

    # Whole rows

    def _whole_rows(self, delta: Rows) -> Rows:
        """Delta with the columns that it holds once put back into their places."""
        return delta.project(_all_columns(self.join), [ref for ref, _ in _held(self.join)])

    def _bound(self, delta: Rows) -> Term:
        (term,) = query_of(self.view)
        return term.bind(range(len(self.join.occurrences)), delta)


def first_changes(updates: Iterable[Update]) -> dict[str, Rows]:
    """The first thing that these updates did to each row of each relation: +1 came, -1 went."""
    found: dict[str, dict[Row, int]] = {}
    schemas: dict[str, Schema] = {}
    for update in updates:
        for relation, delta in update.transaction.deltas.items():
            schemas[relation] = delta.schema
            rows = found.setdefault(relation, {})
            for row, count in delta.items():
                rows.setdefault(row, count)
    return {relation: Rows(schemas[relation], rows) for relation, rows in found.items()}


def _by_update(transaction: Transaction) -> list[Transaction]:
    """One transaction for each update; one without any stays as it is."""
    return [replace(transaction, updates=(u,)) for u in transaction.updates] or [transaction]


def _net(updates: Iterable[Update]) -> dict[str, Rows]:
    return net_change(change for u in updates for change in u.transaction.deltas.items())


def _asked(state: State) -> int:
    """How many queries there were for the update in work."""
    return len(state.answered) + len(state.unanswered)


def _added(delta: Rows, answer: Rows) -> Rows:
    """Line 11: without adding duplicate rows."""
    return apply_actions(delta, (AddNew(answer),))


def _joins(term: Term) -> bool:
    """Whether the known rows of a term join with each other."""
    places = [at for factor in term.bound for at in factor.at]
    return bool(evaluate_term(term.part(places), {}))


def _all_columns(join: Join) -> Schema:
    return Schema(tuple(c for o in join.occurrences for c in o.schema.columns))


def _held(join: Join) -> list[tuple[ColumnRef, bool]]:
    """For each column the one that stands for it in Delta, and whether that is itself."""
    columns = _all_columns(join).columns
    found = []
    for column in columns:
        first = next(c.name for c in columns if join.same_column(c.name, column.name))
        found.append((ColumnRef(first, column.type), first == column.name))
    return found


def _unprojected(join: Join) -> Join:
    """The join with all columns, equal ones once, and without conditions that may fail."""
    kept = tuple(ref for ref, own in _held(join) if own)
    schema = _all_columns(join).only([ref.name for ref in kept])
    return Join(join.occurrences, tuple(c for c, _ in join.safe_conjuncts), kept, schema)
