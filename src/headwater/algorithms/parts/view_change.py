"""Computing what one unit of updates changes: the process ViewChange of the PVM paper.

Figure 14, ViewChange and ProcessSubQuery, with the local compensation that SWEEP and POSSE
share. A unit is one transaction, or several taken together. Its delta telescopes: one
`Partial` for each changed occurrence, with the occurrences before it in the new state and
those after it in the old one. Each question joins a partial with exactly one base relation;
the answer contains, besides what is wanted, the effect of updates that were received
meanwhile, and that error is known locally: the same question with those updates in place
of the relation.

Which question comes next is a strategy: `sweep`, `nested_sweep`, `posse`.

Choices: with two base relations of a source in one question the error would contain
products of updates with unknown rows, so there is always one. Partials that have come to
cover the same relations and want the same states of the others are added up and go on as
one: this is how a transaction over several relations, or an absorbed update, shares a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

from headwater.algebra.evaluate import evaluate_term
from headwater.algebra.hashing import cached_hash
from headwater.algebra.rows import Rows
from headwater.algebra.terms import (
    Term,
    bind_delta,
    changed_occurrences,
    query_of,
)
from headwater.algebra.values import Row
from headwater.algebra.views import View, equated_columns
from headwater.algorithms.parts.fetching import collapsed
from headwater.algorithms.parts.update_queue import UpdateQueue
from headwater.protocol.effects import Ask
from headwater.protocol.events import AnswerArrived

Deltas: TypeAlias = Mapping[str, Rows]


@dataclass(frozen=True)
class Unseen:
    """What partials must not see of base occurrences: changes that were received after theirs."""

    taken: Callable[[Partial, int], tuple[tuple[int, Rows], ...]]
    """For a partial and a base occurrence: the changes of that relation by updates that have been
    taken into work, each with the number of the update."""
    waiting: UpdateQueue[Any]
    """The updates that wait: no partial may see any of them."""


@cached_hash
@dataclass(frozen=True)
class Partial:
    """The part of a unit's delta that stems from the change of one occurrence."""

    group: tuple[int, ...]
    """The numbers of the updates whose changes are bound here."""
    branch: int
    """Which of the view's joins."""
    at: int
    """The changed occurrence."""
    term: Term

    @property
    def origin(self) -> tuple[tuple[int, ...], int, int]:
        return self.group, self.branch, self.at

    @property
    def covered(self) -> frozenset[int]:
        """The occurrences that are bound already."""
        return frozenset(at for factor in self.term.bound for at in factor.at)


@cached_hash
@dataclass(frozen=True)
class Probe:
    """A question about one base occurrence for one partial."""

    partial: Partial
    at: int
    question: Term
    """What the source evaluates: one base relation, joined with rows that travel along."""
    fetches: bool = False
    """Whether the answer holds rows of the relation alone, to be joined at the warehouse."""

    @property
    def source(self) -> str:
        return self.partial.term.occurrence(self.at).relation.source


Question: TypeAlias = tuple[str, tuple[Probe, ...]]
"""A source, and the probes that go to it in one message."""


Workload: TypeAlias = Mapping[str, int]
"""How many questions of other units each source has not answered yet."""


class Strategy(Protocol):
    """Which questions a unit asks next, given its partials; called when none is under way."""

    def __call__(self, partials: tuple[Partial, ...], load: Workload) -> tuple[Question, ...]: ...


@cached_hash
@dataclass(frozen=True)
class Unit:
    """Updates that are handled and committed together."""

    number: int
    """The number of its first update; names its questions."""
    members: tuple[int, ...]
    """The numbers of its updates, in their order."""
    partials: tuple[Partial, ...]
    delta: Rows
    """The effect on the view, as far as it is known."""
    steps: int = 0
    under_way: tuple[tuple[str, tuple[Probe, ...]], ...] = ()
    """The questions without an answer, by label."""
    heard: frozenset[str] = frozenset()
    """The sources whose answers it has used."""
    absorbed: int = 0
    """How often it has taken further updates in."""

    @property
    def is_ready(self) -> bool:
        return not self.partials


def partials_of(view: View, group: tuple[int, ...], deltas: Deltas) -> tuple[Partial, ...]:
    """One partial for each occurrence that these changes touch."""
    return tuple(
        Partial(group, branch, at, bind_delta(term, at, deltas[_relation(term, at)]))
        for branch, term in enumerate(query_of(view))
        for at in changed_occurrences(term, deltas)
    )


def _relation(term: Term, at: int) -> str:
    return term.occurrence(at).relation.name


