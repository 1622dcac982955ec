"""One deployment from a seed: who runs when, what goes wrong, and what was hit.

Processes take turns; where one of them is interrupted, at a step that changes the disk or a
source, databases go on, and a mishap may be due: the process is killed, the power fails, the
process is left standing while another replaces it, the clock jumps, the disk is full, a database
is put back to an earlier state. What happened is data, so that a run can be repeated with less.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import TypeAlias

from headwater.errors import BusyError, HeadwaterError
from headwater.simulation.disk import Disk, Mount
from headwater.simulation.judge import Judge, ViolationError
from headwater.simulation.process import Process
from headwater.simulation.workload import databases, views
from headwater.storage.local import LocalStorage
from headwater.warehouse.lease import LeaseClaim

_MOST_STEPS = 10_000


class Incident(StrEnum):
    """What may happen while a process is at work."""

    KILLED = "killed"
    POWER = "power lost"
    PAUSED = "paused"
    LATER = "clock jumps"
    FULL = "disk full"
    RESTORED = "source put back"


_WEIGHTS = {
    Incident.KILLED: 8,
    Incident.POWER: 14,
    Incident.PAUSED: 8,
    Incident.LATER: 4,
    Incident.FULL: 2,
    Incident.RESTORED: 1,
}
_LIKELY = {
    "start": 0.002,
    "load": 0.01,
    "reload": 0.06,
    "repair": 0.15,
    "take up": 0.1,
    "change log": 0.1,
    "acknowledge": 0.2,
    "commit": 0.25,
    "note": 0.15,
    "lease": 0.1,
    "fold": 0.25,
    "merge": 0.25,
    "clean up": 0.25,
    "release": 0.25,
    "stop": 0.15,
}
"""How likely something happens at a step of what a process does: everywhere, and not only where
most of the steps are."""
_LATE = frozenset({"fold", "merge", "clean up", "release", "stop"})
_UNLIKELY = 0.02
_OFTEN = 0.5
_MANY_STEPS = 200
_SELDOM = 3


def _likely(doing: str, step: str) -> float:
    return max(_LIKELY.get(doing, _UNLIKELY), 0.02 if step == "folder" else 0.0)


Mishap: TypeAlias = tuple[int, Incident]
"""At which step something happened."""


@dataclass(frozen=True)
class Settings:
    """How big a deployment is, and how much happens to it."""

    seed: int
    transactions: int
    views: int
    mishaps: int
    """At most so many."""
    given: tuple[Mishap, ...] | None = None
    """What is to happen, instead of what is drawn."""
    calm_from: int | None = None
    """From which step on nothing may happen, where that is given; None: it always may."""

    @property
    def tops(self) -> bool:
        """Whether there are views with a top: in two of ten deployments."""
        return self.seed % 10 in (5, 9)

    @classmethod
    def of(cls, seed: int) -> Settings:
        random = Random(seed)
        return cls(seed, random.randint(2, 20), random.randint(1, 3), random.randint(1, 40))


Cell: TypeAlias = tuple[str, str]
"""What a process was doing, and the step that it was about to take."""


class CrashedError(BaseException):
    """The process is no more. Not an Exception: nothing in it may go on."""


@dataclass
class Tally:
    """What was done and hit: by what a process was doing, and the step that it was at."""

    taken: Counter[Cell]
    owing: set[Cell]
    """Where something was unsynced, unanswered or unacknowledged, so that a crash could cost it."""
    hit: Counter[Cell]
    runs: int = 0
    crashes: int = 0
    commits: int = 0

    @classmethod
    def empty(cls) -> Tally:
        return cls(Counter(), set(), Counter())

    @property
    def not_hit(self) -> list[Cell]:
        """Where no crash has been tried yet, of what was done while it could cost something."""
        return sorted(cell for cell in self.owing if not self.hit[cell])

    @property
    def harmless(self) -> list[Cell]:
        """What was done, and never while a crash could cost something."""
        return sorted(self.taken.keys() - self.owing)

    def add(self, other: Tally) -> None:
        self.taken += other.taken
        self.owing |= other.owing
        self.hit += other.hit
        self.runs += other.runs
        self.crashes += other.crashes
        self.commits += other.commits


class World:
    """The deployment while it runs."""

    def __init__(self, settings: Settings, trace: list[str] | None = None) -> None:
        self.settings = settings
        self.random = Random(settings.seed)
        self.disk = Disk()
        self.databases = databases(self.random, settings.transactions)
        self.views = views(self.random, settings.views, settings.tops)
        self.judge = Judge(self.disk, self.databases, self.views)
        self.alive: set[int] = set()
        self.tally = Tally.empty()
        self.upkeep_s = self.random.choice([1.0, 10.0])
        self.publish_s = self.random.choice([1.0, 10.0, 1000.0])
        self._pace = self.random.choice([0.01, 0.03, 0.2])
        self._mishaps = Random(settings.seed)
        self._often = self._mishaps.choice([0.5, 2.0])
        self.happened: list[Mishap] = []
        self._late: set[str] = set()
        self._step = 0
        self._turns: list[Turn] = []
        self._calm = False
        self._pids = 0
        self._trace = trace

    # What processes ask

    def storage(self, process: Process) -> LocalStorage:
        return LocalStorage(
            system=Mount(
                self.disk,
                lambda step, path: self._interrupted(process, step, path),
                process.pid,
            )
        )

    def interrupt(self, step: str, path: Path) -> None:
        """At a step that is not the disk's."""
        self._interrupted(self._running.process, step, path)

    def is_later(self, epoch: int) -> bool:
        """Whether there has been a later runner."""
        return LeaseClaim(self.judge.warehouse.own).highest_epoch() > epoch

    def passes(self) -> None:
        """Time goes by."""
        self.disk.now += self.random.choice([0.001, 0.1, 1.0, 6.0])

    def may(self, chance: float) -> bool:
        """Whether something is done now that need not be."""
        return self.random.random() < chance

    @property
    def is_quiet(self) -> bool:
        """Whether the databases have nothing more to commit, and show all of it."""
        return all(database.is_quiet for database in self.databases.values())

    # Running

    def run(self) -> None:
        """Until everything is shown; ViolationError if something is wrong."""
        self.tally.runs = 1
        try:
            while not self._calm or self._turns:
                self._turn()
            self.judge.conclude()
        except HeadwaterError as error:
            raise ViolationError(f"{type(error).__name__}: {error}") from error
        finally:
            self.tally.commits = self.judge.commits
            for turn in self._turns:
                turn.end()

    def _turn(self) -> None:
        """Let some process go on until it stands still or ends."""
        if not self._turns or (len(self._turns) == 1 and self._turns[0].stands):
            self._begin()
        turn = self.random.choice(self._turns)
        self._running = turn
        ended = turn.go_on()
        if ended:
            self._turns.remove(turn)
            self.alive.discard(turn.process.pid)
            self._judge_end(turn)

    def _begin(self) -> None:
        self._pids += 1
        last = not self._may_happen
        count = len(self.views) if last or self.random.random() < 0.7 else 1
        wanted = self.views if last else self.random.sample(self.views, count)
        process = Process(self, self._pids, wanted)
        self.alive.add(self._pids)
        self._turns.append(Turn(process))
        self._note(process, "begins", Path())

    def _judge_end(self, turn: Turn) -> None:
        """Whether a process may end as it did."""
        error = turn.error
        self._note(turn.process, f"ends: {error!r}", Path())
        match error:
            case None:
                self._calm = self.is_quiet and len(turn.process.lives.running) == len(self.views)
            case CrashedError():
                pass
            case BusyError():
                self.disk.now += 20.0
            case OSError(errno=28):
                self.disk.full = False
            case HeadwaterError() if self.disk.full or "No space left" in error.message:
                self.disk.full = False
            case ViolationError():
                raise error
            case Exception() if turn.process.is_replaced:
                pass
            case _:
                raise ViolationError(
                    f"a runner ended with {type(error).__name__}: {error}"
                ) from error

    # Interruptions

    def _interrupted(self, process: Process, step: str, path: Path) -> None:
        if process.pid not in self.alive:
            raise CrashedError
        self._step += 1
        if self._step > _MOST_STEPS:
            raise ViolationError("it does not come to an end")
        self._note(process, step, path)
        cell = ("wait" if step == "sleep" else process.doing, step)
        self._note_cell(cell, process)
        incident = self._due(process, cell)
        if incident is not None:
            self._late |= set() if self._may_happen else {cell[0]}
            self.happened.append((self._step, incident))
        if step == "wait" or self.random.random() < self._pace:
            self.random.choice(list(self.databases.values())).happen(self.random)
        if len(self._turns) > 1 and (step == "sleep" or self.random.random() < 0.05):
            self._stand(process)
        if incident is not None:
            self._happens(incident, process, cell)

    def _note_cell(self, cell: Cell, process: Process) -> None:
        self.tally.taken[cell] += 1
        if cell not in self.tally.owing and self._is_owed(process):
            self.tally.owing.add(cell)

    def _due(self, process: Process, cell: Cell) -> Incident | None:
        """What happens now; a crash is likely where a process seldom comes and it could cost."""
        given = self.settings.given
        if given is not None:
            return next((what for step, what in given if step == self._step), None)
        if not self._may_happen and not self._may_happen_late(cell[0]):
            return None
        if self._step > _MANY_STEPS and self.tally.taken[cell] <= _SELDOM:
            if self._mishaps.random() < _OFTEN and self._is_owed(process):
                return self._mishaps.choice([Incident.KILLED, Incident.POWER])
        elif self._mishaps.random() < self._often * _likely(*cell):
            return self._mishaps.choices(list(_WEIGHTS), weights=list(_WEIGHTS.values()))[0]
        return None

    @property
    def _may_happen(self) -> bool:
        """Whether anything may still happen."""
        given = self.settings.given
        if given is not None:
            return self.settings.calm_from is None or self._step < self.settings.calm_from
        return len(self.happened) < self.settings.mishaps

    def _may_happen_late(self, doing: str) -> bool:
        """Once more, of what is mostly done when there is little else to do."""
        return doing in _LATE and doing not in self._late

    def as_given(self) -> Settings:
        """The same deployment, with what has happened in it in the place of what was drawn."""
        ended = self.happened[self.settings.mishaps - 1 : self.settings.mishaps]
        calm_from = ended[0][0] if ended else None
        return replace(self.settings, given=tuple(self.happened), calm_from=calm_from)

    def _happens(self, incident: Incident, process: Process, cell: Cell) -> None:
        self._note(process, f"*** {incident}", Path())
        match incident:
            case Incident.KILLED:
                self._count(process, cell)
                self._crash({process.pid})
            case Incident.POWER:
                self._count(process, cell)
                self.disk.crash(self.random)
                self.judge.power_lost()
                self._crash(set(self.alive))
            case Incident.PAUSED:
                self._stand(process)
            case Incident.LATER:
                for database in self.databases.values():
                    database.show()
                self.disk.now += self.random.choice([30.0, 4000.0, 90_000.0])
            case Incident.FULL:
                self.disk.full = True
            case Incident.RESTORED:
                self.random.choice(list(self.databases.values())).restore(self.random)

    def _stand(self, process: Process) -> None:
        """Let another go on."""
        self._running.stand()
        if process.pid not in self.alive:
            raise CrashedError

    def _is_owed(self, process: Process) -> bool:
        """Whether something is unsynced, unanswered or unacknowledged."""
        return process.is_owed or self.disk.is_owed

    def _count(self, process: Process, cell: Cell) -> None:
        """A crash counts where it could cost something."""
        if self._is_owed(process):
            self.tally.hit[cell] += 1
            self.tally.crashes += 1

    def _crash(self, pids: set[int]) -> None:
        self._calm = False
        self.alive -= pids
        self.disk.release_locks(pids)
        raise CrashedError

    def _note(self, process: Process, what: str, path: Path) -> None:
        if self._trace is not None:
            self._trace.append(
                f"{self._step:5} {self.disk.now:12.3f}  runner {process.pid}  "
                f"{process.doing:11} {what:12} {path if path.parts else ''}"
            )


