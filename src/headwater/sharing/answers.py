"""What a node answers to those who ask for its objects: a function of a request, without a network.

A node gives three things: what it says of itself, lists of its objects, and the objects. A path
is one of those forms or there is nothing there: it never becomes the name of a file, but for the
digits of an object's address. What a node holds and its private key have no path.

    /node.json                    the node's name, its system and its public key
    /objects/                     the address of every object, one a line
    /objects/ab/                  what begins with ab, as `offers` writes it
    /objects/ab/abcd....jsonl     an object; from a byte on, if the request has a range
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, BinaryIO

from headwater.sharing.offers import Offered, is_address, offered_by
from headwater.sharing.peers import Peer

PROTOCOL = 1
"""Raised when what is asked or answered changes."""
JSON, LINES = "application/json", "application/octet-stream"
_OBJECT = re.compile(r"/objects/([0-9a-f]{2})/(\1[0-9a-f]{62})\.jsonl")
_PART = re.compile(r"/objects/([0-9a-f]{2})/")
_RANGE = re.compile(r"bytes=(\d{1,15})-")
_MOST_HEADS = 200_000
"""How many objects' heads are remembered, since they never change."""


@dataclass(frozen=True)
class Asked:
    """A request; the names of its headers are in small letters."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """Its head, and where its body comes from."""

    status: int
    kind: str = JSON
    body: bytes = b""
    file: BinaryIO | None = None
    """In the place of a body: from where it stands, to be closed."""
    size: int = 0
    """How many bytes of the file."""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def length(self) -> int:
        return len(self.body) if self.file is None else self.size


@dataclass(frozen=True)
class Access:
    """Who is answered."""

    token: str = field(default="", repr=False)
    """Shown by everybody who asks; none if there is another way to know them, or no need to."""
    by_certificate: bool = False
    """Whether only those are connected who have shown a certificate."""

    def refusal(self, asked: Asked) -> Answer | None:
        """The answer to somebody who is not to be answered."""
        if self.token:
            scheme, _, shown = asked.headers.get("authorization", "").partition(" ")
            if scheme.lower() == "bearer" and _is_same(shown.strip(), self.token):
                return None
            why = "the token is wrong" if shown else "a token is needed"
            return told(401, why, {"WWW-Authenticate": "Bearer"})
        if not self.by_certificate and not _names_this_machine(asked.headers.get("host", "")):
            return told(403, "without a token it is asked by a name of this machine only")
        return None


def _is_same(shown: str, token: str) -> bool:
    """In a time that does not depend on how much of it is right."""
    one, other = (sha256(text.encode("utf-8", "replace")).digest() for text in (shown, token))
    return hmac.compare_digest(one, other)


def _names_this_machine(host: str) -> bool:
    """A page in a browser here may ask by a name of its own that leads to this machine."""
    name = re.sub(r":\d*$", "", host).strip("[]")
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name in ("localhost", "")


class Answers:
    """Of one node, whose folder is only read."""

    def __init__(self, peer: Peer, access: Access) -> None:
        self._peer, self._access = peer, access
        self._heads: dict[str, Offered] = {}

    def answer(self, asked: Asked) -> Answer:
        """In any thread."""
        if asked.method not in ("GET", "HEAD"):
            return told(405, "objects are only read", {"Allow": "GET, HEAD"})
        if (refusal := self._access.refusal(asked)) is not None:
            return refusal
        if asked.path == "/node.json":
            peer = Peer(self._peer.files.folder)  # it may have got a key meanwhile
            about = {"node": peer.node, "system": peer.system, "key": peer.key}
            return _json(200, {"headwater": PROTOCOL, **about})
        if asked.path == "/objects/":
            found = sorted(filter(is_address, self._peer.files.addresses()))
            return Answer(200, LINES, "".join(f"{address}\n" for address in found).encode())
        if part := _PART.fullmatch(asked.path):
            return Answer(200, LINES, self._listing(part[1]))
        if found_object := _OBJECT.fullmatch(asked.path):
            return self._object(found_object[2], asked.headers.get("range", ""))
        return told(404, "there is nothing here: a node has node.json and objects/")

    def _listing(self, part: str) -> bytes:
        addresses = sorted(filter(is_address, self._peer.files.part(part)))
        new = [address for address in addresses if address not in self._heads]
        found = {offered.address: offered for offered in offered_by(self._peer.files, new)}
        if len(self._heads) + len(found) <= _MOST_HEADS:
            self._heads |= {a: offered for a, offered in found.items() if offered.head}
        listed = (found.get(address) or self._heads[address] for address in addresses)
        return b"".join(each.line() for each in listed)

    def _object(self, address: str, wanted: str) -> Answer:
        try:
            file = self._peer.files.open(address)
        except OSError:
            return told(404, "there is no such object that can be read")
        size = file.seek(0, 2)
        part = _RANGE.fullmatch(wanted)
        first = int(part[1]) if part else 0
        if first and first >= size:
            file.close()
            return told(416, f"it has {size} bytes", {"Content-Range": f"bytes */{size}"})
        file.seek(first)
        if not first:
            return Answer(200, LINES, file=file, size=size)
        about = {"Content-Range": f"bytes {first}-{size - 1}/{size}"}
        return Answer(206, LINES, file=file, size=size - first, headers=about)


def told(status: int, why: str, headers: Mapping[str, str] | None = None) -> Answer:
    """An answer that says why there is no other."""
    return _json(status, {"error": why}, headers)


def _json(
    status: int, value: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> Answer:
    return Answer(status, JSON, json.dumps(value).encode("ascii") + b"\n", headers=headers or {})
