"""Proves a view equal to its recomputation at its own version vector, while sources go on.

The relations are read from a snapshot of each source, taken now. The change log knows every
transaction by what snapshots know it by, so it tells exactly which transactions are in the
snapshot and not in the view, and which are in the view and not in the snapshot: these are
subtracted and added. What results are the relations as they were at the view's version vector;
the view is computed from them and compared with what a reader sees, row by row: on Spark, or in
memory where all is small and a session need not be at hand.

Beside a runner, its change log is followed; without one, verification reads the sources' logs
itself, under the lease, so that nobody else does meanwhile.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.views import View
from headwater.errors import HeadwaterError, InputError, LostConnectionError, StateLostError
from headwater.frames import small
from headwater.frames.failures import SPARK_ERRORS, state_lost
from headwater.frames.naming import named
from headwater.frames.session import Spark
from headwater.pipeline.bulk_read import Tally
from headwater.pipeline.comparing import compare, compare_group
from headwater.pipeline.cutting import changes_of
from headwater.pipeline.feed import Feed
from headwater.pipeline.load import in_memory_first, of_view, reader
from headwater.pipeline.loading import held_back
from headwater.project.differences import describe_difference
from headwater.project.gaps import concerns
from headwater.project.needs import narrowed_sources
from headwater.project.project import Project
from headwater.protocol.transactions import net_change
from headwater.sources.contract import Load, Reply, Source
from headwater.warehouse.change_records import Break, Change
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.definition import StoredDefinition
from headwater.warehouse.lease import Lease, current_runner
from headwater.warehouse.vectors import Reached, VersionVector
from headwater.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG_WAIT_S = 60.0
_POLL_S = 0.1
_TRIES = 3

OpenedLoad: TypeAlias = tuple[Load, ChangeLog]
Open: TypeAlias = Callable[[str, list[str]], OpenedLoad]
"""Opens a load of some relations, and a log that holds everything that is in it."""


@dataclass(frozen=True)
class Verification:
    """What was found: rows that the view lacks, and rows that it has too many, with counts."""

    view: str
    number: int
    """The view's version that was looked at."""
    vector: VersionVector
    rows: int
    missing: Rows
    extra: Rows
    seconds: float
    taken_back: int
    """How many transactions were in the sources already and not in the view."""
    place: str = ""
    """Where rows are missing or extra, if not in what a reader sees."""
    promises_nothing: bool = False
    """Whether it was loaded WITH NO CONSISTENCY, and need not be right."""

    @property
    def holds(self) -> bool:
        return not self.missing and not self.extra


def verify_view(
    project: Project,
    name: str,
    spark: Spark,
    report: Callable[[Tally], None] = lambda tally: None,
) -> Verification:
    """Recompute one view at its own version vector, and compare; of a member the whole group."""
    if group := Warehouse(project.warehouse).group_of(name):
        name = group.name
    with named(f"{name}: verify"):
        if callable(spark) and not Warehouse(project.warehouse).view(name).at().is_small:
            spark = spark()
        return _again_when_lost(
            lambda: in_memory_first(spark, lambda s: _verify(project, name, s, report))
        )


def _again_when_lost(verify: Callable[[], Verification]) -> Verification:
    """Verify, from the beginning when what Spark had computed is gone with executors."""
    for tries in range(1, _TRIES + 1):
        try:
            return verify()
        except (StateLostError, *SPARK_ERRORS) as error:
            lost = state_lost(error)
            if tries == _TRIES or lost is None:
                raise (lost or error) from None
    raise AssertionError("the last try has returned or raised")


def _verify(
    project: Project, name: str, spark: SparkSession | None, report: Callable[[Tally], None]
) -> Verification:
    began = time.monotonic()
    warehouse = Warehouse(project.warehouse)
    table = warehouse.view(name)
    if name not in project.units:
        raise InputError(
            f"The project has no view {name}.",
            project.told_of(name) or "Only views whose file is there can be verified.",
        )
    described = {relation.name: relation for relation in project.relations([name])}
    view = _view(project, name, table.definition, described)
    readers = spark.sparkContext.defaultParallelism if spark else 1
    scratch = warehouse.scratch(f"verify-{name}")
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        state = table.at()
        vector = state.commit.vector
        if state.commit.is_early:
            raise HeadwaterError(
                f"View {name} shows transactions before earlier ones at the moment, as its "
                "algorithm may: there is nothing to compare it with.",
                "Try again when less happens at its source.",
            )
        for source, reached in vector.items():
            log = ChangeLog(warehouse.changes, source)
            stack.enter_context(log.pinned(held_back(reached.number)))
        sources = narrowed_sources(project, warehouse)
        loaded = {source: of_view(sources[source], view) for source in view.sources}
        opened = stack.enter_context(open_logs(project, warehouse, readers, sources, loaded))
        tally = Tally(scratch / "tally")
        report(tally)
        logged = [r for source in loaded.values() for r in source.relations().values()]
        read = reader(spark, {relation.name: relation for relation in logged}, scratch, tally)
        base: dict[str, Rows] = {}
        taken_back = 0
        for source in view.sources:
            relations = [r for r in view.relations if r.source == source]
            load, log = opened(source, [r.short_name for r in relations])
            stack.callback(load.close)
            schemas = {relation.name: relation.schema for relation in relations}
            difference, count = corrections(load, log, vector[source], name, schemas, view)
            taken_back += count
            for relation in relations:
                rows = read(load, relation)
                found = difference.get(relation.name)
                base[relation.name] = rows + found if found else rows
        expected = evaluate_view(view, base, None if spark else small.ROWS)
        if view.members:
            wrong, number_of_rows = compare_group(view, table, state, expected, base, spark)
        else:
            wrong, number_of_rows = compare(view, state, expected, base, spark)
    seconds = time.monotonic() - began
    return Verification(
        wrong.member if wrong and wrong.member else name,
        state.commit.number,
        vector,
        number_of_rows,
        wrong.missing,
        wrong.extra,
        seconds,
        taken_back,
        wrong.place,
        state.commit.promises_nothing,
    )


