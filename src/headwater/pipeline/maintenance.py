"""The maintenance of one view as a machine: deliveries and time in, questions and commits out.

It feeds the view's manager one event at a time, and says what is to be done for it. Threads, tables
and clocks are its driver's (see `maintain`), which tells it the time. What it is made of has
modules of its own: what is received in which order (`receiving`) and joined (`joining`), which
questions sources owe answers to (`owed`) and which copies answer (`copied`), what the view reflects
(`reflected`), what is committed when (`committing`), and when nothing goes on (`idling`).

A transaction is known to the manager by its source and its number there: what a source calls it
need not be unique. What is committed is an action list; what it comes to is found when it is
written, by looking up the rows that it touches (see `protocol.action_lists`). A commit never shows
a part of a transaction, and of a global one only where that is told (see `joining`).

What does not concern the view is not delivered. Its vector moves on over it, without a commit:
how far a view has come that nothing concerns is noted elsewhere (see `warehouse.notes`).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, assert_never

from headwater.algebra.rows import Rows
from headwater.algorithms.hosted import Hosted
from headwater.errors import EngineError
from headwater.pipeline.committing import Committing
from headwater.pipeline.copied import Copied
from headwater.pipeline.global_parts import GlobalParts
from headwater.pipeline.idling import Idling
from headwater.pipeline.joining import Joining, LateParts, PassedOn, Whereabouts
from headwater.pipeline.owed import Owed
from headwater.pipeline.plan import Plan
from headwater.pipeline.receiving import Receiving
from headwater.pipeline.reflected import InArrivalOrder, Reflected, has_reached
from headwater.pipeline.wanted import Arrival, Commit, Look, Wanted, needed, waits
from headwater.project.gaps import GapError, concerns
from headwater.protocol.effects import Apply, Ask, Send
from headwater.protocol.events import (
    AnswerArrived,
    Event,
    Idled,
    MessageArrived,
    TransactionArrived,
)
from headwater.protocol.transactions import joined
from headwater.sources.contract import Broken, Position
from headwater.sources.subscription import Delivery
from headwater.warehouse.vectors import VersionVector

_LATE = LateParts()
_ALWAYS: Mapping[str, float] = {}
"""Every source has been read all the time."""


class Maintenance:
    """One view, from the vector that its table has.

    `settle` brings a relation to where the table is written from, and merges its counts. `known`
    tells where the parts of global transactions are.
    """

    def __init__(
        self,
        plan: Plan,
        vector: VersionVector,
        settle: Callable[[Rows], Rows] = lambda rows: rows,
        known: Whereabouts | None = None,
        late: LateParts = _LATE,
    ) -> None:
        self.visible = vector
        """What a reader of the view sees is the view at this vector."""
        self._plan = plan
        self._state: Any = plan.manager.start()
        self._reflected = InArrivalOrder(vector) if plan.is_by_arrival else Reflected(vector)
        self._receiving = Receiving(plan.view.sources, self._reflected)
        whole = plan.shows_global_whole
        self.joining = Joining(plan.view, vector, known or GlobalParts(), late, whole)
        self._ready: deque[PassedOn] = deque()
        self._known: dict[str, Sequence[Arrival]] = {}
        self._owed = Owed(plan.view.sources)
        self._copied = Copied(plan.view.copy_parts)
        self._committing = Committing(plan, settle)
        self._idling = Idling(plan)

    @property
    def vector(self) -> VersionVector:
        """What the view reflects, visible or not yet."""
        return self._reflected.vector

    @property
    def is_settled(self) -> bool:
        """Whether the table shows all that was received: it is the view at `vector`."""
        return self._reflected.is_settled and not self._committing.pending.changes

    def noted(self, durable: Mapping[str, int]) -> VersionVector | None:
        """The vector that may be written down without a commit, the change logs being on disk up
        to these numbers; None if the view is to change, or has come further than they."""
        if not self.is_settled:
            return None
        vector = self.vector
        return vector if all(n <= durable[s] for s, n in needed(vector).items()) else None

    @property
    def token_at(self) -> tuple[str, ...]:
        """Where the tokens of a Rings protocol are, by the sources of the nodes."""
        manager = self._plan.manager
        return manager.token_at(self._state) if isinstance(manager, Hosted) else ()

    @property
    def waiting(self) -> int:
        """How many transactions were received and are not reflected yet."""
        return len(self._known) + len(self._ready) + len(self.joining) + len(self._receiving)

    def owes(self, source: str) -> bool:
        """Whether an answer of a source is waited for."""
        return self._owed.by(source)

    def reach(self, targets: Mapping[str, int]) -> bool:
        """Show everything up to these numbers as soon as it is there; whether readers see it."""
        is_there = has_reached(self.vector, targets)
        self._idling.ask(not is_there)
        if not is_there:
            return False
        is_seen = has_reached(self.visible, targets)
        self._committing.hurry(not is_seen)  # what comes later may wait for `refresh_s` again
        return is_seen

    # Deliveries

    def move_on(self, source: str, number: int, position: Position | None = None) -> None:
        """Everything up to a number was taken, or does not concern the view."""
        self._reflected.move_on(source, number, position)
        if not self._committing.pending.changes:
            self.visible = self.vector

    def take(
        self, delivery: Delivery, now: float, read_since: Mapping[str, float] = _ALWAYS
    ) -> Sequence[Wanted]:
        """One delivery; what is to be asked, written and looked up because of it, in this order.

        Each source is being read since a time, or is not (infinity).
        """
        if isinstance(delivery.event, MessageArrived):
            self._idling.heard(now)
            return self._offer(delivery.event, now)
        for received in self._receiving.in_turn(delivery):
            if isinstance(received.event, AnswerArrived):
                self._owed.arrived(received.source)
            else:
                self._reflected.receive(received.source, received.number, received.position)
            self.joining.receive(received)
            self._ready.extend(self.joining.passed(now, read_since))
        return self._join(now, read_since)

    def _join(self, now: float, read_since: Mapping[str, float]) -> list[Wanted]:
        """Hand over what may go on, and ask again where an answer cannot be used."""
        self._ready.extend(self.joining.passed(now, read_since))
        again = [self._owed.ask_again(answer.label) for answer in self.joining.put_off()]
        return [*again, *self._go_on(now)]

    def looked_up(self, event: Event, now: float) -> Sequence[Wanted]:
        """Hand an event over for which rows were looked up, and what has come behind it."""
        return self._and_go_on(self._offer(event, now), now)

    def consulted(self, answer: AnswerArrived, now: float) -> Sequence[Wanted]:
        """Copies were consulted for a question; what is to be done next."""
        return self._and_go_on(self._and_consult(self._hand_over(answer, now)), now)

    def _and_go_on(self, found: Sequence[Wanted], now: float) -> Sequence[Wanted]:
        return found if waits(found) else [*found, *self._go_on(now)]

    def _go_on(self, now: float) -> list[Wanted]:
        """Hand over what was passed on, up to what is to see something that is stored first."""
        found: list[Wanted] = []
        while self._ready and not waits(found):
            found += self._take_in(self._ready.popleft(), now)
        return found

    def _take_in(self, passed: PassedOn, now: float) -> Sequence[Wanted]:
        for delivery in passed.deliveries:
            if delivery.broken is not None:
                self._pass(delivery, delivery.broken)
        event = next((d.event for d in passed.deliveries if d.event is not None), None)
        if event is None:
            return ()
        if isinstance(event, TransactionArrived):
            event = self._arrive(passed)
            if not event.transaction.updates:
                self._reflect(event.transaction.id, now, concerns=False)
                return ()
        else:
            assert isinstance(event, AnswerArrived), f"no view is delivered {event}"
            self._owed.used(event.label)
        self._idling.heard(now)
        return self._offer(event, now)

    def _pass(self, delivery: Delivery, broken: Broken) -> None:
        """Pass a gap in a source's log, if it is none of this view's."""
        if concerns(broken, self._plan.view):
            raise GapError(self._plan.view.name, broken)
        self._reflected.reflect(delivery.source, delivery.number, concerns=False)

    def _arrive(self, passed: PassedOn) -> TransactionArrived:
        """A transaction on its way through the manager, the parts of a global one together."""
        arrivals = [
            Arrival(d.source, d.number, d.position, d.read_at, passed.split)
            for d in passed.deliveries
            if d.event is not None
        ]
        events = [d.event for d in passed.deliveries]
        parts = [e.transaction for e in events if isinstance(e, TransactionArrived)]
        whole = parts[0] if len(parts) == 1 else joined(parts)
        self._known[whole.id] = arrivals
        self._copied.receive(whole)
        return TransactionArrived(whole)

    # The manager

    def _offer(self, event: Event, now: float) -> Sequence[Wanted]:
        """Hand an event over, unless the manager wants to see (more) of the view before."""
        if isinstance(event, TransactionArrived):
            wanted = self._plan.manager.looks_up(self._state, event)
            if wanted:
                pending = tuple(self._committing.pending.actions)
                return [Look(event, wanted, pending, self._plan.view.copy_parts)]
        return self._and_consult(self._hand_over(event, now))

    def _and_consult(self, found: Sequence[Wanted]) -> Sequence[Wanted]:
        """The next question that copies answer comes last: what is before it is stored by then."""
        return [*found, self._copied.next()] if self._copied.is_asked else found

    def _hand_over(self, event: Event, now: float) -> list[Ask | Send | Commit]:
        """Let the manager take an event in; what it wants done."""
        self._state, effects = self._plan.manager.handle(self._state, event)
        found: list[Ask | Send | Commit] = []
        for effect in effects:
            match effect:
                case Ask():
                    if not self._copied.takes(effect):
                        found.append(self._owed.ask(effect))
                case Apply():
                    found += self._apply(effect, now)
                case Send():
                    found.append(effect)
                case _:
                    assert_never(effect)
        return found

    def _apply(self, apply: Apply, now: float) -> Sequence[Commit]:
        if not self._is_in(apply.transactions):
            self._committing.apply(apply.actions, now)
        if apply.transactions or not self._known:
            self._committing.complete()
        for name in apply.transactions:
            self._reflect(name, now)
        if self._plan.shows_each_state and self._committing.is_due(now):
            return self._gathered()
        return ()

    def _is_in(self, transactions: Sequence[str]) -> bool:
        """Whether the view showed these before it was stopped: an algorithm may commit early."""
        received = [arrival for name in transactions for arrival in self._known[name]]
        early = {self._reflected.was_early(one.source, one.number) for one in received}
        if len(early) == 2:
            name = self._plan.view.name
            raise EngineError(
                f"View {name} shows some of the transactions that are taken together now.",
                f"Load it anew: headwater reload {name}.",
            )
        return early == {True}

    def _reflect(self, name: str, now: float, concerns: bool = True) -> None:
        for received in self._known.pop(name):
            self._reflected.reflect(received.source, received.number, concerns)
            if concerns:
                self._committing.pending.received.append(received)
        self._committing.copy(self._copied.reflect(name), now)

    # Time

    def tick(
        self, now: float, more: bool, read_since: Mapping[str, float] = _ALWAYS
    ) -> Sequence[Wanted]:
        """What is to be asked and written now; `more` says whether something else has arrived."""
        found = self._join(now, read_since)
        if waits(found):
            return found
        committing = self._committing
        if now >= self._idle_at and self._idling.is_quiet(more):
            self._idling.told(now)
            found += self._hand_over(Idled(), now)
        if committing.is_due(now) and (not more or committing.has_waited(now)):
            found += self._gathered()
        if not committing.pending.changes and not found and not self._copied.is_asked:
            self.visible = self.vector
            if committing.is_due_unchanged(now, more):
                found += committing.unchanged(self.vector)
        return self._and_consult(found)

    def finish(self) -> Sequence[Commit]:
        """What is to be written at the end: all that is ready, and what was taken in."""
        if self._committing.pending.is_half:
            return []
        return self._gathered() or self._committing.unchanged(self.vector)

    def written(self, commit: Commit, now: float) -> None:
        """A commit is in the table."""
        self.visible = commit.vector
        self._committing.written(now)

    @property
    def due(self) -> float:
        """Until when it may be left alone if nothing arrives."""
        return min(self._idle_at, self.joining.due, self._committing.due)

    @property
    def _idle_at(self) -> float:
        """When the manager is to be told that nothing goes on; never, if it does not want to."""
        return self._idling.due if self._plan.manager.wants_idle(self._state) else math.inf

    def _gathered(self) -> list[Commit]:
        """The commit of everything that is pending, if that changes the view.

        What of a transaction has come waits for the rest of it.
        """
        if self._committing.pending.is_half:
            return []
        self._copied.committed()
        return self._committing.gathered(self.vector)
