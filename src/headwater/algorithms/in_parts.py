"""C-Strobe and C-TStrobe for views of several parts: one machine for each part, side by side.

C-Strobe holds the whole rows of one join, and what it asks for is told by the relations of that
join. So each part of a sum has a machine of its own, which gets every transaction and its own
answers, and takes one unit after the other. What a unit changes in a part is known exactly,
whenever it is known. So the steps of all parts for one unit are one step of the view: complete, as
each of them is.

A part that is ahead waits with its steps, not with its questions. Rows tell which part they belong
to (`View.with_keys`), so the steps of different parts touch different rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from headwater.algebra.hashing import cached_hash
from headwater.algebra.views import View
from headwater.algorithms.c_strobe import CStrobe
from headwater.algorithms.c_strobe import State as PartState
from headwater.algorithms.parts.keys import require_keys
from headwater.algorithms.parts.manager import Effects, Manager
from headwater.protocol.effects import Apply, Ask, Effect
from headwater.protocol.events import AnswerArrived
from headwater.protocol.managers import ViewManager
from headwater.protocol.transactions import Transaction


@cached_hash
@dataclass(frozen=True)
class State:
    parts: tuple[PartState, ...]
    steps: tuple[tuple[Apply, ...], ...]
    """For each part the steps that the others have not come to, oldest first."""


@dataclass(frozen=True)
class CStrobeInParts(Manager[State]):
    view: View
    whole_transactions: bool = False
    every: int = 1

    def __post_init__(self) -> None:
        require_keys(self.view, "c-t-strobe" if self.whole_transactions else "c-strobe")

    @cached_property
    def machines(self) -> tuple[CStrobe, ...]:
        alone = (replace(self.view, joins=(j,), top=None, members=()) for j in self.view.joins)
        return tuple(CStrobe(part, self.whole_transactions, self.every) for part in alone)

    def start(self) -> State:
        return State(tuple(m.start() for m in self.machines), ((),) * len(self.machines))

    def take_transaction(self, state: State, transaction: Transaction) -> tuple[State, Effects]:
        every = range(len(self.machines))
        return self._each(state, every, lambda m, s: m.take_transaction(s, transaction))

    def take_answer(self, state: State, answer: AnswerArrived) -> tuple[State, Effects]:
        label, _, part = answer.label.rpartition("/")
        own = replace(answer, label=label)
        return self._each(state, [int(part) - 1], lambda m, s: m.take_answer(s, own))

    def wants_idle(self, state: State) -> bool:
        """Only when all parts have come to one unit, so that they take the same ones together."""
        are_idle = not any(part.in_work for part in state.parts)
        return are_idle and any(part.queue for part in state.parts)

    def take_idle(self, state: State) -> tuple[State, Effects]:
        if not self.wants_idle(state):
            return state, ()
        return self._each(state, range(len(self.machines)), lambda m, s: m.take_idle(s))

    def _each(
        self,
        state: State,
        numbers: Iterable[int],
        take: Callable[[CStrobe, PartState], tuple[PartState, Effects]],
    ) -> tuple[State, Effects]:
        """Let some parts take an event; the view changes by the steps that all of them have."""
        parts, steps, asked = list(state.parts), list(state.steps), list[Effect]()
        for at in numbers:
            parts[at], effects = take(self.machines[at], parts[at])
            for effect in effects:
                if isinstance(effect, Ask):
                    asked.append(replace(effect, label=f"{effect.label}/{at + 1}"))
                elif isinstance(effect, Apply):
                    steps[at] = (*steps[at], effect)
        ready = min(map(len, steps))
        taken = zip(*(own[:ready] for own in steps), strict=True)
        state = State(tuple(parts), tuple(own[ready:] for own in steps))
        return state, (*asked, *map(_together, taken))


def _together(steps: tuple[Apply, ...]) -> Apply:
    (transactions,) = {step.transactions for step in steps}
    return Apply(tuple(action for step in steps for action in step.actions), transactions)


def c_strobe(view: View, whole_transactions: bool = False, every: int = 1) -> ViewManager[Any]:
    """The machine for a view of one part or of several."""
    if len(view.joins) == 1:
        return CStrobe(view, whole_transactions, every)
    return CStrobeInParts(view, whole_transactions, every)
