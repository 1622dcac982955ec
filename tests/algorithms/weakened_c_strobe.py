"""C-Strobe with one thing left out, or as printed: each must be caught.

tests/counterexamples/ keeps for each name in `WEAKENED` the scenario and the schedule that show
what goes wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headwater.algebra.rows import Rows
from headwater.algebra.values import Row
from headwater.algorithms.c_strobe import CStrobe, Places, State, Update, first_changes


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
