"""A proxy between Headwater and an object store that does to requests what networks do.

What it does to the next request is drawn from a seed: pass it on; answer 500 or 503 instead; be
slow; pass it on and lose its answer; close the connection before anything was passed on.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from urllib.parse import urlsplit

_PASSED = frozenset({"connection", "keep-alive", "transfer-encoding"})


class FaultyProxy(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, target: str, seed: int, share: float) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = urlsplit(target).netloc
        self.share = share
        """How many of all requests meet with a fault."""
        self.done: Counter[str] = Counter()
        self._random = Random(seed)
        self._lock = threading.Lock()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def draw(self) -> str:
        with self._lock:
            faults = ["refuse", "busy", "slow", "lose answer", "close before"]
            fault = self._random.choice(faults) if self._random.random() < self.share else "pass"
            self.done[fault] += 1
            return fault


class _Handler(BaseHTTPRequestHandler):
    server: FaultyProxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _handle(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        match fault := self.server.draw():
            case "refuse" | "busy":
                code = "InternalError" if fault == "refuse" else "SlowDown"
                text = f"<Error><Code>{code}</Code></Error>".encode()
                self._reply(500 if fault == "refuse" else 503, {}, text)
                return
            case "close before":
                self.close_connection = True
                return
            case "slow":
                time.sleep(0.2)
        status, headers, found = self._passed_on(content)
        if fault == "lose answer":
            self.close_connection = True
            return
        self._reply(status, headers, found)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _handle  # noqa: N815 # http.server's names

    def _passed_on(self, content: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.server.target, timeout=60)
        try:
            headers = {k: v for k, v in self.headers.items() if k.lower() not in _PASSED}
            connection.request(self.command, self.path, content, headers)
            answer = connection.getresponse()
            found = answer.read()
            told = {k: v for k, v in answer.getheaders() if k.lower() not in _PASSED}
            return answer.status, told, found
        finally:
            connection.close()

    def _reply(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if not any(name.lower() == "content-length" for name in headers):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def faulty_proxy(target: str, seed: int = 0, share: float = 0.2) -> Iterator[FaultyProxy]:
    with FaultyProxy(target, seed, share) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
