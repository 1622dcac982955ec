"""The Strobe family with one thing left out, or as printed: each must be caught."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.algebra.rows import Rows
from headwater.algorithms.integrator import ByNumber
from headwater.algorithms.strobe import State, Strobe
from headwater.protocol.events import AnswerArrived, Event


class LooksIntoTheViewAsItWas(Strobe):
    """Section 9, item 3 as printed: the action list is not applied before partners are found."""

    def current(self, state: State) -> Rows:
        return self.looked_up(state)


@dataclass(frozen=True)
class NumbersUpdatesOnly(ByNumber):
    """Section 6.2 as printed: transactions wait for earlier ones, answers for nothing."""

    def receive(self, source: str, event: Event) -> tuple[ByNumber, tuple[Event, ...]]:
        if isinstance(event, AnswerArrived):
            return self, (event,)
        found, released = super().receive(source, event)
        return NumbersUpdatesOnly(found.passed, found.waiting), released
