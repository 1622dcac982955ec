"""One connection between a runner and a node, with a thread of its own that reads and writes it.

Nothing here waits for ever: a side that has not been heard of for a while is lost, since each says
something now and then. What waits to be sent is bounded: who sends more waits until it has gone,
or until the connection is lost. A connection is lost once, with a reason, and everything that was
under way on it is lost with it.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable

from headwater.errors import HeadwaterError
from headwater.nodes.frames import Opener, Sealer

SILENT_S = 10.0
"""After how long without a word the other side is lost."""
_PING_S = 2.0
_MOST_UNSENT = 64 << 20
_CHUNK = 1 << 18
_PING = b""
_BOTH = (
    "See that [nodes] names the runner's address, and that both have certificates or neither has."
)


class LostLinkError(HeadwaterError):
    """A connection to a node, or to a runner, is lost."""


class Link:
    """A connection whose two sides trust each other already."""

    def __init__(
        self,
        connection: socket.socket,
        sealer: Sealer,
        opener: Opener,
        take: Callable[[bytes], None],
        lost: Callable[[HeadwaterError], None],
        name: str,
    ) -> None:
        self._connection = connection
        self._sealer = sealer
        self._opener = opener
        self._take = take
        self._lost = lost
        self._name = name
        self._changed = threading.Condition()
        self._unsent = bytearray()
        self._failure: HeadwaterError | None = None
        self._closing = False
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._connection.setblocking(False)
        self._thread.start()

    def send(self, payload: bytes) -> None:
        """Send something, behind all before it; LostLinkError if the connection is lost.

        Waits while too much is unsent.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or len(self._unsent) < _MOST_UNSENT)
            if self._is_over:
                raise self._failure or LostLinkError(f"The connection of {self._name} was closed.")
            self._unsent += self._sealer.frame(payload)
        self._wake()

    def close(self) -> None:
        """End it, without a word."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._wake()

    def join(self, limit_s: float) -> None:
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(limit_s)

    @property
    def _is_over(self) -> bool:
        return self._closing or self._failure is not None

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # it is awake, or over
            self._waker.send(b"!")

    # The thread of this connection

    def _run(self) -> None:
        failure: HeadwaterError = LostLinkError(f"The connection of {self._name} was closed.")
        try:
            self._exchange()
        except HeadwaterError as error:
            failure = error
        except (OSError, ssl.SSLError) as error:
            why = error.strerror or type(error).__name__
            failure = LostLinkError(f"The connection of {self._name} is lost: {why}.")
        except Exception as error:
            failure = HeadwaterError(
                f"The connection of {self._name} stopped: {type(error).__name__}: {error}.",
                "This is a fault of Headwater; the connection is made anew.",
            )
            failure.__cause__ = error
        finally:
            with self._changed:
                self._failure = failure
                self._unsent.clear()
                self._changed.notify_all()
            for each in (self._connection, self._woken, self._waker):
                with contextlib.suppress(OSError):
                    each.close()
            self._lost(failure)

    def _exchange(self) -> None:
        selector = selectors.DefaultSelector()
        selector.register(self._connection, selectors.EVENT_READ)
        selector.register(self._woken, selectors.EVENT_READ)
        heard = said = time.monotonic()
        self._receive()  # what came with the handshake, and what TLS holds already
        while not self._closing:
            both = selectors.EVENT_READ | selectors.EVENT_WRITE * bool(self._unsent)
            selector.modify(self._connection, both)
            selector.select(_PING_S / 4)
            with contextlib.suppress(BlockingIOError):
                self._woken.recv(4096)
            now = time.monotonic()
            if self._receive():
                heard = now
            if self._unsent:
                said = now if self._write() else said
            elif now > said + _PING_S:
                with self._changed:
                    self._unsent += self._sealer.frame(_PING)
            if now > heard + SILENT_S:
                raise LostLinkError(
                    f"{self._name} has not been heard of for {SILENT_S:.0f} seconds."
                )

    def _receive(self) -> bool:
        """Take in what is there; whether anything was."""
        found = False
        self._hand_on()
        while True:
            try:
                data = self._connection.recv(self._opener.wanted)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return found
            if not data:
                raise LostLinkError(f"{self._name} has closed the connection.")
            found = True
            self._opener.feed(data)
            self._hand_on()

    def _hand_on(self) -> None:
        for payload in self._opener.payloads():
            if payload != _PING:
                self._take(payload)

    def _write(self) -> bool:
        """Send some of what waits; whether any of it went."""
        with self._changed:
            try:
                sent = self._connection.send(bytes(self._unsent[:_CHUNK]))
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return False
            del self._unsent[:sent]
            self._changed.notify_all()
            return sent > 0


def receive_one(connection: socket.socket, opener: Opener, until: float) -> bytes:
    """The next payload of a connection on which nothing else happens yet."""
    while True:
        for payload in opener.payloads():
            return payload
        left = until - time.monotonic()
        if left <= 0:
            raise LostLinkError("The other side did not introduce itself in time.", _BOTH)
        connection.settimeout(left)
        try:
            data = connection.recv(4096)
        except TimeoutError:
            continue
        if not data:
            raise LostLinkError(
                "The other side closed the connection before it was trusted.", _BOTH
            )
        opener.feed(data)
