"""Tokens of the Rings protocols, and what a node does while it has them: lines 6 to 9 of Figure 1.

A token has an entry for each update under way: the terms of the view with the update bound in
them, and with every item bound that it has visited since. A visit gives each entry the value
that the item had before the updates which its node has not put into a token yet (`x_i` minus
`Delta_i`), and adds an entry for those updates.

To be run beside a real database, a visit asks the source and goes on with the answer. Updates
that commit in between are in the answer and, by the channel contract, known: they are taken out
like the pending ones, and stay pending.

Choices: an item is a source, with all its relations of the view. A node that owns a relation
would tear transactions over several of them. Where a term has several relations of one source,
the questions go one relation after the other: then all that is to be taken out is known, and
one answer in a single snapshot is not needed. What no condition joins travels side by side in
the token rather than multiplied out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from headwater.algebra.evaluate import evaluate, evaluate_term
from headwater.algebra.hashing import cached_hash
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.terms import Query, Term, bind_delta, changed_occurrences, query_of
from headwater.algebra.views import View
from headwater.algorithms.parts.source_evaluate import connected_bound
from headwater.protocol.effects import Ask
from headwater.protocol.events import AnswerArrived
from headwater.protocol.notation import show_query
from headwater.protocol.transactions import Transaction, net_change


@cached_hash
@dataclass(frozen=True)
class TokenEntry:
    """Updates of one item on their way round: the paper's `token[i]`, partly evaluated."""

    item: str
    transactions: tuple[str, ...]
    terms: Query
    """Without terms the updates change nothing."""

    @property
    def is_complete(self) -> bool:
        return not any(term.base for term in self.terms)

    def needs(self, item: str) -> bool:
        return any(places_at(term, item) for term in self.terms)

    def increment(self, schema: Schema) -> Rows:
        """What they add to the view, once complete."""
        return evaluate(self.terms, {}, schema)

    @property
    def byte_count(self) -> int:
        return sum(bound.rows.byte_count for term in self.terms for bound in term.bound)

    def __str__(self) -> str:
        return f"{self.item}: {show_query(self.terms)}"


@cached_hash
@dataclass(frozen=True)
class Token:
    """The token of a ring, or those of several that travel together; rings count from 0."""

    rings: tuple[int, ...]
    entries: tuple[TokenEntry, ...] = ()
    number: int = 0
    """How many increments of the ring have been sent: the paper's `sn`; not used in a star."""
    idle: int = 0
    """How many nodes in a row it has left unchanged; not used in a star."""

    @property
    def label(self) -> str:
        return "token" + ",".join(str(ring + 1) for ring in self.rings)

    @property
    def byte_count(self) -> int:
        return sum(entry.byte_count for entry in self.entries)

    def __str__(self) -> str:
        return f"{self.label} [{'; '.join(map(str, self.entries))}]"


@cached_hash
@dataclass(frozen=True)
class Piece:
    """One term of an entry while its token is here."""

    token: int
    entry: int
    term: Term
    changed: int | None = None
    """For the item's own updates: the occurrence whose change is bound. Those of its occurrences
    that come before it are wanted after the updates, the others before them."""


@cached_hash
@dataclass(frozen=True)
class Visit:
    """Tokens at a node, while the source is asked."""

    tokens: tuple[Token, ...]
    taken: tuple[Transaction, ...]
    pieces: tuple[Piece, ...]
    asked: tuple[tuple[int, ...] | None, ...] = ()
    """For each piece the places that the question under way covers, or None."""


