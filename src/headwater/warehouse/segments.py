"""The names of a change log's files: of segments, and of what they follow.

A segment is named for the epoch of its runner and the first number in it. Before a runner begins
its first, it says in the name of an empty file which epoch's segments its own follow. Those of the
epochs between count for nothing: a runner that was replaced before it wrote anything may begin one
late, which the present runner has not built on.
"""

from __future__ import annotations

import re

from headwater.storage.location import Location

_FOLLOWS = re.compile(r"([0-9]{1,18})-([0-9]{1,18})\.follows")
_NAME = re.compile(r"([0-9]{1,18})-([0-9]{1,20})\.log")


def segment_path(folder: Location, epoch: int, first: int) -> Location:
    return folder / f"{epoch:08d}-{first:020d}.log"


def segment_name(name: str) -> tuple[int, int] | None:
    """Epoch and first number; None if a file is named otherwise, and so is no segment."""
    found = _NAME.fullmatch(name)
    return (int(found[1]), int(found[2])) if found else None


def following_path(folder: Location, epoch: int, before: int) -> Location:
    return folder / f"{epoch:08d}-{before:08d}.follows"


def following_name(name: str) -> tuple[int, int] | None:
    """An epoch and the one that it follows; None if a file is named otherwise."""
    found = _FOLLOWS.fullmatch(name)
    return (int(found[1]), int(found[2])) if found else None
