"""The load of a view, beside everything else that goes on: what drives it (see `loading`).

Spark reads the relations from snapshots of the sources, computes the view and writes it, with the
numbers of the last transactions in the snapshots as its version vector. The transactions behind
them are then delivered as always: the view manager compensates for what happened meanwhile. No
source is locked.

Where a session need not be at hand, the same is tried in memory first, and begun again on Spark
if there is too much. Loads that begin at the same time and read a relation in common read it
together (see `reading_together`).

A view that has a table already is loaded anew: readers keep the old contents until the new ones
replace them in one step.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation
from headwater.algebra.views import View
from headwater.errors import HeadwaterError, LostConnectionError, TooManyRowsError
from headwater.frames import small
from headwater.frames.frame import Frame
from headwater.frames.naming import named, tell
from headwater.frames.session import Spark
from headwater.frames.trial import check_constants
from headwater.pipeline.bulk_read import Files, Readable, Small, Tally, read_relation
from headwater.pipeline.cutting import Cutting, has_gap, taken_back
from headwater.pipeline.feed import Feed
from headwater.pipeline.joining import LateParts
from headwater.pipeline.known_parts import KnownParts
from headwater.pipeline.load_failures import failure_of
from headwater.pipeline.loading import (
    Cut,
    Hold,
    Loading,
    MakeDurable,
    OpenSnapshot,
    Put,
    held_back,
)
from headwater.pipeline.maintain import Obtained
from headwater.pipeline.plan import Plan
from headwater.pipeline.reading_together import FITTING_PAUSE_S, Companion, SharedReading
from headwater.sources.contract import Position, Source
from headwater.sources.subscription import Subscription, Wake
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.lease import LeaseClaim
from headwater.warehouse.loads import Shown, ViewLoad
from headwater.warehouse.vectors import Reached, VersionVector
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PAUSE_S = 1.0
_CUTTING_PAUSE_S = 0.2
_LATE = LateParts()

_T = TypeVar("_T")

Report = Callable[[Tally], None]
"""Called when reading begins, with what counts the rows."""
Took = Callable[[float, int], None]
"""Called at the end, with the seconds that it took, and how many rows were read; not if some of
these were read for several loads."""


def load_view(
    plan: Plan,
    feeds: Mapping[str, Feed],
    warehouse: Warehouse,
    spark: Spark,
    claim: LeaseClaim,
    wake: Wake,
    report: Report = lambda tally: None,
    parts: KnownParts | None = None,
    late: LateParts = _LATE,
    took: Took = lambda seconds, rows: None,
    companion: Companion | None = None,
    by_parts: Callable[[], Companion | None] = lambda: None,
) -> Obtained:
    """Load a view, whether it has a table already or not; `parts` are of global transactions.

    With a `companion` it reads together with others. After a try that was cut off `by_parts` gives
    one to a view that has none: then what is read of a source outlives the next such try.
    """
    known, floor = parts or KnownParts(), _floor(plan.view.name, warehouse)

    def load(session: SparkSession | None) -> Obtained:
        member = companion
        shown = {s: n for s, n in floor.items() if s in feeds and n <= feeds[s].channel.end}
        loading = Loading(plan.view.sources, plan.shows_global_whole, shown)
        cutting = Cutting(plan.view, floor, late)
        while True:
            attempt = _Attempt(
                plan, feeds, warehouse, claim, wake, report, session, known, cutting, member
            )
            began = time.monotonic()
            try:
                obtained = attempt.run(loading)
                if not attempt.shared:  # else it tells little of what it would take by itself
                    took(time.monotonic() - began, attempt.rows)
                return obtained
            except BaseException as error:
                attempt.give_up()
                stopped = any(feed.channel.is_stopping for feed in feeds.values())
                if stopped or not loading.starts_over(error):
                    raise
                member = member or by_parts()
                time.sleep(_PAUSE_S)

    with named(f"{plan.view.name}: load"):
        if plan.view.left_to_spark:
            spark = spark() if callable(spark) else spark
            check_constants(spark, plan.view)
        return in_memory_first(spark, load)


def _floor(name: str, warehouse: Warehouse) -> dict[str, int]:
    """How far the view has come, if it has a table that tells."""
    if not warehouse.has_view(name):
        return {}
    with suppress(HeadwaterError):
        return {s: at.number for s, at in warehouse.view(name).latest().vector.items()}
    return {}


def in_memory_first(spark: Spark, do: Callable[[SparkSession | None], _T]) -> _T:
    """Do something in memory where a session need not be at hand, and on Spark if that is too
    much."""
    if callable(spark):
        with suppress(TooManyRowsError):
            return do(None)
        spark = spark()
    return do(tell(spark))


@dataclass
class _Attempt:
    """One attempt at a load, on Spark, or in memory without it: does what `loading` says."""

    plan: Plan
    feeds: Mapping[str, Feed]
    warehouse: Warehouse
    claim: LeaseClaim
    wake: Wake
    report: Report
    spark: SparkSession | None
    known: KnownParts
    cutting: Cutting
    companion: Companion | None = None
    rows: int = 0
    """How many were read."""
    split: tuple[str, ...] = ()
    """The global transactions of which the view is put with a part and without the others."""
    lowest: dict[str, int] = field(default_factory=dict)
    """Behind which numbers the places are."""
    places: dict[str, Subscription] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)
    described: dict[str, Relation] = field(default_factory=dict)
    loads: dict[str, Readable] = field(default_factory=dict)
    shared: dict[str, SharedReading] = field(default_factory=dict)
    """The sources that are read together with other loads."""

    def run(self, loading: Loading) -> Obtained:
        try:
            while True:
                match loading.next():
                    case Hold(source):
                        self._hold(source)
                        loading.held(source)
                    case OpenSnapshot(source, again=False) if source in self.shared:
                        self._share(source, loading)
                    case OpenSnapshot(source, again):
                        time.sleep(FITTING_PAUSE_S if again else 0.0)
                        self._open(source, loading)
                    case MakeDurable(source, number):
                        self.feeds[source].wait_durable(number)
                        loading.durable(source, self._position(source, number))
                    case Cut(numbers):
                        self._cut(numbers, loading)
                    case Put(vector, back):
                        return Obtained(self._put(vector, back), self.places)
        finally:
            for load in self.loads.values():
                load.close()

    def give_up(self) -> None:
        for place in self.places.values():
            place.close()

    def _hold(self, source: str) -> None:
        """Keep a place, and see whether the source is as it was planned."""
        feed, shared = self.feeds[source], None
        self.sources[source] = of_view(feed.channel.source, self.plan.view)
        if self.companion is not None and (shared := self.companion.reading(source, self.spark)):
            self.shared[source] = shared
            after, found = shared.lowest, shared.described
        else:
            after = held_back(feed.channel.end, feed.log.first)
            found = _described(self.sources[source], self.plan.view)
        self.lowest[source] = after
        relations = self.plan.relations(source)
        self.places[source] = feed.channel.subscribe(self.wake, after, True, relations)
        self.described |= found

    def _share(self, source: str, loading: Loading) -> None:
        """Take the snapshot in which the source is read for several loads, unless it is too old."""
        shared = self.shared[source]
        upto = {source: self.feeds[source].channel.end}
        is_too_old = has_gap(self.plan.view, self._logs, {source: shared.number}, upto)
        fits = loading.opened(source, None if is_too_old else shared.number)
        if fits and self.companion is not None:
            self.loads[source] = shared.read_by(self.companion)

    def _open(self, source: str, loading: Loading) -> None:
        """Open a snapshot for this load alone."""
        if self.shared.pop(source, None) is not None:
            self.described |= _described(self.sources[source], self.plan.view)
        channel = self.feeds[source].channel
        readers = self.spark.sparkContext.defaultParallelism if self.spark else 1
        if earlier := self.loads.pop(source, None):
            earlier.close()
        names = [r.short_name for r in self.plan.view.relations if r.source == source]
        known = channel.end
        load = self.sources[source].open_load(names, readers)
        try:
            channel.catch_up()
            number = self.places[source].split(load.snapshot, known)
            fits = loading.opened(source, number)
        except BaseException:
            load.close()
            raise
        if fits:
            self.loads[source] = load
        else:
            load.close()

    def _cut(self, numbers: Mapping[str, int], loading: Loading) -> None:
        """Find where no global transaction is divided; what is in the snapshots is logged."""
        parts = self.known.all
        lowest = {
            source: max(self.lowest[source], self.feeds[source].channel.whole_after)
            for source in numbers
        }
        found = self.cutting.cut(numbers, lowest, parts, time.monotonic())
        if found is None or has_gap(self.plan.view, self._logs, found.numbers, numbers):
            loading.cannot_cut(self.cutting.cannot(numbers, parts))
            time.sleep(_CUTTING_PAUSE_S)
            return
        self.split = found.split
        loading.cut({s: Reached(n, self._position(s, n)) for s, n in found.numbers.items()})

    @property
    def _logs(self) -> dict[str, ChangeLog]:
        return {source: self.feeds[source].log for source in self.plan.view.sources}

    def _position(self, source: str, number: int) -> Position | None:
        """Where the source's log stands at a number; None where the change log has let it go."""
        feed = self.feeds[source]
        end, position = feed.durable
        if number == end:
            return position
        if number < feed.log.first:
            return None
        (found,) = feed.recall(number - 1, 1)
        return found.position

    def _expected(self) -> dict[str, float]:
        """About how many rows relations have; what is read into memory is not worth asking."""
        found: dict[str, float] = {}
        for source, opened in self.sources.items() if self.spark is not None else ():
            names = {r.short_name: r.name for r in self.plan.view.relations if r.source == source}
            with suppress(HeadwaterError):
                sizes = opened.sizes(dict.fromkeys(names, ()))
                found |= {names[name]: size.rows for name, size in sizes.items()}
        return found

    def _put(self, vector: VersionVector, back: Mapping[str, int]) -> ViewTable:
        plan, view = self.plan, self.plan.view
        taken = taken_back(view, self._logs, vector, back)
        scratch = self.warehouse.scratch(view.name)
        tally = Tally(scratch / "tally", self._expected())
        for source, shared in self.shared.items():
            if shared.tally is not None:
                tally.include(shared.tally, plan.relations(source))
        self.report(tally)
        shown = None
        try:
            read = reader(self.spark, self.described, scratch, tally)
            state = {r.name: read(self.loads[r.source], r) for r in view.relations}
            state |= {name: state[name] + delta for name, delta in taken.items()}
            contents = evaluate_view(view, state, None if self.spark else small.ROWS)
            if self.spark is not None:
                contents = Frame.of_rows(self.spark, contents)
            shown = None if view.top is None else view.shown(contents)
            if view.members:
                contents = _seen_by_members(view, contents)
            for source in vector:
                self.feeds[source].wait_begun()
            table = self.warehouse.put(
                ViewLoad(
                    plan.definition,
                    vector,
                    _for_spark(view.stored(contents, state)),
                    plan.algorithm,
                    plan.level,
                    self.claim.runner,
                    view.key,
                    self.claim.guard,
                    None if shown is None else Shown(shown.schema, _for_spark(shown)),
                    self.split,
                )
            )
            self.rows = sum(tally.counted().values())
            table.follow(self.spark or _no_session)
            return table
        except HeadwaterError:
            raise
        except Exception as error:
            raise failure_of(view.name, error, shown) from error
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _seen_by_members(group: View, stored: Rows) -> Rows:
    """The rows of a group, computed, when the top of no member has failed on them."""
    stored = stored.settled() if isinstance(stored, Frame) else stored
    for member in group.members:
        shown = group.of_member(member).shown(stored)
        if isinstance(shown, Frame):
            shown.settled()
    return stored


