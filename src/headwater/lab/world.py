"""The simulated world: sources, channels, the integrator and one view manager.

A `World` is a value: how far each source is, what is in flight, the states of the machines,
the view. A `Simulation` knows what never changes and makes one step at a time; which step
comes next is somebody else's choice (a schedule, a search).

On FIFO channels a source's event and its arrival at the warehouse are one step. Nothing is
lost by that: moving each source event to just before its arrival keeps the order of events
at every site, so the warehouse sees the same. On unordered channels they are two steps, and
questions may be answered in any order. They are two steps as well where a site reports for
others: its report may arrive before what another site sent earlier.

Choices: each part of a global transaction commits at its source by itself, as in a real
two-phase commit, in the order of the scenario's list.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

from headwater.algebra.evaluate import evaluate, evaluate_view
from headwater.algebra.hashing import cached_hash
from headwater.algebra.rows import Rows
from headwater.algorithms.integrator import AnyIntegrator, Integrator
from headwater.check.history import History, Vector
from headwater.lab.reports import NUMBERED, SITES, report
from headwater.lab.scenario import Scenario
from headwater.protocol.effects import Apply, Ask, Effect, apply_actions
from headwater.protocol.events import AnswerArrived, Event, Idled, TransactionArrived
from headwater.protocol.managers import ViewManager
from headwater.protocol.transactions import Transaction

Manager: TypeAlias = ViewManager[Any]
ManagerState: TypeAlias = Any
Reaction: TypeAlias = tuple[ManagerState, tuple[Effect, ...]]


@dataclass(frozen=True, slots=True)
class Action:
    """One step that the world can take.

    `commit x`: source x executes its next transaction. `answer x`: x answers its oldest
    question (`answer x Q1`: that one). `deliver x T1`: the warehouse receives that message.
    `idle`: the view manager is told that nothing goes on.
    """

    kind: str
    source: str = ""
    label: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.kind, self.source, self.label) if part)


IDLE = Action("idle")


@cached_hash
@dataclass(frozen=True)
class World:
    positions: Vector
    """How many transactions each source has executed."""
    questions: tuple[tuple[Ask, ...], ...]
    """For each source the questions that it has not answered, oldest first."""
    mail: tuple[tuple[str, Event], ...]
    """What is in flight to the warehouse, by source, each oldest first (unordered: by label)."""
    integrator: AnyIntegrator | None
    manager: ManagerState
    view: Rows
    """What the view manager maintains, hidden columns included."""


@dataclass(frozen=True)
class Step:
    """What one action did."""

    action: Action
    executed: Transaction | None = None
    """What the source executed."""
    sent: Event | None = None
    """What the source sent to the warehouse."""
    handled: tuple[tuple[Event, tuple[Effect, ...]], ...] = ()
    """What the view manager took in, each with its effects."""
    shown: tuple[Rows, ...] = ()
    """The view after each of its steps, as a reader sees it."""


@dataclass(frozen=True, eq=False)
class Simulation:
    """One algorithm over one scenario, ready to be stepped."""

    scenario: Scenario
    manager: Manager
    integrator: AnyIntegrator | None = field(default_factory=Integrator)
    """What stands between the channels and the view manager, as it is at the start."""
    ordered: bool = True
    """Whether channels are FIFO."""
    way: str = SITES
    """How global transactions are reported."""
    serial: bool = False
    """Whether a source waits until nothing goes on: as if the warehouse were the database."""
    _answers: dict[tuple[Ask, int], AnswerArrived] = field(default_factory=dict, repr=False)
    _reactions: dict[tuple[ManagerState, Event], Reaction] = field(default_factory=dict, repr=False)

    @cached_property
    def history(self) -> History:
        return self.scenario.history

    def start(self) -> World:
        view = evaluate_view(self.manager.view, self.scenario.initial)
        questions: tuple[tuple[Ask, ...], ...] = tuple(() for _ in self.history.sources)
        state = self.manager.start(view, self.scenario.initial)
        return World(self.history.origin, questions, (), self.integrator, state, view)

    def seen(self, contents: Rows) -> Rows:
        """What a reader sees of what is maintained: without hidden columns and negative counts."""
        return contents.only(self.scenario.view.schema).positive()

    @property
    def _at_once(self) -> bool:
        """Whether a message arrives in the step in which it is sent."""
        return self.ordered and self.way == SITES

    # What can happen

    def enabled(self, world: World) -> tuple[Action, ...]:
        """Every step that is possible now; none when the run is over."""
        found = [Action("deliver", s, _label(event)) for s, event in self._deliverable(world)]
        for at, source in enumerate(self.history.sources):
            asks = world.questions[at]
            if self.ordered:
                found += [Action("answer", source)] if asks else []
            else:
                found += [Action("answer", source, ask.label) for ask in asks]
        quiet = not found
        if quiet or not self.serial:
            found += [
                Action("commit", source)
                for at, source in enumerate(self.history.sources)
                if world.positions[at] < self.history.final[at]
            ]
        if quiet and self.manager.wants_idle(world.manager):
            found.append(IDLE)
        return tuple(found)

    def _deliverable(self, world: World) -> Iterable[tuple[str, Event]]:
        if not self.ordered:
            return world.mail
        oldest = dict(reversed(world.mail))
        return sorted(oldest.items(), key=lambda item: item[0])

    # Making it happen

    def step(self, world: World, action: Action) -> tuple[World, Step]:
        changed = _Change(world)
        executed: Transaction | None = None
        match action.kind:
            case "idle":
                return self._handle(changed, Step(action), (Idled(),))
            case "deliver":
                return self._arrive(changed, Step(action), changed.take_mail(action))
            case "commit":
                executed, sent = self._commit(changed, action)
            case _:
                sent = self._answer(changed, action)
        step = Step(action, executed, sent)
        if sent is None:
            return self._handle(changed, step, ())
        if self._at_once:
            return self._arrive(changed, step, sent)
        changed.post(action.source, sent, by_label=not self.ordered)
        return self._handle(changed, step, ())

    def _arrive(self, changed: _Change, step: Step, event: Event) -> tuple[World, Step]:
        events: tuple[Event, ...] = (event,)
        if changed.integrator is not None:
            changed.integrator, events = changed.integrator.receive(step.action.source, event)
        return self._handle(changed, step, events)

    def _commit(self, changed: _Change, action: Action) -> tuple[Transaction, Event | None]:
        """The part executed, and the report of it, unless another site will report it."""
        at = self.history.sources.index(action.source)
        executed = self.history.transactions[action.source][changed.positions[at]]
        changed.positions[at] += 1
        reported = report(self.history, tuple(changed.positions), executed, self.way)
        return executed, TransactionArrived(reported) if reported else None

    def _answer(self, changed: _Change, action: Action) -> Event:
        at = self.history.sources.index(action.source)
        asks = changed.questions[at]
        ask = asks[0] if not action.label else next(a for a in asks if a.label == action.label)
        changed.questions[at] = tuple(other for other in asks if other is not ask)
        return self.evaluate(ask, changed.positions[at])

    def evaluate(self, ask: Ask, position: int) -> AnswerArrived:
        """The answer of a source that has executed `position` transactions."""
        known = self._answers.get((ask, position))
        if known is None:
            state = self.history.state_of(ask.source, position)
            results = tuple(evaluate(query, state) for query in ask.queries)
            reflects = position if self.way == NUMBERED else None
            known = AnswerArrived(ask.source, ask.label, results, reflects)
            self._answers[ask, position] = known
        return known

    def _handle(
        self, changed: _Change, step: Step, events: tuple[Event, ...]
    ) -> tuple[World, Step]:
        """Let the view manager take events in, one at a time, and do what it asks for."""
        handled, shown = [], []
        for event in events:
            changed.manager, effects = self._reaction(changed.manager, event)
            handled.append((event, effects))
            for effect in effects:
                match effect:
                    case Ask(source=source):
                        at = self.history.sources.index(source)
                        changed.questions[at] = (*changed.questions[at], effect)
                    case Apply(actions=actions):
                        changed.view = apply_actions(changed.view, actions)
                        shown.append(self.seen(changed.view))
        return changed.done(), replace(step, handled=tuple(handled), shown=tuple(shown))

    def _reaction(self, state: ManagerState, event: Event) -> Reaction:
        """What the view manager does; the same state and event always give the same."""
        known = self._reactions.get((state, event))
        if known is None:
            known = self._reactions[state, event] = self.manager.handle(state, event)
        return known


class _Change:
    """A world being changed into the next one."""

    def __init__(self, world: World) -> None:
        self.positions = list(world.positions)
        self.questions = list(world.questions)
        self.mail = world.mail
        self.integrator = world.integrator
        self.manager = world.manager
        self.view = world.view

    def done(self) -> World:
        return World(
            tuple(self.positions),
            tuple(self.questions),
            self.mail,
            self.integrator,
            self.manager,
            self.view,
        )

    def post(self, source: str, event: Event, *, by_label: bool) -> None:
        mail = [*self.mail, (source, event)]
        if by_label:
            mail.sort(key=lambda item: _label(item[1]))
        self.mail = tuple(sorted(mail, key=lambda item: item[0]))

    def take_mail(self, action: Action) -> Event:
        for at, (source, event) in enumerate(self.mail):
            if source == action.source and _label(event) == action.label:
                self.mail = self.mail[:at] + self.mail[at + 1 :]
                return event
        raise AssertionError(f"nothing to {action}")


def _label(event: Event) -> str:
    match event:
        case TransactionArrived(transaction):
            return transaction.id
        case AnswerArrived(label=label):
            return label
        case Idled():
            return "idle"