def advance(
    unit: Unit, unseen: Unseen, strategy: Strategy, load: Workload
) -> tuple[Unit, tuple[Ask, ...]]:
    """Settle what needs no question, then ask what comes next; nothing when it is ready."""
    if unit.under_way:
        return unit, ()
    alive = [
        replace(p, term=collapsed(p.term))
        for p in unit.partials
        if all(b.rows for b in p.term.bound)
    ]
    finished = [p for p in alive if not p.term.base]
    delta = unit.delta
    for partial in finished:
        delta = delta + evaluate_term(partial.term, {})
    partials = merged((p for p in alive if p.term.base), unseen)
    unit = replace(unit, partials=partials, delta=delta)
    asks: list[Ask] = []
    under_way: list[tuple[str, tuple[Probe, ...]]] = []
    for source, probes in strategy(partials, load) if partials else ():
        label = f"Q{unit.number}^{unit.steps + len(asks) + 1}"
        asks.append(Ask(source, label, tuple((probe.question,) for probe in probes)))
        under_way.append((label, probes))
    steps = unit.steps + len(asks)
    return replace(unit, steps=steps, under_way=tuple(under_way)), tuple(asks)


def put_answer(unit: Unit, answer: AnswerArrived, unseen: Unseen) -> Unit:
    """Put an answer into the partials that asked, without what they must not see."""
    probes = dict(unit.under_way)[answer.label]
    partials = list(unit.partials)
    for probe, rows in zip(probes, answer.results, strict=True):
        right = compensated(probe, rows, unseen)
        at = next(i for i, p in enumerate(partials) if p.origin == probe.partial.origin)
        partials[at] = replace(partials[at], term=_bound(partials[at].term, probe, right))
    return replace(
        unit,
        partials=tuple(partials),
        under_way=tuple(item for item in unit.under_way if item[0] != answer.label),
        heard=unit.heard | {answer.source},
    )


def compensated(probe: Probe, answer: Rows, unseen: Unseen) -> Rows:
    """The answer without the effect of updates that the partial must not see."""
    (at,) = probe.question.base
    changes = [delta for _, delta in unseen.taken(probe.partial, probe.at)]
    if unseen.waiting:
        relation = _relation(probe.question, at)
        changes += unseen.waiting.changes(relation, *_known_keys(probe.question, at))
    if not changes:
        return answer
    error = Rows.sum(changes[0].schema, changes)
    return answer - evaluate_term(bind_delta(probe.question, at, error), {})


def _known_keys(question: Term, at: int) -> tuple[tuple[str, ...], set[Row]]:
    """Columns of the base relation, and the values that a row needs in them to be in the answer.

    They are columns that the condition equates with columns of rows that travel along. Where it
    equates none, or Arrow or Spark holds those rows: no columns, and the key of every row.
    """
    alias = f"{question.occurrence(at).alias}."
    for factor in question.bound:
        pairs = [
            (here.removeprefix(alias), there)
            for a, b in filter(None, map(equated_columns, question.join.condition))
            for here, there in ((a, b), (b, a))
            if question.join.owner[here] == at and there in factor.rows.schema.positions
        ]
        if pairs and not factor.rows.rank:
            columns, known = zip(*pairs, strict=True)
            return columns, {key for key in factor.rows.distinct(known) if None not in key}
    return (), {()}


def merged(partials: Iterable[Partial], unseen: Unseen) -> tuple[Partial, ...]:
    """The partials, with those that can go on together added up."""
    found: dict[object, Partial] = {}
    for partial in partials:
        key = (partial.branch, partial.covered, _wants(partial, unseen))
        known = found.get(key)
        found[key] = partial if known is None else _sum(known, partial)
    return tuple(found.values())


def _wants(partial: Partial, unseen: Unseen) -> tuple[tuple[int, ...], ...]:
    """Which changes of each base occurrence it must not see: two that agree may merge.

    Nobody may see those that wait, so they make no difference.
    """
    return tuple(tuple(n for n, _ in unseen.taken(partial, at)) for at in partial.term.base)


def _sum(a: Partial, b: Partial) -> Partial:
    """Two partials with one bound factor each: their rows added up."""
    (left,), (right,) = a.term.bound, b.term.bound
    return replace(a, term=a.term.bind(left.at, left.rows + right.rows))


def _bound(term: Term, probe: Probe, rows: Rows) -> Term:
    if probe.fetches:
        return term.bind((probe.at,), rows)
    covered = {at for factor in term.bound for at in factor.at}
    return term.bind({*covered, probe.at}, rows)


def join_probe(partial: Partial, at: int) -> Probe:
    """A probe that sends all that is known along and gets it back joined with a relation."""
    covered = [place for factor in partial.term.bound for place in factor.at]
    return Probe(partial, at, partial.term.part([*covered, at]))
