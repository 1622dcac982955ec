"""One deployment from a seed: who runs when, what goes wrong, and what was hit.

Processes take turns; where one of them is interrupted, at a step that changes the disk or a
source, databases go on, and a mishap may be due: the process is killed, the power fails, the
process is left standing while another replaces it, the clock jumps, the disk is full, a database
is put back to an earlier state. What happened is data, so that a run can be repeated with less.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random

from headwater.errors import BusyError, HeadwaterError
from headwater.pipeline.joining import LateParts
from headwater.simulation.bucket import Objects, SimulatedBucket
from headwater.simulation.disk import Disk, Mount
from headwater.simulation.judge import Judge, ViolationError
from headwater.simulation.mishaps import Cell, Incident, Mishaps, Settings, Tally
from headwater.simulation.process import Process
from headwater.simulation.turns import CrashedError, Turn
from headwater.simulation.workload import databases, views
from headwater.storage.contract import Storage
from headwater.storage.local import LocalStorage
from headwater.storage.objects import ObjectStorage
from headwater.warehouse.lease import LeaseClaim

_MOST_STEPS = 10_000
_LONG = 6_000
"""After so many steps nobody takes the place of a runner that only stands still for a moment, or
runners might replace each other for ever."""
_MANY_STEPS = 200
_FOR_EVER, _SOON = 1e9, 30.0
"""For how long a part of a transaction across databases waits for the others."""
_SELDOM = 3
"""What was done no more often, after many steps, is where a crash is worth most."""


class World:
    """The deployment while it runs."""

    def __init__(self, settings: Settings, trace: list[str] | None = None) -> None:
        self.begun: list[Process] = []
        self.settings = settings
        self.random = Random(settings.seed)
        self.disk = Disk()
        keyed = settings.any_algorithm
        self.databases = databases(self.random, settings.transactions, keyed, settings.across)
        self.late = LateParts(_FOR_EVER if settings.across else _SOON)
        self.views = views(
            self.random,
            settings.views,
            settings.tops,
            keyed,
            settings.groups,
            settings.copies,
            settings.parts,
        )
        self.objects = Objects(self.disk, self.random) if settings.objects else None
        self.judge = Judge(self._looked_at(), self.databases, self.views)
        self.judge.releases = not settings.across
        self.alive: set[int] = set()
        self.tally = Tally.empty()
        self.upkeep_s = self.random.choice([1.0, 10.0])
        self.publish_s = self.random.choice([1.0, 10.0, 1000.0])
        self._pace = self.random.choice([0.01, 0.03, 0.2])
        self.mishaps = Mishaps(settings)
        self._step = 0
        self._turns: list[Turn] = []
        self._calm = False
        self._pids = 0
        self._trace = trace

    # What processes ask

    def storage(self, process: Process) -> Storage:
        def interrupt(step: str, path: Path) -> None:
            self._interrupted(process, step, path)

        if self.objects is not None:
            return ObjectStorage(SimulatedBucket(self.objects, interrupt))
        return LocalStorage(system=Mount(self.disk, interrupt, process.pid))

    def _looked_at(self) -> Storage:
        """What is durable, for who only looks."""
        if self.objects is not None:
            return ObjectStorage(SimulatedBucket(self.objects, _nothing, ill=False))
        return LocalStorage(system=Mount(self.disk, _nothing, synced=True))

    def interrupt(self, step: str, path: Path) -> None:
        """At a step that is not the disk's."""
        self._interrupted(self._running.process, step, path)

    def is_later(self, epoch: int) -> bool:
        """Whether there has been a later runner."""
        claims = (process.claim for process in self.begun if hasattr(process, "claim"))
        claimed = max((claim.epoch for claim in claims), default=0)  # a crash may lose its file
        return max(claimed, LeaseClaim(self.judge.warehouse.own).highest_epoch()) > epoch

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
        alone = len(self._turns) == 1 and self._turns[0].stands and self._step < _LONG
        if not self._turns or alone:
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
        last = self.mishaps.are_over(self._step)
        count = len(self.views) if last or self.random.random() < 0.7 else 1
        wanted = self.views if last else self.random.sample(self.views, count)
        process = Process(self, self._pids, wanted)
        self.begun.append(process)
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
                self.disk.full = self._calm = False
            case HeadwaterError() if self.disk.full or "No space left" in error.message:
                self.disk.full = self._calm = False
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
        is_seldom = self._step > _MANY_STEPS and self.tally.taken[cell] <= _SELDOM
        worth = partial(self._is_owed, process) if is_seldom else None
        incident = self.mishaps.due(self._step, cell, worth)
        if step == "wait" or self.random.random() < self._pace:
            self.random.choice(list(self.databases.values())).happen(self.random)
        if len(self._turns) > 1 and (step == "sleep" or self.random.random() < 0.05):
            self._stand(process)
        if incident is not None:
            self._happens(incident, process, cell)

    def _note_cell(self, cell: Cell, process: Process) -> None:
        self.tally.taken[cell] += 1
        if cell not in self.tally.owing and self._is_owed(process):
            self.tally.owing[cell] = self.settings, self._step

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
            case Incident.RESTORED if self.settings.across:
                pass  # what was undone never comes, and is waited for
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


def _nothing(step: str, path: Path) -> None:
    pass


def play(settings: Settings, trace: list[str] | None = None) -> tuple[Tally, str | None]:
    """Run a deployment; what is wrong with it, if anything is."""
    world = World(settings, trace)
    try:
        world.run()
    except ViolationError as error:
        return world.tally, str(error)
    return world.tally, None
