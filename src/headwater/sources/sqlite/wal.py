"""Where transactions end, read from SQLite's write-ahead log.

Triggers cannot see where a transaction ends, but the file beside the database can: each frame
of the write-ahead log is one page as some transaction left it, and the last frame of a
transaction carries the size of the database, which is zero in every other frame. Setup keeps
the number of the last change in a table with one row, on one page. Its value at the end of
each transaction is thus in the write-ahead log, and these values are the borders.

Assumes that the caller holds a read transaction from before the first border it asks for.
Then SQLite cannot have begun the log anew over a frame that is still needed: it starts again
from the first frame only after a checkpoint of everything, which a reader of an older state
forbids, and it cannot do so twice.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from headwater.reading import plain

_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_HEADER = 32
_FRAME_HEADER = 24
_MAGIC = (0x377F0682, 0x377F0683)
_PAGE_SIZES = {1 << power for power in range(9, 17)}
_LEAF = 0x0D
_INT_SIZES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}


class Borders:
    """Reads the write-ahead log of one database, each frame once."""

    def __init__(self, database: Path) -> None:
        self._path = Path(f"{database}-wal")
        self._salt = b""
        self._frame = 0

    def upto(self, head: int, page: int) -> list[int]:
        """The numbers at which transactions ended, the last of them `head`.

        Empty when the log does not reach `head`; `page` is the page with the number.
        """
        try:
            file = plain(os.open(self._path, _OPEN))
        except OSError:
            return []
        with file:
            return self._scan(file.fileno(), head, page)

    def _scan(self, file: int, head: int, page: int) -> list[int]:
        start = os.pread(file, _FILE_HEADER, 0)
        if len(start) < _FILE_HEADER or struct.unpack_from(">I", start)[0] not in _MAGIC:
            return []
        size = struct.unpack_from(">I", start, 8)[0]
        size = 65536 if size == 1 else size
        if size not in _PAGE_SIZES:
            return []
        salt = start[16:24]
        frame = self._frame if salt == self._salt else 0
        found: list[int] = []
        latest = None
        while True:
            at = _FILE_HEADER + frame * (_FRAME_HEADER + size)
            header = os.pread(file, _FRAME_HEADER, at)
            if len(header) < _FRAME_HEADER or header[8:16] != salt:
                return []
            frame += 1
            number, after_commit = struct.unpack_from(">II", header)
            if number == page:
                latest = at + _FRAME_HEADER
            if after_commit and latest is not None:
                value = _only_integer(os.pread(file, size, latest))
                latest = None
                if value is not None and (not found or value > found[-1]):
                    found.append(value)
                if value == head:
                    self._salt, self._frame = salt, frame
                    return found


def _only_integer(page: bytes) -> int | None:
    """The first column of the only row on a page; None if the page is anything else."""
    if len(page) < 10 or page[0] != _LEAF or struct.unpack_from(">H", page, 3)[0] != 1:
        return None
    at = struct.unpack_from(">H", page, 8)[0]
    try:
        _, at = _varint(page, at)  # the size of the row
        _, at = _varint(page, at)  # its rowid
        header, kinds = _varint(page, at)
        kind, _ = _varint(page, kinds)
    except IndexError:  # a torn page
        return None
    if kind in (8, 9):
        return kind - 8
    size = _INT_SIZES.get(kind, 0)
    digits = page[at + header : at + header + size]
    return int.from_bytes(digits, "big", signed=True) if size and len(digits) == size else None


def _varint(page: bytes, at: int) -> tuple[int, int]:
    value = 0
    for offset in range(8):
        byte = page[at + offset]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + offset + 1
    return value << 8 | page[at + 8], at + 9
