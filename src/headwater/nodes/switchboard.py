"""The runner's end: one node for each source, and the views that begin with it.

Here it is decided that a source has one node, and told which are missing. How nodes are let in is
in `listening`, what goes on with one that is there in `lives`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from typing import Any

from headwater.algorithms.hosted import Did
from headwater.errors import HeadwaterError, LostConnectionError
from headwater.journal import happened
from headwater.nodes.handshake import RefusedNodeError
from headwater.nodes.listening import INTRODUCTION_S, Listening
from headwater.nodes.lives import Begin, ConnectedNode, Life
from headwater.nodes.settings import Meeting

GRACE_S = 10.0
"""How long a view waits for a node that is not connected before that is told."""
_SENT_AWAY_S = 30.0
"""How long one that stands beside another database leaves its place to others."""


class Switchboard:
    """Waits for the nodes of some sources. `start`, then `close`."""

    def __init__(self, meeting: Meeting, sources: Collection[str]) -> None:
        self.sources = frozenset(sources)
        self._meeting = meeting
        self._lock = threading.Lock()
        self._nodes: dict[str, ConnectedNode] = {}
        self._held: set[str] = set()
        """Sources whose nodes are connected, or about to be."""
        self._absent = dict.fromkeys(self.sources, time.monotonic())
        self._sent_away: dict[str, tuple[RefusedNodeError, str, float]] = {}
        """By source why, the database that it stands beside, and until when."""
        self._refused = ""
        self._stopping = False
        self._listening = Listening(meeting, self)

    def start(self, owner: str) -> None:
        """Listen, for the warehouse of this name; HeadwaterError if that cannot be."""
        self._listening.start(owner)

    def close(self) -> None:
        self._stopping = True
        self._listening.stop()
        with self._lock:
            nodes = list(self._nodes.values())
        for node in nodes:
            node.link.close()
        for node in nodes:
            node.link.join(INTRODUCTION_S)

    def missing(self, sources: Collection[str]) -> HeadwaterError | None:
        """Why a view over these sources cannot begin, if a node is not there."""
        with self._lock:
            absent = [s for s in sources if s in self.sources and s not in self._nodes]
        if not absent:
            return None
        listed = ", ".join(absent)
        nodes = "node of" if len(absent) == 1 else "nodes of"
        is_not = "is" if len(absent) == 1 else "are"
        refused = f" {self._refused}" if self._refused else ""
        return LostConnectionError(
            f"The {nodes} {listed} {is_not} not connected.{refused}",
            f"Run 'headwater node {absent[0]}'; it is waited for at {self._meeting.address}.",
        )

    def is_expected(self, sources: Collection[str]) -> bool:
        """Whether nodes that are missing may just be on their way."""
        now = time.monotonic()
        with self._lock:
            absent = [s for s in sources if s in self.sources and s not in self._nodes]
            return all(now < self._absent[source] + GRACE_S for source in absent)

    @property
    def described(self) -> dict[str, Any]:
        """How the nodes stand, as plain data."""
        with self._lock:
            nodes = dict(self._nodes)
        return {
            "listens": self._meeting.address,
            "refused": self._refused or None,
            "sources": {
                source: {"address": nodes[source].address, "since": nodes[source].since}
                if source in nodes
                else None
                for source in sorted(self.sources)
            },
        }

    def begin(
        self,
        source: str,
        identity: Callable[[], str],
        begin: Begin,
        heard: Callable[[Did], None],
        lost: Callable[[HeadwaterError], None],
    ) -> Life:
        """Have the node of a source begin; `identity` tells the source as the runner sees it."""
        if missing := self.missing([source]):
            raise missing
        with self._lock:
            node = self._nodes[source]
        own = identity()
        if node.introduced.identity != own:
            raise self._send_away(node, own)
        life = Life(begin, node, heard, lost)
        node.begin(life)
        return life

    def _send_away(self, node: ConnectedNode, own: str) -> HeadwaterError:
        """Make room for the node that stands beside the runner's database; says why."""
        source, theirs = node.introduced.source, node.introduced.identity
        why = RefusedNodeError(
            f"The node of {source} stands beside another database than the runner reads "
            f"({theirs}, and {own} here).",
            f"Let sources.{source} mean the same database for both. After a restart of the server "
            "the node comes back by itself.",
            passes=True,
        )
        with self._lock:
            self._sent_away[source] = why, theirs, time.monotonic() + _SENT_AWAY_S
        node.link.close()
        return LostConnectionError(why.message, why.hint)

    # Who is let in, as the threads that listen tell

    def reserve(self, node: ConnectedNode) -> None:
        source = node.introduced.source
        with self._lock:
            if source not in self.sources:
                raise RefusedNodeError(
                    f"The runner has no source {source} with a node of its own.",
                    'Write node = "by itself" for it in headwater.toml, and start the runner anew.',
                )
            why, theirs, until = self._sent_away.get(source, (None, "", 0.0))
            if why and theirs == node.introduced.identity and time.monotonic() < until:
                raise why
            if source in self._held:
                raise RefusedNodeError(
                    f"Source {source} has a node already.",
                    "This one takes over when that ends.",
                    passes=True,
                )
            self._held.add(source)

    def connected(self, node: ConnectedNode) -> None:
        happened("node", source=node.introduced.source, state="connected", at=node.address)
        with self._lock:
            self._nodes[node.introduced.source] = node
            self._refused = ""
            if self._stopping:
                node.link.close()

    def leave(self, node: ConnectedNode) -> None:
        source = node.introduced.source
        with self._lock:
            self._held.discard(source)
            if self._nodes.get(source) is node:
                del self._nodes[source]
                self._absent[source] = time.monotonic()
                happened("node", logging.WARNING, source=source, state="lost", at=node.address)

    def refuse(self, why: str) -> None:
        if why != self._refused:
            happened("node", logging.WARNING, state="refused", because=why)
        self._refused = why
