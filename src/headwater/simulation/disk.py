"""A disk in memory that keeps, when the power fails, only what was synced.

Contents that were not synced vanish, are cut off, or arrive in part and out of order; names that
were not synced are there or not. `Disk` outlives processes; each process reaches it through a
`Mount`, the steps of an operating system, before each of which the process may be interrupted.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from random import Random
from typing import BinaryIO, TypeAlias

import pyarrow

from headwater.storage.contract import About, Content

Interrupt: TypeAlias = Callable[[str, Path], None]
"""Called before each step that changes something; may raise, and then the step is not taken."""


@dataclass(eq=False)
class File:
    """Contents now, and what of them a crash may leave."""

    content: bytes = b""
    synced: bytes = b""
    steps: list[bytes] = field(default_factory=list)
    """What the contents were after each step since they were synced."""
    modified: float = 0.0

    def become(self, content: bytes, now: float) -> None:
        self.content, self.modified = content, now
        self.steps.append(content)

    def sync(self) -> None:
        self.synced = self.content
        self.steps.clear()

    def crash(self, random: Random) -> None:
        """Lose some of what was not synced."""
        if self.steps:
            self.content = random.choice([self._vanished, self._cut, self._holed])(random)
            self.sync()

    def _vanished(self, random: Random) -> bytes:
        return self.synced

    def _cut(self, random: Random) -> bytes:
        reached = random.choice(self.steps)
        if len(reached) > len(self.synced):
            return reached[: random.randint(len(self.synced), len(reached))]
        return reached

    def _holed(self, random: Random) -> bytes:
        """The end has come before what is in front of it, of which nothing has."""
        whole = self.content
        new = len(whole) - len(self.synced)
        if new <= 1:
            return self.synced
        hole = random.randint(1, new - 1)
        start = len(self.synced)
        return whole[:start] + bytes(hole) + whole[start + hole :]


@dataclass(eq=False)
class Folder:
    """Names now."""

    entries: dict[str, File | Folder] = field(default_factory=dict)
    modified: float = 0.0


@dataclass(frozen=True)
class _Naming:
    """A step that changes names and is not synced: each folder with a name and what it had."""

    changes: tuple[tuple[Folder, str, File | Folder | None, File | Folder | None], ...]
    """Folder, name, what it named before, and what it names after."""

    def concerns(self, folder: Folder) -> bool:
        return any(changed is folder for changed, _, _, _ in self.changes)


class Disk:
    """Files and folders, with the time that they are stamped with."""

    def __init__(self) -> None:
        self.root = Folder()
        self.now = 1_000_000.0
        self.full = False
        self._namings: list[_Naming] = []
        self._names = 0
        self.locks: dict[Path, Lock] = {}

    def crash(self, random: Random) -> None:
        """The power fails."""
        upto = random.choice([0, random.randint(0, len(self._namings)), len(self._namings)])
        for at, naming in reversed(list(enumerate(self._namings))):
            if at >= upto or (random.random() < 0.3 and self._is_last(naming)):
                self._undo(naming)
        self._namings.clear()
        for _, file in list(self._files(self.root)):
            file.crash(random)
        self.locks.clear()

    def release_locks(self, pids: set[int]) -> None:
        """Processes have ended, and with them their locks."""
        self.locks = {path: lock for path, lock in self.locks.items() if lock.pid not in pids}

    @staticmethod
    def _undo(naming: _Naming) -> None:
        for folder, name, before, _ in naming.changes:
            if before is None:
                folder.entries.pop(name, None)
            else:
                folder.entries[name] = before

    @staticmethod
    def _is_last(naming: _Naming) -> bool:
        """Whether what it changed has not been changed since."""
        return all(folder.entries.get(name) is after for folder, name, _, after in naming.changes)

    def _files(self, folder: Folder) -> Iterator[tuple[str, File]]:
        """All files with their names."""
        for name, entry in folder.entries.items():
            if isinstance(entry, Folder):
                yield from self._files(entry)
            else:
                yield name, entry

    @property
    def is_owed(self) -> bool:
        """Whether something would be lost with the power; a lease that is lost does no harm."""
        named = (name for naming in self._namings for _, name, _, _ in naming.changes)
        written = (name for name, file in self._files(self.root) if file.steps)
        return not all(name.lstrip(".").startswith("lease") for name in chain(named, written))

    # What is there

    def find(self, path: Path) -> File | Folder | None:
        found: File | Folder | None = self.root
        for part in path.parts[1:]:
            if not isinstance(found, Folder):
                return None
            found = found.entries.get(part)
        return found

    def file(self, path: Path) -> File:
        found = self.find(path)
        if not isinstance(found, File):
            raise FileNotFoundError(2, "No such file", str(path))
        return found

    def folder(self, path: Path) -> Folder:
        found = self.find(path)
        if not isinstance(found, Folder):
            raise FileNotFoundError(2, "No such folder", str(path))
        return found

    def name(self, *changes: tuple[Path, File | Folder | None]) -> None:
        """Let names mean something else from now on, in one step."""
        found = []
        for path, after in changes:
            folder = self.folder(path.parent)
            found.append((folder, path.name, folder.entries.get(path.name), after))
        for folder, name, _, after in found:
            folder.modified = self.now
            if after is None:
                folder.entries.pop(name, None)
            else:
                folder.entries[name] = after
        self._namings.append(_Naming(tuple(found)))

    def sync(self, path: Path) -> None:
        found = self.find(path)
        match found:
            case None:
                raise FileNotFoundError(2, "No such file", str(path))
            case File():
                found.sync()
            case Folder():
                self._namings = [n for n in self._namings if not n.concerns(found)]

    def fresh_name(self) -> str:
        self._names += 1
        return f"{self._names:032x}"


class Mount:
    """The disk as one process has it."""

    def __init__(
        self, disk: Disk, interrupt: Interrupt, pid: int = 0, synced: bool = False
    ) -> None:
        """With `synced` only what is on the disk is read, and not what may still vanish."""
        self._synced = synced
        self._disk = disk
        self._interrupt = interrupt
        self._pid = pid

    def now(self) -> float:
        return self._disk.now

    def sleep(self, seconds: float) -> None:
        self._disk.now += seconds
        self._interrupt("sleep", Path())

    def fresh_name(self) -> str:
        return self._disk.fresh_name()

    def about(self, path: Path) -> About | None:
        match found := self._disk.find(path):
            case File() if self._synced:
                return About(len(found.synced), found.modified, is_folder=False, token=found.synced)
            case File():
                token = (id(found), hash(found.content))
                return About(len(found.content), found.modified, is_folder=False, token=token)
            case Folder():
                return About(0, found.modified, is_folder=True)
        return None

    def is_link(self, path: Path) -> bool:
        return False

    def names(self, folder: Path) -> list[str]:
        return list(self._disk.folder(folder).entries)

    def open(self, path: Path) -> BinaryIO:
        return io.BytesIO(self._content(path))

    def for_arrow(self, path: Path) -> pyarrow.BufferReader:
        return pyarrow.BufferReader(self._content(path))

    def _content(self, path: Path) -> bytes:
        file = self._disk.file(path)
        return file.synced if self._synced else file.content

    def hold(self, folder: Path) -> HeldName | None:
        found = self._disk.find(folder)
        return None if found is None else HeldName(self._disk, folder, found)

    # Steps

    def _step(self, what: str, path: Path) -> None:
        self._interrupt(what, path)
        if self._disk.full and what in ("create", "write"):
            raise OSError(28, "No space left on device", str(path))

    def create(self, path: Path, content: Content, synced: bool) -> None:
        self._step("create", path)
        if self._disk.find(path) is not None:
            raise FileExistsError(17, "File exists", str(path))
        file = File(modified=self._disk.now)
        self._disk.name((path, file))
        self._step("write", path)
        file.become(bytes(content), self._disk.now)
        if synced:
            self._step("sync", path)
            file.sync()

    def grow(self, path: Path) -> Growing:
        self._step("create", path)
        if self._disk.find(path) is None:
            self._disk.name((path, File(modified=self._disk.now)))
        return Growing(self._disk, self._disk.file(path), path, self._step)

    def make_folder(self, folder: Path) -> None:
        self._step("folder", folder)
        if self._disk.find(folder) is None:
            self._disk.name((folder, Folder(modified=self._disk.now)))

    def rename(self, path: Path, target: Path) -> None:
        self._step("rename", target)
        found = self._disk.find(path)
        if found is None:
            raise FileNotFoundError(2, "No such file", str(path))
        self._disk.name((path, None), (target, found))

    def link(self, path: Path, target: Path) -> None:
        self._step("link", target)
        if self._disk.find(target) is not None:
            raise FileExistsError(17, "File exists", str(target))
        self._disk.name((target, self._disk.file(path)))

    def unlink(self, path: Path) -> None:
        self._step("remove", path)
        if isinstance(self._disk.find(path), File):
            self._disk.name((path, None))

    def remove_tree(self, folder: Path) -> None:
        self._step("remove", folder)
        if self._disk.find(folder) is not None:
            self._disk.name((folder, None))

    def sync(self, path: Path) -> None:
        self._step("sync", path)
        self._disk.sync(path)

    def touch(self, path: Path) -> None:
        self._disk.file(path).modified = self._disk.now

    def open_as_folder(self, path: Path) -> None:
        pass

    def open_as(self, path: Path, folder: Path) -> None:
        pass

    def check_owner(self, folder: Path) -> None:
        pass

    def lock(self, path: Path, wait: bool) -> Lock | None:
        while path in self._disk.locks:
            if not wait:
                return None
            self.sleep(0.01)
        if self._disk.find(path) is None:
            self._disk.folder(path.parent).entries[path.name] = File(modified=self._disk.now)
        return Lock(self._disk, path, self._pid)


class Growing:
    """A file that a process appends to."""

    def __init__(self, disk: Disk, file: File, path: Path, step: Interrupt) -> None:
        self._disk, self._file, self._path, self._step = disk, file, path, step

    def write(self, content: Content) -> None:
        half = len(content) // 2
        for part in (content[:half], content[half:]):
            self._step("write", self._path)
            self._file.become(self._file.content + bytes(part), self._disk.now)

    def sync(self) -> None:
        self._step("sync", self._path)
        self._file.sync()

    def truncate(self, size: int) -> None:
        self._step("truncate", self._path)
        if size < len(self._file.content):
            self._file.become(self._file.content[:size], self._disk.now)

    def close(self) -> None:
        pass


class HeldName:
    """A folder that was there once."""

    def __init__(self, disk: Disk, path: Path, found: File | Folder) -> None:
        self._disk, self._path, self._found = disk, path, found

    def is_in_place(self) -> bool:
        return self._disk.find(self._path) is self._found


class Lock:
    """Held until it is left, or its process ends."""

    def __init__(self, disk: Disk, path: Path, pid: int) -> None:
        self._disk, self._path, self.pid = disk, path, pid
        disk.locks[path] = self

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        if self._disk.locks.get(self._path) is self:
            del self._disk.locks[self._path]
