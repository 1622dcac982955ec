"""The running system: every source's feed, every view's maintainer, and the upkeep beside them.

The runner holds the warehouse's lease. It brings each view up as soon as the sources that it
needs can be reached, so a source that is down stops only the views over it, and a view that
cannot go on stops alone. It takes up new, changed and removed view files, and what commands ask
of it, and writes down how everything stands, for `headwater status`.

All of its state belongs to the thread that calls `supervise`. The views share a pool of workers,
and another one loads them; feeds and the upkeep have threads and state of their own.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from headwater.algebra.schema import Relation
from headwater.algebra.sql.view import normalised
from headwater.errors import (
    EngineError,
    FencedError,
    HeadwaterError,
    InputError,
    LostConnectionError,
    SourceError,
)
from headwater.frames.engine import THRESHOLD, Engine
from headwater.pipeline.bulk_read import Tally
from headwater.pipeline.describe import describe_feed, describe_view
from headwater.pipeline.followed import FollowedSources
from headwater.pipeline.load import load_view
from headwater.pipeline.maintain import Maintainer, Obtained
from headwater.pipeline.maintenance import Plan
from headwater.pipeline.requests import Request, answer, forget_requests, waiting_requests
from headwater.pipeline.turns import Clock
from headwater.pipeline.upkeep import Upkeep, Upkept
from headwater.project.differences import describe_difference
from headwater.project.gaps import GapError
from headwater.project.project import (
    Project,
    file_signature,
)
from headwater.project.settings import FILE
from headwater.sources.subscription import Wake
from headwater.sources.workers import Workers
from headwater.storage.location import Location
from headwater.warehouse.lease import Lease
from headwater.warehouse.notes import read_notes, write_notes
from headwater.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SUPERVISE_S = 0.5
_SHARE = 50
"""What is done again and again waits at least so many times as long as it took: it grows with the
number of views, and must not take the processor from them."""
_RETRY_S = 5.0
_STOP_S = 5.0
"""How long a stop waits for what is under way, and once more when it has been cancelled."""
_NOTE_S = 5.0
"""How often it is noted how far views have come that do not change."""
_WORKERS = 16
_LOADS = 8
_STOP_VIEW_S = 60.0
"""How long for one view, while the others go on: a busy machine is no reason to give up."""


@dataclass
class ViewStatus:
    """How one view stands, for people and machines."""

    name: str
    state: str = "waiting"
    """waiting, loading, running, or stopped."""
    failure: HeadwaterError | None = None
    """Why it waits or has stopped."""
    note: str = ""
    """What happened to it that a reader should know."""
    maintainer: Maintainer | None = None
    anew: bool = False
    """Whether its table is to be replaced by a new load."""
    because: str = ""
    """Why, if nobody has asked for it."""
    requests: list[Request] = field(default_factory=list)
    """Who waits for its load."""
    tally: Tally | None = None
    retry_at: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while something beside maintenance works on its tables."""

    @property
    def message(self) -> str:
        return str(self.failure) if self.failure is not None else ""

    def stop(self, failure: HeadwaterError) -> None:
        self.state, self.failure, self.tally = "stopped", failure, None

    def load_anew(self, because: str) -> None:
        self.anew, self.because = True, because
        self.wait(None, 0.0)

    def loaded(self) -> None:
        self.state, self.tally, self.anew = "running", None, False
        if self.because:
            self.note = f"It was loaded anew at {time.strftime('%F %T')}: {self.because}"
            self.because = ""

    def wait(self, failure: HeadwaterError | None, seconds: float) -> None:
        self.state, self.failure, self.tally = "waiting", failure, None
        self.retry_at = time.monotonic() + seconds


