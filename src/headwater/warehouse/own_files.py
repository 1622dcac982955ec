"""Small files of a warehouse's own, such as its identity and its lease: JSON objects, read again.

A file that is missing, empty or damaged says nothing; one that cannot be read at all is an error.
"""

from __future__ import annotations

from typing import Any

from headwater.errors import EngineError, HeadwaterError, StoreLostError
from headwater.reading import parse_json
from headwater.storage.bucket import DeniedError, StoreError
from headwater.storage.location import Location

_MOST_BYTES = 256 << 20


def read_own(path: Location) -> dict[str, Any] | None:
    """What a file says; None if it is missing or does not hold a JSON object."""
    content = read_own_bytes(path)
    return None if content is None else parsed_own(content)


def stamped_own(path: Location) -> tuple[dict[str, Any] | None, object | None]:
    """The same, with the token of what was read; none of either if it is missing."""
    try:
        content, token = path.stamped()
    except OSError as error:
        raise _unreadable(path, error) from None
    return parsed_own(content), token


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
        raise _unreadable(path, error) from None


def _unreadable(path: Location, error: OSError) -> HeadwaterError:
    if isinstance(error, StoreError):
        return store_trouble(error)
    return EngineError(
        f"The file {path} of the warehouse cannot be read: {error.strerror}.",
        "See to it: if it is not a file at all, remove it; its owner must be who runs this.",
    )


def store_trouble(error: StoreError) -> HeadwaterError:
    """No sign of damage: nobody may act as if something were missing."""
    if isinstance(error, DeniedError):
        return HeadwaterError(
            f"The object store of the warehouse cannot be used: {error.filename}: "
            f"{error.strerror}.",
            "See [warehouse.options] in headwater.toml, the variables of the environment, and what "
            "the credentials may do; nothing that was committed is lost.",
        )
    return StoreLostError(
        f"The object store of the warehouse does not answer: {error.filename}: {error.strerror}.",
        "Look at the store and the way to it; nothing that was committed is lost.",
    )
