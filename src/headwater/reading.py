"""Files that anybody may have written: plain ones only, no giants, and JSON of any depth refused.

A file is opened without waiting for a writer; what is not a plain file is an OSError that says so.
Links are followed, since people link their settings; see `storage.enclosed` for where they are not.
"""

from __future__ import annotations

import json
import os
import reprlib
import stat
from errno import EFBIG, EINVAL
from pathlib import Path
from typing import Any, BinaryIO, Literal

_LEAST = 1 << 12
MOST_TEXT_BYTES = 64 << 20
"""Of a file that is read whole, such as settings or a view."""


def open_plain(path: Path) -> BinaryIO:
    """A plain file, to be read; OSError if it is anything else."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError as error:  # the name has a NUL
        raise OSError(EINVAL, str(error)) from None
    return plain(handle)


def plain(handle: int, mode: Literal["rb", "wb"] = "rb") -> BinaryIO:
    """A file that was opened, if it is a plain one; else it is closed."""
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(EINVAL, "it is not a plain file")
    return os.fdopen(handle, mode)


def read_plain(path: Path, most: int = MOST_TEXT_BYTES) -> bytes:
    """All of a plain file that has at most so many bytes."""
    with open_plain(path) as file:
        return read_at_most(file, most)


def read_at_most(file: BinaryIO, most: int) -> bytes:
    """All that a file has; OSError if that is more than so many bytes."""
    size = os.fstat(file.fileno()).st_size  # 0 of a pipe
    content = b""
    while size <= most and (more := file.read(max(size, _LEAST) + 1)):  # takes room for so many
        content += more
        size = len(content)
    if size > most:
        raise too_large(most)
    return content


def too_large(most: int) -> OSError:
    return OSError(EFBIG, f"it has more than {most:,} bytes")


def as_text(content: bytes) -> str:
    """UTF-8, with or without its mark, whatever ends the lines; UnicodeDecodeError if not."""
    return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def parse_json(text: str | bytes) -> Any:
    """A JSON value; ValueError if it is none, or is nested too deeply to be one of ours."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def format_problem(found: object, known: int) -> str | None:
    """What is wrong with the format's number in a file, in words that follow the file's name.

    There is one number for each form that releases write. None if it is the one that is known.
    """
    ours = f"and this release of Headwater reads format {known}"
    if type(found) is not int:
        return f"does not say which format it has, {ours}"
    if found == known:
        return None
    writer = "a newer one wrote it, so upgrade Headwater" if found > known else "it is an old one"
    return f"has the format {reprlib.repr(found)}, {ours}: {writer}"
