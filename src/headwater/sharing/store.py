"""Files of shared objects: immutable, named by their content's address, written whole or not.

A file is an envelope, one line with the system, the maker, the address and the maker's signature,
and then the content. It is there whole and durable, or not at all: a process that is killed leaves
at most a temporary file, which nobody reads. What a node holds itself (a view, a copy of a
relation) is a file that is replaced in one step. `ObjectFiles` reads, also what belongs to others;
only `ObjectStore`, a node's own, writes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from errno import EACCES, EDQUOT, ENOSPC, EPERM, EROFS
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias
from urllib.parse import quote, unquote

from headwater.errors import BusyError, HeadwaterError, InputError
from headwater.reading import read_at_most
from headwater.sharing.encoding import Manifest, address_of, read_manifest
from headwater.sharing.errors import DamagedObjectError
from headwater.sharing.limits import MOST_HEAD_BYTES, MOST_OWN_BYTES
from headwater.sharing.signatures import Signer
from headwater.storage.enclosed import EnclosedFolder
from headwater.storage.local import LocalStorage
from headwater.storage.location import Location

PRIVATE_FILE = "private.key"
OWED_FILE = "owed.json"
_ADDRESS, _PART = re.compile("[0-9a-f]{64}"), re.compile("[0-9a-f]{2}")
ARRIVING = "arriving"
MIRRORING = "mirroring.lock"
_PRIVATE = frozenset({"held", "lock", ARRIVING, MIRRORING, OWED_FILE, PRIVATE_FILE})
_OLD_S = 3600.0
_AT_ONCE = 32
"""So many files are brought to the disk at once: it syncs many in the time of a few."""


Heads: TypeAlias = tuple[tuple[str, int, str], ...]
"""Of the nodes whose relations an object is about, the newest publication that its maker knew: the
node, and the publication's number and token."""


@dataclass(frozen=True)
class Envelope:
    """Who made an object, in which system, its address, and the maker's signature if any."""

    system: str
    maker: str
    address: str
    signature: str = ""
    heads: Heads = ()

    @property
    def statement(self) -> bytes:
        """What is signed; the address stands for the content."""
        return b"headwater object 1\n" + json.dumps(self._names).encode("ascii")

    @property
    def _names(self) -> list[Any]:
        heads = [self._heads] if self.heads else []
        return [self.system, self.maker, self.address, *heads]

    @property
    def _heads(self) -> dict[str, list[int | str]]:
        return {node: [number, token] for node, number, token in self.heads}

    def line(self) -> bytes:
        check = hashlib.sha256(json.dumps(self._names).encode()).hexdigest()[:16]
        members = {"system": self.system, "maker": self.maker, "address": self.address}
        heads = {"heads": self._heads} if self.heads else {}
        signature = {"signature": self.signature} if self.signature else {}
        return json.dumps({**members, **heads, "check": check, **signature}).encode("ascii") + b"\n"

    @classmethod
    def read(cls, line: bytes, path: Location | Path) -> Envelope:
        try:
            found = json.loads(line)
            members = (found["system"], found["maker"], found["address"])
            heads = tuple((node, *head) for node, head in found.get("heads", {}).items())
            envelope = cls(*members, found.get("signature", ""), heads)
            texts = all(isinstance(member, str) for member in (*members, envelope.signature))
            texts = texts and all(_is_head(*head) for head in heads)
            if texts and envelope.line().rstrip(b"\n") == line.rstrip(b"\n"):
                return envelope
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
            pass
        raise _damaged(path, "its first line is not what Headwater writes")


def _is_head(node: object, number: object, token: object) -> bool:
    return isinstance(node, str) and type(number) is int and isinstance(token, str)


def local_folder(path: Path | str, what: str) -> Path:
    """A folder on this machine or mounted: a node's private key is not kept anywhere else."""
    if re.match(r"[A-Za-z][\w+.-]+:/", str(path)):  # a Path has made one slash of two
        raise InputError(
            f"The {what} '{path}' is not a folder of this machine.",
            "Give the path of a local or mounted folder; 'headwater share mirror' puts its "
            "objects into an object store.",
        )
    return Path(path).absolute()


def node_folder(folder: Path, *, durable: bool = True) -> Location:
    """The folder of a node, whoever it belongs to: nothing in it is reached through a link."""
    return Location(folder, LocalStorage(durable, EnclosedFolder(folder, _PRIVATE)))


