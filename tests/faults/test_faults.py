"""Whatever is done to databases and runners, a view is right, or says that it has stopped.

A round makes a world from its seed and takes steps in it. It ends with `run --once`: each view
then equals what the database itself computes, or the command failed with a sentence, and what the
sentence asks for makes the view right.

`HEADWATER_FAULT_SEED` is the first seed, `HEADWATER_FAULT_ROUNDS` says how many there are, and
`HEADWATER_FAULT_STEPS` replays the steps that a failure printed, with that seed and one round.
"""

from __future__ import annotations

import os
import time

import pytest

from headwater.embedded.postgres import shared_server
from tests.faults.commands import FaultError
from tests.faults.rounds import Step, fails, given, play, random_steps, shrink, written
from tests.faults.tally import Tally

FIRST = os.environ.get("HEADWATER_FAULT_SEED")
ROUNDS = os.environ.get("HEADWATER_FAULT_ROUNDS")
PARTS = 8


def play_rounds(first: int, count: int) -> None:
    tally = Tally()
    for seed in range(first, first + count):
        steps = given() or random_steps(seed)
        try:
            play(seed, steps, shared_server, tally)
        except FaultError as fault:
            pytest.fail(_explained(seed, steps, str(fault)), pytrace=False)
    print(tally)  # noqa: T201


def _explained(seed: int, steps: list[Step], fault: str) -> str:
    """The fault with as few steps as can be found, and how to see it again."""
    fewer = shrink(seed, steps, shared_server)
    shown = fails(seed, fewer, shared_server) or fault
    replay = f"HEADWATER_FAULT_SEED={seed} HEADWATER_FAULT_ROUNDS=1"
    return f"{shown}\n\n{replay} HEADWATER_FAULT_STEPS={written(fewer)}\nAt first: {written(steps)}"


def test_whatever_is_done_views_are_right_or_have_stopped_with_a_sentence() -> None:
    play_rounds(int(FIRST or 1), int(ROUNDS or 5))


@pytest.mark.stress
@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_is_done_in_many_rounds_views_are_right_or_have_stopped(part: int) -> None:
    """Other seeds each time, in parts that can run side by side."""
    count = int(ROUNDS or 2000) // PARTS
    play_rounds(int(FIRST or time.time_ns() // 1000) + part * count, count)
