"""What the loads of a company read (see `companions`): each relation once, for all of them.

A `SharedReading` is one snapshot of one source, with a place in its channel from before it was
taken. Without Spark, what is small is kept in memory, as long as it is not much together; with it,
relations are copied to files, by threads that belong to no view: whoever is stopped meanwhile stops
nobody else. A snapshot is closed as soon as nothing more is to be read of it, and what was read
goes with the last load that needs it.

Nothing is lost by sharing. Where what is read together cannot be read, which may be due to a column
that only one of the views uses, each load reads for itself and is told what concerns it. A
connection that is lost is opened again for all, and what was read of other sources stays.
"""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.algebra.schema import Relation
from headwater.algebra.views import View
from headwater.errors import (
    HeadwaterError,
    LostConnectionError,
    NoExecutorError,
    StateLostError,
    StoppedError,
    TooManyRowsError,
)
from headwater.frames import small
from headwater.frames.naming import named
from headwater.pipeline.bulk_read import Readable, Tally, as_file, copied
from headwater.pipeline.companions import Company, shortened
from headwater.pipeline.feed import Feed
from headwater.pipeline.load_failures import failure_of
from headwater.pipeline.loading import (
    Hold,
    Loading,
    LostSnapshotError,
    MakeDurable,
    OpenSnapshot,
    held_back,
)
from headwater.pipeline.spark_jobs import SparkJobs
from headwater.sources.contract import Load, PartReader
from headwater.sources.subscription import Subscription
from headwater.sources.workers import Workers
from headwater.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession

FITTING_PAUSE_S = 0.02
_MOST_BYTES = 8 * small.BYTES
"""What a company keeps in memory: as much as loads may that go on at the same time."""


class ByItselfError(LostSnapshotError):
    """What is read together cannot be read: whoever needs it reads for itself."""


_AGAIN = (LostConnectionError, LostSnapshotError, StateLostError, NoExecutorError)
"""What ends a snapshot, and is no reason to read for oneself."""


class Together:
    """The loads of one company, as long as one of them goes on."""

    def __init__(
        self,
        company: Company,
        feeds: Mapping[str, Feed],
        warehouse: Warehouse,
        jobs: SparkJobs,
        workers: Workers,
    ) -> None:
        self.company = company
        self.feeds = feeds
        self.folder = warehouse.scratch(f"together-{uuid.uuid4().hex[:12]}")
        self.changed = threading.Condition()
        """The lock of all that the loads share; whoever changes something notifies."""
        self.kept_bytes = 0
        """How much is kept in memory."""
        self._jobs = jobs
        self._workers = workers
        self._members = {view.name: view for view in company.views}
        self._readings: dict[tuple[str, bool], SharedReading] = {}
        self._all: list[SharedReading] = []
        self._apart: set[str] = set()
        self._at_work = 0

    @property
    def is_over(self) -> bool:
        """Whether all loads have ended."""
        return not self._members

    def needed(self, source: str) -> set[str]:
        """The relations of a source that loads need which have not ended, by their names there."""
        views = list(self._members.values())
        return {r.short_name for view in views for r in view.relations if r.source == source}

    def reading(self, source: str, spark: SparkSession | None) -> SharedReading | None:
        """A source as it is read together; None if each load reads it for itself."""
        key = (source, spark is not None)
        with self.changed:
            if source in self._apart:
                return None
            found = self._readings.get(key)
            if found is None or found.has_failed:
                found = (
                    SmallReading(self, source)
                    if spark is None
                    else CopiedReading(self, source, spark)
                )
                self._readings[key] = found
                self._all.append(found)
        try:
            found.open()
        except _AGAIN:
            raise
        except HeadwaterError:
            self.read_apart(source)
            return None
        return found

    def read_apart(self, source: str) -> None:
        """From now on each load reads a source for itself."""
        with self.changed:
            self._apart.add(source)

    def leave(self, view: str) -> None:
        """A view's load has ended; what only it needed goes."""
        with self.changed:
            self._members.pop(view, None)
            self.changed.notify_all()
        if self.is_over:
            self._jobs.cancel(self.folder.name)
        self._tidy()

    def work(self, job: Callable[[Callable[[], SparkSession]], None], name: str) -> None:
        """Have something done with Spark, in a thread that belongs to no view."""

        def do() -> None:
            try:
                with self._jobs.of_view(self.folder.name) as session, named(name):
                    job(session)
            finally:
                with self.changed:
                    self._at_work -= 1
                self._tidy()

        with self.changed:
            self._at_work += 1
        self._workers.do(do)

    def _tidy(self) -> None:
        with self.changed:
            readings = list(self._all)
        for reading in readings:
            reading.tidy()
        with self.changed:
            is_free = self.is_over and not self._at_work
        if is_free:
            shutil.rmtree(self.folder, ignore_errors=True)


