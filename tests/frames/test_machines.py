"""View managers run on Frames as they are, and no join is left to memory."""

from dataclasses import dataclass, replace

import pytest
from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.algorithms.registry import algorithm, make_manager
from headwater.frames.engine import Engine
from headwater.frames.frame import Frame
from headwater.frames.naming import named, tell
from headwater.lab.library import example
from headwater.lab.scenario import Scenario
from headwater.lab.schedules import seeded
from headwater.lab.world import Simulation
from headwater.protocol.effects import Apply, Ask, apply_actions
from headwater.protocol.events import (
    AnswerArrived,
    Event,
    Idled,
    MessageArrived,
    TransactionArrived,
)
from headwater.protocol.transactions import Transaction


@dataclass(frozen=True)
class Played:
    """What a view manager received and when, and the view in the end, from a run in memory."""

    events: tuple[Event, ...]
    view: Rows


def play(scenario: Scenario, name: str, seed: int) -> Played:
    simulation = Simulation(scenario, make_manager(algorithm(name), scenario.view, {}))
    world, choose, events = simulation.start(), seeded(seed), []
    while enabled := simulation.enabled(world):
        world, step = simulation.step(world, choose(enabled))
        events += [event for event, _ in step.handled]
    return Played(tuple(events), world.view)


def lifted(engine: Engine, event: Event) -> Event:
    match event:
        case TransactionArrived(transaction):
            return TransactionArrived(lifted_transaction(engine, transaction))
        case AnswerArrived(results=results):
            return replace(event, results=tuple(engine.lift(rows) for rows in results))
        case Idled() | MessageArrived():
            return event


def lifted_transaction(engine: Engine, transaction: Transaction) -> Transaction:
    updates = (replace(u, delta=engine.lift(u.delta)) for u in transaction.updates)
    return replace(transaction, updates=tuple(updates))


@pytest.mark.parametrize(
    ("name", "scenario"),
    [("sweep", "pvm-22"), ("pvm", "pvm-22"), ("pvm", "pvm-8"), ("eca", "eca-4")],
)
def test_a_view_manager_on_frames_ends_with_the_same_view(
    spark: SparkSession, name: str, scenario: str
) -> None:
    chosen = example(scenario)
    played = play(chosen, name, seed=3)
    engine = Engine(lambda: spark, "spark")
    manager = make_manager(algorithm(name), chosen.view, {})
    initial = chosen.history.view_at(chosen.history.origin)
    state, view = manager.start(), engine.lift(initial)
    joined_before, asked = Rows.rows_joined, 0
    for event in played.events:
        state, effects = manager.handle(state, lifted(engine, event))
        for effect in effects:
            match effect:
                case Ask():
                    asked += 1
                case Apply(actions=actions):
                    view = engine.settle(apply_actions(view, actions))
    assert asked > 0
    assert isinstance(view, Frame)
    assert view == played.view
    assert Rows.rows_joined == joined_before


@pytest.mark.parametrize("name", ["sweep", "pvm"])
def test_a_question_takes_one_job_of_spark_at_most(spark: SparkSession, name: str) -> None:
    """What an answer is joined with, what is taken out of it and whether anything is left."""
    chosen = example("pvm-22")
    played = play(chosen, name, seed=3)
    engine = Engine(lambda: spark, "spark")
    manager = make_manager(algorithm(name), chosen.view, {})
    state, answers, group = manager.start(), 0, f"a unit by {name}"
    for event in played.events:
        answers += isinstance(event, AnswerArrived)
        with named(group):
            tell(spark)
            state, effects = manager.handle(state, lifted(engine, event))
            for effect in effects:
                if isinstance(effect, Apply):
                    bool(apply_actions(Rows.empty(chosen.view.schema), effect.actions))
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup(group)
    assert 0 < len(jobs) <= answers
