"""A load as a simulated runner makes it: it does what `Loading` says is next.

Those of a company take what they read from one snapshot of each source, also when others of them
have ended, and other things have happened, long before they begin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NoReturn

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.rows import Rows
from headwater.pipeline.companions import Company
from headwater.pipeline.cutting import Cutting, has_gap, taken_back
from headwater.pipeline.loading import (
    Cut,
    Hold,
    Loading,
    MakeDurable,
    OpenSnapshot,
    Put,
    held_back,
)
from headwater.pipeline.plan import Plan
from headwater.simulation.judge import ROOT
from headwater.simulation.reading import Reading
from headwater.sources.order import Place
from headwater.warehouse.loads import Shown, ViewLoad
from headwater.warehouse.vectors import Reached, VersionVector

if TYPE_CHECKING:
    from headwater.simulation.process import Process


class Together:
    """The loads of one company, until the last of them has ended."""

    def __init__(self, process: Process, company: Company) -> None:
        self._process = process
        self._company = company
        self._members = {view.name: view for view in company.views}
        self._readings: dict[str, SharedReading] = {}

    def reading(self, source: str) -> SharedReading:
        if source not in self._readings:
            relations = frozenset(self._company.relations(source))
            self._readings[source] = SharedReading(self._process, source, relations)
        return self._readings[source]

    def leave(self, view: str) -> None:
        """A load has ended; places that no other needs are given up."""
        self._members.pop(view, None)
        needed = {source for view in self._members.values() for source in view.sources}
        for source in self._readings.keys() - needed:
            self._readings.pop(source).close()


class SharedReading:
    """One source in one snapshot, with a place from before it was taken."""

    def __init__(self, process: Process, source: str, relations: frozenset[str]) -> None:
        reading = process.readings[source]
        self.lowest = held_back(reading.order.end, reading.log.first)
        self._reading = reading
        self._place = reading.place(self.lowest, relations, paused=True)
        loading = Loading([source])
        loading.held(source)
        try:
            while not isinstance(task := loading.next(), MakeDurable):
                assert isinstance(task, OpenSnapshot)
                split, self.state = _snapshot(process, reading, self._place, task.again)
                loading.opened(source, split)
        except BaseException:
            self.close()
            raise
        self.number = task.number

    def close(self) -> None:
        self._reading.order.remove(self._place)


def _snapshot(
    process: Process, reading: Reading, place: Place, again: bool
) -> tuple[int | None, Mapping[str, Rows]]:
    """Where a snapshot that is taken now splits the order for a place, and what is in it."""
    world = process.world
    if again:
        world.interrupt("wait", ROOT)
        reading.database.appear(world.random)
    known, marker = reading.order.end, process.marker()
    seen, found = reading.database.snapshot(marker)
    while not reading.order.has_passed(marker):
        world.interrupt("read", ROOT)
        reading.read(world)
        if reading.trouble is not None:
            raise reading.trouble
    return place.split(seen, known, reading.whole_after), found


class Load:
    """One view's load, from a place in each source's order to the view that is put."""

    def __init__(self, process: Process, plan: Plan, together: Together | None = None) -> None:
        self._process = process
        self._together = together
        self._plan = plan
        self._loading = Loading(plan.view.sources, plan.shows_global_whole, self._floor())
        self._lowest: dict[str, int] = {}
        self._split: tuple[str, ...] = ()
        self._places: dict[str, Place] = {}
        self._state: dict[str, Rows] = {}

    def run(self) -> None:
        try:
            while not isinstance(task := self._loading.next(), Put):
                match task:
                    case Hold(source):
                        self._hold(source)
                    case OpenSnapshot(source, again):
                        self._open_snapshot(source, again)
                    case MakeDurable(source, number):
                        self._make_durable(source, number)
                    case Cut(numbers):
                        self._cut(numbers)
        finally:
            for source, place in self._places.items():
                self._process.readings[source].order.remove(place)
        self._put(task.vector, task.back)

    def _hold(self, source: str) -> None:
        reading = self._process.readings[source]
        if self._together is not None:
            after = self._together.reading(source).lowest
        else:
            after = held_back(reading.order.end, reading.log.first)
        self._lowest[source] = after
        self._places[source] = reading.place(after, self._plan.relations(source), paused=True)
        self._loading.held(source)

    def _open_snapshot(self, source: str, again: bool) -> None:
        if self._together is not None and not again:
            shared, reading = self._together.reading(source), self._process.readings[source]
            upto, logs = {source: reading.order.end}, {source: reading.log}
            is_too_old = has_gap(self._plan.view, logs, {source: shared.number}, upto)
            self._opened(source, None if is_too_old else shared.number, shared.state)
        else:
            reading, place = self._process.readings[source], self._places[source]
            self._opened(source, *_snapshot(self._process, reading, place, again))

    def _opened(self, source: str, number: int | None, found: Mapping[str, Rows]) -> None:
        if self._loading.opened(source, number):
            self._state |= found

    def _make_durable(self, source: str, number: int) -> None:
        reading = self._process.readings[source]
        self._process.make_durable(source, number)
        while not reading.log.position:
            reading.write(self._process.world)
        self._loading.durable(source, reading.position(number))

    def _cut(self, numbers: Mapping[str, int]) -> None:
        process, view = self._process, self._plan.view
        lowest = {s: max(self._lowest[s], process.readings[s].whole_after) for s in numbers}
        cutting = Cutting(view, self._floor(), process.world.late)
        parts = process.parts.all
        found = cutting.cut(numbers, lowest, parts, process.world.disk.now)
        logs = {source: process.readings[source].log for source in numbers}
        if found is None or has_gap(view, logs, found.numbers, numbers):
            self._loading.cannot_cut(cutting.cannot(numbers, parts))
            process.world.interrupt("wait", ROOT)
            return
        self._split = found.split
        position = {s: process.readings[s].position(n) for s, n in found.numbers.items()}
        self._loading.cut({s: Reached(n, position[s]) for s, n in found.numbers.items()})

    def _floor(self) -> dict[str, int]:
        name, warehouse = self._plan.view.name, self._process.warehouse
        if not warehouse.has_view(name):
            return {}
        return {s: at.number for s, at in warehouse.view(name).latest().vector.items()}

    def _put(self, vector: VersionVector, back: Mapping[str, int]) -> None:
        plan, claim = self._plan, self._process.claim
        narrow = {r.name: self._state[r.name].only(r.schema) for r in plan.view.relations}
        logs = {source: reading.log for source, reading in self._process.readings.items()}
        for name, delta in taken_back(plan.view, logs, vector, back).items():
            narrow[name] = narrow[name] + delta
        contents = evaluate_view(plan.view, narrow)
        table = self._process.warehouse.put(
            ViewLoad(
                plan.definition,
                vector,
                plan.view.stored(contents, narrow),
                plan.algorithm,
                plan.level,
                claim.runner,
                plan.view.key,
                guard=claim.guard,
                shown=Shown.of(plan.view, contents),
                split=self._split,
            )
        )
        table.follow(no_spark)


def no_spark() -> NoReturn:
    raise AssertionError("small views need no Spark")
