"""The maintenance of one view as a machine: deliveries and time in, questions and commits out.

It feeds the view's manager one event at a time, gathers what the manager wants applied, and says
when that is to be committed and with which version vector. Threads, tables and clocks are its
driver's (see `maintain`), which tells it the time.

A transaction is known to the manager by its source and its number there: what a source calls it
need not be unique. Unless every state is to be shown, what is ready while more has arrived
is committed together. What is committed is an action list; what it comes to is found when it is
written, by looking up the rows that it touches (see `protocol.action_lists`). A commit never shows
a part of a transaction, and of a global one only where that is told (see `joining`).

What does not concern the view is not delivered. Its vector moves on over it, without a commit:
how far a view has come that nothing concerns is noted elsewhere (see `warehouse.notes`). What
it has taken in and what did not change it is committed when it has been quiet for a while.

Questions about relations of which copies are stored beside the view's rows are answered from these
(see `protocol.copies`), one at a time, each when everything before it is done.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Literal, TypeAlias, assert_never

from headwater.algebra.copies import CopyParts
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.views import View
from headwater.algorithms.hosted import Hosted
from headwater.algorithms.registry import ALGORITHMS
from headwater.check.levels import Level, parse_level
from headwater.errors import EngineError, HeadwaterError
from headwater.pipeline.copied import Consult, Copied
from headwater.pipeline.global_parts import GlobalParts
from headwater.pipeline.joining import Joining, LateParts, PassedOn, Whereabouts, identity
from headwater.pipeline.reflected import InArrivalOrder, Reflected, has_reached, ranges
from headwater.project.gaps import GapError, concerns
from headwater.protocol.action_lists import StoredView, change_by, seen_behind
from headwater.protocol.copies import OwnRows
from headwater.protocol.effects import (
    Action,
    Add,
    AddNew,
    Apply,
    Ask,
    KeyDelete,
    Replace,
    Send,
)
from headwater.protocol.events import (
    AnswerArrived,
    Event,
    Idled,
    MessageArrived,
    TransactionArrived,
)
from headwater.protocol.look_ups import LookUp
from headwater.protocol.managers import Need, ViewManager
from headwater.protocol.transactions import Transaction, Update, joined
from headwater.sources.contract import Broken, Lift, Position
from headwater.sources.subscription import Delivery
from headwater.warehouse.commits import Kind
from headwater.warehouse.definition import StoredDefinition
from headwater.warehouse.vectors import VersionVector

UNCHANGED_S = 5.0
"""After how long a quiet view commits what it has taken in without a change."""
_MOST_UNCHANGED = 5000
_MOST_TOGETHER = 1000
_LONGEST_TOGETHER_S = 0.2
_MOST_SIFTED = 10_000
"""Of a larger change rows are not looked at one by one: it is asked for at once anyway."""
IDLE_S = 0.05
"""After how long without anything a manager that wants to know is told that nothing goes on."""
_LATE = LateParts()
_ALWAYS: Mapping[str, float] = {}
"""Every source has been read all the time."""


Ticks: TypeAlias = Literal["when quiet", "by clock", "when asked"]
"""When a manager that wants to know is told that nothing goes on: after a moment in which nothing
has happened; every `refresh_s`; when somebody wants to see everything."""


@dataclass(frozen=True)
class Plan:
    """How one view is to be maintained; its relations have only the columns that it uses."""

    view: View
    manager: ViewManager[Any]
    algorithm: str
    level: str
    definition: StoredDefinition
    refresh_s: float | None = None
    publish_s: float = 60.0
    changes: bool = False
    """Whether a table of its changes follows the plain table."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Of the algorithm."""
    ticks: Ticks = "when quiet"

    @property
    def is_by_arrival(self) -> bool:
        """Whether it matters in which order transactions of different sources are received: where
        one is committed before others that came earlier."""
        is_early = Need.EARLY in ALGORITHMS[self.algorithm].needs
        return is_early and len(self.view.sources) > 1

    def relations(self, source: str) -> frozenset[str]:
        """What of a source concerns the view."""
        return frozenset(r.name for r in self.view.relations if r.source == source)

    @property
    def shows_each_state(self) -> bool:
        return parse_level(self.level) >= Level.COMPLETE

    @property
    def shows_global_whole(self) -> bool:
        """Whether global transactions are taken in as a whole, and not each part by itself."""
        return len(self.view.sources) > 1 and ALGORITHMS[self.algorithm].is_given_wholes


