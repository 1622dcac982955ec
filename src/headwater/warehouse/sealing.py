"""A checksum inside a small JSON file, so that a byte that has become another is damage.

JSON with another digit is JSON still. The file says its own checksum, taken while that reads zero.
Files without one, of earlier versions or of other programs, are taken as they are.
"""

from __future__ import annotations

import re
import zlib

CHECK = "check"
UNSEALED = "00000000"
"""What stands for the checksum while it is taken."""
_SEAL = re.compile(rb'"check": ?"([0-9a-f]{8})"')


def sealed(content: bytes) -> bytes:
    """What is written: with its checksum in the first place that there is for one."""
    return _with(content, _checksum(content))


def is_whole(content: bytes) -> bool:
    """Whether it is as it was written, as far as it says so."""
    found = _SEAL.search(content)
    return found is None or _checksum(content) == found[1]


def _checksum(content: bytes) -> bytes:
    return f"{zlib.crc32(_with(content, UNSEALED.encode())):08x}".encode()


def _with(content: bytes, seal: bytes) -> bytes:
    found = _SEAL.search(content)
    return content if found is None else content[: found.start(1)] + seal + content[found.end(1) :]
