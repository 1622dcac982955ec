"""Pins: what somebody still reads of a change log is kept, whoever else is done with it.

A pin is a file with the number behind which everything is needed. Its owner holds a lock on it,
which ends with the owner's process: a pin that nobody holds is removed by who finds it.
"""

from __future__ import annotations

import fcntl
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from headwater.reading import open_plain
from headwater.warehouse.durable import make_folder
from headwater.warehouse.own_files import open_lock

_LOCK = "pins.lock"


@contextmanager
def pinned(folder: Path, after: int) -> Iterator[None]:
    """Keep everything behind a number while this is open."""
    make_folder(folder, durable=False)
    path = folder / f"{after:020d}-{uuid.uuid4().hex}.pin"
    with ExitStack() as stack:
        with releasing(folder):
            file = stack.enter_context(path.open("x"))
            stack.callback(path.unlink, missing_ok=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def releasing(folder: Path) -> Iterator[None]:
    """No pin comes about while this is open, and no other process has it open."""
    with open_lock(folder / _LOCK) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def pins_in(folder: Path) -> list[int]:
    """The numbers behind which something is needed; to be asked while `releasing`."""
    found = []
    for path in folder.glob("[0-9]*-*.pin"):
        with suppress(FileNotFoundError), open_plain(path) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append(int(path.name.split("-")[0]))
            else:
                path.unlink(missing_ok=True)
    return found