class Turn:
    """A process on a thread of its own, which runs only while it is its turn."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.error: BaseException | None = None
        self.stands = False
        self._may = threading.Lock()
        self._has = threading.Lock()
        for lock in (self._may, self._has):
            lock.acquire()
        self._ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def go_on(self) -> bool:
        """Let it run until it stands still or ends; whether it has ended."""
        self.stands = False
        self._may.release()
        self._has.acquire()
        return self._ended

    def stand(self) -> None:
        """Give the turn away; called in its own thread."""
        self.stands = True
        self._has.release()
        self._may.acquire()

    def end(self) -> None:
        """Let what still stands run into its end."""
        self.process.world.alive.discard(self.process.pid)
        while not self.go_on():
            pass

    def _run(self) -> None:
        self._may.acquire()
        try:
            self.process.run()
        except BaseException as error:
            self.error = error
        self._ended = True
        self._has.release()


def play(settings: Settings, trace: list[str] | None = None) -> tuple[Tally, str | None]:
    """Run a deployment; what is wrong with it, if anything is."""
    world = World(settings, trace)
    try:
        world.run()
    except ViolationError as error:
        return world.tally, str(error)
    return world.tally, None


def shrink(settings: Settings) -> Settings:
    """A smaller deployment in which something is wrong too."""
    world = World(settings)
    with suppress(ViolationError):
        world.run()
    settings = world.as_given()
    while True:
        smaller = next((s for s in _smaller(settings) if play(s)[1] is not None), None)
        if smaller is None:
            return settings
        settings = smaller


def _smaller(settings: Settings) -> Iterator[Settings]:
    given = settings.given or ()
    last = max((step for step, _ in given), default=0)
    if settings.calm_from != last:
        yield replace(settings, calm_from=last)
    for at in range(len(given)):
        yield replace(settings, given=given[:at] + given[at + 1 :])
    if settings.transactions > 1:
        yield replace(settings, transactions=settings.transactions - 1)
    if settings.views > 1:
        yield replace(settings, views=settings.views - 1)
