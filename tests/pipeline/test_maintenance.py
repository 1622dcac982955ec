"""Views at every level over sources that change meanwhile and runners that crash, simulated."""

import os
from collections.abc import Callable, Iterable, Sequence

import pytest

from headwater.algebra.rows import Rows
from headwater.check.levels import Level
from headwater.lab.generate import Shape
from headwater.pipeline import maintenance
from headwater.pipeline.maintenance import Commit, Maintenance
from headwater.pipeline.progress import Progress
from headwater.pipeline.recording import Recording
from headwater.sources.contract import Position, Progressed, Snapshot
from headwater.sources.order import Numbered, Order, Place
from headwater.warehouse.vectors import Reached, VersionVector
from tests.pipeline.deployment import Deployment

SEEDS = range(2000 if os.environ.get("HEADWATER_STRESS") == "1" else 40)
SHAPES = {
    "two sources": Shape("source-local", relations=2, sources=2, transactions=8),
    "three sources": Shape("source-local", relations=3, sources=3, transactions=8),
    "two relations of a source": Shape("source-local", relations=3, sources=2, transactions=8),
    "a self-join": Shape("source-local", relations=2, sources=2, transactions=8, self_join=True),
}


def play(seed: int, shape: Shape, crashes: int) -> None:
    world = Deployment(seed, ("strong", "complete"), crashes, shape)
    world.run()
    strong, complete = world.certificates()
    assert strong.level >= Level.STRONG, (seed, strong)
    assert complete.level == Level.COMPLETE, (seed, complete)


def play_all(seeds: Iterable[int], shape: Shape, crashes: int) -> None:
    for seed in seeds:
        play(seed, shape, crashes)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("crashes", [0, 3])
def test_every_commit_is_the_view_at_its_vector(shape: str, crashes: int) -> None:
    play_all(SEEDS, SHAPES[shape], crashes)


# Faults that are put back


def by_number_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(maintenance, "identity", lambda source, number: f"{number}")


def answers_that_lack_what_was_received(patch: pytest.MonkeyPatch) -> None:
    def holds(self: Place, snapshot: Snapshot) -> bool:
        return True

    patch.setattr(Place, "_holds_received", holds)


def answers_by_count(patch: pytest.MonkeyPatch) -> None:
    def split(self: Place, snapshot: Snapshot, known: int) -> int:
        stamps = self._order.stamps(self.cursor)
        return self.cursor + sum(all(map(snapshot.includes, i or ())) for i in stamps) - 1

    patch.setattr(Place, "split", split)


def answers_at_once(patch: pytest.MonkeyPatch) -> None:
    """Not where they belong, but where their subscriber stands."""

    def split(self: Place, snapshot: Snapshot, known: int) -> int:
        return self.cursor - 1

    patch.setattr(Place, "split", split)


def acknowledged_when_read(patch: pytest.MonkeyPatch) -> None:
    recorded = Recording.record

    def record(self: Recording, first: int, logged: Sequence[Numbered | Progressed]) -> None:
        recorded(self, first, logged)
        if logged:
            self.position = {"at": first + len(logged) - 1}

    def to_acknowledge(self: Recording, now: float, at_once: bool = False) -> Position | None:
        return self.position if self.position != self._acknowledged else None

    patch.setattr(Recording, "record", record)
    patch.setattr(Recording, "to_acknowledge", to_acknowledge)


def states_taken_together(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(maintenance.Plan, "shows_each_state", False)


def watermark_that_jumps(patch: pytest.MonkeyPatch) -> None:
    """A view that has a transaction is taken to have all before it."""
    reflected = Progress.reflect

    def reflect(self: Progress, source: str, number: int, concerns: bool = True) -> None:
        for earlier in range(self.vector[source].number + 1, number):
            reflected(self, source, earlier, concerns)
        reflected(self, source, number, concerns)

    patch.setattr(Progress, "reflect", reflect)


def vector_before_its_change(patch: pytest.MonkeyPatch) -> None:
    """Progress is noted although what goes with it is not committed yet."""
    ticked = Maintenance.tick

    def tick(self: Maintenance, now: float, more: bool) -> Sequence[Commit]:
        found = ticked(self, now, more)
        if not found and self._pending.delta:
            return [Commit(Rows.empty(self._plan.view.schema), self.vector, (), "vector")]
        return found

    patch.setattr(Maintenance, "tick", tick)


def passed_though_it_concerns(patch: pytest.MonkeyPatch) -> None:
    """A view is taken to have what it has yet to receive."""
    patch.setattr(
        Deployment, "_passed", lambda self, view, source: self.followers[source].recording.end
    )


def noted_before_it_is_settled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Maintenance, "is_settled", True)
    patch.setattr(Maintenance, "vector", property(lambda self: received(self)))

    def received(maintenance: Maintenance) -> VersionVector:
        sources = maintenance._progress._sources.items()
        return {name: Reached(source._passed, None) for name, source in sources}


def asides_that_concern(patch: pytest.MonkeyPatch) -> None:
    """What a place is spared is taken for what it has."""
    concerning = Order.concerning

    def spared(self: Order, place: Place, first: int, most: int | None = None) -> Sequence[int]:
        return [n for n in concerning(self, place, first, most) if n % 3]

    patch.setattr(Order, "concerning", spared)


@pytest.mark.parametrize(
    "fault",
    [
        by_number_alone,
        answers_that_lack_what_was_received,
        answers_by_count,
        answers_at_once,
        acknowledged_when_read,
        states_taken_together,
        watermark_that_jumps,
        vector_before_its_change,
        passed_though_it_concerns,
        noted_before_it_is_settled,
        asides_that_concern,
    ],
)
def test_a_fault_that_is_put_back_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        play_all(range(100), SHAPES["two sources"], crashes=3)
