"""The query processor: evaluates a query over several sources, one question at a time.

`source_evaluate`, `next_source` and `Q<A>` of the Strobe paper, section 5.1, as a machine:
an `Evaluation` is a value, `advance` gives the next question or the end, `incorporate` puts
an answer in. A term with every relation bound is evaluated here and never sent, and one
that joins with nothing is dropped.

Choices: where the paper's `next_source` picks one expression of a union, all terms that can
go on at the chosen source go in one message (section 9 suggests it). Terms that the source
can finish are finished there, also where nothing joins their relations, so that a query over
one source sees one state of it; they are summed into one answer. Only the columns that the
rest of the query needs come back. The order of sources is a parameter: `leftmost`, as the papers'
examples have it, or `least`, which is to move less data. So is whether sources send what is known
back with each partner, as the papers have it, or (`fetches`) the partners alone, wherever a source
has one relation of a term to add, and an equality leads to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias, TypeVar

from headwater.algebra.evaluate import evaluate_term
from headwater.algebra.hashing import cached_hash
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.terms import Query, Term
from headwater.algorithms.parts.expected import Expected
from headwater.algorithms.parts.fetching import collapsed, equalities, fetched
from headwater.protocol.effects import Ask
from headwater.protocol.events import AnswerArrived

NextSource: TypeAlias = Callable[[Query], str]


@dataclass(frozen=True)
class Portion:
    """What a source adds to a term."""

    places: tuple[int, ...]
    """The places that its answer covers."""
    finishes: bool = False
    """Whether nothing of the term is left then."""
    fetches: bool = False
    """Whether it is rows of one relation, to be joined here."""

    def question(self, term: Term) -> Term:
        return fetched(term, *self.places) if self.fetches else term.part(self.places)


@cached_hash
@dataclass(frozen=True)
class Evaluation:
    """A query under way: `working` is what is left of it (the paper's WQ)."""

    label: str
    working: Query
    collected: Rows
    next_source: NextSource
    one_source: bool
    step: int = 0
    asked: tuple[Portion | None, ...] = ()
    """What the question under way adds to each working term, if anything."""
    fetches: bool = False
    """Whether sources send partners alone."""

    @property
    def is_done(self) -> bool:
        return not self.working


class _Evaluated(Protocol):
    @property
    def evaluation(self) -> Evaluation: ...


UnderWay = TypeVar("UnderWay", bound=_Evaluated)


def begin(
    label: str,
    query: Query,
    schema: Schema,
    next_source: NextSource | None = None,
    fetches: bool = False,
) -> tuple[Evaluation, Ask | None]:
    """Start evaluating `query`; without a question it is done already."""
    sources = {term.occurrence(at).relation.source for term in query for at in term.base}
    one_source = len(sources) <= 1
    evaluation = Evaluation(
        label,
        query,
        Rows.empty(schema),
        next_source or leftmost,
        one_source,
        fetches=fetches and not one_source,
    )
    evaluation, ask = _advance(evaluation)
    if ask is not None and evaluation.one_source:
        ask = replace(ask, kept=tuple(term for term in query if not term.base))
    return evaluation, ask


def incorporate(evaluation: Evaluation, answer: AnswerArrived) -> tuple[Evaluation, Ask | None]:
    """`WQ<A>`: put an answer in; the next question, or none when the query is done."""
    results = iter(answer.results)
    collected, working = evaluation.collected, []
    if any(portion is not None and portion.finishes for portion in evaluation.asked):
        collected = collected + next(results)
    for term, portion in zip(evaluation.working, evaluation.asked, strict=True):
        if portion is None:
            working.append(term)
        elif not portion.finishes:
            working.append(term.bind(portion.places, next(results)))
    return _advance(replace(evaluation, collected=collected, working=tuple(working), asked=()))


def split_off(queries: tuple[UnderWay, ...], label: str) -> tuple[UnderWay, tuple[UnderWay, ...]]:
    """The query under way that a question belongs to, and the others."""
    name = label.split("^")[0]
    found = next(query for query in queries if query.evaluation.label == name)
    return found, tuple(query for query in queries if query is not found)


def leftmost(query: Query) -> str:
    """The source of the leftmost base relation that joins with what is known."""
    term = query[0]
    for at in term.base:
        if not term.bound or connected_bound(term, (at,)):
            return term.occurrence(at).relation.source
    return term.occurrence(term.base[0]).relation.source


@dataclass(frozen=True)
class Least:
    """The source that should send the least back; the leftmost one among equals.

    That is where a row is expected to find the fewest partners. Where a relation is reached by its
    whole key it finds one at most: such answers are small, and a row without a partner is dropped
    before others are asked. Among equals the one that can join the most relations at once.

    Without statistics only keys tell. That pays where many rows refer to one and references hold;
    on tiny random relations, where most joins are empty, it gains nothing to speak of.
    """

    expected: Expected

    def __call__(self, query: Query) -> str:
        sources = dict.fromkeys(t.occurrence(at).relation.source for t in query for at in t.base)
        first = leftmost(query)
        return min(
            (source for source in sources if _portions(query, source)),
            key=lambda source: (*self._fan_out(query, source), source != first),
        )

    def _fan_out(self, query: Query, source: str) -> tuple[float, int]:
        """How many partners a row finds there, on average; minus how many relations are joined."""
        portions = _portions(query, source)
        found = sum(self._partners(term, places) for term, places in portions) / len(portions)
        return found, -sum(len(set(term.base) & set(places)) for term, places in portions)

    def _partners(self, term: Term, places: tuple[int, ...]) -> float:
        known = {name for factor in term.bound for name in factor.rows.schema.names}
        left, rows = set(term.base) & set(places), 1.0
        while left:
            at, found = min(
                ((at, self.expected.partners(term.join, at, known)) for at in sorted(left)),
                key=lambda each: each[1],
            )
            rows *= found
            known |= set(term.occurrence(at).schema.names)
            left.remove(at)
        return rows


def _portions(query: Query, source: str) -> list[tuple[Term, tuple[int, ...]]]:
    found = ((term, _portion(term, source)) for term in query)
    return [(term, places) for term, places in found if places is not None]


def next_sources(expected: Expected) -> Mapping[str, NextSource]:
    """The orders of sources by name; the first is the papers'."""
    return {"leftmost": leftmost, "least": Least(expected)}


def _advance(evaluation: Evaluation) -> tuple[Evaluation, Ask | None]:
    working = tuple(t for t in evaluation.working if t.base and all(b.rows for b in t.bound))
    collected = evaluation.collected
    for term in evaluation.working:
        if not term.base:
            collected = collected + evaluate_term(term, {})
    if evaluation.fetches:
        working = tuple(t for t in map(collapsed, working) if all(b.rows for b in t.bound))
    evaluation = replace(evaluation, working=working, collected=collected)
    if not working:
        return evaluation, None
    source = evaluation.next_source(working)
    asked = tuple(_added(term, source, evaluation.fetches) for term in working)
    step = evaluation.step + 1
    label = evaluation.label if evaluation.one_source else f"{evaluation.label}^{step}"
    queries = _queries(working, asked)
    assert queries, f"no term can go on at source {source}"
    return replace(evaluation, asked=asked, step=step), Ask(source, label, queries)


def _queries(working: Query, asked: tuple[Portion | None, ...]) -> tuple[Query, ...]:
    """First the sum of all terms that the source finishes, then each other portion."""
    pairs = [(t, p) for t, p in zip(working, asked, strict=True) if p is not None]
    whole = tuple(term for term, portion in pairs if portion.finishes)
    parts = [(portion.question(term),) for term, portion in pairs if not portion.finishes]
    return ((whole,) if whole else ()) + tuple(parts)


def _added(term: Term, source: str, fetches: bool) -> Portion | None:
    """What a source adds to a term now."""
    places = _portion(term, source)
    if places is None:
        return None
    new = tuple(at for at in places if at in term.base)
    if fetches and len(new) == 1 and equalities(term, *new):
        return Portion(new, fetches=True)
    return Portion(places, finishes=set(places) >= set(term.base))


def _portion(term: Term, source: str) -> tuple[int, ...] | None:
    """The places of a term that `source` can join now, with the bound rows they need."""
    here = [at for at in term.base if term.occurrence(at).relation.source == source]
    if not here:
        return None
    if len(here) == len(term.base):  # one snapshot; what nothing joins is a product anywhere
        return tuple(range(len(term.join.occurrences)))
    seed = [at for at in here if connected_bound(term, (at,))]
    if not seed:
        seed = here[:1] if not term.bound or _nothing_joins(term) else []
    chosen = _grow(term, seed, here)
    if not chosen:
        return None
    bound = connected_bound(term, chosen)
    return tuple(sorted({*chosen, *bound}))


def _nothing_joins(term: Term) -> bool:
    return not any(connected_bound(term, (at,)) for at in term.base)


def _grow(term: Term, seed: list[int], here: list[int]) -> list[int]:
    """`seed` and every place in `here` that conditions connect to it."""
    chosen = list(seed)
    for _ in here:
        chosen += [
            at for at in here if at not in chosen and any(joins(term, at, c) for c in chosen)
        ]
    return chosen


def connected_bound(term: Term, places: Iterable[int]) -> set[int]:
    """The places of the bound factors that conditions connect to these places."""
    return {
        at
        for factor in term.bound
        if any(joins(term, here, there) for here in places for there in factor.at)
        for at in factor.at
    }


def joins(term: Term, a: int, b: int) -> bool:
    """Whether some condition looks at both occurrences."""
    return any(a in reach and b in reach for _, reach in term.join.safe_conjuncts)
