"""A load as a simulated runner makes it: it does what `Loading` says is next."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.rows import Rows
from headwater.pipeline.loading import Hold, Loading, MakeDurable, OpenSnapshot, Put, held_back
from headwater.pipeline.maintenance import Plan
from headwater.simulation.judge import ROOT
from headwater.sources.order import Place
from headwater.warehouse.loads import Shown, ViewLoad
from headwater.warehouse.vectors import VersionVector

if TYPE_CHECKING:
    from headwater.simulation.process import Process


class Load:
    """One view's load, from a place in each source's order to the view that is put."""

    def __init__(self, process: Process, plan: Plan) -> None:
        self._process = process
        self._plan = plan
        self._loading = Loading(plan.view.sources)
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
        finally:
            for source, place in self._places.items():
                self._process.readings[source].order.remove(place)
        self._put(task.vector)

    def _hold(self, source: str) -> None:
        reading = self._process.readings[source]
        after = held_back(reading.order.end, reading.log.first)
        self._places[source] = reading.place(after, self._plan.relations(source), paused=True)
        self._loading.held(source)

    def _open_snapshot(self, source: str, again: bool) -> None:
        reading, world = self._process.readings[source], self._process.world
        if again:
            world.interrupt("wait", ROOT)
            reading.database.appear(world.random)
        known, marker = reading.order.end, self._process.marker()
        seen, found = reading.database.snapshot(marker)
        while not reading.order.has_passed(marker):
            world.interrupt("read", ROOT)
            reading.read(world)
            if reading.trouble is not None:
                raise reading.trouble
        split = self._places[source].split(seen, known, reading.whole_after)
        if self._loading.opened(source, split):
            self._state |= found

    def _make_durable(self, source: str, number: int) -> None:
        reading = self._process.readings[source]
        self._process.make_durable(source, number)
        while not reading.log.position:
            reading.write(self._process.world)
        self._loading.durable(source, reading.position(number))

    def _put(self, vector: VersionVector) -> None:
        plan, claim = self._plan, self._process.claim
        narrow = {r.name: self._state[r.name].only(r.schema) for r in plan.view.relations}
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
            )
        )
        table.follow(no_spark)


def no_spark() -> NoReturn:
    raise AssertionError("small views need no Spark")