class Companion:
    """One view's part in the loads of a company."""

    def __init__(self, together: Together, view: View) -> None:
        self.view = view
        self._together = together
        self._has_begun = False
        self._is_given_up = False

    def begin(self) -> None:
        """The load begins; StoppedError if it is not wanted any more."""
        with self._together.changed:
            self._has_begun = True
        self.check()

    def check(self) -> None:
        """StoppedError if the load is to end."""
        if self._is_given_up:
            raise StoppedError(f"View {self.view.name}: its load was stopped.")

    def give_up(self) -> None:
        """End the load, soon; one that has not begun has ended. In any thread."""
        with self._together.changed:
            self._is_given_up = True
            self._together.changed.notify_all()
            has_begun = self._has_begun
        if not has_begun:
            self.leave()

    def leave(self) -> None:
        """The load has ended: it needs nothing more of what was read."""
        self._together.leave(self.view.name)

    def reading(self, source: str, spark: SparkSession | None) -> SharedReading | None:
        """A source as it is read together; None if the view is to read it for itself."""
        self.check()
        found = self._together.reading(source, spark)
        return found if found is not None and found.describes(self.view) else None


class SharedReading:
    """One source in one snapshot, with what is read of it."""

    def __init__(self, together: Together, source: str, readers: int) -> None:
        self.lowest = 0
        """Behind which number loads keep their places."""
        self.number = 0
        """The last number in the snapshot, of all that concerns any of the views."""
        self.described: Mapping[str, Relation] = {}
        self.tally: Tally | None = None
        """Counts what is read here and nowhere else."""
        self._together = together
        self._source = source
        self._readers = readers
        self._opening = threading.Lock()
        self._unopened: HeadwaterError | None = None
        """Why it could not be opened when it was tried last."""
        self._place: Subscription | None = None
        self._load: Load | None = None
        self._failures: dict[str, HeadwaterError] = {}
        """Why relations cannot be read."""
        self._failure: HeadwaterError | None = None
        """Why nothing is read any more."""
        self._at_work = 0
        """How many are reading from the snapshot."""

    @property
    def has_failed(self) -> bool:
        """Whether it is to be opened again, as another, by whoever needs it."""
        return self._failure is not None

    # The snapshot

    def open(self) -> None:
        """Open the snapshot, if that has not been done.

        Whoever comes meanwhile waits, and fails with who tries: where a source does not answer,
        all of them would else wait for one after the other.
        """
        known = self._unopened
        with self._opening:
            if self._place is not None:
                return
            if self._unopened is not known and self._unopened is not None:
                raise _anew(self._unopened)
            try:
                self._open()
            except HeadwaterError as error:
                self._unopened = error
                raise

    def _open(self) -> None:
        company, feed = self._together.company, self._together.feeds[self._source]
        columns = company.columns(self._source)
        source = feed.channel.source.narrowed(columns)
        self.described = {relation.name: relation for relation in source.relations().values()}
        loading = Loading([self._source])
        place: Subscription | None = None
        load: Load | None = None
        try:
            while not isinstance(task := loading.next(), MakeDurable):
                if isinstance(task, Hold):
                    self.lowest = held_back(feed.channel.end, feed.log.first)
                    names = company.relations(self._source)
                    place = feed.channel.subscribe(lambda when: None, self.lowest, True, names)
                    loading.held(self._source)
                    continue
                assert isinstance(task, OpenSnapshot)
                assert place is not None
                if load is not None:
                    load.close()
                time.sleep(FITTING_PAUSE_S if task.again else 0.0)
                known = feed.channel.end
                load = source.open_load(list(columns), self._readers)
                feed.channel.catch_up()
                loading.opened(self._source, place.split(load.snapshot, known))
        except BaseException:
            if load is not None:
                load.close()
            if place is not None:
                place.close()
            raise
        self.number, self._place, self._load = task.number, place, load

    def describes(self, view: View) -> bool:
        """Whether the relations of a view are here as it was planned."""
        return all(
            (now := self.described.get(planned.name)) is not None
            and set(planned.schema.columns) <= set(now.schema.columns)
            for planned in view.relations
            if planned.source == self._source
        )

    def read_by(self, companion: Companion) -> Readable:
        """What one of the loads reads of it."""
        raise NotImplementedError

    def tidy(self) -> None:
        """Let go what no load needs any more."""
        together = self._together
        with together.changed:
            needed = together.needed(self._source)
            self._forget(needed)
            is_read = self.has_failed or all(map(self._is_read, needed))
            load = self._load if is_read and not self._at_work else None
            place = None if needed else self._place
            if load is not None:
                self._load = None
        if load is not None:
            load.close()
        if place is not None:
            place.close()

    def _is_read(self, relation: str) -> bool:
        """Whether a relation is not read from the snapshot any more."""
        return relation in self._failures

    def _forget(self, needed: set[str]) -> None:
        """Of what was read, only these relations are still needed."""

    def _fail(self, relation: str, error: Exception) -> None:
        """A relation cannot be read: none of these loads can, or none with this snapshot."""
        views = shortened(self._together.company.readers(f"{self._source}.{relation}"))
        failure = error if isinstance(error, HeadwaterError) else failure_of(views, error)
        if isinstance(failure, _AGAIN) and not isinstance(failure, ByItselfError):
            self._failure = failure
        elif not isinstance(failure, TooManyRowsError):
            self._together.read_apart(self._source)
            failure = ByItselfError(failure.message, failure.hint)
        self._failures[relation] = failure

    def _check(self, relation: str) -> None:
        """Raise why a relation cannot be read, if that is so: one of its own for each thread."""
        if found := self._failures.get(relation) or self._failure:
            raise _anew(found)


