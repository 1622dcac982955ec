"""Where the runner listens for nodes: who knocks introduces itself, or is sent away.

Why the runner listens: it is the one place that all nodes have to reach. One port and one secret
are to be guarded, and a machine beside a database needs no open port.

Who knocks may be anybody, and many. So when all places are taken the one that has been there for
longest goes: a node needs its place for an instant, and who only wants to keep it loses it first.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import ssl
import threading
import time
from typing import Protocol

from headwater.errors import HeadwaterError
from headwater.nodes.frames import FrameError, Opener, Sealer
from headwater.nodes.handshake import (
    NONCE_BYTES,
    TO_NODE,
    TO_RUNNER,
    RefusedNodeError,
    RunnerSide,
)
from headwater.nodes.link import Link, receive_one
from headwater.nodes.lives import ConnectedNode
from headwater.nodes.settings import Meeting, address_text

INTRODUCTION_S = 5.0
_MOST_STRANGERS = 64
_POLL_S = 0.2


class Register(Protocol):
    """Who is let in, and who was not. In any thread."""

    def reserve(self, node: ConnectedNode) -> None:
        """A node has proved who it is; RefusedNodeError if it is not to be let in."""
        ...

    def connected(self, node: ConnectedNode) -> None:
        """It has its link, over which nothing was received yet."""
        ...

    def leave(self, node: ConnectedNode) -> None:
        """One that was let in, or about to be, is not there any more."""
        ...

    def refuse(self, why: str) -> None:
        """Somebody was sent away."""
        ...


class Listening:
    """`start`, then `stop`; every connection that is let in is told to the register."""

    def __init__(self, meeting: Meeting, register: Register) -> None:
        self._meeting = meeting
        self._register = register
        self._owner = ""
        self._stopping = False
        self._places = threading.Semaphore(_MOST_STRANGERS)
        self._lock = threading.Lock()
        self._strangers: dict[str, socket.socket] = {}
        """By address, who has not proved who it is; the first has been there for longest."""
        self._listener: socket.socket | None = None
        self._thread = threading.Thread(target=self._listen, name="nodes", daemon=True)

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

    def stop(self) -> None:
        """Let nobody in any more."""
        self._stopping = True
        if self._listener is not None:
            self._thread.join()
            self._listener.close()

    # The thread that listens, and one for each that knocks

    def _listen(self) -> None:
        assert self._listener is not None
        while not self._stopping:
            try:
                connection, address = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:  # who knocked has gone, or there are no more files to be had
                time.sleep(_POLL_S)
                continue
            if not self._find_place():
                connection.close()
                continue
            threading.Thread(
                target=self._admit, args=(connection, address_text(*address[:2])),
                name=f"nodes: {address[0]}", daemon=True,
            ).start()  # fmt: skip

    def _find_place(self) -> bool:
        """Have a place for one more, if need be that of who has been there for longest."""
        if self._places.acquire(blocking=False):
            return True
        with self._lock:
            for address in self._strangers:
                with contextlib.suppress(OSError):  # not TLS's, which belongs to another thread
                    socket.socket.shutdown(self._strangers.pop(address), socket.SHUT_RDWR)
                break
        return self._places.acquire(timeout=_POLL_S)

    def _admit(self, connection: socket.socket, address: str) -> None:
        try:
            connection = self._secured(connection, address)
            self._introduce(connection, address)
        except Exception as error:  # whatever a stranger does to one thread is told, and no more
            why = f"the connection failed ({type(error).__name__})."
            if isinstance(error, HeadwaterError):
                why = error.message
            self._register.refuse(f"Somebody at {address} was refused: {why}")
            connection.close()
        finally:
            with self._lock:
                self._strangers.pop(address, None)
            self._places.release()

    def _secured(self, connection: socket.socket, address: str) -> socket.socket:
        connection.settimeout(INTRODUCTION_S)
        tls = self._meeting.tls
        try:
            if tls is not None:
                connection = tls.wrap_socket(
                    connection, server_side=True, do_handshake_on_connect=False
                )
            with self._lock:
                self._strangers[address] = connection
            if isinstance(connection, ssl.SSLSocket):
                connection.do_handshake()
        except OSError as error:  # ssl.SSLError is one
            connection.close()
            known = (getattr(error, name, None) for name in ("verify_message", "reason"))
            why = next(filter(None, known), error.strerror or "no TLS")
            raise FrameError(f"TLS: {why}.") from None
        return connection

    def _known(self, address: str) -> None:
        """Who is there has proved who it is, and keeps its place."""
        with self._lock:
            if self._strangers.pop(address, None) is None:
                raise FrameError("It was slower than others that knocked.")

    def _introduce(self, connection: socket.socket, address: str) -> None:
        until = time.monotonic() + INTRODUCTION_S
        sealer, opener = Sealer(TO_NODE), Opener(TO_RUNNER)
        side = RunnerSide(
            self._meeting.secret, secrets.token_bytes(NONCE_BYTES), self._meeting.release
        )
        connection.sendall(sealer.frame(side.challenge()))
        try:
            introduced = side.introduced(receive_one(connection, opener, until))
            self._known(address)
            node = ConnectedNode(introduced, address, time.time())
            self._register.reserve(node)
        except RefusedNodeError as error:
            connection.sendall(sealer.frame(side.refusal(error)))
            raise
        try:
            welcome, keys = side.welcome(self._owner)
            connection.settimeout(INTRODUCTION_S)
            connection.sendall(sealer.frame(welcome))
            sealer.trust(keys.to_node)
            opener.trust(keys.to_runner)
            self._connect(node, connection, sealer, opener)
        except BaseException:
            self._register.leave(node)
            raise

    def _connect(
        self, node: ConnectedNode, connection: socket.socket, sealer: Sealer, opener: Opener
    ) -> None:
        name = f"The node of {node.introduced.source}"

        def lost(error: HeadwaterError) -> None:
            self._register.leave(node)
            node.lost(error)

        node.link = Link(connection, sealer, opener, node.take, lost, name)
        self._register.connected(node)
        node.link.start()
