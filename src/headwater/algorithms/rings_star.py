"""The quiescent Rings protocol: the token goes out from the warehouse, and only when needed.

The Lord of the Rings, section 4.4, Figure 2. Nodes know only the warehouse. One whose source has
been updated requests the token; the warehouse makes one, sends it to the nodes in the order of
the ring until every entry has been all round, adds each entry to the view when it is complete,
and drops the token when nobody wants it. So nothing is sent when nothing happens, and no
sequence numbers are needed. Strong, on channels that keep no order.

When the token is wanted (`refresh`), as section 4.4 lists it:

- `update`: a node requests the token at every transaction;
- `quantity`: when `every` transactions are pending; the rest, when it is told that nothing goes
  on, so that no transaction is left for ever;
- `period` and `query`: nodes never request. The warehouse sends the token to all of them when it
  is told so (`Idled`): by a clock, or because a reader asks for the view.

Choices, each with a counterexample in the tests where it repairs something:

- `next_holder` in Figure 2 steps from i and tests x, so it never ends. Stepping from y, it still
  gives up at i itself although i may be pending, since its request may overtake the token that
  it sends back; that update is lost. Here i comes last and is served.
- An entry is complete when no term of it lacks an item, or when it has become empty: a token
  whose entries are all empty need not finish its turn.
- Several terms: the tokens of rings that share items, directly or through others, travel
  together as one message and visit the items of all of them in one order; each visit serves the
  terms that need the item. So all are there when updates are taken in. Entries are added in the
  order in which they were taken. Rings that share nothing have tokens of their own.
- `gather=off` as in `rings`: a node with transactions left requests the token again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from headwater.algebra.hashing import cached_hash
from headwater.algebra.views import View
from headwater.algorithms.parts.ring_visit import (
    Token,
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

REFRESH = ("update", "quantity", "period", "query")


@dataclass(frozen=True)
class Request:
    """A node wants the token."""

    item: str

    @property
    def label(self) -> str:
        return "request"

    @property
    def byte_count(self) -> int:
        return 0

    def __str__(self) -> str:
        return "a request for the token"


@cached_hash
@dataclass(frozen=True)
class NodeState:
    pending: tuple[Transaction, ...] = ()
    """The paper's `Delta_i`: transactions that no token has taken yet."""
    requested: bool = False
    visit: Visit | None = None
    asked: int = 0


Reaction = tuple[NodeState, tuple[Effect, ...]]


@dataclass(frozen=True)
class StarNode:
    """The node beside one source."""

    view: View
    item: str
    gather: bool = True
    refresh: str = "update"
    every: int = 1

    def start(self) -> Reaction:
        return NodeState(), ()

    def handle(self, state: NodeState, event: Event) -> Reaction:
        match event:
            case TransactionArrived(transaction):
                state = replace(state, pending=(*state.pending, transaction))
                return self._request_if_due(state)
            case MessageArrived(message=Token() as token):
                return self._begin(state, token)
            case AnswerArrived():
                assert state.visit is not None
                visit = incorporate(state.visit, event, state.pending)
                return self._go_on(replace(state, visit=visit))
            case Idled():
                return self._request(state)
        raise AssertionError(f"no node takes {event}")

    def wants_idle(self, state: NodeState) -> bool:
        return self.refresh == "quantity" and bool(state.pending) and not state.requested

    def is_settled(self, state: NodeState) -> bool:
        return not state.pending

    def holds_token(self, state: NodeState) -> bool:
        return state.visit is not None

    def _request_if_due(self, state: NodeState) -> Reaction:
        fewest = {"update": 1, "quantity": self.every}.get(self.refresh)
        if fewest is None or state.requested or len(state.pending) < fewest:
            return state, ()
        return self._request(state)

    def _request(self, state: NodeState) -> Reaction:
        return replace(state, requested=True), (Send(WAREHOUSE, Request(self.item)),)

    def _begin(self, state: NodeState, token: Token) -> Reaction:
        taken = state.pending if self.gather else state.pending[:1]
        visit = begin(self.view, self.item, (token,), taken)
        state = replace(state, pending=state.pending[len(taken) :], visit=visit, requested=False)
        state, request = self._request_if_due(state)
        state, effects = self._go_on(state)
        return state, (*request, *effects)

    def _go_on(self, state: NodeState) -> Reaction:
        """Ask the source what is still needed, or send the token back."""
        assert state.visit is not None
        visit, ask = advance(state.visit, self.item, f"Q{state.asked + 1}")
        if ask is not None:
            return replace(state, visit=visit, asked=state.asked + 1), (ask,)
        (token,) = finish(visit)
        return replace(state, visit=None), (Send(WAREHOUSE, token),)


