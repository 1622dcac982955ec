"""One run of a simulation under a schedule, recorded as a trace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headwater.algebra.evaluate import evaluate
from headwater.algebra.rows import Rows
from headwater.check.verdict import Verdict, check
from headwater.lab.schedules import Chooser
from headwater.lab.world import Action, Simulation, Step
from headwater.protocol.effects import Ask
from headwater.protocol.events import AnswerArrived, Event, Idled, TransactionArrived
from headwater.protocol.notation import show_query
from headwater.protocol.trace import (
    Answered,
    Entry,
    Evaluated,
    Executed,
    Received,
    Sent,
    Showed,
    Trace,
    Waited,
)


@dataclass(frozen=True)
class Run:
    schedule: tuple[Action, ...]
    trace: Trace
    verdict: Verdict


def run(simulation: Simulation, choose: Chooser) -> Run:
    """Step until nothing more can happen, and judge what the view showed."""
    world = simulation.start()
    initial = simulation.seen(world.view)
    schedule: list[Action] = []
    entries: list[Entry] = []
    kept: dict[str, Rows] = {}
    while enabled := simulation.enabled(world):
        action = choose(enabled)
        world, step = simulation.step(world, action)
        schedule.append(action)
        entries += _entries(step, kept)
    trace = Trace(initial, tuple(entries))
    return Run(tuple(schedule), trace, check(simulation.history, trace.states))


def _entries(step: Step, kept: dict[str, Rows]) -> Iterator[Entry]:
    """What a step did; `kept` remembers the values that belong to answers still to come."""
    if step.executed is not None:
        yield Executed(step.action.source, step.executed)
    elif isinstance(step.sent, AnswerArrived):
        yield Evaluated(step.sent.source, step.sent.label, step.sent.results)
    shown = iter(step.shown)
    for event, effects in step.handled:
        yield _taken(event, kept)
        for effect in effects:
            if isinstance(effect, Ask):
                if effect.kept:
                    kept[effect.label] = evaluate(effect.kept, {})
                queries = tuple(show_query(query + effect.kept) for query in effect.queries)
                terms = sum(len(query) for query in effect.queries)
                yield Sent(effect.source, effect.label, queries, terms)
            else:
                yield Showed(next(shown), effect.transactions)


def _taken(event: Event, kept: dict[str, Rows]) -> Entry:
    match event:
        case TransactionArrived(transaction):
            return Received(transaction)
        case AnswerArrived(source, label, results):
            if label in kept:
                results = (results[0] + kept.pop(label),)
            return Answered(source, label, results)
        case Idled():
            return Waited()
