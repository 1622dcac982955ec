"""A node of a Rings protocol in a process of its own, as a machine: told events, it says its part.

The other end of `hosted`. The queries of its questions and the rows of their answers stay with it:
the host only learns that it asks, and says where in the order of transactions the answer belongs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from headwater.algebra.hashing import cached_hash
from headwater.algebra.rows import Rows
from headwater.algorithms.hosted import Did, Epoch, Told
from headwater.protocol.effects import Ask, Effect
from headwater.protocol.events import AnswerArrived
from headwater.protocol.managers import Node


@cached_hash
@dataclass(frozen=True)
class AwayState:
    epoch: Epoch
    node: Any
    handled: int = 0
    question: Ask | None = None
    """The one that has no answer yet."""
    answer: tuple[Rows, ...] | None = None
    """Its answer, as soon as the source has given one; not taken in yet."""


@dataclass(frozen=True)
class AwayNode:
    node: Node[Any]

    def start(self, epoch: Epoch) -> tuple[AwayState, Did]:
        """Begin anew: the view is right as far as the events that will be told follow it."""
        state, effects = self.node.start()
        return self._did(AwayState(epoch, state), effects)

    def answered(self, state: AwayState, results: tuple[Rows, ...]) -> AwayState:
        """The source has answered the question; the rows wait until their place is known."""
        return replace(state, answer=results)

    def handle(self, state: AwayState, told: Told) -> tuple[AwayState, Did | None]:
        """Take an event in; what an earlier or later life was told is no concern of this one."""
        if told.epoch != state.epoch:
            return state, None
        event = told.event
        if isinstance(event, AnswerArrived):
            assert state.question is not None
            assert state.answer is not None
            event = replace(event, results=state.answer)
            state = replace(state, question=None, answer=None)
        node, effects = self.node.handle(state.node, event)
        return self._did(replace(state, node=node, handled=state.handled + 1), effects)

    def _did(self, state: AwayState, effects: tuple[Effect, ...]) -> tuple[AwayState, Did]:
        for effect in effects:
            if isinstance(effect, Ask):
                assert state.question is None, "a node asks one question at a time"
                state = replace(state, question=effect)
        told = tuple(replace(e, queries=()) if isinstance(e, Ask) else e for e in effects)
        node = state.node
        settled, idle = self.node.is_settled(node), self.node.wants_idle(node)
        holds = self.node.holds_token(node)
        return state, Did(state.epoch, told, state.handled, settled, idle, holds)
