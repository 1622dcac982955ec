"""The simulated world: sources, channels, the integrator and one view manager.

A `World` is a value: how far each source is, what is in flight, the states of the machines,
the view. A `Simulation` knows what never changes and makes one step at a time; which step
comes next is somebody else's choice (a schedule, a search).

On FIFO channels a source's event and its arrival at the warehouse are one step. Nothing is
lost by that: moving each source event to just before its arrival keeps the order of events
at every site, so the warehouse sees the same. On unordered channels they are two steps, and
questions may be answered in any order. They are two steps as well where a site reports for
others: its report may arrive before what another site sent earlier.

Where sources have nodes (the Rings protocols), a source's events reach its own node, in order
and in the same step, and messages between the parties arrive by steps of their own, in any
order unless channels are FIFO.

Where copies of relations are kept, questions about these are answered in the step in which they are
asked, from the relations as the transactions left them that the view manager was told of.

Choices: each part of a global transaction commits at its source by itself, as in a real
two-phase commit, in the order of the scenario's list.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias, assert_never

from headwater.algebra.evaluate import evaluate, evaluate_view
from headwater.algebra.hashing import cached_hash
from headwater.algebra.rows import Rows
from headwater.algorithms.integrator import AnyIntegrator, Integrator
from headwater.check.history import History, Vector
from headwater.lab.reports import NUMBERED, SITES, report
from headwater.lab.scenario import Scenario
from headwater.protocol.action_lists import Bag, change_by
from headwater.protocol.copies import answer_from, is_answered_by
from headwater.protocol.effects import Apply, Ask, Effect, Send
from headwater.protocol.events import (
    AnswerArrived,
    Event,
    Idled,
    MessageArrived,
    TransactionArrived,
)
from headwater.protocol.look_ups import LookUp
from headwater.protocol.managers import Node, ViewManager
from headwater.protocol.messages import WAREHOUSE
from headwater.protocol.transactions import Transaction

Manager: TypeAlias = ViewManager[Any]
ManagerState: TypeAlias = Any
Reaction: TypeAlias = tuple[ManagerState, tuple[Effect, ...]]


@dataclass(frozen=True, slots=True)
class Move:
    """One step that the world can take.

    `commit x`: source x executes its next transaction. `answer x`: x answers its oldest
    question (`answer x Q1`: that one). `deliver x T1`: that message of x arrives (`deliver
    warehouse token1`: that one of the warehouse). `idle`: the view manager is told that nothing
    goes on; `wake x`: the node of x is.
    """

    kind: str
    source: str = ""
    label: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.kind, self.source, self.label) if part)


IDLE = Move("idle")


@cached_hash
@dataclass(frozen=True)
class World:
    positions: Vector
    """How many transactions each source has executed."""
    questions: tuple[tuple[Ask, ...], ...]
    """For each source the questions that it has not answered, oldest first."""
    mail: tuple[tuple[str, Event], ...]
    """What is in flight to the warehouse or between parties that send messages: by sender, each
    oldest first (unordered: by label)."""
    integrator: AnyIntegrator | None
    manager: ManagerState
    view: Rows
    """What the view manager maintains, hidden columns included."""
    nodes: tuple[ManagerState, ...] = ()
    """For each source its node's state; None for a source without one."""
    copies: tuple[tuple[str, Rows], ...] = ()
    """The relations that are copied, as the view manager knows them."""


@dataclass(frozen=True)
class Step:
    """What one move did."""

    move: Move
    executed: Transaction | None = None
    """What the source executed."""
    sent: Event | None = None
    """What the source sent to the warehouse."""
    handled: tuple[tuple[Event, tuple[Effect, ...]], ...] = ()
    """What the view manager took in, each with its effects."""
    shown: tuple[Rows, ...] = ()
    """The view after each of its steps, as a reader sees it."""
    party: str = WAREHOUSE
    """Who took it in: the view manager, or the node of that source."""
    consulted: frozenset[str] = frozenset()
    """The questions, by label, that copies answered."""


