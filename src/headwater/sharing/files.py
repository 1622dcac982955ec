"""Files in folders that others may have filled: no links, no pipes, no devices, no giants.

A folder is entered part by part without following links, and a file is opened without waiting for
a writer; what is not a plain file is an OSError that says so. Only the folder itself, which the
user named, may be reached through a link.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from errno import ELOOP, ENOTDIR
from pathlib import Path
from typing import BinaryIO

from headwater.reading import plain, read_at_most

_STRICT = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextmanager
def entered(root: Path, *parts: str) -> Iterator[int]:
    """A handle on a folder below `root`, none of whose parts is a link."""
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            inner = _inside(handle, part)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def _inside(outer: int, part: str) -> int:
    try:
        return os.open(part, os.O_RDONLY | os.O_DIRECTORY | _STRICT, dir_fd=outer)
    except OSError as error:
        if error.errno in (ELOOP, ENOTDIR):
            raise OSError(error.errno, f"'{part}' is a link or no folder") from None
        raise


@contextmanager
def opened(
    root: Path, *parts: str, flags: int = os.O_RDONLY, mode: int = 0o666
) -> Iterator[BinaryIO]:
    """A plain file below `root`; OSError if it is anything else."""
    with entered(root, *parts[:-1]) as folder:
        try:
            handle = os.open(parts[-1], flags | _STRICT, mode, dir_fd=folder)
        except OSError as error:
            if error.errno == ELOOP:
                raise OSError(ELOOP, "it is a link") from None
            raise
    with plain(handle, "rb" if flags & os.O_ACCMODE == os.O_RDONLY else "wb") as file:
        yield file


def read(root: Path, *parts: str, most: int | None = None) -> bytes:
    """All of a plain file that has at most so many bytes."""
    with opened(root, *parts) as file:
        return file.read() if most is None else read_at_most(file, most)


def names(root: Path, *parts: str) -> list[str]:
    """What a folder below `root` has; nothing if there is no such folder."""
    try:
        with entered(root, *parts) as folder, os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries)
    except FileNotFoundError:
        return []
