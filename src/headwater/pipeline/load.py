"""The initial load of a view, beside everything else that goes on.

A place in each channel is kept first; then a consistent snapshot of each source is opened that
splits its order of transactions into those that are in it and those that are not. Spark reads
the relations, computes the view and writes it, with the numbers of the last transactions in
the snapshots as its version vector. The transactions behind them are then delivered as
always: the view manager compensates for what happened meanwhile. No source is locked.

Where a session need not be at hand, the same is tried in memory first, and begun again on Spark
if there is too much.

A view that has a table already is loaded anew: readers keep the old contents until the new ones
replace them in one step.

If a source cannot show its snapshot any more before everything is read, the load starts over.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation
from headwater.algebra.views import View
from headwater.errors import HeadwaterError, LostConnectionError, SourceError, TooManyRowsError
from headwater.frames import small
from headwater.frames.frame import Frame
from headwater.frames.session import Spark, named
from headwater.pipeline.bulk_read import Small, Tally, read_relation
from headwater.pipeline.feed import Feed
from headwater.pipeline.maintain import Obtained
from headwater.pipeline.maintenance import Plan
from headwater.sources.contract import Load, Position, Source
from headwater.sources.subscription import Subscription, Wake
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.lease import LeaseClaim
from headwater.warehouse.loads import ViewLoad
from headwater.warehouse.vectors import Reached
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TRIES = 5
_FITTING_TRIES = 50
_LOOK_BACK = 1000
_PAUSE_S = 0.02

Report = Callable[[Tally], None]
"""Called when reading begins, with what counts the rows."""


def load_view(
    plan: Plan,
    feeds: Mapping[str, Feed],
    warehouse: Warehouse,
    spark: Spark,
    claim: LeaseClaim,
    wake: Wake,
    report: Report = lambda tally: None,
) -> Obtained:
    """Load a view, whether it has a table already or not."""
    for left in reversed(range(_TRIES)):
        subscriptions = {
            source: _hold(feeds[source], wake, plan.relations(source))
            for source in plan.view.sources
        }
        try:
            load = partial(_load, plan, feeds, warehouse, claim, subscriptions, report)
            if callable(spark):
                with suppress(TooManyRowsError):
                    return Obtained(load(None), subscriptions)
                spark = spark()
            return Obtained(load(spark), subscriptions)
        except BaseException as error:
            for subscription in subscriptions.values():
                subscription.close()
            stopped = any(feed.channel.is_stopping for feed in feeds.values())
            worth = isinstance(error, LostConnectionError | _LostSnapshotError)
            if stopped or not left or not worth:
                raise
            time.sleep(1.0)
    raise AssertionError


class _LostSnapshotError(HeadwaterError):
    """A source cannot show the snapshot any more."""


def _hold(feed: Feed, wake: Wake, relations: frozenset[str]) -> Subscription:
    """A place in the channel far enough back that a snapshot taken now begins behind it."""
    after = held_back(feed.log, feed.channel.end)
    return feed.channel.subscribe(wake, after, paused=True, relations=relations)


def held_back(log: ChangeLog, end: int) -> int:
    """Behind which number a snapshot that is taken now begins for certain."""
    return max(log.first - 1, end - _LOOK_BACK, 0)


def _load(
    plan: Plan,
    feeds: Mapping[str, Feed],
    warehouse: Warehouse,
    claim: LeaseClaim,
    subscriptions: Mapping[str, Subscription],
    report: Report,
    spark: SparkSession | None,
) -> ViewTable:
    """Load on Spark, or in memory without it."""
    view = plan.view
    readers = spark.sparkContext.defaultParallelism if spark else 1
    scratch = warehouse.scratch(view.name)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        loads: dict[str, Load] = {}
        vector: dict[str, Reached] = {}
        described: dict[str, Relation] = {}
        for source in view.sources:
            narrow = _of_view(feeds[source].channel.source, view)
            described |= _described(narrow, view)
            names = [r.short_name for r in view.relations if r.source == source]
            load, number = open_fitting(
                feeds[source], subscriptions[source], narrow, names, readers
            )
            stack.callback(load.close)
            loads[source] = load
            vector[source] = Reached(number, _position(feeds[source], number))
        tally = Tally(scratch / "tally")
        report(tally)
        try:
            with named(spark, f"{view.name}: load"):
                read = reader(spark, described, scratch, tally)
                state = {r.name: read(loads[r.source], r) for r in view.relations}
                contents = evaluate_view(view, state, None if spark else small.ROWS)
                for source, reached in vector.items():
                    feeds[source].wait_begun()
                    feeds[source].wait_durable(reached.number)
                return warehouse.put(
                    ViewLoad(
                        plan.definition,
                        vector,
                        contents.dataframe if isinstance(contents, Frame) else contents,
                        plan.algorithm,
                        plan.level,
                        claim.runner,
                        view.key,
                        claim.guard,
                    )
                )
        except HeadwaterError:
            raise
        except Exception as error:
            raise failure_of(view.name, error) from error


def _of_view(source: Source, view: View) -> Source:
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


Read: TypeAlias = Callable[[Load, Relation], Rows]
"""Reads a relation with the columns that a view uses."""


def reader(
    spark: SparkSession | None, described: Mapping[str, Relation], scratch: Path, tally: Tally
) -> Read:
    """Reads on Spark, or into memory without it; `described` has relations as sources do."""
    memory = Small(tally)

    def read(load: Load, relation: Relation) -> Rows:
        whole = described[relation.name]
        if spark is None:
            return memory.read(load, relation, whole)
        data = read_relation(spark, load, whole, relation.schema.names, scratch, tally)
        return Frame.of_dataframe(data, relation.schema, signed=False)

    return read


def open_fitting(
    feed: Feed, subscription: Subscription, source: Source, names: list[str], readers: int
) -> tuple[Load, int]:
    """A load whose snapshot splits the channel's order, and the last number that is in it.

    What is not in the snapshot has been read with the columns of the view.
    """
    for _ in range(_FITTING_TRIES):
        known = feed.channel.end
        load = source.open_load(names, readers)
        try:
            feed.channel.catch_up()
            number = subscription.split(load.snapshot, known)
        except BaseException:
            load.close()
            raise
        if number is not None and number >= feed.channel.whole_after:
            return load, number
        load.close()
        time.sleep(_PAUSE_S)
    raise SourceError(
        f"Source {feed.name}: no snapshot fits the log.",
        "Look for transactions that wait for a synchronous standby.",
    )


def _position(feed: Feed, number: int) -> Position | None:
    if number == 0:
        return None
    feed.wait_durable(number)
    (found,) = feed.recall(number - 1, 1)
    return found.position


_RAISED = re.compile(r"^headwater\.errors\.(\w+): (.+)$", re.MULTILINE)
"""An error of ours in what Spark tells of a task that failed."""


def failure_of(view: str, error: Exception) -> HeadwaterError:
    """Why a view could not be loaded; a lost connection, also of a task, is worth another try."""
    text = str(error)
    if "snapshot" in text and "does not exist" in text:
        return _LostSnapshotError(f"View {view}: a source closed the snapshot of its load.")
    raised = _RAISED.search(text)
    if raised and raised[1] == LostConnectionError.__name__:
        return LostConnectionError(raised[2])
    return HeadwaterError(
        f"View {view} could not be loaded: {raised[2] if raised else _first_line(text)}",
        "Nothing was written; 'headwater run' tries again.",
    )


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "no reason given")
