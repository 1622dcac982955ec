"""Signatures: a node signs what it makes, and everybody can see that nobody else did (Ed25519)."""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)


class Signer:
    """A node's private key. It is written to the node's own file and nowhere else."""

    def __init__(self, private: bytes | None = None) -> None:
        """From what `private` gave, or a new one; ValueError if it is no key."""
        self._key = (
            Ed25519PrivateKey.generate()
            if private is None
            else Ed25519PrivateKey.from_private_bytes(bytes.fromhex(private.decode("ascii")))
        )

    def private(self) -> bytes:
        return self._key.private_bytes_raw().hex().encode() + b"\n"

    @property
    def public(self) -> str:
        """What others need to know: 64 hexadecimal digits."""
        return self._key.public_key().public_bytes_raw().hex()

    def sign(self, statement: bytes) -> str:
        return self._key.sign(statement).hex()


def is_signed(key: str, signature: str, statement: bytes) -> bool:
    """Whether the owner of a public key has signed these bytes."""
    try:
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
        public.verify(bytes.fromhex(signature), statement)
    except (InvalidSignature, ValueError):
        return False
    return True
