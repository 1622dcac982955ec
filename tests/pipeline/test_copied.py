"""Copies of relations beside a view: they answer questions exactly, whatever the algorithm."""

import pytest

from headwater.algebra.evaluate import evaluate_view
from headwater.check.levels import Level
from headwater.lab.generate import Shape
from headwater.pipeline.copied import Copied
from tests.pipeline.deployment import Deployment
from tests.pipeline.test_maintenance import ONE_SOURCE, SHAPES, WITH_KEYS

SEEDS = range(12)
STRONG, COMPLETE, CONVERGENT = Level.STRONG, Level.COMPLETE, Level.CONVERGENT


def what_is_wrong(seed: int, shape: Shape, name: str, level: Level, copies: int) -> str:
    """With a run, some of which are killed meanwhile; empty if nothing is."""
    world = Deployment(seed, [level], shape, name, restarts=seed % 4, copies=copies)
    world.run()
    (found,) = world.certificates()
    if found.level < level:
        return f"{seed}: {found}"
    (made,) = world.views
    view, history = made.plan.view, world.history
    ends = dict(zip(history.sources, history.final, strict=True))
    base = {
        r.name: history.state_of(r.source, ends[r.source])[r.name].only(r.schema)
        for r in view.relations
    }
    expected = view.stored(evaluate_view(view, base), base)
    return "" if made.contents == expected else f"{seed}: another thing is stored"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_view_with_copies_of_all_relations_asks_nothing(shape: str) -> None:
    for seed in SEEDS:
        world = Deployment(seed, [COMPLETE], SHAPES[shape], "copies")
        world.run()
        assert next(world.markers) == 1  # a source that is asked leaves a mark
        assert not what_is_wrong(seed, SHAPES[shape], "copies", COMPLETE, 0)


@pytest.mark.parametrize(
    ("name", "level"),
    [("sweep", STRONG), ("nested-sweep", STRONG), ("posse", STRONG), ("pvm-cc", COMPLETE)],
)
@pytest.mark.parametrize("shape", SHAPES)
def test_copies_of_some_relations_take_nothing_from_a_sweep(
    name: str, level: Level, shape: str
) -> None:
    for seed in SEEDS:
        assert not what_is_wrong(seed, SHAPES[shape], name, level, 1 + seed % 2)


@pytest.mark.parametrize(
    ("name", "level"),
    [("eca", STRONG), ("eca-local", STRONG), ("lca", COMPLETE), ("recompute", STRONG)],
)
@pytest.mark.parametrize("shape", ONE_SOURCE)
def test_copies_of_some_relations_take_nothing_from_eca(
    name: str, level: Level, shape: str
) -> None:
    for seed in SEEDS:
        assert not what_is_wrong(seed, ONE_SOURCE[shape], name, level, 1 + seed % 2)


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("t-strobe", STRONG),
        ("g-strobe", STRONG),
        ("c-t-strobe", COMPLETE),
        ("strobe", CONVERGENT),
        ("c-strobe", CONVERGENT),
    ],
)
@pytest.mark.parametrize("shape", WITH_KEYS)
def test_copies_of_some_relations_take_nothing_from_strobe(
    name: str, level: Level, shape: str
) -> None:
    for seed in SEEDS:
        assert not what_is_wrong(seed, WITH_KEYS[shape], name, level, 1 + seed % 2)


def test_copies_without_what_was_received_since_the_last_commit_are_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Copied, "_ahead", lambda self, names: {})
    shape = SHAPES["three sources"]
    assert any(what_is_wrong(seed, shape, "sweep", STRONG, 2) for seed in range(40))
