"""How a runner and a node come to trust each other: both know a secret, which is never sent.

The runner begins with a number that is used once. The node answers with its own, with what it is,
and with a proof: an HMAC of both numbers and of all that it says, under the secret. The runner
checks that, and proves in turn that it knows the secret, too. Both then use keys that are made
of the secret and both numbers, one for each direction. No input or output here; the numbers are
given.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.errors import HeadwaterError
from headwater.nodes.frames import FrameError
from headwater.reading import parse_json

TO_NODE, TO_RUNNER = b"to node", b"to runner"
NONCE_BYTES = 32


class RefusedNodeError(HeadwaterError):
    """The other side will not have this one, and says why; waiting helps if it `passes`."""

    def __init__(self, message: str, hint: str = "", passes: bool = False) -> None:
        super().__init__(message, hint)
        self.passes = passes


@dataclass(frozen=True)
class Keys:
    """The keys of one connection, by direction."""

    to_node: bytes
    to_runner: bytes


@dataclass(frozen=True)
class Introduced:
    """What a node says that it is."""

    source: str
    identity: str
    """What tells its database from others."""


@dataclass(frozen=True)
class Welcomed:
    """What a runner tells a node that it takes."""

    owner: str
    """The warehouse's name, which markers at the source carry."""
    keys: Keys


class RunnerSide:
    """A runner's part."""

    def __init__(self, secret: bytes, nonce: bytes, release: str) -> None:
        self._secret = secret
        self._nonce = nonce.hex()
        self._release = release

    def challenge(self) -> bytes:
        return _packed({"headwater": self._release, "nonce": self._nonce})

    def introduced(self, payload: bytes) -> Introduced:
        """Who it is; RefusedNodeError, which is to be sent to it, if it is nobody to trust."""
        told = _unpacked(payload)
        self._theirs = _text(told, "nonce")
        if told.get("headwater") != self._release:
            raise _other_release(told, "node", self._release)
        found = Introduced(_text(told, "source"), _text(told, "identity"))
        proof = _proof(self._secret, "node", self._nonce, self._theirs, _said(found))
        if not hmac.compare_digest(proof, _text(told, "proof")):
            raise RefusedNodeError(
                "The node's secret is not the runner's.",
                "Give both the same secret in [nodes] of headwater.toml; a line break at its end "
                "counts.",
            )
        return found

    def welcome(self, owner: str) -> tuple[bytes, Keys]:
        proof = _proof(self._secret, "runner", self._nonce, self._theirs, owner)
        return _packed({"owner": owner, "proof": proof}), self._keys()

    @staticmethod
    def refusal(error: RefusedNodeError) -> bytes:
        return _packed({"refused": error.message, "hint": error.hint, "passes": error.passes})

    def _keys(self) -> Keys:
        return _keys(self._secret, self._nonce, self._theirs)


class NodeSide:
    """A node's part."""

    def __init__(self, secret: bytes, nonce: bytes, release: str, introduced: Introduced) -> None:
        self._secret = secret
        self._nonce = nonce.hex()
        self._release = release
        self._introduced = introduced

    def introduce(self, payload: bytes) -> bytes:
        """The answer to a runner's challenge."""
        told = _unpacked(payload)
        self._theirs = _text(told, "nonce")
        if told.get("headwater") != self._release:
            raise _other_release(told, "runner", self._release)
        said = _said(self._introduced)
        return _packed(
            {
                "headwater": self._release,
                "nonce": self._nonce,
                "source": self._introduced.source,
                "identity": self._introduced.identity,
                "proof": _proof(self._secret, "node", self._theirs, self._nonce, said),
            }
        )

    def welcomed(self, payload: bytes) -> Welcomed:
        """What the runner says; RefusedNodeError if it does not want this node."""
        told = _unpacked(payload)
        if "refused" in told:
            passes = told.get("passes") is True
            raise RefusedNodeError(_text(told, "refused"), _text(told, "hint"), passes)
        owner = _text(told, "owner")
        proof = _proof(self._secret, "runner", self._theirs, self._nonce, owner)
        if not hmac.compare_digest(proof, _text(told, "proof")):
            raise RefusedNodeError(
                "What listens there does not know the secret.",
                "See that [nodes] names the runner's address, and the secret that it has.",
            )
        return Welcomed(owner, _keys(self._secret, self._theirs, self._nonce))


def _proof(secret: bytes, side: str, runners: str, nodes: str, said: str) -> str:
    told = json.dumps([side, runners, nodes, said]).encode()
    return hmac.new(secret, told, hashlib.sha256).hexdigest()


def _said(introduced: Introduced) -> str:
    return json.dumps([introduced.source, introduced.identity])


def _keys(secret: bytes, runners: str, nodes: str) -> Keys:
    def key(direction: bytes) -> bytes:
        return hmac.new(secret, direction + f" {runners} {nodes}".encode(), hashlib.sha256).digest()

    return Keys(key(TO_NODE), key(TO_RUNNER))


def _packed(told: Mapping[str, object]) -> bytes:
    return json.dumps(told).encode()


def _unpacked(payload: bytes) -> Mapping[str, Any]:
    try:
        found = parse_json(payload)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise FrameError("What the other side says of itself cannot be read.")
    return found


def _text(told: Mapping[str, Any], name: str) -> str:
    found = told.get(name)
    if not isinstance(found, str) or len(found) > 1000:
        raise FrameError("What the other side says of itself cannot be read.")
    return found


def _other_release(told: Mapping[str, Any], who: str, own: str) -> RefusedNodeError:
    return RefusedNodeError(
        f"The {who} is release {str(told.get('headwater'))[:20]} of Headwater, and this is {own}.",
        "Use the same release for the runner and its nodes.",
    )