@dataclass(frozen=True)
class Arrival:
    """A transaction on its way through the manager."""

    source: str
    number: int
    position: Position | None
    read_at: float
    split: tuple[str, ...] = ()
    """The global transactions of which it is a part that is taken in without the others."""

    @property
    def id(self) -> str:
        return identity(self.source, self.number)


def relevant(view: View, transaction: Transaction, delivery: Delivery, lift: Lift) -> Transaction:
    """What a transaction means to a view, under the name by which its manager knows it.

    Rows that the view's conditions on their relation rule out mean nothing to it.
    """
    schemas = {relation.name: relation.schema for relation in view.relations}
    updates = []
    for name, delta in transaction.deltas.items():
        if name in schemas:
            place = f"transaction {delivery.number} of {delivery.source}"
            found = narrowed(delta, schemas[name], view.name, name, place)
            if len(found) <= _MOST_SIFTED:
                found = view.relevant_rows(name, found)
            if found:
                updates.append(Update(name, lift(found)))
    called = identity(delivery.source, delivery.number)
    return replace(transaction, id=called, updates=tuple(updates))


def narrowed(delta: Rows, schema: Schema, view: str, relation: str, place: str) -> Rows:
    """A logged change of a relation, with the columns of it that a view uses.

    What was logged before a column was needed, or when it was gone, does not have it.
    """
    absent = [c for c in schema.columns if c.name not in delta.schema.positions]
    if absent:
        lacking = ", ".join(dict.fromkeys(c.text_of or c.name for c in absent))
        raise HeadwaterError(
            f"View {view} needs {lacking} of {relation}, which {place} was logged without.",
            f"Load it anew: headwater reload {view}. If {relation} has no {lacking} any more "
            "(it was renamed or dropped), change the view first.",
        )
    return delta.only(schema)


def _needed(vector: VersionVector) -> dict[str, int]:
    """Up to which numbers the change logs have to hold everything before a vector is written
    down: else a crash would leave a view that has come further than its log."""
    return {
        source: max([reached.number, *reached.also, *(number for number, _ in reached.arrived)])
        for source, reached in vector.items()
    }


def _changes_nothing(delivery: Delivery) -> bool:
    """Whether it is no transaction that changes the view."""
    event = delivery.event
    return not (isinstance(event, TransactionArrived) and event.transaction.updates)


def _may_come(delivery: Delivery, order: InArrivalOrder) -> bool:
    return order.may_come(delivery.source, delivery.number)


def _waits(effects: Sequence[Wanted]) -> bool:
    """Whether nothing else is to be done to the view before something was looked up."""
    return bool(effects) and isinstance(effects[-1], Look | Consult)


def _does_something(action: Action) -> bool:
    match action:
        case Add(rows) | AddNew(rows):
            return bool(rows)
        case KeyDelete(keys=keys):
            return bool(keys)
        case Replace():
            return True
        case _:
            assert_never(action)


@dataclass(frozen=True)
class Commit:
    """Make a change of the view visible, in one step, with the vector that it stands for."""

    actions: tuple[Action, ...]
    """What is to be done to what is stored."""
    vector: VersionVector
    received: Sequence[Arrival] = ()
    kind: Kind = "change"
    parts: CopyParts | None = None
    """How copies of relations are stored beside the view's rows, if there are any."""
    copied: Sequence[Rows] = ()
    """What the copies change by, as it is stored."""

    def change(self, stored: StoredView) -> Rows:
        """The signed rows to be added to what is stored now, behind every earlier commit."""
        if self.parts is None:
            return change_by(self.actions, stored)
        own = self.parts.stored(change_by(self.actions, OwnRows(stored, self.parts)))
        return Rows.sum(self.parts.schema, [own, *self.copied])

    @property
    def needed(self) -> dict[str, int]:
        """Up to which numbers the change logs have to hold everything before it is written."""
        return _needed(self.vector)

    @property
    def added(self) -> dict[str, tuple[tuple[int, int], ...]]:
        """The numbers of the transactions that it takes in."""
        numbers: dict[str, list[int]] = {}
        for received in self.received:
            numbers.setdefault(received.source, []).append(received.number)
        return {source: ranges(found) for source, found in numbers.items()}

    @property
    def split(self) -> tuple[str, ...]:
        """The global transactions of which it takes in a part without the others."""
        return tuple(sorted({name for received in self.received for name in received.split}))


