"""Rounds: a world and steps from a seed, a replay of them, and the fewest steps that still fail."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from headwater.embedded.postgres import PostgresServer
from tests.faults.commands import FaultError
from tests.faults.steps import applications, running, sources, tables, view_files, warehouse
from tests.faults.steps.action import ACTIONS
from tests.faults.tally import Tally
from tests.faults.world import World

Step = tuple[str, int]
"""An action's name and the seed of its choices."""
Server = Callable[[], PostgresServer]
ROOMS = (applications, running, view_files, tables, sources, warehouse)
"""Where the actions are; each puts its own into the table."""


def random_steps(seed: int, off: frozenset[str] = frozenset()) -> list[Step]:
    random = Random(seed)
    actions = [action for name, action in ACTIONS.items() if name not in off]
    weights = [action.weight for action in actions]
    chosen = random.choices(actions, weights, k=random.randint(4, 14))
    return [(action.name, random.randrange(10**6)) for action in chosen]


def play(seed: int, steps: Sequence[Step], server: Server, tally: Tally | None = None) -> None:
    """One round; a FaultError tells what went wrong, and what was said before."""
    with tempfile.TemporaryDirectory(prefix="faults") as folder:
        world = World.make(Path(folder), Random(seed), server, tally or Tally())
        try:
            _play(world, seed, steps)
        except FaultError as fault:
            raise FaultError("\n".join([str(fault), "What was said:", *world.history])) from fault
        finally:
            world.close()


def _play(world: World, seed: int, steps: Sequence[Step]) -> None:
    for source in world.databases:
        world.command("setup", source)
    world.run()
    for name, step_seed in steps:
        world.note(f"-- {name}")
        done = ACTIONS[name].do(world, Random(step_seed)) is not False
        world.tally.took(name, done)
    world.note("-- the end")
    sources.sources_come_back(world, Random(seed))
    world.settle(Random(seed))


def shrink(seed: int, steps: Sequence[Step], server: Server, tries: int = 60) -> list[Step]:
    """Fewer steps that still end in a fault: halves are left out, then quarters, then each."""
    kept = list(steps)
    size = max(1, len(kept) // 2)
    while tries and kept:
        for start in range(0, len(kept), size):
            shorter = kept[:start] + kept[start + size :]
            tries -= 1
            if tries >= 0 and fails(seed, shorter, server):
                kept = shorter
                break
        else:
            if size == 1:
                break
            size = max(1, size // 2)
    return kept


def fails(seed: int, steps: Sequence[Step], server: Server) -> str:
    """The fault that a round ends in; empty if it ends well."""
    try:
        play(seed, steps, server)
    except FaultError as fault:
        return str(fault)
    return ""


def written(steps: Sequence[Step]) -> str:
    """Steps as a text that can be given back in HEADWATER_FAULT_STEPS."""
    return ",".join(f"{name}:{seed}" for name, seed in steps)


def given() -> list[Step] | None:
    text = os.environ.get("HEADWATER_FAULT_STEPS")
    if text is None:
        return None
    pairs = [item.rpartition(":") for item in text.split(",") if item]
    return [(name, int(seed)) for name, _, seed in pairs]
