"""The file system of this machine, or what is mounted there.

A file that takes another's place is synced first, then moved, then its folder is synced. A folder
is synced into its parent before anything is put there that is to last, and so is every folder
above it that had to be made, or that a process may have made which was killed.

Who may read a file follows from the folder that it is in, whatever the process's umask is: what is
Headwater's own is nobody else's to read, and a table's files are as open as the warehouse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from headwater.storage.contract import About, Content, FolderHandle
from headwater.storage.modes import OWN
from headwater.storage.system import POSIX, GrowingFile, System


@dataclass(frozen=True, order=True)
class LocalStorage:
    """Files by their paths. `durable=False` leaves it to the operating system when they are."""

    durable: bool = True
    system: System = field(default=POSIX, compare=False)

    @property
    def moves_folders(self) -> bool:
        return True

    def uri(self, path: Path) -> str:
        return str(path)

    def now(self) -> float:
        return self.system.now()

    def pause(self, seconds: float) -> None:
        self.system.sleep(seconds)

    def fresh_name(self) -> str:
        return self.system.fresh_name()

    # Reading

    def about(self, path: Path) -> About | None:
        return self.system.about(path)

    def is_link(self, path: Path) -> bool:
        return self.system.is_link(path)

    def check_owner(self, folder: Path) -> None:
        self.system.check_owner(folder)

    def names(self, folder: Path) -> list[str]:
        return self.system.names(folder)

    def listed(self, folder: Path) -> Mapping[str, About]:
        try:
            found = ((name, self.about(folder / name)) for name in self.names(folder))
            return {name: about for name, about in found if about is not None}
        except (FileNotFoundError, NotADirectoryError):
            return {}

    def open(self, path: Path) -> BinaryIO:
        return self.system.open(path)

    def stamped(self, path: Path) -> tuple[bytes, object]:
        about = self.about(path)
        with self.open(path) as file:
            return file.read(), about.token if about is not None else None

    def for_arrow(self, path: Path) -> Any:
        return self.system.for_arrow(path)

    def hold(self, folder: Path) -> FolderHandle | None:
        return self.system.hold(folder)

    # Writing

    def write(self, path: Path, content: Content) -> None:
        self.system.create(path, content, self.durable)
        self._sync(path.parent)

    def replace(self, path: Path, content: Content, durable: bool = True) -> None:
        with self._temporary(path, content, durable and self.durable) as temporary:
            self.system.rename(temporary, path)
        if durable:
            self._sync(path.parent)

    def replace_if(
        self, path: Path, content: Content, token: object | None, durable: bool = True
    ) -> object | None:
        if self._token(path) != token:
            return None
        self.replace(path, content, durable)
        return self._token(path)

    def _token(self, path: Path) -> object | None:
        about = self.about(path)
        return about.token if about is not None else None

    def put_if_absent(
        self, path: Path, content: Content, check: Callable[[], None] = lambda: None
    ) -> bool:
        with self._temporary(path, content, self.durable) as temporary:
            check()
            try:
                self.system.link(temporary, path)
            except FileExistsError:
                return False
        self._sync(path.parent)
        return True

    def appending(self, path: Path) -> AppendedFile:
        found = AppendedFile(self.system.grow(path))
        self._sync(path.parent)
        return found

    def make_folder(self, folder: Path, durable: bool = True) -> None:
        above = (folder, *folder.parents)
        lacking = [path for path in above if self.about(path) is None]
        for path in reversed(lacking):
            self.system.make_folder(path)
        for path in above if durable else ():
            if path in lacking or _is_ours(path, folder):
                self._sync(path.parent)

    def move(self, path: Path, target: Path) -> None:
        self.make_folder(target.parent)
        self.system.open_as(path, target.parent)
        self.system.rename(path, target)
        self._sync(target.parent)

    def adopt(self, path: Path, target: Path) -> None:
        self.system.touch(path)
        self._sync(path)
        self.system.rename(path, target)
        self.system.open_as_folder(target)
        self._sync(target.parent)

    def settle(self, folder: Path, names: Sequence[str]) -> None:
        for name in names:
            self.system.open_as_folder(folder / name)
            self._sync(folder / name)
        self._sync(folder)

    def remove(self, path: Path) -> None:
        self.system.unlink(path)

    def remove_tree(self, folder: Path) -> None:
        self.system.remove_tree(folder)
        with suppress(OSError):
            self.system.unlink(folder)

    @contextmanager
    def _temporary(self, path: Path, content: Content, synced: bool) -> Iterator[Path]:
        temporary = path.with_name(f".{path.name}.{self.fresh_name()}.tmp")
        try:
            self.system.create(temporary, content, synced)
            yield temporary
        finally:
            with suppress(FileNotFoundError, NotADirectoryError):
                self.system.unlink(temporary)

    def _sync(self, path: Path) -> None:
        if self.durable:
            self.system.sync(path)

    # Processes beside this one

    def lock(self, path: Path, wait: bool = True) -> AbstractContextManager[object] | None:
        return self.system.lock(path, wait)

    @contextmanager
    def keep(self, path: Path) -> Iterator[None]:
        lock = self.lock(path)
        assert lock is not None
        with lock:
            try:
                yield
            finally:
                self.remove(path)

    def is_kept(self, path: Path) -> bool:
        lock = self.lock(path, wait=False)
        if lock is None:
            return True
        with lock:
            self.remove(path)
        return False


def _is_ours(path: Path, folder: Path) -> bool:
    """Whether a folder is Headwater's, or the warehouse above it.

    Who made it may have been killed before it was synced: that it is there does not say that it
    will be after a loss of power.
    """
    return OWN in path.parts or path / OWN in (folder, *folder.parents)


class AppendedFile:
    """What is appended is synced before anybody relies on it, durable or not."""

    most_bytes = 64 << 20

    def __init__(self, file: GrowingFile) -> None:
        self._file = file

    def append(self, content: bytes) -> None:
        self._file.write(content)
        self._file.sync()

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def close(self) -> None:
        self._file.close()
