"""Small files of a warehouse's own, such as its identity and its lease: JSON objects, read again.

A file that is missing, empty or damaged says nothing; one that cannot be read at all is an error.
"""

from __future__ import annotations

from typing import Any

from headwater.errors import EngineError
from headwater.reading import parse_json
from headwater.storage.location import Location

_MOST_BYTES = 256 << 20


def read_own(path: Location) -> dict[str, Any] | None:
    """What a file says; None if it is missing or does not hold a JSON object."""
    content = read_own_bytes(path)
    return None if content is None else parsed_own(content)


def parsed_own(content: bytes) -> dict[str, Any] | None:
    """The JSON object that a file holds; None if it does not."""
    try:
        found = parse_json(content)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def read_own_bytes(path: Location) -> bytes | None:
    """What is in a file; None if it is missing."""
    try:
        return path.read(_MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise EngineError(
            f"The file {path} of the warehouse cannot be read: {error.strerror}.",
            "See to it: if it is not a file at all, remove it; its owner must be who runs this.",
        ) from None
