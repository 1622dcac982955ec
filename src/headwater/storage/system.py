"""What an operating system offers for files: single steps, none of which is more than it says.

The order in which `LocalStorage` takes them is what makes files durable. A simulated disk offers
the same steps, and forgets at a crash what was not synced.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
import uuid
import weakref
from contextlib import AbstractContextManager
from errno import EINVAL, EISDIR, ELOOP, ENOENT, ENOTDIR, ENXIO
from io import FileIO
from pathlib import Path
from stat import S_ISDIR
from typing import Any, BinaryIO, Protocol

from headwater.errors import EngineError
from headwater.reading import open_plain, plain
from headwater.storage.contract import About, Content, FolderHandle
from headwater.storage.modes import OWN, PRIVATE, as_folder, mode_of, require_own, set_modes


class GrowingFile(Protocol):
    """A file that is appended to, without a buffer."""

    def write(self, content: Content) -> None: ...

    def sync(self) -> None: ...

    def truncate(self, size: int) -> None: ...

    def close(self) -> None: ...


class System(Protocol):
    """The steps. Names are durable only when their folder has been synced."""

    def now(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...

    def fresh_name(self) -> str: ...

    def about(self, path: Path) -> About | None: ...

    def is_link(self, path: Path) -> bool: ...

    def names(self, folder: Path) -> list[str]: ...

    def open(self, path: Path) -> BinaryIO: ...

    def for_arrow(self, path: Path) -> Any: ...

    def hold(self, folder: Path) -> FolderHandle | None: ...

    def create(self, path: Path, content: Content, synced: bool) -> None:
        """Make a file that is not there yet, as open as its folder."""
        ...

    def grow(self, path: Path) -> GrowingFile:
        """Open a file at its end, made if it is missing."""
        ...

    def make_folder(self, folder: Path) -> None: ...

    def rename(self, path: Path, target: Path) -> None: ...

    def link(self, path: Path, target: Path) -> None: ...

    def unlink(self, path: Path) -> None: ...

    def remove_tree(self, folder: Path) -> None: ...

    def sync(self, path: Path) -> None:
        """Bring a file's contents to the disk, or a folder's names."""
        ...

    def touch(self, path: Path) -> None: ...

    def open_as_folder(self, path: Path) -> None:
        """Let those read a file who may read its folder."""
        ...

    def open_as(self, path: Path, folder: Path) -> None:
        """Let those read a file, or a folder and all that is in it, who may read another."""
        ...

    def check_owner(self, folder: Path) -> None: ...

    def lock(self, path: Path, wait: bool) -> AbstractContextManager[object] | None: ...


class Posix:
    """This machine's own."""

    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def fresh_name(self) -> str:
        return uuid.uuid4().hex

    def about(self, path: Path) -> About | None:
        try:
            found = path.stat()
        except OSError as error:
            if error.errno in (ENOENT, ENOTDIR, ELOOP):
                return None
            raise
        token = (found.st_ino, found.st_mtime_ns, found.st_size)
        return About(
            found.st_size, found.st_mtime, S_ISDIR(found.st_mode), token, found.st_ctime_ns
        )

    def is_link(self, path: Path) -> bool:
        return path.is_symlink()

    def names(self, folder: Path) -> list[str]:
        with os.scandir(folder) as found:
            return [item.name for item in found]

    def open(self, path: Path) -> BinaryIO:
        return open_plain(path)

    def for_arrow(self, path: Path) -> str:
        open_plain(path).close()  # Arrow would wait for a FIFO
        return str(path)

    def hold(self, folder: Path) -> FolderHandle | None:
        try:
            return HeldFolder(folder)
        except FileNotFoundError:
            return None

    def create(self, path: Path, content: Content, synced: bool) -> None:
        with path.open("xb", buffering=0) as file:
            write_all(file, content)
            os.fchmod(file.fileno(), mode_of(path.parent) & 0o666)
            if synced:
                os.fsync(file.fileno())

    def grow(self, path: Path) -> GrowingFile:
        return OpenFile(path)

    def make_folder(self, folder: Path) -> None:
        folder.mkdir(mode=PRIVATE if OWN in folder.parts else 0o777, exist_ok=True)

    def rename(self, path: Path, target: Path) -> None:
        path.rename(target)

    def link(self, path: Path, target: Path) -> None:
        os.link(path, target)

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_tree(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    def sync(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # may be a FIFO
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def touch(self, path: Path) -> None:
        os.utime(path)

    def open_as_folder(self, path: Path) -> None:
        as_folder(path)

    def open_as(self, path: Path, folder: Path) -> None:
        set_modes(path, mode_of(folder) & 0o755)

    def check_owner(self, folder: Path) -> None:
        require_own(folder)

    def lock(self, path: Path, wait: bool) -> BinaryIO | None:
        while True:
            file = self.open_lock(path)
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

    def open_lock(self, path: Path) -> BinaryIO:
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


POSIX = Posix()


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


class OpenFile:
    """A file at its end."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def write(self, content: Content) -> None:
        write_all(self._file, content)

    def sync(self) -> None:
        os.fsync(self._file.fileno())

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def close(self) -> None:
        self._file.close()


def write_all(file: FileIO, content: Content) -> None:
    """A system may take less than it is given."""
    remaining = memoryview(content)
    while remaining:
        remaining = remaining[file.write(remaining) :]
