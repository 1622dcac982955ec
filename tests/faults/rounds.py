"""Rounds: a world and steps from a seed, a replay of them, and the fewest steps that still fail."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from headwater.sources.postgres.embedded import PostgresServer
from tests.faults.commands import Fault
from tests.faults.steps import ACTIONS
from tests.faults.world import World

Step = tuple[str, int]
"""An action's name and the seed of its choices."""
Server = Callable[[], PostgresServer]


@dataclass
class Tally:
    """How often each action was followed by what."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)

    def note(self, actions: Sequence[str], outcome: str) -> None:
        self.outcomes.update((action, outcome) for action in dict.fromkeys(actions))

    def __str__(self) -> str:
        columns = sorted({outcome for _, outcome in self.outcomes})
        lines = [f"{'':36}" + "".join(f"{column:>12}" for column in columns)]
        for action in ACTIONS:
            counts = [self.outcomes[action, column] for column in columns]
            if any(counts):
                lines.append(f"{action:36}" + "".join(f"{count:12,}" for count in counts))
        return "\n".join(lines)


def random_steps(seed: int, off: frozenset[str] = frozenset()) -> list[Step]:
    random = Random(seed)
    actions = [action for name, action in ACTIONS.items() if name not in off]
    weights = [action.weight for action in actions]
    chosen = random.choices(actions, weights, k=random.randint(4, 14))
    return [(action.name, random.randrange(10**6)) for action in chosen]


def play(seed: int, steps: Sequence[Step], server: Server, tally: Tally | None = None) -> None:
    """One round; a Fault tells what went wrong, and what was said before."""
    tally = tally or Tally()
    # A short path: the database's and the warehouse's own names make it long enough.
    with tempfile.TemporaryDirectory(prefix="faults") as folder:
        world = World.make(Path(folder), Random(seed), server)
        try:
            _play(world, seed, steps, tally)
        except Fault as fault:
            raise Fault("\n".join([str(fault), "What was said:", *world.history])) from fault
        finally:
            world.close()


def _play(world: World, seed: int, steps: Sequence[Step], tally: Tally) -> None:
    for source in world.databases:
        world.command("setup", source)
    world.run()
    since: list[str] = []
    for name, step_seed in steps:
        world.note(f"-- {name}")
        if ACTIONS[name].do(world, Random(step_seed)) is False:
            tally.note([name], "not possible")
            continue
        since.append(name)
    stopped = bool(world.reasons)
    ACTIONS["sources_come_back"].do(world, Random(seed))
    world.note("-- the end")
    world.settle(Random(seed))
    tally.note(since, "put right" if stopped and len(world.history) else "right")


def shrink(seed: int, steps: Sequence[Step], server: Server, tries: int = 60) -> list[Step]:
    """Fewer steps that still end in a fault: halves are left out, then quarters, then single ones."""
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
    except Fault as fault:
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
