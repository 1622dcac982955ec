"""A small S3 server in memory: objects, lists, copies, and puts on conditions, each one step.

It asks for no signature. What is known of S3 stands in its answers: 412 where a condition does not
hold, a new entity tag with every content, lists that show what was put. Where a real server can be
had (`tests.objects.servers`), the same tests run against that too.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import gmtime, strftime, time
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

BUCKET = "lake"


@dataclass(frozen=True)
class Held:
    content: bytes
    modified: float

    @property
    def tag(self) -> str:
        return f'"{hashlib.md5(self.content).hexdigest()}"'


class SmallServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, Held] = {}
        self.lock = threading.Lock()
        self.ahead_s = 0.0
        """How far its clock is before this machine's."""

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: SmallServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        pass

    @property
    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}").lstrip("/")

    @property
    def _is_ours(self) -> bool:
        return urlsplit(self.path).path.split("/")[1] == BUCKET

    def do_PUT(self) -> None:  # the name that http.server asks for
        content = self._body()
        source = self.headers.get("x-amz-copy-source")
        with self.server.lock:
            if source is not None:
                held = self.server.objects.get(
                    unquote(source).lstrip("/").removeprefix(f"{BUCKET}/")
                )
                if held is None:
                    return self._error(404, "NoSuchKey")
                content = held.content
            present = self.server.objects.get(self._key)
            if self.headers.get("If-None-Match") == "*" and present is not None:
                return self._error(412, "PreconditionFailed")
            wanted = self.headers.get("If-Match")
            if wanted is not None and (present is None or present.tag != wanted):
                return self._error(412, "PreconditionFailed")
            held = Held(content, time() + self.server.ahead_s)
            self.server.objects[self._key] = held
        body = b"" if source is None else _copied(held)
        return self._answer(200, body, {"ETag": held.tag})

    def do_GET(self) -> None:
        if not self._is_ours:
            return self._error(404, "NoSuchBucket")
        query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        if "list-type" in query:
            return self._list(query)
        held = self.server.objects.get(self._key)
        if held is None:
            return self._error(404, "NoSuchKey")
        content, told = held.content, _told(held)
        if asked := self.headers.get("Range"):
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start = int(first) if first else len(content) - int(last)
            end = min(int(last) if first and last else len(content) - 1, len(content) - 1)
            told["Content-Range"] = f"bytes {start}-{end}/{len(content)}"
            return self._answer(206, content[start : end + 1], told)
        return self._answer(200, content, told)

    def do_HEAD(self) -> None:
        held = self.server.objects.get(self._key)
        if held is None:
            return self._answer(404, b"", {})
        return self._answer(200, b"", _told(held), len(held.content))

    def do_DELETE(self) -> None:
        with self.server.lock:
            self.server.objects.pop(self._key, None)
        return self._answer(204, b"", {})

    def do_POST(self) -> None:
        """Several are deleted at once."""
        keys = [unescape(key) for key in re.findall(r"<Key>(.*?)</Key>", self._body().decode())]
        with self.server.lock:
            for key in keys:
                self.server.objects.pop(key, None)
        gone = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        self._answer(200, f"<DeleteResult>{gone}</DeleteResult>".encode(), {})

    def _list(self, query: Mapping[str, list[str]]) -> None:
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        with self.server.lock:
            found = {k: v for k, v in self.server.objects.items() if k.startswith(prefix)}
        folders, parts = set(), []
        for key, held in sorted(found.items()):
            inner = key[len(prefix) :]
            if delimiter and delimiter in inner:
                folders.add(prefix + inner.partition(delimiter)[0] + delimiter)
                continue
            stamp = strftime("%Y-%m-%dT%H:%M:%S.000Z", gmtime(held.modified))
            parts.append(
                f"<Contents><Key>{escape(key)}</Key><LastModified>{stamp}</LastModified>"
                f"<ETag>{escape(held.tag)}</ETag><Size>{len(held.content)}</Size></Contents>"
            )
        parts += [f"<CommonPrefixes><Prefix>{escape(f)}</Prefix></CommonPrefixes>" for f in folders]
        text = (
            '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(parts)}</KeyCount>"
            f"<MaxKeys>100000</MaxKeys><IsTruncated>false</IsTruncated>{''.join(parts)}"
            "</ListBucketResult>"
        )
        self._answer(200, text.encode(), {"Content-Type": "application/xml"})

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _error(self, status: int, code: str) -> None:
        self._answer(status, f"<Error><Code>{code}</Code></Error>".encode(), {})

    def _answer(
        self, status: int, content: bytes, told: Mapping[str, str], size: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in told.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content) if size is None else size))
        self.end_headers()
        self.wfile.write(content)


def _told(held: Held) -> dict[str, str]:
    return {"ETag": held.tag, "Last-Modified": formatdate(held.modified, usegmt=True)}


def _copied(held: Held) -> bytes:
    return f"<CopyObjectResult><ETag>{escape(held.tag)}</ETag></CopyObjectResult>".encode()


@contextmanager
def small_server() -> Iterator[SmallServer]:
    with SmallServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
