"""Rings whose parties crash: under epochs nothing is lost and nothing counts twice."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from headwater.algorithms.away_node import AwayNode, AwayState
from headwater.algorithms.hosted import Did, Hosted, HostedState, Told
from headwater.algorithms.registry import algorithm, make_hosted
from headwater.check.levels import Level
from headwater.check.standing import Tracker
from headwater.lab.explore import explore
from headwater.lab.generate import Shape, generate
from headwater.lab.lives import Lives
from headwater.lab.scenario import Scenario
from headwater.lab.schedules import Chooser, replayed
from headwater.lab.world import Move
from headwater.protocol.effects import Effect
from headwater.protocol.events import AnswerArrived, Event, MessageArrived
from tests.scenarios import COUNTEREXAMPLES, counters, load_scenarios

STRESS = os.environ.get("HEADWATER_STRESS") == "1"
PROTOCOLS = ("rings", "rings-star")


class WithoutEpochs(Hosted):
    """Takes in what nodes did in earlier lives."""

    def handle(self, state: HostedState, event: Event) -> tuple[HostedState, tuple[Effect, ...]]:
        if isinstance(event, MessageArrived) and isinstance(event.message, Did):
            event = replace(event, message=replace(event.message, epoch=self.epoch))
        return super().handle(state, event)


class TakesOldTokens(AwayNode):
    """Takes in what it was told in earlier lives, as far as it can."""

    def handle(self, state: AwayState, told: Told) -> tuple[AwayState, Did | None]:
        if isinstance(told.event, AnswerArrived) and state.answer is None:
            return state, None
        return super().handle(state, replace(told, epoch=state.epoch))


def lives(
    scenario: Scenario,
    name: str,
    away: str | None = None,
    repeats: int = 1,
    host: Callable[..., Hosted] = Hosted,
    node: Callable[..., AwayNode] = AwayNode,
    crashes: int = 1,
) -> Lives:
    """A protocol whose nodes are away, all of them or some."""
    made = make_hosted(algorithm(name), scenario.view, {})
    assert isinstance(made, Hosted)
    gone = frozenset(scenario.view.sources if away is None else away)
    hosted = host(made.warehouse, made.nodes, made.restless, gone)
    nodes = {source: node(made.nodes[source]) for source in sorted(gone)}
    return Lives(scenario, hosted, nodes, crashes, repeats)


def counted(steps: str) -> Scenario:
    return counters(*steps, sources="".join(sorted(set(steps))))


def played(simulation: Lives, choose: Chooser) -> Level:
    """What a run under one schedule keeps."""
    tracker = Tracker(simulation.history)
    world = simulation.start()
    standing = tracker.start(simulation.seen(world.view))
    while enabled := simulation.enabled(world):
        world, step = simulation.step(world, choose(enabled))
        for shown in step.shown:
            standing = tracker.advance(standing, shown)
    return tracker.level(standing)


def drawn(seed: int) -> Chooser:
    """A schedule in which crashes are seldom, so that they come late as well."""
    random = Random(seed)
    weights = {"crash": random.choice([0.05, 0.3, 2.0]), "late": random.choice([0.1, 1.0])}

    def choose(enabled: tuple[Move, ...]) -> Move:
        return random.choices(enabled, [weights.get(move.kind, 1.0) for move in enabled])[0]

    return choose  # type: ignore[return-value]  # what is possible is a tuple here


# All schedules with one crash


@pytest.mark.parametrize(
    ("name", "steps", "away", "repeats"),
    [("rings", "xx", "x", 1), ("rings-star", "xx", "x", 2), ("rings-star", "xy", "x", 1)]
    + [("rings", "xx", "x", 2), ("rings", "xy", "x", 1), ("rings-star", "xy", "xy", 1)] * STRESS,
)
def test_nothing_is_lost_with_a_party_whenever_it_crashes(
    name: str, steps: str, away: str, repeats: int
) -> None:
    found = explore(lives(counted(steps), name, away, repeats))
    assert found.exhaustive
    assert found.level >= Level.STRONG, found.counterexample


@pytest.mark.parametrize("name", PROTOCOLS)
def test_random_joins_stay_strong_over_several_crashes(name: str) -> None:
    for seed in range(2000 if STRESS else 30):
        shape = Shape(
            "source-local", relations=2 + seed % 2, sources=2, transactions=4, terms=1 + seed % 2
        )
        simulation = lives(generate(seed, shape), name, repeats=2, crashes=3)
        assert played(simulation, drawn(seed)) >= Level.STRONG, seed


# What epochs are for


WEAKENED: dict[str, Callable[[Scenario], Lives]] = {
    "rings-without-epochs": lambda s: lives(s, "rings", host=WithoutEpochs),
    "rings-star-without-epochs": lambda s: lives(s, "rings-star", host=WithoutEpochs),
    "rings-nodes-without-epochs": lambda s: lives(s, "rings", node=TakesOldTokens),
    "rings-star-nodes-without-epochs": lambda s: lives(s, "rings-star", node=TakesOldTokens),
}


def kept(name: str) -> Scenario:
    (scenario,) = load_scenarios(COUNTEREXAMPLES / f"{name}.json")
    return scenario


@pytest.mark.parametrize("name", WEAKENED)
def test_what_is_without_epochs_is_caught_by_its_counterexample(name: str) -> None:
    scenario = kept(name)
    steps = scenario.data["schedule"]
    assert isinstance(steps, list)
    level = played(WEAKENED[name](scenario), replayed(Move(str(step)) for step in steps))
    assert {"level": str(level)} == scenario.data["expect"]
    assert level < Level.STRONG


@pytest.mark.parametrize("name", WEAKENED)
def test_with_epochs_the_same_holds(name: str) -> None:
    protocol = "rings-star" if "star" in name else "rings"
    for seed in range(20):
        assert played(lives(kept(name), protocol), drawn(seed)) >= Level.STRONG, seed
