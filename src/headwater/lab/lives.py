"""The simulated world of a Rings protocol whose parties crash: nodes in processes of their own, a
warehouse whose memory is lost, messages that are lost, late and repeated.

What is durable is what the warehouse has written: the view and its vector. The loss of any party
ends the life of the view's maintenance, and the next one begins there, under a higher epoch:
every node starts anew and is told all transactions behind the vector. What was in flight then may
still arrive, at any time, in any order, and twice, on both ends: worse than any connection does
it. So may what the next life sends before it is lost in turn.

A `LivesWorld` is a value, as the lab's `World` is, and a `Lives` is explored as a `Simulation` is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from headwater.algebra.evaluate import evaluate, evaluate_view
from headwater.algebra.hashing import cached_hash
from headwater.algebra.rows import Rows
from headwater.algorithms.away_node import AwayNode, AwayState
from headwater.algorithms.hosted import Did, Hosted, HostedState, Told
from headwater.check.history import History, Vector
from headwater.lab.scenario import Scenario
from headwater.lab.world import Move, Step
from headwater.protocol.action_lists import Bag, change_by
from headwater.protocol.effects import Apply, Ask, Effect, Send
from headwater.protocol.events import (
    AnswerArrived,
    Event,
    Idled,
    MessageArrived,
    TransactionArrived,
)
from headwater.protocol.messages import WAREHOUSE


@cached_hash
@dataclass(frozen=True)
class LivesWorld:
    positions: Vector
    """How many transactions each source has executed."""
    view: Rows
    written: Vector
    """What the warehouse has written, and how many transactions of each source are in it."""
    applied: Rows
    reflected: Vector
    """The same with what is applied and not written yet."""
    host: HostedState
    epoch: int
    questions: tuple[Ask | None, ...]
    """For each source a question without an answer."""
    nodes: tuple[AwayState | None, ...]
    """For each source its node, if that is away."""
    to_nodes: tuple[tuple[Told, ...], ...]
    to_host: tuple[tuple[Did, ...], ...]
    late: tuple[tuple[str, Told | Did], ...] = ()
    """What earlier lives had in flight."""
    crashes: int = 0
    """How many parties may still crash."""


@dataclass(frozen=True, eq=False)
class Lives:
    """A protocol over a scenario; `crashes` of its parties are lost at some moments."""

    scenario: Scenario
    host: Hosted
    nodes: Mapping[str, AwayNode]
    crashes: int = 1
    repeats: int = 1
    """How often what is late arrives."""

    @cached_property
    def history(self) -> History:
        return self.scenario.history

    @property
    def sources(self) -> tuple[str, ...]:
        return self.history.sources

    def start(self) -> LivesWorld:
        view = evaluate_view(self.host.view, self.scenario.initial)
        origin = self.history.origin
        empty: tuple[Any, ...] = tuple(() for _ in self.sources)
        nothing = tuple(None for _ in self.sources)
        world = LivesWorld(
            *(origin, view, origin, view, origin, HostedState(None, ()), 0),
            *(nothing, nothing, empty, empty),
            crashes=self.crashes,
        )
        return self._live(_Change(self, world))

    def seen(self, contents: Rows) -> Rows:
        return self.host.view.judged(contents)

    # What can happen

    def enabled(self, world: LivesWorld) -> tuple[Move, ...]:
        found = self._under_way(world)
        if not found and self._host(world.epoch).wants_idle(world.host):
            found.append(Move("idle"))
        if world.applied != world.view or world.reflected != world.written:
            found.append(Move("write"))
        found += [
            Move("commit", source)
            for at, source in enumerate(self.sources)
            if world.positions[at] < self.history.final[at]
        ]
        found += [Move("late", s, str(at)) for at, (s, _) in enumerate(world.late)]
        if world.crashes:
            found += [Move("crash", source) for source in self.nodes]
            found.append(Move("crash", "warehouse"))
        return tuple(found)

    def _under_way(self, world: LivesWorld) -> list[Move]:
        found = []
        for at, source in enumerate(self.sources):
            found += [Move("tell", source)] * bool(world.to_nodes[at])
            found += [Move("hear", source)] * bool(world.to_host[at])
            found += [Move("answer", source)] * (world.questions[at] is not None)
        return found

    # Making it happen

    def step(self, world: LivesWorld, move: Move) -> tuple[LivesWorld, Step]:
        change = _Change(self, world)
        shown: tuple[Rows, ...] = ()
        match move.kind:
            case "commit":
                self._commit(change, move.source)
            case "answer":
                self._answer(change, move.source)
            case "tell":
                change.tell(move.source, change.to_nodes[move.source].pop(0))
            case "hear":
                change.hear(move.source, change.to_host[move.source].pop(0))
            case "late":
                self._arrive_late(change, int(move.label))
            case "idle":
                change.take_in(Idled())
            case "write":
                change.view, change.written = change.applied, dict(change.reflected)
                shown = (self.seen(change.view),)
            case _:
                change.crashes -= 1
                change.applied, change.reflected = change.view, dict(change.written)
                return self._live(change), Step(move)
        return change.done(), Step(move, shown=shown)

    def _host(self, epoch: int) -> Hosted:
        return replace(self.host, epoch=(epoch,))

    def _live(self, change: _Change) -> LivesWorld:
        """Begin a life from what is written."""
        change.begin(self._host(change.epoch + 1))
        for source in self.sources:
            behind = self.history.transactions[source][change.written[source] :]
            for transaction in behind[: change.positions[source] - change.written[source]]:
                change.take_in(TransactionArrived(transaction))
        return change.done()

    def _commit(self, change: _Change, source: str) -> None:
        transaction = self.history.transactions[source][change.positions[source]]
        change.positions[source] += 1
        change.take_in(TransactionArrived(transaction))

    def _answer(self, change: _Change, source: str) -> None:
        """A source answers in its present state: a node that is away keeps the rows."""
        ask, change.questions[source] = change.questions[source], None
        node = change.nodes[source]
        own = ask if node is None else node.question
        assert ask is not None
        assert own is not None
        state = self.history.state_of(source, change.positions[source])
        results = tuple(evaluate(query, state) for query in own.queries)
        if node is not None:
            change.nodes[source] = self.nodes[source].answered(node, results)
            results = ()
        change.take_in(AnswerArrived(source, ask.label, results))

    def _arrive_late(self, change: _Change, at: int) -> None:
        source, message = change.late.pop(at)
        if isinstance(message, Did):
            change.hear(source, message)
        else:
            change.tell(source, message)


class _Change:
    """A world being changed into the next one."""

    def __init__(self, lives: Lives, world: LivesWorld) -> None:
        self._lives = lives
        self._host = replace(lives.host, epoch=(world.epoch,))
        self._state = world.host
        self.epoch = world.epoch
        self.view, self.applied = world.view, world.applied
        self.crashes = world.crashes
        self.late = list(world.late)
        names = lives.sources
        self.positions = dict(zip(names, world.positions, strict=True))
        self.written = dict(zip(names, world.written, strict=True))
        self.reflected = dict(zip(names, world.reflected, strict=True))
        self.questions: dict[str, Ask | None] = dict(zip(names, world.questions, strict=True))
        self.nodes = dict(zip(names, world.nodes, strict=True))
        self.to_nodes = {name: list(m) for name, m in zip(names, world.to_nodes, strict=True)}
        self.to_host = {name: list(m) for name, m in zip(names, world.to_host, strict=True)}

    def begin(self, host: Hosted) -> None:
        """A new life, beside what the last one has left in flight."""
        (self.epoch,) = host.epoch
        self._host = host
        left = [(s, m) for sent in (self.to_nodes, self.to_host) for s in sent for m in sent[s]]
        self.late += left * self._lives.repeats
        for source, node in self._lives.nodes.items():
            self.nodes[source], did = node.start(host.epoch)
            self.to_nodes[source], self.to_host[source] = [], [did]
        self.questions = dict.fromkeys(self.questions)
        self._state = host.start()

    def take_in(self, event: Event) -> None:
        self._state, effects = self._host.handle(self._state, event)
        for effect in effects:
            self._do(effect)

    def hear(self, source: str, did: Did) -> None:
        self.take_in(MessageArrived(source, WAREHOUSE, did))

    def tell(self, source: str, told: Told) -> None:
        node = self.nodes[source]
        assert node is not None
        self.nodes[source], did = self._lives.nodes[source].handle(node, told)
        if did is not None:
            self.to_host[source].append(did)

    def _do(self, effect: Effect) -> None:
        match effect:
            case Ask(source=source):
                self.questions[source] = effect
            case Apply(actions, transactions):
                self.applied = self.applied + change_by(actions, Bag(self.applied))
                for name in transactions:
                    self._reflect(name)
            case Send(receiver, message):
                assert isinstance(message, Told)
                self.to_nodes[receiver].append(message)

    def _reflect(self, name: str) -> None:
        for source, transactions in self._lives.history.transactions.items():
            if name in [transaction.id for transaction in transactions]:
                self.reflected[source] += 1

    def done(self) -> LivesWorld:
        late = sorted(self.late, key=lambda item: (item[0], item[1].label))
        return LivesWorld(
            tuple(self.positions.values()),
            self.view,
            tuple(self.written.values()),
            self.applied,
            tuple(self.reflected.values()),
            self._state,
            self.epoch,
            tuple(self.questions.values()),
            tuple(self.nodes.values()),
            tuple(map(tuple, self.to_nodes.values())),
            tuple(map(tuple, self.to_host.values())),
            tuple(late),
            self.crashes,
        )
