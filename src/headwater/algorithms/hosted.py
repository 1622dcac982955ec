"""The view manager and the nodes of a Rings protocol as one machine, for a host without nodes.

The running system knows view managers: transactions and answers come in, questions and action
lists go out. `Hosted` is one. It hands each transaction and answer to the node of its source and
carries the parties' messages, in the order in which they are sent, before it returns. A token
whose visits ask nothing goes all the way round in one step.

A node may also be *away*: beside its source, in a process of its own (see `away_node`). It is
then told every event that it would take in here (`Told`), and tells what it wants done (`Did`).
Its questions are put without their queries: the host has them answered at the node, which keeps
the rows, and only says where the answer belongs in the order of transactions.

Every message to and from a node that is away carries the *epoch*: one life of the view's
maintenance, from the vector that is committed to the loss of any party. What an earlier life
has sent is dropped, tokens included: the new life has begun without them (decision 25).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias, assert_never

from headwater.algebra.hashing import cached_hash
from headwater.algebra.views import View
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

Epoch: TypeAlias = tuple[int, ...]
"""Lives of one view's maintenance, each higher than those before it."""


@cached_hash
@dataclass(frozen=True)
class Told:
    """An event that a node which is away is to take in."""

    epoch: Epoch
    event: Event

    @property
    def label(self) -> str:
        return f"told {self.epoch} {self.event}"

    @property
    def byte_count(self) -> int:
        match self.event:
            case TransactionArrived(transaction):
                return sum(delta.byte_count for delta in transaction.deltas.values())
            case MessageArrived(message=message):
                return message.byte_count
        return 0


@cached_hash
@dataclass(frozen=True)
class Did:
    """What a node that is away wants done, and how it stands then."""

    epoch: Epoch
    effects: tuple[Effect, ...]
    """Messages, and questions without their queries."""
    handled: int
    """How many events it has been told, this one included."""
    is_settled: bool
    wants_idle: bool
    holds_token: bool

    @property
    def label(self) -> str:
        return f"did {self.epoch} {self.handled}"

    @property
    def byte_count(self) -> int:
        return sum(e.message.byte_count for e in self.effects if isinstance(e, Send))


@dataclass(frozen=True)
class Away:
    """What is known of a node that is away."""

    told: int = 0
    handled: int = 0
    is_settled: bool = False
    """Not before it has said so."""
    wants_idle: bool = False
    holds_token: bool = False


@cached_hash
@dataclass(frozen=True)
class HostedState:
    manager: Any
    nodes: tuple[Any, ...]
    """For each source of the view its node's state, or what is known of one that is away."""
    unsent: tuple[Effect, ...] = ()
    """What is to be sent to nodes that are away, from before the first event."""


