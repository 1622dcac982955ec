"""A node that is connected to the runner, and the lives of views in which it takes part.

A *life* is one epoch of a view's maintenance, as far as one node takes part in it. What a node
sends for a life that is over reaches nobody. Whatever is lost with a connection is told to every
life on it, which then ends; the next one begins when the node is back.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
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
from headwater.nodes.frames import FrameError
from headwater.nodes.handshake import Introduced
from headwater.nodes.link import Link, LostLinkError
from headwater.sources.workers import Workers

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

    def lost(self, error: HeadwaterError) -> None:
        """The connection is no more: every life on it ends."""
        self.workers.stop()
        with self.lock:
            lives = list(self.lives.values())
        for life in lives:
            life.fail(self.gone(error))

    def begin(self, life: Life) -> None:
        """Take part in a life, in the place of an earlier one of the same view."""
        with self.lock:
            self.lives[life.begin.view.name] = life
        begin = life.begin
        head = {
            "is": "begin",
            "algorithm": begin.algorithm,
            "parameters": begin.parameters,
            "definition": begin.definition,
        }
        life.send(Parcel(head))

    def gone(self, error: HeadwaterError) -> NodeLostError:
        return NodeLostError(
            f"The node of {self.introduced.source} is lost: {error.message}",
            f"Start 'headwater node {self.introduced.source}' again, if it has ended.",
        )
