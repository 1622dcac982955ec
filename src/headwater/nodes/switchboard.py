"""The runner's end: it listens, lets in one node for each source, and hands messages on.

A *life* is one epoch of a view's maintenance, as far as one node takes part in it. What a node
sends for a life that is over reaches nobody. Whatever is lost with a connection is told to every
life on it, which then ends; the next one begins when the node is back.

Why the runner listens: it is the one place that all nodes have to reach. One port and one secret
are to be guarded, a machine beside a database needs no open port, and that a source has one node
is decided here.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from headwater.algebra.views import View
from headwater.algorithms.hosted import Did, Epoch, Told
from headwater.errors import (
    EngineError,
    HeadwaterError,
    LostConnectionError,
    NodeLostError,
    RefusedError,
    SourceError,
)
from headwater.nodes.codec import Parcel, Reader, Writer, read
from headwater.nodes.frames import FrameError, Opener, Sealer
from headwater.nodes.handshake import (
    NONCE_BYTES,
    TO_NODE,
    TO_RUNNER,
    Introduced,
    RefusedNodeError,
    RunnerSide,
)
from headwater.nodes.link import Link, LostLinkError, receive_one
from headwater.nodes.settings import Meeting
from headwater.sources.workers import Workers

GRACE_S = 10.0
"""How long a view waits for a node that is not connected before that is told."""
_INTRODUCTION_S = 5.0
_MOST_STRANGERS = 16
_POLL_S = 0.2
_MOST_WAITING = 64
_KINDS: dict[str, type[SourceError]] = {
    "lost": LostConnectionError,
    "refused": RefusedError,
    "source": SourceError,
}


@dataclass(frozen=True)
class Begin:
    """What a node has to know of a view."""

    view: View
    epoch: Epoch
    algorithm: str
    parameters: dict[str, str]
    definition: Any
    """As it is stored, from which the node makes the same view."""


@dataclass(eq=False)
class Life:
    """One view's maintenance and one node, for one epoch."""

    begin: Begin
    node: ConnectedNode
    heard: Callable[[Did], None]
    lost: Callable[[HeadwaterError], None]
    _replies: dict[str, tuple[threading.Event, list[Any]]] = field(default_factory=dict)
    _failure: HeadwaterError | None = None

    def tell(self, told: Told) -> None:
        writer = Writer(self.begin.view)
        found = writer.told(told)
        self.send(Parcel({"is": "told", "told": found}, writer.blobs))

    def ask(self, label: str, marker: str | None) -> tuple[str, str | None]:
        """Have the node ask its source the question of this label: the snapshot of the answer,
        whose rows stay there, and its marker."""
        event, found = self._replies.setdefault(label, (threading.Event(), []))
        self.send(Parcel({"is": "ask", "label": label, "marker": marker}))
        while not event.wait(_POLL_S):
            if self._failure is not None:
                raise self._failure
        del self._replies[label]
        if not found:
            raise self._failure or NodeLostError("The node has gone.")
        (reply,) = found
        if "error" in reply:
            kind = _KINDS.get(reply["error"], SourceError)
            raise kind(str(reply["message"]), str(reply["hint"]))
        marker = reply["marker"]
        return str(reply["snapshot"]), None if marker is None else str(marker)

    def end(self) -> None:
        """Nothing that comes for this life reaches anybody from now on."""
        self.node.forget(self)

    def take(self, parcel: Parcel) -> None:
        """Something for this life. In the connection's thread."""
        match parcel.head["is"]:
            case "did":
                reader = Reader(self.begin.view, parcel.blobs)
                self.heard(read(lambda: reader.did(parcel.head["did"])))
            case "replied":
                if waiting := self._replies.get(str(parcel.head["label"])):
                    waiting[1].append(parcel.head)
                    waiting[0].set()
            case "failed":
                message, hint = str(parcel.head["message"]), str(parcel.head["hint"])
                self.fail(EngineError(message, hint))
            case _:
                raise FrameError("A node said what no runner knows.")

    def fail(self, error: HeadwaterError) -> None:
        self._failure = error
        for event, _ in list(self._replies.values()):
            event.set()
        self.lost(error)

    def send(self, parcel: Parcel) -> None:
        head = {"view": self.begin.view.name, "epoch": self.begin.epoch, **parcel.head}
        try:
            self.node.link.send(Parcel(head, parcel.blobs).to_bytes())
        except LostLinkError as error:
            raise self.node.gone(error) from None


