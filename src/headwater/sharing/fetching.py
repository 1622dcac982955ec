"""Taking from a peer that is far away: first its objects come here, then they are judged.

What a peer lists is compared with what is here, and weighed, before anything is transferred. What
comes is checked by its digest and kept aside (`arriving`); that needs no lock, and takes as long as
the network does. When all is there, it is taken as from a folder (`exchange`): all, or nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

from headwater.errors import HeadwaterError
from headwater.sharing.arriving import Arrived, Arriving
from headwater.sharing.catalog import Catalog
from headwater.sharing.errors import PeerError, SharingError
from headwater.sharing.exchange import Copied, check_peer, copy
from headwater.sharing.limits import Limits
from headwater.sharing.offers import Offered, Offering, require_offered, unreadable
from headwater.sharing.transfers import Transfer, remember

Choose = Callable[[Sequence[Offered]], Iterable[str]]
"""Which of the objects that are offered, and lacking here, are to be had: their addresses."""
MOST_HEADS_BYTES = 256 << 20
"""Of all that a peer lists and is lacking here: it is in memory at once."""
_ENVELOPE_BYTES = 4096
"""More than a listing says an object may have, if its maker has signed it meanwhile."""


def everything(offered: Sequence[Offered]) -> Iterable[str]:
    return [found.address for found in offered]


@dataclass(frozen=True)
class _Arrival:
    """A peer whose objects are here by now."""

    node: str
    system: str
    key: str
    files: Arrived


def take_from(
    offering: Offering,
    target: Catalog,
    choose: Choose = everything,
    *,
    skip_bad: bool = False,
    unsigned: bool = False,
    limits: Limits | None = None,
) -> Copied:
    """Take what is chosen of what a peer offers and this node lacks."""
    check_peer(offering, target)
    fetching = _Fetching(offering, target, limits or Limits(), skip_bad, choose)
    addresses = fetching.all()
    about = offering.node, offering.system, offering.key
    arrival = _Arrival(*about, Arrived(target.store, addresses))
    try:
        copied = copy(arrival, target, skip_bad=skip_bad, unsigned=unsigned, limits=limits)
    except SharingError:  # what is wrong may be put right there, under the same name
        Arriving(target.store).remove(addresses)
        raise
    Arriving(target.store).remove(addresses)
    return replace(copied, refused=fetching.refused | copied.refused)


class _Fetching:
    """One exchange, until everything is here."""

    def __init__(
        self, offering: Offering, target: Catalog, limits: Limits, skip_bad: bool, choose: Choose
    ) -> None:
        self._offering, self._target = offering, target
        self._limits, self._skip_bad, self._choose = limits, skip_bad, choose
        self._aside = Arriving(target.store)
        self._stopped = threading.Event()
        self.refused: dict[str, HeadwaterError] = {}
        self._transfers: list[Transfer] = []

    def all(self) -> list[str]:
        """Bring everything here; the addresses of what has come."""
        with ThreadPoolExecutor(self._offering.at_once, "share exchange") as pool:
            try:
                return self._all(pool)
            finally:  # also after an error, or when somebody does not wait any longer
                self._stopped.set()
                pool.shutdown(wait=True, cancel_futures=True)

    def _all(self, pool: ThreadPoolExecutor) -> list[str]:
        self._offering.until(time.monotonic() + self._limits.seconds)
        self._target.refresh()
        lacking = self._listed(pool)
        chosen = set(self._choose(lacking))
        wanted = self._within_limits([found for found in lacking if found.address in chosen])
        self._aside.make()
        there = self._aside.sizes()
        self._make_room(there, wanted)
        self._bring(pool, [found for found in wanted if found.address not in there])
        peer, many = self._offering, self._offering.at_once
        remember(self._target, peer.node, peer.place, self._transfers, many)
        return [found.address for found in wanted if found.address not in self.refused]

    def _listed(self, pool: ThreadPoolExecutor) -> list[Offered]:
        """What is lacking here, in the order in which objects depend on each other."""
        addresses = {a for a in self._offering.addresses() if a not in self._target}
        found: list[Offered] = []
        left = MOST_HEADS_BYTES
        for listed in pool.map(self._offering.listed, sorted({a[:2] for a in addresses})):
            new = [each for each in listed if each.address in addresses]
            left -= sum(len(each.head) for each in new)
            if left < 0:
                why = "its listing is too long to be read"
                raise unreadable(f"Node {self._offering.node}", why)
            found += new
        return sorted(filter(self._is_readable, found), key=lambda each: each.order)

    def _is_readable(self, offered: Offered) -> bool:
        try:
            require_offered(offered, self._offering.where(offered.address))
            _ = offered.order
        except SharingError as error:
            if self._choose is everything:
                self._refuse(offered.address, error)
            self.refused[offered.address] = error
            return False
        return True

    def _refuse(self, address: str, error: SharingError) -> None:
        """A bad object ends the exchange, or is noted; a peer that is away always ends it."""
        if not self._skip_bad or isinstance(error, PeerError):
            raise error
        self.refused[address] = error

    def _within_limits(self, offered: Sequence[Offered]) -> list[Offered]:
        """As much as is taken at once; the rest is left if what is bad is skipped."""
        wanted: list[Offered] = []
        size = 0
        for found in offered:
            size += found.size
            if size > self._limits.bytes or len(wanted) >= self._limits.objects:
                most = f"{self._limits.bytes >> 20:,} MB or {self._limits.objects:,} objects"
                error = self._too_much(f"more than {most}")
                self._refuse(found.address, error)
                size -= found.size
            else:
                wanted.append(found)
        return wanted

    def _too_much(self, what: str) -> SharingError:
        return SharingError(
            f"Node {self._offering.node} has {what} that are new here.",
            "--most-megabytes takes more at once; with --skip-bad the rest is left for the next "
            "exchange, and --only takes what a view needs.",
        )

    def _make_room(self, there: dict[str, int], wanted: Iterable[Offered]) -> None:
        """What waits from exchanges that nobody went on with goes, if it is much."""
        others = there.keys() - {found.address for found in wanted}
        if sum(there[address] for address in others) > self._limits.bytes:
            self._aside.remove(others)

    # Transferring

    def _bring(self, pool: ThreadPoolExecutor, wanted: Sequence[Offered]) -> None:
        futures = [pool.submit(self._one, found) for found in wanted]
        wait(futures, return_when=FIRST_EXCEPTION)
        self._stopped.set()
        for future in futures:
            if future.done() and (error := future.exception()) is not None:
                raise error

    def _one(self, offered: Offered) -> None:
        """In one of several threads."""
        if self._stopped.is_set():
            return
        try:
            start = time.monotonic()
            whole = self._offering.get(offered.address, offered.size + _ENVELOPE_BYTES)
            self._transfers.append((len(whole), time.monotonic() - start))
            self._aside.put(offered.address, whole, self._offering.where(offered.address))
        except SharingError as error:
            self._refuse(offered.address, error)
