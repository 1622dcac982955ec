"""Questions about relations of which copies are kept: answered by the host of a view manager.

A host that keeps copies answers a question about copied relations itself, at once, from the
relations as the transactions left them that it has handed to the manager. That is the channel
contract with nothing in between, so a manager cannot tell, and need not know. A question that needs
another relation as well goes to its source as a whole: one question has one snapshot.

Rows of a copy are looked up by the join values that are known; only what is joined by no equality
is looked at whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from headwater.algebra.copies import CopyParts
from headwater.algebra.evaluate import evaluate_term
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.terms import Query, Term
from headwater.algebra.tops import PART
from headwater.algebra.values import Row
from headwater.algebra.views import equated_columns
from headwater.protocol.action_lists import StoredView
from headwater.protocol.effects import Ask
from headwater.protocol.events import AnswerArrived
from headwater.protocol.look_ups import LookUp

Find = Callable[[str, LookUp | None], Rows]
"""At least the rows of a relation that a look-up wants; all without one."""


def relations_of(ask: Ask) -> frozenset[str]:
    """The base relations that a question reads."""
    return frozenset(
        term.occurrence(at).relation.name
        for query in ask.queries
        for term in query
        for at in term.base
    )


def is_answered_by(copied: Collection[str], ask: Ask) -> bool:
    """Whether copies of these relations are all that a question needs.

    A question that reads none is another's to answer: a node that is away keeps its queries.
    """
    relations = relations_of(ask)
    return bool(relations) and relations <= set(copied)


def answer_from(ask: Ask, find: Find) -> AnswerArrived:
    """The answer to a question, of which every relation is copied."""
    results = tuple(_answered(query, find) for query in ask.queries)
    return AnswerArrived(ask.source, ask.label, results)


def _answered(query: Query, find: Find) -> Rows:
    return Rows.sum(query[0].join.schema, [_answered_term(term, find) for term in query])


def _answered_term(term: Term, find: Find) -> Rows:
    while term.base:
        if any(not factor.rows for factor in term.bound):
            return Rows.empty(term.join.schema)
        at, look_up = _next(term)
        occurrence = term.occurrence(at)
        rows = find(occurrence.relation.name, look_up)
        term = term.bind((at,), rows.renamed(occurrence.schema))
    return evaluate_term(term, {})


def _next(term: Term) -> tuple[int, LookUp | None]:
    """The base occurrence to look at next: one that is joined with known rows, if there is one."""
    for at in term.base:
        if look_up := _by_join_values(term, at):
            return at, look_up
    return term.base[0], None


def _by_join_values(term: Term, at: int) -> LookUp | None:
    """What the known rows allow in the columns that they are joined by; None if by none."""
    alias = f"{term.occurrence(at).alias}."
    pairs = [
        (here, there)
        for a, b in filter(None, map(equated_columns, term.join.condition))
        for here, there in ((a, b), (b, a))
        if term.join.owner[here] == at
    ]
    for factor in term.bound:
        known = {here: there for here, there in pairs if there in factor.rows.schema.positions}
        if known:
            values = factor.rows.distinct(list(known.values()))
            columns = tuple(here.removeprefix(alias) for here in known)
            return LookUp(columns, frozenset(v for v in values if None not in v))
    return None


# Copies beside the rows of a view


@dataclass(frozen=True)
class OwnRows:
    """The view's own rows of a stored view with copies, for who carries action lists out."""

    stored: StoredView
    parts: CopyParts

    @property
    def schema(self) -> Schema:
        return self.parts.own

    def touched(self, look_ups: Sequence[LookUp]) -> Rows:
        return self.parts.own_rows(self.stored.touched(look_ups))

    def whole(self) -> Rows:
        return self.parts.own_rows(self.stored.whole())


def find_in(
    stored: StoredView,
    parts: CopyParts,
    ahead: Mapping[str, Rows],
    lift: Callable[[Rows], Rows] = lambda rows: rows,
) -> Find:
    """Finds rows of copies in a stored view, with changes on top that are not stored yet."""

    def find(name: str, look_up: LookUp | None) -> Rows:
        copy = parts.by_name[name]
        if look_up is not None and not look_up.keys:
            return Rows.empty(copy.relation.schema)
        columns = () if look_up is None else look_up.columns
        keys: Collection[Row] = ((),) if look_up is None else look_up.keys
        wanted = LookUp(
            (PART, *(copy.stored[column] for column in columns)),
            frozenset((copy.number, *key) for key in keys),
        )
        found = parts.relation_rows(name, stored.touched([wanted]))
        return lift(found + ahead[name] if name in ahead else found)

    return find
