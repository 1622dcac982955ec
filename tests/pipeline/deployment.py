"""Views of random shapes over sources that change meanwhile: order, places and maintenance.

One schedule, drawn from a seed, without a change log and without crashes. Whole deployments, of
views that are always over the same two sources, are what `headwater.simulation` plays.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from random import Random

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.rows import Rows
from headwater.algebra.tops import evaluate_top
from headwater.algebra.views import View
from headwater.check.certificate import Certificate, Claim, certify
from headwater.check.history import History
from headwater.check.levels import Level
from headwater.lab.generate import Shape, generate
from headwater.pipeline.copied import Consult
from headwater.pipeline.joining import identity
from headwater.pipeline.maintenance import Maintenance
from headwater.pipeline.plan import Plan
from headwater.pipeline.relevant import relevant
from headwater.pipeline.wanted import Arrival, Commit, Look, Wanted
from headwater.project.choice import as_stored, choose
from headwater.protocol.action_lists import Bag
from headwater.protocol.effects import Ask
from headwater.protocol.events import AnswerArrived, TransactionArrived
from headwater.simulation.database import Change, Database
from headwater.sources.contract import Committed, Marked, as_it_is
from headwater.sources.order import Answer, Deliver, Inquire, Order, Place
from headwater.sources.subscription import Delivery
from headwater.warehouse.definition import StoredDefinition
from headwater.warehouse.vectors import Reached, VersionVector

Step = Callable[[], object]


class Followed(Database):
    """A source as it is read: each transaction by itself, so that complete views can be shown."""

    def __init__(self, source: str, history: History) -> None:
        transactions = history.transactions[source]
        changes = iter([Change(transaction.updates) for transaction in transactions])
        super().__init__(source, history.initial, lambda _: next(changes), len(transactions))
        self.order = Order()
        self._read = 0

    def steps(self, random: Random) -> Iterator[Step]:
        if not self.is_quiet:
            yield partial(self.happen, random)
        if self._read < len(self._log):
            yield partial(self._take, random)

    def _take(self, random: Random) -> None:
        until = random.randint(self._read + 1, len(self._log))
        for item in self._log[self._read : until]:
            if isinstance(item, str):
                self.order.take([Marked(item)])
            else:
                self.order.take([Committed(self.unit([item]), {"at": item}, item)])
        self._read = until


@dataclass
class MaintainedView:
    """A view, what is on its way to it, and what its commits claim."""

    plan: Plan
    contents: Rows
    maintenance: Maintenance
    places: Mapping[str, Place]
    committed: VersionVector
    """What the last commit, or what was loaded, stands for."""
    inbox: deque[Delivery] = field(default_factory=deque)
    claims: list[Claim] = field(default_factory=list)
    claimed: Counter[str] = field(default_factory=Counter)

    def claim(self, vector: VersionVector, arrivals: Sequence[Arrival] = ()) -> None:
        """The contents are the view at a vector, in which these were reflected last, in order."""
        ends = [(source, reached.number) for source, reached in vector.items()]
        taken = []
        for source, number in [*((a.source, a.number) for a in arrivals), *ends]:
            while self.claimed[source] < number:
                self.claimed[source] += 1
                taken.append(identity(source, self.claimed[source]))
        self.claims.append(Claim(self.shown, tuple(taken)))

    @property
    def shown(self) -> Rows:
        top = self.plan.view.stored_top
        return self.contents.positive() if top is None else evaluate_top(top, self.contents)


class Deployment:
    """Sources, and views at some levels over all of them, by one algorithm if it is named, with
    copies of so many relations."""

    def __init__(
        self,
        seed: int,
        levels: Sequence[Level],
        shape: Shape,
        algorithm: str | None = None,
        parameters: Mapping[str, str] | None = None,
        restarts: int = 0,
        copies: int = 0,
    ) -> None:
        self.restarts = restarts
        self.copies = copies
        self.killed: MaintainedView | None = None
        """Whose maintainer does not outlive the step that it is at."""
        self.markers = count(1)
        self.algorithm, self.parameters = algorithm, parameters
        scenario = generate(seed, shape)
        self.random = Random(seed)
        self.now = 0.0
        self.history = _named(scenario.history)
        self.sources = {s: Followed(s, self.history) for s in scenario.sources}
        self.views = [self._view(scenario.view, level) for level in levels]

    def _view(self, view: View, level: Level) -> MaintainedView:
        names = [relation.name for relation in view.relations]
        copied = self.random.sample(names, min(self.copies, len(names)))
        view = as_stored(view, self.algorithm, keep_keys=True, copied=copied).narrowed()
        choice = choose(view, level, self.algorithm, self.parameters)
        plan = Plan(view, choice.manager, choice.algorithm, str(level), StoredDefinition.of(view))
        start = {source: Reached(0, None) for source in view.sources}
        initial = self.history.initial
        base = {r.name: initial[r.name].only(r.schema) for r in view.relations}
        contents = view.stored(evaluate_view(view, base), base)
        places = self._places(plan, start)
        return MaintainedView(plan, contents, Maintenance(plan, start), places, start)

    def _places(self, plan: Plan, vector: VersionVector) -> dict[str, Place]:
        """Places in the orders of the sources, behind a vector."""
        places = {}
        for source, reached in vector.items():
            order = self.sources[source].order
            places[source] = Place(order, reached.number + 1, relations=plan.relations(source))
            order.add(places[source])
        return places

    # Steps

    def run(self) -> None:
        while steps := list(self.steps()):
            self.now += self.random.choice([0.001, 0.1, 6.0])
            self.random.choice(steps)()
        for view in self.views:
            for source, place in view.places.items():
                view.maintenance.move_on(source, place.cursor - 1)
            view.claim(view.maintenance.vector)

    def steps(self) -> Iterator[Step]:
        if self.killed is not None:
            yield partial(self.restart, self.killed)
            return
        for source in self.sources.values():
            yield from source.steps(self.random)
        for view in self.views:
            for name, place in view.places.items():
                if place.has_work:
                    yield partial(self.work, view, name)
            if view.inbox:
                yield partial(self.take, view)
            elif view.maintenance.due < math.inf:
                yield partial(self.tick, view)
            if self.restarts and self.random.random() < 0.05:
                yield partial(self.restart, view)

    def work(self, view: MaintainedView, name: str) -> None:
        """One thing that a subscription does."""
        source, place = self.sources[name], view.places[name]
        match place.next():
            case Inquire(ask):
                marker = f"{next(self.markers)}"
                place.replied(source.answer(ask.queries, marker))
            case Deliver():
                held = source.order.held([place.cursor])
                assert held is not None
                item = held[0].item
                assert isinstance(item, Committed)
                delivery = Delivery(name, None, item.position, number=place.cursor)
                event = relevant(view.plan.view, item.transaction, delivery, as_it_is)
                view.inbox.append(replace(delivery, event=TransactionArrived(event)))
                place.delivered(item)
            case Answer(ask, reply):
                answer = AnswerArrived(name, ask.label, reply.results)
                view.inbox.append(Delivery(name, answer, None))
                place.answered()

    def restart(self, view: MaintainedView) -> None:
        """Whoever maintains a view is killed, and another goes on from its last commit."""
        self.restarts -= 1
        self.killed = None
        for source, place in view.places.items():
            self.sources[source].order.remove(place)
        view.inbox.clear()
        view.maintenance = Maintenance(view.plan, view.committed)
        view.places = self._places(view.plan, view.committed)

    def take(self, view: MaintainedView) -> None:
        self.do(view, view.maintenance.tick(self.now, more=True))
        self.do(view, view.maintenance.take(view.inbox.popleft(), self.now))

    def tick(self, view: MaintainedView) -> None:
        self.do(view, view.maintenance.tick(self.now, more=False))

    def do(self, view: MaintainedView, wanted: Sequence[Wanted]) -> None:
        for effect in wanted:
            match effect:
                case Ask(source=source):
                    view.places[source].ask(effect)
                case Commit():
                    view.contents = view.contents + effect.change(Bag(view.contents))
                    view.committed = effect.vector
                    view.claim(effect.vector, effect.received)
                    view.maintenance.written(effect, self.now)
                    if self.restarts and not view.maintenance.is_settled:
                        self.killed = self.random.choice([None, view])
                case Look():
                    found = effect.found(Bag(view.contents))
                    self.do(view, view.maintenance.looked_up(found, self.now))
                case Consult():
                    answer = effect.answer(Bag(view.contents))
                    self.do(view, view.maintenance.consulted(answer, self.now))

    @property
    def end(self) -> Rows:
        """The view when all has happened."""
        return self.history.view_at(self.history.final)

    def certificates(self) -> list[Certificate]:
        return [certify(self.history, view.claims) for view in self.views]


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
