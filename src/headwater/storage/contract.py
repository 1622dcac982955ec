"""What a storage promises, whatever is behind it: a file system, or an object store.

A file is whole or not there. What is durable survives a loss of power, contents and name; a
storage that is not durable leaves that to whatever is behind it. What takes the place of
something else is durable before that goes. Who may read a file follows from its folder.

What decides is put if it is absent, or if what is there is unchanged: every storage can do that.
Some things only some can (`moves_folders`, locks); who uses them has another way where they are
missing (docs/decisions/0027).

Names are paths. Everything that cannot be done is an OSError; what is missing is
FileNotFoundError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    changed: int = 0
    """When it was last changed in any way, which nobody can put back; 0 where none says it."""


class Appending(Protocol):
    """A file that one writer only ever appends to."""

    most_bytes: int
    """From which size on another file is better begun."""

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

    @property
    def moves_folders(self) -> bool:
        """Whether a folder is moved in one step, and what waits for its name is a file beside it.

        Elsewhere a folder is no more than what its files' names begin with.
        """
        ...

    def uri(self, path: Path) -> str:
        """How people and other programs name a file or folder."""
        ...

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

    def listed(self, folder: Path) -> Mapping[str, About]:
        """The same with what is known of each; nothing if there is no such folder."""
        ...

    def open(self, path: Path) -> BinaryIO:
        """A plain file, to be read."""
        ...

    def stamped(self, path: Path) -> tuple[bytes, object]:
        """What is in a small file, with its token; FileNotFoundError if it is missing."""
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

    def replace_if(
        self, path: Path, content: Content, token: object | None, durable: bool = True
    ) -> object | None:
        """Replace a file that still has this token, or make one where there is none without.

        The new token; None if there is something else by now. Where there are locks, this is for
        those who hold one that all hold who replace this file.
        """
        ...

    def put_if_absent(
        self, path: Path, content: Content, check: Callable[[], None] = lambda: None
    ) -> bool:
        """Make a file unless there is one; whether it was made.

        `check` may raise: it is called before the file gets its name. Where folders are moved, the
        contents are a file beside it until then, whose name begins with a dot and ends in `.tmp`:
        whoever removes that makes this fail with FileNotFoundError, and there is no file.
        """
        ...

    def appending(self, path: Path) -> Appending:
        """Go on with a file, made if it is missing."""
        ...

    def make_folder(self, folder: Path, durable: bool = True) -> None:
        """Make a folder and the parents it lacks; Headwater's own are for its user only."""
        ...

    def move(self, path: Path, target: Path) -> None:
        """Give a file or folder another name that nothing has, where folders are moved."""
        ...

    def adopt(self, path: Path, target: Path) -> None:
        """Take over a file that another program has written: durable, and young from now on."""
        ...

    def settle(self, folder: Path, names: Sequence[str]) -> None:
        """Make durable, in this order, what another process has put into a folder.

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
        """Hold a lock until this is left or the process ends; None if another has it.

        A storage without locks holds nobody off. So a lock only keeps processes from getting in
        each other's way; what a process does that was replaced is refused otherwise.
        """
        ...

    def keep(self, path: Path) -> AbstractContextManager[None]:
        """Have a file there while this is open; it counts as gone some time after its process."""
        ...

    def is_kept(self, path: Path) -> bool:
        """Whether a process has it open; one that none has is removed."""
        ...
