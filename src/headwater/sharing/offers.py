"""What a peer offers, before anything is transferred: of each object its size and what it is.

An offer is what the peer says. What it says of an object is used to choose what to ask for, and
nothing else: an object that has arrived is judged by itself.

A line of a listing has the address, the size in bytes, the maker as a JSON text and the object's
own second line, with tabs between; what is damaged there has nothing in the last two places.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from headwater.errors import HeadwaterError
from headwater.reading import parse_json
from headwater.sharing.available import Place
from headwater.sharing.encoding import Manifest, address_of, depends, read_manifest
from headwater.sharing.errors import DamagedObjectError, PeerError
from headwater.sharing.limits import MOST_NAME_BYTES
from headwater.sharing.store import ObjectFiles

MOST_SIZE = 1 << 50
MOST_LISTING_BYTES = 32 << 20
"""Of what a peer lists at once."""
_ADDRESS, _PART = re.compile("[0-9a-f]{64}"), re.compile("[0-9a-f]{2}")
_BREAKING = re.compile(rb"[\t\r\n]")
"""Headwater writes none of these within a line."""


def is_address(text: str) -> bool:
    return _ADDRESS.fullmatch(text) is not None


def is_part(text: str) -> bool:
    return _PART.fullmatch(text) is not None


@dataclass(frozen=True)
class Offered:
    """One object, as its peer lists it; without a head it is damaged there."""

    address: str
    size: int
    """In bytes, of the whole file."""
    maker: str = ""
    head: bytes = b""

    @cached_property
    def manifest(self) -> Manifest:
        """DamagedObjectError if it does not say what it is."""
        return read_manifest(self.head, f"The object {self.address[:12]} in the peer's listing")

    @cached_property
    def order(self) -> tuple[int, bool, int, str]:
        """Objects come after those on which they depend."""
        return *depends(self.manifest), self.address

    @property
    def entry(self) -> bytes | None:
        """All of an object that has no rows, which its head is; None if it is not."""
        content = self.head + b"\n"
        return content if address_of(content) == self.address else None

    def line(self) -> bytes:
        head = b"" if _BREAKING.search(self.head) else self.head
        maker = json.dumps(self.maker).encode("ascii") if head else b""
        return b"\t".join((self.address.encode(), b"%d" % self.size, maker, head)) + b"\n"


def read_lines(content: bytes, part: str) -> list[Offered]:
    """A listing of what begins with these digits; ValueError if it is none."""
    found: dict[str, Offered] = {}
    for line in content.splitlines():
        offered = _read_line(line)
        if not offered.address.startswith(part) or offered.address in found:
            raise ValueError("an object is listed where it does not belong")
        found[offered.address] = offered
    return list(found.values())


def _read_line(line: bytes) -> Offered:
    address, size, maker, head = line.split(b"\t")
    name = parse_json(maker) if head else ""
    if not is_address(address.decode("ascii")) or not size.isdigit() or int(size) > MOST_SIZE:
        raise ValueError("a line names no object with its size")
    if not isinstance(name, str) or len(name) > MOST_NAME_BYTES:
        raise ValueError("a line names no maker")
    return Offered(address.decode("ascii"), int(size), name, head)


class Offering(Protocol):
    """A peer from which objects are transferred one by one. Used by several threads at once."""

    @property
    def node(self) -> str: ...

    @property
    def system(self) -> str: ...

    @property
    def key(self) -> str: ...

    @property
    def place(self) -> Place:
        """How far away its objects are."""
        ...

    @property
    def at_once(self) -> int:
        """How many objects are asked for at the same time."""
        ...

    def addresses(self) -> list[str]:
        """Of everything it has."""
        ...

    def listed(self, part: str) -> list[Offered]:
        """What begins with these two digits."""
        ...

    def get(self, address: str, most: int) -> bytes:
        """The file of an object; DamagedObjectError if there is none, or a larger one."""
        ...

    def where(self, address: str) -> str:
        """The object's own address there, for people."""
        ...

    def until(self, moment: float) -> None:
        """Nothing is tried again after a moment of the steady clock."""
        ...

    def close(self) -> None: ...


def offered_by(files: ObjectFiles, addresses: Iterable[str]) -> Iterator[Offered]:
    """What is in a folder."""
    for address in addresses:
        size = files.size(address)
        try:
            envelope, _, head = files.head_line(address)
            yield Offered(address, size, envelope.maker, head)
        except HeadwaterError:
            yield Offered(address, size)


def require_offered(offered: Offered, where: str) -> None:
    """Refuse what the peer itself cannot read."""
    if not offered.head:
        raise DamagedObjectError(
            f"The shared object {where} is damaged: its peer cannot read it.",
            "Get another copy of it from a node that has it.",
        )


def unreadable(where: str, why: str) -> PeerError:
    return PeerError(
        f"{where} does not answer as a node of Headwater does: {why.rstrip('.')}.",
        "Check the address; both sides need releases that read each other's listings.",
    )