@dataclass(frozen=True, eq=False)
class Simulation:
    """One algorithm over one scenario, ready to be stepped."""

    scenario: Scenario
    manager: Manager
    integrator: AnyIntegrator | None = field(default_factory=Integrator)
    """What stands between the channels and the view manager, as it is at the start."""
    ordered: bool = True
    """Whether channels are FIFO, at least for what is no answer."""
    answers_ordered: bool = True
    """Whether they are for answers too (Strobe paper, section 9)."""
    way: str = SITES
    """How global transactions are reported."""
    serial: bool = False
    """Whether a source waits until nothing goes on: as if the warehouse were the database."""
    nodes: Mapping[str, Node[Any]] = field(default_factory=dict)
    """The nodes beside the sources, where the protocol has them."""
    copied: frozenset[str] = frozenset()
    """The relations of which copies are kept."""
    _answers: dict[tuple[Ask, int], AnswerArrived] = field(default_factory=dict, repr=False)
    _reactions: dict[tuple[str, ManagerState, Event], Reaction] = field(
        default_factory=dict, repr=False
    )

    @cached_property
    def history(self) -> History:
        return self.scenario.history

    def start(self) -> World:
        view = evaluate_view(self.manager.view, self.scenario.initial)
        questions: tuple[tuple[Ask, ...], ...] = tuple(() for _ in self.history.sources)
        state = self.manager.start()
        copies = tuple((name, self.scenario.initial[name]) for name in sorted(self.copied))
        world = World(
            self.history.origin, questions, (), self.integrator, state, view, copies=copies
        )
        return self._with_nodes(world) if self.nodes else world

    def _with_nodes(self, world: World) -> World:
        changed = _Change(world)
        for source in self.history.sources:
            node = self.nodes.get(source)
            state, effects = node.start() if node else (None, ())
            changed.nodes.append(state)
            for effect in effects:
                assert isinstance(effect, Send)
                changed.send(source, effect, self.ordered)
        return changed.done()

    def seen(self, contents: Rows) -> Rows:
        """What a reader sees of what is maintained: without hidden columns and negative counts."""
        return self.manager.view.judged(contents)

    @property
    def _at_once(self) -> bool:
        """Whether what a source sends arrives in the same step."""
        return bool(self.nodes) or (self._is_fifo and self.way == SITES)

    @property
    def _is_fifo(self) -> bool:
        return self.ordered and self.answers_ordered

    # What can happen

    def enabled(self, world: World) -> tuple[Move, ...]:
        """Every step that is possible now; none when the run is over."""
        found = self._deliveries(world)
        for at, source in enumerate(self.history.sources):
            asks = world.questions[at]
            if self._is_fifo or self.nodes:
                found += [Move("answer", source)] if asks else []
            else:
                found += [Move("answer", source, ask.label) for ask in asks]
        quiet, settled = not found, self._is_settled(world)
        if (quiet and settled) or not self.serial:
            found += [
                Move("commit", source)
                for at, source in enumerate(self.history.sources)
                if world.positions[at] < self.history.final[at]
            ]
        if quiet and not (self.nodes and settled):
            found += self._pauses(world)
        return tuple(found)

    def _deliveries(self, world: World) -> list[Move]:
        """Each message that can arrive; equal ones of a sender count once."""
        mail = world.mail
        if self.ordered:
            waits = [item for item in mail if self._waits(item[1])]
            first = {(s, _receiver(event)): (s, event) for s, event in reversed(waits)}
            mail = tuple(m for m in mail if m in first.values() or not self._waits(m[1]))
        return list(dict.fromkeys(Move("deliver", s, _label(event)) for s, event in mail))

    def _waits(self, event: Event) -> bool:
        """Whether a message arrives behind those that were sent before it."""
        return self.ordered and (self.answers_ordered or not isinstance(event, AnswerArrived))

    def _is_settled(self, world: World) -> bool:
        """Whether no node has anything left; then it need not be told that nothing goes on."""
        states = dict(zip(self.history.sources, world.nodes, strict=False))
        return all(node.is_settled(states[source]) for source, node in self.nodes.items())

    def _pauses(self, world: World) -> list[Move]:
        """Whom it would make do something to hear that nothing goes on."""
        states = dict(zip(self.history.sources, world.nodes, strict=False))
        found = [IDLE] if self.manager.wants_idle(world.manager) else []
        return found + [
            Move("wake", source)
            for source, node in self.nodes.items()
            if node.wants_idle(states[source])
        ]

    # Making it happen

    def step(self, world: World, move: Move) -> tuple[World, Step]:
        changed = _Change(world)
        executed: Transaction | None = None
        match move.kind:
            case "idle" | "wake":
                return self._handle(changed, Step(move, party=move.source), (Idled(),))
            case "deliver":
                return self._arrive(changed, Step(move), changed.take_mail(move))
            case "commit":
                executed, sent = self._commit(changed, move)
            case _:
                sent = self._answer(changed, move)
        step = Step(move, executed, sent)
        if sent is None:
            return self._handle(changed, step, ())
        if self._at_once:
            return self._arrive(changed, step, sent)
        changed.post(move.source, sent, self._waits)
        return self._handle(changed, step, ())

    def _arrive(self, changed: _Change, step: Step, event: Event) -> tuple[World, Step]:
        events: tuple[Event, ...] = (event,)
        if self.nodes:
            party = _receiver(event) if step.sent is None else step.move.source
            heard = party == WAREHOUSE or party in self.nodes
            return self._handle(changed, replace(step, party=party), events if heard else ())
        if changed.integrator is not None:
            changed.integrator, events = changed.integrator.receive(step.move.source, event)
        return self._handle(changed, step, events)

    def _commit(self, changed: _Change, move: Move) -> tuple[Transaction, Event | None]:
        """The part executed, and the report of it, unless another site will report it."""
        at = self.history.sources.index(move.source)
        executed = self.history.transactions[move.source][changed.positions[at]]
        changed.positions[at] += 1
        reported = report(self.history, tuple(changed.positions), executed, self.way)
        return executed, TransactionArrived(reported) if reported else None

    def _answer(self, changed: _Change, move: Move) -> Event:
        at = self.history.sources.index(move.source)
        asks = changed.questions[at]
        ask = asks[0] if not move.label else next(a for a in asks if a.label == move.label)
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
        """Let the view manager, or a node, take events in one at a time and do what it asks for."""
        handled, shown = [], []
        consulted: set[str] = set()
        coming = deque(events)
        while coming:
            event = coming.popleft()
            changed.copy(event)
            event = self._with_look_ups(changed, step.party, event)
            effects = self._take_in(changed, step.party, event)
            handled.append((event, effects))
            answers: list[Ask] = []
            for effect in effects:
                match effect:
                    case Ask() if is_answered_by(self.copied, effect):
                        answers.append(effect)
                    case Ask(source=source):
                        at = self.history.sources.index(source)
                        changed.questions[at] = (*changed.questions[at], effect)
                    case Apply(actions=actions):
                        changed.view = changed.view + change_by(actions, Bag(changed.view))
                        shown.append(self.seen(changed.view))
                    case Send():
                        changed.send(step.party, effect, self.ordered)
                    case _:
                        assert_never(effect)
            consulted |= {ask.label for ask in answers}
            coming.extendleft(answer_from(ask, changed.find) for ask in reversed(answers))
        step = replace(step, consulted=frozenset(consulted))
        return changed.done(), replace(step, handled=tuple(handled), shown=tuple(shown))

    def _with_look_ups(self, changed: _Change, party: str, event: Event) -> Event:
        """A transaction with what the view manager wants to see of the view first."""
        if party == WAREHOUSE and isinstance(event, TransactionArrived):
            while wanted := self.manager.looks_up(changed.manager, event):
                event = event.seeing(wanted, Bag(changed.view).touched(wanted))
        return event

    def _take_in(self, changed: _Change, party: str, event: Event) -> tuple[Effect, ...]:
        if party == WAREHOUSE:
            changed.manager, effects = self._reaction(party, changed.manager, event)
        else:
            at = self.history.sources.index(party)
            changed.nodes[at], effects = self._reaction(party, changed.nodes[at], event)
        return effects

    def _reaction(self, party: str, state: ManagerState, event: Event) -> Reaction:
        """What a machine does; the same state and event always give the same."""
        known = self._reactions.get((party, state, event))
        if known is None:
            machine = self.nodes[party] if party else self.manager
            known = self._reactions[party, state, event] = machine.handle(state, event)
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
        self.nodes = list(world.nodes)
        self.copies = dict(world.copies)

    def copy(self, event: Event) -> None:
        """Take what the view manager is told into the copies."""
        if isinstance(event, TransactionArrived):
            for name, delta in event.transaction.deltas.items():
                if name in self.copies:
                    self.copies[name] = self.copies[name] + delta

    def find(self, name: str, look_up: LookUp | None) -> Rows:
        """Rows of a copy."""
        rows = self.copies[name]
        return rows if look_up is None else Bag(rows).touched([look_up])

    def done(self) -> World:
        return World(
            tuple(self.positions),
            tuple(self.questions),
            self.mail,
            self.integrator,
            self.manager,
            self.view,
            tuple(self.nodes),
            tuple(self.copies.items()),
        )

    def post(self, source: str, event: Event, waits: Callable[[Event], bool]) -> None:
        """Post what a source sends: behind what it sent before, if it waits for that."""
        mail = [*self.mail, (source, event)]
        self.mail = tuple(
            sorted(mail, key=lambda m: (m[0], "" if waits(m[1]) else f" {_label(m[1])}"))
        )

    def send(self, sender: str, effect: Send, ordered: bool) -> None:
        """Post a message between parties; on ordered channels behind the earlier ones."""
        event = MessageArrived(sender, effect.receiver, effect.message)
        mail = [*self.mail, (_shown_name(sender), event)]
        if ordered:
            self.mail = tuple(sorted(mail, key=lambda item: (item[0], _receiver(item[1]))))
        else:
            self.mail = tuple(sorted(mail, key=lambda item: (item[0], _label(item[1]))))

    def take_mail(self, move: Move) -> Event:
        for at, (source, event) in enumerate(self.mail):
            if source == move.source and _label(event) == move.label:
                self.mail = self.mail[:at] + self.mail[at + 1 :]
                return event
        raise AssertionError(f"nothing to {move}")


def _label(event: Event) -> str:
    match event:
        case TransactionArrived(transaction):
            return transaction.id
        case AnswerArrived(label=label):
            return label
        case Idled():
            return "idle"
        case MessageArrived(message=message):
            return message.label


def _receiver(event: Event) -> str:
    return event.receiver if isinstance(event, MessageArrived) else WAREHOUSE


def _shown_name(party: str) -> str:
    """A party's name in schedules."""
    return party or "warehouse"
