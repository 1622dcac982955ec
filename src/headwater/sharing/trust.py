"""Whom a node believes: every object is signed by the node that it names as its maker.

A node's key comes with its entry, which is signed by that key. Keys are trusted on first use: the
entry that arrives first is kept, and another key for the same name is refused for ever. Once
keys were given by file, only those are new to the node. Nothing that others bring is ever
accepted in the node's own name: it knows what it has made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.sharing.errors import UntrustedObjectError
from headwater.sharing.signatures import is_signed
from headwater.sharing.store import Envelope


@dataclass(frozen=True)
class Trust:
    """What a node asks of objects that others bring."""

    node: str
    """Its own name."""
    given: Mapping[str, str] = field(default_factory=dict)
    """Keys by file; if there are any, no others are trusted on first use."""
    unsigned: bool = False
    """Whether objects of nodes that have no key are taken."""

    def require_other(self, maker: str) -> None:
        if maker == self.node:
            raise UntrustedObjectError(
                f"An object that is not known here was made in the name of {maker}, this node.",
                "It is forged, or this node was put back to an earlier state: then run 'headwater "
                "share publish --anew' if it publishes a warehouse, else go on under a new name.",
            )

    def require_key(self, maker: str, key: str, known: str) -> None:
        """Whether a node may be introduced with this key; `known` is the one it has here."""
        expected = known or self.given.get(maker, "")
        if expected and key and key != expected:
            raise changed_key(maker)
        if self.given and not expected:
            raise UntrustedObjectError(
                f"Nobody has said that node {maker} is to be trusted.",
                "Get its node.json in a way that you trust, and give it with --trust.",
            )

    def require_signature(self, envelope: Envelope, key: str) -> None:
        """Whether an object was made by the node that it names, whose key this is."""
        if not key and self.unsigned:
            return
        if not key or not envelope.signature:
            raise UntrustedObjectError(
                f"The object {envelope.address[:12]} of node {envelope.maker} is not signed.",
                f"Exchange with {envelope.maker} itself, once it has published with this release"
                + (", or use --unsigned." if not key else "."),
            )
        if not is_signed(key, envelope.signature, envelope.statement):
            raise UntrustedObjectError(
                f"The object {envelope.address[:12]} was not signed by node {envelope.maker}, "
                "whose name it bears.",
                "It is forged: ask where it comes from.",
            )


def changed_key(node: str) -> UntrustedObjectError:
    return UntrustedObjectError(
        f"Node {node} has another key than the one that is known here.",
        "Somebody else speaks in its name; a node that has lost its key goes on under a new name.",
    )
