"""Whatever is done to databases and runners, a view is right, or says that it has stopped.

A round makes a world from its seed and takes steps in it. It ends with `run --once`: each view
then equals what the database itself computes, or the command failed with a sentence, and what the
sentence asks for makes the view right. `HEADWATER_FAULT_SEED` is the first seed,
`HEADWATER_FAULT_ROUNDS` how many there are, `HEADWATER_FAULT_STEPS` replays the steps that a failure printed.
"""

from __future__ import annotations

import os

import pytest

from headwater.sources.postgres.embedded import shared_server
from tests.faults.commands import Fault
from tests.faults.rounds import Tally, given, play, random_steps, shrink, written

FIRST = int(os.environ.get("HEADWATER_FAULT_SEED", "1"))
ROUNDS = int(os.environ.get("HEADWATER_FAULT_ROUNDS", "25"))
MANY_ROUNDS = int(os.environ.get("HEADWATER_FAULT_ROUNDS", "2000"))


def play_rounds(first: int, count: int) -> None:
    tally = Tally()
    failures = []
    for seed in range(first, first + count):
        steps = given() or random_steps(seed)
        try:
            play(seed, steps, shared_server, tally)
        except Fault as fault:
            failures.append(f"seed {seed}, steps {written(steps)}:\n{fault}")
            if len(failures) >= 3:
                break
    print(tally)  # noqa: T201
    assert not failures, "\n\n".join(failures)


def test_whatever_is_done_views_are_right_or_have_stopped_with_a_sentence() -> None:
    play_rounds(FIRST, ROUNDS)


@pytest.mark.stress
def test_whatever_is_done_in_many_rounds_views_are_right_or_have_stopped() -> None:
    play_rounds(FIRST, MANY_ROUNDS)


__all__ = ["shrink"]
