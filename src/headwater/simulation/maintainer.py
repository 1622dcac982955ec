"""A view that a simulated runner maintains: its maintenance, its places in its sources' orders, and
what it has received.

What a worker does in turns are steps here, taken one at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, assert_never

from headwater.pipeline.copied import Consult
from headwater.pipeline.maintenance import Maintenance
from headwater.pipeline.plan import Plan
from headwater.pipeline.relevant import relevant
from headwater.pipeline.wanted import Commit, Look, Wanted
from headwater.project.gaps import check_goes_on
from headwater.protocol.effects import Ask, Send
from headwater.protocol.events import AnswerArrived, TransactionArrived
from headwater.simulation.reading import Reading
from headwater.sources.contract import Broken, Committed, as_it_is
from headwater.sources.order import Answer, Await, Deliver, Inquire, Place
from headwater.sources.rounds import Question
from headwater.sources.subscription import Delivery
from headwater.warehouse.looking_up import StoredRows
from headwater.warehouse.notes import VectorNote
from headwater.warehouse.view_table import ViewTable

if TYPE_CHECKING:
    from headwater.simulation.process import Process, Step


class Maintainer:
    """One view while it runs; raises what ends its maintenance."""

    def __init__(self, process: Process, plan: Plan, table: ViewTable) -> None:
        self.plan = plan
        self.commits = 0
        self._process = process
        self._world = process.world
        self._readings: Mapping[str, Reading] = process.readings
        self._name = table.name
        self._writer = table.writer(process.claim.runner)
        self._stored = StoredRows(table)
        self._inbox: deque[Delivery] = deque()
        self._world.judge.look(table.name, self._writer.latest.number)
        vector = self._writer.latest.vector
        for source, at in vector.items():
            if trouble := self._readings[source].trouble:
                raise trouble
            check_goes_on(table.name, source, at.number, self._readings[source].log)
        self._places = {
            source: self._readings[source].place(at.number, plan.relations(source))
            for source, at in vector.items()
        }
        self._maintenance = Maintenance(plan, vector, known=process.parts, late=self._world.late)

    def close(self) -> None:
        """Receive nothing more."""
        for source, place in self._places.items():
            self._readings[source].leave(place)

    def reads(self, source: str) -> bool:
        return source in self._places

    @property
    def is_owed(self) -> bool:
        """Whether a question has no answer yet."""
        return any(self._maintenance.owes(source) for source in self._places)

    @property
    def is_idle(self) -> bool:
        """Whether everything that was read is shown."""
        return (
            not self._inbox
            and not any(place.has_work for place in self._places.values())
            and self._maintenance.is_settled
        )

    def steps(self) -> Iterator[tuple[str, Step]]:
        for source, place in self._places.items():
            if place.has_work:
                yield "deliver", partial(self._work, source, place)
        if self._inbox:
            yield "commit", self._take
        elif self._maintenance.due < inf:
            yield "commit", self._tick

    def finish(self) -> None:
        """Commit what is ready."""
        self._write_all(self._maintenance.finish())

    def note(self) -> VectorNote | None:
        """How far the view has come without a change; None while it is to change."""
        if self._inbox:
            return None
        durable = {source: self._readings[source].log.end for source in self._places}
        for source, place in self._places.items():
            self._maintenance.move_on(source, min(place.cursor - 1, durable[source]))
        noted = self._maintenance.noted(durable)
        return None if noted is None else VectorNote.of(self._writer.latest, noted)

    def _work(self, source: str, place: Place) -> None:
        """One thing that a subscription does."""
        reading, view = self._readings[source], self.plan.view
        match place.next():
            case Inquire(ask):
                reading.questions.append(Question(ask, place, expected_s=0.0))
                if not self._world.settings.together:
                    reading.answer(self._process.marker())
            case Deliver():
                item = reading.next_of(place)
                delivery = Delivery(source, None, item.position, number=place.cursor)
                match item:
                    case Committed(transaction):
                        event = relevant(view, transaction, delivery, as_it_is)
                        self._inbox.append(replace(delivery, event=TransactionArrived(event)))
                    case Broken():
                        self._inbox.append(replace(delivery, broken=item))
                place.delivered(item)
                reading.order.trim()
            case Answer(ask, reply):
                answer = AnswerArrived(source, ask.label, reply.results)
                self._inbox.append(Delivery(source, answer, None))
                place.answered()
            case Await():
                pass

    def _take(self) -> None:
        now = self._world.disk.now
        self._do_all(self._maintenance.tick(now, more=True))
        self._do_all(self._maintenance.take(self._inbox.popleft(), now))

    def _tick(self) -> None:
        self._do_all(self._maintenance.tick(self._world.disk.now, more=False))

    def _do_all(self, wanted: Sequence[Wanted]) -> None:
        coming = deque(wanted)
        while coming:
            match effect := coming.popleft():
                case Ask(source=source):
                    self._places[source].ask(effect)
                case Commit():
                    self._write_all([effect])
                case Send():
                    raise AssertionError("no node is away here")
                case Look():
                    found = effect.found(self._stored)
                    coming.extend(self._maintenance.looked_up(found, self._world.disk.now))
                case Consult():
                    answer = effect.answer(self._stored)
                    coming.extend(self._maintenance.consulted(answer, self._world.disk.now))
                case _:
                    assert_never(effect)

    def _write_all(self, commits: Sequence[Commit]) -> None:
        for commit in commits:
            for source, number in commit.needed.items():
                self._process.make_durable(source, number)
            self._process.does("commit")
            change = commit.change(self._stored)
            written = self._writer.commit(
                change,
                commit.vector,
                added=commit.added,
                algorithm=self.plan.algorithm,
                level=self.plan.level,
                kind=commit.kind if change else "vector",
                split=commit.split,
            )
            self.commits += 1
            self._maintenance.written(commit, self._world.disk.now)
            self._world.judge.look(self._name, written.number)