def _anew(failure: HeadwaterError) -> HeadwaterError:
    """The same failure, for one thread of several."""
    kind = type(failure) if isinstance(failure, (*_AGAIN, TooManyRowsError)) else HeadwaterError
    return kind(failure.message, failure.hint)


# Without Spark


class SmallReading(SharedReading):
    """What is small is read into memory by the first who needs it."""

    def __init__(self, together: Together, source: str) -> None:
        super().__init__(together, source, 1)
        self._kept: dict[str, list[pyarrow.RecordBatch]] = {}

    def read_by(self, companion: Companion) -> Readable:
        return FromMemory(self)

    def batches(self, relation: str) -> Iterator[pyarrow.RecordBatch]:
        """All of a relation; TooManyRowsError if it is too large for memory."""
        with self._opening:
            if relation not in self._kept:
                self._check(relation)
                self._read(relation)
            self._check(relation)
            return iter(self._kept[relation])

    def _read(self, relation: str) -> None:
        assert self._load is not None
        batches: list[pyarrow.RecordBatch] = []
        rows = size = 0
        try:
            for batch in _read_all(self._load, relation):
                rows, size = rows + batch.num_rows, size + batch.nbytes
                if not small.is_small(rows, 0):
                    raise TooManyRowsError("The relations are too large for memory.")
                if not small.is_small(rows, size):  # with the columns of all
                    raise ByItselfError(f"All that is needed of {relation} is much at once.")
                batches.append(batch)
            self._keep(relation, batches, size)
        except Exception as error:
            self._fail(relation, error)
        self.tidy()

    def _keep(self, relation: str, batches: list[pyarrow.RecordBatch], size: int) -> None:
        with self._together.changed:
            if self._together.kept_bytes + size > _MOST_BYTES:
                raise ByItselfError("All relations that are read together are much at once.")
            self._together.kept_bytes += size
            self._kept[relation] = batches

    def _is_read(self, relation: str) -> bool:
        return relation in self._kept or super()._is_read(relation)

    def _forget(self, needed: set[str]) -> None:
        for relation in self._kept.keys() - needed:
            gone = self._kept.pop(relation)
            self._together.kept_bytes -= sum(batch.nbytes for batch in gone)


