"""The catalog: everything that a node knows, in a folder, by what it is about.

Nodes, relations, views with their version vectors, updategrams, boosters. It is read from the
objects themselves whenever it is opened: there is no second list that could disagree with
them. Only the first two lines of a file are read for that; rows are read, and their checksum
verified, when an object is used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from headwater.errors import InputError
from headwater.sharing.available import Place
from headwater.sharing.booster import Booster
from headwater.sharing.contents import Contents
from headwater.sharing.encoding import (
    KINDS,
    MALFORMED,
    Manifest,
    address_of,
    decode,
    definition_of,
    depends,
    encode,
    net_address,
    read_interval,
)
from headwater.sharing.entries import Item, NodeEntry, Publication, RelationEntry, ViewEntry
from headwater.sharing.errors import (
    ConflictError,
    DamagedObjectError,
    ForeignObjectError,
    LackingError,
    SharingError,
    UnknownNameError,
    UntrustedObjectError,
)
from headwater.sharing.limits import MOST_HEAD_BYTES
from headwater.sharing.peers import NODE_FILE, read_description, require_name
from headwater.sharing.shared_views import SharedView
from headwater.sharing.signatures import Signer
from headwater.sharing.store import PRIVATE_FILE, Envelope, ObjectStore, local_folder, shared_object
from headwater.sharing.trust import changed_key
from headwater.sharing.updategram import Updategram
from headwater.sharing.validation import Known
from headwater.sharing.versions import Interval, Versions

DEFINING = ("node", "publication", "relation", "view")
"""What says what there is: of all that, whoever takes something takes everything."""
_DEPENDING = tuple(kind for kind in KINDS if kind not in DEFINING)

_Defining = NodeEntry | Publication | RelationEntry | ViewEntry

Between: TypeAlias = tuple[str, Versions, Versions]
"""A subject and two of its versions."""


@dataclass(frozen=True)
class Listed:
    """An object as the catalog lists it, without its rows."""

    address: str
    maker: str
    manifest: Manifest

    @property
    def kind(self) -> str:
        kind: str = self.manifest["kind"]
        return kind

    @property
    def rows(self) -> int:
        rows: int = self.manifest["rows"]
        return rows


@dataclass(frozen=True)
class ListedUpdategram(Listed):
    subject: str
    first: Versions
    last: Versions


@dataclass(frozen=True)
class ListedContents(Listed):
    subject: str
    versions: Versions


@dataclass(frozen=True)
class ListedStored(Listed):
    """A grouping booster, all that is stored of a view, or a window."""

    view: SharedView
    first: Versions
    last: Versions
    by: tuple[str, ...] = ()


@dataclass(frozen=True)
class ListedBooster(Listed):
    view: SharedView
    interval: Interval
    of: tuple[str, ...]
    versions: Versions
    through: Versions


class Catalog:
    """The objects that one node has. `create` and `open` make it."""

    def __init__(self, store: ObjectStore, description: dict[str, Any]) -> None:
        self.store = store
        self.description = description
        self._forget()
        self.refresh()

    def _forget(self) -> None:
        key = self.description.get("key", "")
        self.known = Known({self.description["node"]: key} if key else {})
        self._listed: dict[str, Listed] = {}
        self._by_kind: dict[str, list[Listed]] = {kind: [] for kind in KINDS}
        self._between: dict[Between, ListedUpdategram] = {}
        self._updategrams: dict[str, list[ListedUpdategram]] = {}
        self._contents: dict[str, list[ListedContents]] = {}
        self.damaged: dict[str, SharingError] = {}
        """Objects of which it cannot be read what they are, or of which something is missing that
        they depend on; they count for nothing."""

    @classmethod
    def create(
        cls, folder: Path | str, node: str, system: str, *, durable: bool = True, **more: Any
    ) -> Catalog:
        """Make the catalog of a new node in a folder."""
        place = local_folder(folder, "catalog")
        for what, name in (("node", node), ("system", system)):
            require_name(what, name)
        if place.exists() and not place.is_dir():
            raise InputError(f"{place} is no folder.", "Name a folder, or one that is to be made.")
        store = ObjectStore(place, durable=durable)
        _refuse_existing(place)
        store.make()
        with store.locked():
            _refuse_existing(place)  # another process may have made it just now
            signer = store.signer() or _new_signer(store)  # who began may have been killed
            _introduce(store, system, node, signer)
            description = {"node": node, "system": system, "key": signer.public, **more}
            store.write(NODE_FILE, json.dumps(description, indent=1).encode())
        return cls(store, description)

    @classmethod
    def open(cls, folder: Path | str, *, durable: bool = True) -> Catalog:
        place = local_folder(folder, "catalog")
        description = read_description(place / NODE_FILE)
        store = ObjectStore(place, durable=durable)
        if store.signer() is not None:  # it is this user's own
            store.make()
            store.remove_leftovers()
        return cls(store, description)

    def reread(self) -> None:
        """Take note of what other processes of this node have changed in what it says of itself."""
        self.description = read_description(self.store.folder / NODE_FILE)

    def describe(self, **changes: Any) -> None:
        """Change what the node says about itself; what others have changed meanwhile stays."""
        with self.store.locked():
            self.reread()
            self.description |= changes
            self.store.write(NODE_FILE, json.dumps(self.description, indent=1).encode())

    @property
    def node(self) -> str:
        node: str = self.description["node"]
        return node

    @property
    def system(self) -> str:
        system: str = self.description["system"]
        return system

    @property
    def trusted(self) -> dict[str, str]:
        """Keys of nodes that were given by file."""
        trusted: dict[str, str] = self.description.get("trusted", {})
        return trusted

    def trust(self, file: Path) -> None:
        """Trust the node whose public file this is a copy of; new ones from now on only so."""
        given = read_description(file)
        node, key = given["node"], given.get("key", "")
        if not key:
            raise InputError(f"{file} has no key.", "Its node gets one when it next publishes.")
        if self.known.nodes.get(node, "") not in ("", key):
            raise changed_key(node)
        self.describe(trusted=self.trusted | {node: key})

    # Signing

    @cached_property
    def _signer(self) -> Signer:
        """This node's key. A node of an old release gets one and signs what it has made before."""
        signer, public = self.store.signer(), self.description.get("key")
        if not public:
            with self.store.locked():
                return self._introduced(self.store.signer())
        if signer is None or signer.public != public:
            raise InputError(
                f"{self.store.folder} is not this user's own: the key of node {self.node} is "
                f"not in {PRIVATE_FILE}.",
                "A node publishes where its key is; make a node of your own to take from it.",
            )
        return signer

    def _introduced(self, signer: Signer | None) -> Signer:
        self.store.make()
        signer = signer or _new_signer(self.store)
        for listed in self:
            if listed.maker == self.node:
                envelope, content = self.store.read(listed.address)
                self.store.replace(_signed(envelope, signer), content)
        _introduce(self.store, self.system, self.node, signer)
        self.describe(key=signer.public)
        self.refresh()
        return signer

    # Reading

    def refresh(self) -> None:
        """Take note of objects that other processes of this node have put here, or taken away."""
        there = self.store.addresses()
        if (self._listed.keys() | self.damaged.keys()) - there:
            self._forget()
        new = []
        for address in sorted(there - self._listed.keys() - self.damaged.keys()):
            try:
                envelope, manifest = self.store.head(address)
                new.append(self._listed_of(address, envelope.maker, manifest))
            except DamagedObjectError as error:
                self.damaged[address] = error
        new.sort(key=lambda listed: depends(listed.manifest))
        for listed in new:
            try:
                if listed.kind in DEFINING:
                    self._take_in(listed)
            except LackingError as error:
                self.damaged[listed.address] = error
                continue
            self._note(listed)

    def _take_in(self, listed: Listed) -> None:
        try:
            self.known.admit(self.load(listed.address, 4 * MOST_HEAD_BYTES), listed.maker)
        except LackingError:
            raise
        except (ForeignObjectError, ConflictError, UntrustedObjectError) as error:
            raise type(error)(
                f"{self.store.path(listed.address)} does not belong here: {error.message}",
                "Somebody has put it there; delete the file.",
            ) from None

    def _listed_of(self, address: str, maker: str, manifest: Manifest) -> Listed:
        try:
            return _listed(address, maker, manifest)
        except MALFORMED:
            raise DamagedObjectError(
                f"The shared object {self.store.path(address)} is damaged: its second line cannot "
                "be read.",
                "Delete the file and get another copy from a node that has it.",
            ) from None

    def _note(self, listed: Listed) -> None:
        if isinstance(listed, ListedUpdategram):
            self._between.setdefault((listed.subject, listed.first, listed.last), listed)
            self._updategrams.setdefault(listed.subject, []).append(listed)
        elif isinstance(listed, ListedContents):
            self._contents.setdefault(listed.subject, []).append(listed)
        self._listed[listed.address] = listed
        self._by_kind[listed.kind].append(listed)

    def remove_damaged(self) -> dict[str, str]:
        """Read everything, and remove what is not what its name says; it helps nobody.

        What says who this node is, is made again.
        """
        for listed in list(self):
            try:
                self.store.read(listed.address)
            except DamagedObjectError as error:
                self.damaged[listed.address] = error
        found = {address: error.message for address, error in self.damaged.items()}
        for address in found:
            self.store.remove(address)
        mine = encode(NodeEntry(self.node, self._signer.public))
        if address_of(mine) not in self._listed:
            _introduce(self.store, self.system, self.node, self._signer)
        self.refresh()
        return found

    def __iter__(self) -> Iterator[Listed]:
        return (listed for kind in KINDS for listed in self._by_kind[kind])

    def __contains__(self, address: str) -> bool:
        return address in self._listed

    def addresses(self) -> set[str]:
        return set(self._listed)

    def updategrams(self, subject: str) -> list[ListedUpdategram]:
        return list(self._updategrams.get(subject, ()))

    def boosters(self, changed: str | None = None) -> list[ListedBooster]:
        return [
            b
            for b in self._by_kind["booster"]
            if isinstance(b, ListedBooster) and changed in (None, b.interval.relation)
        ]

    def stored(self) -> list[ListedStored]:
        """Of all views: one may serve another."""
        found = (*self._by_kind["grouping"], *self._by_kind["window"])
        return [listed for listed in found if isinstance(listed, ListedStored)]

    def contents(self, subject: str) -> list[ListedContents]:
        return list(self._contents.get(subject, ()))

    def load(self, address: str, most: int | None = None) -> Item:
        """An object with its rows, after its checksum has been verified."""
        _, content = self.store.read(address, most)
        return decode(content, shared_object(self.store.path(address)))

    def load_updategram(self, listed: ListedUpdategram) -> Updategram:
        item = self.load(listed.address)
        assert isinstance(item, Updategram)
        return item

    def load_booster(self, listed: ListedBooster) -> Booster:
        item = self.load(listed.address)
        assert isinstance(item, Booster)
        return item

    def load_contents(self, listed: ListedContents) -> Contents:
        item = self.load(listed.address)
        assert isinstance(item, Contents)
        return item

    def size(self, address: str) -> int:
        """Of an object, in bytes."""
        return self.store.size(address)

    def place(self, address: str) -> Place:
        """Where an object is."""
        return Place.LOCAL

    # What there is

    @property
    def nodes(self) -> list[str]:
        return sorted(self.known.nodes)

    @property
    def relations(self) -> dict[str, RelationEntry]:
        return self.known.relations

    @property
    def views(self) -> dict[str, SharedView]:
        return self.known.views

    def relation(self, name: str) -> RelationEntry:
        if name not in self.relations:
            raise self.unknown(name, "relation")
        return self.relations[name]

    def view(self, name: str) -> SharedView:
        if name not in self.views:
            raise self.unknown(name, "view")
        return self.views[name]

    def unknown(self, name: str, what: str = "") -> UnknownNameError:
        """That nothing, or no view or relation, has a name; with what there is."""
        kinds = {"view": sorted(self.views), "relation": sorted(self.relations)}
        known = [each for kind, names in kinds.items() if what in ("", kind) for each in names]
        cased = {each.casefold(): each for each in known}
        close = get_close_matches(name.casefold(), cased, 1)
        meant = f"Did you mean '{cased[close[0]]}'? " if close else ""
        return UnknownNameError(
            f"There is no {what or 'view or relation'} {name} in this catalog.",
            f"{meant}There are: {', '.join(known) or 'none'}.",
        )

    def newest(self, relation: str) -> int:
        """The highest version of a relation that any object here knows."""
        versions = [updategram.last[relation] for updategram in self.updategrams(relation)]
        versions += [contents.versions[relation] for contents in self.contents(relation)]
        return max(versions, default=0)

    # Writing

    def add(self, item: Item) -> str:
        """Publish an object, once it has been found to fit; its address."""
        return self.add_all([item])[0]

    def add_all(self, items: Iterable[Item]) -> list[str]:
        """Publish objects of this node's own making: all, or, if one does not fit, none."""
        arrival = self._made(items)
        arrival.keep()
        return [envelope.address for envelope, _ in arrival.ready]

    def add_new(
        self, items: Iterable[Item], publication: Callable[[], Publication] | None = None
    ) -> list[Listed]:
        """The same; those that were not here yet.

        If there are any with rows or changes, they are of this publication, asked for then.
        """
        return self._made(items, publication).keep()

    def _made(
        self, items: Iterable[Item], publication: Callable[[], Publication] | None = None
    ) -> Arrival:
        arrival = Arrival(self)
        for item in items:
            content = encode(item)
            address = address_of(content)
            if publication and not isinstance(item, _Defining) and address not in self._listed:
                self._make(arrival, publication(), None)
                publication = None
            self._make(arrival, item, content)
        return arrival

    def _make(self, arrival: Arrival, item: Item, content: bytes | None) -> None:
        content = encode(item) if content is None else content
        heads = arrival.known.heads_of(item)
        envelope = Envelope(self.system, self.node, address_of(content), heads=heads)
        arrival.take(item, _signed(envelope, self._signer), content)

    def keep(self, known: Known, ready: Iterable[tuple[Envelope, bytes]]) -> list[Listed]:
        """Store objects that have been found to fit, what others depend on first; the new ones."""
        new: list[tuple[Envelope, bytes, Listed]] = []
        seen = set(self._listed)
        for envelope, content in ready:
            if envelope.address not in seen:
                seen.add(envelope.address)
                manifest = json.loads(content.partition(b"\n")[0])
                listed = self._listed_of(envelope.address, envelope.maker, manifest)
                new.append((envelope, content, listed))
        with self.store.locked():
            for kinds in (*((kind,) for kind in DEFINING), _DEPENDING):
                self.store.add_all((e, content) for e, content, at in new if at.kind in kinds)
        self.known = known
        for _, _, listed in new:
            self._note(listed)
        return [listed for _, _, listed in new]

    def listed_between(self, between: Between) -> ListedUpdategram | None:
        """An updategram at hand between these versions, which all do the same, or none."""
        return self._between.get(between)


