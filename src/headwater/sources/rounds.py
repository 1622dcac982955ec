"""Which questions to a source go together: in one snapshot, and the same ones once.

Several views that ask a source at the same time are answered in one round: one transaction
there, one marker in its log. What two of them ask alike is evaluated once. The channel's promise
holds for each of them by itself, because only questions that wait are taken into a round: its
snapshot is opened after all of them were asked.

A question that has to wait at the source must not hold up others. So, beside those that ask
nothing but what is evaluated anyway, only such questions go along as look at no other relations,
and as were answered soon the last times, so that the whole round ends soon. What fails together
is asked anew one by one.

Who asks when a round has just begun waits for its end, but a moment at most, and goes together
with others who did the same. Who asks while nothing is under way does not wait, nor does who asks
alone.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from headwater.algebra.likeness import Likeness, as_asked, likeness
from headwater.algebra.rows import Rows
from headwater.algebra.terms import Query
from headwater.protocol.effects import Ask

LONGEST_S = 0.02
"""How long the questions of a round may take that are not the same, by experience."""
MOMENT_S = 0.005
"""So long a round has just begun, and is waited for. One to a server nearby takes 1 to 2 ms."""
AGAIN_S = 0.001
"""Before a question is asked again because its snapshot did not fit."""
_AROUND = 2
"""A round goes to the source for each query, and so often besides: to begin and to end."""

Who = TypeVar("Who")


@dataclass(frozen=True, eq=False)
class Question(Generic[Who]):
    """A question that waits, and whose it is."""

    ask: Ask
    who: Who
    expected_s: float = math.inf
    """How long it takes, by experience; infinity if there is none."""
    alone: bool = False
    """Whether it is not to go together with others."""
    again: bool = False
    """Whether an earlier snapshot did not fit."""

    @cached_property
    def relations(self) -> frozenset[str]:
        """What it looks at."""
        return frozenset(
            term.occurrence(at).relation.name
            for query in self.ask.queries
            for term in query
            for at in term.base
        )

    @cached_property
    def likenesses(self) -> tuple[Likeness, ...]:
        return tuple(map(likeness, self.ask.queries))


def together(waiting: Sequence[Question[Who]]) -> list[Question[Who]]:
    """Those that are asked next, in one round: the first, and what may go with it."""
    first, *others = waiting
    taken = [first]
    if first.alone or not others:
        return taken
    left = LONGEST_S - first.expected_s
    known = {each.key for each in first.likenesses}
    for question in others:
        if question.alone or not question.relations <= first.relations:
            continue
        if known.issuperset(each.key for each in question.likenesses):
            taken.append(question)
        elif question.expected_s <= left:
            taken.append(question)
            known.update(each.key for each in question.likenesses)
            left -= question.expected_s
    return taken


@dataclass(frozen=True, eq=False)
class Round(Generic[Who]):
    """Questions that are asked together; what is the same in them is evaluated once."""

    questions: Sequence[Question[Who]]

    @cached_property
    def _found(self) -> dict[Hashable, tuple[int, Likeness, Query]]:
        """By likeness: the place of its answer, and the query that is evaluated."""
        found: dict[Hashable, tuple[int, Likeness, Query]] = {}
        for question in self.questions:
            for each, query in zip(question.likenesses, question.ask.queries, strict=True):
                found.setdefault(each.key, (len(found), each, query))
        return found

    @property
    def queries(self) -> tuple[Query, ...]:
        """What is evaluated."""
        if len(self.questions) == 1:
            return self.questions[0].ask.queries
        return tuple(query for _, _, query in self._found.values())

    def share_s(self, took_s: float) -> float:
        """About what one query takes in a round, if this one took so long."""
        return took_s / (len(self.queries) + _AROUND)

    @property
    def saved(self) -> int:
        """How many queries were not evaluated, because another one is the same."""
        return sum(len(question.ask.queries) for question in self.questions) - len(self.queries)

    def results(self, answers: Sequence[Rows]) -> list[tuple[Rows, ...]]:
        """The answers to each question, from those to what is evaluated."""
        if len(self.questions) == 1:
            return [tuple(answers)]
        answers = [answer.settled() for answer in answers]  # several will look at them at once
        return [
            tuple(
                self._result(answers, each, query)
                for each, query in zip(question.likenesses, question.ask.queries, strict=True)
            )
            for question in self.questions
        ]

    def _result(self, answers: Sequence[Rows], wanted: Likeness, query: Query) -> Rows:
        at, given, _ = self._found[wanted.key]
        return as_asked(answers[at], given, wanted, query[0].join.schema)


class Rounds(Generic[Who]):
    """The questions to one source that wait, and the rounds that are under way."""

    def __init__(self) -> None:
        self.asked = 0
        """How many questions were answered."""
        self.rounds = 0
        """In how many rounds."""
        self.saved = 0
        """How many queries were not evaluated, because another one in the round was the same."""
        self._waiting: list[tuple[Question[Who], float]] = []
        """With when they were asked."""
        self._begun: dict[Round[Who], float] = {}

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)

    def put(self, question: Question[Who], now: float) -> None:
        self._waiting.append((question, now))

    def due(self, now: float) -> float:
        """When the next round may begin, if none ends before and nothing else is asked."""
        first, since = self._waiting[0]
        young = max(self._begun.values(), default=-math.inf) + MOMENT_S
        return now if first.alone else max(now, min(young, since + MOMENT_S))

    def begin(self, now: float) -> Round[Who] | None:
        """The next round; None if nothing waits, or has to wait still."""
        if not self._waiting or self.due(now) > now:
            return None
        found = Round(together([question for question, _ in self._waiting]))
        taken = set(found.questions)
        self._waiting = [each for each in self._waiting if each[0] not in taken]
        self._begun[found] = now
        return found

    def answered(self, done: Round[Who]) -> None:
        self.rounds += 1
        self.asked += len(done.questions)
        self.saved += done.saved

    def ended(self, done: Round[Who]) -> None:
        """It was answered, or it has failed."""
        del self._begun[done]