@dataclass(frozen=True)
class Hosted:
    """A view manager with its nodes."""

    warehouse: ViewManager[Any]
    nodes: Mapping[str, Node[Any]]
    restless: bool
    """Whether the token never rests for long: what waits for it is no reason to wait longer."""
    away: frozenset[str] = field(default=frozenset())
    """The sources whose nodes are processes of their own."""
    epoch: Epoch = ()

    @property
    def view(self) -> View:
        return self.warehouse.view

    @cached_property
    def sources(self) -> tuple[str, ...]:
        return self.view.sources

    def start(self) -> HostedState:
        change = _Change(self, HostedState(self.warehouse.start(), ()))
        for source in self.sources:
            state, effects = (Away(), ()) if source in self.away else self.nodes[source].start()
            change.nodes[source] = state
            change.post(source, effects)
        state, unsent = change.done()
        assert all(isinstance(effect, Send) for effect in unsent), "nothing is pending yet"
        return replace(state, unsent=unsent)

    def looks_up(self, state: HostedState, event: Event) -> tuple[LookUp, ...]:
        return ()

    def handle(self, state: HostedState, event: Event) -> tuple[HostedState, tuple[Effect, ...]]:
        change = _Change(self, state)
        match event:
            case TransactionArrived(transaction):
                (source,) = transaction.sources
                change.post_event(source, event)
                change.carry()
                if self.restless:
                    change.wake_nodes()
            case AnswerArrived(source, label):
                own = replace(event, label=label.removeprefix(_label(source, "")))
                change.post_event(source, own)
            case Idled():
                if self.warehouse.wants_idle(state.manager):
                    change.post_event(WAREHOUSE, event)
                change.wake_nodes()
            case MessageArrived(sender, _, Did() as did):
                if did.epoch == self.epoch:
                    change.heard(sender, did)
            case _:
                raise AssertionError(f"no view manager takes {event}")
        return change.done()

    def wants_idle(self, state: HostedState) -> bool:
        if self.is_settled(state):
            return False
        return self.warehouse.wants_idle(state.manager) or any(
            self.node_wants_idle(source, node)
            for source, node in zip(self.sources, state.nodes, strict=True)
        )

    def is_settled(self, state: HostedState) -> bool:
        """Whether no node has anything that waits to be taken into the view."""
        return all(
            node.is_settled and node.told == node.handled
            if isinstance(node, Away)
            else self.nodes[source].is_settled(node)
            for source, node in zip(self.sources, state.nodes, strict=True)
        )

    def token_at(self, state: HostedState) -> tuple[str, ...]:
        """The sources whose nodes have a token now, as far as it is known here."""
        return tuple(
            source
            for source, node in zip(self.sources, state.nodes, strict=True)
            if (
                node.holds_token if isinstance(node, Away) else self.nodes[source].holds_token(node)
            )
        )

    def node_wants_idle(self, source: str, state: Any) -> bool:
        if isinstance(state, Away):
            return state.wants_idle and state.told == state.handled
        return self.nodes[source].wants_idle(state)


class _Change:
    """A state being changed into the next one."""

    def __init__(self, hosted: Hosted, state: HostedState) -> None:
        self._hosted = hosted
        self._manager = state.manager
        self.nodes: dict[str, Any] = dict(zip(hosted.sources, state.nodes, strict=False))
        self._effects = list(state.unsent)
        self._mail: deque[tuple[str, Event]] = deque()

    def post_event(self, party: str, event: Event) -> None:
        self._mail.append((party, event))

    def post(self, sender: str, effects: Iterable[Effect]) -> None:
        """Do what a party wants done."""
        for effect in effects:
            match effect:
                case Send(receiver, message):
                    self.post_event(receiver, MessageArrived(sender, receiver, message))
                case Ask(source, label):
                    self._effects.append(replace(effect, label=_label(source, label)))
                case Apply():
                    self._effects.append(effect)
                case _:
                    assert_never(effect)

    def wake_nodes(self) -> None:
        for source, node in self.nodes.items():
            if self._hosted.node_wants_idle(source, node):
                self.post_event(source, Idled())

    def heard(self, source: str, did: Did) -> None:
        """A node that is away has taken in what it was told."""
        told = self.nodes[source].told
        self.nodes[source] = Away(
            told, did.handled, did.is_settled, did.wants_idle, did.holds_token
        )
        self.post(source, did.effects)
        if self._hosted.restless and not did.is_settled:
            self.carry()
            self.wake_nodes()

    def carry(self) -> None:
        """Let everybody take in what is for them, until nothing is under way here."""
        while self._mail:
            party, event = self._mail.popleft()
            if party == WAREHOUSE:
                self._manager, effects = self._hosted.warehouse.handle(self._manager, event)
                self.post(party, effects)
            elif party in self._hosted.away:
                self.nodes[party] = replace(self.nodes[party], told=self.nodes[party].told + 1)
                self._effects.append(Send(party, Told(self._hosted.epoch, event)))
            else:
                node = self._hosted.nodes[party]
                self.nodes[party], effects = node.handle(self.nodes[party], event)
                self.post(party, effects)

    def done(self) -> tuple[HostedState, tuple[Effect, ...]]:
        self.carry()
        nodes = tuple(self.nodes[source] for source in self._hosted.sources)
        return HostedState(self._manager, nodes), tuple(self._effects)


def _label(source: str, label: str) -> str:
    """Labels are unique at each node, and here for all of them."""
    return f"{source} {label}"
