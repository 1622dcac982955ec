"""The basic Rings protocol: a token per term of the view moves on a ring of nodes for ever.

The Lord of the Rings, sections 4.2 and 5, Figure 1. Each source has a node. The token has one
entry for each item whose updates are under way. When it comes to an item, the entry of that
item has been all round: it is the increment that its updates make, and goes to the warehouse
with the next sequence number. The updates made since then become the new entry, and every other
entry is joined with the item as it was before them. So the increments follow each other as if
items had been updated one after the other, in the order of the token's visits: strong, without
keys, without a copy, and with channels that keep no order. The warehouse asks nothing.

With several terms, a ring of its own for each: an item's updates are taken in only while the
tokens of all its rings are there, so that the parts of their increment are of one moment. The
parts travel in one message, which the warehouse adds in one step when each of its parts is the
next one of its ring.

Choices, each with a counterexample in the tests:

- Figure 1 increases `sn` before it is sent, and the warehouse waits for `next_sn = sn` starting
  from 0: the first increment is never taken. Here `next_sn` starts from 1.
- Tokens that wait for each other at different items would wait for ever. All rings follow one
  order of the items, and tokens meet at every item that they share, from the start on and
  whether or not there are updates: then the one that is least far on finds the others coming.
- An increment is announced even if it is empty, or empty in one ring: otherwise the warehouse
  would wait for it, or would not know which transactions it shows.
- An item is a source, and a visit asks it: see `ring_visit`.
- A token that has gone round twice without a change rests until its node is told that nothing
  goes on: the motion is perpetual, but not hasty.
- `gather=off` is the paper's remark: an item's transactions are not gathered between two visits
  but taken one at a time. Complete, if transactions are local to sources.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from headwater.algebra.hashing import cached_hash
from headwater.algebra.rows import Rows, show_rows
from headwater.algebra.views import View
from headwater.algorithms.parts.ring_visit import (
    Token,
    TokenEntry,
    Visit,
    advance,
    begin,
    finish,
    incorporate,
    rings_of,
)
from headwater.protocol.effects import Add, Apply, Effect, Send
from headwater.protocol.events import (
    AnswerArrived,
    Event,
    Idled,
    MessageArrived,
    TransactionArrived,
)
from headwater.protocol.look_ups import LookUp
from headwater.protocol.messages import WAREHOUSE
from headwater.protocol.transactions import Transaction


@cached_hash
@dataclass(frozen=True)
class Increment:
    """What updates of one item add to the view: a part for each of its rings."""

    transactions: tuple[str, ...]
    parts: tuple[tuple[int, int, Rows], ...]
    """Ring, sequence number, rows."""

    @property
    def label(self) -> str:
        return "incr" + ",".join(f"{ring + 1}.{number}" for ring, number, _ in self.parts)

    @property
    def byte_count(self) -> int:
        return sum(rows.byte_count for _, _, rows in self.parts)

    def __str__(self) -> str:
        return f"{self.label} = {' and '.join(show_rows(rows) for _, _, rows in self.parts)}"


@cached_hash
@dataclass(frozen=True)
class NodeState:
    pending: tuple[Transaction, ...] = ()
    """The paper's `Delta_i`: transactions that no token has taken yet."""
    waiting: tuple[Token, ...] = ()
    """Tokens that are here and wait for those of the item's other rings."""
    visit: Visit | None = None
    resting: tuple[Token, ...] = ()
    asked: int = 0


Reaction = tuple[NodeState, tuple[Effect, ...]]


