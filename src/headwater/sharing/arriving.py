"""Objects on their way here: kept aside, whole and checked, until all of an exchange have come.

They are files in a private folder of the node, named by their addresses like the objects of the
catalog, and nothing in them is believed: an exchange judges them when all are there. So an
exchange that was cut off goes on where it was, from the same peer or from another. They are no more
than what has come already, so nothing is synced: what a loss of power cut has another checksum.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.sharing.encoding import address_of
from headwater.sharing.errors import DamagedObjectError
from headwater.sharing.offers import is_address
from headwater.sharing.store import ARRIVING, Envelope, ObjectFiles, ObjectStore
from headwater.storage.location import Location


class Arriving:
    """What waits in a node's folder, whichever process of the node has put it there."""

    def __init__(self, store: ObjectStore) -> None:
        self._folder = store.arriving

    def make(self) -> None:
        self._folder.make_folder(durable=False)

    def sizes(self) -> dict[str, int]:
        """What is there, by address, with its bytes."""
        files = ((file.name.removesuffix(".jsonl"), file) for file in self._folder.files(".jsonl"))
        return {address: file.size() for address, file in files if is_address(address)}

    def put(self, address: str, whole: bytes, where: str) -> None:
        """Keep a file that has come; DamagedObjectError if it is not what its name says."""
        line, _, content = whole.partition(b"\n")
        if address_of(content) != address or not _names(line, address, self._at(address)):
            raise DamagedObjectError(
                f"The shared object {where} is not what its name says.",
                "It was altered where it is or on its way: get it from another node that has it.",
            )
        self._at(address).replace(whole, durable=False)

    def remove(self, addresses: Iterable[str]) -> None:
        for address in addresses:
            self._at(address).remove()

    def _at(self, address: str) -> Location:
        return self._folder / f"{address}.jsonl"


def _names(line: bytes, address: str, path: Location) -> bool:
    try:
        return Envelope.read(line, path).address == address
    except DamagedObjectError:
        return False


class Arrived(ObjectFiles):
    """Some of what waits, as an exchange reads it."""

    def __init__(self, store: ObjectStore, addresses: Iterable[str]) -> None:
        super().__init__(store.folder)
        self._arrived = sorted(addresses)

    def parts(self) -> list[str]:
        return sorted({address[:2] for address in self._arrived})

    def part(self, part: str) -> list[str]:
        return [address for address in self._arrived if address.startswith(part)]

    def _at(self, address: str) -> Location:
        return self._root / ARRIVING / f"{address}.jsonl"