class Runner:
    """Runs one project. `start`, then `supervise` from time to time, then `stop`.

    `only` restricts it to some views, of which `anew` are loaded anew. The source `repair` is set
    up again before anything else.
    """

    def __init__(
        self,
        project: Project,
        spark: Callable[[], SparkSession],
        watch: Callable[[str, str, float], None] | None = None,
        only: Iterable[str] | None = None,
        anew: Collection[str] = (),
        repair: str | None = None,
    ) -> None:
        self.project = project
        self._to_repair = repair
        self.warehouse = Warehouse(project.warehouse)
        self._all = only is None
        wanted = project.view_files if only is None else only
        self.views = {name: ViewStatus(name, anew=name in anew) for name in wanted}
        self.lease = Lease(self.warehouse.internal)
        settings = project.settings.spark
        self._jobs = f"headwater-{uuid.uuid4().hex[:12]}"
        self._start_spark = spark
        self._session: SparkSession | None = None
        self.engine = Engine(self._spark, settings.engine, settings.threshold or THRESHOLD)
        self._watch = watch or (lambda view, step, seconds: None)
        self._followed = FollowedSources(project, self.warehouse, self.lease, self.engine.lift)
        self.feeds = self._followed.feeds
        self._workers = Workers("views", _WORKERS)
        self._loads = Workers("loads", _LOADS)
        self._clock = Clock()
        self._note_at = 0.0
        self._files_at = 0.0
        self._upkeep: Upkeep | None = None
        self._files = file_signature(project.folder)
        self._files_trouble = ""
        self._stopping = False
        self._status_at = 0.0
        self._told: list[tuple[str, str]] = []

    def start(self) -> None:
        """Take the lease and bring up what can be; InputError if a view's file does not fit."""
        self._check_files()
        self.lease.acquire()
        try:
            self.warehouse.let_read(self.project.settings.warehouse.readers)
            self.warehouse.remove_leftovers()
            forget_requests(self.warehouse.internal)
            if self._to_repair is not None:
                self._followed.set_up_again(self._to_repair)
            for status in self.views.values():
                self._bring_up(status)
        except BaseException:
            self.stop()
            raise
        self._upkeep = Upkeep(
            self.warehouse,
            lambda: [Upkept(s.name, s.maintainer, s.lock) for s in list(self.views.values())],
            lambda: dict(self.feeds),
            self.engine,
            self.lease.runner,
            self.project.settings.warehouse.retention,
            lambda: self.lease.lost,
        )
        self._upkeep.start()

    def supervise(self) -> None:
        """Look after views and sources; raises what ends the whole runner."""
        if self._upkeep is not None and self._upkeep.failure is not None:
            raise self._upkeep.failure
        self.lease.check()
        if self._all and time.monotonic() >= self._files_at:
            began = time.monotonic()
            self._look_at_files()
            self._files_at = _again(began)
        self._load_unsound()
        for status in self.views.values():
            self._look_after(status)
            if status.state == "waiting" and time.monotonic() >= status.retry_at:
                self._bring_up(status)
            self._report(status)
        for feed in self.feeds.values():
            if feed.failure is not None:
                raise feed.failure
        for request in waiting_requests(self.warehouse.internal):
            self._carry_out(request)
        if time.monotonic() >= self._note_at:
            began = time.monotonic()
            self._write_notes()
            self._note_at = _again(began, _NOTE_S)
        states = [(status.name, status.state) for status in self.views.values()]
        if time.monotonic() >= self._status_at or states != self._told:
            began = time.monotonic()
            self._write_status()
            self._status_at, self._told = _again(began, _SUPERVISE_S), states

    def stop(self) -> None:
        """Commit what is ready, close everything, give the lease back; in a few seconds."""
        self._stopping = True
        if self._upkeep is not None:
            self._upkeep.stop()
        maintainers = [s.maintainer for s in self.views.values() if s.maintainer is not None]
        for maintainer in maintainers:
            maintainer.stop()
        for feed in self.feeds.values():
            feed.channel.stop()
        for name in self.loading:
            self._cancel_jobs(name)
        _join(maintainers)  # what they commit is not cut off
        self._cancel_jobs()
        _join(maintainers)
        self._clock.stop()
        self._workers.stop()
        self._loads.stop()
        for status in self.views.values():
            if status.maintainer is not None and status.maintainer.failure is not None:
                self._note_end(status, status.maintainer.failure)
        for feed in self.feeds.values():
            feed.close()
        if self._upkeep is not None:
            self._upkeep.join(_STOP_S)
        if self.lease.epoch:
            if not self.lease.lost:
                self._write_status()
                with suppress(HeadwaterError):  # it was replaced, or is told by what cannot do so
                    self._write_notes()
            self.lease.release()

    def targets(self) -> dict[str, int]:
        """Where each source that can be reached stands now: the number of its last transaction."""
        found = {}
        for name, feed in self.feeds.items():
            with suppress(SourceError):
                feed.channel.catch_up()
                found[name] = feed.channel.end
        return found

    def reach(self, targets: Mapping[str, int]) -> bool:
        """Let every view show everything up to these numbers, as soon as it can.

        Returns whether all of them do, or cannot go on.
        """
        return all(self._reach(status, targets) for status in self.views.values())

    def _reach(self, status: ViewStatus, targets: Mapping[str, int]) -> bool:
        maintainer = status.maintainer
        if maintainer is None:
            return status.failure is not None
        sources = maintainer.plan.view.sources
        if any(s in self.feeds and self.feeds[s].channel.is_over for s in sources):
            return False  # it is about to be told why
        return maintainer.reach(targets)

    def _note_end(self, status: ViewStatus, failure: HeadwaterError) -> None:
        """A view that ended badly while everything was being stopped."""
        if status.state == "loading":
            status.state = "waiting"  # its load was cancelled
        elif not isinstance(failure, LostConnectionError):
            status.stop(failure)

    @property
    def loading(self) -> list[str]:
        """The views that have no table yet, or are being loaded anew."""
        return [s.name for s in self.views.values() if s.state == "loading" or s.anew]

    @property
    def failures(self) -> list[HeadwaterError]:
        """Why views, or sources, do not go on."""
        views = [s.failure for s in self.views.values() if s.failure is not None]
        sources = [f.channel.trouble for f in self.feeds.values() if f.channel.trouble is not None]
        return [*views, *sources]

    # Spark

    def _spark(self) -> SparkSession:
        """The session; what the calling thread starts there can be cancelled by `stop`."""
        session = self._session = self._start_spark()
        session.sparkContext.setInterruptOnCancel(True)
        session.sparkContext.addJobTag(self._jobs)
        return session

    @contextmanager
    def _tagged(self, view: str) -> Iterator[Callable[[], SparkSession]]:
        """The session, in a thread whose jobs are a view's for a while."""
        tag = f"{self._jobs}-{view}"
        tagged: list[SparkSession] = []

        def session() -> SparkSession:
            found = self._spark()
            found.sparkContext.addJobTag(tag)
            tagged.append(found)
            return found

        try:
            yield session
        finally:
            for found in tagged:
                with suppress(Exception):  # the session may be gone already
                    found.sparkContext.removeJobTag(tag)

    def _cancel_jobs(self, view: str = "") -> None:
        if self._session is not None:
            with suppress(Exception):  # the session may be gone already
                tag = f"{self._jobs}-{view}" if view else self._jobs
                self._session.sparkContext.cancelJobsWithTag(tag)

    # Views

    def _check_files(self) -> None:
        """Refuse what the user wrote before anything is done.

        A view whose file is as it was when it was loaded is not at fault: its tables may have
        been altered. It stops by itself, and the others go on.
        """
        for status in self.views.values():
            try:
                self._plan(status)
            except LostConnectionError:
                continue
            except HeadwaterError:
                if not self._is_as_loaded(status.name):
                    raise

    def _is_as_loaded(self, name: str) -> bool:
        if not self.warehouse.has_view(name):
            return False
        try:
            stored = self.warehouse.view(name).definition.select
        except HeadwaterError:
            return True  # its table is damaged: that is told where it is brought up
        return stored == normalised(self.project.view_files[name].select)

    def _plan(self, status: ViewStatus) -> Plan:
        name = status.name
        definition = self.project.definition(name, self._relations_of(name))
        stored = definition.stored
        narrow = definition.view.narrowed()
        choice = self.project.choose(replace(definition, view=narrow))
        if not status.anew and self.warehouse.has_view(name):
            difference = describe_difference(self.warehouse.view(name).definition, stored)
            if difference is not None:
                raise InputError(difference)
        return Plan(
            narrow,
            choice.manager,
            choice.algorithm,
            str(definition.file.level),
            choice.reason,
            stored,
            definition.file.refresh_every,
            self.project.publish_every(name),
        )

    def _relations_of(self, view: str) -> list[Relation]:
        """What the sources of a view say about their relations."""
        return [r for s in self.project.needs[view] for r in self._followed.relations(s).values()]

    def _bring_up(self, status: ViewStatus) -> None:
        try:
            plan = self._plan(status)
            for source in plan.view.sources:
                self._followed.read(source, plan.view)
        except LostConnectionError as error:
            status.wait(error, _RETRY_S)
            return
        except HeadwaterError as error:
            status.stop(error)
            return
        exists = self.warehouse.has_view(status.name)
        status.state = "running" if exists and not status.anew else "loading"
        status.failure = None
        status.maintainer = Maintainer(
            plan,
            partial(self._obtain, plan, status),
            self.feeds,
            self.engine,
            self.lease.runner,
            self._workers,
            self._clock,
            self.project.settings.run.backlog,
            lambda step, seconds: self._watch(plan.view.name, step, seconds),
        )
        status.maintainer.start(self._workers if status.state == "running" else self._loads)

    def _obtain(self, plan: Plan, status: ViewStatus, wake: Wake) -> Obtained:
        """A view's table; loaded first where there is none, or loaded anew. In a worker."""
        name = plan.view.name
        if self.warehouse.has_view(name) and not status.anew:
            return Obtained(self.warehouse.view(name))

        def report(tally: Tally) -> None:
            status.tally = tally

        with self._tagged(name) as session:
            obtained = load_view(
                plan,
                self.feeds,
                self.warehouse,
                replace(self.engine, start=session).for_small,
                self.lease,
                wake,
                report,
            )
        status.loaded()
        return obtained

    def _stop_view(self, status: ViewStatus) -> None:
        """End a view's maintenance, also in the middle of a load."""
        maintainer, status.maintainer = status.maintainer, None
        if maintainer is None:
            return
        maintainer.stop()
        if status.state == "loading":
            self._cancel_jobs(status.name)
        maintainer.join(_STOP_S)
        if maintainer.is_running:
            self._cancel_jobs(status.name)
            maintainer.join(_STOP_VIEW_S)
        if maintainer.is_running:
            status.maintainer = maintainer
            raise HeadwaterError(
                f"View {status.name}: what is under way does not end.", "Restart 'headwater run'."
            )

    def _look_after(self, status: ViewStatus) -> None:
        maintainer = status.maintainer
        if maintainer is None or maintainer.is_running:
            return
        failure = maintainer.failure or HeadwaterError(f"View {status.name} ended.")
        status.maintainer = None
        match failure:
            case FencedError():
                self.lease.check()  # raises if it is the runner that was replaced
                if self.warehouse.has_view(status.name):
                    # A runner that was replaced has opened it before it found out.
                    status.wait(failure, _RETRY_S)
                    return
                status.stop(
                    EngineError(
                        f"The tables of view {status.name} were removed.",
                        f"Load it anew: headwater reload {status.name}.",
                    )
                )
            case LostConnectionError():
                status.wait(failure, _RETRY_S)
            case GapError() if self._may_load_anew(failure, maintainer.plan):
                status.load_anew(failure.reason)
                self._followed.ask_again()
            case _:
                status.stop(failure)

    def _may_load_anew(self, gap: GapError, plan: Plan) -> bool:
        """Whether a view goes on behind a gap by itself; one that shows every state does not."""
        by_itself = self.project.settings.run.gaps == "reload"
        return gap.is_repair or (by_itself and not plan.shows_each_state)

    def _load_unsound(self) -> None:
        """Load views anew that hold rows with a count below zero.

        All algorithms that run here commit in order, so no count is below zero for a while: a
        source has reported something that was not so.
        """
        while self._upkeep is not None and self._upkeep.unsound:
            status = self.views.get(self._upkeep.unsound.pop())
            if status is None or status.state != "running":
                continue
            self._stop_view(status)
            status.load_anew(
                "it had rows that were taken away more often than they were there, so a source "
                "has reported what was not so."
            )

    # What is asked of it

    def _look_at_files(self) -> None:
        """Take up what has become of the project's files."""
        signature = file_signature(self.project.folder)
        if signature == self._files:
            return
        self._files = signature
        try:
            project = Project.open(self.project.folder)
        except HeadwaterError as error:
            self._files_trouble = f"The project's files are not taken up: {error}"
            return
        if project.settings != self.project.settings:
            self._files_trouble = f"{FILE} has changed: restart 'headwater run' to have it so."
            return
        self._files_trouble = ""
        self._take_up(project)

    def _take_up(self, project: Project) -> None:
        before, self.project = self.project, project
        self._followed.ask_again(project)
        for name in [name for name in self.views if name not in project.view_files]:
            self._stop_view(self.views[name])
            del self.views[name]
        for name, file in project.view_files.items():
            status = self.views.setdefault(name, ViewStatus(name))
            if before.view_files.get(name) != file:
                self._stop_view(status)
                status.wait(None, 0.0)

    def _carry_out(self, request: Request) -> None:
        try:
            match request.action:
                case "drop":
                    self._drop(request.name)
                    answer(self.warehouse.internal, request)
                case "reload":
                    self._reload([request.name], request)
                case "repair":
                    self._repair(request)
        except FencedError:
            raise
        except HeadwaterError as error:
            answer(self.warehouse.internal, request, error)

    def _drop(self, name: str) -> None:
        status = self.views.get(name)
        if status is not None:
            self._stop_view(status)
            status.stop(InputError("It was dropped.", "The next run loads it."))
        with status.lock if status is not None else nullcontext():
            if self.warehouse.remains(name):
                self.warehouse.drop(name)

    def _with_sound(self, names: Collection[str]) -> Project:
        """The project with the files of these views as they are now, and of all others that can
        be read; of one that cannot, as it was."""
        opened = Project.open(self.project.folder, only=names)
        paths = {file.path for file in opened.view_files.values()}
        kept = {
            name: file
            for name, file in self.project.view_files.items()
            if name not in opened.view_files and file.path not in paths and file.path.exists()
        }
        return replace(
            opened,
            settings=self.project.settings,
            view_files={**opened.view_files, **kept},
            needs={**opened.needs, **{name: self.project.needs[name] for name in kept}},
        )

    def _reload(self, names: Collection[str], request: Request) -> None:
        """Load views anew; what waits is answered when all of them run or have stopped."""
        self._take_up(self._with_sound(names))
        for name in names:
            if name not in self.views:
                raise InputError(
                    f"The project has no view {name}.", f"It has {', '.join(self.views)}."
                )
            status = self.views[name]
            self._stop_view(status)
            with status.lock:
                status.anew = self.warehouse.has_view(name)
            status.requests.append(request)
            status.note = status.because = ""
            status.wait(None, 0.0)

    def _repair(self, request: Request) -> None:
        source = request.name
        views = [name for name in self.views if source in self.project.needs[name]]
        for name in views:
            self._stop_view(self.views[name])
        self._followed.close(source)
        self._followed.ask_again()
        self._followed.set_up_again(source)
        self._reload(views, request)
        if not views:
            answer(self.warehouse.internal, request)

    def _report(self, status: ViewStatus) -> None:
        """Answer who waits for a view's load, once no other view is waited for."""
        if not status.requests or (status.state != "running" and status.failure is None):
            return
        answered, status.requests = status.requests, []
        for request in answered:
            if status.failure is not None:
                request.failures.append(status.failure)
            if not any(request in other.requests for other in self.views.values()):
                answer(self.warehouse.internal, request, *request.failures)

    # Status

    def describe(self) -> dict[str, Any]:
        """How everything stands."""
        troubles = self._upkeep.troubles if self._upkeep is not None else {}
        return {
            "runner": self.lease.runner,
            "written": time.time(),
            "engine": self.engine.mode,
            "trouble": self._files_trouble or None,
            "views": {
                name: describe_view(status, self.feeds, troubles.get(name, ""))
                for name, status in self.views.items()
            },
            "sources": {name: describe_feed(feed) for name, feed in self.feeds.items()},
        }

    def _write_notes(self) -> None:
        """Note how far views have come that did not change since their last commits."""
        before = read_notes(self.warehouse.internal)
        notes = dict(before)
        for name, status in self.views.items():
            if status.maintainer is not None and (note := status.maintainer.note) is not None:
                notes[name] = note
        if notes == before:
            return
        with self.lease.guard(), suppress(OSError):  # a full disk is told by what needs it
            write_notes(self.warehouse.internal, notes)

    def _write_status(self) -> None:
        path = Location.of(self.warehouse.internal / "status.json")
        with suppress(OSError):  # a full disk is told by what cannot do without it
            path.replace(json.dumps(self.describe()).encode(), durable=False)


def _again(began: float, at_least_s: float = 0.0) -> float:
    """When something that began at a time, and is over now, is next to be done."""
    now = time.monotonic()
    return now + max(at_least_s, _SHARE * (now - began))


def _join(maintainers: Sequence[Maintainer]) -> None:
    until = time.monotonic() + _STOP_S
    for maintainer in maintainers:
        maintainer.join(max(0.0, until - time.monotonic()))
