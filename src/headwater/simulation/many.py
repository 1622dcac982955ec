"""Many deployments, one after the other on each of several processors, until there were enough.

Seeds are taken in order, so that a number of crashes is the same deployments on every machine, but
for the last few that run beside the one that was enough.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from itertools import islice
from multiprocessing import get_context

from headwater.simulation.mishaps import Cell, Settings, Tally
from headwater.simulation.world import play

Outcome = tuple[int, Tally, str | None]
"""A seed, what was done and hit in its deployment, and what is wrong with it, if anything is."""

_AT_ONCE = 4
"""How many deployments a process is given together."""


def outcomes(seeds: Iterable[int], jobs: int) -> Iterator[Outcome]:
    """The deployments of these seeds, in their order; whoever has enough closes it."""
    if jobs == 1:
        yield from map(_outcome, seeds)
        return
    left = iter(seeds)
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        waiting: list[Future[list[Outcome]]] = []
        try:
            while chunk := list(islice(left, _AT_ONCE)):
                waiting.append(pool.submit(_outcomes, chunk))
                if len(waiting) > 2 * jobs:
                    yield from waiting.pop(0).result()
            while waiting:
                yield from waiting.pop(0).result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def aimed(seen: Tally) -> Iterator[tuple[Settings, Tally, str | None]]:
    """Deployments once more, with a crash at steps that no crash has met yet.

    What they do is to be added to `seen` before the next one is asked for.
    """
    tried = set[Cell]()
    while cells := set(seen.not_hit) - tried:
        cell = min(cells)
        tried.add(cell)
        settings, step = seen.owing[cell]
        settings = replace(settings, aims=(*settings.aims, step))
        yield settings, *_played(settings)


def _outcomes(seeds: list[int]) -> list[Outcome]:
    return [_outcome(seed) for seed in seeds]


def _outcome(seed: int) -> Outcome:
    return seed, *_played(Settings.of(seed))


def _played(settings: Settings) -> tuple[Tally, str | None]:
    logger = logging.getLogger("headwater")
    level = logger.level
    logger.setLevel(logging.ERROR)  # a checkpoint that was not written is worth no words here
    try:
        return play(settings)
    finally:
        logger.setLevel(level)
