"""Asking: a node answers a question, from what is here or else from peers that it then meets.

What is here is enough if it leads to the versions that are asked for. If not, peers are met, one
after the other, until it does: those first that have heard of the relations lately enough, and of
these first the one from which least has to be fetched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from headwater.errors import InputError
from headwater.sharing.answering import Question, Way
from headwater.sharing.contents import Contents
from headwater.sharing.errors import (
    MissingBoosterError,
    MissingContentsError,
    NotFreshError,
    SharingError,
    UnknownNameError,
    VersionGapError,
)
from headwater.sharing.freshness import fresh_versions, heard_from, heard_of, latest
from headwater.sharing.history import contents_at
from headwater.sharing.peers import Peer
from headwater.sharing.versions import Versions

if TYPE_CHECKING:
    from headwater.sharing.node import SharingNode

Found = TypeVar("Found")
LACKING = (
    VersionGapError,
    MissingBoosterError,
    MissingContentsError,
    NotFreshError,
    UnknownNameError,
)
"""What somebody else may be able to help with."""


@dataclass(frozen=True)
class Asking:
    """One question to a node."""

    node: SharingNode
    name: str
    at: Mapping[str, int]
    fresh_s: float | None
    peers: Sequence[Peer]

    def answer(self) -> Contents:
        return self._with_peers(self._answer)

    def ways(self) -> list[Way]:
        """All ways, the one that is taken first."""
        if self.name in self.node.catalog.relations:
            raise InputError(f"{self.name} is a base relation.", "Ask how a view is answered.")
        return self._with_peers(self._ways)

    # From what is here

    def _answer(self) -> Contents:
        catalog = self.node.catalog
        if self.name not in catalog.views:
            return self._relation()
        if not self.at and self.fresh_s is None:
            return self._by_policy()
        way = self._ways()[0]
        answering = self.node.answering(self.name)
        held = self.node.held(self.name)
        if self.fresh_s is None or self.at or not catalog.store.is_writable:
            return answering.answer(way)
        if held is not None and way.is_held and held.versions.precedes(way.versions):
            self.node.advance(self.name, way.versions)  # so that the next who asks has it at once
            return self._held()
        found = answering.answer(way)
        if held is None or held.versions.precedes(way.versions):
            return self.node.hold(self.name, found.versions, found.rows)
        return found

    def _by_policy(self) -> Contents:
        """What is held, brought on if it is due; who asks first begins as far on as what is here
        leads, and not where somebody once published contents."""
        if not self.node.catalog.store.is_writable:
            return self._kept_nowhere()
        is_new = self.node.held(self.name) is None
        held = self.node.hold(self.name)
        if is_new or self.node.due(self.name, "query"):
            self.node.advance(self.name)
            held = self._held()
        return held

    def _kept_nowhere(self) -> Contents:
        """The same from a node that cannot be written."""
        held, answering = self.node.held(self.name), self.node.answering(self.name)
        if held is not None and not self.node.due(self.name, "query"):
            return held
        return answering.taken_on(answering.answer(self._ways()[0]))

    def _held(self) -> Contents:
        found = self.node.held(self.name)
        assert found is not None
        return found

    def _ways(self) -> list[Way]:
        question = Question(self.node.catalog.view(self.name), self.at, self.fresh_s)
        ways = self.node.answering(self.name).ways(question)
        return sorted(ways, key=lambda way: (way.seconds, not way.is_held))

    def _relation(self) -> Contents:
        catalog, name = self.node.catalog, self.name
        if name not in catalog.relations:
            raise catalog.unknown(name)
        held = self.node.held(name)
        at: Mapping[str, int] = self.at
        if self.fresh_s is not None and not at:
            least = fresh_versions(catalog, name, [name], heard_of(catalog), self.fresh_s)
            newest = max(least[name], held.versions[name] if held else 0)
            at = Versions({name: newest})
        elif not at:
            at = held.versions if held else {name: catalog.newest(name)}
        if set(at) != {name}:
            raise InputError(
                f"{name} has no versions of {', '.join(at)}.", f"Give a version of {name}."
            )
        return contents_at(catalog, name, Versions(at), held)

    # From others

    def _with_peers(self, ask: Callable[[], Found]) -> Found:
        self.node.catalog.refresh()
        try:
            return ask()
        except LACKING as error:
            reason: SharingError = error
        for peer in self._in_order():
            self.node.take(peer)
            try:
                return ask()
            except LACKING as error:
                reason = error
        raise reason

    def _in_order(self) -> Iterator[Peer]:
        """Those that have heard lately first, and then those from which little is fetched."""
        return iter(
            sorted(self.peers, key=lambda peer: (not self._is_fresh(peer), _much(self, peer)))
        )

    def _is_fresh(self, peer: Peer) -> bool:
        catalog = self.node.catalog
        if self.fresh_s is None or self.name not in (*catalog.views, *catalog.relations):
            return True
        view = catalog.views.get(self.name)
        wanted = [name for name in (view.relations if view else [self.name]) if name not in self.at]
        heard = latest(heard_of(catalog), heard_from(peer, catalog, time.time()))
        try:
            fresh_versions(catalog, self.name, wanted, heard, self.fresh_s)
        except NotFreshError:
            return False
        return True


def _much(asking: Asking, peer: Peer) -> float:
    """Seconds to fetch what a peer has and this node lacks."""
    catalog = asking.node.catalog
    lacking = [address for address in peer.files.addresses() if address not in catalog]
    size = sum(peer.files.path(address).stat().st_size for address in lacking)
    speeds = asking.node.speeds
    return len(lacking) * speeds.read_object + speeds.peer.fetch(size)
