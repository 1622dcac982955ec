"""The names of a change log's segments: the epoch of their runner and the first number in them."""

from __future__ import annotations

import re

from headwater.storage.location import Location

_NAME = re.compile(r"([0-9]{1,18})-([0-9]{1,20})\.log")


def segment_path(folder: Location, epoch: int, first: int) -> Location:
    return folder / f"{epoch:08d}-{first:020d}.log"


def segment_name(name: str) -> tuple[int, int] | None:
    """Epoch and first number; None if a file is named otherwise, and so is no segment."""
    found = _NAME.fullmatch(name)
    return (int(found[1]), int(found[2])) if found else None
