"""A simulated runner: the machines of production, driven one step at a time over the ledger.

Which of the steps that are possible is taken next is drawn. What threads do in a real runner,
and what a real runner waits for, are steps here; everything that decides is the same code.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.rows import Rows
from headwater.errors import FencedError
from headwater.pipeline.load import held_back
from headwater.pipeline.maintenance import Commit, Maintenance, Plan, relevant
from headwater.pipeline.recording import Recording, numbered_of
from headwater.project.gaps import check_goes_on
from headwater.project.needs import loaded_columns
from headwater.protocol.effects import Ask
from headwater.protocol.events import AnswerArrived, TransactionArrived
from headwater.simulation.database import Columns, Database
from headwater.simulation.judge import ROOT
from headwater.simulation.workload import ViewAtLevel
from headwater.sources.contract import Committed, Marked, as_it_is
from headwater.sources.order import (
    Answer,
    Await,
    Deliver,
    Inquire,
    Numbered,
    Order,
    Place,
)
from headwater.sources.subscription import Delivery
from headwater.storage.location import Location
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.lease import LeaseClaim
from headwater.warehouse.loads import ViewLoad
from headwater.warehouse.notes import VectorNote, read_notes, write_notes
from headwater.warehouse.vectors import Reached
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.view_writer import ViewWriter
from headwater.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from headwater.simulation.world import World

_KEPT = timedelta(hours=1)


@dataclass
class SimulatedHost:
    """The process that claims the lease; another's end is known only on the same machine."""

    pid: int
    alive: set[int]
    name: str = "simulated"
    machine: str = "simulated"
    started: str | None = "0"

    def is_gone(self, lease: Mapping[str, Any]) -> bool:
        return lease["pid"] not in self.alive


class Reading:
    """A source as this runner reads it: its order, its change log, and what is on its way there."""

    def __init__(
        self, database: Database, log: ChangeLog, claim: LeaseClaim, columns: Columns
    ) -> None:
        self.database = database
        self.log = log
        self.columns = columns
        self._claim = claim
        log.open(claim.epoch, claim.check)
        self.recording = Recording(log.end, log.position)
        self.order = Order(log.end, log.position or None, lambda number: log.end >= number)
        self.cursor = database.open(log.position)
        self.whole_after = log.end

    def read(self, world: World) -> None:
        logged, self.cursor = self.database.read(self.cursor, self.columns, world.random)
        kept = [item for item in logged if not isinstance(item, Marked)]
        self.recording.record(self.order.end + 1, kept)
        self.order.take(logged)

    def write(self, world: World) -> None:
        if records := self.recording.batch():
            self.log.append(records)
            self.recording.synced(self.log.end, self.log.position)
            world.judge.learn(self.database.name)

    def acknowledge(self, world: World) -> None:
        position = self.recording.to_acknowledge(world.disk.now, at_once=True)
        if position is not None:
            with self._claim.guard():
                world.interrupt("acknowledge", ROOT)
                self.database.acknowledge(position)
            self.recording.acknowledged(position, world.disk.now)

    def next_of(self, place: Place) -> Numbered:
        held = self.order.held([place.cursor])
        if held:
            return held[0].item
        return next(numbered_of(record) for record in self.log.read(place.cursor - 1))

    def place(self, after: int, relations: frozenset[str], paused: bool = False) -> Place:
        """A place behind a number, as a channel makes it."""
        place = Place(self.order, after + 1, True, relations)
        self.order.add(place)
        before = min(after, self.log.first - 1)
        missing = self.order.first_known - before - 1
        heads = islice(self.log.heads(before), max(0, missing))
        self.order.recall(before, [numbered_of(record) for record in heads])
        place.remember(before + 1)
        if not paused:
            place.resume(after)
        return place


@dataclass
class Kept:
    """A view that this runner keeps."""

    wanted: ViewAtLevel
    plan: Plan
    table: ViewTable
    writer: ViewWriter
    maintenance: Maintenance
    places: dict[str, Place]
    inbox: deque[Delivery] = field(default_factory=deque)

    @property
    def is_idle(self) -> bool:
        """Whether everything that was read is shown."""
        return (
            not self.inbox
            and not any(place.has_work for place in self.places.values())
            and self.maintenance.is_settled
        )


Step = Callable[[], object]