@dataclass(eq=False)
class ConnectedNode:
    """A node that is connected."""

    introduced: Introduced
    address: str
    since: float
    link: Link = field(init=False)
    lives: dict[str, Life] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    workers: Workers = field(init=False)
    """Those who wait for its answers; no view waits for more than its own."""

    def __post_init__(self) -> None:
        self.workers = Workers(f"questions to the node of {self.introduced.source}", _MOST_WAITING)

    def take(self, payload: bytes) -> None:
        parcel = read(lambda: Parcel.of(payload))
        name, epoch = read(lambda: (str(parcel.head["view"]), tuple(parcel.head["epoch"])))
        with self.lock:
            life = self.lives.get(name)
        if life is not None and life.begin.epoch == epoch:
            read(lambda: parcel.head["is"])
            life.take(parcel)

    def forget(self, life: Life) -> None:
        name = life.begin.view.name
        with self.lock:
            if self.lives.get(name) is life:
                del self.lives[name]
        with contextlib.suppress(HeadwaterError):
            head = {"view": name, "epoch": life.begin.epoch, "is": "end"}
            self.link.send(Parcel(head).to_bytes())

    def gone(self, error: HeadwaterError) -> NodeLostError:
        return NodeLostError(
            f"The node of {self.introduced.source} is lost: {error.message}",
            f"Start 'headwater node {self.introduced.source}' again, if it has ended.",
        )


