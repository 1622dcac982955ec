"""A node process: stands beside one source, keeps a connection to the runner, hosts its machines.

Nothing here is durable. What a view is, where its order of transactions stands and what has become
of tokens is the runner's; the node has what tokens need of its source. When the connection is lost,
all of it is dropped, and begins anew when the runner says so.
"""

from __future__ import annotations

import queue
import re
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from headwater.algebra.schema import Relation
from headwater.algebra.terms import Query
from headwater.algebra.views import View
from headwater.algorithms.away_node import AwayNode, AwayState
from headwater.algorithms.hosted import Did, Epoch
from headwater.algorithms.registry import algorithm, make_nodes
from headwater.errors import (
    HeadwaterError,
    InputError,
    LostConnectionError,
    RefusedError,
)
from headwater.nodes.codec import Parcel, Reader, Writer, read
from headwater.nodes.frames import FrameError, Opener, Sealer
from headwater.nodes.handshake import (
    NONCE_BYTES,
    TO_NODE,
    TO_RUNNER,
    Introduced,
    NodeSide,
    RefusedNodeError,
    Welcomed,
)
from headwater.nodes.link import Link, LostLinkError, receive_one
from headwater.nodes.settings import Meeting, NoKeyError
from headwater.project.needs import columns_of, narrowed
from headwater.sources.connections import Connections
from headwater.sources.contract import Reply, Source, as_it_is
from headwater.sources.subscription import PAUSES_S
from headwater.warehouse.definition import StoredDefinition

_CONNECT_S = 5.0
_LEAVE_BEHIND_S = 2.0
_LOOK_S = 0.2
_MARKER = re.compile(r"[a-z0-9_]+/[0-9a-f]+")
"""It stands in a statement."""

OpenSource = Callable[[str], Source]
"""The source with the logs of the warehouse of this name."""
Tell = Callable[[str, str], None]
"""How it goes: `connected`, `waiting` or `view`, and a sentence."""


@dataclass
class _Hosted:
    """One view's node."""

    view: View
    machine: AwayNode
    state: AwayState