class Arrival:
    """Objects on their way into a catalog: each is judged as if those before it were in already."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.known = catalog.known.copy()
        self._nets: dict[Between, str | int] = {}
        """What the first updategram between two versions comes to; where in `ready` that is, until
        there is another."""
        self._others: dict[Between, str] = {}
        """Which that is, for people."""
        self.ready: list[tuple[Envelope, bytes]] = []

    def take(self, item: Item, envelope: Envelope, content: bytes) -> None:
        """Judge an object; an error leaves it out."""
        self.known.require_heads(envelope.heads)
        if isinstance(item, Publication):
            self.known.require_before(item)
        self._current = envelope
        self.known.admit(item, envelope.maker, self._contradicted)
        self.ready.append((envelope, content))

    def _contradicted(self, item: Updategram) -> str:
        """What it says otherwise than another between its versions does, in words; only one is
        looked at."""
        between = (item.subject, item.first, item.last)
        if between not in self._nets:
            listed = self._catalog.listed_between(between)
            if listed is None:
                self._nets[between] = len(self.ready)  # where `take` puts it
                return ""
            where = str(self._catalog.store.path(listed.address))
            self._others[between] = f"{where}, made by {listed.maker}"
            self._nets[between] = net_address(self._catalog.load_updategram(listed))
        elif isinstance(at := self._nets[between], int):
            envelope, content = self.ready[at]
            first = decode(content)
            assert isinstance(first, Updategram)
            self._others[between] = f"{envelope.address[:12]}, made by {envelope.maker}"
            self._nets[between] = net_address(first)
        if net_address(item) == self._nets[between]:
            return ""
        mine = f"{self._current.address[:12]}, made by {self._current.maker}"
        return f"{self._others[between]}, and {mine}"

    def keep(self) -> list[Listed]:
        """Let them in, all of them; those that were not here yet."""
        return self._catalog.keep(self.known, self.ready)


def _new_signer(store: ObjectStore) -> Signer:
    signer = Signer()
    store.write_key(signer)
    return signer


def _refuse_existing(folder: Path) -> None:
    if (folder / NODE_FILE).exists():
        raise InputError(f"{folder} is a catalog already.", "Open it, or choose another folder.")


def _introduce(store: ObjectStore, system: str, node: str, signer: Signer) -> None:
    """Publish who a node is."""
    entry = encode(NodeEntry(node, signer.public))
    store.add(_signed(Envelope(system, node, address_of(entry)), signer), entry)


def _signed(envelope: Envelope, signer: Signer) -> Envelope:
    return replace(envelope, signature=signer.sign(envelope.statement))


def _listed(address: str, maker: str, manifest: Manifest) -> Listed:
    match manifest["kind"]:
        case "updategram":
            first, last = Versions(manifest["first"]), Versions(manifest["last"])
            return ListedUpdategram(address, maker, manifest, manifest["subject"], first, last)
        case "contents":
            versions = Versions(manifest["versions"])
            return ListedContents(address, maker, manifest, manifest["subject"], versions)
        case "booster":
            return ListedBooster(
                address,
                maker,
                manifest,
                definition_of(manifest),
                read_interval(manifest),
                tuple(manifest["of"]),
                Versions(manifest["versions"]),
                Versions(manifest["through"]),
            )
        case "grouping":
            view, by = definition_of(manifest), tuple(map(str, manifest["by"]))
            ends = Versions(manifest["first"]), Versions(manifest["last"])
            return ListedStored(address, maker, manifest, view, *ends, by)
        case "window":
            versions = Versions(manifest["versions"])
            view = definition_of(manifest)
            return ListedStored(address, maker, manifest, view, versions, versions)
    return Listed(address, maker, manifest)
