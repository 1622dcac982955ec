"""A deployment without threads, clocks and databases: the machines of production, one schedule.

Sources log transactions, and make them visible in another order where that changes nothing else;
what is read goes to a change log, of which a crash keeps what was synced; each view has a place
in each order and commits, or notes how far it has come without a change: some transactions are
of no concern to it. Every choice is drawn from one seed.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from headwater.algebra.evaluate import evaluate, evaluate_view
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import INT, Row
from headwater.algebra.views import View
from headwater.check.certificate import Certificate, Claim, certify
from headwater.check.history import History
from headwater.check.levels import Level
from headwater.lab.generate import Shape, generate
from headwater.pipeline.maintenance import Commit, Maintenance, Plan, Received, identity, relevant
from headwater.pipeline.recording import Recording, numbered_of
from headwater.project.choice import choose
from headwater.protocol.effects import Ask
from headwater.protocol.events import AnswerArrived, TransactionArrived
from headwater.protocol.transactions import Transaction, Update
from headwater.sources.contract import Committed, Logged, Marked, Reply, as_it_is
from headwater.sources.order import Answer, Deliver, Inquire, Order, Place
from headwater.sources.subscription import Delivery
from headwater.warehouse.change_records import Change, Record
from headwater.warehouse.definition import StoredDefinition
from headwater.warehouse.vectors import Reached, VersionVector


@dataclass(frozen=True)
class Seen:
    """A snapshot: the transactions in it."""

    numbers: frozenset[int]

    def includes(self, stamp: int) -> bool:
        return stamp in self.numbers


class Database:
    """A source: its transactions to come, its log, and what is visible of it."""

    def __init__(
        self, name: str, initial: Mapping[str, Rows], transactions: tuple[Transaction, ...]
    ) -> None:
        self.name = name
        self.log: list[Logged] = []
        self._initial = initial
        self._transactions = transactions
        self._logged = 0
        self._visible: set[int] = set()

    def steps(self) -> Iterator[Callable[[Random], None]]:
        if self._logged < len(self._transactions):
            yield self._write
        if any(self._can_appear()):
            yield self._appear

    def _write(self, random: Random) -> None:
        self._logged += 1
        transaction = self._transactions[self._logged - 1]
        self.log.append(Committed(transaction, {"at": self._logged}, self._logged))

    def _appear(self, random: Random) -> None:
        self._visible.add(random.choice(list(self._can_appear())))

    def _can_appear(self) -> Iterator[int]:
        """What is logged and not visible, and has no row in common with what comes before it."""
        passed: set[tuple[str, Row]] = set()
        for number in range(1, self._logged + 1):
            if number not in self._visible:
                deltas = self._transactions[number - 1].deltas
                changed = {(name, row) for name, delta in deltas.items() for row in delta}
                if not changed & passed:
                    yield number
                passed |= changed

    def state(self, numbers: set[int] | frozenset[int]) -> dict[str, Rows]:
        state = dict(self._initial)
        for number in sorted(numbers):
            for name, delta in self._transactions[number - 1].deltas.items():
                state[name] = state[name] + delta
        return state

    def answer(self, ask: Ask) -> Reply:
        marker = f"{len(self.log)}"
        self.log.append(Marked(marker))
        state = self.state(self._visible)
        results = tuple(evaluate(query, state) for query in ask.queries)
        return Reply(results, Seen(frozenset(self._visible)), marker)


class Follower:
    """One source as a runner reads it: its order, and the change log that outlives the runner."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.disk: list[Change] = []
        """What a crash leaves of the change log."""
        self.forgotten = 0
        """What the source does not have any more."""
        self.start()

    def start(self) -> None:
        """A runner begins: it has what was synced, and reads on behind it."""
        assert len(self.disk) >= self.forgotten, "a transaction is neither here nor there"
        end = len(self.disk)
        at = [n for n, item in enumerate(self.database.log) if isinstance(item, Committed)]
        self.read_to = at[end - 1] + 1 if end else 0
        self.recording = Recording(end, {"at": end})
        self.order = Order(end, None, lambda number: number <= self.recording.end)
        self.written: list[Record] = []

    def steps(self) -> Iterator[Callable[[Random], None]]:
        if self.read_to < len(self.database.log):
            yield self._read
        if self.written:
            yield self._sync
        elif self.recording.is_due:
            yield self._write
        if self.recording.to_acknowledge(0.0, at_once=True) is not None:
            yield self._acknowledge

    def _read(self, random: Random) -> None:
        until = random.randint(self.read_to + 1, len(self.database.log))
        logged = self.database.log[self.read_to : until]
        kept = [item for item in logged if isinstance(item, Committed)]
        self.recording.record(self.order.end + 1, kept)
        self.order.take(logged)
        self.read_to = until

    def _write(self, random: Random) -> None:
        self.written = list(self.recording.batch())

    def _sync(self, random: Random) -> None:
        self.disk += [record for record in self.written if isinstance(record, Change)]
        self.written = []
        end = len(self.disk)
        assert [record.number for record in self.disk] == list(range(1, end + 1))
        self.recording.synced(end, {"at": end})

    def _acknowledge(self, random: Random) -> None:
        position = self.recording.to_acknowledge(0.0, at_once=True)
        assert position is not None
        self.forgotten = int(str(position["at"]))
        self.recording.acknowledged(position, 0.0)

    def make_durable(self, number: int, random: Random) -> None:
        while self.recording.end < number:
            (self._sync if self.written else self._write)(random)

    def next_of(self, place: Place) -> Committed:
        held = self.order.held([place.cursor])
        item = held[0].item if held else numbered_of(self.disk[place.cursor - 1])
        assert isinstance(item, Committed)
        return item

    def place(self, after: int, relations: frozenset[str]) -> Place:
        """A place behind a number, as a channel makes it."""
        place = Place(self.order, after + 1, True, relations)
        self.order.add(place)
        self.order.recall(0, [numbered_of(record) for record in self.disk])
        place.remember(1)
        place.resume(after)
        return place


