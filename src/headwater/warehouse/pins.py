"""Pins: what somebody still reads of a change log is kept, whoever else is done with it.

A pin is a file with the number behind which everything is needed in its name, which its owner
keeps: one that nobody keeps any more is removed by who finds it. Where there are no locks, a pin
may come about while something is released; who reads what is gone is told so.
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
            stack.enter_context(pin.keep())
        yield


def releasing(folder: Location) -> AbstractContextManager[object]:
    """No pin comes about while this is open, and no other process has it open."""
    return (folder / _LOCK).locked()


def pins_in(folder: Location) -> list[int]:
    """The numbers behind which something is needed; to be asked while `releasing`."""
    found = []
    for pin in folder.files(".pin"):
        number = pin.name.split("-")[0]
        if number.isdecimal() and pin.is_kept():
            found.append(int(number))
    return found
