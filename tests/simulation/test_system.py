"""Deployments that are crashed, paused and replaced: nothing is lost, nothing is wrong."""

import logging
import os

import pytest

from headwater.simulation.many import outcomes
from headwater.simulation.mishaps import Settings, Tally
from headwater.simulation.shrinking import shrink
from headwater.simulation.world import World, play
from tests.simulation.faults import FAULTS
from tests.simulation.seeds import SEEDS

STRESS = os.environ.get("HEADWATER_STRESS") == "1"
MANY_CRASHES = 100_000
PARTS = 8


def test_whatever_crashes_every_commit_is_the_view_at_its_vector() -> None:
    total = Tally.empty()
    for seed in range(40):
        tally, wrong = play(Settings.of(seed))
        assert wrong is None, f"headwater lab system --seeds {seed}: {wrong}"
        total.add(tally)
    assert total.crashes >= 250
    assert total.commits >= 500


def test_whatever_crashes_no_commit_shows_a_part_of_a_transaction_across_databases() -> None:
    """One of eleven deployments has them; in every second of these parts may never come."""
    seeds = range(10, 10 + 11 * 8, 11)
    assert {Settings.of(seed).across for seed in seeds} == {True, False}
    for seed in seeds:
        _, wrong = play(Settings.of(seed))
        assert wrong is None, f"headwater lab system --seeds {seed}: {wrong}"


def test_whatever_crashes_a_view_that_is_recomputed_keeps_its_level_and_never_goes_back() -> None:
    """In some deployments a load may be found to be quicker at any moment."""
    total = Tally.empty()
    for seed in (12, 38, 51, 77, 90, 116, 129, 155, 168, 194):
        assert Settings.of(seed).recomputes
        tally, wrong = play(Settings.of(seed))
        assert wrong is None, f"headwater lab system --seeds {seed}: {wrong}"
        total.add(tally)
    assert sum(count for (doing, _), count in total.hit.items() if doing == "recompute") >= 2


@pytest.mark.parametrize("seed", [516])
def test_parts_that_cancel_out_where_they_are_reported_as_one_belong_to_their_transactions(
    seed: int,
) -> None:
    """What a source reports changed nothing, and the others went on by themselves."""
    assert play(Settings.of(seed))[1] is None


@pytest.mark.stress
@pytest.mark.parametrize("part", range(PARTS))
def test_a_hundred_thousand_crashes_violate_nothing(part: int) -> None:
    total = Tally.empty()
    seed = 1_000_000 * (part + 1)
    while total.crashes < MANY_CRASHES // PARTS:
        tally, wrong = play(Settings.of(seed))
        assert wrong is None, f"headwater lab system --seeds {seed}: {wrong}"
        total.add(tally)
        seed += 1
    assert not total.not_hit


@pytest.mark.parametrize("fault", SEEDS)
def test_a_fault_that_is_put_back_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.of(SEEDS[fault])
    assert play(settings)[1] is None
    FAULTS[fault](monkeypatch)
    assert play(settings)[1] is not None


@pytest.mark.parametrize("seed", [209])
def test_a_view_by_pvm_may_take_away_what_it_has_not_added_yet(seed: int) -> None:
    """What is noted and folded in between is not the view at its watermarks, and nothing wrong."""
    assert play(Settings.of(seed))[1] is None


def test_the_same_seed_is_the_same_deployment() -> None:
    traces: list[list[str]] = [[], []]
    for trace in traces:
        play(Settings.of(3), trace)
    assert traces[0] == traces[1]


@pytest.mark.parametrize("seed", [3, 5])
def test_what_has_happened_in_a_deployment_can_be_given_to_it(seed: int) -> None:
    """Processes stand while others go on: what happens to them happens at their own step."""
    traces: list[list[str]] = [[], []]
    world = World(Settings.of(seed), traces[0])
    world.run()
    World(world.mishaps.as_given(), traces[1]).run()
    assert traces[0] == traces[1]


def test_what_goes_wrong_is_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    FAULTS["epoch from the lease file alone"](monkeypatch)
    settings = Settings.of(SEEDS["epoch from the lease file alone"])
    smaller = shrink(settings)
    assert play(smaller)[1] is not None
    assert len(smaller.given or ()) < settings.mishaps


def test_deployments_leave_what_is_logged_as_it_was() -> None:
    logger = logging.getLogger("headwater")
    level = logger.level
    assert len(list(outcomes([0], jobs=1))) == 1
    assert logger.level == level


def test_whatever_an_object_store_loses_every_commit_is_the_view_at_its_vector() -> None:
    """Answers are lost, and puts of replaced runners land late, in some deployments."""
    for seed in (12, 25, 51, 64, 90):
        settings = Settings.of(seed)
        assert settings.objects
        _, wrong = play(settings)
        assert wrong is None, f"headwater lab system --seeds {seed}: {wrong}"