def begin(view: View, item: str, tokens: Iterable[Token], taken: tuple[Transaction, ...]) -> Visit:
    """Tokens without an entry of this item arrive, and its updates `taken` get one."""
    deltas = net_change(change for t in taken for change in t.deltas.items())
    terms = query_of(view)
    pieces: list[Piece] = []
    found: list[Token] = []
    for at, token in enumerate(tokens):
        pieces += [
            Piece(at, number, term)
            for number, entry in enumerate(token.entries)
            for term in entry.terms
        ]
        if taken:
            pieces += [
                Piece(at, len(token.entries), _bound(terms[ring], place, deltas), place)
                for ring in token.rings
                for place in changed_occurrences(terms[ring], deltas)
            ]
            own = TokenEntry(item, tuple(t.id for t in taken), ())
            token = replace(token, entries=(*token.entries, own))
        found.append(token)
    return Visit(tuple(found), taken, tuple(pieces))


def _bound(term: Term, place: int, deltas: dict[str, Rows]) -> Term:
    return bind_delta(term, place, deltas[term.occurrence(place).relation.name])


def advance(visit: Visit, item: str, label: str) -> tuple[Visit, Ask | None]:
    """The next question to the source, or none when every term has what it needs of it."""
    pieces = tuple(p for p in visit.pieces if all(bound.rows for bound in p.term.bound))
    asked = tuple(_next_places(piece.term, item) for piece in pieces)
    visit = replace(visit, pieces=pieces, asked=asked)
    queries = tuple(
        (piece.term.part(places),)
        for piece, places in zip(pieces, asked, strict=True)
        if places is not None
    )
    return visit, Ask(item, label, queries) if queries else None


def incorporate(visit: Visit, answer: AnswerArrived, pending: tuple[Transaction, ...]) -> Visit:
    """Put an answer into the terms; `pending` are the updates not taken that it reflects."""
    results = iter(answer.results)
    pieces = tuple(
        piece if places is None else _with_answer(visit, piece, places, next(results), pending)
        for piece, places in zip(visit.pieces, visit.asked, strict=True)
    )
    return replace(visit, pieces=pieces, asked=())


def _with_answer(
    visit: Visit,
    piece: Piece,
    places: tuple[int, ...],
    rows: Rows,
    pending: tuple[Transaction, ...],
) -> Piece:
    question = piece.term.part(places)
    (inner,) = question.base
    at = places[inner]
    relation = piece.term.occurrence(at).relation.name
    is_old = piece.changed is None or at > piece.changed
    unseen = [t.deltas[relation] for t in pending if relation in t.deltas]
    if is_old:
        unseen += [t.deltas[relation] for t in visit.taken if relation in t.deltas]
    if unseen:
        error = Rows.sum(unseen[0].schema, unseen)
        rows = rows - evaluate_term(bind_delta(question, inner, error), {})
    return replace(piece, term=piece.term.bind(places, rows))


def finish(visit: Visit) -> tuple[Token, ...]:
    """The tokens as they leave."""
    terms: dict[tuple[int, int], list[Term]] = {}
    for piece in visit.pieces:
        terms.setdefault((piece.token, piece.entry), []).append(piece.term)
    return tuple(
        replace(
            token,
            entries=tuple(
                replace(entry, terms=tuple(terms.get((at, number), ())))
                for number, entry in enumerate(token.entries)
            ),
        )
        for at, token in enumerate(visit.tokens)
    )


def _next_places(term: Term, item: str) -> tuple[int, ...] | None:
    """A base occurrence at this item with the bound rows that join it, or None."""
    here = places_at(term, item)
    if not here:
        return None
    at = next((place for place in here if connected_bound(term, (place,))), here[0])
    return tuple(sorted({at, *connected_bound(term, (at,))}))


def places_at(term: Term, item: str) -> tuple[int, ...]:
    """The base occurrences of a term that are at a source."""
    return tuple(at for at in term.base if term.occurrence(at).relation.source == item)


def rings_of(view: View) -> tuple[tuple[str, ...], ...]:
    """For each term its items, in the one order of all items: that of their appearance.

    One order for all rings, so that tokens which wait for each other never do so in a circle.
    """
    items = [{o.relation.source for o in join.occurrences} for join in view.joins]
    return tuple(tuple(item for item in view.sources if item in found) for found in items)
