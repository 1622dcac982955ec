"""The simulated world: sources, channels, the integrator and one view manager.

A `World` is a value: how far each source is, what is in flight, the states of the machines,
the view. A `Simulation` knows what never changes and makes one step at a time; which step
comes next is somebody else's choice (a schedule, a search).

On FIFO channels a source's event and its arrival at the warehouse are one step. Nothing is
lost by that: moving each source event to just before its arrival keeps the order of events
at every site, so the warehouse sees the same. On unordered channels they are two steps, and
questions may be answered in any order.

Choices: each part of a global transaction commits at its source by itself, as in a real
two-phase commit, in the order of the scenario's list.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

from headwater.algebra.evaluate import evaluate
from headwater.algebra.rows import Rows
from headwater.algorithms.integrator import Integrator
from headwater.check.history import History, Vector
from headwater.lab.scenario import Scenario
from headwater.protocol.effects import Apply, Ask, Effect, apply_actions
from headwater.protocol.events import AnswerArrived, Event, Idled, TransactionArrived
from headwater.protocol.managers import ViewManager

Manager: TypeAlias = ViewManager[Any]
ManagerState: TypeAlias = Any


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


@dataclass(frozen=True)
class World:
    positions: Vector
    """How many transactions each source has executed."""
    questions: tuple[tuple[Ask, ...], ...]
    """For each source the questions that it has not answered, oldest first."""
    mail: tuple[tuple[str, Event], ...]
    """What is in flight to the warehouse (unordered channels only), sorted by label."""
    integrator: Integrator
    manager: ManagerState
    view: Rows
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts = (self.positions, self.questions, self.mail, self.integrator, self.manager)
        object.__setattr__(self, "_hash", hash((*parts, self.view)))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True)
class Step:
    """What one action did."""

    action: Action
    sent: Event | None
    """What the source sent to the warehouse."""
    handled: tuple[tuple[Event, tuple[Effect, ...]], ...]
    """What the view manager took in, each with its effects."""
    shown: tuple[Rows, ...]
    """The view after each of its steps, as a reader sees it."""


@dataclass(frozen=True, eq=False)
class Simulation:
    """One algorithm over one scenario, ready to be stepped."""

    scenario: Scenario
    manager: Manager
    joins_global: bool = True
    """Whether the integrator joins the parts of global transactions."""
    ordered: bool = True
    """Whether channels are FIFO."""
    serial: bool = False
    """Whether a source waits until nothing goes on: as if the warehouse were the database."""
    _answers: dict[tuple[Ask, int], AnswerArrived] = field(default_factory=dict, repr=False)

    @cached_property
    def history(self) -> History:
        return self.scenario.history

    def start(self) -> World:
        view = self.history.view_at(self.history.origin)
        sources = self.history.sources
        state = self.manager.start(view, self.scenario.initial)
        return World(self.history.origin, tuple(() for _ in sources), (), Integrator(), state, view)

    # What can happen

    def enabled(self, world: World) -> tuple[Action, ...]:
        """Every step that is possible now; none when the run is over."""
        found = [Action("deliver", s, _label(event)) for s, event in world.mail]
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

    # Making it happen

    def step(self, world: World, action: Action) -> tuple[World, Step]:
        if action.kind == "idle":
            return self._handle(world, action, None, (Idled(),))
        if action.kind == "deliver":
            mail, event = _take(world.mail, action)
            world, events = _integrate(replace(world, mail=mail), self, action.source, event)
            return self._handle(world, action, None, events)
        if action.kind == "commit":
            world, sent = self._commit(world, action)
        else:
            world, sent = self._answer(world, action)
        if not self.ordered:
            return replace(world, mail=_posted(world.mail, action.source, sent)), Step(
                action, sent, (), ()
            )
        world, events = _integrate(world, self, action.source, sent)
        return self._handle(world, action, sent, events)

    def _commit(self, world: World, action: Action) -> tuple[World, Event]:
        at = self.history.sources.index(action.source)
        transaction = self.history.transactions[action.source][world.positions[at]]
        positions = (*world.positions[:at], world.positions[at] + 1, *world.positions[at + 1 :])
        return replace(world, positions=positions), TransactionArrived(transaction)

    def _answer(self, world: World, action: Action) -> tuple[World, Event]:
        at = self.history.sources.index(action.source)
        asks = world.questions[at]
        ask = asks[0] if not action.label else next(a for a in asks if a.label == action.label)
        left = tuple(other for other in asks if other is not ask)
        questions = (*world.questions[:at], left, *world.questions[at + 1 :])
        return replace(world, questions=questions), self._evaluate(ask, world.positions[at])

    def _evaluate(self, ask: Ask, position: int) -> AnswerArrived:
        """The answer of a source that has executed `position` transactions."""
        known = self._answers.get((ask, position))
        if known is None:
            state = self.history.state_of(ask.source, position)
            results = tuple(evaluate(query, state) for query in ask.queries)
            known = AnswerArrived(ask.source, ask.label, results)
            self._answers[ask, position] = known
        return known

    def _handle(
        self, world: World, action: Action, sent: Event | None, events: tuple[Event, ...]
    ) -> tuple[World, Step]:
        """Let the view manager take events in, one at a time, and do what it asks for."""
        state, view, questions = world.manager, world.view, world.questions
        handled, shown = [], []
        for event in events:
            state, effects = self.manager.handle(state, event)
            handled.append((event, effects))
            for effect in effects:
                match effect:
                    case Ask():
                        questions = self._asked(questions, effect)
                    case Apply(actions=actions):
                        view = apply_actions(view, actions)
                        shown.append(view.positive())
        world = replace(world, manager=state, view=view, questions=questions)
        return world, Step(action, sent, tuple(handled), tuple(shown))

    def _asked(
        self, questions: tuple[tuple[Ask, ...], ...], ask: Ask
    ) -> tuple[tuple[Ask, ...], ...]:
        at = self.history.sources.index(ask.source)
        return (*questions[:at], (*questions[at], ask), *questions[at + 1 :])


def _integrate(
    world: World, simulation: Simulation, source: str, event: Event
) -> tuple[World, tuple[Event, ...]]:
    if not simulation.joins_global:
        return world, (event,)
    integrator, events = world.integrator.receive(source, event)
    return replace(world, integrator=integrator), events


def _label(event: Event) -> str:
    match event:
        case TransactionArrived(transaction):
            return transaction.id
        case AnswerArrived(label=label):
            return label
        case Idled():
            return "idle"


def _posted(
    mail: tuple[tuple[str, Event], ...], source: str, event: Event
) -> tuple[tuple[str, Event], ...]:
    return tuple(sorted([*mail, (source, event)], key=lambda item: (item[0], _label(item[1]))))


def _take(
    mail: tuple[tuple[str, Event], ...], action: Action
) -> tuple[tuple[tuple[str, Event], ...], Event]:
    for at, (source, event) in enumerate(mail):
        if source == action.source and _label(event) == action.label:
            return mail[:at] + mail[at + 1 :], event
    raise AssertionError(f"nothing to {action}")
