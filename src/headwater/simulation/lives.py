"""The views that a simulated runner keeps, and what drives their lives (see `pipeline.life`).

What happens to a view is told to its life, and what that says is done: as `pipeline.kept_views`
does it, with steps in the place of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from headwater.costs.recomputing import recomputes
from headwater.errors import BrokenLogError, FencedError, HeadwaterError, LostConnectionError
from headwater.pipeline.companions import companies
from headwater.pipeline.life import (
    Do,
    Failed,
    FileChanged,
    Halted,
    Life,
    LifeEvent,
    LifeState,
    Loaded,
    OutgrownError,
    ReloadAsked,
    beginning,
    ending,
)
from headwater.pipeline.requests import Request
from headwater.project.gaps import GapError
from headwater.simulation.judge import demand
from headwater.simulation.load import Load, Together, no_spark
from headwater.simulation.maintainer import Maintainer
from headwater.simulation.workload import ViewAtLevel

if TYPE_CHECKING:
    from headwater.simulation.process import Process, Step


@dataclass
class KeptView:
    """One view; it has a maintainer while it runs."""

    wanted: ViewAtLevel
    life: Life = field(default_factory=Life)
    maintainer: Maintainer | None = None
    together: Together | None = None
    """The loads with which its own goes together."""

    @property
    def name(self) -> str:
        return self.wanted.name

    def is_of(self, source: str) -> bool:
        return source in self.wanted.view.sources


class Lives:
    """All views of a runner."""

    def __init__(self, process: Process, wanted: Sequence[ViewAtLevel]) -> None:
        self.all = {view.name: KeptView(view) for view in wanted}
        self._process = process
        self._world = process.world
        self._requests = 0

    @property
    def running(self) -> Sequence[tuple[str, Maintainer]]:
        found = ((name, view.maintainer) for name, view in self.all.items())
        return [(name, maintainer) for name, maintainer in found if maintainer is not None]

    @property
    def are_settled(self) -> bool:
        """Whether all of them run and show everything that was read."""
        running = self.running
        return len(running) == len(self.all) and all(view.is_idle for _, view in running)

    def steps(self) -> Iterator[tuple[str, Step]]:
        self._put_together()
        for view in self.all.values():
            if view.life.is_due(self._world.disk.now):
                yield "start", partial(self._bring_up, view)
            if view.maintainer is not None:
                for name, step in view.maintainer.steps():
                    yield name, partial(self.work, view, step)

    def look_after(self) -> None:
        """Bring up what is due."""
        self._put_together()
        for view in self.all.values():
            if view.life.is_due(self._world.disk.now):
                self._bring_up(view)

    def _put_together(self) -> None:
        """Have views that are to be loaded now, in whatever order, read together."""
        if not self._world.settings.shares_loads:
            return
        due = [v for v in self.all.values() if v.life.is_due(self._world.disk.now)]
        loads = [v for v in due if v.together is None and self._is_to_be_loaded(v)]
        for company in companies(view.wanted.plan().view for view in loads):
            together = Together(self._process, company)
            for view in company.views:
                self.all[view.name].together = together

    def _is_to_be_loaded(self, view: KeptView) -> bool:
        has_table = self._process.warehouse.has_view(view.name)
        return Do.LOAD in view.life.after(beginning(view.life, has_table), 0.0)[1]

    def work(self, view: KeptView, step: Callable[[], object]) -> None:
        """Let a view's maintainer do something, and see whether that is its end."""
        try:
            step()
        except HeadwaterError as error:
            self.end(view, error)

    # What is asked for

    def requests(self) -> Iterator[tuple[str, Step]]:
        """A stopped view is loaded anew once that can succeed, and others now and then."""
        for view in self.all.values():
            can_be = view.life.state is LifeState.STOPPED and self._trouble(view) is None
            if can_be or (view.maintainer is not None and self._world.may(0.01)):
                yield "reload", partial(self.reload, [view])
            if self._may_be_recomputed(view) and self._world.may(0.1):
                yield "recompute", partial(self.end, view, OutgrownError("much waits."))

    def _may_be_recomputed(self, view: KeptView) -> bool:
        """Whether it may be found at any moment that loading it is quicker than going on."""
        now, wanted = self._world.disk.now, view.wanted
        may_be = self._world.settings.recomputes and recomputes(None, wanted.level) != "never"
        is_running = view.maintainer is not None and now >= view.life.recompute_at
        return may_be and is_running and self._trouble(view) is None

    def take_up(self, wanted: ViewAtLevel) -> None:
        """There is a file for a view that nobody wanted before."""
        view = self.all.setdefault(wanted.name, KeptView(wanted))
        self._tell(view, FileChanged())

    def reload(self, views: Collection[KeptView]) -> None:
        for view in views:
            self.halt(view)
        self._requests += 1
        request = Request(f"{self._requests}", "reload", "")
        for view in views:
            has_table = self._process.warehouse.has_view(view.name)
            self._tell(view, ReloadAsked(request, has_table))

    def halt(self, view: KeptView) -> None:
        """End what is under way for a view."""
        self._leave(view)
        if view.maintainer is not None:
            self._put_down(view)
            self._tell(view, Halted())

    def check_answered(self) -> None:
        """Nobody waits for a view that runs."""
        for view in self.all.values():
            waiting = view.maintainer is not None and view.life.requests
            demand(not waiting, f"{view.name} runs, and a request to load it has no answer")

    # Lives

    def _tell(self, view: KeptView, event: LifeEvent) -> frozenset[Do]:
        view.life, do = view.life.after(event, self._world.disk.now)
        return do

    def end(self, view: KeptView, failure: HeadwaterError) -> None:
        """A view's maintenance or load has ended; what must not end it is raised."""
        self._put_down(view)
        match failure:
            case FencedError():
                self._process.claim.check()  # raises if it is the runner that was replaced
            case BrokenLogError() if self._trouble(view) is not None:
                pass
            case GapError() | LostConnectionError():  # a load waits for parts of a transaction
                pass
            case OutgrownError():
                pass
            case _:
                raise failure
        has_table = self._process.warehouse.has_view(view.name)
        by_itself = not view.wanted.plan().shows_each_state
        event = ending(view.name, failure, has_table, by_itself, view.life.recomputes)
        self._tell(view, event)

    def _leave(self, view: KeptView) -> None:
        """Its load has ended, or is not made."""
        if view.together is not None:
            view.together.leave(view.name)
            view.together = None

    def _put_down(self, view: KeptView) -> None:
        if view.maintainer is not None:
            view.maintainer.close()
            view.maintainer = None

    def _trouble(self, view: KeptView) -> BrokenLogError | None:
        """Why a source of a view is not read any more."""
        readings = (self._process.readings[source] for source in view.wanted.view.sources)
        return next((r.trouble for r in readings if r.trouble is not None), None)

    def _bring_up(self, view: KeptView) -> None:
        if trouble := self._trouble(view):
            self._leave(view)
            self._tell(view, Failed(trouble))
            return
        plan, warehouse = view.wanted.plan(), self._process.warehouse
        has_table = warehouse.has_view(view.name)
        do = self._tell(view, beginning(view.life, has_table))
        try:
            if Do.LOAD in do:
                anew = "recompute" if view.life.recomputes else "reload"
                self._process.does(anew if has_table else "load")
                if not has_table:
                    self._world.judge.look_at_absence(view.name)
                Load(self._process, plan, view.together).run()
                self._tell(view, Loaded("now"))
            self._process.does("start")
            table = warehouse.view(view.name)
            if Do.LOAD not in do:
                with suppress(HeadwaterError):  # the next fold tells why it cannot be
                    table.follow(no_spark)
            view.maintainer = Maintainer(self._process, plan, table)
            self._leave(view)
        except HeadwaterError as error:
            self._leave(view)
            self.end(view, error)
