"""The file system of this machine, or what is mounted there.

A file that takes another's place is synced first, then moved, then its folder is synced. A folder
that was made is synced into its parent, and every parent that had to be made likewise.

Who may read a file follows from the folder that it is in, whatever the process's umask is: what is
Headwater's own is nobody else's to read, and a table's files are as open as the warehouse.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from errno import EINVAL, EISDIR, ELOOP, ENXIO
from pathlib import Path
from stat import S_ISDIR
from typing import BinaryIO

from headwater.errors import EngineError
from headwater.reading import open_plain, plain
from headwater.storage.contract import About, Content
from headwater.storage.modes import OWN, PRIVATE, as_folder, mode_of, require_own, set_modes


@dataclass(frozen=True, order=True)
class LocalStorage:
    """Files by their paths. `durable=False` leaves it to the operating system when they are."""

    durable: bool = True

    def now(self) -> float:
        return time.time()

    def fresh_name(self) -> str:
        return uuid.uuid4().hex

    # Reading

    def about(self, path: Path) -> About | None:
        try:
            found = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return About(found.st_size, found.st_mtime, S_ISDIR(found.st_mode))

    def is_link(self, path: Path) -> bool:
        return path.is_symlink()

    def check_owner(self, folder: Path) -> None:
        require_own(folder)

    def names(self, folder: Path) -> list[str]:
        with os.scandir(folder) as found:
            return [item.name for item in found]

    def open(self, path: Path) -> BinaryIO:
        return open_plain(path)

    def for_arrow(self, path: Path) -> str:
        open_plain(path).close()  # Arrow would wait for a FIFO
        return str(path)

    def hold(self, folder: Path) -> HeldFolder | None:
        try:
            return HeldFolder(folder)
        except FileNotFoundError:
            return None

    # Writing

    def write(self, path: Path, content: Content) -> None:
        self._write(path, content, self.durable)
        self._sync(path.parent, self.durable)

    def replace(self, path: Path, content: Content, durable: bool = True) -> None:
        durable = durable and self.durable
        with self._temporary(path, content, durable) as temporary:
            temporary.replace(path)
        self._sync(path.parent, durable)

    def put_if_absent(
        self, path: Path, content: Content, check: Callable[[], None] = lambda: None
    ) -> bool:
        with self._temporary(path, content, self.durable) as temporary:
            check()
            try:
                os.link(temporary, path)
            except FileExistsError:
                return False
        self._sync(path.parent, self.durable)
        return True

    def appending(self, path: Path) -> AppendedFile:
        found = AppendedFile(path)
        self._sync(path.parent, self.durable)
        return found

    def make_folder(self, folder: Path, durable: bool = True) -> None:
        made = [path for path in (folder, *folder.parents) if not path.exists()]
        for path in reversed(made):
            path.mkdir(mode=PRIVATE if OWN in path.parts else 0o777, exist_ok=True)
        for path in made:
            self._sync(path.parent, durable and self.durable)

    def move(self, path: Path, target: Path) -> None:
        self.make_folder(target.parent)
        set_modes(path, mode_of(target.parent) & 0o755)
        path.rename(target)
        self._sync(target.parent, self.durable)

    def adopt(self, path: Path, target: Path) -> None:
        os.utime(path)
        self._sync(path, self.durable)
        path.rename(target)
        as_folder(target)
        self._sync(target.parent, self.durable)

    def lend(self, folder: Path) -> AbstractContextManager[Path]:
        return nullcontext(folder)

    def settle(self, folder: Path, names: Sequence[str]) -> None:
        for name in names:
            as_folder(folder / name)
            self._sync(folder / name, self.durable)
        self._sync(folder, self.durable)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_tree(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            folder.unlink()

    @staticmethod
    def _write(path: Path, content: Content, durable: bool) -> None:
        with path.open("xb", buffering=0) as file:
            remaining = memoryview(content)
            while remaining:
                remaining = remaining[file.write(remaining) or 0 :]
            os.fchmod(file.fileno(), mode_of(path.parent) & 0o666)
            if durable:
                os.fsync(file.fileno())

    @contextmanager
    def _temporary(self, path: Path, content: Content, durable: bool) -> Iterator[Path]:
        temporary = path.with_name(f".{path.name}.{self.fresh_name()}.tmp")
        try:
            self._write(temporary, content, durable)
            yield temporary
        finally:
            with suppress(FileNotFoundError, NotADirectoryError):
                temporary.unlink()

    @staticmethod
    def _sync(path: Path, durable: bool) -> None:
        if not durable:
            return
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    # Processes beside this one

    def lock(self, path: Path, wait: bool = True) -> BinaryIO | None:
        while True:
            file = _open_lock(path)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    return file
            except BlockingIOError:
                file.close()
                return None
            except FileNotFoundError:
                pass
            file.close()  # somebody has deleted it


class HeldFolder:
    """A folder held open, so that a later one of the same name is never taken for it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._handle = os.open(folder, os.O_RDONLY)
        weakref.finalize(self, os.close, self._handle)

    def is_in_place(self) -> bool:
        try:
            return os.path.samestat(self._folder.stat(), os.fstat(self._handle))
        except (FileNotFoundError, NotADirectoryError):
            return False


class AppendedFile:
    """Written without a buffer, so that a failure leaves nothing to be written later."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def append(self, content: bytes) -> None:
        remaining = memoryview(content)
        while remaining:
            remaining = remaining[self._file.write(remaining) :]
        os.fsync(self._file.fileno())

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def close(self) -> None:
        self._file.close()


def _open_lock(path: Path) -> BinaryIO:
    """A file to be locked, made if it is missing."""
    try:
        return plain(
            os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o666), "wb"
        )
    except OSError as error:
        if error.errno not in (EINVAL, EISDIR, ELOOP, ENXIO):
            raise
        raise EngineError(
            f"The file {path} of the warehouse cannot be locked: {error.strerror}.",
            "Remove what is there; it is made anew.",
        ) from None
