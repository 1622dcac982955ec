"""The running system: every source's feed, every view's maintainer, and the work beside them.

The runner holds the warehouse's lease. It brings each view up as soon as the sources that it
needs can be reached, so a source that is down stops only the views over it. Beside maintenance
it folds the views' logs into their plain tables, releases what the change log no longer needs,
and writes down how everything stands, for `headwater status`.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from headwater.algebra.schema import Relation
from headwater.algebra.views import View
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
from headwater.pipeline.feed import Feed
from headwater.pipeline.load import load_view
from headwater.pipeline.maintain import Maintainer, Obtained, Plan
from headwater.pipeline.project import Project, definition_json, describe_difference
from headwater.pipeline.requests import done, taken_requests
from headwater.sources.channel import Deliver
from headwater.sources.contract import Reader
from headwater.warehouse.changes import ChangeLog, drop_changes
from headwater.warehouse.lease import Lease
from headwater.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SUPERVISE_S = 0.5
_RETRY_S = 5.0
_RELEASE_S = 60.0
_CLEAN_UP_S = 3600.0
_FOLD_RETRY_S = 30.0
_FOLDING_SHARE = 4
"""Folding waits at least so many times as long as the last fold took."""
_MANY_FILES = 64


@dataclass
class ViewStatus:
    """How one view stands, for people and machines."""

    name: str
    state: str
    """waiting, loading, running, or stopped."""
    message: str = ""
    maintainer: Maintainer | None = None
    tally: Tally | None = None
    retry_at: float = 0.0
    fold_at: float = 0.0
    folded_s: float = 0.0
    compact_at: int = _MANY_FILES
    trouble: str = ""
    """What keeps its plain table from being renewed."""
    tending: threading.Lock = field(default_factory=threading.Lock)
    """Held while something beside maintenance works on its tables."""


class Runner:
    """Runs one project. `start`, then `supervise` from time to time, then `stop`."""

    def __init__(
        self,
        project: Project,
        spark: Callable[[], SparkSession],
        watch: Callable[[str, str, float], None] | None = None,
        only: Iterable[str] | None = None,
    ) -> None:
        self.project = project
        self.warehouse = Warehouse(project.warehouse)
        wanted = project.view_files if only is None else only
        self.views = {name: ViewStatus(name, "waiting") for name in wanted}
        self.feeds: dict[str, Feed] = {}
        self.lease = Lease(self.warehouse.internal)
        settings = project.settings.spark
        self.engine = Engine(spark, settings.engine, settings.threshold or THRESHOLD)
        self._spark = spark
        self._watch = watch or (lambda view, step, seconds: None)
        self._relations: dict[str, dict[str, Relation]] = {}
        self._narrow: dict[str, dict[str, Relation]] = {}
        self._beside = threading.Thread(target=self._work_beside, name="folding", daemon=True)
        self._stopping = threading.Event()
        self._release_at = time.monotonic() + _RELEASE_S
        self._clean_up_at = time.monotonic() + _CLEAN_UP_S
        self._status_at = 0.0
        self._failure: HeadwaterError | None = None

    def start(self) -> None:
        """Take the lease and bring up what can be; InputError if a view cannot be right."""
        self._check_definitions()
        self.lease.acquire()
        try:
            self.warehouse.remove_leftovers()
            for status in self.views.values():
                self._bring_up(status)
        except BaseException:
            self.stop()
            raise
        self._beside.start()

    def supervise(self) -> None:
        """Look after views and sources; raises what ends the whole runner."""
        if self._failure is not None:
            raise self._failure
        self.lease.check()
        now = time.monotonic()
        for status in self.views.values():
            self._look_after(status)
            if status.state == "waiting" and now >= status.retry_at:
                self._bring_up(status)
        for feed in self.feeds.values():
            if feed.failure is not None:
                raise feed.failure
        for name, action in taken_requests(self.warehouse.internal).items():
            self._carry_out(name, action)
        if now >= self._status_at:
            self._write_status()
            self._status_at = now + _SUPERVISE_S

    def stop(self) -> None:
        """Commit what is ready, close everything, give the lease back."""
        self._stopping.set()
        maintainers = [s.maintainer for s in self.views.values() if s.maintainer is not None]
        for maintainer in maintainers:
            maintainer.stop()
        for maintainer in maintainers:
            maintainer.join()
        for feed in self.feeds.values():
            feed.close()
        if self._beside.is_alive():
            self._beside.join()
        if self.lease.epoch:
            if not self.lease.lost:
                self._write_status()
            self.lease.release()

    def targets(self) -> dict[str, int]:
        """Where each source stands now: the number of its last transaction."""
        for feed in self.feeds.values():
            feed.channel.catch_up()
        return {name: feed.channel.end for name, feed in self.feeds.items()}

    def has_reached(self, targets: Mapping[str, int]) -> bool:
        """Whether every view reflects everything up to these numbers; raises if one cannot."""
        for status in self.views.values():
            if status.state == "stopped":
                raise HeadwaterError(status.message)
            maintainer = status.maintainer
            if maintainer is None or maintainer.progress is None:
                return False
            if not maintainer.progress.has_reached(targets):
                return False
        return True

    # Views

    def _check_definitions(self) -> None:
        """Refuse views that no longer fit their tables, before anything is done."""
        for status in self.views.values():
            try:
                self._plan(status.name)
            except LostConnectionError as error:
                status.message = str(error)

    def _plan(self, name: str) -> Plan:
        definition = self.project.definition(name, self._relations_of(name))
        stored = definition_json(definition)
        narrow = definition.view.narrowed()
        choice = self.project.choose(replace(definition, view=narrow))
        if name in self.warehouse.view_names():
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
        for source in self.project.needs[view]:
            if source not in self._relations:
                self._relations[source] = dict(self.project.sources[source].relations())
        return [
            relation
            for source in self.project.needs[view]
            for relation in self._relations[source].values()
        ]

    def _bring_up(self, status: ViewStatus) -> None:
        try:
            plan = self._plan(status.name)
            for source in plan.view.sources:
                self._feed(source)
            self._check_columns(plan.view)
        except LostConnectionError as error:
            status.state, status.message = "waiting", str(error)
            status.retry_at = time.monotonic() + _RETRY_S
            return
        except HeadwaterError as error:
            status.state, status.message = "stopped", str(error)
            return
        exists = status.name in self.warehouse.view_names()
        status.state, status.message = "running" if exists else "loading", ""
        status.fold_at = time.monotonic() + plan.publish_s
        status.compact_at = _MANY_FILES
        status.maintainer = Maintainer(
            plan,
            partial(self._obtain, plan, status),
            self.feeds,
            self.engine,
            self.lease.runner,
            self.project.settings.run.backlog,
            lambda step, seconds: self._watch(plan.view.name, step, seconds),
        )
        status.maintainer.start()

    def _feed(self, source: str) -> None:
        feed = self.feeds.get(source)
        if feed is not None and not feed.channel.is_over:
            return
        if feed is not None:
            feed.close()
        log = ChangeLog(self.warehouse.changes, source)
        self._forget_useless(log)
        narrow = self.project.sources[source].narrowed(self._used_columns(source))
        self._narrow[source] = {r.name: r for r in narrow.relations().values()}
        feed = Feed(narrow, log, self.lease, self.engine.lift)
        feed.start()
        self.feeds[source] = feed

    def _forget_useless(self, log: ChangeLog) -> None:
        """Begin a log anew if its source cannot go on from it and no view needs it."""
        log.scan()
        if log.position is None or self._reached(log.source):
            return
        try:
            reader = Reader(self.lease.warehouse, self.lease.epoch)
            self.project.sources[log.source].open_monitor(log.position, reader).close()
        except LostConnectionError:
            raise
        except SourceError:
            drop_changes(self.warehouse.changes, log.source)

    def _reached(self, source: str) -> list[int]:
        """How far each view has come with a source."""
        vectors = [self.warehouse.view(n).latest().vector for n in self.warehouse.view_names()]
        return [vector[source].number for vector in vectors if source in vector]

    def _used_columns(self, source: str) -> dict[str, set[str]]:
        """The columns of a source that any view looks at, by relation.

        Nothing is left out while some view over the source cannot be read yet.
        """
        used: dict[str, set[str]] = {}
        for name in self.views:
            if source not in self.project.needs[name]:
                continue
            try:
                view = self.project.definition(name, self._relations_of(name)).view
            except LostConnectionError:
                return {}
            for relation in view.relations:
                if relation.source == source:
                    columns = view.used_columns[relation.name]
                    used.setdefault(relation.short_name, set()).update(columns)
        return used

    def _check_columns(self, view: View) -> None:
        """A view that came to use more columns finds out that they are not read."""
        for relation in view.relations:
            read = self._narrow[relation.source][relation.name].schema.names
            if missing := [c for c in relation.schema.names if c not in read]:
                raise HeadwaterError(
                    f"View {view.name} uses {', '.join(missing)} of {relation.name} now, which "
                    "this runner does not read.",
                    "Restart it: stop 'headwater run' and start it again.",
                )

    def _obtain(self, plan: Plan, status: ViewStatus, deliver: Deliver) -> Obtained:
        """A view's table; loaded first where there is none."""
        name = plan.view.name
        if name in self.warehouse.view_names():
            return Obtained(self.warehouse.view(name))

        def report(tally: Tally) -> None:
            status.tally = tally

        obtained = load_view(
            plan,
            self.feeds,
            self.warehouse,
            self.engine.for_small,
            self.lease.runner,
            deliver,
            {name: r for source in plan.view.sources for name, r in self._narrow[source].items()},
            report,
        )
        status.state, status.tally = "running", None
        return obtained

    def _look_after(self, status: ViewStatus) -> None:
        maintainer = status.maintainer
        if maintainer is None or maintainer.is_running or self._stopping.is_set():
            return
        failure = maintainer.failure
        if isinstance(failure, FencedError):
            raise failure
        status.maintainer = None
        status.state, status.message = "stopped", str(failure)
        if isinstance(failure, LostConnectionError):
            status.state = "waiting"
            status.retry_at = time.monotonic() + _RETRY_S

    def _carry_out(self, name: str, action: str) -> None:
        """Drop a view's tables, and bring it up anew if it is to be loaded again."""
        status = self.views.get(name)
        if status is not None and status.maintainer is not None:
            status.maintainer.stop()
            status.maintainer.join()
            status.maintainer = None
        with status.tending if status is not None else nullcontext():
            if name in self.warehouse.view_names():
                self.warehouse.drop(name)
        done(self.warehouse.internal, name)
        if status is not None:
            status.state, status.message = "stopped", "It was dropped; the next run loads it."
            if action == "reload":
                self.project = Project.open(self.project.folder)
                self._relations.clear()
                self._bring_up(status)

    # Beside maintenance

    def _work_beside(self) -> None:
        while not self._stopping.wait(_SUPERVISE_S):
            try:
                for status in self.views.values():
                    self._tend(status)
                if time.monotonic() >= self._release_at:
                    with suppress(InputError, FileNotFoundError):  # a view is dropped just now
                        self._release()
                    self._release_at = time.monotonic() + _RELEASE_S
                if time.monotonic() >= self._clean_up_at:
                    self._clean_up()
                    self._clean_up_at = time.monotonic() + _CLEAN_UP_S
            except HeadwaterError as error:
                self._failure = error
                return
            except Exception as error:
                self._failure = EngineError(
                    f"The warehouse could not be tended: {type(error).__name__}: {error}.",
                    "Look at its folder and disk; every version that was committed is there.",
                )
                return

    def _tend(self, status: ViewStatus) -> None:
        """Fold or compact if it is time; a failure is told, and tried again later."""
        try:
            with status.tending:
                self._fold_or_compact(status)
        except FencedError:
            raise
        except Exception as error:
            text = next(iter(str(error).splitlines()), type(error).__name__)
            status.trouble = f"The plain table could not be renewed: {text}"
            status.fold_at = time.monotonic() + _FOLD_RETRY_S

    def _fold_or_compact(self, status: ViewStatus) -> None:
        """Keep a view's log short, and its plain table young."""
        maintainer = status.maintainer
        if maintainer is None or maintainer.table is None or not maintainer.is_running:
            return
        if time.monotonic() >= status.fold_at:
            table = self.warehouse.view(status.name)
            tail = table.tail()
            began = time.monotonic()
            if tail.rows:
                table.fold(self.engine.for_small, self.lease.runner)
                status.folded_s = time.monotonic() - began
            wait = max(maintainer.plan.publish_s, _FOLDING_SHARE * status.folded_s)
            status.fold_at = time.monotonic() + wait
            status.trouble = ""
        elif maintainer.counters.commits >= status.compact_at:
            status.compact_at = maintainer.counters.commits + _MANY_FILES
            self.warehouse.view(status.name).compact()

    def _release(self) -> None:
        """Let the change log go as far as every view has come."""
        retention = self.project.settings.warehouse.retention
        for source, feed in self.feeds.items():
            feed.log.release(min(self._reached(source), default=0), retention)

    def _clean_up(self) -> None:
        """Delete versions of views that are older than they are to be kept."""
        keep = timedelta(seconds=self.project.settings.warehouse.retention)
        for status in self.views.values():
            with status.tending:
                if status.name in self.warehouse.view_names():
                    self.warehouse.view(status.name).clean_up(keep)

    # Status

    def describe(self) -> dict[str, Any]:
        """How everything stands."""
        return {
            "runner": self.lease.runner,
            "written": time.time(),
            "engine": self.engine.mode,
            "views": {status.name: self._describe_view(status) for status in self.views.values()},
            "sources": {
                name: {
                    "read": feed.channel.end,
                    "logged": feed.log.end,
                    "position": feed.log.position,
                    "trouble": str(feed.channel.trouble) if feed.channel.trouble else None,
                }
                for name, feed in self.feeds.items()
            },
        }

    def _describe_view(self, status: ViewStatus) -> dict[str, Any]:
        found: dict[str, Any] = {
            "state": status.state,
            "message": status.message or status.trouble,
        }
        if status.tally is not None:
            found["rows_read"] = status.tally.counted()
        maintainer = status.maintainer
        if maintainer is None:
            return found
        counters = maintainer.counters
        found |= {
            "algorithm": maintainer.plan.algorithm,
            "level": maintainer.plan.level,
            "transactions": counters.transactions,
            "commits": counters.commits,
            "rows": counters.rows,
            "questions": counters.questions,
            "committed_at": counters.committed_at or None,
        }
        fresh = sorted(counters.freshness_s)
        if fresh:
            found["freshness_ms"] = {
                "median": round(1000 * median(fresh), 2),
                "p99": round(1000 * fresh[int(0.99 * (len(fresh) - 1))], 2),
            }
        if maintainer.progress is not None:
            vector = maintainer.progress.vector
            found["lag"] = {
                source: self.feeds[source].channel.end - reached.number
                for source, reached in vector.items()
            }
        return found

    def _write_status(self) -> None:
        path = self.warehouse.internal / "status.json"
        temporary = path.with_suffix(".tmp")
        with suppress(OSError):  # a full disk is told by what cannot do without it
            temporary.write_text(json.dumps(self.describe()))
            temporary.replace(path)
