"""Files of shared objects: immutable, named by their content's address, written whole or not.

A file is an envelope, one line with the system, the maker, the address and the maker's signature,
and then the content. It is written to a temporary name, brought to the disk, and only then
linked to its own name: a process that is killed leaves at most a temporary file, which nobody
reads. What a node holds itself (a view, a copy of a relation) is a file that is replaced in one
step. `ObjectFiles` reads, also what belongs to others; only `ObjectStore`, a node's own, writes.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import stat
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from headwater.errors import InputError
from headwater.sharing import files
from headwater.sharing.encoding import Manifest, address_of, read_manifest
from headwater.sharing.errors import DamagedObjectError
from headwater.sharing.limits import MOST_HEAD_BYTES
from headwater.sharing.signatures import Signer

PRIVATE_FILE = "private.key"
_ADDRESS, _PART = re.compile("[0-9a-f]{64}"), re.compile("[0-9a-f]{2}")
_PRIVATE = 0o700
_OLD_S = 3600.0


@dataclass(frozen=True)
class Envelope:
    """Who made an object, in which system, its address, and the maker's signature if any."""

    system: str
    maker: str
    address: str
    signature: str = ""

    @property
    def statement(self) -> bytes:
        """What is signed; the address stands for the content."""
        return b"headwater object 1\n" + json.dumps(self._names).encode("ascii")

    @property
    def _names(self) -> list[str]:
        return [self.system, self.maker, self.address]

    def line(self) -> bytes:
        check = hashlib.sha256(json.dumps(self._names).encode()).hexdigest()[:16]
        members = {"system": self.system, "maker": self.maker, "address": self.address}
        signature = {"signature": self.signature} if self.signature else {}
        return json.dumps({**members, "check": check, **signature}).encode("ascii") + b"\n"

    @classmethod
    def read(cls, line: bytes, path: Path) -> Envelope:
        try:
            found = json.loads(line)
            members = (found["system"], found["maker"], found["address"])
            envelope = cls(*members, found.get("signature", ""))
            texts = all(isinstance(member, str) for member in (*members, envelope.signature))
            if texts and envelope.line().rstrip(b"\n") == line.rstrip(b"\n"):
                return envelope
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
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


