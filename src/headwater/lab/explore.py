"""Exploration: every schedule of a scenario, with equivalent ones merged.

Breadth first over pairs of world and progress of the checker. Two runs that reach the same
pair after the same number of steps go on alike and end with the same level, so they are
followed once; their number is kept, so that the count of schedules is exact. The first run
found with the lowest level is a shortest one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from headwater.algebra.rows import Rows
from headwater.check.history import History
from headwater.check.levels import Level
from headwater.check.standing import Standing, Tracker
from headwater.lab.world import Move, Step

MOST_STATES = 1_000_000


World: TypeAlias = Any
"""A value; its `view` is what the warehouse shows."""


class Explored(Protocol):
    """What can be stepped: a simulation, or one in which parties crash (see `lives`)."""

    @property
    def history(self) -> History: ...
    def start(self) -> World: ...
    def seen(self, contents: Rows) -> Rows: ...
    def enabled(self, world: World) -> tuple[Move, ...]: ...
    def step(self, world: World, move: Move) -> tuple[World, Step]: ...


@dataclass(frozen=True)
class Exploration:
    schedules: int
    """How many different schedules there are (those seen, if not exhaustive)."""
    states: int
    """How many different states were visited."""
    level: Level
    """The lowest level of any schedule."""
    counterexample: tuple[Move, ...] | None
    """A shortest schedule that reaches no more than `level`; None if all are complete."""
    exhaustive: bool
    """Whether every schedule was tried."""


@dataclass
class _Search:
    """Breadth-first search, one layer of equally long runs at a time."""

    simulation: Explored
    most_states: int
    inspect: Callable[[World], None] | None
    origins: list[tuple[int, Move | None]] = field(default_factory=list)
    """For every state visited the state before it and the move that led here."""
    schedules: int = 0
    worst: tuple[Level, int] | None = None

    def run(self) -> bool:
        """Search all; False when the bound on states was hit."""
        tracker = Tracker(self.simulation.history)
        world = self.simulation.start()
        layer = {
            (world, tracker.start(self.simulation.seen(world.view))): (self._visit(-1, None), 1)
        }
        while layer:
            following: dict[tuple[World, Standing], tuple[int, int]] = {}
            for (world, standing), (number, paths) in layer.items():
                enabled = self.simulation.enabled(world)
                if not enabled:
                    if self.inspect is not None:
                        self.inspect(world)
                    self._end(tracker.level(standing), number, paths)
                for move in enabled:
                    after, step = self.simulation.step(world, move)
                    reached = standing
                    for shown in step.shown:
                        reached = tracker.advance(reached, shown)
                    key = (after, reached)
                    known = following.get(key)
                    if known is None:
                        following[key] = (self._visit(number, move), paths)
                    else:
                        following[key] = (known[0], known[1] + paths)
            layer = following
            if len(self.origins) > self.most_states and layer:
                return False
        return True

    def _visit(self, before: int, move: Move | None) -> int:
        self.origins.append((before, move))
        return len(self.origins) - 1

    def _end(self, level: Level, number: int, paths: int) -> None:
        self.schedules += paths
        if self.worst is None or level < self.worst[0]:
            self.worst = (level, number)

    def schedule_to(self, number: int) -> tuple[Move, ...]:
        moves: list[Move] = []
        while number >= 0:
            number, move = self.origins[number]
            if move is not None:
                moves.append(move)
        return tuple(reversed(moves))


def explore(
    simulation: Explored,
    most_states: int = MOST_STATES,
    inspect: Callable[[World], None] | None = None,
) -> Exploration:
    """Try every schedule and find the lowest level.

    `inspect` is called with every different world in which a run ends.
    """
    search = _Search(simulation, most_states, inspect)
    exhaustive = search.run()
    level, number = search.worst or (Level.COMPLETE, 0)
    counterexample = None if level == Level.COMPLETE else search.schedule_to(number)
    return Exploration(search.schedules, len(search.origins), level, counterexample, exhaustive)