@dataclass(frozen=True)
class Look:
    """Look rows of the view up for the manager, which takes a transaction in when it has seen them;
    nothing else is to be done to the view before."""

    event: TransactionArrived
    wanted: tuple[LookUp, ...]
    pending: tuple[Action, ...]
    """What is still to be committed."""
    parts: CopyParts | None = None
    """How copies of relations are stored beside the view's rows, if there are any."""

    def found(self, stored: StoredView) -> TransactionArrived:
        """The transaction with what was looked up."""
        stored = stored if self.parts is None else OwnRows(stored, self.parts)
        return self.event.seeing(self.wanted, seen_behind(self.pending, self.wanted, stored))


Wanted: TypeAlias = Ask | Send | Commit | Look | Consult
"""What is to be done for a view. A look, or a consultation, comes last."""


@dataclass
class _Pending:
    """What the next commit makes visible."""

    actions: list[Action] = field(default_factory=list)
    copied: list[Rows] = field(default_factory=list)
    """What copies of relations change by, as it is stored."""
    received: list[Arrival] = field(default_factory=list)
    since: float = 0.0
    is_half: bool = False
    """Whether it has a transaction of which the rest is still to come."""

    @property
    def changes(self) -> bool:
        """Whether it may change what is stored."""
        return bool(self.actions or self.copied)


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
        self._settle = settle
        self._reflected = InArrivalOrder(vector) if plan.is_by_arrival else Reflected(vector)
        self._held: dict[str, deque[Delivery]] = {source: deque() for source in plan.view.sources}
        """What has come and has to wait for others to be received again before it."""
        self._state: Any = plan.manager.start(Rows.empty(plan.view.schema), {})
        whole = plan.shows_global_whole
        self.joining = Joining(plan.view, vector, known or GlobalParts(), late, whole)
        self._ready: deque[PassedOn] = deque()
        self._known: dict[str, Sequence[Arrival]] = {}
        self._pending = _Pending()
        self._parts = plan.view.copy_parts
        self._copied = Copied(self._parts)
        self._to_answer: deque[Ask] = deque()
        self._written_at = -math.inf  # the first change is due at once
        self._hurries = False
        self._owed = dict.fromkeys(plan.view.sources, 0)
        self._asked: dict[str, Ask] = {}
        self._heard_at = 0.0
        self._told_at = 0.0
        self._is_asked = False

    @property
    def vector(self) -> VersionVector:
        """What the view reflects, visible or not yet."""
        return self._reflected.vector

    @property
    def is_settled(self) -> bool:
        """Whether the table shows all that was received: it is the view at `vector`."""
        return self._reflected.is_settled and not self._pending.changes

    def noted(self, durable: Mapping[str, int]) -> VersionVector | None:
        """The vector that may be written down without a commit, the change logs being on disk up
        to these numbers; None if the view is to change, or has come further than they."""
        if not self.is_settled:
            return None
        vector = self.vector
        return vector if all(n <= durable[s] for s, n in _needed(vector).items()) else None

    @property
    def token_at(self) -> tuple[str, ...]:
        """Where the tokens of a Rings protocol are, by the sources of the nodes."""
        manager = self._plan.manager
        return manager.token_at(self._state) if isinstance(manager, Hosted) else ()

    @property
    def waiting(self) -> int:
        """How many transactions were received and are not reflected yet."""
        held = sum(map(len, self._held.values()))
        return len(self._known) + len(self._ready) + len(self.joining) + held

    def owes(self, source: str) -> bool:
        """Whether an answer of a source is waited for."""
        return self._owed[source] > 0

    def reach(self, targets: Mapping[str, int]) -> bool:
        """Show everything up to these numbers as soon as it is there; whether readers see it."""
        if not has_reached(self.vector, targets):
            self._is_asked = True
            return False
        self._is_asked = False
        self._hurries = True
        return has_reached(self.visible, targets)

    # Deliveries

    def move_on(self, source: str, number: int, position: Position | None = None) -> None:
        """Everything up to a number was taken, or does not concern the view."""
        self._reflected.move_on(source, number, position)
        if not self._pending.changes:
            self.visible = self.vector

    def take(
        self, delivery: Delivery, now: float, read_since: Mapping[str, float] = _ALWAYS
    ) -> Sequence[Wanted]:
        """One delivery; what is to be asked, written and looked up because of it, in this order.

        Each source is being read since a time, or is not (infinity).
        """
        if isinstance(delivery.event, MessageArrived):
            self._heard_at = now
            return self._offer(delivery.event, now)
        for received in self._in_turn(delivery):
            if isinstance(received.event, AnswerArrived):
                self._owed[received.source] -= 1
            else:
                self._reflected.receive(received.source, received.number, received.position)
            self.joining.receive(received)
            self._ready.extend(self.joining.passed(now, read_since))
        return self._join(now, read_since)

    def _join(self, now: float, read_since: Mapping[str, float]) -> list[Wanted]:
        """Hand over what may go on, and ask again where an answer cannot be used."""
        self._ready.extend(self.joining.passed(now, read_since))
        again = [self._asked[answer.label] for answer in self.joining.put_off()]
        for ask in again:
            self._owed[ask.source] += 1
        return [*again, *self._go_on(now)]

    def _in_turn(self, delivery: Delivery) -> Iterator[Delivery]:
        """What is received now: what has come, unless others are to be received before it."""
        order = self._reflected
        if not isinstance(order, InArrivalOrder):
            yield delivery
            return
        self._held[delivery.source].append(delivery)
        while (ready := self._next_held(order)) is not None:
            yield ready

    def _next_held(self, order: InArrivalOrder) -> Delivery | None:
        """What may be received now, of which nothing of its source is in the way."""
        for waiting in self._held.values():
            if waiting and (_changes_nothing(waiting[0]) or _may_come(waiting[0], order)):
                return waiting.popleft()
        return None

    def looked_up(self, event: Event, now: float) -> Sequence[Wanted]:
        """Hand an event over for which rows were looked up, and what has come behind it."""
        return self._and_go_on(self._offer(event, now), now)

    def consulted(self, answer: AnswerArrived, now: float) -> Sequence[Wanted]:
        """Copies were consulted for a question; what is to be done next."""
        return self._and_go_on(self._and_consult(self._hand_over(answer, now)), now)

    def _and_go_on(self, found: Sequence[Wanted], now: float) -> Sequence[Wanted]:
        return found if _waits(found) else [*found, *self._go_on(now)]

    def _go_on(self, now: float) -> list[Wanted]:
        """Hand over what was passed on, up to what is to see something that is stored first."""
        found: list[Wanted] = []
        while self._ready and not _waits(found):
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
            del self._asked[event.label]
        self._heard_at = now
        return self._offer(event, now)

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

    def _offer(self, event: Event, now: float) -> Sequence[Wanted]:
        """Hand an event over, unless the manager wants to see (more) of the view before."""
        if isinstance(event, TransactionArrived):
            wanted = self._plan.manager.looks_up(self._state, event)
            if wanted:
                return [Look(event, wanted, tuple(self._pending.actions), self._parts)]
        return self._and_consult(self._hand_over(event, now))

    def _and_consult(self, found: Sequence[Wanted]) -> Sequence[Wanted]:
        """The next question that copies answer comes last: what is before it is stored by then."""
        if not self._to_answer:
            return found
        return [*found, self._copied.consult(self._to_answer.popleft())]

    def _hand_over(self, event: Event, now: float) -> list[Ask | Send | Commit]:
        """Let the manager take an event in; what it wants done."""
        self._state, effects = self._plan.manager.handle(self._state, event)
        found: list[Ask | Send | Commit] = []
        for effect in effects:
            match effect:
                case Ask(source=source):
                    if self._copied.has_all_for(effect):
                        self._to_answer.append(effect)
                    else:
                        self._owed[source] += 1
                        self._asked[effect.label] = effect
                        found.append(effect)
                case Apply():
                    found += self._apply(effect, now)
                case Send():
                    found.append(effect)
                case _:
                    assert_never(effect)
        return found

    def _pass(self, delivery: Delivery, broken: Broken) -> None:
        """Pass a gap in a source's log, if it is none of this view's."""
        if concerns(broken, self._plan.view):
            raise GapError(self._plan.view.name, broken)
        self._reflected.reflect(delivery.source, delivery.number, concerns=False)

    def _apply(self, apply: Apply, now: float) -> Sequence[Commit]:
        if not self._is_in(apply.transactions):
            for action in filter(_does_something, map(self._settled, apply.actions)):
                self._pending.since = self._pending.since or now
                self._pending.actions.append(action)
                self._pending.is_half = True
        if apply.transactions:
            self._pending.is_half = False
        for name in apply.transactions:
            self._reflect(name, now)
        if self._plan.shows_each_state and self._is_due(now):
            return self._gathered()
        return ()

    def _settled(self, action: Action) -> Action:
        match action:
            case Add(rows) | AddNew(rows) | Replace(rows):
                return replace(action, rows=self._settle(rows))
            case KeyDelete():
                return action
            case _:
                assert_never(action)

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
                self._pending.received.append(received)
        for rows in self._copied.reflect(name):
            self._pending.since = self._pending.since or now
            self._pending.copied.append(self._settle(rows))

    # Time

    def tick(
        self, now: float, more: bool, read_since: Mapping[str, float] = _ALWAYS
    ) -> Sequence[Wanted]:
        """What is to be asked and written now; `more` says whether something else has arrived."""
        found = self._join(now, read_since)
        if _waits(found):
            return found
        if now >= self._idle_at() and not (more and self._plan.ticks == "when quiet"):
            self._is_asked, self._told_at = False, now
            found += self._hand_over(Idled(), now)
        if self._is_due(now) and (not more or self._has_waited(now)):
            found += self._gathered()
        if not self._pending.changes and not found and not self._to_answer:
            self.visible = self.vector
            taken_in = len(self._pending.received)
            is_quiet = not more and now >= self._written_at + UNCHANGED_S
            if taken_in > _MOST_UNCHANGED or (taken_in and is_quiet):
                found.append(self._unchanged())
        return self._and_consult(found)

    def finish(self) -> Sequence[Commit]:
        """What is to be written at the end: all that is ready, and what was taken in."""
        if self._pending.is_half:
            return []
        return self._gathered() or ([self._unchanged()] if self._pending.received else [])

    def written(self, commit: Commit, now: float) -> None:
        """A commit is in the table."""
        self.visible = commit.vector
        self._written_at = now

    @property
    def due(self) -> float:
        """Until when it may be left alone if nothing arrives."""
        idle = min(self._idle_at(), self.joining.due)
        if self._pending.changes and not self._pending.is_half:
            return min(idle, self._due_at())
        return min(idle, self._written_at + UNCHANGED_S if self._pending.received else math.inf)

    def _idle_at(self) -> float:
        """When the manager is to be told that nothing goes on; never, if it does not want to."""
        if not self._plan.manager.wants_idle(self._state):
            return math.inf
        if self._is_asked:
            return 0.0
        match self._plan.ticks:
            case "when quiet":
                return self._heard_at + IDLE_S
            case "by clock":
                return self._told_at + (self._plan.refresh_s or IDLE_S)
            case "when asked":
                return math.inf

    def _gathered(self) -> list[Commit]:
        """The commit of everything that is pending, if that changes the view.

        What of a transaction has come waits for the rest of it.
        """
        if self._pending.is_half:
            return []
        pending, self._pending = self._pending, _Pending()
        actions = tuple(filter(_does_something, self._merged(pending.actions)))
        copied = tuple(filter(None, pending.copied))
        self._copied.committed()
        if not actions and not copied:
            self._pending.received = pending.received
            return []
        return [Commit(actions, self.vector, pending.received, parts=self._parts, copied=copied)]

    def _merged(self, actions: Sequence[Action]) -> Iterator[Action]:
        """The list in the form that is stored, with what is added together in one action."""
        view = self._plan.view
        for kind, group in groupby(actions, type):
            if kind is Add:
                parts = [action.rows for action in group if isinstance(action, Add)]
                yield Add(self._settle(view.condensed(Rows.sum(view.schema, parts))))
            elif kind is Replace:
                *_, last = (action.rows for action in group if isinstance(action, Replace))
                yield Replace(self._settle(view.condensed(last)))
            else:
                assert view.compact is None, f"{view.name} has no rows to {kind.__name__}"
                yield from group

    def _unchanged(self) -> Commit:
        """What the view has taken in although it did not change."""
        pending, self._pending = self._pending, _Pending()
        return Commit((), self.vector, pending.received, "vector", self._parts)

    def _is_due(self, now: float) -> bool:
        ready = self._pending.changes and not self._pending.is_half
        return ready and now >= self._due_at()

    def _due_at(self) -> float:
        if self._hurries or self._plan.refresh_s is None or self._plan.ticks == "by clock":
            return self._written_at
        return self._written_at + self._plan.refresh_s

    def _has_waited(self, now: float) -> bool:
        """Whether what is ready goes before what else has arrived."""
        return (
            len(self._pending.received) >= _MOST_TOGETHER
            or now > self._pending.since + _LONGEST_TOGETHER_S
        )