def _no_session() -> SparkSession:
    raise TooManyRowsError("The group is too large for memory.")


def _for_spark(rows: Rows) -> Rows | DataFrame:
    return rows.dataframe if isinstance(rows, Frame) else rows


def of_view(source: Source, view: View) -> Source:
    """A source with the columns that one view uses: what is in others is of no concern."""
    return source.narrowed(
        {r.short_name: r.schema.names for r in view.relations if r.source == source.name}
    )


def _described(source: Source, view: View) -> dict[str, Relation]:
    """The relations of a view as its source describes them now, if that is as it was planned."""
    found = {relation.name: relation for relation in source.relations().values()}
    for planned in view.relations:
        if planned.source != source.name:
            continue
        now = found.get(planned.name)
        if now is None or not set(planned.schema.columns) <= set(now.schema.columns):
            raise LostConnectionError(
                f"Source {source.name}: {planned.short_name} has been altered just now.",
                "It is tried again.",
            )
    return found


Read: TypeAlias = Callable[[Readable, Relation], Rows]
"""Reads a relation with the columns that a view uses."""


def reader(
    spark: SparkSession | None, described: Mapping[str, Relation], scratch: Path, tally: Tally
) -> Read:
    """Reads on Spark, or into memory without it; `described` has relations as sources do."""
    memory = Small(tally)

    def read(load: Readable, relation: Relation) -> Rows:
        whole = described[relation.name]
        if spark is None:
            assert not isinstance(load, Files)
            return memory.read(load, relation, whole)
        data = read_relation(spark, load, whole, relation.schema.names, scratch, tally)
        return Frame.of_dataframe(data, relation.schema, signed=False)

    return read