@cached_hash
@dataclass(frozen=True)
class WarehouseState:
    out: tuple[bool, ...]
    """For each group of rings whether its token is out."""
    pending: frozenset[str] = frozenset()
    """The items that have requested the token."""


@dataclass(frozen=True)
class StarWarehouse:
    """The centre of the star: sends the tokens out and adds what they bring back."""

    view: View
    refresh: str = "update"

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The rings, those together that share items directly or through others."""
        rings = rings_of(self.view)
        groups: list[tuple[int, ...]] = []
        for at, ring in enumerate(rings):
            near = [g for g in groups if any(set(ring) & set(rings[other]) for other in g)]
            merged = tuple(sorted({at, *(other for group in near for other in group)}))
            groups = [*(group for group in groups if group not in near), merged]
        return tuple(sorted(groups))

    @cached_property
    def items(self) -> tuple[tuple[str, ...], ...]:
        """For each group its items, in the order in which the token goes round."""
        rings = rings_of(self.view)
        return tuple(
            tuple(item for item in self.view.sources if any(item in rings[at] for at in group))
            for group in self.groups
        )

    def start(self) -> WarehouseState:
        return WarehouseState((False,) * len(self.groups))

    def looks_up(self, state: WarehouseState, event: Event) -> tuple[LookUp, ...]:
        return ()

    def wants_idle(self, state: WarehouseState) -> bool:
        return self.refresh in ("period", "query") and not any(state.out)

    def handle(
        self, state: WarehouseState, event: Event
    ) -> tuple[WarehouseState, tuple[Effect, ...]]:
        match event:
            case MessageArrived(message=Request(item)):
                (at,) = (at for at, items in enumerate(self.items) if item in items)
                return self._send_out_if_idle(_with_pending(state, {item}), at)
            case MessageArrived(sender=item, message=Token() as token):
                return self._take_back(state, item, token)
            case Idled():
                return self._refresh_all(state)
        raise AssertionError(f"the warehouse does not take {event}")

    def _refresh_all(self, state: WarehouseState) -> tuple[WarehouseState, tuple[Effect, ...]]:
        state = _with_pending(state, set(self.view.sources))
        effects: tuple[Effect, ...] = ()
        for at in range(len(self.groups)):
            state, sent = self._send_out_if_idle(state, at)
            effects += sent
        return state, effects

    def _send_out_if_idle(
        self, state: WarehouseState, at: int
    ) -> tuple[WarehouseState, tuple[Effect, ...]]:
        if state.out[at]:
            return state, ()
        return self._send_on(state, at, self.items[at][-1], Token(self.groups[at]))

    def _take_back(
        self, state: WarehouseState, item: str, token: Token
    ) -> tuple[WarehouseState, tuple[Effect, ...]]:
        """Add what is complete to the view, in order, and send the rest on."""
        at = self.groups.index(token.rings)
        entries = token.entries
        effects: list[Effect] = []
        while entries and entries[0].is_complete:
            delta = entries[0].increment(self.view.schema)
            effects.append(Apply((Add(delta),), entries[0].transactions))
            entries = entries[1:]
        state, sent = self._send_on(state, at, item, replace(token, entries=entries))
        return state, (*effects, *sent)

    def _send_on(
        self, state: WarehouseState, at: int, item: str, token: Token
    ) -> tuple[WarehouseState, tuple[Effect, ...]]:
        """Send the token to the next holder after `item`, or drop it."""
        holder = self.next_holder(state, at, item, token)
        out = (*state.out[:at], holder is not None, *state.out[at + 1 :])
        if holder is None:
            return replace(state, out=out), ()
        return WarehouseState(out, state.pending - {holder}), (Send(holder, token),)

    def next_holder(self, state: WarehouseState, at: int, item: str, token: Token) -> str | None:
        """The next item in the order of the ring that an entry needs or that wants the token.

        The item where the token was comes last.
        """
        items = self.items[at]
        first = items.index(item) + 1
        for candidate in (*items[first:], *items[:first]):
            if candidate in state.pending or any(e.needs(candidate) for e in token.entries):
                return candidate
        return None


def _with_pending(state: WarehouseState, items: set[str]) -> WarehouseState:
    return replace(state, pending=state.pending | items)


def star_nodes(
    view: View, gather: bool = True, refresh: str = "update", every: int = 1
) -> dict[str, StarNode]:
    """A node for each source of the view."""
    return {item: StarNode(view, item, gather, refresh, every) for item in view.sources}
