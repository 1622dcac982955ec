"""A deployment in which something is wrong, made smaller: fewer mishaps, transactions and views."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from headwater.simulation.judge import ViolationError
from headwater.simulation.mishaps import Settings
from headwater.simulation.world import World, play


def shrink(settings: Settings) -> Settings:
    """A smaller deployment in which something is wrong too."""
    world = World(settings)
    with suppress(ViolationError):
        world.run()
    settings = world.mishaps.as_given()
    while True:
        smaller = next((s for s in _smaller(settings) if play(s)[1] is not None), None)
        if smaller is None:
            return settings
        settings = smaller


def _smaller(settings: Settings) -> Iterator[Settings]:
    given = settings.given or ()
    last = max((step for step, _ in given), default=0)
    if settings.calm_from != last:
        yield replace(settings, calm_from=last)
    for at in range(len(given)):
        yield replace(settings, given=given[:at] + given[at + 1 :])
    if settings.transactions > 1:
        yield replace(settings, transactions=settings.transactions - 1)
    if settings.views > 1:
        yield replace(settings, views=settings.views - 1)
