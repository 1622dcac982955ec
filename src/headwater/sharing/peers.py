"""A peer: the folder of a node that may belong to somebody else. It is read and never changed."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from headwater.errors import InputError
from headwater.reading import read_at_most
from headwater.sharing.encoding import MALFORMED
from headwater.sharing.limits import MOST_HEAD_BYTES, MOST_NAME_BYTES
from headwater.sharing.store import ObjectFiles, local_folder, node_folder

NODE_FILE = "node.json"
"""The public file of a node: its name, its system and its key, and what else it says of itself."""


def read_description(path: Path) -> dict[str, Any]:
    """A node's public file; InputError in words when it is none."""
    try:
        with (node_folder(path.parent) / path.name).open() as file:
            return parse_description(read_at_most(file, MOST_HEAD_BYTES))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            f"{path.parent} is not a catalog of shared objects.",
            "Name the folder of a node, or make one.",
        ) from None
    except (OSError, *MALFORMED) as error:
        raise InputError(
            f"{path} cannot be read: {words_of(error)}.", "Put the file right."
        ) from None


def place_of(path: Path, key: str) -> str:
    """A node's public file with the line in which it says something, for people."""
    with suppress(OSError, ValueError):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.lstrip().startswith(f'"{key}"'):
                return f"{path}:{number}"
    return str(path)


def parse_description(content: bytes) -> dict[str, Any]:
    """What a node says of itself; one of MALFORMED if that is not what it says."""
    description = json.loads(content)
    for what in ("node", "system"):
        require_name(what, description[what])
    if not isinstance(description.get("key", ""), str):
        raise ValueError("its key is no text")
    assert isinstance(description, dict)
    return description


def words_of(error: Exception) -> str:
    """Why a description could not be read."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, KeyError):
        return f"it has no '{error.args[0]}'"
    said = error.strerror if isinstance(error, OSError) else error
    return str(said)[:200].rstrip(".")


def require_name(what: str, name: object) -> None:
    """InputError if this cannot be the name of a node or a system."""
    if isinstance(name, str) and name and name.isprintable() and len(name) <= MOST_NAME_BYTES:
        return
    raise InputError(f"{name!a:.200} is no name for a {what}.", "Give it a name.")


class Peer:
    """A node as others see it."""

    def __init__(self, folder: Path | str) -> None:
        place = local_folder(folder, "catalog")
        description = read_description(place / NODE_FILE)
        self.node: str = description["node"]
        self.system: str = description["system"]
        self.key: str = description.get("key", "")
        self.heard: object = description.get("heard")
        """Which versions were the newest when, as it says (see `freshness`)."""
        self.files = ObjectFiles(place)

    @property
    def is_own(self) -> bool:
        """Whether it is this user's own: its private key is there, and for this user only."""
        signer = self.files.signer()
        return signer is not None and signer.public == self.key