class FromMemory:
    """What one load reads of what is in memory."""

    def __init__(self, reading: SmallReading) -> None:
        self._reading = reading

    def parts(self, relation: str) -> int:
        return 1

    def read(self, relation: str, part: int) -> Iterator[pyarrow.RecordBatch]:
        return self._reading.batches(relation)

    def remote(self, relation: str, part: int) -> PartReader | None:
        return None

    def close(self) -> None:
        """Nothing of it is this load's alone."""


def _read_all(load: Load, relation: str) -> Iterator[pyarrow.RecordBatch]:
    for part in range(load.parts(relation)):
        yield from load.read(relation, part)


# For Spark


class CopiedReading(SharedReading):
    """Every relation is copied to files, which Spark reads for each view."""

    def __init__(self, together: Together, source: str, spark: SparkSession) -> None:
        super().__init__(together, source, spark.sparkContext.defaultParallelism)
        self._folder = together.folder / uuid.uuid4().hex[:12]
        self._files: dict[str, Sequence[Path]] = {}
        self._asked: set[str] = set()
        self._turn = threading.Lock()
        """For where the driver reads: over its connections, one relation at a time."""

    def read_by(self, companion: Companion) -> Readable:
        together, relations = self._together, companion.view.relations
        with together.changed:
            self.tally = self.tally or Tally(self._folder / "tally")
            needed = {r.short_name for r in relations if r.source == self._source}
            asked = sorted(needed - self._asked)
            self._asked.update(asked)
        for relation in asked:
            name = f"{self._source}.{relation}"
            views = shortened(together.company.readers(name))
            together.work(partial(self._copy, relation), f"{views}: load {name}")
        return FromFiles(self, companion)

    def files(self, relation: str, companion: Companion) -> Sequence[Path]:
        """The files of a relation, once it is copied."""
        with self._together.changed:
            while relation not in self._files:
                companion.check()
                self._check(relation)
                self._together.changed.wait()
            return self._files[relation]

    def _copy(self, relation: str, session: Callable[[], SparkSession]) -> None:
        together, tally = self._together, self.tally
        with together.changed:
            if self._load is None or tally is None or self.has_failed or together.is_over:
                return
            load = self._load
            self._at_work += 1
        folder = self._folder / as_file(relation)
        whole = self.described[f"{self._source}.{relation}"]
        files: Sequence[Path] = ()
        failure: Exception | None = None
        try:
            files = copied(session(), load, whole, folder, tally, self._check_wanted, self._turn)
        except Exception as error:
            failure = error
        with together.changed:
            self._at_work -= 1
            if failure is None:
                self._files[relation] = files
            else:
                self._fail(relation, failure)
            together.changed.notify_all()

    def _check_wanted(self) -> None:
        if self._together.is_over or self.has_failed:
            raise StoppedError(f"Source {self._source}: nobody waits for its relations.")

    def _is_read(self, relation: str) -> bool:
        return relation in self._files or super()._is_read(relation)

    def _forget(self, needed: set[str]) -> None:
        for relation in self._files.keys() - needed:
            for path in self._files.pop(relation):
                path.unlink(missing_ok=True)


class FromFiles:
    """What one load reads of what is in files."""

    def __init__(self, reading: CopiedReading, companion: Companion) -> None:
        self._reading = reading
        self._companion = companion

    def files(self, relation: str) -> Sequence[Path]:
        return self._reading.files(relation, self._companion)

    def close(self) -> None:
        """Nothing of it is this load's alone."""
