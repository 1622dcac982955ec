"""Of each fault that is put back a deployment that shows it.

What a runner does step by step decides what a seed hits. After a change of that, those that show
nothing any more are looked for anew, from 0 on: `python -m tests.simulation.seeds` prints the
table as it has to be.
"""

import logging
import sys
from concurrent.futures import ProcessPoolExecutor

import pytest

from headwater.simulation.mishaps import Settings
from headwater.simulation.world import play
from tests.simulation.faults import FAULTS

_MOST = 10_000
SEEDS = {
    "identity by transaction number": 25,
    "epoch from the lease file alone": 3,
    "acknowledged when read": 50,
    "written and not synced": 0,
    "unsynced records of a killed runner": 5,
    "checkpoint unsynced": 3,
    "columns of running views alone": 3,
    "holes read over": 5,
    "answer inside a unit": 7,
    "answers that lack what was received": 46,
    "answers by count": 17,
    "answers where their view stands": 0,
    "what concerns a view is passed over": 0,
    "a replaced runner commits": 46,
    "a replaced runner acknowledges": 54,
    "states taken together": 75,
    "watermark that jumps": 63,
    "vector before its change": 23,
    "noted before it is settled": 0,
    "noted before it is logged": 1140,
    "entries put before they are synced": 0,
    "names that are not synced": 3,
    "a replaced runner begins a segment": 502,
    "folders of a killed runner": 145,
    "merged transactions of no concern": 151,
    "a lost answer counts as refused": 25,
    "folded files go first": 177,
    "a log begun anew forgets first": 16,
    "gaps passed": 0,
    "tables of members not made up": 8,
    "tail not looked up": 44,
    "base not looked up": 4,
    "halves of transactions committed": 94,
    "parts taken by themselves": 10,
    "answers overtake held parts": 362,
    "parts forgotten at a crash": 10,
    "loads that divide": 43,
    "parts reflected one by one": 65,
    "copies at the last commit": 36,
    "copies with what is committed twice": 496,
    "another order after a crash": 4509,
    "loads that go back": 1403,
    "a shared snapshot that fits one view": 68,
}


def shows(fault: str, seed: int) -> bool:
    """Whether something is wrong with a deployment of a Headwater with this fault alone."""
    if play(Settings.of(seed))[1] is not None:
        return False
    with pytest.MonkeyPatch.context() as patch:
        FAULTS[fault](patch)
        return play(Settings.of(seed))[1] is not None


def found(fault: str) -> tuple[str, int]:
    """The seed that is known if it still does, and else the first that shows a fault."""
    logging.disable(logging.WARNING)
    known = SEEDS.get(fault)
    if known is not None and shows(fault, known):
        return fault, known
    return fault, next((seed for seed in range(_MOST) if shows(fault, seed)), -1)


if __name__ == "__main__":
    with ProcessPoolExecutor() as pool:
        for fault, seed in pool.map(found, FAULTS):
            sys.stdout.write(f'    "{fault}": {seed},\n')