@dataclass
class MaintainedView:
    """A view: what a runner has in memory about it, and the commits that outlive it."""

    plan: Plan
    contents: Rows
    vector: VersionVector
    """That of the last commit."""
    commits: int = 0
    note: tuple[int, VersionVector] | None = None
    """How far it came without a change after a commit, by the number of that."""
    claimed: dict[str, int] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    maintenance: Maintenance = field(init=False)
    places: dict[str, Place] = field(default_factory=dict)
    inbox: deque[Delivery] = field(default_factory=deque)

    def start(self, followers: Mapping[str, Follower]) -> None:
        self.inbox.clear()
        vector = self.vector
        if self.note is not None and self.note[0] == self.commits:
            vector = self.note[1]
        self.maintenance = Maintenance(self.plan, vector)
        self.places = {
            source: followers[source].place(reached.number, self.plan.relations(source))
            for source, reached in vector.items()
        }

    def claim(self, vector: VersionVector, received: Sequence[Received] = ()) -> None:
        """The contents are the view at a vector, in which these were reflected last, in order."""
        ends = [(source, at.number) for source, at in vector.items()]
        assert not any(at.also for at in vector.values()), "chosen algorithms commit in order"
        taken = []
        for source, number in [*((r.source, r.number) for r in received), *ends]:
            while self.claimed.get(source, 0) < number:
                self.claimed[source] = self.claimed.get(source, 0) + 1
                taken.append(identity(source, self.claimed[source]))
        self.claims.append(Claim(self.contents, tuple(taken)))