class Process:
    """One runner, from taking the lease to its end."""

    def __init__(self, world: World, pid: int, wanted: Sequence[ViewAtLevel]) -> None:
        self.world = world
        self.pid = pid
        self.doing = "start"
        self.kept: dict[str, Kept] = {}
        self._wanted = wanted
        self._storage = world.storage(self)
        self._root = Location(ROOT, self._storage)
        self.readings: dict[str, Reading] = {}
        self._markers = 0

    @property
    def is_replaced(self) -> bool:
        """Whether it may have been told at any step that it is not the runner any more."""
        return self.claim.epoch > 0 and self.world.is_later(self.claim.epoch)

    # From beginning to end

    def run(self) -> None:
        """Raises what ends it, a crash included; BusyError if another is at work."""
        world = self.world
        self.claim = LeaseClaim(self._root / "_headwater", SimulatedHost(self.pid, world.alive))
        self.claim.acquire()
        self.warehouse = Warehouse(self._root)
        self.warehouse.remove_leftovers()
        for source, database in world.databases.items():
            log = ChangeLog(self.warehouse.changes, source)
            self.readings[source] = Reading(database, log, self.claim, self._columns(source))
            world.judge.learn(source, again=True)
        for wanted in self._wanted:
            self._bring_up(wanted)
        while not self._ends():
            self._step()

    def _ends(self) -> bool:
        """Stop, if there is nothing more to do."""
        if not self.world.is_over(self):
            return False
        try:
            self._stop()
        except FencedError:
            self._take_back()
            return False
        return True

    def _take_back(self) -> None:
        """Open views again that a runner has opened which was replaced and did not know it."""
        self.claim.check()
        for kept in list(self.kept.values()):
            self._bring_up(kept.wanted)

    def _columns(self, source: str) -> Columns:
        """What the views need that are kept now, and those that are in the warehouse."""
        found = dict(loaded_columns(self.warehouse, source))
        for wanted in self._wanted:
            for relation in wanted.view.relations:
                if relation.source == source:
                    used = frozenset(wanted.view.used_columns[relation.name])
                    found[relation.short_name] = found.get(relation.short_name, used) | used
        return found

    def _bring_up(self, wanted: ViewAtLevel) -> None:
        plan = wanted.plan()
        if not self.warehouse.has_view(wanted.name):
            self._does("load")
            self.world.judge.look_at_absence(wanted.name)
            try:
                self._load(wanted, plan)
            except FencedError:
                self.claim.check()
        self._does("start")
        table = self.warehouse.view(wanted.name)
        writer = table.writer(self.claim.runner)
        self.world.judge.look(wanted.name, writer.latest.number)
        vector = writer.latest.vector
        for source, reached in vector.items():
            check_goes_on(wanted.name, source, reached.number, self.readings[source].log)
        if wanted.name in self.kept:
            for source, place in self.kept[wanted.name].places.items():
                self.readings[source].order.remove(place)
        places = {
            source: self.readings[source].place(at.number, plan.relations(source))
            for source, at in vector.items()
        }
        self.kept[wanted.name] = Kept(
            wanted, plan, table, writer, Maintenance(plan, vector), places
        )

    def _load(self, wanted: ViewAtLevel, plan: Plan) -> None:
        """Read every source in a snapshot that splits its order."""
        state: dict[str, Rows] = {}
        vector: dict[str, Reached] = {}
        for source in plan.view.sources:
            reading = self.readings[source]
            after = held_back(reading.log, reading.order.end)
            place = reading.place(after, plan.relations(source), paused=True)
            number = None
            while number is None:
                known = reading.order.end
                marker = self._marker()
                seen, found = reading.database.snapshot(marker)
                while not reading.order.has_passed(marker):
                    self.world.interrupt("read", ROOT)
                    reading.read(self.world)
                number = place.split(seen, known)
                if number is not None and number < reading.whole_after:
                    number = None
            reading.order.remove(place)
            state |= found
            self._make_durable(reading, number)
            vector[source] = Reached(number, reading.log.position or {})
        narrow = {r.name: state[r.name].only(r.schema) for r in plan.view.relations}
        self.warehouse.put(
            ViewLoad(
                plan.definition,
                vector,
                evaluate_view(plan.view, narrow),
                plan.algorithm,
                plan.level,
                self.claim.runner,
                guard=self.claim.guard,
            )
        )

    def _stop(self) -> None:
        """Commit what is ready, and let the next one in."""
        for kept in self.kept.values():
            self._write_all(kept, kept.maintenance.finish())
        for reading in self.readings.values():
            reading.write(self.world)
        self._note()
        self._does("stop")
        for reading in self.readings.values():
            reading.log.close()
        self.claim.release()

    # Steps

    def _step(self) -> None:
        steps = list(self._steps())
        name, step = self.world.random.choice(steps)
        self._does(name)
        try:
            step()
        except FencedError:
            self._take_back()
        self.world.passes()

    def _does(self, what: str) -> None:
        self.doing = what

    def _steps(self) -> Iterator[tuple[str, Step]]:
        world = self.world
        yield "wait", lambda: world.interrupt("wait", ROOT)
        if world.random.random() < 0.05:
            yield "note", self._note
        if world.random.random() < 0.1:
            yield "lease", self._renew
        for reading in self.readings.values():
            if not reading.database.is_read(reading.cursor):
                yield "read", partial(reading.read, world)
            if reading.recording.is_due:
                yield "change log", partial(reading.write, world)
            if reading.recording.to_acknowledge(world.disk.now, at_once=True) is not None:
                yield "acknowledge", partial(reading.acknowledge, world)
        for kept in self.kept.values():
            for source, place in kept.places.items():
                if place.has_work:
                    yield "deliver", partial(self._work, kept, source)
            if kept.inbox:
                yield "commit", partial(self._take, kept)
            elif kept.maintenance.due < math.inf:
                yield "commit", partial(self._tick, kept)
            if world.random.random() < world.upkeep:
                yield world.random.choice(self._upkeep(kept))

    def _upkeep(self, kept: Kept) -> list[tuple[str, Step]]:
        view = self.warehouse.view
        name = kept.wanted.name
        return [
            ("fold", lambda: self._fold(name)),
            ("fold", lambda: self._fold(name)),
            ("merge", lambda: view(name).compact(at_least=2)),
            ("merge", lambda: view(name).compact(at_least=2)),
            ("clean up", lambda: view(name).clean_up(_KEPT)),
            ("release", self._release),
            ("release", self._release),
        ]

    def _renew(self) -> None:
        self.claim.renew()
        self.claim.check()

    def _note(self) -> None:
        """Note how far views have come without a change."""
        self._does("note")
        notes = dict(read_notes(self.warehouse.own))
        for name, kept in self.kept.items():
            if not kept.inbox:
                for source, place in kept.places.items():
                    passed = min(place.cursor - 1, self.readings[source].log.end)
                    kept.maintenance.move_on(source, passed)
                if kept.maintenance.is_settled:
                    notes[name] = VectorNote.of(kept.writer.latest, kept.maintenance.vector)
        with self.claim.guard():
            write_notes(self.warehouse.own, notes)
        for name in self.kept:
            self.world.judge.look_at_note(name)

    def _fold(self, name: str) -> None:
        self.warehouse.view(name).fold(_no_spark, self.claim.runner)

    def _release(self) -> None:
        for source, reading in self.readings.items():
            reached = [reading.order.needed - 1]
            for name in self.warehouse.view_names():
                vector = self.warehouse.view(name).latest().vector
                reached += [vector[source].number] if source in vector else []
            reading.log.release(min(reached), 3600.0)

    def _work(self, kept: Kept, source: str) -> None:
        """One thing that a subscription does."""
        reading, place = self.readings[source], kept.places[source]
        match place.next():
            case Inquire(ask):
                relations = kept.plan.view.relations
                place.replied(reading.database.answer(ask, self._marker(), relations))
            case Deliver():
                item = reading.next_of(place)
                delivery = Delivery(source, None, item.position, number=place.cursor)
                assert isinstance(item, Committed), "simulated logs have no gaps"
                event = relevant(kept.plan.view, item.transaction, delivery, as_it_is)
                kept.inbox.append(replace(delivery, event=TransactionArrived(event)))
                place.delivered(item)
                reading.order.trim()
            case Answer(ask, reply):
                answer = AnswerArrived(source, ask.label, reply.results)
                kept.inbox.append(Delivery(source, answer, None))
                place.answered()
            case Await():
                pass

    def _take(self, kept: Kept) -> None:
        now = self.world.disk.now
        self._write_all(kept, kept.maintenance.tick(now, more=True))
        for effect in kept.maintenance.take(kept.inbox.popleft(), now):
            match effect:
                case Ask(source=source):
                    kept.places[source].ask(effect)
                case Commit():
                    self._write_all(kept, [effect])

    def _tick(self, kept: Kept) -> None:
        self._write_all(kept, kept.maintenance.tick(self.world.disk.now, more=False))

    def _write_all(self, kept: Kept, commits: Sequence[Commit]) -> None:
        for commit in commits:
            for source, reached in commit.vector.items():
                self._make_durable(self.readings[source], max([reached.number, *reached.also]))
            self._does("commit")
            written = kept.writer.commit(
                commit.delta,
                commit.vector,
                added=commit.added,
                algorithm=kept.plan.algorithm,
                level=kept.plan.level,
                kind=commit.kind,
            )
            kept.maintenance.written(commit, self.world.disk.now)
            self.world.judge.look(kept.wanted.name, written.number)

    def _make_durable(self, reading: Reading, number: int) -> None:
        before = self.doing
        self._does("change log")
        while reading.log.end < number:
            reading.write(self.world)
        self._does(before)

    def _marker(self) -> str:
        self._markers += 1
        return f"{self.pid}/{self._markers}"


def _no_spark() -> NoReturn:
    raise AssertionError("small views need no Spark")