class ObjectFiles:
    """The objects in a node's folder, whoever it belongs to: nothing in it is changed."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.folder = folder
        self._root = node_folder(folder, durable=durable)
        self._objects = self._root / "objects"

    def addresses(self) -> set[str]:
        return {address for part in self.parts() for address in self.part(part)}

    def parts(self) -> list[str]:
        """The folders that objects are in, by the first two digits of their addresses."""
        return [name for name in _names(self._objects) if _PART.fullmatch(name)]

    def part(self, part: str) -> list[str]:
        names = _names(self._objects / part)
        return [name.removesuffix(".jsonl") for name in names if name.endswith(".jsonl")]

    def path(self, address: str) -> Path:
        return self._at(address).path

    def _at(self, address: str) -> Location:
        return self._objects / address[:2] / f"{address}.jsonl"

    def open(self, address: str) -> BinaryIO:
        """The file of an object, as it is; OSError if it cannot be read."""
        return self._at(address).open()

    def size(self, address: str) -> int:
        """In bytes; 0 if it is gone."""
        return self._at(address).size()

    def head(self, address: str) -> tuple[Envelope, Manifest]:
        """Who made an object and what it says it is, without reading the rest."""
        envelope, manifest, _ = self.head_line(address)
        return envelope, manifest

    def head_line(self, address: str) -> tuple[Envelope, Manifest, bytes]:
        """The same, and the line in which it says so."""
        path = self._at(address)
        with _reading(path), path.open() as file:
            envelope = Envelope.read(file.readline(MOST_HEAD_BYTES), path)
            line = file.readline(MOST_HEAD_BYTES).rstrip(b"\n")
            return envelope, read_manifest(line, shared_object(path)), line

    def read(self, address: str, most: int | None = None) -> tuple[Envelope, bytes]:
        """An object that is what its name says; DamagedObjectError if not."""
        path = self._at(address)
        envelope, content = _read(path, most)
        if not _ADDRESS.fullmatch(address) or address_of(content) != address:
            raise _damaged(path, "its content does not have the checksum that is its name")
        if envelope.address != address:
            raise _damaged(path, "its first line names another object")
        return envelope, content

    def signer(self) -> Signer | None:
        """The node's private key, if it is here, this user's own and for nobody else."""
        try:
            with (self._root / PRIVATE_FILE).open() as file:
                about = os.fstat(file.fileno())
                if about.st_uid == os.geteuid() and not about.st_mode & 0o077:
                    return Signer(file.read(MOST_HEAD_BYTES))
        except (OSError, ValueError):
            pass
        return None


class ObjectStore(ObjectFiles):
    """The objects of one's own node, and what it holds itself."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        super().__init__(folder, durable=durable)
        self._held = self._root / "held"
        self.arriving = self._root / ARRIVING
        """Where objects wait until all of an exchange are here."""
        self._durable = durable
        self._enclosed = EnclosedFolder(folder, _PRIVATE)
        self._own_lock = threading.RLock()
        self._depth = 0

    def make(self) -> None:
        """The folders of a node, for its user only unless its folder was made for others.

        What it publishes is as open as its folder, what it keeps to itself never is.
        """
        for folder in (self._objects, self._held):
            with self._changing(folder):
                folder.make_folder()
                folder.names()
        self._root.settle(())  # who made them may have been killed before they were durable

    # Objects

    def add(self, envelope: Envelope, content: bytes) -> bool:
        """Store an object; False if it is there already."""
        path = self._at(envelope.address)
        with self._writing():
            path.parent.make_folder()
            self._objects.settle(())  # the name of that folder, whoever made it
            return not path.exists() and path.put_if_absent(envelope.line() + content)

    def add_all(self, objects: Iterable[tuple[Envelope, bytes]]) -> None:
        """Store objects in no order, to be called while `locked`.

        Each is there whole or not at all, and all are durable when this returns.
        """
        parts: dict[str, dict[str, bytes]] = {}
        for envelope, content in objects:
            name = f"{envelope.address}.jsonl"
            parts.setdefault(name[:2], {})[name] = envelope.line() + content
        if not parts:
            return
        lacking = parts.keys() - set(self.parts())
        with self._writing():
            for part in sorted(lacking):
                (self._objects / part).make_folder(durable=False)
            self._objects.settle(())  # the names of these folders, whoever made them
            if len(parts) == 1:
                self._put(*parts.popitem())
                return
            with ThreadPoolExecutor(min(len(parts), _AT_ONCE), "objects") as pool:
                list(pool.map(self._put, parts, parts.values()))

    def _put(self, part: str, files: dict[str, bytes]) -> None:
        self._enclosed.put_together((self._objects / part).path, files, self._durable)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            full = error.errno in (ENOSPC, EDQUOT)
            raise HeadwaterError(
                f"The node's folder {self.folder} cannot be written: {error.strerror or error}.",
                "Make room there, and run the command again: what was there is whole."
                if full
                else "Look at the folder, its owner and its disk; what can be read is answered.",
            ) from None

    @property
    def is_writable(self) -> bool:
        """Whether this process may change what is here, as far as the folder tells."""
        return os.access(self.folder, os.W_OK | os.X_OK, effective_ids=True)

    def remove(self, address: str) -> None:
        """An object that is damaged; another copy may take its place."""
        with self._writing():
            self._at(address).remove()

    def replace(self, envelope: Envelope, content: bytes) -> None:
        """Put an object in the place of the same with another envelope."""
        with self._writing():
            self._at(envelope.address).replace(envelope.line() + content)

    # What the node holds

    def held(self) -> dict[str, Location]:
        """The files of what the node holds, by name."""
        found = [name for name in _names(self._held) if name.endswith(".jsonl")]
        return {unquote(name.removesuffix(".jsonl")): self._held / name for name in found}

    def read_held(self, path: Location) -> bytes:
        envelope, content = _read(path)
        if address_of(content) != envelope.address:
            raise _damaged(path, "its content does not have the checksum in its first line")
        return content

    def hold(self, name: str, envelope: Envelope, content: bytes) -> None:
        """Put what the node holds under a name in the place of what was there, in one step."""
        path = self._held / f"{quote(name, safe='')}.jsonl"
        with self._writing():
            path.replace(envelope.line() + content)

    def hold_stored(self, name: str, envelope: Envelope, content: bytes) -> None:
        """Put what is stored of a view that the node holds in the place of what was there."""
        with self._writing():
            (self._held / f"{quote(name, safe='')}.stored").replace(envelope.line() + content)

    def stored(self, name: str) -> Location | None:
        """The file of that, if there is one."""
        path = self._held / f"{quote(name, safe='')}.stored"
        return path if path.exists() else None

    # Other files

    def read_own(self, name: str) -> bytes | None:
        """A small file of the node's own; None if there is none, or it is not this user's."""
        path = self._root / name
        with _reading(path):
            try:
                return path.read(MOST_OWN_BYTES)
            except (FileNotFoundError, PermissionError):
                return None

    def write(self, name: str, content: bytes) -> None:
        """Put a small file in the place of what was there, in one step."""
        with self._writing():
            (self._root / name).replace(content)

    def write_key(self, signer: Signer) -> None:
        """Keep the node's private key; what is left of one that could not be read goes."""
        path = self._root / PRIVATE_FILE
        with self._writing():
            path.remove()
            path.write(signer.private())

    @contextmanager
    def locked(self, wait: bool = True) -> Iterator[None]:
        """One process at a time changes what this node has; may be nested.

        BusyError if another one does, and this one is not to wait.
        """
        path = self._root / "lock"
        with self._own_lock, ExitStack() as stack:
            if not self._depth:
                with self._changing(path):
                    lock = path.locked() if wait else path.try_lock()
                if lock is None:
                    raise BusyError(
                        f"Another process is at work on the node in {self.folder}.",
                        "It is tried again; end that process if it does not go on.",
                    )
                stack.enter_context(lock)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1

    @contextmanager
    def _changing(self, path: Location) -> Iterator[None]:
        """A folder that cannot be written is told; what else is in the way is damage."""
        try:
            with _reading(path, but=(EROFS, EACCES, EPERM, ENOSPC, EDQUOT)):
                yield
        except OSError:
            with self._writing():
                raise

    @contextmanager
    def mirroring(self) -> Iterator[None]:
        """One process at a time says elsewhere what this node has."""
        path = self._root / MIRRORING
        with self._changing(path):
            lock = path.locked()
        with lock:
            yield

    def remove_leftovers(self) -> None:
        """Remove temporary files of processes that were killed."""
        parts = [self._objects / part for part in self.parts()]
        for folder in (self._root, self._held, self.arriving, *parts):
            for name in _names(folder):
                is_temporary = name.startswith(".") and name.endswith(".tmp")
                if is_temporary and (folder / name).age_s() > _OLD_S:
                    (folder / name).remove()


def shared_object(path: Location | Path) -> str:
    return f"The shared object {path}"


def _names(folder: Location) -> list[str]:
    """What a folder has; nothing if there is no such folder."""
    with _reading(folder):
        try:
            return sorted(folder.names())
        except FileNotFoundError:
            return []


def _read(path: Location, most: int | None = None) -> tuple[Envelope, bytes]:
    with _reading(path), path.open() as file:
        whole = file.read() if most is None else read_at_most(file, most)
    line, _, content = whole.partition(b"\n")
    return Envelope.read(line, path), content


@contextmanager
def _reading(path: Location, but: Collection[int] = ()) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in but:
            raise
        raise _damaged(path, f"it cannot be read: {error.strerror}") from None


def _damaged(path: Location | Path, why: str) -> DamagedObjectError:
    return DamagedObjectError(
        f"{shared_object(path)} is damaged: {why.rstrip('.')}.",
        "Nothing was taken from it. Delete the file and get another copy from a node that has it.",
    )
