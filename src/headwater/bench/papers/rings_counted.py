"""What the Rings protocols cost: latency in message delays, and what travels, beside others.

Latency, as the Rings paper counts it (sections 4.2 and 4.4): every message takes one unit of
time, processing takes none, and a node asks its own source in no time. Measured from the update
to the step of the view that shows it, in the worst case over the place where the token happens
to be and over the items. The paper gives 2n for the basic ring and n for the star, for one
update. It counts visits of the token; in the star each visit is two messages, and the request is
one more. Both are given.

What travels is counted alike for all algorithms: every message between sites, and the bytes of
the rows in it. For SWEEP and Strobe these are notifications, questions with the rows bound in
them, and answers; for the rings tokens, increments and requests. The database beside a node is
not another site. Each item is updated three times, so that what can be netted is netted and
something is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headwater.lab.generate import chain
from headwater.lab.scenario import Scenario
from headwater.lab.simulate import simulate
from headwater.lab.world import Move, Simulation, Step, World
from headwater.protocol.effects import Apply, Ask, Send
from headwater.protocol.events import AnswerArrived, MessageArrived, TransactionArrived

PROTOCOLS = ("rings", "rings-star")
COMPARED = (*PROTOCOLS, "sweep", "strobe")


@dataclass(frozen=True)
class Latency:
    """How long it takes until an update is in the view, in the worst case."""

    algorithm: str
    items: int
    one: int
    """Message delays, when one item is updated."""
    one_visits: int
    """Visits of the token before the message that brings it to the warehouse."""
    one_paper: int
    all: int
    """Message delays until the last one is in, when all items are updated at once."""
    all_visits: int
    all_paper: int


def measure_latency(name: str, items: int) -> Latency:
    scenario = chain(items, items)
    sources = scenario.sources
    phases = range(items) if name == "rings" else range(1)
    one = [_until_shown(scenario, name, phase, [s]) for phase in phases for s in sources]
    every = [_until_shown(scenario, name, phase, sources) for phase in phases]
    (one_ticks, one_visits), (all_ticks, all_visits) = max(one), max(every)
    paper = 2 * items if name == "rings" else items
    return Latency(name, items, one_ticks, one_visits, paper, all_ticks, all_visits, 2 * items)


def _until_shown(
    scenario: Scenario, name: str, phase: int, updated: Sequence[str]
) -> tuple[int, int]:
    """Message delays and visits from updates, `phase` ticks after the start, to the view."""
    clock = _Clock(simulate(scenario, name))
    for _ in range(phase):
        clock.tick()
    clock.ticks = clock.visits = visits = 0
    for source in updated:
        clock.do(Move("commit", source))
    while clock.shown < len(updated):
        visits = clock.visits
        clock.tick()
    return clock.ticks, visits


class _Clock:
    """Time in which every message takes one tick."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.world = simulation.start()
        self.ticks = self.visits = self.shown = 0

    def tick(self) -> None:
        """Let everything arrive that is in flight now."""
        self.ticks += 1
        arriving = [a for a in self.simulation.enabled(self.world) if a.kind == "deliver"]
        assert arriving, "nothing is in flight"
        for move in arriving:
            self.do(move)

    def do(self, move: Move) -> None:
        """One step, and the answers that nodes then get from their sources."""
        self.world, step = self.simulation.step(self.world, move)
        self.visits += move.kind == "deliver" and bool(step.party)
        applied = [e for _, effects in step.handled for e in effects if isinstance(e, Apply)]
        self.shown += sum(len(effect.transactions) for effect in applied)
        for answer in self.simulation.enabled(self.world):
            if answer.kind == "answer":
                self.do(answer)


@dataclass(frozen=True)
class Traffic:
    """What travels between sites over a number of updates, per update."""

    algorithm: str
    items: int
    quiet_messages: float
    """With updates far apart."""
    quiet_bytes: float
    busy_messages: float
    """With all updates before anything else."""
    busy_bytes: float


def measure_traffic(name: str, items: int) -> Traffic:
    updates = 3 * items
    scenario = chain(items, updates)
    quiet = count_traffic(simulate(scenario, name, {"timing": "serial"}))
    busy = count_traffic(simulate(scenario, name))
    return Traffic(name, items, *(count / updates for count in (*quiet, *busy)))


def count_traffic(simulation: Simulation) -> tuple[int, int]:
    """Messages and bytes of a run in which updates come as soon as they can."""
    world = simulation.start()
    messages, size = _in_flight(world)
    while enabled := simulation.enabled(world):
        commits = [move for move in enabled if move.kind == "commit"]
        world, step = simulation.step(world, (commits or enabled)[0])
        for found in _sent(step, bool(simulation.nodes)):
            messages, size = messages + 1, size + found
    return messages, size


def _in_flight(world: World) -> tuple[int, int]:
    sizes = [e.message.byte_count for _, e in world.mail if isinstance(e, MessageArrived)]
    return len(sizes), sum(sizes)


def _sent(step: Step, has_nodes: bool) -> Iterable[int]:
    """The bytes of each message between sites that a step sends."""
    if not has_nodes:
        match step.sent:
            case TransactionArrived(transaction):
                yield sum(update.delta.byte_count for update in transaction.updates)
            case AnswerArrived(results=results):
                yield sum(rows.byte_count for rows in results)
    for _, effects in step.handled:
        for effect in effects:
            if isinstance(effect, Send):
                yield effect.message.byte_count
            elif isinstance(effect, Ask) and not has_nodes:
                terms = [term for query in effect.queries for term in query]
                yield sum(bound.rows.byte_count for term in terms for bound in term.bound)
