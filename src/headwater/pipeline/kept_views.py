"""The views that a runner keeps, and what drives their lives (see `life`).

Belongs to the runner's thread, as all of its state does. The views share a pool of workers, and
another one loads them; what a worker has come to is looked at, never told.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

from headwater.algorithms.hosted import Hosted
from headwater.costs.recomputing import FEWEST_ROWS, Crossover, crossover, expected_s
from headwater.costs.statistics import Loaded as LoadTook
from headwater.costs.statistics import Statistics
from headwater.errors import (
    FencedError,
    HeadwaterError,
    InputError,
    LostConnectionError,
    NoExecutorError,
    RefusedError,
    StateLostError,
)
from headwater.frames.engine import Engine
from headwater.frames.naming import named
from headwater.frames.trial import ConstantError
from headwater.journal import happened
from headwater.nodes.switchboard import Switchboard
from headwater.pipeline.bulk_read import Tally
from headwater.pipeline.burden import Burden, Measured, with_measured
from headwater.pipeline.companions import Company, companies
from headwater.pipeline.feed import Feed
from headwater.pipeline.followed import FollowedSources
from headwater.pipeline.joining import LateParts
from headwater.pipeline.life import (
    Do,
    Dropped,
    Failed,
    FileChanged,
    Halted,
    ImpatientError,
    Interrupted,
    Life,
    LifeEvent,
    LifeState,
    Loaded,
    OutgrownError,
    ReloadAsked,
    Strayed,
    beginning,
    ending,
    unsound,
    with_way_out,
)
from headwater.pipeline.load import load_view
from headwater.pipeline.maintain import Maintainer, Obtained
from headwater.pipeline.nodes_away import NodesAway
from headwater.pipeline.placing import placed
from headwater.pipeline.plan import Plan
from headwater.pipeline.planning import is_as_loaded, plan_view
from headwater.pipeline.reading_together import Companion, Together
from headwater.pipeline.repair import though_repaired
from headwater.pipeline.requests import Request, answer
from headwater.pipeline.spark_jobs import SparkJobs
from headwater.pipeline.turns import Clock
from headwater.project.project import Project
from headwater.project.settings import together
from headwater.sources.subscription import Wake
from headwater.sources.workers import Workers
from headwater.warehouse.lease import Lease
from headwater.warehouse.warehouse import Warehouse

_STOP_S = 5.0
"""How long a stop waits for what is under way, and once more when it has been cancelled."""
_STOP_VIEW_S = 60.0
"""How long for one view, while the others go on: a busy machine is no reason to give up."""
_NODES_S = 0.2
"""How often nodes are looked for that may be on their way."""
_WORKERS = 16
_LOADS = 8
_SHARED_LOADS = 4

Watch = Callable[[str, str, float], None]
InVain = Callable[[Maintainer, float], None]
Feeds = Mapping[str, Feed]
"""Told of a view which step took how many seconds."""


@dataclass
class KeptView:
    """One view; it has a maintainer while something is under way."""

    name: str
    life: Life = field(default_factory=Life)
    maintainer: Maintainer | None = None
    since: float = 0.0
    """When it began to stand still for the reason that it does; 0 while it does not."""
    measured: Measured = field(default_factory=Measured)
    """What its loads and its large batches have taken."""
    plan: Plan | None = None
    """How it is maintained, or was when it was last brought up."""
    is_patient: bool = False
    """Whether it waits for pauses of its sources as long as it takes: nothing else is better."""
    tally: Tally | None = None
    """What has been read for its load; set by the worker that loads."""
    companion: Companion | None = None
    """Its part in loads that go together, while it is loaded so."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while something beside maintenance works on its tables."""

    @property
    def state(self) -> str:
        """Its state in words; its life may not have been told yet that it is loaded."""
        return "running" if self.is_loaded_unnoticed else self.life.shown

    @property
    def failure(self) -> HeadwaterError | None:
        """Why it stands still, with the way out of a stop."""
        failure = self.life.failure
        if failure is None or not self.is_stopped:
            return failure
        return with_way_out([self.name], failure)

    @property
    def is_stopped(self) -> bool:
        """Whether it stands still until somebody acts."""
        return self.life.state is LifeState.STOPPED

    @property
    def message(self) -> str:
        return str(self.failure) if self.failure is not None else ""

    @property
    def note(self) -> str:
        return self.life.note_now

    @property
    def is_to_be_loaded(self) -> bool:
        """Whether it is being loaded, or is to be loaded anew."""
        return (self.life.is_loading or self.life.anew) and not self.is_loaded_unnoticed

    @property
    def is_loaded_unnoticed(self) -> bool:
        is_there = self.maintainer is not None and self.maintainer.table is not None
        return self.life.is_loading and is_there


