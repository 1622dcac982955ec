"""Pins: what somebody still reads of a change log is kept, whoever else is done with it.

A pin is a file with the number behind which everything is needed in its name. Its owner holds a
lock on it, which ends with the owner's process: a pin that nobody holds is removed by who finds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from headwater.storage.location import Location

_LOCK = "pins.lock"


@contextmanager
def pinned(folder: Location, after: int) -> Iterator[None]:
    """Keep everything behind a number while this is open."""
    folder.make_folder(durable=False)
    pin = folder / f"{after:020d}-{folder.storage.fresh_name()}.pin"
    with ExitStack() as stack:
        with releasing(folder):
            stack.enter_context(pin.locked())
            stack.callback(pin.remove)
        yield


def releasing(folder: Location) -> AbstractContextManager[object]:
    """No pin comes about while this is open, and no other process has it open."""
    return (folder / _LOCK).locked()


def pins_in(folder: Location) -> list[int]:
    """The numbers behind which something is needed; to be asked while `releasing`."""
    found = []
    for pin in folder.files(".pin"):
        number = pin.name.split("-")[0]
        if number.isdecimal():
            lock = pin.try_lock()
            if lock is None:
                found.append(int(number))
            else:
                with lock:
                    pin.remove()
    return found
