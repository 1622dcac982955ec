"""A folder that others may have filled: nothing below it is reached through a link.

Every name below the root is entered part by part without following links, and a file is opened
without waiting for a writer; what is not a plain file is an OSError that says so. Only the root
itself, which the user named, may be reached through a link.

Who may read a file or a folder follows from the folder that it is in. Nobody else writes, and what
is named private is for its user only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from errno import ELOOP, ENOTDIR
from pathlib import Path
from stat import S_ISDIR
from typing import BinaryIO

from headwater.reading import plain
from headwater.storage.contract import About, Content
from headwater.storage.modes import PRIVATE
from headwater.storage.system import Posix, write_all

_READABLE = 0o755
_STRICT = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True)
class EnclosedFolder(Posix):
    """This machine's files below a root, for small files: tables are not kept so."""

    root: Path
    private: frozenset[str] = frozenset()

    def about(self, path: Path) -> About | None:
        if not self._encloses(path):
            return super().about(path)
        try:
            with self._above(path) as folder:
                found = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return About(found.st_size, found.st_mtime, S_ISDIR(found.st_mode))

    def names(self, folder: Path) -> list[str]:
        with self._entered(folder) as handle, os.scandir(handle) as found:
            return [item.name for item in found]

    def open(self, path: Path) -> BinaryIO:
        return plain(self._opened(path, os.O_RDONLY))

    def create(self, path: Path, content: Content, synced: bool) -> None:
        handle = self._opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with os.fdopen(handle, "wb", buffering=0) as file, self._above(path) as folder:
            os.fchmod(handle, self._mode(path, folder) & 0o666)
            write_all(file, content)
            if synced:
                os.fsync(handle)

    def put_together(self, folder: Path, contents: Mapping[str, Content], synced: bool) -> None:
        """Put files into one folder, each whole, unless there is one of its name.

        Their names are synced once, when all of them are there. For one process at a time.
        """
        with self._entered(folder) as handle:
            with os.scandir(handle) as found:
                present = {item.name for item in found}
            mode = self._mode(folder / "file", handle) & 0o666
            for name, content in contents.items():
                if name not in present:
                    self._put(handle, name, content, mode, synced)
            if synced:
                os.fsync(handle)

    def _put(self, folder: int, name: str, content: Content, mode: int, synced: bool) -> None:
        temporary = f".{name}.{self.fresh_name()}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _STRICT
        try:
            handle = os.open(temporary, flags, 0o600, dir_fd=folder)
            with os.fdopen(handle, "wb", buffering=0) as file:
                os.fchmod(handle, mode)
                write_all(file, content)
                if synced:
                    os.fsync(handle)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
            raise

    def make_folder(self, folder: Path) -> None:
        if not self._encloses(folder):
            folder.mkdir(PRIVATE if folder == self.root else 0o777, exist_ok=True)
            return
        with suppress(FileExistsError), self._above(folder) as outer:
            os.mkdir(folder.name, PRIVATE, dir_fd=outer)
            os.chmod(folder.name, self._mode(folder, outer), dir_fd=outer)

    def rename(self, path: Path, target: Path) -> None:
        with self._above(path) as source, self._above(target) as folder:
            os.rename(path.name, target.name, src_dir_fd=source, dst_dir_fd=folder)

    def link(self, path: Path, target: Path) -> None:
        with self._above(path) as source, self._above(target) as folder:
            os.link(path.name, target.name, src_dir_fd=source, dst_dir_fd=folder)

    def unlink(self, path: Path) -> None:
        with suppress(FileNotFoundError), self._above(path) as folder:
            os.unlink(path.name, dir_fd=folder)

    def sync(self, path: Path) -> None:
        if not self._encloses(path):
            super().sync(path)
            return
        handle = self._opened(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def open_lock(self, path: Path) -> BinaryIO:
        return plain(self._opened(path, os.O_RDWR | os.O_CREAT), "wb")

    # Entering

    def _encloses(self, path: Path) -> bool:
        return path != self.root and path.is_relative_to(self.root)

    def _mode(self, path: Path, folder: int) -> int:
        """No more open than the folder it is in, whatever the umask is."""
        mode = PRIVATE if path.name in self.private else _READABLE
        return os.fstat(folder).st_mode & mode

    def _opened(self, path: Path, flags: int) -> int:
        with self._above(path) as folder:
            try:
                return os.open(path.name, flags | _STRICT, 0o600, dir_fd=folder)
            except OSError as error:
                if error.errno == ELOOP:
                    raise OSError(ELOOP, "it is a link") from None
                raise

    def _above(self, path: Path) -> AbstractContextManager[int]:
        return self._entered(path.parent)

    @contextmanager
    def _entered(self, folder: Path) -> Iterator[int]:
        """A handle on a folder, none of whose parts below the root is a link."""
        handle = os.open(self.root, _FOLDER)
        try:
            for part in folder.relative_to(self.root).parts:
                inner = _inside(handle, part)
                os.close(handle)
                handle = inner
            yield handle
        finally:
            os.close(handle)


def _inside(outer: int, part: str) -> int:
    try:
        return os.open(part, _FOLDER | _STRICT, dir_fd=outer)
    except OSError as error:
        if error.errno in (ELOOP, ENOTDIR):
            raise OSError(error.errno, f"'{part}' is a link or no folder") from None
        raise
