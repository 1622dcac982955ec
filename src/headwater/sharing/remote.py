"""A peer that is asked over HTTP: `headwater share serve` on the other side.

A connection that is lost is opened again, after pauses, and what is missing of an object is asked
for from there on; as long as something comes, that goes on until the exchange's time is over. What
comes is bounded before it is read, redirections are not followed, and what a peer says is told in
our words.
"""

from __future__ import annotations

import http.client
import re
import ssl
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headwater.errors import InputError
from headwater.sharing.answers import PROTOCOL
from headwater.sharing.available import Place
from headwater.sharing.encoding import MALFORMED
from headwater.sharing.errors import DamagedObjectError, PeerError, SharingError
from headwater.sharing.limits import MOST_HEAD_BYTES
from headwater.sharing.offers import (
    MOST_LISTING_BYTES,
    Offered,
    is_address,
    is_part,
    read_lines,
    unreadable,
)
from headwater.sharing.peers import parse_description, words_of

_CHUNK = 64 << 10
_RANGE = re.compile(r"bytes (\d{1,15})-\d+/\d+")
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers that mean: try again."""


@dataclass(frozen=True)
class Patience:
    """How long a peer is waited for."""

    seconds: float = 20.0
    """For each thing that it has to say."""
    tries: int = 7
    """Without anything gained, before it counts as away."""
    first_tries: int = 3
    """The same for one that has never answered."""
    pause_s: float = 0.2
    """After the first try; twice as long after each."""
    longest_pause_s: float = 3.0


class _Waiting:
    """For how long after each try."""

    def __init__(self, patience: Patience) -> None:
        self._patience, self._tries = patience, 0

    def next(self, has_answered: bool, *, has_gained: bool) -> float | None:
        """Until the next try, after one that may have gained something; None if there is none."""
        self._tries = 1 if has_gained else self._tries + 1
        most = self._patience.tries if has_answered else self._patience.first_tries
        if self._tries >= most:
            return None
        longest = self._patience.longest_pause_s
        return min(self._patience.pause_s * 2.0 ** (self._tries - 1), longest)


class _TryAgainError(OSError):
    """An answer that is none yet."""


class HttpPeer:
    """A node as it says it is, and what it offers. Each thread has a connection of its own."""

    place = Place.HTTP
    at_once = 4

    def __init__(
        self,
        url: str,
        token: str = "",
        tls: ssl.SSLContext | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._scheme, self._host, self._port, self._base = _parts_of(self.url)
        self._token, self._tls, self._patience = token, tls, patience or Patience()
        self._own = threading.local()
        self._open: list[http.client.HTTPConnection] = []
        self._until, self._has_answered = inf, False
        try:
            about = self._described()
        except BaseException:
            self.close()
            raise
        self.node: str = about["node"]
        self.system: str = about["system"]
        self.key: str = about.get("key", "")

    def _described(self) -> dict[str, Any]:
        try:
            about = parse_description(self._content("/node.json", MOST_HEAD_BYTES))
            protocol = about["headwater"]
        except PeerError:
            raise
        except MALFORMED as error:
            raise unreadable(self.url, words_of(error)) from None
        if protocol != PROTOCOL:
            raise unreadable(self.url, f"it speaks protocol {protocol!r:.40}, not {PROTOCOL}")
        return about

    def until(self, moment: float) -> None:
        self._until = moment

    def where(self, address: str) -> str:
        return f"{self.url}{_path(address)}"

    def addresses(self) -> list[str]:
        found = self._content("/objects/", MOST_LISTING_BYTES).decode("ascii", "replace")
        if not all(map(is_address, found.split())):
            raise unreadable(f"{self.url}/objects/", "it does not list objects")
        return list(dict.fromkeys(found.split()))

    def listed(self, part: str) -> list[Offered]:
        assert is_part(part)
        path = f"/objects/{part}/"
        try:
            return read_lines(self._content(path, MOST_LISTING_BYTES), part)
        except ValueError as error:
            raise unreadable(f"{self.url}{path}", words_of(error)) from None

    def get(self, address: str, most: int) -> bytes:
        try:
            return self._content(_path(address), most)
        except FileNotFoundError:
            raise DamagedObjectError(
                f"The shared object {self.where(address)} is listed there and cannot be had.",
                "Exchange again, or with another node that has it.",
            ) from None

    def close(self) -> None:
        """No thread may be asking any more."""
        for connection in self._open:
            connection.close()

    # Asking

    def _content(self, path: str, most: int) -> bytes:
        """All that is at a path; what is there already after a connection was lost is kept."""
        content, waiting = bytearray(), _Waiting(self._patience)
        while True:
            before = len(content)
            try:
                self._ask(path, content, most)
                return bytes(content)
            except FileNotFoundError:
                raise
            except SharingError:
                self._drop()  # the rest of the answer is not wanted
                raise
            except (OSError, http.client.HTTPException) as error:
                self._drop()
                pause = waiting.next(self._has_answered, has_gained=len(content) > before)
                is_lasting = isinstance(error, ssl.SSLCertVerificationError)
                if pause is None or is_lasting or time.monotonic() + pause > self._until:
                    raise self._away(error) from None
            time.sleep(pause)

    def _ask(self, path: str, content: bytearray, most: int) -> None:
        connection = self._connection()
        headers = {"Accept-Encoding": "identity", "User-Agent": "headwater"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if content:
            headers["Range"] = f"bytes={len(content)}-"
        connection.request("GET", self._base + path, headers=headers)
        with connection.getresponse() as answer:
            self._check(path, answer, content)
            self._read(path, answer, content, most)

    def _read(
        self, path: str, answer: http.client.HTTPResponse, content: bytearray, most: int
    ) -> None:
        while chunk := answer.read(min(_CHUNK, most + 1 - len(content))):
            content += chunk
            if len(content) > most:
                raise DamagedObjectError(
                    f"{self.url}{path} has more than {most:,} bytes.",
                    "It is not what the peer lists, or --most-megabytes has to be larger.",
                )
            if time.monotonic() > self._until:
                raise TimeoutError("it took too long")
        if answer.length:  # http.client tells of a body that was cut only where all is read at once
            raise http.client.IncompleteRead(b"", answer.length)

    def _check(self, path: str, answer: http.client.HTTPResponse, content: bytearray) -> None:
        """Whether what was asked for follows."""
        match answer.status:
            case 200:
                content.clear()
            case 206:
                found = _RANGE.fullmatch(answer.getheader("Content-Range", ""))
                if found is None or int(found[1]) != len(content):
                    content.clear()
                    raise _TryAgainError("it gives another part than was asked for")
            case 416:
                content.clear()
                raise _TryAgainError("the object is another one now")
            case 401 | 403:
                raise self._refused(answer.status)
            case 404 if path == "/node.json":
                raise PeerError(
                    f"There is no node of Headwater at {self.url}.",
                    "Check the address: 'headwater share serve' says it when it starts.",
                )
            case 404 | 410:
                answer.read(MOST_HEAD_BYTES)
                raise FileNotFoundError(2, "there is no such object", path)
            case status if status in _PASSING:
                raise _TryAgainError(f"it answers {status}")
            case status:
                raise unreadable(f"{self.url}{path}", f"it answers {status}")
        if answer.length is None and not answer.chunked:
            raise _TryAgainError("it does not say how much it answers")  # its head was cut
        self._has_answered = True

    def _refused(self, status: int) -> PeerError:
        why = "does not accept this token" if self._token else "asks for a token"
        if status == 403 and not self._token:
            why = "answers to names of its own machine only"
        return PeerError(
            f"The node at {self.url} {why}.",
            "Give its token in a file with --token-file, or in HEADWATER_SHARE_TOKEN; who runs it "
            "has it.",
        )

    def _away(self, error: Exception) -> PeerError:
        if isinstance(error, ssl.SSLCertVerificationError):
            return PeerError(
                f"The certificate of {self.url} is not trusted: {error.verify_message}.",
                "Name who has signed it with --authorities, a PEM file.",
            )
        is_cut = isinstance(error, OSError | http.client.IncompleteRead)
        if not (self._has_answered or is_cut):
            return unreadable(self.url, "it does not speak HTTP")
        return PeerError(
            f"The node at {self.url} is away: {_why(error)}.",
            "Exchange again when it is back: what has arrived whole is kept, and not asked for "
            "again.",
        )

    # Connections

    def _connection(self) -> http.client.HTTPConnection:
        found: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        if found is None:
            seconds = self._patience.seconds
            if self._scheme == "https":
                tls = self._tls or tls_of_peer()
                found = http.client.HTTPSConnection(
                    self._host, self._port, timeout=seconds, context=tls
                )
            else:
                found = http.client.HTTPConnection(self._host, self._port, timeout=seconds)
            self._own.connection = found
            self._open.append(found)
        return found

    def _drop(self) -> None:
        """Begin anew with the next request."""
        with suppress(OSError):
            self._connection().close()


def _parts_of(url: str) -> tuple[str, str, int, str]:
    """Scheme, host, port and path; InputError that never repeats what may be a secret."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _bad_address() from None
    is_plain = re.fullmatch(r"[!-~]*", url) and not (parts.query or parts.fragment)
    if parts.scheme not in ("http", "https") or not parts.hostname or not is_plain:
        raise _bad_address()
    if "@" in parts.netloc:
        raise InputError(
            "The address of the other node has a name or a password in it.",
            "Leave them out: give a token with --token-file, or in HEADWATER_SHARE_TOKEN.",
        )
    usual = 443 if parts.scheme == "https" else 80  # left out, an IPv6 address is read as one
    return parts.scheme, parts.hostname, port or usual, parts.path.rstrip("/")


def _bad_address() -> InputError:
    return InputError(
        "The address of the other node cannot be read.",
        "Write http://HOST:PORT or https://HOST:PORT.",
    )


def _path(address: str) -> str:
    return f"/objects/{address[:2]}/{address}.jsonl"


def _why(error: Exception) -> str:
    if isinstance(error, _TryAgainError):
        return str(error)
    if isinstance(error, http.client.IncompleteRead | http.client.BadStatusLine):
        return "the connection was closed"
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason or 'no TLS'})"
    said = error.strerror if isinstance(error, OSError) else None
    return (said or type(error).__name__).lower()


def tls_of_peer(
    authorities: Path | None = None, certificate: Path | None = None, key: Path | None = None
) -> ssl.SSLContext:
    """By whom a peer's certificate has to be signed, and the one that it is shown; PEM files."""
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=authorities)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificate is not None:
        context.load_cert_chain(certificate, key)
    return context
