"""Exchange: a node takes from a peer what it lacks.

Every object is read whole, its checksum and its signature verified, and judged by what the
receiving catalog knows, those that come before it included; only then the first is written. So a
bad one leaves everything as it was, unless it is to be skipped. There are limits on how much is
read at all.
"""

from __future__ import annotations

import time
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from headwater.errors import HeadwaterError
from headwater.sharing.catalog import Arrival, Catalog
from headwater.sharing.encoding import (
    KINDS,
    MALFORMED,
    Manifest,
    decode,
    depends,
    read_manifest,
    value_count,
)
from headwater.sharing.entries import NodeEntry
from headwater.sharing.errors import (
    DamagedObjectError,
    ForeignObjectError,
    PastLifeError,
    SharingError,
)
from headwater.sharing.limits import Limits
from headwater.sharing.store import Envelope, ObjectFiles
from headwater.sharing.trust import Trust, changed_key


class Said(Protocol):
    """Who a node says it is."""

    @property
    def node(self) -> str: ...

    @property
    def system(self) -> str: ...

    @property
    def key(self) -> str: ...


class Source(Said, Protocol):
    """A node, and where its objects are read: in its folder, or where they wait to be judged."""

    @property
    def files(self) -> ObjectFiles: ...


@dataclass(frozen=True)
class Copied:
    """What one node took from another: addresses by kind, and what was refused and why."""

    source: str
    target: str
    taken: dict[str, int]
    refused: dict[str, HeadwaterError]

    @property
    def count(self) -> int:
        return sum(self.taken.values())


def copy(
    source: Source,
    target: Catalog,
    *,
    only: Container[str] | None = None,
    skip_bad: bool = False,
    unsigned: bool = False,
    limits: Limits | None = None,
) -> Copied:
    """Take everything from `source` that `target` lacks; nothing if something is wrong with it.

    `only` are the addresses of what is taken, if that is not everything.
    """
    check_peer(source, target, is_same=source.files.folder == target.store.folder)
    with target.store.locked():
        target.refresh()
        trust = Trust(target.node, target.trusted, unsigned)
        taking = _Taking(source, target, trust, limits or Limits(), skip_bad, only)
        return taking.all()


def check_peer(source: Said, target: Catalog, *, is_same: bool = False) -> None:
    """Whether a node may be taken from; `is_same` if it is the target's own folder."""
    if source.system != target.system:
        raise ForeignObjectError(
            f"Node {source.node} belongs to the system '{source.system}', node {target.node} to "
            f"'{target.system}'.",
            "Only nodes of one system exchange objects.",
        )
    if source.node == target.node and not is_same:
        raise ForeignObjectError(
            f"Both catalogs are those of a node {source.node}.", "Every node has its own name."
        )
    known = target.known.nodes.get(source.node)
    if known and source.key != known:
        raise changed_key(source.node)


class _Taking:
    """One exchange, object after object."""

    def __init__(
        self,
        source: Source,
        target: Catalog,
        trust: Trust,
        limits: Limits,
        skip_bad: bool,
        only: Container[str] | None,
    ) -> None:
        self._source, self._target, self._trust = source, target, trust
        self._limits, self._skip_bad, self._only = limits, skip_bad, only
        self._arrival = Arrival(target)
        self._bytes_left, self._values_left = limits.bytes, limits.values
        self._end = time.monotonic() + limits.seconds
        self._refused: dict[str, HeadwaterError] = {}

    def all(self) -> Copied:
        taken = dict.fromkeys(KINDS, 0)
        for place, address in enumerate(self._ordered()):
            with self._refusing(address):
                self._check_limits(place)
                if kind := self._take(address):
                    taken[kind] += 1
        self._arrival.keep()
        counts = {kind: count for kind, count in taken.items() if count}
        return Copied(self._source.node, self._target.node, counts, self._refused)

    @contextmanager
    def _refusing(self, what: str) -> Iterator[None]:
        """An error ends the exchange, or is noted if bad objects are skipped."""
        try:
            yield
        except SharingError as error:
            if not self._skip_bad:
                raise
            self._refused[what] = error

    def _ordered(self) -> list[str]:
        """What is lacking, in the order in which objects depend on others."""
        found = []
        for address in self._lacking():
            with self._refusing(address):
                self._check_limits(0)
                _, manifest = self._source.files.head(address)
                found.append((*depends(manifest), address))
        return [address for *_, address in sorted(found)]

    def _lacking(self) -> Iterator[str]:
        for part in self._source.files.parts():
            with self._refusing(f"objects/{part}"):
                yield from filter(self._is_wanted, self._source.files.part(part))

    def _is_wanted(self, address: str) -> bool:
        return address not in self._target and (self._only is None or address in self._only)

    def _check_limits(self, place: int) -> None:
        if place >= self._limits.objects or time.monotonic() > self._end:
            raise SharingError(
                f"Node {self._source.node} has more new objects than are taken at once.",
                "With --skip-bad the rest is left for the next exchange.",
            )

    def _check_values(self, count: int) -> None:
        if count > self._values_left:
            raise SharingError(
                f"Node {self._source.node} has new objects with more than "
                f"{self._limits.values:,} values.",
                "With --skip-bad the rest is left for the next exchange; --most-values takes more "
                "at once, for which memory is needed.",
            )
        self._values_left -= count

    def _take(self, address: str) -> str:
        """Read and judge an object; its kind, or nothing if it says nothing new."""
        envelope, content = self._source.files.read(address, self._bytes_left)
        self._bytes_left -= len(content)
        if envelope.system != self._target.system:
            raise ForeignObjectError(
                f"The object {address[:12]} belongs to the system '{envelope.system}'.",
                f"This is the system '{self._target.system}'.",
            )
        manifest = read_manifest(content.partition(b"\n")[0])
        if self._is_own_past(envelope, manifest):
            return ""
        self._trust.require_other(envelope.maker)
        key = self._arrival.known.nodes.get(envelope.maker)
        kind: str = manifest["kind"]
        self._check_values(value_count(manifest, content))
        try:
            if kind == "node":
                return kind if self._meet(envelope, content) else ""
            if key is not None:  # else the maker is unknown, which is said below
                self._trust.require_signature(envelope, key)
            self._arrival.take(decode(content), envelope, content)
        except PastLifeError:
            return ""  # there may be two of it, and nothing that is new leads on from it
        except SharingError:
            raise
        except MALFORMED as error:
            raise DamagedObjectError(
                f"The shared object {self._source.files.path(address)} cannot be judged: "
                f"{str(error)[:200].rstrip('.')}.",
                "It was not written by Headwater: get another copy of it.",
            ) from None
        return kind

    def _is_own_past(self, envelope: Envelope, manifest: Manifest) -> bool:
        """Whether this node made it before it began anew: it was put back, and need not know it."""
        node = self._target.node
        mine = self._arrival.known.publications.get(node)
        if mine is None or envelope.maker != node:
            return False
        numbers = [number for name, number, _ in envelope.heads if name == node]
        if manifest["kind"] == "publication" and type(manifest.get("number")) is int:
            numbers.append(manifest["number"])
        return bool(numbers) and mine.is_past(max(numbers))

    def _meet(self, envelope: Envelope, content: bytes) -> bool:
        """Judge what a node says of itself; False if it is known better."""
        item, known = decode(content), self._arrival.known.nodes.get(envelope.maker, "")
        key = item.key if isinstance(item, NodeEntry) else ""
        if known and not key:
            return False
        self._trust.require_key(envelope.maker, key, known)
        self._trust.require_signature(envelope, key)
        self._arrival.take(item, envelope, content)
        return True
