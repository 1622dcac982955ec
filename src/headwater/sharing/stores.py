"""A node's objects in an object store: a mirror that its owner renews and others take from.

What is in the store is what a node answers over HTTP, as objects below an address:

    node.json                    who the node is
    addresses                    every object that is there whole, one a line
    listing/ab                   what begins with ab, as `offers` writes it
    objects/ab/abcd....jsonl     the objects

The addresses are put last, so whoever reads sees a set that is whole, however many of the others
have been put. The node itself, with its private key and what it holds, stays in its folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

from headwater.errors import InputError
from headwater.sharing.answers import PROTOCOL
from headwater.sharing.available import Place
from headwater.sharing.catalog import Catalog
from headwater.sharing.encoding import MALFORMED
from headwater.sharing.errors import DamagedObjectError, ForeignObjectError, PeerError
from headwater.sharing.limits import MOST_HEAD_BYTES
from headwater.sharing.offers import (
    MOST_LISTING_BYTES,
    Offered,
    is_address,
    offered_by,
    read_lines,
    unreadable,
)
from headwater.sharing.peers import NODE_FILE, parse_description, words_of
from headwater.storage.opening import address_problem

ADDRESSES, LISTING = "addresses", "listing"
ALLOW_HTTP = ("AWS_ALLOW_HTTP", "AZURE_ALLOW_HTTP", "GOOGLE_ALLOW_HTTP")
"""Variables that allow a store to be without TLS; all others its library reads by itself."""
AT_ONCE = 8


class StoreFolder:
    """What is below an address of an object store; its options come from the environment."""

    def __init__(self, address: str) -> None:
        if problem := address_problem(address):
            raise InputError(f"The address of the object store {problem}.")
        from headwater.storage.clouds import CloudBucket  # would slow down all commands
        from headwater.storage.objects import ObjectStorage

        self.address = address.rstrip("/")
        allowed = [os.environ.get(name, "") for name in ALLOW_HTTP]
        with self._told():
            bucket = CloudBucket(self.address, {"allow_http": next(filter(None, allowed), "false")})
            self._storage = ObjectStorage(bucket)

    def read(self, key: str, most: int) -> bytes:
        """FileNotFoundError if there is none; DamagedObjectError if it is larger."""
        with self._told():
            found = self._storage.read_range(key, 0, most + 1)
        if len(found) > most:
            raise DamagedObjectError(
                f"{self.where(key)} has more than {most:,} bytes.",
                "It is not what is listed, or --most-megabytes has to be larger.",
            )
        return found

    def put(self, key: str, content: bytes) -> None:
        with self._told():
            self._storage.replace(Path(f"/{key}"), content)

    def put_if_absent(self, key: str, content: bytes) -> bool:
        with self._told():
            return self._storage.put_if_absent(Path(f"/{key}"), content)

    def where(self, key: str) -> str:
        return f"{self.address}/{key}"

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What a store answers, in words for those who have no project."""
        try:
            yield
        except FileNotFoundError:
            raise
        except InputError as error:
            raise InputError(
                error.message.replace("warehouse", "object store"),
                "Correct the address, or make the bucket; options and credentials are variables "
                "of the environment, such as AWS_ENDPOINT and AWS_ACCESS_KEY_ID.",
            ) from None
        except OSError as error:
            why = str(error.strerror).replace("not in [warehouse.options], ", "")
            raise PeerError(
                f"The object store at {self.address} cannot be used: {why}.",
                "Try again when that is put right: what has arrived whole is kept.",
            ) from None


class StorePeer:
    """A node whose mirror is in an object store."""

    place = Place.STORE
    at_once = AT_ONCE

    def __init__(self, address: str) -> None:
        self._folder = StoreFolder(address)
        about = described(self._folder)
        if about is None:
            raise PeerError(
                f"There is no node of Headwater at {self._folder.address}.",
                "Check the address: 'headwater share mirror' puts a node's objects there.",
            )
        self.node: str = about["node"]
        self.system: str = about["system"]
        self.key: str = about.get("key", "")

    def until(self, moment: float) -> None:
        """The storage has its own patience."""

    def where(self, address: str) -> str:
        return self._folder.where(key_of(address))

    def addresses(self) -> list[str]:
        return mirrored(self._folder)

    def listed(self, part: str) -> list[Offered]:
        key = f"{LISTING}/{part}"
        try:
            return read_lines(self._folder.read(key, MOST_LISTING_BYTES), part)
        except FileNotFoundError:
            return []
        except ValueError as error:
            raise unreadable(self._folder.where(key), words_of(error)) from None

    def get(self, address: str, most: int) -> bytes:
        try:
            return self._folder.read(key_of(address), most)
        except FileNotFoundError:
            raise DamagedObjectError(
                f"The shared object {self.where(address)} is listed there and missing.",
                "Get it from another node that has it.",
            ) from None

    def close(self) -> None:
        """Nothing is open."""


