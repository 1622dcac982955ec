"""Runs in virtual time: sources that take time to answer, one question at a time.

The PVM paper's section 7 and Figure 22. All transactions happen at the start, in the listed
order, or one after the other at an interval. A source serves its questions in order, each for a
fixed number of ticks; messages and the warehouse's own work take no time. What is measured is how
long it takes until every transaction is in the view.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from headwater.algebra.rows import Rows
from headwater.lab.world import Move, Simulation, World
from headwater.protocol.effects import Apply, Ask


@dataclass(frozen=True)
class Served:
    """A source worked on a question from tick `start`, and answered at tick `end`."""

    source: str
    label: str
    start: int
    end: int


@dataclass(frozen=True)
class TimedRun:
    served: tuple[Served, ...]
    commits: tuple[tuple[int, tuple[str, ...]], ...]
    """The tick of each step of the view, with the transactions that became visible."""
    view: Rows

    @property
    def ticks(self) -> int:
        """The tick at which the last answer came."""
        return max((served.end for served in self.served), default=0)

    def busy(self, source: str) -> int:
        """How many ticks a source worked."""
        return sum(s.end - s.start for s in self.served if s.source == source)


def run_timed(simulation: Simulation, ticks_per_question: int = 2, interval: int = 0) -> TimedRun:
    """Run with a transaction every `interval` ticks, 0: all at the start; deterministic."""
    clock = _Clock(simulation, simulation.start(), ticks_per_question)
    for number, transaction in enumerate(simulation.scenario.transactions):
        clock.answer_before(number * interval)
        for source in transaction.spans:
            clock.do(Move("commit", source), number * interval)
        if interval:
            clock.begin(number * interval)
    clock.begin(0)
    clock.answer_before(inf)
    return TimedRun(tuple(clock.served), tuple(clock.commits), simulation.seen(clock.world.view))


@dataclass
class _Clock:
    simulation: Simulation
    world: World
    ticks: int

    def __post_init__(self) -> None:
        self.asked: list[str] = []
        self.serving: dict[str, tuple[int, str]] = {}
        """Each busy source with the tick at which it answers, and the question."""
        self.served: list[Served] = []
        self.commits: list[tuple[int, tuple[str, ...]]] = []

    def do(self, move: Move, now: int) -> None:
        self.world, step = self.simulation.step(self.world, move)
        for _, effects in step.handled:
            for effect in effects:
                if isinstance(effect, Apply):
                    self.commits.append((now, effect.transactions))
                elif isinstance(effect, Ask):
                    self.asked.append(effect.label)

    def begin(self, now: int) -> None:
        """Let every idle source begin with its oldest question."""
        for at, source in enumerate(self.simulation.history.sources):
            if source not in self.serving and self.world.questions[at]:
                self.serving[source] = (now + self.ticks, self.world.questions[at][0].label)

    def answer_before(self, end: float) -> None:
        """Take in every answer that comes before a tick."""
        while self.serving and min(tick for tick, _ in self.serving.values()) < end:
            self.next_answer()

    def next_answer(self) -> None:
        """Go to the earliest tick at which answers come; take them in as they were asked for."""
        now = min(end for end, _ in self.serving.values())
        due = [(label, source) for source, (end, label) in self.serving.items() if end == now]
        for label, source in sorted(due, key=lambda item: self.asked.index(item[0])):
            del self.serving[source]
            self.served.append(Served(source, label, now - self.ticks, now))
            self.do(Move("answer", source), now)
        self.begin(now)
