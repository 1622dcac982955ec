"""Files of shared objects: immutable, named by their content's address, written whole or not.

A file is an envelope, one line with the system, the maker and the address, and then the
content. It is written to a temporary name, brought to the disk, and only then linked to its
own name: a process that is killed leaves at most a temporary file, which nobody reads. What a
node holds itself (a view, a copy of a relation) is a file that is replaced in one step.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from headwater.errors import InputError
from headwater.sharing.encoding import Manifest, address_of, read_manifest
from headwater.sharing.errors import DamagedObjectError

_ADDRESS = re.compile("[0-9a-f]{64}")
_OLD_S = 3600.0


@dataclass(frozen=True)
class Envelope:
    """Who made an object, in which system, and its address."""

    system: str
    maker: str
    address: str

    def line(self) -> bytes:
        text = [self.system, self.maker, self.address]
        check = hashlib.sha256(json.dumps(text).encode()).hexdigest()[:16]
        members = {"system": self.system, "maker": self.maker, "address": self.address}
        return json.dumps({**members, "check": check}).encode("ascii") + b"\n"

    @classmethod
    def read(cls, line: bytes, path: Path) -> Envelope:
        try:
            found = json.loads(line)
            envelope = cls(found["system"], found["maker"], found["address"])
            if envelope.line().rstrip(b"\n") == line.rstrip(b"\n"):
                return envelope
        except (KeyError, TypeError, ValueError):
            pass
        raise _damaged(path, "its first line is not what Headwater writes")


def local_folder(path: Path | str, what: str) -> Path:
    """A folder on this machine or mounted; object stores are refused."""
    if re.match(r"[A-Za-z][\w+.-]+:/", str(path)):  # a Path has made one slash of two
        raise InputError(
            f"The {what} '{path}' is not a folder: object stores are not supported yet.",
            "Give the path of a local or mounted folder.",
        )
    return Path(path).absolute()


class ObjectStore:
    """The objects of one node, and what it holds itself."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.folder = folder
        self.durable = durable
        self._objects = folder / "objects"
        self._held = folder / "held"
        self._temporary = folder / "temporary"
        self._own_lock = threading.RLock()
        self._depth = 0

    def make(self) -> None:
        for folder in (self._objects, self._held, self._temporary):
            folder.mkdir(parents=True, exist_ok=True)
        self._sync(self.folder)

    # Objects

    def addresses(self) -> set[str]:
        return {path.stem for path in self._objects.glob("*/*.jsonl")}

    def path(self, address: str) -> Path:
        return self._objects / address[:2] / f"{address}.jsonl"

    def head(self, address: str) -> tuple[Envelope, Manifest]:
        """Who made an object and what it says it is, without reading the rest."""
        path = self.path(address)
        with self._reading(path), path.open("rb") as file:
            envelope = Envelope.read(file.readline(), path)
            try:
                return envelope, read_manifest(file.readline())
            except DamagedObjectError as error:
                raise _damaged(path, error.message) from None

    def read(self, address: str) -> tuple[Envelope, bytes]:
        """An object that is what its name says; DamagedObjectError if not."""
        path = self.path(address)
        with self._reading(path):
            line, _, content = path.read_bytes().partition(b"\n")
        envelope = Envelope.read(line, path)
        if not _ADDRESS.fullmatch(address) or address_of(content) != address:
            raise _damaged(path, "its content does not have the checksum that is its name")
        if envelope.address != address:
            raise _damaged(path, "its first line names another object")
        return envelope, content

    def add(self, envelope: Envelope, content: bytes) -> bool:
        """Store an object; False if it is there already."""
        target = self.path(envelope.address)
        if target.exists():
            return False
        target.parent.mkdir(exist_ok=True)
        self._sync(self._objects)
        with self._written(envelope.line() + content) as temporary:
            try:
                os.link(temporary, target)
            except FileExistsError:
                return False
        self._sync(target.parent)
        return True

    # What the node holds

    def held(self) -> dict[str, Path]:
        """The files of what the node holds, by name."""
        return {unquote(path.stem): path for path in sorted(self._held.glob("*.jsonl"))}

    def read_held(self, path: Path) -> tuple[Envelope, bytes]:
        with self._reading(path):
            line, _, content = path.read_bytes().partition(b"\n")
        envelope = Envelope.read(line, path)
        if address_of(content) != envelope.address:
            raise _damaged(path, "its content does not have the checksum in its first line")
        return envelope, content

    def hold(self, name: str, envelope: Envelope, content: bytes) -> None:
        """Put what the node holds under a name in the place of what was there, in one step."""
        with self._written(envelope.line() + content) as temporary:
            temporary.replace(self._held / f"{quote(name, safe='')}.jsonl")
        self._sync(self._held)

    def release(self, name: str) -> None:
        (self._held / f"{quote(name, safe='')}.jsonl").unlink(missing_ok=True)
        self._sync(self._held)

    # Other files

    def write(self, name: str, content: bytes) -> None:
        """Put a small file in the place of what was there, in one step."""
        with self._written(content) as temporary:
            temporary.replace(self.folder / name)
        self._sync(self.folder)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process at a time changes what this node has; may be nested."""
        with self._own_lock, (self.folder / "lock").open("a") as file:
            if not self._depth:
                fcntl.flock(file, fcntl.LOCK_EX)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1

    def remove_leftovers(self) -> None:
        """Remove temporary files of processes that were killed."""
        for path in self._temporary.glob("*"):
            if time.time() - path.stat().st_mtime > _OLD_S:
                path.unlink(missing_ok=True)

    @contextmanager
    def _written(self, content: bytes) -> Iterator[Path]:
        path = self._temporary / uuid.uuid4().hex
        try:
            with path.open("xb") as file:
                file.write(content)
                file.flush()
                if self.durable:
                    os.fsync(file.fileno())
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _sync(self, folder: Path) -> None:
        if not self.durable:
            return
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    @contextmanager
    def _reading(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise _damaged(path, f"it cannot be read: {error.strerror}") from None


def _damaged(path: Path, why: str) -> DamagedObjectError:
    return DamagedObjectError(
        f"The shared object {path} is damaged: {why.rstrip('.')}.",
        "Nothing was taken from it. Delete the file and get another copy from a node that has it.",
    )
