"""A name in a storage, with which files are read and written as through a path."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from headwater.reading import too_large
from headwater.storage.contract import About, Appending, Content, FolderHandle, Storage
from headwater.storage.local import LocalStorage

_FIRST_BYTES = 64 << 10
"""Small files are read without room for the largest that is allowed."""


@dataclass(frozen=True, order=True)
class Location:
    """A file or folder that may be there or not."""

    path: Path
    storage: Storage

    @classmethod
    def of(cls, place: Location | Path, *, durable: bool = True) -> Location:
        """A path is one of this machine's file system."""
        return cls(place, LocalStorage(durable)) if isinstance(place, Path) else place

    def __truediv__(self, name: str) -> Location:
        return Location(self.path / name, self.storage)

    def __str__(self) -> str:
        return self.uri

    @property
    def uri(self) -> str:
        """How people and other programs name it."""
        return self.storage.uri(self.path)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def parent(self) -> Location:
        return Location(self.path.parent, self.storage)

    @property
    def local(self) -> Path:
        """The path by which other programs on this machine reach it."""
        assert isinstance(self.storage, LocalStorage), f"{self} is not on this machine"
        return self.path

    # Reading

    def about(self) -> About | None:
        return self.storage.about(self.path)

    def exists(self) -> bool:
        return self.about() is not None

    def is_folder(self) -> bool:
        about = self.about()
        return about is not None and about.is_folder

    def size(self) -> int:
        """0 if it is gone."""
        about = self.about()
        return about.size if about is not None else 0

    def modified(self) -> float:
        """When it was last written; now if it is gone, because somebody is at it."""
        about = self.about()
        return about.modified if about is not None else self.storage.now()

    def age_s(self) -> float:
        return self.storage.now() - self.modified()

    def touched(self) -> float:
        """When something in the folder was last written, or itself."""
        return max([self.modified(), *(file.touched() for file in self.files())])

    def is_link(self) -> bool:
        return self.storage.is_link(self.path)

    def is_named(self) -> bool:
        """Whether there is something of this name, a link that leads nowhere included."""
        return self.exists() or self.is_link()

    def require_own(self) -> None:
        """Refuse a warehouse of another user."""
        self.storage.check_owner(self.path)

    def names(self) -> list[str]:
        """What is in the folder."""
        return self.storage.names(self.path)

    def files(self, ending: str = "") -> list[Location]:
        """What is in the folder under names that end so, sorted; nothing if there is none."""
        try:
            return [self / name for name in sorted(self.names()) if name.endswith(ending)]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def listed(self) -> Mapping[str, About]:
        """What is in the folder, with what is known of it; nothing if there is none."""
        return self.storage.listed(self.path)

    def open(self) -> BinaryIO:
        return self.storage.open(self.path)

    def stamped(self) -> tuple[bytes, object | None]:
        """What is in a small file, with its token; nothing, and no token, if it is missing."""
        try:
            return self.storage.stamped(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return b"", None

    def read(self, most: int) -> bytes:
        """All of a plain file that has at most so many bytes."""
        with self.open() as file:
            content = file.read(_FIRST_BYTES)
            if len(content) == _FIRST_BYTES:
                content += file.read(most + 1 - _FIRST_BYTES)
        if len(content) > most:
            raise too_large(most)
        return content

    def for_arrow(self) -> Any:
        return self.storage.for_arrow(self.path)

    def hold(self) -> FolderHandle | None:
        return self.storage.hold(self.path)

    # Writing

    def write(self, content: Content) -> None:
        self.storage.write(self.path, content)

    def replace(self, content: Content, durable: bool = True) -> None:
        self.storage.replace(self.path, content, durable)

    def replace_if(
        self, content: Content, token: object | None, durable: bool = True
    ) -> object | None:
        """Replace it if it has this token, and none without; the new token, or None."""
        return self.storage.replace_if(self.path, content, token, durable)

    def put_if_absent(self, content: Content, check: Callable[[], None] = lambda: None) -> bool:
        return self.storage.put_if_absent(self.path, content, check)

    def appending(self) -> Appending:
        return self.storage.appending(self.path)

    def make_folder(self, durable: bool = True) -> None:
        self.storage.make_folder(self.path, durable)

    def move(self, target: Location) -> None:
        self.storage.move(self.path, target.path)

    def adopt(self, target: Location) -> None:
        self.storage.adopt(self.path, target.path)

    def settle(self, names: Sequence[str]) -> None:
        self.storage.settle(self.path, names)

    def remove(self) -> None:
        self.storage.remove(self.path)

    def remove_tree(self) -> None:
        self.storage.remove_tree(self.path)

    # Processes beside this one

    def locked(self) -> AbstractContextManager[object]:
        """Wait for the lock, and hold it until this is left."""
        return cast(AbstractContextManager[object], self.storage.lock(self.path))

    def try_lock(self) -> AbstractContextManager[object] | None:
        """The lock; None if another has it."""
        return self.storage.lock(self.path, wait=False)

    def keep(self) -> AbstractContextManager[None]:
        """Have it there while this is open."""
        return self.storage.keep(self.path)

    def is_kept(self) -> bool:
        return self.storage.is_kept(self.path)
