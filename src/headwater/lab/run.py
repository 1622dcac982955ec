"""One run of a simulation under a schedule, recorded as a trace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from headwater.algebra.evaluate import evaluate
from headwater.algebra.rows import Rows
from headwater.check.verdict import Verdict, check
from headwater.lab.schedules import Chooser
from headwater.lab.world import Move, Simulation, Step, World
from headwater.protocol.effects import Apply, Ask, Send
from headwater.protocol.events import (
    AnswerArrived,
    Event,
    Idled,
    MessageArrived,
    TransactionArrived,
)
from headwater.protocol.messages import WAREHOUSE
from headwater.protocol.notation import show_query
from headwater.protocol.trace import (
    Answered,
    Consulted,
    Delivered,
    Entry,
    Evaluated,
    Executed,
    Posted,
    Received,
    Roused,
    Sent,
    Showed,
    Trace,
    Waited,
)


@dataclass(frozen=True)
class Run:
    schedule: tuple[Move, ...]
    trace: Trace
    verdict: Verdict


def run(simulation: Simulation, choose: Chooser) -> Run:
    """Step until nothing more can happen, and judge what the view showed."""
    world = simulation.start()
    initial = simulation.seen(world.view)
    schedule: list[Move] = []
    entries: list[Entry] = []
    kept: dict[str, Rows] = {}
    asked: dict[str, Ask] = {}
    entries += _first_messages(world)
    while enabled := simulation.enabled(world):
        move = choose(enabled)
        world, step = simulation.step(world, move)
        schedule.append(move)
        entries += _node_entries(step, asked) if simulation.nodes else _entries(step, kept, asked)
    trace = Trace(initial, tuple(entries))
    return Run(tuple(schedule), trace, check(simulation.history, trace.states))


def _entries(step: Step, kept: dict[str, Rows], asked: dict[str, Ask]) -> Iterator[Entry]:
    """What a step did; `kept` remembers the values that belong to answers still to come, `asked`
    the questions that copies answer."""
    if step.executed is not None:
        yield Executed(step.move.source, step.executed)
    elif isinstance(step.sent, AnswerArrived):
        yield Evaluated(step.sent.source, step.sent.label, step.sent.results)
    shown = iter(step.shown)
    for event, effects in step.handled:
        if isinstance(event, AnswerArrived) and event.label in step.consulted:
            queries = tuple(map(show_query, asked.pop(event.label).queries))
            yield Consulted(WAREHOUSE, queries, event.results)
        else:
            yield _taken(event, kept)
        for effect in effects:
            if isinstance(effect, Ask):
                if effect.label in step.consulted:
                    asked[effect.label] = effect
                    continue
                if effect.kept:
                    kept[effect.label] = evaluate(effect.kept, {})
                queries = tuple(show_query(query + effect.kept) for query in effect.queries)
                terms = sum(len(query) for query in effect.queries)
                yield Sent(effect.source, effect.label, queries, terms)
            elif isinstance(effect, Apply):
                yield Showed(next(shown), effect.transactions)


def _first_messages(world: World) -> list[Entry]:
    """What nodes sent before anything happened."""
    return [
        _posted(event.sender, Send(event.receiver, event.message))
        for _, event in world.mail
        if isinstance(event, MessageArrived)
    ]


def _node_entries(step: Step, asked: dict[str, Ask]) -> Iterator[Entry]:
    """What a step did where sources have nodes; `asked` has the nodes' own questions."""
    shown = iter(step.shown)
    if step.executed is not None:
        yield Executed(step.move.source, step.executed)
    for event, effects in step.handled:
        match event:
            case AnswerArrived(source, _, results):
                queries = tuple(map(show_query, asked.pop(source).queries))
                yield Consulted(source, queries, results)
            case MessageArrived(sender, receiver, message):
                yield Delivered(sender, receiver, message.label)
            case Idled():
                yield Roused(step.party) if step.party else Waited()
            case TransactionArrived():
                pass  # it was executed in the same step
            case _:
                assert_never(event)
        for effect in effects:
            match effect:
                case Ask(source=source):
                    asked[source] = effect
                case Apply(transactions=transactions):
                    yield Showed(next(shown), transactions)
                case Send():
                    yield _posted(step.party, effect)
                case _:
                    assert_never(effect)


def _posted(sender: str, effect: Send) -> Posted:
    message = effect.message
    return Posted(sender, effect.receiver, str(message), message.byte_count)


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
        case MessageArrived():
            raise AssertionError("only nodes send messages")
