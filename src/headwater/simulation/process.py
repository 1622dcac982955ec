"""A simulated runner: the machines of production, driven one step at a time over the ledger.

Which of the steps that are possible is taken next is drawn. What threads do in a real runner,
and what a real runner waits for, are steps here; everything that decides is the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from headwater.pipeline.global_parts import GlobalParts
from headwater.pipeline.repair import begin_anew
from headwater.project.needs import loaded_columns
from headwater.simulation.database import Columns
from headwater.simulation.judge import ROOT
from headwater.simulation.lives import Lives
from headwater.simulation.reading import Reading
from headwater.simulation.upkeep import Upkeep
from headwater.simulation.workload import ViewAtLevel
from headwater.storage.location import Location
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.lease import LeaseClaim
from headwater.warehouse.notes import read_notes, write_notes
from headwater.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from headwater.simulation.world import World

Step: TypeAlias = Callable[[], object]


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


class Process:
    """One runner, from taking the lease to its end."""

    def __init__(self, world: World, pid: int, wanted: Sequence[ViewAtLevel]) -> None:
        self.world = world
        self.pid = pid
        self.doing = "start"
        self.readings: dict[str, Reading] = {}
        self.parts = GlobalParts()
        self.lives = Lives(self, wanted)
        self._root = Location(ROOT, world.storage(self))
        self._markers = 0

    @property
    def is_replaced(self) -> bool:
        """Whether it may have been told at any step that it is not the runner any more."""
        return self.claim.epoch > 0 and self.world.is_later(self.claim.epoch)

    @property
    def is_owed(self) -> bool:
        """Whether it waits for something: an answer, the disk, or to tell a source."""
        return any(reading.is_owed for reading in self.readings.values()) or any(
            maintainer.is_owed for _, maintainer in self.lives.running
        )

    @property
    def is_settled(self) -> bool:
        """Whether everything that the sources have committed is shown."""
        readings = self.readings.values()
        return self.lives.are_settled and all(reading.is_settled for reading in readings)

    # What its parts ask

    def does(self, what: str) -> None:
        self.doing = what

    def marker(self) -> str:
        self._markers += 1
        return f"{self.pid}/{self._markers}"

    def make_durable(self, source: str, number: int) -> None:
        """Wait until the change log of a source holds everything up to a number."""
        before, reading = self.doing, self.readings[source]
        self.does("change log")
        while reading.log.end < number:
            reading.write(self.world)
        self.does(before)

    # From beginning to end

    def run(self) -> None:
        """Raises what ends it, a crash included; BusyError if another is at work."""
        world = self.world
        self.claim = LeaseClaim(self._root / "_headwater", SimulatedHost(self.pid, world.alive))
        self.claim.acquire()
        self.warehouse = Warehouse(self._root)
        self.warehouse.remove_leftovers()
        for source in world.databases:
            self._open(source)
            world.judge.learn(source, again=True)
        self._upkeep = Upkeep(self)
        self.lives.look_after()
        while not self._ends():
            self._step()

    def _open(self, source: str) -> None:
        """Read a source from now on."""
        log = ChangeLog(self.warehouse.changes, source)
        database = self.world.databases[source]
        self.readings[source] = Reading(
            database, log, self.claim, self._columns(source), self.parts, self.world.disk.now
        )

    def _columns(self, source: str) -> Columns:
        """What the views need that are kept now, and those that are in the warehouse."""
        found = dict(loaded_columns(self.warehouse, source))
        for view in self.lives.all.values():
            for relation in view.wanted.view.relations:
                if relation.source == source:
                    used = frozenset(view.wanted.view.used_columns[relation.name])
                    found[relation.short_name] = found.get(relation.short_name, used) | used
        return found

    def _ends(self) -> bool:
        """Stop, if there is nothing more to do: commit what is ready, and let the next one in."""
        if not (self.world.is_quiet and self.is_settled):
            return False
        for view in self.lives.all.values():
            if view.maintainer is not None:
                self.lives.work(view, view.maintainer.finish)
        if not self.lives.are_settled:
            return False  # a runner that was replaced, and did not know it, has opened a view
        self.lives.check_answered()
        self.does("stop")
        for reading in self.readings.values():
            reading.write(self.world)
        self._note()
        self.does("stop")
        for reading in self.readings.values():
            reading.log.close()
        self.claim.release()
        return True

    # Steps

    def _step(self) -> None:
        name, step = self.world.random.choice(list(self._steps()))
        self.does(name)
        step()
        self.world.passes()

    def _steps(self) -> Iterator[tuple[str, Step]]:
        world = self.world
        yield "wait", lambda: world.interrupt("wait", ROOT)
        if world.may(0.05):
            yield "note", self._note
        if world.may(0.1):
            yield "lease", self._renew
        if world.may(0.3):
            yield "upkeep", self._upkeep.look
        yield from self._requests()
        for source, reading in self.readings.items():
            if not (reading.trouble or reading.database.is_read(reading.cursor)):
                yield "read", partial(self._read, source)
            if reading.questions and world.may(0.2):  # others may ask meanwhile
                yield "answer", partial(self._answer, reading)
            if reading.recording.is_due:
                yield "change log", partial(reading.write, world)
            if reading.recording.to_acknowledge(world.disk.now, at_once=True) is not None:
                yield "acknowledge", partial(reading.acknowledge, world)
        yield from self.lives.steps()

    def _answer(self, reading: Reading) -> None:
        reading.answer(self.marker())

    def _requests(self) -> Iterator[tuple[str, Step]]:
        """What somebody may ask of a runner."""
        world = self.world
        for source, reading in self.readings.items():
            if reading.trouble is not None:
                yield "repair", partial(self._repair, source)
            elif world.may(0.02):
                yield "reconnect", reading.connect
        yield from self.lives.requests()
        for view in world.views:
            if view.name not in self.lives.all and world.may(0.05):
                yield "take up", partial(self._take_up, view)

    def _repair(self, source: str) -> None:
        """Begin anew with a source whose log cannot be followed any more."""
        concerned = [view for view in self.lives.all.values() if view.is_of(source)]
        for view in concerned:
            self.lives.halt(view)
        reading = self.readings[source]
        reading.log.close()
        self.claim.check()
        self.world.interrupt("set up", ROOT)
        reading.database.set_up_again()
        after = max(self.warehouse.reached(source), default=0)
        begin_anew(reading.log, self.claim, f"{source} was repaired.", after)
        self.world.judge.learn(source)
        self._open(source)
        self.lives.reload(concerned)

    def _take_up(self, view: ViewAtLevel) -> None:
        """A view that nobody wanted before; its sources are read with its columns from now on."""
        self.lives.take_up(view)
        for source in view.view.sources:
            self.readings[source].connect(self._columns(source))

    def _read(self, source: str) -> None:
        reading = self.readings[source]
        reading.read(self.world)
        if reading.trouble is not None:
            for view in self.lives.all.values():
                if view.maintainer is not None and view.is_of(source):
                    self.lives.end(view, reading.trouble)

    def _renew(self) -> None:
        self.claim.renew()
        self.claim.check()

    def _note(self) -> None:
        """Note how far views have come without a change."""
        self.does("note")
        notes = dict(read_notes(self.warehouse.own))
        for name, maintainer in self.lives.running:
            if note := maintainer.note():
                notes[name] = note
        with self.claim.guard():
            write_notes(self.warehouse.own, notes)
        for name, _ in self.lives.running:
            self.world.judge.look_at_note(name)