@dataclass(frozen=True)
class RingNode:
    """The node beside one source."""

    view: View
    item: str
    gather: bool = True

    @cached_property
    def rings(self) -> dict[int, tuple[str, ...]]:
        """The rings that this item is on."""
        return {at: ring for at, ring in enumerate(self.all_rings) if self.item in ring}

    @property
    def all_rings(self) -> tuple[tuple[str, ...], ...]:
        return rings_of(self.view)

    def start(self) -> Reaction:
        """Each token is at the first item of its ring, where it meets the others as always."""
        first = tuple(Token((at,)) for at, ring in self.rings.items() if ring[0] == self.item)
        return self._begin_if_all_are_here(NodeState(waiting=first))

    def handle(self, state: NodeState, event: Event) -> Reaction:
        match event:
            case TransactionArrived(transaction):
                return replace(state, pending=(*state.pending, transaction)), ()
            case MessageArrived(message=Token() as token):
                waiting = (*state.waiting, token)
                waiting = tuple(sorted(waiting, key=lambda token: token.rings))
                return self._begin_if_all_are_here(replace(state, waiting=waiting))
            case AnswerArrived():
                assert state.visit is not None
                visit = incorporate(state.visit, event, state.pending)
                return self._go_on(replace(state, visit=visit), ())
            case Idled():
                woken = tuple(self._pass_on(replace(t, idle=0)) for t in state.resting)
                return replace(state, resting=()), woken
        raise AssertionError(f"no node takes {event}")

    def wants_idle(self, state: NodeState) -> bool:
        return bool(state.resting)

    def is_settled(self, state: NodeState) -> bool:
        return not state.pending and not any(token.entries for token in state.waiting)

    def holds_token(self, state: NodeState) -> bool:
        return bool(state.waiting or state.resting) or state.visit is not None

    def _begin_if_all_are_here(self, state: NodeState) -> Reaction:
        if len(state.waiting) < len(self.rings):
            return state, ()
        tokens, increment = self._collect(state.waiting)
        taken = state.pending if self.gather else state.pending[:1]
        visit = begin(self.view, self.item, tokens, taken)
        state = replace(state, waiting=(), pending=state.pending[len(taken) :], visit=visit)
        return self._go_on(state, increment)

    def _collect(self, tokens: tuple[Token, ...]) -> tuple[list[Token], tuple[Effect, ...]]:
        """Take this item's entry out of the tokens: it has been all round."""
        own = [(token, entry) for token in tokens for entry in token.entries if self._is_own(entry)]
        left = [
            replace(
                token,
                entries=tuple(entry for entry in token.entries if not self._is_own(entry)),
                number=token.number + any(map(self._is_own, token.entries)),
                idle=0 if token.entries else token.idle,
            )
            for token in tokens
        ]
        if not own:
            return left, ()
        parts = tuple(
            (token.rings[0], token.number + 1, entry.increment(self.view.schema))
            for token, entry in own
        )
        return left, self.send_increment(Increment(own[0][1].transactions, parts))

    def _is_own(self, entry: TokenEntry) -> bool:
        return entry.item == self.item

    def send_increment(self, increment: Increment) -> tuple[Effect, ...]:
        return (Send(WAREHOUSE, increment),)

    def _go_on(self, state: NodeState, effects: tuple[Effect, ...]) -> Reaction:
        """Ask the source what is still needed, or send the tokens on."""
        assert state.visit is not None
        visit, ask = advance(state.visit, self.item, f"Q{state.asked + 1}")
        if ask is not None:
            return replace(state, visit=visit, asked=state.asked + 1), (*effects, ask)
        state = replace(state, visit=None)
        for token in finish(visit):
            token = replace(token, idle=0 if token.entries else token.idle + 1)
            if token.idle >= 2 * len(self.rings[token.rings[0]]):
                state = replace(state, resting=(*state.resting, token))
            else:
                effects = (*effects, self._pass_on(token))
        return state, effects

    def _pass_on(self, token: Token) -> Effect:
        ring = self.rings[token.rings[0]]
        return Send(ring[(ring.index(self.item) + 1) % len(ring)], token)


@cached_hash
@dataclass(frozen=True)
class WarehouseState:
    next_numbers: tuple[int, ...]
    """For each ring the number of the increment that comes next."""
    held: tuple[Increment, ...] = ()
    """Those that came too early."""


@dataclass(frozen=True)
class RingWarehouse:
    """Adds increments in order; it asks nothing and sends nothing."""

    view: View

    def start(self) -> WarehouseState:
        return WarehouseState((1,) * len(self.view.joins))

    def looks_up(self, state: WarehouseState, event: Event) -> tuple[LookUp, ...]:
        return ()

    def wants_idle(self, state: WarehouseState) -> bool:
        return False

    def handle(
        self, state: WarehouseState, event: Event
    ) -> tuple[WarehouseState, tuple[Effect, ...]]:
        assert isinstance(event, MessageArrived)
        assert isinstance(event.message, Increment)
        state = replace(state, held=(*state.held, event.message))
        effects: list[Effect] = []
        while due := next((i for i in state.held if self._is_next(state, i)), None):
            state = self._taken(state, due)
            delta = Rows.sum(self.view.schema, (rows for _, _, rows in due.parts))
            effects.append(Apply((Add(delta),), due.transactions))
        held = tuple(sorted(state.held, key=lambda increment: increment.label))
        return replace(state, held=held), tuple(effects)

    def _is_next(self, state: WarehouseState, increment: Increment) -> bool:
        return all(state.next_numbers[ring] == number for ring, number, _ in increment.parts)

    def _taken(self, state: WarehouseState, increment: Increment) -> WarehouseState:
        rings = {ring for ring, _, _ in increment.parts}
        numbers = (n + 1 if at in rings else n for at, n in enumerate(state.next_numbers))
        held = tuple(other for other in state.held if other is not increment)
        return WarehouseState(tuple(numbers), held)


def ring_nodes(view: View, gather: bool = True) -> dict[str, RingNode]:
    """A node for each source of the view."""
    return {item: RingNode(view, item, gather) for item in view.sources}
