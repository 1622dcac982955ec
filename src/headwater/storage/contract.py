"""What a storage promises, whatever is behind it.

A file is whole or not there. What is durable survives a loss of power, contents and name; a
storage that is not durable leaves that to whatever is behind it. What takes the place of
something else is durable before that goes. Who may read a file follows from its folder.

Names are paths. Everything that cannot be done is an OSError; what is missing is
FileNotFoundError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeAlias

Content: TypeAlias = bytes | memoryview


@dataclass(frozen=True)
class About:
    """What is known of a file or folder without reading it."""

    size: int
    modified: float
    """In seconds since 1970, by the clock of the storage."""
    is_folder: bool
    token: object = None
    """Another whenever it is another file, or has other contents."""


class Appending(Protocol):
    """A file that one writer only ever appends to."""

    def append(self, content: bytes) -> None:
        """Make it durable, all of it; after a failure nothing more may be appended."""
        ...

    def truncate(self, size: int) -> None: ...

    def close(self) -> None: ...


class FolderHandle(Protocol):
    """A folder that was there once."""

    def is_in_place(self) -> bool:
        """Whether it still is, and no other has taken its name."""
        ...


class Storage(Protocol):
    """Files and folders by name."""

    def now(self) -> float:
        """Seconds since 1970, by the clock that files are stamped with."""
        ...

    def pause(self, seconds: float) -> None:
        """Leave time to other processes."""
        ...

    def fresh_name(self) -> str:
        """A name that nobody else has."""
        ...

    # Reading

    def about(self, path: Path) -> About | None:
        """None if there is nothing of this name; links are followed."""
        ...

    def is_link(self, path: Path) -> bool:
        """Whether a name leads elsewhere, if to nothing."""
        ...

    def check_owner(self, folder: Path) -> None:
        """InputError if another user decides what is in a warehouse."""
        ...

    def names(self, folder: Path) -> list[str]:
        """What is in a folder; what comes or goes meanwhile may be there or not."""
        ...

    def open(self, path: Path) -> BinaryIO:
        """A plain file, to be read."""
        ...

    def for_arrow(self, path: Path) -> Any:
        """A plain file in a form that Arrow reads."""
        ...

    def hold(self, folder: Path) -> FolderHandle | None:
        """None if it is not there."""
        ...

    # Writing

    def write(self, path: Path, content: Content) -> None:
        """Make a new file."""
        ...

    def replace(self, path: Path, content: Content, durable: bool = True) -> None:
        """Give a file new contents: whoever reads it, now or after a crash, finds old or new."""
        ...

    def put_if_absent(
        self, path: Path, content: Content, check: Callable[[], None] = lambda: None
    ) -> bool:
        """Make a file unless there is one; whether it was made.

        `check` may raise: it is called when the contents are there and the name is not yet. Until
        then they are a file beside it, whose name begins with a dot and ends in `.tmp`: whoever
        removes that makes this fail with FileNotFoundError, and there is no file.
        """
        ...

    def appending(self, path: Path) -> Appending:
        """Go on with a file, made if it is missing."""
        ...

    def make_folder(self, folder: Path, durable: bool = True) -> None:
        """Make a folder and the parents it lacks; Headwater's own are for its user only."""
        ...

    def move(self, path: Path, target: Path) -> None:
        """Give a file or folder another name that nothing has."""
        ...

    def adopt(self, path: Path, target: Path) -> None:
        """Take over a file that another program has written: durable, and young from now on."""
        ...

    def lend(self, folder: Path) -> AbstractContextManager[Path]:
        """Let another program work in a folder; what it writes is not durable by itself."""
        ...

    def settle(self, folder: Path, names: Sequence[str]) -> None:
        """Make durable, in this order, what another program has put into a folder.

        It is as open as the folder from then on.
        """
        ...

    def remove(self, path: Path) -> None:
        """Remove a file, if it is there."""
        ...

    def remove_tree(self, folder: Path) -> None:
        """Remove a folder and all that is in it, as far as that can be done."""
        ...

    # Processes beside this one

    def lock(self, path: Path, wait: bool = True) -> AbstractContextManager[object] | None:
        """Hold a lock until this is left or the process ends; None if another has it."""
        ...
