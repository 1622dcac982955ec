"""Exchange: nodes that meet copy each other what the other lacks.

Every object is read whole, its checksum verified, and judged by what the receiving catalog knows,
those that come before it included; only then the first is written. So a bad one leaves everything
as it was, unless it is to be skipped.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.sharing.catalog import Catalog
from headwater.sharing.encoding import KINDS, decode
from headwater.sharing.entries import Item
from headwater.sharing.errors import ForeignObjectError, SharingError
from headwater.sharing.updategram import Updategram
from headwater.sharing.validation import Known


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
        ready, refused = _judged(source, target, skip_bad)
        target.add_all(ready)
    taken = dict.fromkeys(KINDS, 0)
    for item, _ in ready:
        taken[_kind(item)] += 1
    return Copied(source.node, target.node, {k: n for k, n in taken.items() if n}, refused)


def _judged(
    source: Catalog, target: Catalog, skip_bad: bool
) -> tuple[list[tuple[Item, str]], dict[str, SharingError]]:
    known: Known = target.known.copy()
    ready: list[tuple[Item, str]] = []
    refused: dict[str, SharingError] = {}
    arrived: list[Updategram] = []

    def same(item: Updategram) -> list[Updategram]:
        wanted = item.subject, item.first, item.last
        here = [u for u in arrived if (u.subject, u.first, u.last) == wanted]
        return [*target.same(item), *here]

    for listed in source:
        if listed.address in target:
            continue
        try:
            envelope, content = source.store.read(listed.address)
            if envelope.system != target.system:
                raise ForeignObjectError(
                    f"The object {listed.address[:12]} belongs to the system '{envelope.system}'.",
                    f"This is the system '{target.system}'.",
                )
            item = decode(content)
            known.admit(item, envelope.maker, same)
        except SharingError as error:
            if not skip_bad:
                raise
            refused[listed.address] = error
            continue
        if isinstance(item, Updategram):
            arrived.append(item)
        ready.append((item, envelope.maker))
    return ready, refused


def _kind(item: Item) -> str:
    return type(item).__name__.removesuffix("Entry").lower()
