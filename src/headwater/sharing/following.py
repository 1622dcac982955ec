"""Following a peer for some views only: its offer is weighed, and taken is what they need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.sharing.available import Place
from headwater.sharing.catching_up import Foreseen, Way, best_way, require_view
from headwater.sharing.contents import Contents
from headwater.sharing.encoding import MALFORMED
from headwater.sharing.errors import MissingContentsError, SharingError
from headwater.sharing.exchange import Copied, check_peer, copy
from headwater.sharing.fetching import take_from
from headwater.sharing.limits import Limits
from headwater.sharing.offers import Offered, Offering, is_address, offered_by, unreadable
from headwater.sharing.peers import Peer
from headwater.sharing.transfers import speeds_of

if TYPE_CHECKING:
    from headwater.sharing.node import SharingNode


@dataclass(frozen=True)
class CaughtUp:
    """What was taken for some views, and where they are now."""

    copied: Copied
    ways: tuple[Way, ...]
    """As they were chosen."""


def catch_up(
    node: SharingNode,
    peer: Peer | Offering,
    views: Sequence[str],
    *,
    skip_bad: bool = False,
    unsigned: bool = False,
    limits: Limits | None = None,
) -> CaughtUp:
    """Bring views as far as what is here and what a peer offers lead, the cheapest way.

    A view that this node does not hold yet is held from then on.
    """
    choosing = _Choosing(node, views, peer.node, _place_of(peer))
    if isinstance(peer, Peer):
        check_peer(peer, node.catalog)
        node.catalog.refresh()
        lacking = sorted(filter(is_address, peer.files.addresses() - node.catalog.addresses()))
        readable = [each for each in offered_by(peer.files, lacking) if each.head]
        chosen = set(choosing(readable))
        copied = copy(peer, node.catalog, only=chosen, skip_bad=skip_bad, unsigned=unsigned,
                      limits=limits)  # fmt: skip
    else:
        copied = take_from(peer, node.catalog, choosing, skip_bad=skip_bad, unsigned=unsigned,
                           limits=limits)  # fmt: skip
    for way in choosing.ways:
        go(node, way)
    return CaughtUp(copied, tuple(choosing.ways))


def _place_of(peer: Peer | Offering) -> Place:
    return Place.PEER if isinstance(peer, Peer) else peer.place


class _Choosing:
    """What some views need of an offer; remembers the ways."""

    def __init__(self, node: SharingNode, views: Sequence[str], peer: str, place: Place) -> None:
        self._node, self._views, self._place = node, views, place
        self._speeds = speeds_of(node.catalog, peer, place, node.speeds)
        self.ways: list[Way] = []

    def __call__(self, offered: Sequence[Offered]) -> Iterable[str]:
        foreseen = Foreseen(self._node.catalog, offered, self._place)
        wanted = foreseen.entries
        for name in self._views:
            require_view(foreseen, name)
            way = self._way(foreseen, name)
            self.ways.append(way)
            wanted |= way.reads
        return wanted

    def _way(self, foreseen: Foreseen, name: str) -> Way:
        names = [name, *foreseen.view(name).relations]
        found = ((each, self._node.held(each)) for each in names)
        held = {each: contents for each, contents in found if contents is not None}
        try:
            way = best_way(foreseen, name, held, self._speeds)
        except SharingError:
            raise
        except MALFORMED as error:
            why = f"no plan can be made of it ({type(error).__name__})"
            raise unreadable("The other node's listing", why) from None
        if way is None:
            raise MissingContentsError(
                f"View {name} cannot be had here: neither this node nor the other one has rows of "
                "it, or of all its relations.",
                "Exchange with a node that publishes its contents.",
            )
        return way


def go(node: SharingNode, way: Way) -> None:
    """Bring a view there, when what that reads is here."""
    with node.catalog.store.locked():
        node.catalog.refresh()
        held = node.held(way.view)
        if way.start and (held is None or not way.last.precedes(held.versions)):
            start = node.catalog.load(way.start)
            assert isinstance(start, Contents)
            node.hold(way.view, start.versions, start.rows)
        elif way.is_recomputed:
            node.hold(way.view, way.last)
        if (here := node.held(way.view)) is not None and here.versions.precedes(way.last):
            node.advance(way.view, way.last)
