"""Exchange: nodes that meet copy each other what the other lacks.

Every object is read whole, its checksum verified, and judged by what the receiving catalog knows,
those that come before it included; only then the first is written. So a bad one leaves everything
as it was, unless it is to be skipped.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.sharing.catalog import Arrival, Catalog
from headwater.sharing.encoding import KINDS, decode
from headwater.sharing.entries import Item
from headwater.sharing.errors import ForeignObjectError, SharingError
from headwater.sharing.store import Envelope


@dataclass(frozen=True)
class Copied:
    """What one node took from another: addresses by kind, and what was refused and why."""

    source: str
    target: str
    taken: dict[str, int]
    refused: dict[str, SharingError]

    @property
    def count(self) -> int:
        return sum(self.taken.values())


def copy(source: Catalog, target: Catalog, *, skip_bad: bool = False) -> Copied:
    """Take everything from `source` that `target` lacks; nothing if something is wrong with it."""
    if source.system != target.system:
        raise ForeignObjectError(
            f"Node {source.node} belongs to the system '{source.system}', node {target.node} to "
            f"'{target.system}'.",
            "Only nodes of one system exchange objects.",
        )
    if source.node == target.node and source.store.folder != target.store.folder:
        raise ForeignObjectError(
            f"Both catalogs are those of a node {source.node}.", "Every node has its own name."
        )
    with target.store.locked():
        target.refresh()
        arrival = Arrival(target)
        taken, refused = dict.fromkeys(KINDS, 0), {}
        for listed in source:
            if listed.address not in target:
                try:
                    arrival.take(*_read(source, target, listed.address))
                    taken[listed.kind] += 1
                except SharingError as error:
                    if not skip_bad:
                        raise
                    refused[listed.address] = error
        arrival.keep()
    return Copied(source.node, target.node, {k: n for k, n in taken.items() if n}, refused)


def _read(source: Catalog, target: Catalog, address: str) -> tuple[Item, Envelope, bytes]:
    envelope, content = source.store.read(address)
    if envelope.system != target.system:
        raise ForeignObjectError(
            f"The object {address[:12]} belongs to the system '{envelope.system}'.",
            f"This is the system '{target.system}'.",
        )
    return decode(content), envelope, content