class Switchboard:
    """Listens for the nodes of some sources. `start`, then `close`."""

    def __init__(self, meeting: Meeting, sources: Collection[str]) -> None:
        self.sources = frozenset(sources)
        self._meeting = meeting
        self._owner = ""
        self._lock = threading.Lock()
        self._nodes: dict[str, ConnectedNode] = {}
        self._held: set[str] = set()
        """Sources whose nodes are connected, or about to be."""
        self._absent = dict.fromkeys(self.sources, time.monotonic())
        self._refused = ""
        self._stopping = False
        self._strangers = threading.Semaphore(_MOST_STRANGERS)
        self._listener: socket.socket | None = None
        self._thread = threading.Thread(target=self._listen, name="nodes", daemon=True)

    @property
    def port(self) -> int:
        assert self._listener is not None
        return int(self._listener.getsockname()[1])

    def start(self, owner: str) -> None:
        """Listen, for the warehouse of this name; HeadwaterError if that cannot be."""
        self._owner = owner
        meeting = self._meeting
        try:
            self._listener = socket.create_server(
                (meeting.host, meeting.port), family=meeting.family, backlog=16
            )
        except OSError as error:
            raise HeadwaterError(
                f"The runner cannot listen for nodes at {meeting.address}: {error.strerror}.",
                "Give another address as listen in [nodes] of headwater.toml, or end what "
                "listens there.",
            ) from None
        self._listener.settimeout(_POLL_S)
        self._thread.start()

    def close(self) -> None:
        self._stopping = True
        if self._listener is None:
            return
        self._thread.join()
        self._listener.close()
        with self._lock:
            nodes = list(self._nodes.values())
        for node in nodes:
            node.link.close()
        for node in nodes:
            node.link.join(_INTRODUCTION_S)

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
            raise SourceError(
                f"The node of {source} stands beside another database than the runner reads "
                f"({node.introduced.identity}, and {own} here).",
                f"Let sources.{source} mean the same database for both.",
            )
        life = Life(begin, node, heard, lost)
        with node.lock:
            node.lives[begin.view.name] = life
        head = {
            "is": "begin",
            "algorithm": begin.algorithm,
            "parameters": begin.parameters,
            "definition": begin.definition,
        }
        life.send(Parcel(head))
        return life

    # The thread that listens, and one for each that knocks

    def _listen(self) -> None:
        assert self._listener is not None
        while not self._stopping:
            try:
                connection, address = self._listener.accept()
            except OSError:  # a timeout is one
                continue
            if not self._strangers.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(
                target=self._admit, args=(connection, f"{address[0]}:{address[1]}"),
                name=f"nodes: {address[0]}", daemon=True,
            ).start()  # fmt: skip

    def _admit(self, connection: socket.socket, address: str) -> None:
        try:
            connection = self._secured(connection)
            self._introduce(connection, address)
        except Exception as error:  # whatever a stranger does to one thread is told, and no more
            why = f"the connection failed ({type(error).__name__})."
            if isinstance(error, HeadwaterError):
                why = error.message
            self._refused = f"Somebody at {address} was refused: {why}"
            connection.close()
        finally:
            self._strangers.release()

    def _secured(self, connection: socket.socket) -> socket.socket:
        connection.settimeout(_INTRODUCTION_S)
        if self._meeting.tls is None:
            return connection
        try:
            return self._meeting.tls.wrap_socket(connection, server_side=True)
        except OSError as error:  # ssl.SSLError is one
            why = getattr(error, "reason", None) or error.strerror or "no TLS"
            raise FrameError(f"TLS: {why}.") from None

    def _introduce(self, connection: socket.socket, address: str) -> None:
        until = time.monotonic() + _INTRODUCTION_S
        sealer, opener = Sealer(TO_NODE), Opener(TO_RUNNER)
        side = RunnerSide(
            self._meeting.secret, secrets.token_bytes(NONCE_BYTES), self._meeting.release
        )
        connection.sendall(sealer.frame(side.challenge()))
        try:
            introduced = side.introduced(receive_one(connection, opener, until))
            node = ConnectedNode(introduced, address, time.time())
            self._reserve(node)
        except RefusedNodeError as error:
            connection.sendall(sealer.frame(side.refusal(error)))
            raise
        try:
            welcome, keys = side.welcome(self._owner)
            connection.settimeout(_INTRODUCTION_S)
            connection.sendall(sealer.frame(welcome))
        except OSError:
            self._leave(node)
            raise
        sealer.trust(keys.to_node)
        opener.trust(keys.to_runner)
        name = f"The node of {introduced.source}"

        def lost(error: HeadwaterError) -> None:
            self._leave(node)
            node.workers.stop()
            with node.lock:
                lives = list(node.lives.values())
            for life in lives:
                life.fail(node.gone(error))

        node.link = Link(connection, sealer, opener, node.take, lost, name)
        self._ready(node)
        node.link.start()

    def _reserve(self, node: ConnectedNode) -> None:
        source = node.introduced.source
        with self._lock:
            if source not in self.sources:
                raise RefusedNodeError(
                    f"The runner has no source {source} with a node of its own.",
                    'Write node = "by itself" for it in headwater.toml, and start the runner anew.',
                )
            if source in self._held:
                raise RefusedNodeError(
                    f"Source {source} has a node already.",
                    "This one takes over when that ends.",
                    passes=True,
                )
            self._held.add(source)

    def _ready(self, node: ConnectedNode) -> None:
        with self._lock:
            self._nodes[node.introduced.source] = node
            self._refused = ""
            if self._stopping:
                node.link.close()

    def _leave(self, node: ConnectedNode) -> None:
        source = node.introduced.source
        with self._lock:
            self._held.discard(source)
            if self._nodes.get(source) is node:
                del self._nodes[source]
                self._absent[source] = time.monotonic()
