"""Where a warehouse is, by what the user writes: a folder, or an address of an object store."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from headwater.errors import InputError
from headwater.storage.location import Location

SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")


def is_address(path: str) -> bool:
    return "://" in path


def address_problem(address: str) -> str | None:
    """What is wrong with an address; it is never repeated, since it may hold a secret."""
    parts = urlsplit(address)
    if parts.scheme not in SCHEMES:
        return f"is an address of a kind that is not known: use one of {', '.join(SCHEMES)}"
    if parts.query or parts.fragment or parts.password is not None:
        return "has a secret or options in its address: give them in [warehouse.options]"
    if not parts.netloc:
        return "names no bucket: write it as in 's3://bucket/folder'"
    return None


def opened(place: Path | str, folder: Path, options: Mapping[str, str]) -> Location:
    """The warehouse that is meant in a project's folder; nothing is looked at yet."""
    if isinstance(place, str) and is_address(place):
        return _at_address(place, tuple(sorted(options.items())))
    return Location.of((folder / place).absolute())


@lru_cache(maxsize=32)
def _at_address(address: str, options: tuple[tuple[str, str], ...]) -> Location:
    if problem := address_problem(address):
        raise InputError(f"The path of the warehouse {problem}.")
    from headwater.storage.clouds import CloudBucket  # would slow down all commands
    from headwater.storage.objects import ObjectStorage

    return Location(Path("/"), ObjectStorage(CloudBucket(address, dict(options))))
