"""A node's objects over HTTP: who connects is answered by one of a bounded number of threads.

Requests are read by the standard library's `http.server`, and answered by `answers`. Whoever
connects may be a stranger: how many connections there are at once, how long and how large a
request is, how long an answer may take to be received, all of that is bounded here.
"""

from __future__ import annotations

import io
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

from headwater.errors import HeadwaterError
from headwater.journal import LOGGER
from headwater.sharing.answers import Answer, Answers, Asked, told

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

_POLL_S = 0.2
_CHUNK = 64 << 10
_MOST_SHOWN = 200


@dataclass(frozen=True)
class Bounds:
    """What a server gives to those who ask."""

    connections: int = 32
    """At once; one more is sent away."""
    request_bytes: int = 16 << 10
    request_s: float = 15.0
    """For a request to come, since the one before was answered."""
    answer_s: float = 30.0
    """For an answer to be received, and more for a large one."""
    least_bytes_per_s: float = 16e3
    drain_s: float = 5.0
    """For answers that are under way when it is stopped."""


@dataclass(frozen=True)
class Served:
    """A request that was answered, or could not be."""

    who: str
    method: str
    path: str
    status: int
    size: int
    seconds: float


class Serving:
    """`start`, then `stop`; every request is told."""

    def __init__(
        self,
        host: str,
        port: int,
        answers: Answers,
        tls: ssl.SSLContext | None = None,
        tell: Callable[[Served], None] = lambda served: None,
        bounds: Bounds | None = None,
    ) -> None:
        self.answers, self.tell, self.bounds = answers, tell, bounds or Bounds()
        self._host, self._port, self._tls = host, port, tls
        self._stopping = threading.Event()
        self._room = threading.Semaphore(self.bounds.connections)
        self._lock = threading.Lock()
        self._connections: dict[threading.Thread, socket.socket] = {}
        self._listener: socket.socket | None = None
        self._thread = threading.Thread(target=self._listen, name="share serve", daemon=True)

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    @property
    def address(self) -> str:
        """Where it is asked; of a port that is to be any free one, once it has started."""
        scheme = "http" if self._tls is None else "https"
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{scheme}://{host}:{self._port}"

    def start(self) -> None:
        """Listen; HeadwaterError if that cannot be."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        try:
            self._listener = socket.create_server(
                (self._host, self._port), family=family, backlog=self.bounds.connections
            )
        except OSError as error:
            raise HeadwaterError(
                f"The node cannot be served at {self._host}:{self._port}: {error.strerror}.",
                "Give another address with --listen, or end what listens there.",
            ) from None
        self._port = self._listener.getsockname()[1]
        self._listener.settimeout(_POLL_S)
        self._thread.start()

    def stop(self) -> None:
        """Let nobody in any more, and let what is under way come to an end."""
        self._stopping.set()
        if self._listener is None:
            return
        self._thread.join()
        self._listener.close()
        with self._lock:
            left = dict(self._connections)
        for connection in left.values():  # who is waited for has nothing more to ask
            _shut(connection, socket.SHUT_RD)
        end = time.monotonic() + self.bounds.drain_s
        for thread in left:
            thread.join(max(0.0, end - time.monotonic()))
        for connection in left.values():
            _shut(connection, socket.SHUT_RDWR)
        for thread in left:
            thread.join(_POLL_S)

    # The thread that listens, and one for each connection

    def _listen(self) -> None:
        assert self._listener is not None
        while not self.is_stopping:
            try:
                connection, address = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:  # who knocked has gone, or there are no more files to be had
                time.sleep(_POLL_S)
                continue
            if not self._room.acquire(blocking=False):
                _send_away(connection)
                continue
            thread = threading.Thread(
                target=self._serve, args=(connection, str(address[0])), name="share serve: one",
                daemon=True,
            )  # fmt: skip
            with self._lock:
                self._connections[thread] = connection
            thread.start()

    def _serve(self, connection: socket.socket, who: str) -> None:
        """Whatever one connection does, it is the end of that connection only."""
        try:
            connection.settimeout(self.bounds.request_s)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
                with self._lock:
                    self._connections[threading.current_thread()] = connection
            _Handler(connection, who, self)
        except Exception:  # whatever a stranger does to one thread
            LOGGER.debug("a connection ended by an error", exc_info=True)
        finally:
            with suppress(OSError):
                connection.close()
            with self._lock:
                del self._connections[threading.current_thread()]
            self._room.release()


class _Handler(BaseHTTPRequestHandler):
    """One connection: requests one after the other."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "headwater", ""

    def __init__(self, connection: socket.socket, who: str, serving: Serving) -> None:
        self._serving = serving
        self._input, self._output = _Bounded(connection), _Output(connection)
        self._began = time.monotonic()
        super().__init__(connection, (who, 0), None)  # type: ignore[arg-type]  # it asks it nothing

    def setup(self) -> None:
        self.rfile, self.wfile = io.BufferedReader(self._input), self._output

    def handle_one_request(self) -> None:
        bounds = self._serving.bounds
        if self._serving.is_stopping:
            self.close_connection = True
            return
        self._output.until = time.monotonic() + bounds.request_s
        self._input.allow(bounds.request_bytes, bounds.request_s)
        super().handle_one_request()

    def _answered(self) -> None:
        self._began = time.monotonic()
        headers = {name.lower(): value for name, value in self.headers.items()}
        if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
            self.close_connection = True  # what follows is not read as a request
            self._send(told(400, "a request has no body here"))
            return
        asked = Asked(self.command, self.path, headers)
        try:
            answer = self._serving.answers.answer(asked)
        except (HeadwaterError, OSError) as error:
            message = error.message if isinstance(error, HeadwaterError) else error.strerror
            answer = told(500, f"the node's objects cannot be read: {message}")
        self._send(answer)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _answered  # noqa: N815 # http.server's names

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What http.server refuses by itself."""
        self.close_connection = True
        self._send(told(code, message or "it cannot be read"))

    def _send(self, answer: Answer) -> None:
        bounds = self._serving.bounds
        self._output.until = (
            time.monotonic() + bounds.answer_s + answer.length / bounds.least_bytes_per_s
        )
        if self._serving.is_stopping or answer.status in (401, 403):
            self.close_connection = True
        try:
            self._send_head(answer)
            if self.command != "HEAD":
                self._send_body(answer)
        finally:
            if answer.file is not None:
                answer.file.close()
            self._tell(answer)

    def _send_head(self, answer: Answer) -> None:
        self.send_response_only(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(answer.length))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if self.close_connection:
            self.send_header("Connection", "close")
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _send_body(self, answer: Answer) -> None:
        self.wfile.write(answer.body)
        left = answer.size if answer.file is not None else 0
        while left and answer.file is not None:
            chunk = answer.file.read(min(_CHUNK, left))
            if not chunk:  # it was cut meanwhile, and whoever reads it is to notice
                self.close_connection = True
                return
            self.wfile.write(chunk)
            left -= len(chunk)

    def _tell(self, answer: Answer) -> None:
        method, path = (getattr(self, name, None) or "-" for name in ("command", "path"))
        self._serving.tell(
            Served(
                str(self.client_address[0]),
                method[:_MOST_SHOWN],
                path[:_MOST_SHOWN],
                answer.status,
                answer.length,
                time.monotonic() - self._began,
            )
        )

    def log_message(self, format: str, *args: object) -> None:
        """What is told is told by `_tell`."""


class _Bounded(io.RawIOBase):
    """What comes over a connection, up to so many bytes and for so long."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        self._connection, self._left, self._until = connection, 0, 0.0

    def allow(self, size: int, seconds: float) -> None:
        self._left, self._until = size, time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        seconds = self._until - time.monotonic()
        if self._left <= 0 or seconds <= 0:
            raise TimeoutError("a request is too large or too slow")
        self._connection.settimeout(seconds)
        size = self._connection.recv_into(memoryview(buffer)[: self._left])
        self._left -= size
        return size


class _Output(io.BufferedIOBase):
    """What goes over a connection, until a moment."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        self._connection, self.until = connection, 0.0

    def writable(self) -> bool:
        return True

    def write(self, content: ReadableBuffer, /) -> int:
        left = memoryview(content).cast("B")
        size = len(left)
        while left:
            seconds = self.until - time.monotonic()
            if seconds <= 0:
                raise TimeoutError("an answer is received too slowly")
            self._connection.settimeout(seconds)
            left = left[self._connection.send(left) :]
        return size


def _shut(connection: socket.socket, how: int) -> None:
    with suppress(OSError):  # TLS's own forgets that it is TLS, and an answer would go on without
        socket.socket.shutdown(connection, how)


def _send_away(connection: socket.socket) -> None:
    with suppress(OSError), connection:
        connection.setblocking(False)
        connection.send(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