class _Read:
    """The source as it is read since a view has begun: its tables may have been others before."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._lock = threading.Lock()
        self._described: dict[str, Relation] = {}

    def check(self, view: View) -> None:
        """RefusedError if a table is not as a view knows it. In any thread."""
        with self._lock:
            if not self._described:
                self._described = {each.name: each for each in self.source.relations().values()}
        for relation in view.relations:
            found = self._described.get(relation.name)
            columns = set(found.schema.columns) if found is not None else set()
            if relation.source == self.source.name and not columns.issuperset(
                relation.schema.columns
            ):
                raise RefusedError(
                    f"Source {self.source.name}: table {relation.short_name} is not as view "
                    f"{view.name} knows it: it was altered, or headwater.toml says something else "
                    "of it beside the node.",
                    f"If this does not pass, see that sources.{self.source.name} has the same "
                    f"relations, as_text and keys for both; else: headwater reload {view.name}.",
                )


class NodeProcess:
    """Serves one source until it is told to stop."""

    def __init__(
        self,
        source: str,
        meeting: Callable[[], Meeting],
        open_source: OpenSource,
        tell: Tell = lambda what, sentence: None,
    ) -> None:
        self._source = source
        self._meeting = meeting
        self._open_source = open_source
        self._tell = tell

    def run(self, stop: threading.Event) -> None:
        """Keep connected; raises what no waiting mends."""
        pauses = iter(PAUSES_S)
        while not stop.is_set():
            began = time.monotonic()
            try:
                self._serve(stop)
            except (LostLinkError, LostConnectionError, NoKeyError) as error:
                self._tell("waiting", str(error))
            except RefusedNodeError as error:
                if not error.passes:
                    raise
                self._tell("waiting", str(error))
            if time.monotonic() > began + 2 * PAUSES_S[-1]:
                pauses = iter(PAUSES_S)
            stop.wait(next(pauses, PAUSES_S[-1]))

    def _serve(self, stop: threading.Event) -> None:
        """One connection, from beginning to end."""
        meeting = self._meeting()
        identity = self._open_source("").identity()
        connection = _connected(meeting)
        try:
            sealer, opener = Sealer(TO_RUNNER), Opener(TO_NODE)
            introduced = Introduced(self._source, identity)
            welcomed = _introduce(connection, meeting, introduced, sealer, opener)
        except BaseException:
            connection.close()
            raise
        sealer.trust(welcomed.keys.to_runner)
        opener.trust(welcomed.keys.to_node)
        self._tell("connected", f"Connected to the runner at {meeting.address}.")
        session = _Session(self._open_source(welcomed.owner), self._tell)
        link = Link(
            *(connection, sealer, opener, session.take, session.end),
            f"The runner at {meeting.address}",
        )
        session.run(link, stop)


def _connected(meeting: Meeting) -> socket.socket:
    """A connection to the runner."""
    try:
        connection = socket.create_connection((meeting.host, meeting.port), _CONNECT_S)
    except OSError as error:
        why = error.strerror or "it does not answer"
        raise LostLinkError(
            f"No runner listens at {meeting.address}: {why}.", "Start 'headwater run' there."
        ) from None
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if meeting.tls is None:
        return connection
    try:
        return meeting.tls.wrap_socket(connection, server_hostname=meeting.host)
    except OSError as error:
        connection.close()
        if isinstance(error, ssl.SSLCertVerificationError):
            raise RefusedNodeError(
                f"The certificate of what listens at {meeting.address} is not trusted: "
                f"{error.verify_message}.",
                "It must name that host, and be signed by the authorities in [nodes].",
            ) from None
        why = getattr(error, "reason", None) or error.strerror or "the connection failed"
        raise LostLinkError(
            f"TLS with {meeting.address} failed: {why}.",
            "See that it is the runner's address, and that the runner has certificates, too.",
        ) from None


def _introduce(
    connection: socket.socket,
    meeting: Meeting,
    introduced: Introduced,
    sealer: Sealer,
    opener: Opener,
) -> Welcomed:
    until = time.monotonic() + _CONNECT_S
    side = NodeSide(meeting.secret, secrets.token_bytes(NONCE_BYTES), meeting.release, introduced)
    try:
        answer = side.introduce(receive_one(connection, opener, until))
        connection.settimeout(_CONNECT_S)
        connection.sendall(sealer.frame(answer))
        return side.welcomed(receive_one(connection, opener, until))
    except ssl.SSLError as error:  # with TLS 1.3 the runner's verdict comes after the handshake
        raise LostLinkError(
            f"The runner at {meeting.address} does not take this node's certificate: "
            f"{error.reason or 'the connection failed'}.",
            "It must be valid now, and signed by the authorities that the runner has in [nodes].",
        ) from None
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise LostLinkError(f"The runner at {meeting.address} went away: {why}.") from None
    except FrameError as error:
        raise RefusedNodeError(
            f"What listens at {meeting.address} is no runner for this node: {error.message}",
            error.hint or "See that [nodes] names the runner's address.",
        ) from None


class _Session:
    """What is done over one connection; all state belongs to the thread that calls `run`."""

    def __init__(self, source: Source, tell: Tell) -> None:
        self._base = source
        self._read = _Read(source)
        self._tell = tell
        self._views: dict[str, _Hosted] = {}
        self._is_over = threading.Event()
        self._jobs: queue.SimpleQueue[Callable[[], None] | HeadwaterError | None]
        self._jobs = queue.SimpleQueue()
        self._connections = Connections(source.name, lambda: self._read.source, as_it_is)

    def take(self, payload: bytes) -> None:
        """Something of the runner's. In the connection's thread."""
        self._jobs.put(partial(self._taken, payload))

    def end(self, error: HeadwaterError) -> None:
        """The connection is lost. In the connection's thread."""
        self._jobs.put(error)

    def run(self, link: Link, stop: threading.Event) -> None:
        """Work until the connection is lost, which is raised, or somebody wants it to stop."""
        self._link = link
        link.start()
        threading.Thread(target=self._watch, args=(stop,), name="stop", daemon=True).start()
        try:
            while (job := self._jobs.get()) is not None:
                if isinstance(job, HeadwaterError):
                    raise job if isinstance(job, LostLinkError) else LostLinkError(str(job))
                job()
        finally:
            self._is_over.set()
            link.close()
            self._connections.stop()
            self._connections.join(_LEAVE_BEHIND_S)
            link.join(_LEAVE_BEHIND_S)

    def _watch(self, stop: threading.Event) -> None:
        while not self._is_over.is_set():
            if stop.wait(_LOOK_S):
                self._jobs.put(None)
                return

    # Messages

    def _taken(self, payload: bytes) -> None:
        try:
            parcel = read(lambda: Parcel.of(payload))
            head = parcel.head
            name, what = read(lambda: (str(head["view"]), str(head["is"])))
            epoch = read(lambda: tuple(map(int, head["epoch"])))
        except FrameError as error:
            raise LostLinkError(str(error)) from None  # it is begun anew
        try:
            self._do(what, name, epoch, parcel)
        except LostLinkError:
            raise
        except HeadwaterError as error:
            self._views.pop(name, None)
            self._tell("view", f"{name}: {error}")
            told = f"The node of {self._base.name} cannot go on with {name}: {error.message}"
            self._send(name, epoch, {"is": "failed", "message": told, "hint": error.hint})

    def _do(self, what: str, name: str, epoch: Epoch, parcel: Parcel) -> None:
        hosted = self._views.get(name)
        if what == "begin":
            self._begin(name, epoch, parcel)
        elif hosted is None or hosted.state.epoch != epoch:
            return  # of a life that is over
        elif what == "end":
            del self._views[name]
        elif what == "ask":
            ask = hosted.state.question
            if ask is None:
                raise FrameError("The runner wants an answer to no question.")
            label, marker = read(lambda: (str(parcel.head["label"]), parcel.head["marker"]))
            if marker is not None and not (isinstance(marker, str) and _MARKER.fullmatch(marker)):
                raise FrameError("The runner wants a marker that is none.")
            read_as, view = self._read, hosted.view
            self._connections.do(
                partial(self._ask, name, epoch, label, ask.queries, marker, read_as, view)
            )
        elif what == "told":
            reader = Reader(hosted.view, parcel.blobs)
            told = read(lambda: reader.told(parcel.head["told"]))
            hosted.state, did = hosted.machine.handle(hosted.state, told)
            if did is not None:
                self._say(name, hosted, did)
        else:
            raise FrameError("The runner said what no node knows.")

    def _begin(self, name: str, epoch: Epoch, parcel: Parcel) -> None:
        view, machine = read(lambda: self._made(parcel.head))
        if self._base.name not in view.sources:
            raise InputError(f"View {name} does not read {self._base.name}.")
        state, did = machine.start(epoch)
        hosted = self._views[name] = _Hosted(view, machine, state)
        columns = columns_of(each.view for each in self._views.values())
        self._read = _Read(narrowed(self._base, columns[self._base.name]))
        self._tell("view", f"{name}: begins, epoch {'.'.join(map(str, epoch))}.")
        self._say(name, hosted, did)

    def _made(self, head: Any) -> tuple[View, AwayNode]:
        view = StoredDefinition.from_json(head["definition"]).view.narrowed()
        chosen = algorithm(str(head["algorithm"]))
        parameters = {str(name): str(value) for name, value in head["parameters"].items()}
        return view, AwayNode(make_nodes(chosen, view, parameters)[self._base.name])

    # Questions

    def _ask(
        self,
        name: str,
        epoch: Epoch,
        label: str,
        queries: Sequence[Query],
        marker: str | None,
        read_as: _Read,
        view: View,
    ) -> None:
        """Put a question to the source. In a thread of its connections."""
        try:
            read_as.check(view)
            reply = self._connections.ask(queries, marker)
        except HeadwaterError as error:
            told = {"error": _kind_of(error), "message": error.message, "hint": error.hint}
            self._jobs.put(partial(self._send, name, epoch, _replied(label, told)))
        except Exception as error:
            message = f"Asking {self._base.name} failed: {type(error).__name__}: {error}."
            told = {"error": "source", "message": message, "hint": ""}
            self._jobs.put(partial(self._send, name, epoch, _replied(label, told)))
        else:
            self._jobs.put(partial(self._answered, name, epoch, label, reply))

    def _answered(self, name: str, epoch: Epoch, label: str, reply: Reply) -> None:
        hosted = self._views.get(name)
        if hosted is not None and hosted.state.epoch == epoch:
            hosted.state = hosted.machine.answered(hosted.state, reply.results)
            told = {"snapshot": str(reply.snapshot), "marker": reply.marker}
            self._send(name, epoch, _replied(label, told))

    def _say(self, name: str, hosted: _Hosted, did: Did) -> None:
        writer = Writer(hosted.view)
        told = writer.did(did)
        head = {"is": "did", "did": told}
        self._send(name, did.epoch, head, writer.blobs)

    def _send(
        self, name: str, epoch: Epoch, head: dict[str, Any], blobs: Iterable[bytes] = ()
    ) -> None:
        self._link.send(Parcel({"view": name, "epoch": epoch, **head}, [*blobs]).to_bytes())


def _replied(label: str, told: dict[str, Any]) -> dict[str, Any]:
    return {"is": "replied", "label": label, **told}


def _kind_of(error: HeadwaterError) -> str:
    match error:
        case LostConnectionError():
            return "lost"
        case RefusedError():
            return "refused"
    return "source"
