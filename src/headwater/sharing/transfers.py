"""How fast a peer has been: measured when objects come, and kept by the peer's name for plans.

A small object takes as long as asking does; what larger ones take beyond that is for their bytes.
Several come at once, and a plan that reads many pays as many times less for each.

Choices: what was measured before counts as much as the newest go, on the scale of orders of
magnitude, so that one slow moment does not decide. Bytes are judged only by goes that had many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite, sqrt
from statistics import median

from headwater.sharing.available import Place
from headwater.sharing.catalog import Catalog
from headwater.sharing.plan_costs import Speed, Speeds

SMALL, MANY_BYTES, LEAST = 4096, 1 << 20, 3
"""Up to so many bytes an object is small; from so many on a go says how fast bytes come; and what
fewer objects take says nothing."""
MOST_PEERS = 1000
Transfer = tuple[int, float]
"""Of an object: bytes, and seconds until it was here."""


def measured(transfers: Sequence[Transfer], at_once: int, before: Speed) -> Speed:
    """What a go says of a peer, with what was known of it or assumed."""
    if len(transfers) < LEAST:
        return before
    small = [seconds for size, seconds in transfers if size <= SMALL]
    alone = median(small) if small else before.seconds * at_once
    asking = _between(before.seconds, alone / at_once) if small else before.seconds
    size = sum(size for size, _ in transfers)
    beyond = sum(max(0.0, seconds - alone) for _, seconds in transfers)
    if size < MANY_BYTES or beyond <= 0.0:
        return replace(before, seconds=asking)
    return Speed(asking, _between(before.bytes_per_second, size * at_once / beyond))


def _between(one: float, other: float) -> float:
    return sqrt(max(one, 1e-6) * max(other, 1e-6))


def remember(
    catalog: Catalog, peer: str, place: Place, transfers: Sequence[Transfer], at_once: int
) -> None:
    """Keep what a go says with the node."""
    before = speeds_of(catalog, peer, place, Speeds())
    now = measured(transfers, at_once, before.places[place])
    if now != before.places[place]:
        with catalog.store.locked():
            catalog.reread()
            known = catalog.description.get("transfers", {})
            kept = {name: known[name] for name in [*known][-MOST_PEERS:] if name != peer}
            catalog.describe(transfers=kept | {peer: [now.seconds, now.bytes_per_second]})


def speeds_of(catalog: Catalog, peer: str, place: Place, speeds: Speeds) -> Speeds:
    """Speeds for plans that read from a peer, by what is known of it."""
    known: Mapping[str, Sequence[float]] = catalog.description.get("transfers", {})
    match known.get(peer):
        case [float(seconds), float(rate)] if isfinite(seconds) and seconds >= 0 and rate > 0:
            return replace(speeds, places={**speeds.places, place: Speed(seconds, rate)})
    return speeds
