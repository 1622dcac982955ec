"""C-Strobe with one thing left out, or as printed: each must be caught.

`headwater.lab.counterexamples` keeps for each name in `WEAKENED` the scenario and the schedule that
show what goes wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from headwater.algebra.rows import Rows
from headwater.algebra.terms import Term, bind_delta
from headwater.algebra.values import Row
from headwater.algorithms.c_strobe import (
    CStrobe,
    Places,
    State,
    Unanswered,
    Update,
    _added,
    _net,
    first_changes,
)
from headwater.algorithms.parts.source_evaluate import begin, incorporate, split_off
from headwater.protocol.effects import Ask, Effect
from headwater.protocol.events import AnswerArrived


def rows_by_sign(updates: Iterable[Update], relation: str, sign: int) -> Iterator[tuple[int, Row]]:
    """The rows of a relation that these updates insert (or delete), each with its number."""
    for update in updates:
        delta = update.transaction.deltas.get(relation)
        if delta is not None:
            yield from ((update.number, row) for row in delta.scaled(sign).positive())


class AsPrinted(CStrobe):
    """Line 16 as printed: compares what the view shows of the rows."""

    def compensate_insertions(self, delta: Rows, queue: tuple[Update, ...]) -> Rows:
        for occurrence in self.join.occurrences:
            relation = occurrence.relation
            shown = [
                at
                for at, column in enumerate(relation.schema.names)
                if self.join.output_positions(self.join.occurrences.index(occurrence), (column,))
            ]
            deleted = [
                (number, tuple(row[at] for at in shown))
                for number, row in rows_by_sign(queue, relation.name, -1)
            ]
            inserted = {
                seen
                for number, row in rows_by_sign(queue, relation.name, 1)
                for seen in [tuple(row[at] for at in shown)]
                if not any(before < number and seen == gone for before, gone in deleted)
            }
            names = [occurrence.schema.names[at] for at in shown]
            delta = delta.key_delete(names, inserted)
        return delta


class DeletesByKeyAlone(CStrobe):
    """`key_delete` in place of `key_delete*`: an older row with the same key is taken out too."""

    def compensate_insertions(self, delta: Rows, queue: tuple[Update, ...]) -> Rows:
        changes = first_changes(queue)
        for occurrence in self.join.occurrences:
            relation = occurrence.relation
            if relation.name in changes:
                keys = [relation.key_of(row) for row in changes[relation.name].positive()]
                columns = [f"{occurrence.alias}.{column}" for column in relation.key]
                delta = delta.key_delete(columns, keys)
        return delta


class ForgetsThatRowsComeBack(CStrobe):
    """Line 16 without its condition: a row that was there, went and came back is taken out."""

    def compensate_insertions(self, delta: Rows, queue: tuple[Update, ...]) -> Rows:
        for occurrence in self.join.occurrences:
            inserted = [row for _, row in rows_by_sign(queue, occurrence.relation.name, 1)]
            delta = delta.key_delete(occurrence.schema.names, inserted)
        return delta


class KeepsInsertions(CStrobe):
    """Without line 16: what the answers saw too much stays."""

    def compensate_insertions(self, delta: Rows, queue: tuple[Update, ...]) -> Rows:
        return delta


class WithoutCompensatingQueries(CStrobe):
    """Without lines 12 to 15: what was deleted meanwhile is missing."""

    def _missed(self, state: State) -> list[Places]:
        return []


WEAKENED: dict[str, type[CStrobe]] = {
    "c-strobe-as-printed": AsPrinted,
    "c-strobe-deletes-by-key-alone": DeletesByKeyAlone,
    "c-strobe-forgets-that-rows-come-back": ForgetsThatRowsComeBack,
    "c-strobe-keeps-insertions": KeepsInsertions,
    "c-strobe-without-compensating-queries": WithoutCompensatingQueries,
}


class GroupedByRelation(CStrobe):
    """Compensating queries grouped as section 7 counts them: one for each order of relations.

    Not weaker, but it asks more. The relations in whose place a query has rows are in its
    label, in order: `Q1.3.2`. Each term has deleted rows in order of arrival.
    """

    def _compensate_deletions(self, state: State) -> tuple[State, list[Ask]]:
        return state, []

    def take_answer(self, state: State, answer: AnswerArrived) -> tuple[State, tuple[Effect, ...]]:
        found, others = split_off(state.unanswered, answer.label)
        evaluation, ask = incorporate(found.evaluation, answer)
        if ask is not None:
            waiting = replace(found, evaluation=evaluation)
            return replace(state, unanswered=(*others, waiting)), (ask,)
        state = replace(state, unanswered=others, delta=_added(state.delta, evaluation.collected))
        number, *path = evaluation.label[1:].replace(f",{state.in_work[0].number},0", "").split(".")
        asks: list[Effect] = []
        (own, inserted), *others_inserted = self._at_places(_net(state.in_work), 1).items()
        assert not others_inserted
        for at in range(len(self.join.occurrences)):
            longer = (*map(int, path), at)
            if at == own or len(set(longer)) < len(longer):
                continue
            start = bind_delta(self.whole, own, inserted)
            query = tuple(self._terms(start, longer, state.queue))
            label = "Q" + ".".join([number, *map(str, longer)])
            evaluation, ask = begin(label, query, self.whole.join.schema)
            if ask is None:
                state = replace(state, delta=_added(state.delta, evaluation.collected))
            else:
                asks.append(ask)
                waiting = Unanswered(evaluation, frozenset(longer))
                state = replace(state, unanswered=(*state.unanswered, waiting))
        if state.unanswered:
            return state, tuple(asks)
        state, effects = self._go_on(state, self.every)
        return state, (*asks, *effects)

    def _terms(
        self, term: Term, path: tuple[int, ...], queue: tuple[Update, ...]
    ) -> Iterator[Term]:
        """The term with every row that went first from the first relation, and so on after it."""
        if not path:
            yield term
            return
        relation = self.join.occurrences[path[0]].relation
        for at, update in enumerate(queue):
            for _, row in rows_by_sign([update], relation.name, -1):
                bound = bind_delta(term, path[0], Rows(relation.schema, {row: 1}))
                yield from self._terms(bound, path[1:], queue[at + 1 :])
