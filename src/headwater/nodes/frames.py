"""Frames on a connection between a runner and a node: bytes in, payloads out, and back.

A frame has a mark, the protocol's version, its length, a digest, and the payload. The digest is an
HMAC over the direction, the number of the frame and the payload. Until both sides have shown that
they know the secret its key is empty: it is a mere checksum then, and payloads are short. Then it
is a key of this connection alone, so that nothing can be altered, left out, repeated, or
brought over from another connection. No input or output here.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Iterator

from headwater.errors import HeadwaterError

VERSION = 1
MOST_BYTES = 64 << 20
"""Of one payload, once it is known who sends it."""
MOST_BYTES_OF_STRANGERS = 1 << 14
_MARK = b"hwnd"
_HEAD = struct.Struct(">4sBI32s")
_COUNT = struct.Struct(">Q")


class FrameError(HeadwaterError):
    """What came over a connection is no frame that could be taken in."""


class Sealer:
    """Makes the frames of one direction of a connection."""

    def __init__(self, direction: bytes) -> None:
        self._digests = _Digests(direction)

    def trust(self, key: bytes) -> None:
        """From now on under a key of this connection."""
        self._digests.key = key

    def frame(self, payload: bytes) -> bytes:
        if len(payload) > MOST_BYTES:
            raise FrameError(
                f"A message has {len(payload):,} bytes, and no more than {MOST_BYTES:,} may go at "
                "once.",
                'Let the runner host the node (leave out node = "by itself"), or use another '
                "algorithm for the view.",
            )
        return _HEAD.pack(_MARK, VERSION, len(payload), self._digests.next(payload)) + payload


class Opener:
    """Finds the frames in what comes from one direction of a connection."""

    def __init__(self, direction: bytes) -> None:
        self._digests = _Digests(direction)
        self._most = MOST_BYTES_OF_STRANGERS
        self._buffer = bytearray()

    def trust(self, key: bytes) -> None:
        """From now on under a key of this connection."""
        self._digests.key = key
        self._most = MOST_BYTES

    @property
    def wanted(self) -> int:
        """How many bytes may be read at once without keeping more than is needed."""
        return min(1 << 20, self._most + _HEAD.size)

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def payloads(self) -> Iterator[bytes]:
        """The payloads that are there; raises FrameError, after which nothing can be trusted."""
        while (payload := self._next()) is not None:
            yield payload

    def _next(self) -> bytes | None:
        start = bytes(self._buffer[: _HEAD.size])
        if not _MARK.startswith(start[: len(_MARK)]):
            raise FrameError("What came is no frame of Headwater's.")
        if len(start) > len(_MARK) and start[len(_MARK)] != VERSION:
            raise FrameError(
                f"The other side speaks version {start[len(_MARK)]} of the nodes' protocol, and "
                f"this one version {VERSION}.",
                "Use the same release of Headwater for the runner and its nodes.",
            )
        if len(start) < _HEAD.size:
            return None
        _, _, length, digest = _HEAD.unpack(start)
        if length > self._most:
            raise FrameError(f"A frame of {length:,} bytes was announced; {self._most:,} may come.")
        if len(self._buffer) < _HEAD.size + length:
            return None
        payload = bytes(self._buffer[_HEAD.size : _HEAD.size + length])
        del self._buffer[: _HEAD.size + length]
        if not hmac.compare_digest(digest, self._digests.next(payload)):
            raise FrameError("A frame came damaged, or in another place than it was sent in.")
        return payload


class _Digests:
    """The digests of successive payloads."""

    def __init__(self, direction: bytes) -> None:
        self.key = b""
        self._direction = direction
        self._count = 0

    def next(self, payload: bytes) -> bytes:
        self._count += 1
        told = self._direction + _COUNT.pack(self._count)
        return hmac.new(self.key, told + payload, hashlib.sha256).digest()