class Deployment:
    """Sources, views and one runner, which crashes `crashes` times."""

    def __init__(self, seed: int, levels: tuple[str, ...], crashes: int, shape: Shape) -> None:
        scenario = generate(seed, shape)
        self.random = Random(seed)
        self.crashes = crashes
        self.now = 0.0
        self.history = _named(_with_asides(scenario.history, self.random))
        self.followers = {
            source: Follower(
                Database(source, self.history.initial, self.history.transactions[source])
            )
            for source in scenario.sources
        }
        self.views = [self._view(scenario.view, level) for level in levels]
        self.start()

    def _view(self, view: View, level: str) -> MaintainedView:
        choice = choose(view, Level[level.upper()])
        definition = StoredDefinition.of(view)
        plan = Plan(view, choice.manager, choice.algorithm, level, choice.reason, definition)
        contents = evaluate_view(view, self.history.initial)
        return MaintainedView(plan, contents, {s: Reached(0, None) for s in view.sources})

    def start(self) -> None:
        for follower in self.followers.values():
            follower.start()
        for view in self.views:
            if self.random.random() < 0.2:
                view.note = None  # it was lost
            view.start(self.followers)

    # Steps

    def run(self) -> None:
        while steps := list(self.steps()):
            self.now += self.random.choice([0.001, 0.1, 6.0])
            if self.crashes and self.random.random() < 0.02:
                self.crashes -= 1
                self.start()
            else:
                self.random.choice(steps)(self.random)

    def steps(self) -> Iterator[Callable[[Random], None]]:
        for follower in self.followers.values():
            yield from follower.database.steps()
            yield from follower.steps()
        for view in self.views:
            for source, place in view.places.items():
                if place.has_work:
                    yield _with(self.work, view, source)
            if view.inbox:
                yield _with(self.take, view)
            elif view.maintenance.due < math.inf:
                yield _with(self.tick, view)
            elif any(self._passed(view, s) > view.claimed.get(s, 0) for s in view.places):
                yield _with(self.write_note, view)

    def _passed(self, view: MaintainedView, source: str) -> int:
        """Up to where everything was taken, or is of no concern, and is on disk."""
        return min(view.places[source].cursor - 1, self.followers[source].recording.end)

    def write_note(self, view: MaintainedView) -> None:
        for source in view.places:
            view.maintenance.move_on(source, self._passed(view, source))
        if view.maintenance.is_settled:
            view.note = (view.commits, view.maintenance.vector)
            view.claim(view.maintenance.vector, view.maintenance._pending.received)

    def work(self, view: MaintainedView, source: str) -> None:
        """One thing that a subscription does."""
        follower, place = self.followers[source], view.places[source]
        match place.next():
            case Inquire(ask):
                place.replied(follower.database.answer(ask))
            case Deliver():
                item = follower.next_of(place)
                delivery = Delivery(source, None, item.position, number=place.cursor)
                event = relevant(view.plan.view, item.transaction, delivery, as_it_is)
                view.inbox.append(replace(delivery, event=TransactionArrived(event)))
                place.delivered(item)
                follower.order.trim()
            case Answer(ask, reply):
                answer = AnswerArrived(source, ask.label, reply.results)
                view.inbox.append(Delivery(source, answer, None))
                place.answered()

    def take(self, view: MaintainedView) -> None:
        self.write(view, view.maintenance.tick(self.now, more=True))
        for effect in view.maintenance.take(view.inbox.popleft(), self.now):
            match effect:
                case Ask(source=source):
                    view.places[source].ask(effect)
                case Commit():
                    self.write(view, [effect])

    def tick(self, view: MaintainedView) -> None:
        self.write(view, view.maintenance.tick(self.now, more=False))

    def write(self, view: MaintainedView, commits: Sequence[Commit]) -> None:
        for commit in commits:
            for source, reached in commit.vector.items():
                self.followers[source].make_durable(reached.number, self.random)
            view.contents = view.contents + commit.delta
            view.claim(commit.vector, commit.received)
            view.vector = commit.vector
            view.commits += 1
            view.maintenance.written(commit, self.now)

    def certificates(self) -> list[Certificate]:
        return [certify(self.history, view.claims) for view in self.views]


def _with(step: Callable[..., None], *arguments: Any) -> Callable[[Random], None]:
    return lambda _: step(*arguments)


def _named(history: History) -> History:
    """Each transaction by the name that it has in a running system."""
    return replace(
        history,
        transactions={
            source: tuple(
                replace(transaction, id=identity(source, number), spans=(source,))
                for number, transaction in enumerate(transactions, 1)
            )
            for source, transactions in history.transactions.items()
        },
    )


def _with_asides(history: History, random: Random) -> History:
    """The same with transactions between that change nothing of the view."""
    schema = Schema.of([("n", INT)])
    initial = {**history.initial, **{_aside(s): Rows.empty(schema) for s in history.sources}}
    transactions = {}
    for source, found in history.transactions.items():
        mixed = list(found)
        for number in range(random.randint(0, 4)):
            update = Update(_aside(source), Rows.of(schema, [[number]]))
            aside = Transaction(f"aside {number}", (update,), (source,), (source,))
            mixed.insert(random.randint(0, len(mixed)), aside)
        transactions[source] = tuple(mixed)
    return replace(history, initial=initial, transactions=transactions)


def _aside(source: str) -> str:
    return f"{source}.aside"
