"""The maintenance of one view as a machine: deliveries and time in, questions and commits out.

It feeds the view's manager one event at a time, gathers what the manager wants applied, and says
when that is to be committed and with which version vector. Threads, tables and clocks are its
driver's (see `maintain`), which tells it the time.

A transaction is known to the manager by its source and its number there: what a source calls it
need not be unique. Unless every state is to be shown, what is ready while more has arrived
is committed together. What is committed is an action list; what it comes to is found when it is
written, by looking up the rows that it touches (see `protocol.action_lists`). A commit never shows
a part of a transaction.

What does not concern the view is not delivered. Its vector moves on over it, without a commit:
how far a view has come that nothing concerns is noted elsewhere (see `warehouse.notes`). What
it has taken in and what did not change it is committed when it has been quiet for a while.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Literal, TypeAlias, assert_never

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.views import View
from headwater.algorithms.hosted import Hosted
from headwater.check.levels import Level, parse_level
from headwater.errors import EngineError, HeadwaterError
from headwater.pipeline.reflected import Reflected, has_reached, ranges
from headwater.project.gaps import GapError, concerns
from headwater.protocol.action_lists import StoredView, change_by, seen_behind
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
from headwater.protocol.managers import ViewManager
from headwater.protocol.transactions import Transaction, Update
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
IDLE_S = 0.05
"""After how long without anything a manager that wants to know is told that nothing goes on."""


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

    def relations(self, source: str) -> frozenset[str]:
        """What of a source concerns the view."""
        return frozenset(r.name for r in self.view.relations if r.source == source)

    @property
    def shows_each_state(self) -> bool:
        return parse_level(self.level) >= Level.COMPLETE


@dataclass(frozen=True)
class Arrival:
    """A transaction on its way through the manager."""

    source: str
    number: int
    position: Position | None
    read_at: float

    @property
    def id(self) -> str:
        return identity(self.source, self.number)


def identity(source: str, number: int) -> str:
    """What a transaction is called towards the manager: no two of all sources are alike."""
    return f"{source}:{number}"


def relevant(view: View, transaction: Transaction, delivery: Delivery, lift: Lift) -> Transaction:
    """What a transaction means to a view, under the name by which its manager knows it."""
    schemas = {relation.name: relation.schema for relation in view.relations}
    updates = []
    for name, delta in transaction.deltas.items():
        if name in schemas:
            place = f"transaction {delivery.number} of {delivery.source}"
            if found := narrowed(delta, schemas[name], view.name, name, place):
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
    return {source: max([reached.number, *reached.also]) for source, reached in vector.items()}


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

    def change(self, stored: StoredView) -> Rows:
        """The signed rows to be added to what is stored now, behind every earlier commit."""
        return change_by(self.actions, stored)

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


@dataclass(frozen=True)
class Look:
    """Look rows of the view up for the manager, which takes a transaction in when it has seen them;
    nothing else is to be done to the view before."""

    event: TransactionArrived
    wanted: tuple[LookUp, ...]
    pending: tuple[Action, ...]
    """What is still to be committed."""

    def found(self, stored: StoredView) -> TransactionArrived:
        """The transaction with what was looked up."""
        return self.event.seeing(self.wanted, seen_behind(self.pending, self.wanted, stored))


@dataclass
class _Pending:
    """What the next commit makes visible."""

    actions: list[Action] = field(default_factory=list)
    received: list[Arrival] = field(default_factory=list)
    since: float = 0.0
    is_half: bool = False
    """Whether it has a transaction of which the rest is still to come."""


class Maintenance:
    """One view, from the vector that its table has.

    `settle` brings a relation to where the table is written from, and merges its counts.
    """

    def __init__(
        self,
        plan: Plan,
        vector: VersionVector,
        settle: Callable[[Rows], Rows] = lambda rows: rows,
    ) -> None:
        self.visible = vector
        """What a reader of the view sees is the view at this vector."""
        self._plan = plan
        self._settle = settle
        self._reflected = Reflected(vector)
        self._state: Any = plan.manager.start(Rows.empty(plan.view.schema), {})
        self._known: dict[str, Arrival] = {}
        self._pending = _Pending()
        self._written_at = -math.inf  # the first change is due at once
        self._hurries = False
        self._owed = dict.fromkeys(plan.view.sources, 0)
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
        return self._reflected.is_settled and not self._pending.actions

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
        return len(self._known)

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
        if not self._pending.actions:
            self.visible = self.vector

    def take(self, delivery: Delivery, now: float) -> Sequence[Ask | Send | Commit | Look]:
        """One delivery; what is to be asked, written and looked up because of it, in this order."""
        if delivery.broken is not None:
            self._pass(delivery, delivery.broken)
            return ()
        event = delivery.event
        match event:
            case TransactionArrived(transaction):
                received = Arrival(
                    delivery.source, delivery.number, delivery.position, delivery.read_at
                )
                self._known[received.id] = received
                self._reflected.receive(received.source, received.number, received.position)
                if not transaction.updates:
                    self._reflect(transaction.id, concerns=False)
                    return ()
            case AnswerArrived(source):
                self._owed[source] -= 1
            case MessageArrived():
                pass
            case _:
                raise AssertionError(f"no view is delivered {event}")
        self._heard_at = now
        return self.looked_up(event, now)

    def looked_up(self, event: Event, now: float) -> Sequence[Ask | Send | Commit | Look]:
        """Hand an event over, unless the manager wants to see (more) of the view before."""
        if isinstance(event, TransactionArrived):
            wanted = self._plan.manager.looks_up(self._state, event)
            if wanted:
                return [Look(event, wanted, tuple(self._pending.actions))]
        return self._hand_over(event, now)

    def _hand_over(self, event: Event, now: float) -> list[Ask | Send | Commit]:
        """Let the manager take an event in; what it wants done."""
        self._state, effects = self._plan.manager.handle(self._state, event)
        found: list[Ask | Send | Commit] = []
        for effect in effects:
            match effect:
                case Ask(source=source):
                    self._owed[source] += 1
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
        self._reflected.receive(delivery.source, delivery.number, delivery.position)
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
            self._reflect(name)
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
        received = [self._known[name] for name in transactions]
        early = {self._reflected.was_early(one.source, one.number) for one in received}
        if len(early) == 2:
            name = self._plan.view.name
            raise EngineError(
                f"View {name} shows some of the transactions that are taken together now.",
                f"Load it anew: headwater reload {name}.",
            )
        return early == {True}

    def _reflect(self, name: str, concerns: bool = True) -> None:
        received = self._known.pop(name)
        self._reflected.reflect(received.source, received.number, concerns)
        if concerns:
            self._pending.received.append(received)

    # Time

    def tick(self, now: float, more: bool) -> Sequence[Ask | Send | Commit]:
        """What is to be asked and written now; `more` says whether something else has arrived."""
        found: list[Ask | Send | Commit] = []
        if now >= self._idle_at() and not (more and self._plan.ticks == "when quiet"):
            self._is_asked, self._told_at = False, now
            found += self._hand_over(Idled(), now)
        if self._is_due(now) and (not more or self._has_waited(now)):
            found += self._gathered()
        if not self._pending.actions and not found:
            self.visible = self.vector
            taken_in = len(self._pending.received)
            is_quiet = not more and now >= self._written_at + UNCHANGED_S
            if taken_in > _MOST_UNCHANGED or (taken_in and is_quiet):
                found.append(self._unchanged())
        return found

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
        idle = self._idle_at()
        if self._pending.actions and not self._pending.is_half:
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
        if not actions:
            self._pending.received = pending.received
            return []
        return [Commit(actions, self.vector, pending.received)]

    def _merged(self, actions: Sequence[Action]) -> Iterator[Action]:
        """The list in the form that is stored, with what is added together in one action."""
        view = self._plan.view
        for kind, group in groupby(actions, type):
            if kind is Add:
                parts = [action.rows for action in group if isinstance(action, Add)]
                yield Add(self._settle(view.stored(Rows.sum(view.schema, parts))))
            elif kind is Replace:
                *_, last = (action.rows for action in group if isinstance(action, Replace))
                yield Replace(self._settle(view.stored(last)))
            else:
                assert view.compact is None, f"{view.name} has no rows to {kind.__name__}"
                yield from group

    def _unchanged(self) -> Commit:
        """What the view has taken in although it did not change."""
        pending, self._pending = self._pending, _Pending()
        return Commit((), self.vector, pending.received, "vector")

    def _is_due(self, now: float) -> bool:
        ready = bool(self._pending.actions) and not self._pending.is_half
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