def key_of(address: str) -> str:
    return f"objects/{address[:2]}/{address}.jsonl"


def described(folder: StoreFolder) -> dict[str, Any] | None:
    """Whose mirror it is; None if it is nobody's yet."""
    try:
        about = parse_description(folder.read(NODE_FILE, MOST_HEAD_BYTES))
        protocol = about["headwater"]
    except FileNotFoundError:
        return None
    except (PeerError, InputError):
        raise
    except MALFORMED as error:
        raise unreadable(folder.where(NODE_FILE), words_of(error)) from None
    if protocol != PROTOCOL:
        raise unreadable(folder.address, f"it has protocol {protocol!r:.40}, not {PROTOCOL}")
    return about


def mirrored(folder: StoreFolder) -> list[str]:
    """What is there whole."""
    try:
        found = folder.read(ADDRESSES, MOST_LISTING_BYTES).decode("ascii", "replace").split()
    except FileNotFoundError:
        return []
    if not all(map(is_address, found)):
        raise unreadable(folder.where(ADDRESSES), "it does not list objects")
    return list(dict.fromkeys(found))


def mirror(catalog: Catalog, address: str) -> dict[str, int]:
    """Put what a node has and its mirror lacks into an object store; how many of each kind."""
    folder = StoreFolder(address)
    with catalog.store.mirroring():
        catalog.refresh()
        _claim(catalog, folder)
        there = set(mirrored(folder))
        addresses = sorted(catalog.addresses())
        new = [listed for listed in catalog if listed.address not in there]
        _put_all(catalog, folder, [listed.address for listed in new])
        changed = {listed.address[:2] for listed in new}
        _put_listings(catalog, folder, [a for a in addresses if a[:2] in changed])
        if new:
            folder.put(ADDRESSES, "".join(f"{found}\n" for found in addresses).encode())
    counts: dict[str, int] = {}
    for listed in new:
        counts[listed.kind] = counts.get(listed.kind, 0) + 1
    return counts


def _claim(catalog: Catalog, folder: StoreFolder) -> None:
    """A place in a store has one node's mirror, and stays that node's."""
    key = catalog.description.get("key", "")
    mine = {"headwater": PROTOCOL, "node": catalog.node, "system": catalog.system, "key": key}
    if described(folder) is None:
        folder.put_if_absent(NODE_FILE, json.dumps(mine).encode("ascii"))
    about = described(folder)
    if about is None or any(about.get(what, "") != mine[what] for what in mine):
        owner = "nobody" if about is None else f"node {about['node']} of '{about['system']}'"
        raise ForeignObjectError(
            f"{folder.address} is the mirror of {owner}.", "Give every node a place of its own."
        )


def _put_all(catalog: Catalog, folder: StoreFolder, addresses: Sequence[str]) -> None:
    def put(address: str) -> None:
        with catalog.store.open(address) as file:
            folder.put(key_of(address), file.read())

    _at_once(put, addresses)


def _put_listings(catalog: Catalog, folder: StoreFolder, addresses: Iterable[str]) -> None:
    parts = [(part, list(found)) for part, found in groupby(addresses, lambda a: a[:2])]

    def put(item: tuple[str, list[str]]) -> None:
        part, found = item
        lines = (offered.line() for offered in offered_by(catalog.store, found))
        folder.put(f"{LISTING}/{part}", b"".join(lines))

    _at_once(put, parts)


def _at_once(put: Callable[[Any], None], items: Iterable[Any]) -> None:
    with ThreadPoolExecutor(AT_ONCE, "share mirror") as pool:
        for _ in pool.map(put, items):
            pass
