"""A simulated runner: the machines of production, driven one step at a time over the ledger.

Which of the steps that are possible is taken next is drawn. What threads do in a real runner,
and what a real runner waits for, are steps here; everything that decides is the same code.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.rows import Rows
from headwater.errors import BrokenLogError, FencedError
from headwater.pipeline.loading import Hold, Loading, MakeDurable, OpenSnapshot, Put, held_back
from headwater.pipeline.maintenance import Commit, Maintenance, Plan, relevant
from headwater.pipeline.recording import Recording, numbered_of
from headwater.pipeline.repair import begin_anew
from headwater.project.gaps import GapError, check_goes_on
from headwater.project.needs import loaded_columns
from headwater.protocol.effects import Ask
from headwater.protocol.events import AnswerArrived, TransactionArrived
from headwater.simulation.database import Columns, Cursor, Database
from headwater.simulation.judge import ROOT
from headwater.simulation.workload import ViewAtLevel
from headwater.sources.contract import Broken, Committed, Logged, Marked, Position, as_it_is
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
from headwater.warehouse.loads import Shown, ViewLoad
from headwater.warehouse.notes import VectorNote, read_notes, write_notes
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
        self.trouble: BrokenLogError | None = None
        """Why nothing is read any more."""
        log.open(claim.epoch, claim.check)
        self.recording = Recording(log.end, log.position)
        self.order = Order(log.end, log.position or None, lambda number: log.end >= number)
        self.cursor = Cursor(0, 0)
        self.connect()

    def connect(self, columns: Columns | None = None) -> None:
        """Open the log, also once more: with these columns from now on."""
        self.columns = columns or self.columns
        self.whole_after = self.order.end
        with self._telling():
            self.cursor = self.database.open(self.order.position)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """What ends the log is kept for those who are to know."""
        try:
            yield
        except BrokenLogError as error:
            self.trouble = error

    def read(self, world: World) -> None:
        logged: list[Logged] = []
        with self._telling():
            logged, self.cursor = self.database.read(self.cursor, self.columns, world.random)
        kept = [item for item in logged if not isinstance(item, Marked)]
        self.recording.record(self.order.end + 1, kept)
        self.order.take(logged)

    @property
    def is_settled(self) -> bool:
        """Whether everything is read and written, as far as somebody may wait for it."""
        return (
            self.trouble is None
            and self.database.is_read(self.cursor)
            and not self.recording.is_due
        )

    @property
    def is_owed(self) -> bool:
        """Whether something is not written yet, or the source does not know that it is."""
        return self.order.end > self.log.end or bool(self.recording.to_acknowledge(math.inf))

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

    def position(self, number: int) -> Position | None:
        """Where the source's log stands at a number; None where that has been let go."""
        if number == self.log.end:
            return self.log.position
        if number < self.log.first:
            return None
        return next(record.position for record in self.log.read(number - 1))

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
    def is_owed(self) -> bool:
        """Whether a question has no answer yet."""
        return any(self.maintenance.owes(source) for source in self.places)

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
        self.stopped: dict[str, ViewAtLevel] = {}
        """Views that cannot go on until somebody does something."""
        self._wanted = list(wanted)
        self._storage = world.storage(self)
        self._root = Location(ROOT, self._storage)
        self.readings: dict[str, Reading] = {}
        self._markers = 0

    @property
    def is_replaced(self) -> bool:
        """Whether it may have been told at any step that it is not the runner any more."""
        return self.claim.epoch > 0 and self.world.is_later(self.claim.epoch)

    @property
    def is_owed(self) -> bool:
        """Whether it waits for something: an answer, the disk, or to tell a source."""
        readings, kept = self.readings.values(), self.kept.values()
        return any(r.is_owed for r in readings) or any(k.is_owed for k in kept)

    @property
    def is_settled(self) -> bool:
        """Whether everything that the sources have committed is shown."""
        return (
            len(self.kept) == len(self._wanted)
            and all(reading.is_settled for reading in self.readings.values())
            and all(kept.is_idle for kept in self.kept.values())
        )

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
        if not (self.world.is_quiet and self.is_settled):
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

    def _bring_up(self, wanted: ViewAtLevel, anew: bool = False) -> None:
        """Open a view, or load it; one that stands at a gap is loaded anew, or waits for that."""
        self._put_down(wanted.name)
        try:
            if anew or not self.warehouse.has_view(wanted.name):
                self._does("reload" if anew else "load")
                if not anew:
                    self.world.judge.look_at_absence(wanted.name)
                self._load(wanted, wanted.plan())
            self._does("start")
            self._open(wanted, wanted.plan())
        except FencedError:
            self.claim.check()
            self.stopped[wanted.name] = wanted
        except GapError as error:
            self._stop_view(wanted, error)
        except BrokenLogError as error:
            if not any(reading.trouble for reading in self.readings.values()):
                raise
            self._stop_view(wanted, error)

    def _put_down(self, name: str) -> None:
        """Keep a view no more."""
        self.stopped.pop(name, None)
        kept = self.kept.pop(name, None)
        for source, place in (kept.places if kept else {}).items():
            self.readings[source].order.remove(place)

    def _stop_view(self, wanted: ViewAtLevel, why: GapError | BrokenLogError) -> None:
        """A view cannot go on; behind a gap it is loaded anew, unless it shows every state."""
        self._put_down(wanted.name)
        self.stopped[wanted.name] = wanted
        if isinstance(why, GapError) and (why.is_repair or not wanted.plan().shows_each_state):
            self._bring_up(wanted, anew=True)

    def _open(self, wanted: ViewAtLevel, plan: Plan) -> None:
        table = self.warehouse.view(wanted.name)
        writer = table.writer(self.claim.runner)
        self.world.judge.look(wanted.name, writer.latest.number)
        vector = writer.latest.vector
        for source, at in vector.items():
            if trouble := self.readings[source].trouble:
                raise trouble
            check_goes_on(wanted.name, source, at.number, self.readings[source].log)
        places = {
            source: self.readings[source].place(at.number, plan.relations(source))
            for source, at in vector.items()
        }
        self.kept[wanted.name] = Kept(
            wanted, plan, table, writer, Maintenance(plan, vector), places
        )

    def _load(self, wanted: ViewAtLevel, plan: Plan) -> None:
        """Do what a load says is next, until the view can be put."""
        loading = Loading(plan.view.sources)
        places: dict[str, Place] = {}
        state: dict[str, Rows] = {}
        while not isinstance(task := loading.next(), Put):
            reading = self.readings[task.source]
            match task:
                case Hold(source):
                    after = held_back(reading.order.end, reading.log.first)
                    places[source] = reading.place(after, plan.relations(source), paused=True)
                    loading.held(source)
                case OpenSnapshot(source, again):
                    if again:
                        self.world.interrupt("wait", ROOT)
                    known, marker = reading.order.end, self._marker()
                    seen, found = reading.database.snapshot(marker)
                    while not reading.order.has_passed(marker):
                        self.world.interrupt("read", ROOT)
                        reading.read(self.world)
                        if reading.trouble is not None:
                            raise reading.trouble
                    if loading.opened(
                        source, places[source].split(seen, known, reading.whole_after)
                    ):
                        state |= found
                case MakeDurable(source, number):
                    self._make_durable(reading, number)
                    while not reading.log.position:
                        reading.write(self.world)
                    loading.durable(source, reading.position(number))
        for source, place in places.items():
            self.readings[source].order.remove(place)
        narrow = {r.name: state[r.name].only(r.schema) for r in plan.view.relations}
        stored = evaluate_view(plan.view, narrow)
        self.warehouse.put(
            ViewLoad(
                plan.definition,
                task.vector,
                stored,
                plan.algorithm,
                plan.level,
                self.claim.runner,
                guard=self.claim.guard,
                shown=Shown.of(plan.view, stored),
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
        if world.may(0.05):
            yield "note", self._note
        if world.may(0.1):
            yield "lease", self._renew
        yield from self._requests()
        for source, reading in self.readings.items():
            if not (reading.trouble or reading.database.is_read(reading.cursor)):
                yield "read", partial(self._read, source)
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
            for name, step in self._upkeep.items():
                if world.may(world.upkeep):
                    yield name, partial(step, kept.wanted.name)

    @cached_property
    def _upkeep(self) -> Mapping[str, Callable[[str], object]]:
        return {
            "fold": self._fold,
            "merge": self._merge,
            "clean up": lambda name: self.warehouse.view(name).clean_up(_KEPT),
            "release": self._release,
        }

    def _requests(self) -> Iterator[tuple[str, Step]]:
        """What somebody may ask of a runner."""
        world = self.world
        for source, reading in self.readings.items():
            if reading.trouble is not None:
                yield "repair", partial(self._repair, source)
            elif world.may(0.02):
                yield "reconnect", reading.connect
        for wanted in self.stopped.values():
            if not any(self.readings[source].trouble for source in wanted.view.sources):
                yield "reload", partial(self._bring_up, wanted, anew=True)
        for kept in self.kept.values():
            if world.may(0.01):
                yield "reload", partial(self._bring_up, kept.wanted, anew=True)
        for view in world.views:
            if view not in self._wanted and world.may(0.05):
                yield "take up", partial(self._take_up, view)

    def _repair(self, source: str) -> None:
        """Begin anew with a source whose log cannot be followed any more."""
        self._does("repair")
        concerned = [view for view in self._wanted if source in view.view.sources]
        for wanted in concerned:
            self._put_down(wanted.name)
            self.stopped[wanted.name] = wanted
        reading = self.readings[source]
        reading.log.close()
        self.claim.check()
        self.world.interrupt("set up", ROOT)
        reading.database.set_up_again()
        begin_anew(
            reading.log,
            self.claim,
            f"{source} was repaired.",
            max(self.warehouse.reached(source), default=0),
        )
        self.world.judge.learn(source)
        log = ChangeLog(self.warehouse.changes, source)
        self.readings[source] = Reading(reading.database, log, self.claim, self._columns(source))
        for wanted in concerned:
            self._bring_up(wanted, anew=self.warehouse.has_view(wanted.name))

    def _take_up(self, view: ViewAtLevel) -> None:
        """A view that nobody wanted before; its sources are read with its columns from now on."""
        self._wanted.append(view)
        for source in view.view.sources:
            self.readings[source].connect(self._columns(source))
        self._bring_up(view)

    def _read(self, source: str) -> None:
        reading = self.readings[source]
        reading.read(self.world)
        if reading.trouble is not None:
            for kept in list(self.kept.values()):
                if source in kept.places:
                    self._stop_view(kept.wanted, reading.trouble)

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
        self.world.judge.look_at_plain(name)

    def _merge(self, name: str) -> None:
        table = self.warehouse.view(name)
        table.compact(at_least=2)
        table.log.try_checkpoint()

    def _release(self, name: str) -> None:
        """Let the change logs of a view's sources go, as far as nobody needs them."""
        for source, reading in self.readings.items():
            upto = min([reading.order.needed - 1, *self.warehouse.reached(source)])
            reading.log.release(upto, 3600.0)

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
                match item:
                    case Committed(transaction):
                        event = relevant(kept.plan.view, transaction, delivery, as_it_is)
                        kept.inbox.append(replace(delivery, event=TransactionArrived(event)))
                    case Broken():
                        kept.inbox.append(replace(delivery, broken=item))
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
        try:
            effects = kept.maintenance.take(kept.inbox.popleft(), now)
        except GapError as error:
            self._stop_view(kept.wanted, error)
            return
        for effect in effects:
            match effect:
                case Ask(source=source):
                    kept.places[source].ask(effect)
                case Commit():
                    self._write_all(kept, [effect])

    def _tick(self, kept: Kept) -> None:
        self._write_all(kept, kept.maintenance.tick(self.world.disk.now, more=False))

    def _write_all(self, kept: Kept, commits: Sequence[Commit]) -> None:
        for commit in commits:
            for source, number in commit.needed.items():
                self._make_durable(self.readings[source], number)
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