class KeptViews:
    """All views of a runner; those in `anew` are loaded anew."""

    def __init__(
        self,
        project: Project,
        names: Collection[str],
        anew: Collection[str],
        warehouse: Warehouse,
        lease: Lease,
        followed: FollowedSources,
        engine: Engine,
        jobs: SparkJobs,
        watch: Watch,
        switchboard: Switchboard | None = None,
        statistics: Callable[[], Statistics] = Statistics,
        in_vain: InVain = lambda maintainer, seconds: None,
    ) -> None:
        """`in_vain` is told who waited for pauses of its sources in vain, and for how long."""
        self.project = project
        self._statistics = statistics
        self._in_vain = in_vain
        self.all = {name: KeptView(name, Life(anew=name in anew)) for name in names}
        self._warehouse = warehouse
        self._lease = lease
        self._followed = followed
        self._engine = engine
        self._jobs = jobs
        self._watch = watch
        self._switchboard = switchboard
        self._lives = count(1)
        self._workers = Workers("views", _WORKERS)
        self._loads = Workers("loads", _LOADS)
        self._shared_loads = Workers("shared loads", _SHARED_LOADS)
        self._clock = Clock()

    def check_files(self, mistakes: Sequence[InputError] = ()) -> None:
        """Refuse what the user wrote, before anything is done, if no view can be looked after.

        `mistakes` are those of files that are left out. Else a view whose file has a mistake stops
        by itself, and so does one over a table that cannot be used. A view whose file is as it was
        when it was loaded is not at fault: its tables may have been altered.
        """
        unusable: list[HeadwaterError] = []
        for view in self.all.values():
            try:
                self._plan(view)
            except LostConnectionError:
                return
            except HeadwaterError as error:
                if is_as_loaded(self.project, self._warehouse, view.name):
                    return
                unusable.append(error)
            else:
                return
        if unusable or mistakes:
            raise together([*mistakes, *unusable])

    def look_after(self) -> None:
        """See what the views have come to, and bring up what is due."""
        coming: list[tuple[Maintainer, Workers]] = []
        for view in self.all.values():
            self._look_at(view)
            if view.life.is_due(time.monotonic()):
                coming += self._bring_up(view)
        self._put_together([each.name for each, workers in coming if workers is self._loads])
        for maintainer, workers in coming:
            maintainer.start(workers)

    def _put_together(self, names: Sequence[str]) -> None:
        """Have views that are to be loaded now read together what they have in common."""
        plans = {
            name: maintainer.plan
            for name in names
            if (maintainer := self.all[name].maintainer) is not None
        }
        for company in companies(plan.view for plan in plans.values()):
            feeds = {s: self._followed.feeds[s] for v in company.views for s in v.sources}
            together = Together(company, feeds, self._warehouse, self._jobs, self._shared_loads)
            for view in company.views:
                self.all[view.name].companion = Companion(together, view)

    def look_at_unsound(self, name: str) -> None:
        """Rows with a count below zero were found in a view."""
        view = self.all.get(name)
        if view is not None and view.maintainer is not None and not view.life.is_loading:
            by_itself = self._loads_by_itself(view.maintainer.plan)
            self.halt(view)
            self._tell(view, unsound(name, by_itself))

    def existing(self, name: str) -> KeptView:
        """The view of a name, in which a command may be mistaken."""
        if name in self.all:
            return self.all[name]
        raise InputError(f"The project has no view {name}.", f"It has {', '.join(self.all)}.")

    # What is asked for

    def take_up(self, project: Project) -> None:
        """Go on with files that have changed."""
        before, self.project = self.project, project
        self._followed.ask_again(project)
        for name in [name for name in self.all if name not in project.units]:
            self.halt(self.all[name])
            self._tell(self.all[name], Dropped(InputError(f"The file of view {name} is gone.")))
            del self.all[name]
        for name in project.units:
            view = self.all.setdefault(name, KeptView(name))
            if name not in before.units or before.files_of(name) != project.files_of(name):
                self.halt(view)
                self._tell(view, FileChanged())

    def drop(self, name: str) -> None:
        """Remove a view's tables."""
        view = self.all.get(name)
        if view is not None:
            self.halt(view)
            self._tell(view, Dropped(InputError("It was dropped.", "The next run loads it.")))
        with view.lock if view is not None else nullcontext():
            if self._warehouse.remains(name):
                self._warehouse.drop(name)

    def reload(self, names: Collection[str], request: Request) -> None:
        """Load views anew; who waits is answered when all of them run or have stopped."""
        views = [self.existing(name) for name in names]
        for view in views:
            self.halt(view)
        for view in views:
            with view.lock:
                has_table = self._warehouse.has_view(view.name)
            self._tell(view, ReloadAsked(request, has_table))

    def halt(self, view: KeptView) -> None:
        """End what is under way for a view, also in the middle of a load."""
        maintainer = view.maintainer
        if maintainer is None:
            return
        maintainer.stop()
        if view.companion is not None:
            view.companion.give_up()
        if view.is_to_be_loaded:
            self._jobs.cancel(view.name)
        maintainer.join(_STOP_S)
        if maintainer.is_running:
            self._jobs.cancel(view.name)
            maintainer.join(_STOP_VIEW_S)
        if maintainer.is_running:
            raise HeadwaterError(
                f"View {view.name}: what is under way does not end.", "Restart 'headwater run'."
            )
        self._note_load(view)
        view.maintainer = None
        self._tell(view, Halted())

    # The end

    def begin_to_stop(self) -> None:
        """Tell everything that is under way to end, and wait for nothing."""
        for maintainer in self._under_way():
            maintainer.stop()
        for view in self.all.values():
            if view.companion is not None:
                view.companion.give_up()

    def stop(self) -> None:
        """End it; what is ready is committed, what takes too long is cancelled."""
        for view in self.all.values():
            if view.is_to_be_loaded:
                self._jobs.cancel(view.name)
        self._join()  # what they commit is not cut off
        self._jobs.cancel()
        self._join()
        self._clock.stop()
        self._workers.stop()
        self._loads.stop()
        self._shared_loads.stop()
        for view in self.all.values():
            self._note_end(view)

    def _under_way(self) -> Sequence[Maintainer]:
        return [view.maintainer for view in self.all.values() if view.maintainer is not None]

    def _join(self) -> None:
        until = time.monotonic() + _STOP_S
        for maintainer in self._under_way():
            maintainer.join(max(0.0, until - time.monotonic()))

    def _note_end(self, view: KeptView) -> None:
        """A view may have ended badly while everything was being stopped."""
        self._note_load(view)
        failure = view.maintainer.failure if view.maintainer is not None else None
        if failure is None:
            return
        if view.life.is_loading:
            self._tell(view, Halted())  # its load was cancelled
        elif not isinstance(
            failure,
            LostConnectionError
            | RefusedError
            | OutgrownError
            | StateLostError
            | NoExecutorError
            | ImpatientError,
        ):
            self._tell(view, Failed(failure))

    # Lives

    def _tell(self, view: KeptView, event: LifeEvent) -> frozenset[Do]:
        """Something has happened to a view; what else is to be done."""
        waiting, message, before = view.life.requests, view.message, view.life
        view.life, do = view.life.after(event, time.monotonic())
        if view.message != message:
            view.since = time.time() if view.message else 0.0
        if (view.life.state, view.message) != (before.state, message):
            _log(view, before)
        if Do.ANSWER in do:
            for request in waiting:
                self._report(request, view.failure)
        return do

    def _report(self, request: Request, failure: HeadwaterError | None) -> None:
        """Answer who waits for a view's load, once no other view is waited for."""
        if failure is not None:
            repaired = request.kind == "repair"
            request.failures.append(though_repaired(request.name, failure) if repaired else failure)
        if not any(request in view.life.requests for view in self.all.values()):
            answer(self._warehouse.own, request, *request.failures)

    def _look_at(self, view: KeptView) -> None:
        self._note_load(view)
        maintainer = view.maintainer
        if maintainer is None or maintainer.is_running:
            return
        view.maintainer = None
        failure = maintainer.failure or HeadwaterError(f"View {view.name} ended.")
        if isinstance(failure, FencedError):
            self._lease.check()  # raises if it is the runner that was replaced
        has_table = self._warehouse.has_view(view.name)
        by_itself = self._loads_by_itself(maintainer.plan)
        event = ending(view.name, failure, has_table, by_itself, view.life.recomputes)
        if isinstance(event, Strayed) or isinstance(failure, RefusedError):
            self._followed.ask_again()
        if isinstance(failure, ImpatientError):
            self._in_vain(maintainer, failure.seconds)
            with suppress(HeadwaterError):  # told when it is brought up
                view.is_patient = self._plan(view).algorithm == maintainer.plan.algorithm
        self._tell(view, event)

    def _note_load(self, view: KeptView) -> None:
        if view.is_loaded_unnoticed:
            self._tell(view, Loaded(time.strftime("%F %T")))

    def _loads_by_itself(self, plan: Plan) -> bool:
        """Whether a view goes on behind a gap by itself; one that shows every state does not."""
        return self.project.settings.run.gaps == "reload" and not plan.shows_each_state

    @property
    def _late(self) -> LateParts:
        """What happens to parts of global transactions whose others do not come."""
        across = self.project.settings.across
        return LateParts(across.wait, across.late)

    # Bringing up

    def _plan(self, view: KeptView) -> Plan:
        relations = self._followed.relations_of(view.name)
        anew = not view.life.is_as_before
        plan = plan_view(self.project, self._warehouse, view.name, relations, anew)
        return replace(plan, may_change=plan.may_change and not view.is_patient)

    def _bring_up(self, view: KeptView) -> Sequence[tuple[Maintainer, Workers]]:
        """What looks after it from now on and is to be started, unless it cannot be brought up."""
        try:
            plan = self._plan(view)
            plan, nodes = self._with_nodes(plan)
            if nodes is not None and (missing := self._missing(nodes)):
                if nodes.switchboard.is_expected(plan.view.sources):
                    view.life = replace(view.life, retry_at=time.monotonic() + _NODES_S)
                    return []
                raise missing
            for source in plan.view.sources:
                self._followed.read(source, plan.view)
        except (LostConnectionError, RefusedError) as error:
            if isinstance(error, RefusedError):
                self._followed.ask_again()  # it may have been given what it lacked meanwhile
            self._tell(view, Interrupted(error))
            return []
        except HeadwaterError as error:
            self._tell(view, Failed(error))
            return []
        view.plan = plan
        do = self._tell(view, beginning(view.life, self._warehouse.has_view(view.name)))
        loads = Do.LOAD in do
        # Those of now: a source that is closed meanwhile ends what reads it, in its own words.
        feeds = {source: self._followed.feeds[source] for source in plan.view.sources}
        view.tally = view.companion = None
        view.maintainer = Maintainer(
            plan,
            partial(self._load if loads else self._open, plan, view, feeds),
            feeds,
            self._engine,
            self._lease.runner,
            self._workers,
            self._clock,
            self.project.settings.run.backlog,
            nodes,
            lambda step, seconds: self._watch(view.name, step, seconds),
            self._followed.parts,
            self._late,
            self._burden(plan, view),
        )
        return [(view.maintainer, self._loads if loads else self._workers)]

    def _burden(self, plan: Plan, view: KeptView) -> Burden:
        """What tells when so much waits for a view that it is recomputed."""
        told = (plan.view, plan.algorithm, plan.parameters)

        def crossing() -> Crossover | None:
            if time.monotonic() < view.life.recompute_at:
                return None
            known = with_measured(self._statistics(), view.name, view.measured)
            return crossover(*told, known, view.name, plan.recompute, self._engine.spark_from)

        def expect(rows: Mapping[str, float]) -> float:
            return expected_s(*told, self._statistics(), rows, self._engine.spark_from)

        fewest = plan.recompute if isinstance(plan.recompute, int) else FEWEST_ROWS
        return Burden(crossing, expect, fewest, view.measured)

    def _with_nodes(self, plan: Plan) -> tuple[Plan, NodesAway | None]:
        """The plan of a new life, and the nodes that are processes of their own."""
        manager, switchboard = plan.manager, self._switchboard
        if switchboard is None or not isinstance(manager, Hosted):
            return plan, None
        away = switchboard.sources.intersection(plan.view.sources)
        if not away:
            return plan, None
        epoch = (self._lease.epoch, next(self._lives))
        plan = replace(plan, manager=replace(manager, away=away, epoch=epoch))
        return plan, NodesAway(plan, switchboard, self._followed.feeds)

    def _missing(self, nodes: NodesAway) -> HeadwaterError | None:
        return nodes.switchboard.missing(nodes.plan.view.sources)

    def _open(self, plan: Plan, view: KeptView, feeds: Feeds, wake: Wake) -> Obtained:
        """A view's table. In a worker."""
        table = self._warehouse.view(view.name)
        with suppress(HeadwaterError), named(f"{view.name}: open"):  # the next fold tells why not
            table.follow(self._engine.for_small)  # who was killed may have left it undone
        return Obtained(table)

    def _load(self, plan: Plan, view: KeptView, feeds: Feeds, wake: Wake) -> Obtained:
        """A view's table, made of its sources. In a worker."""

        def report(tally: Tally) -> None:
            view.tally = tally

        def loaded(seconds: float, rows: int) -> None:
            view.measured.loaded = LoadTook(seconds, rows)

        def by_parts() -> Companion | None:
            if len(plan.view.sources) < 2:
                return None  # what is read of a source goes with its snapshot
            members = Company((plan.view,))
            together = Together(members, feeds, self._warehouse, self._jobs, self._shared_loads)
            view.companion = member = Companion(together, plan.view)
            ends.callback(member.leave)
            member.begin()
            return member

        with ExitStack() as ends:
            if companion := view.companion:
                ends.callback(companion.leave)
                companion.begin()
            session = ends.enter_context(self._jobs.of_view(view.name))
            spark = replace(self._engine, start=session).for_small
            try:
                return load_view(
                    plan,
                    feeds,
                    self._warehouse,
                    spark,
                    self._lease,
                    wake,
                    report,
                    self._followed.parts,
                    self._late,
                    loaded,
                    companion,
                    by_parts,
                )
            except ConstantError as error:
                raise placed(self.project.files_of(view.name), error) from None


def _log(view: KeptView, before: Life) -> None:
    """A line for a step in a view's life."""
    loaded = view.measured.loaded if before.is_loading else None
    runs = view.life.state is LifeState.RUNNING
    maintainer = view.maintainer
    happened(
        "view",
        logging.ERROR if view.is_stopped else logging.WARNING if view.message else logging.INFO,
        view=view.name,
        state=view.life.state.value,
        was=before.state.value,
        algorithm=view.plan.algorithm if view.plan is not None and not view.message else None,
        consistency=view.plan.level if view.plan is not None and not view.message else None,
        version=maintainer.version if maintainer is not None and runs else None,
        rows=loaded.rows if loaded is not None and runs else None,
        seconds=round(loaded.seconds, 3) if loaded is not None and runs else None,
        because=view.message or view.note,
    )