class ObjectFiles:
    """The objects in a node's folder, whoever it belongs to: nothing in it is changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def addresses(self) -> set[str]:
        return {address for part in self.parts() for address in self.part(part)}

    def parts(self) -> list[str]:
        """The folders that objects are in, by the first two digits of their addresses."""
        with self._reading(self.folder / "objects"):
            return [name for name in files.names(self.folder, "objects") if _PART.fullmatch(name)]

    def part(self, part: str) -> list[str]:
        with self._reading(self.folder / "objects" / part):
            names = files.names(self.folder, "objects", part)
        return [name.removesuffix(".jsonl") for name in names if name.endswith(".jsonl")]

    def path(self, address: str) -> Path:
        return self.folder.joinpath(*_place(address))

    def head(self, address: str) -> tuple[Envelope, Manifest]:
        """Who made an object and what it says it is, without reading the rest."""
        path = self.path(address)
        with self._reading(path), files.opened(self.folder, *_place(address)) as file:
            envelope = Envelope.read(file.readline(MOST_HEAD_BYTES), path)
            try:
                return envelope, read_manifest(file.readline(MOST_HEAD_BYTES))
            except DamagedObjectError as error:
                raise _damaged(path, error.message) from None

    def read(self, address: str, most: int | None = None) -> tuple[Envelope, bytes]:
        """An object that is what its name says; DamagedObjectError if not."""
        path = self.path(address)
        with self._reading(path):
            whole = files.read(self.folder, *_place(address), most=most)
        line, _, content = whole.partition(b"\n")
        envelope = Envelope.read(line, path)
        if not _ADDRESS.fullmatch(address) or address_of(content) != address:
            raise _damaged(path, "its content does not have the checksum that is its name")
        if envelope.address != address:
            raise _damaged(path, "its first line names another object")
        return envelope, content

    def signer(self) -> Signer | None:
        """The node's private key, if it is here, this user's own and for nobody else."""
        try:
            with files.opened(self.folder, PRIVATE_FILE) as file:
                about = os.fstat(file.fileno())
                if about.st_uid == os.geteuid() and not about.st_mode & 0o077:
                    return Signer(file.read(MOST_HEAD_BYTES))
        except (OSError, ValueError):
            pass
        return None

    @contextmanager
    def _reading(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise _damaged(path, f"it cannot be read: {error.strerror}") from None


class ObjectStore(ObjectFiles):
    """The objects of one's own node, and what it holds itself."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        super().__init__(folder)
        self.durable = durable
        self._own_lock = threading.RLock()
        self._depth = 0

    def make(self) -> None:
        """The folders of a node, for its user only unless its folder was made for others.

        What it publishes is as open as its folder, what it keeps to itself never is.
        """
        self.folder.mkdir(_PRIVATE, parents=True, exist_ok=True)
        for name, mode in (("objects", 0o755), ("held", _PRIVATE), ("temporary", _PRIVATE)):
            with self._reading(self.folder / name), self._folder() as folder:
                if not _exists(name, folder):
                    _make(name, mode, folder)
                with files.entered(self.folder, name):
                    pass

    # Objects

    def add(self, envelope: Envelope, content: bytes) -> bool:
        """Store an object; False if it is there already."""
        objects, part, name = _place(envelope.address)
        with self._folder(objects) as folder:
            if not _exists(part, folder):
                _make(part, 0o755, folder)
        with self._folder(objects, part) as folder:
            if _exists(name, folder):
                return False
            rights = _rights(folder) & 0o644
            with self._written(envelope.line() + content, rights) as (source, written):
                try:
                    os.link(written, name, src_dir_fd=source, dst_dir_fd=folder)
                except FileExistsError:
                    return False
        return True

    def replace(self, envelope: Envelope, content: bytes) -> None:
        """Put an object in the place of the same with another envelope."""
        self._put(envelope.line() + content, *_place(envelope.address))

    # What the node holds

    def held(self) -> dict[str, Path]:
        """The files of what the node holds, by name."""
        held = self.folder / "held"
        with self._reading(held):
            found = [name for name in files.names(self.folder, "held") if name.endswith(".jsonl")]
        return {unquote(name.removesuffix(".jsonl")): held / name for name in found}

    def read_held(self, path: Path) -> tuple[Envelope, bytes]:
        with self._reading(path):
            line, _, content = files.read(self.folder, "held", path.name).partition(b"\n")
        envelope = Envelope.read(line, path)
        if address_of(content) != envelope.address:
            raise _damaged(path, "its content does not have the checksum in its first line")
        return envelope, content

    def hold(self, name: str, envelope: Envelope, content: bytes) -> None:
        """Put what the node holds under a name in the place of what was there, in one step."""
        self._put(envelope.line() + content, "held", f"{quote(name, safe='')}.jsonl")

    # Other files

    def write(self, name: str, content: bytes, mode: int = 0o644) -> None:
        """Put a small file in the place of what was there, in one step."""
        self._put(content, name, mode=mode)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process at a time changes what this node has; may be nested."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with self._own_lock, ExitStack() as stack:
            with self._reading(self.folder / "lock"):
                file = stack.enter_context(
                    files.opened(self.folder, "lock", flags=flags, mode=0o600)
                )
            if not self._depth:
                fcntl.flock(file, fcntl.LOCK_EX)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1

    def remove_leftovers(self) -> None:
        """Remove temporary files of processes that were killed."""
        with files.entered(self.folder, "temporary") as folder:
            for name in files.names(self.folder, "temporary"):
                about = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISREG(about.st_mode) and time.time() - about.st_mtime > _OLD_S:
                    os.unlink(name, dir_fd=folder)

    def _put(self, content: bytes, *parts: str, mode: int = 0o644) -> None:
        with (
            self._folder(*parts[:-1]) as folder,
            self._written(content, _rights(folder) & mode) as (source, written),
        ):
            os.replace(written, parts[-1], src_dir_fd=source, dst_dir_fd=folder)

    @contextmanager
    def _written(self, content: bytes, mode: int) -> Iterator[tuple[int, str]]:
        name, flags = uuid.uuid4().hex, os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with files.entered(self.folder, "temporary") as folder:
            try:
                with files.opened(self.folder, "temporary", name, flags=flags, mode=mode) as file:
                    os.fchmod(file.fileno(), mode)
                    file.write(content)
                    file.flush()
                    if self.durable:
                        os.fsync(file.fileno())
                yield folder, name
            finally:
                if _exists(name, folder):
                    os.unlink(name, dir_fd=folder)

    @contextmanager
    def _folder(self, *parts: str) -> Iterator[int]:
        """A folder of this node; what has changed in it is brought to the disk at the end."""
        with files.entered(self.folder, *parts) as handle:
            yield handle
            if self.durable:
                os.fsync(handle)


def _place(address: str) -> tuple[str, str, str]:
    return "objects", address[:2], f"{address}.jsonl"


def _rights(folder: int) -> int:
    return os.fstat(folder).st_mode & 0o777


def _make(name: str, mode: int, folder: int) -> None:
    """Make a folder that is no more open than the one it is in, whatever the umask is."""
    os.mkdir(name, _PRIVATE, dir_fd=folder)
    os.chmod(name, _rights(folder) & mode, dir_fd=folder)


def _exists(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _damaged(path: Path, why: str) -> DamagedObjectError:
    return DamagedObjectError(
        f"The shared object {path} is damaged: {why.rstrip('.')}.",
        "Nothing was taken from it. Delete the file and get another copy from a node that has it.",
    )
