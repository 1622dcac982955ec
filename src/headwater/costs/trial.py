"""A dry run of a view manager in virtual time: what it asks, how much is moved, how long it takes.

The rules of time are those of the running system. A source answers one question of a view after
the other; meanwhile it delivers nothing but what the answer reflects. A question that copies answer
takes a look-up, is no message and moves nothing. A view's events are taken in one after the other.
Unless every state is to be shown, what is ready while more has arrived is committed together.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwater.algebra.views import View
from headwater.costs.made_up import Answer, MadeUp
from headwater.costs.statistics import Statistics
from headwater.protocol.copies import is_answered_by
from headwater.protocol.effects import Action, Add, AddNew, Apply, Ask, Effect, KeyDelete, Replace
from headwater.protocol.events import AnswerArrived, Event, Idled, TransactionArrived
from headwater.protocol.managers import ViewManager
from headwater.protocol.transactions import Transaction

IDLE_S = 0.05


@dataclass(frozen=True)
class Estimate:
    """What one transaction costs on average."""

    messages: float
    """Questions and answers."""
    bytes: float
    """Of answers."""
    time_s: float
    """From its commit at the source until the view shows it."""


@dataclass(frozen=True)
class Happening:
    """A transaction that is committed at a moment."""

    at_s: float
    transaction: Transaction

    @property
    def source(self) -> str:
        return self.transaction.sources[0]


@dataclass
class _Channel:
    """One source as the view has it."""

    coming: deque[Happening] = field(default_factory=deque)
    asked: deque[tuple[Ask, float]] = field(default_factory=deque)
    free_at: float = 0.0


class Trial:
    """One run of a manager over transactions that happen when they are said to."""

    def __init__(
        self,
        manager: ViewManager[Any],
        view: View,
        made_up: MadeUp,
        statistics: Statistics,
        each_state: bool,
        copied: Collection[str] = (),
    ) -> None:
        """`copied` are the relations of which copies are kept beside the view."""
        self._copied = copied
        self._consulted: deque[Ask] = deque()
        self._manager, self._made_up, self._statistics = manager, made_up, statistics
        self._prices = statistics.prices
        self._each_state = each_state
        self._channels = {source: _Channel() for source in view.sources}
        self._state = manager.start()
        self._now = 0.0
        self._pending: list[Action] = []
        self._ready: list[str] = []
        self._happened: dict[str, float] = {}
        self._questions, self._bytes = 0, 0.0
        self._times: list[float] = []

    def run(self, happenings: Sequence[Happening]) -> Estimate:
        for happening in happenings:
            self._channels[happening.source].coming.append(happening)
            self._happened[happening.transaction.id] = happening.at_s
        while (due := self._next()) is not None:
            at, source = due
            idle_at = self._now + IDLE_S
            if at > idle_at and self._manager.wants_idle(self._state):
                self._now = idle_at
                self._take(Idled())
            else:
                self._now = max(self._now, at)
                self._take_from(source)
            self._commit_if_quiet()
        while self._manager.wants_idle(self._state) or self._next() is not None:
            if (due := self._next()) is None:
                self._now += IDLE_S
                self._take(Idled())
            else:
                self._now = max(self._now, due[0])
                self._take_from(due[1])
            self._commit_if_quiet()
        number = len(happenings)
        late = number - len(self._times)  # shown by nothing: nothing changed
        time_s = (sum(self._times) + late * self._prices.delivery_s) / number
        return Estimate(2 * self._questions / number, self._bytes / number, time_s)

    # What comes next

    def _next(self) -> tuple[float, str] | None:
        found = [
            (at, source)
            for source, channel in self._channels.items()
            if (at := self._due(source, channel)) < math.inf
        ]
        return min(found, default=None)

    def _due(self, source: str, channel: _Channel) -> float:
        """When the channel has something: a transaction, or an answer behind what it reflects."""
        if channel.asked:
            return self._answered_at(source, channel)
        if channel.coming:
            return channel.coming[0].at_s + self._prices.delivery_s
        return math.inf

    def _answered_at(self, source: str, channel: _Channel) -> float:
        began = max(channel.asked[0][1], channel.free_at)
        return began + self._statistics.source(source).question_s

    def _take_from(self, source: str) -> None:
        channel = self._channels[source]
        if channel.asked:
            ask, put_at = channel.asked[0]
            seen_at = max(put_at, channel.free_at) + self._statistics.source(source).question_s / 2
            if not channel.coming or channel.coming[0].at_s > seen_at:
                channel.asked.popleft()
                channel.free_at = self._now
                self._answer(ask)
                return
        self._deliver(channel.coming.popleft())

    def _answer(self, ask: Ask) -> None:
        answers = [self._made_up.answer(query) for query in ask.queries]
        moved = sum(answer.bytes for answer in answers)
        self._bytes += moved
        self._now += moved * self._statistics.source(ask.source).byte_s
        self._take(self._found(ask, answers))

    def _consult(self, ask: Ask) -> None:
        """Answer a question from copies."""
        self._now += self._prices.look_up_s
        answers = [self._made_up.answer(query) for query in ask.queries]
        self._take_one(self._found(ask, answers))

    def _found(self, ask: Ask, answers: Sequence[Answer]) -> AnswerArrived:
        self._now += sum(answer.count for answer in answers) * self._prices.row_s
        return AnswerArrived(ask.source, ask.label, tuple(answer.rows for answer in answers))

    def _deliver(self, happening: Happening) -> None:
        event = TransactionArrived(happening.transaction)
        while wanted := self._manager.looks_up(self._state, event):
            self._now += self._prices.look_up_s
            event = event.seeing(wanted, self._made_up.looked_up(wanted))
        self._take(event)

    # What is done

    def _take(self, event: Event) -> None:
        self._take_one(event)
        while self._consulted:
            self._consult(self._consulted.popleft())

    def _take_one(self, event: Event) -> None:
        self._now += self._prices.event_s
        effects: tuple[Effect, ...]
        self._state, effects = self._manager.handle(self._state, event)
        for effect in effects:
            match effect:
                case Ask() if is_answered_by(self._copied, effect):
                    self._consulted.append(effect)
                case Ask():
                    self._questions += 1
                    self._channels[effect.source].asked.append((effect, self._now))
                case Apply(actions, transactions):
                    self._pending += actions
                    self._ready += transactions
                    if self._each_state and transactions:
                        self._commit()

    def _commit_if_quiet(self) -> None:
        """Commit what is ready, unless more has arrived."""
        due = self._next()
        if self._ready and (due is None or due[0] > self._now):
            self._commit()

    def _commit(self) -> None:
        self._now += self._prices.commit_s
        if any(isinstance(action, KeyDelete | AddNew) for action in self._pending):
            self._now += self._prices.look_up_s
        for action in self._pending:
            match action:
                case Replace():
                    self._now += 2 * self._made_up.view_rows() * self._prices.row_s
                case Add(rows) | AddNew(rows):
                    self._now += len(rows) * self._prices.row_s
        self._times += [self._now - self._happened[name] for name in self._ready]
        self._pending, self._ready = [], []
