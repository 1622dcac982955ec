"""The running system: every source's feed, every view's maintainer, and the upkeep beside them.

The runner holds the warehouse's lease. It brings each view up as soon as the sources that it
needs can be reached, so a source that is down stops only the views over it, and a view that
cannot go on stops alone. It takes up new, changed and removed view files, and what commands ask
of it, and writes down how everything stands, for `headwater status`.

All of its state, with that of the views' lives (see `kept_views`), belongs to the thread that
calls `supervise`. Feeds and the upkeep have threads and state of their own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from headwater.errors import ExpressionError, FencedError, HeadwaterError, SourceError
from headwater.frames.engine import Engine
from headwater.frames.naming import named
from headwater.journal import happened
from headwater.nodes.settings import of_runner
from headwater.nodes.switchboard import Switchboard
from headwater.pipeline.describe import (
    describe_across,
    describe_feed,
    describe_view,
    note_progress,
    write_status,
)
from headwater.pipeline.followed import FollowedSources
from headwater.pipeline.gathering import Gatherer
from headwater.pipeline.kept_views import KeptView, KeptViews, Watch
from headwater.pipeline.life import with_way_out
from headwater.pipeline.project_files import ProjectFiles, with_sound
from headwater.pipeline.publisher import Publisher
from headwater.pipeline.refreshing import Refreshing
from headwater.pipeline.requests import Request, answer, forget_requests, waiting_requests
from headwater.pipeline.sessions import ClusterCheck
from headwater.pipeline.spark_jobs import SparkJobs
from headwater.pipeline.status import stopped_views
from headwater.pipeline.turns import Pace
from headwater.pipeline.upkeep import Upkeep
from headwater.project.project import Project
from headwater.version import VERSION
from headwater.warehouse.failing import failures
from headwater.warehouse.lease import Lease
from headwater.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STATUS_S = 0.5
_PAID_LOOK_S = 1.0
_PAID_STATUS_S = 2.0
"""The same, and how often it is looked what is asked, where each request is paid for."""
_NOTE_S = 5.0
"""How often it is noted how far views have come that do not change."""
_STOP_S = 5.0


class Runner:
    """Runs one project. `start`, then `supervise` from time to time, then `stop`.

    `only` restricts it to some views, of which `anew` are loaded anew. The source `repair` is set
    up again before anything else.
    """

    def __init__(
        self,
        project: Project,
        spark: Callable[[], SparkSession],
        watch: Watch = lambda view, step, seconds: None,
        only: Iterable[str] | None = None,
        anew: Collection[str] = (),
        repair: str | None = None,
    ) -> None:
        self.warehouse = Warehouse(project.warehouse)
        self.lease = Lease(self.warehouse.own)
        settings = project.settings.spark
        jobs = SparkJobs(spark)
        self.engine = Engine(jobs.session, settings.engine, settings.most_in_memory)
        self._cluster = ClusterCheck(project, self.engine.start)
        self._to_repair = repair
        self.has_repaired = False
        self.held_back: dict[str, str] = {}
        """Why readers of views keep an earlier state, as far as it was looked for."""
        self._all = only is None
        self._followed = FollowedSources(project, self.warehouse, self.lease, self.engine.lift)
        self.feeds = self._followed.feeds
        self._switchboard = _switchboard(project)
        self._views = KeptViews(
            project,
            list(project.units if only is None else only),
            anew,
            self.warehouse,
            self.lease,
            self._followed,
            self.engine,
            jobs,
            watch,
            self._switchboard,
            lambda: self._gatherer.statistics,
            lambda maintainer, seconds: self._gatherer.waited_in_vain(maintainer, seconds),
        )
        self._refreshing = Refreshing(self.warehouse.own, self.feeds)
        self._upkeep: Upkeep | None = None
        self.publisher: Publisher | None = None
        """Publishes what views do, if it is to."""
        self._gatherer = Gatherer(
            self.warehouse,
            lambda: [v.maintainer for v in list(self.views.values()) if v.maintainer is not None],
            lambda source: self.project.sources[source],
        )
        self._files = ProjectFiles(project)
        self._looking_at_files = Pace(self._look_at_files)
        self._noting = Pace(self._note, _NOTE_S)
        is_folder = self.warehouse.own.storage.moves_folders
        self._writing_status = Pace(self._write_status, _STATUS_S if is_folder else _PAID_STATUS_S)
        self._look_s = 0.0 if is_folder else _PAID_LOOK_S
        self._look_at = 0.0
        self._written: Sequence[tuple[str, str]] = ()
        self._left_alone = {} if self._all else stopped_views(self.warehouse)

    @property
    def project(self) -> Project:
        return self._views.project

    @property
    def views(self) -> Mapping[str, KeptView]:
        return self._views.all

    # From beginning to end

    def start(self) -> None:
        """Take the lease and bring up what can be; InputError if a view's file does not fit."""
        self._views.check_files(self.project.mistakes if self._all else ())
        self.lease.acquire()
        happened(
            "runner",
            state="started",
            version=VERSION,
            warehouse=self.lease.warehouse,
            epoch=self.lease.epoch,
            views=len(self.views),
            sources=len(self.project.settings.sources),
        )
        try:
            if self._switchboard is not None:
                self._switchboard.start(self.lease.warehouse)
            self.warehouse.let_read(self.project.settings.warehouse.readers)
            self.warehouse.remove_leftovers()
            forget_requests(self.warehouse.own)
            if self._to_repair is not None:
                self._followed.set_up_again(self._to_repair)
                self.has_repaired = True
            self._views.look_after()
        except BaseException:
            self.stop()
            raise
        if self.project.settings.share.publish:
            self.publisher = Publisher(
                lambda: self.project,
                lambda: list(self.views.values()),
                self.engine,
                lambda: self.lease.lost,
                lambda: dict(self.feeds),
            )
            self.publisher.start()
        self._upkeep = Upkeep(
            self.warehouse,
            lambda: list(self.views.values()),
            lambda: dict(self.feeds),
            self.engine,
            self.lease.runner,
            self.project.settings.warehouse.retention,
            self.project.settings.warehouse.changes_retention,
            lambda: self.lease.lost,
            self._gatherer.look,
            self.publisher,
        )
        self._upkeep.start()
        self._cluster.begin()

    def supervise(self) -> None:
        """Look after views and sources; raises what ends the whole runner."""
        is_due = time.monotonic() >= self._look_at
        if is_due:
            self.lease.check()
        if self._cluster.failure is not None:
            raise self._cluster.failure
        if self._all:
            self._looking_at_files.keep()
        if self._upkeep is not None:
            if self._upkeep.failure is not None:
                raise self._upkeep.failure
            while self._upkeep.unsound:
                self._views.look_at_unsound(self._upkeep.unsound.pop())
        self._views.look_after()
        for feed in self.feeds.values():
            if feed.failure is not None:
                raise feed.failure
        if is_due:
            for request in waiting_requests(self.warehouse.own):
                self._carry_out(request)
            self._look_at = time.monotonic() + self._look_s
        self._refreshing.look(self._reach)
        self._noting.keep()
        states = [(view.name, view.state) for view in self.views.values()]
        self._writing_status.keep(at_once=states != self._written)
        self._written = states

    def stop(self) -> None:
        """Commit what is ready, close everything, give the lease back; in a few seconds."""
        if self.lease.epoch:
            happened("runner", state="stopping")
        if self._upkeep is not None:
            self._upkeep.stop()
        counted = self._gatherer.running()
        self._views.begin_to_stop()
        for feed in self.feeds.values():
            feed.channel.stop()
        self._views.stop()
        if self._switchboard is not None:
            self._switchboard.close()
        for feed in self.feeds.values():
            feed.close()
        if self.publisher is not None:
            self.publisher.finish(_STOP_S)
        if self._upkeep is not None:
            self._upkeep.join(_STOP_S)
        if self.lease.epoch:
            if not self.lease.lost:
                self._gatherer.finish(counted)
                self._write_status()
                with suppress(HeadwaterError):  # it was replaced, or is told by what cannot do so
                    self._note()
            self.lease.release()
            happened("runner", state="stopped", epoch=self.lease.epoch)

    # How it stands

    def targets(self) -> dict[str, int]:
        """Where each source that can be reached stands now: the number of its last transaction."""
        found = {}
        for name, feed in self.feeds.items():
            with suppress(SourceError):
                feed.channel.catch_up()
                found[name] = feed.channel.end
        return found

    def reach(self, targets: Mapping[str, int]) -> bool:
        """Let every view show everything up to these numbers, as soon as it can, and be published.

        Returns whether all of them do, or cannot go on.
        """
        if not all(self._reach(view, targets) for view in self.views.values()):
            return False
        return self.publisher is None or self.publisher.catch_up()

    def _reach(self, view: KeptView, targets: Mapping[str, int]) -> bool:
        maintainer = view.maintainer
        if maintainer is None:
            return view.life.is_given_up
        sources = maintainer.plan.view.sources
        if any(s in self.feeds and self.feeds[s].channel.is_over for s in sources):
            return False  # it is about to be told why
        return maintainer.reach(targets)

    @property
    def loading(self) -> Sequence[str]:
        """The views that are being loaded, or are to be loaded anew."""
        return [view.name for view in self.views.values() if view.is_to_be_loaded]

    @property
    def failures(self) -> Sequence[HeadwaterError]:
        """Why views, or sources, do not go on."""
        failing = [view for view in self.views.values() if view.life.failure is not None]
        told = {view.life.failure.message for view in failing if view.life.failure is not None}
        troubles = [feed.channel.trouble for feed in self.feeds.values()]
        return [
            *(why for name, why in self._refused.items() if name not in self.views),
            *_by_reason(failing),
            *(trouble for trouble in troubles if trouble and trouble.message not in told),
        ]

    def look_for_held_back(self) -> None:
        """Find the views of which readers keep an earlier state than the newest."""
        for name, view in self.views.items():
            if view.failure is None and self.warehouse.has_view(name):
                with suppress(HeadwaterError), named(f"{name}: look for errors"):  # told by readers
                    if why := failures(self.warehouse.view(name), self.engine.start):
                        self.held_back[name] = why

    @property
    def _refused(self) -> Mapping[str, HeadwaterError]:
        """Why views are left out, or go on as their files were before."""
        return self.project.refused if self._all else {}

    def describe(self) -> dict[str, Any]:
        """How everything stands."""
        found = self._describe()
        for name, why in self._refused.items():
            view = found["views"].setdefault(name, {"state": "stopped", "message": "", "note": ""})
            view["message"] = view["message"] or str(why)
        return found

    def _describe(self) -> dict[str, Any]:
        """The same for those who read the files of views themselves."""
        troubles = {**(self._upkeep.troubles if self._upkeep else {}), **self.held_back}
        return {
            "runner": self.lease.runner,
            "written": time.time(),
            "engine": self.engine.mode,
            "trouble": self._files.trouble or None,
            "views": {
                name: describe_view(
                    view,
                    self.feeds,
                    troubles.get(name, ""),
                    self.publisher,
                    self._upkeep.unfolded_since(view) if self._upkeep is not None else None,
                )
                for name, view in self.views.items()
            },
            "sources": {name: describe_feed(feed) for name, feed in self.feeds.items()},
            "global": describe_across(self._followed.parts, self.views.values()),
            **({"nodes": self._switchboard.described} if self._switchboard is not None else {}),
            **({"share": self.publisher.describe()} if self.publisher is not None else {}),
        }

    def recent(self, name: str) -> list[dict[str, Any]]:
        """What has happened to a view lately, oldest first. In any thread."""
        view = self.views.get(name)
        maintainer = view.maintainer if view is not None else None
        return [asdict(step) for step in maintainer.recent.copy()] if maintainer else []

    def _note(self) -> None:
        note_progress(self.warehouse, self.lease, self.views.values())
        needed = {name: feed.channel.needed for name, feed in self.feeds.items()}
        self._followed.parts.forget(needed)

    def _write_status(self) -> None:
        described = self._describe()
        write_status(
            self.warehouse, {**described, "views": {**self._left_alone, **described["views"]}}
        )

    # What is asked of it

    def _look_at_files(self) -> None:
        trouble = self._files.trouble
        found = self._files.look(self.project)
        if found is not None:
            happened("files", state="taken up", views=len(found.units))
            self._views.take_up(found)
        if self._files.trouble and self._files.trouble != trouble:
            happened("files", logging.ERROR, because=self._files.trouble)

    def _carry_out(self, request: Request) -> None:
        happened("request", asked=request.kind, of=[request.name, *request.others])
        try:
            match request.kind:
                case "drop":
                    self._views.drop(request.name)
                    answer(self.warehouse.own, request)
                case "reload":
                    names = [request.name, *request.others]
                    self._reload(names, request, names)
                case "repair":
                    self._repair(request)
                case "refresh":
                    view = self._views.existing(request.name)
                    self._refreshing.begin(request, view, self.project.sources_of(view.name))
        except FencedError:
            raise
        except HeadwaterError as error:
            happened("request", logging.ERROR, asked=request.kind, because=error)
            answer(self.warehouse.own, request, error)

    def _reload(self, names: Collection[str], request: Request, sound: Collection[str]) -> None:
        self._views.take_up(with_sound(self.project, sound))
        self._views.reload(names, request)

    def _repair(self, request: Request) -> None:
        source = request.name
        views = [name for name in self.views if source in self.project.sources_of(name)]
        for name in views:
            self._views.halt(self.views[name])
        self._followed.close(source)
        self._followed.ask_again()
        self._followed.set_up_again(source)
        self._reload(views, request, ())
        if not views:
            answer(self.warehouse.own, request)


def _switchboard(project: Project) -> Switchboard | None:
    """Where the runner listens for nodes; None if no source has one of its own."""
    apart = [name for name, each in project.settings.sources.items() if each.node == "by itself"]
    if not apart:
        return None
    settings = project.settings.nodes
    return Switchboard(of_runner(settings, project.folder, project.warehouse, VERSION), apart)


def _by_reason(views: Iterable[KeptView]) -> Iterator[HeadwaterError]:
    """Why views stand still, each reason once, with the way out for all that it has stopped."""
    reasons: dict[str, tuple[HeadwaterError, list[str]]] = {}
    for view in views:
        if view.life.failure is not None:
            failure = _of(view.name, view.life.failure)
            stopped = reasons.setdefault(str(failure), (failure, []))[1]
            stopped += [view.name] * view.is_stopped
    for failure, stopped in reasons.values():
        yield with_way_out(stopped, failure) if stopped else failure


def _of(view: str, failure: HeadwaterError) -> HeadwaterError:
    """What fails on a row does not say by itself of which view it is."""
    if isinstance(failure, ExpressionError):
        return ExpressionError(f"{view}: {failure.message}", failure.hint)
    return failure