def corrections(
    load: Load | Reply,
    log: ChangeLog,
    reached: Reached,
    name: str,
    schemas: Mapping[str, Schema],
    view: View | None = None,
) -> tuple[dict[str, Rows], int]:
    """What to add to relations as they were read, to have them at a place in the log.

    `schemas` has the columns of each that the view of that name uses: the log has had others, and
    more or fewer from time to time. Also how many transactions were taken back. With a gap in the
    log that concerns the view there is nothing to be known.
    """

    def used(change: Change) -> Iterator[tuple[str, Rows]]:
        return changes_of(change, name, log.source, schemas)

    back: list[Change] = []
    forth: list[Change] = []
    above = frozenset(reached.also)
    for change in log.read(held_back(reached.number, log.first)):
        in_view = change.number <= reached.number or change.number in above
        if isinstance(change, Break):
            if not in_view and (view is None or concerns(change, view)):
                raise HeadwaterError(
                    f"The change log of {log.source} has a gap behind the view: "
                    f"{change.reason.rstrip('.;')}.",
                    f"Load the view anew first{f': headwater reload {view.name}' if view else ''}.",
                )
            if in_view and change.columns is None:
                back, forth = [], []  # what came before has no connection with what is read now
            continue
        held = {load.snapshot.includes(stamp) for stamp in (change.stamp, *change.others)}
        if len(held) == 2:
            raise LostConnectionError(
                f"Source {log.source}: what was read lies between transactions that its log has "
                "as one.",
                "Try again.",
            )
        in_load = held == {True}
        if in_load and not in_view:
            back.append(change)
        elif in_view and not in_load:
            forth.append(change)
    added = [(relation, delta) for change in forth for relation, delta in used(change)]
    taken = [(relation, -delta) for change in back for relation, delta in used(change)]
    return net_change([*added, *taken]), len(back)


def _view(
    project: Project, name: str, stored: StoredDefinition, described: Mapping[str, Relation]
) -> View:
    definition = project.definition(name, described.values()).as_loaded(stored.kept)
    difference = describe_difference(stored, definition.stored)
    if difference is not None:
        raise InputError(difference)
    return definition.view.narrowed()


# Where the log comes from


@contextmanager
def open_logs(
    project: Project,
    warehouse: Warehouse,
    readers: int,
    sources: Mapping[str, Source] | None = None,
    loaded: Mapping[str, Source] | None = None,
) -> Iterator[Open]:
    """Change logs that hold all that a load, opened through this, reads.

    Logs are read with the columns of `sources`, loads with those of `loaded`, if it is given.
    """
    sources = sources or narrowed_sources(project, warehouse)
    loaded = loaded or sources
    if current_runner(warehouse.own) is not None:
        yield lambda source, names: _beside_runner(loaded[source], warehouse, names, readers)
        return
    lease = Lease(warehouse.own)
    lease.acquire()
    with ExitStack() as stack:
        stack.callback(lease.release)
        feeds: dict[str, Feed] = {}

        def opened(source: str, names: list[str]) -> OpenedLoad:
            log = ChangeLog(warehouse.changes, source)
            feed = feeds[source] = Feed(sources[source], log, lease)
            feed.start()
            stack.callback(feed.close)
            load = loaded[source].open_load(names, readers)
            try:
                feed.channel.catch_up()
                feed.wait_durable(feed.channel.end)
            except BaseException:
                load.close()
                raise
            return load, log

        yield opened


def _beside_runner(
    source: Source, warehouse: Warehouse, names: list[str], readers: int
) -> OpenedLoad:
    """Wait until the running process has logged everything that the snapshot holds."""
    load = source.open_load(names, readers)
    try:
        wrapper = source.open_wrapper()
        try:
            wrapper.ask(())  # leaves a mark in the log, so that a quiet one moves on
        finally:
            wrapper.close()
        log = ChangeLog(warehouse.changes, source.name)
        deadline = time.monotonic() + _LOG_WAIT_S
        while True:
            log.scan()
            if load.within(log.position):
                return load, log
            if time.monotonic() > deadline:
                raise HeadwaterError(
                    f"The change log of {source.name} did not catch up in time.",
                    "See 'headwater status': the runner may have trouble with this source.",
                )
            time.sleep(_POLL_S)
    except BaseException:
        load.close()
        raise
