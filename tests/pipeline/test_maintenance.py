"""Views of random shapes, at every level, over sources that change meanwhile."""

import os
from collections.abc import Mapping, Sequence

import pytest

from headwater.check.levels import Level
from headwater.lab.generate import Shape
from headwater.pipeline.plan import Plan
from headwater.pipeline.reflected import InArrivalOrder
from headwater.sources.contract import Snapshot
from headwater.sources.order import Place
from tests.pipeline.deployment import Deployment

SEEDS = range(2000 if os.environ.get("HEADWATER_STRESS") == "1" else 40)
LEVELS = (Level.STRONG, Level.COMPLETE)
SHAPES = {
    "three sources": Shape("source-local", relations=3, sources=3, transactions=8),
    "a self-join": Shape("source-local", relations=2, sources=2, transactions=8, self_join=True),
}
ONE_SOURCE = {
    "three relations": Shape("single-source-local", relations=3, transactions=8),
    "a self-join": Shape("single-source-local", relations=2, transactions=8, self_join=True),
    "a sum": Shape("single-source-local", relations=2, transactions=8, terms=2),
    "keys": Shape("single-source-local", 3, transactions=8, keys=True, by_key=True),
}
WITH_KEYS = {
    "three sources": Shape("source-local", relations=3, sources=3, transactions=8, keys=True),
    "what comes back": Shape("source-local", 3, 2, transactions=8, keys=True, comes_back=True),
}


def falls_short(
    seed: int,
    shape: Shape,
    levels: Sequence[Level] = LEVELS,
    algorithm: str | None = None,
    wanted: Level = Level.CONVERGENT,
    parameters: Mapping[str, str] | None = None,
) -> str:
    """What is wrong with a run, if something is; some are killed meanwhile."""
    world = Deployment(seed, levels, shape, algorithm, parameters, restarts=seed % 4)
    world.run()
    if not all(view.maintenance.is_settled for view in world.views):
        return f"{seed}: something is ready and never shown"
    found = zip(levels, world.certificates(), strict=True)
    return next((f"{seed}: {made}" for low, made in found if made.level < max(low, wanted)), "")


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("eca", Level.STRONG),
        ("eca-local", Level.STRONG),
        ("lca", Level.COMPLETE),
        ("recompute", Level.STRONG),
        ("rings", Level.STRONG),
        ("rings-star", Level.STRONG),
    ],
)
@pytest.mark.parametrize("shape", ONE_SOURCE)
def test_views_over_one_source_keep_the_level_of_their_algorithm(
    name: str, level: Level, shape: str
) -> None:
    for seed in SEEDS:
        assert not falls_short(seed, ONE_SOURCE[shape], [level], name)


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("t-strobe", Level.STRONG),
        ("g-strobe", Level.STRONG),
        ("c-t-strobe", Level.COMPLETE),
        ("strobe", Level.CONVERGENT),
        ("c-strobe", Level.CONVERGENT),
        ("rings", Level.STRONG),
        ("rings-star", Level.STRONG),
    ],
)
@pytest.mark.parametrize("shape", WITH_KEYS)
def test_views_over_several_sources_keep_the_level_of_their_algorithm(
    name: str, level: Level, shape: str
) -> None:
    for seed in SEEDS:
        wanted = max(level, Level.STRONG)  # no commit shows a part of a transaction
        assert not falls_short(seed, WITH_KEYS[shape], [level], name, wanted)


@pytest.mark.parametrize("fetch", ["off", "on"])
def test_partners_are_looked_up_in_the_view_with_what_is_still_to_be_committed(fetch: str) -> None:
    shape = Shape("source-local", 3, 3, transactions=8, keys=True, by_key=True)
    for seed in SEEDS:
        local = {"local": "on", "fetch": fetch}
        assert not falls_short(seed, shape, [Level.STRONG], "t-strobe", parameters=local)


def pvm_is_wrong(seed: int, shape: Shape) -> bool:
    """Whether it does not end with the view, when it is killed meanwhile."""
    world = Deployment(seed, [Level.CONVERGENT], shape, "pvm", restarts=4)
    world.run()
    return world.views[0].contents != world.end


@pytest.mark.parametrize("shape", ["three relations", "a self-join"])
def test_pvm_ends_with_the_view_whatever_it_shows_meanwhile(shape: str) -> None:
    assert not any(pvm_is_wrong(seed, ONE_SOURCE[shape]) for seed in SEEDS)


@pytest.mark.parametrize("shape", SHAPES)
def test_pvm_over_several_sources_goes_on_in_the_order_of_arrival(shape: str) -> None:
    assert not any(pvm_is_wrong(seed, SHAPES[shape]) for seed in SEEDS)


def test_pvm_over_several_sources_is_wrong_if_another_order_is_taken_after_a_kill(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(InArrivalOrder, "may_come", lambda self, source, number: True)
    assert any(pvm_is_wrong(seed, SHAPES["three sources"]) for seed in range(100))


def test_pvm_over_several_sources_is_wrong_with_a_watermark_for_each_source_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Plan, "is_by_arrival", False)
    assert any(pvm_is_wrong(seed, SHAPES["three sources"]) for seed in range(100))


def test_recomputing_over_several_sources_says_which_state_it_shows() -> None:
    for seed in SEEDS:
        shape = SHAPES["three sources"]
        assert not falls_short(seed, shape, [Level.CONVERGENT], "recompute", Level.STRONG)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_commit_is_the_view_at_its_vector(shape: str) -> None:
    for seed in SEEDS:
        assert not falls_short(seed, SHAPES[shape])


@pytest.mark.parametrize("shape", SHAPES)
def test_answers_that_come_where_their_view_stands_are_found_out(
    shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at_once(self: Place, snapshot: Snapshot, known: int) -> int:
        return self.cursor - 1

    monkeypatch.setattr(Place, "split", at_once)
    assert any(falls_short(seed, SHAPES[shape]) for seed in range(100))


def test_a_view_is_not_noted_further_than_the_change_logs_are_on_disk() -> None:
    maintenance = Deployment(0, LEVELS, SHAPES["three sources"]).views[0].maintenance
    sources = dict.fromkeys(maintenance.vector, 3)
    first = next(iter(sources))
    maintenance.move_on(first, 4)
    assert maintenance.noted(sources) is None
    noted = maintenance.noted({**sources, first: 4})
    assert noted is not None
    assert noted[first].number == 4
