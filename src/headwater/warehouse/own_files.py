"""Small files of a warehouse's own, such as its identity and its lease: JSON objects, read again.

A file that is missing, empty or damaged says nothing; one that cannot be read at all is an error.
"""

from __future__ import annotations

import os
from errno import EINVAL, EISDIR, ELOOP, ENXIO
from pathlib import Path
from typing import Any, BinaryIO

from headwater.errors import EngineError
from headwater.reading import parse_json, plain, read_plain

_MOST_BYTES = 256 << 20


def open_lock(path: Path) -> BinaryIO:
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


def read_own(path: Path) -> dict[str, Any] | None:
    """What a file says; None if it is missing or does not hold a JSON object."""
    content = read_own_bytes(path)
    try:
        found = None if content is None else parse_json(content)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def read_own_bytes(path: Path) -> bytes | None:
    """What is in a file; None if it is missing."""
    try:
        return read_plain(path, _MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise EngineError(
            f"The file {path} of the warehouse cannot be read: {error.strerror}.",
            "See to it: if it is not a file at all, remove it; its owner must be who runs this.",
        ) from None
