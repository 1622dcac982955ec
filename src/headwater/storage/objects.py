"""Files as objects of an object store: put whole, if absent, or if unchanged.

There is nothing to sync, since a put is durable when it is answered; nothing is moved, linked or
locked. A file that is appended to is an object that is replaced by itself and more, if nobody else
has done so. A request without an answer is tried again. When the put of which the answer was lost
had taken effect, the next finds its condition broken: it is recognised by its contents, which no
other writer has.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from errno import ENOTSUP
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import pyarrow

from headwater.storage.bucket import (
    Bucket,
    Condition,
    ConditionError,
    Tag,
    UnansweredError,
)
from headwater.storage.contract import About, Content, FolderHandle

_TRIES = 8
_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 3.0
_WHOLE_BYTES = 16 << 20
"""An object of up to so many bytes is read whole."""
_KEPT_RENEW_S = 10.0
_KEPT_S = 60.0
_CLOCK = "_headwater/clock"
_MEASURED_S = 600.0
_SET_S = 1.0
T = TypeVar("T")


@dataclass(frozen=True)
class _Measured:
    """How far the store's clock was before this machine's at a moment."""

    clock: float
    steady: float
    ahead: float

    def holds(self, clock: float, steady: float) -> bool:
        """Whether it is young, and nobody has set this machine's clock since."""
        passed = steady - self.steady
        return passed < _MEASURED_S and abs(clock - self.clock - passed) < _SET_S


@dataclass(frozen=True, eq=False)
class ObjectStorage:
    """Objects below a prefix. Paths are keys with a slash before them."""

    bucket: Bucket

    @property
    def moves_folders(self) -> bool:
        return False

    def uri(self, path: Path) -> str:
        return f"{self.bucket.uri}/{_key(path)}".rstrip("/")

    def now(self) -> float:
        return self.bucket.clock() + self._ahead

    @property
    def _ahead(self) -> float:
        """How far the store's clock is before this machine's, which may be set while we run."""
        clock, steady = self.bucket.clock(), self.bucket.steady()
        known: _Measured | None = self.__dict__.get("measured")
        if known is None or not known.holds(clock, steady):
            known = _Measured(clock, steady, self._measured_ahead())
            self.__dict__["measured"] = known
        return known.ahead

    def _measured_ahead(self) -> float:
        """A put is stamped with the store's clock; who may not put goes by this machine's."""
        before = self.bucket.clock()
        try:
            self.replace(Path(f"/{_CLOCK}"), self.fresh_name().encode())
            about = self.about(Path(f"/{_CLOCK}"))
        except UnansweredError:
            raise
        except OSError:
            return 0.0
        after = self.bucket.clock()
        if about is None or before - 1 <= about.modified <= after + 1:  # stamps have whole seconds
            return 0.0
        return about.modified - (before + after) / 2

    def pause(self, seconds: float) -> None:
        self.bucket.sleep(seconds)

    def fresh_name(self) -> str:
        return self.bucket.fresh_name()

    # Reading

    def about(self, path: Path) -> About | None:
        key = _key(path)
        found = self._answered(lambda: self.bucket.head(key)) if key else None
        if found is not None:
            return About(found.size, found.modified, is_folder=False, token=found.tag)
        if self._answered(lambda: self.bucket.is_empty(_below(path))):
            return None
        return About(0, 0.0, is_folder=True)

    def is_link(self, path: Path) -> bool:
        return False

    def check_owner(self, folder: Path) -> None:
        """What may be read and written is the store's to say; it does, when it is asked."""
        self._answered(lambda: self.bucket.is_empty(_below(folder)))

    def names(self, folder: Path) -> list[str]:
        found = self._answered(lambda: self.bucket.look(_below(folder)))
        return [*found.objects, *found.folders]

    def listed(self, folder: Path) -> Mapping[str, About]:
        found = self._answered(lambda: self.bucket.look(_below(folder)))
        files = {
            name: About(about.size, about.modified, is_folder=False, token=about.tag)
            for name, about in found.objects.items()
        }
        return files | {name: About(0, 0.0, is_folder=True) for name in found.folders}

    def open(self, path: Path) -> BinaryIO:
        return io.BytesIO(self.stamped(path)[0])

    def stamped(self, path: Path) -> tuple[bytes, Tag]:
        content, about = self._answered(lambda: self.bucket.get(_key(path)))
        assert content is not None
        return content, about.tag

    def for_arrow(self, path: Path) -> Any:
        content, about = self._answered(lambda: self.bucket.get(_key(path), _WHOLE_BYTES))
        large = RangedObject(self, _key(path), about.size)
        return pyarrow.PythonFile(large) if content is None else pyarrow.BufferReader(content)

    def read_range(self, key: str, start: int, end: int) -> bytes:
        """A part of an object that is too large to be read whole."""
        return self._answered(lambda: self.bucket.get_range(key, start, end))

    def hold(self, folder: Path) -> FolderHandle | None:
        """Names are not given to others: a table that is made anew has other versions."""
        return Prefix()

    # Writing

    def write(self, path: Path, content: Content) -> None:
        self.replace(path, content)

    def replace(self, path: Path, content: Content, durable: bool = True) -> None:
        self._answered(lambda: self.bucket.put(_key(path), content, "always"))

    def replace_if(
        self, path: Path, content: Content, token: object | None, durable: bool = True
    ) -> Tag | None:
        return self._put(path, content, "absent" if token is None else _tag(token))

    def put_if_absent(
        self, path: Path, content: Content, check: Callable[[], None] = lambda: None
    ) -> bool:
        check()
        return self._put(path, content, "absent") is not None

    def _put(self, path: Path, content: Content, condition: Condition) -> Tag | None:
        """Put if the condition holds, also if that took several tries; None if it does not."""
        key = _key(path)

        def put() -> Tag | None:
            try:
                return self.bucket.put(key, content, condition)
            except ConditionError:
                pass
            try:
                found, about = self.bucket.get(key)
            except FileNotFoundError:
                if condition != "absent":
                    return None
                raise UnansweredError(None, "it was there and is not") from None
            if found == bytes(content):
                return about.tag
            if about.tag == condition:  # the store could not decide between two at once
                raise UnansweredError(None, "it was in use")
            return None

        return self._answered(put)

    def appending(self, path: Path) -> AppendedObject:
        self._put(path, b"", "absent")
        return AppendedObject(self, path)

    def make_folder(self, folder: Path, durable: bool = True) -> None:
        """There are none: a name may have slashes in it."""

    def move(self, path: Path, target: Path) -> None:
        raise OSError(ENOTSUP, "an object store moves nothing", self.uri(path))

    def adopt(self, path: Path, target: Path) -> None:
        self._answered(lambda: self.bucket.copy(_key(path), _key(target)))
        self.remove(path)

    def settle(self, folder: Path, names: Sequence[str]) -> None:
        """What can be read is durable."""

    def remove(self, path: Path) -> None:
        self._answered(lambda: self.bucket.delete(_key(path)))

    def remove_tree(self, folder: Path) -> None:
        for key in self._answered(lambda: self.bucket.below(_below(folder))):
            self._answered(lambda key=key: self.bucket.delete(key))  # type: ignore[misc]  # its default is no parameter
        if _key(folder):
            self.remove(folder)

    def _answered(self, ask: Callable[[], T]) -> T:
        """Ask until there is an answer, but not for ever."""
        pause = _PAUSE_S
        for _ in range(_TRIES - 1):
            try:
                return ask()
            except UnansweredError:
                self.bucket.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
        return ask()

    # Processes beside this one

    def lock(self, path: Path, wait: bool = True) -> AbstractContextManager[object]:
        return nullcontext()

    @contextmanager
    def keep(self, path: Path) -> Iterator[None]:
        """An object that is put again and again: who finds an old one finds its owner gone."""
        done = threading.Event()

        def renew() -> None:
            while not done.wait(_KEPT_RENEW_S):
                try:
                    self.replace(path, b"")
                except OSError:
                    continue  # tried again

        self.replace(path, b"")
        thread = threading.Thread(target=renew, name="kept object", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            self.remove(path)

    def is_kept(self, path: Path) -> bool:
        about = self.about(path)
        if about is None:
            return False
        if self.now() - about.modified <= _KEPT_S:
            return True
        self.remove(path)
        return False


class Prefix:
    """What stands for a folder that is held."""

    def is_in_place(self) -> bool:
        return True


class RangedObject(io.RawIOBase):
    """A large object, of which only what is asked for is read."""

    def __init__(self, storage: ObjectStorage, key: str, size: int) -> None:
        super().__init__()
        self._storage, self._key, self._size, self._at = storage, key, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._at + size, self._size)
        if end <= self._at:
            return b""
        found = self._storage.read_range(self._key, self._at, end)
        self._at += len(found)
        return found


class AppendedObject:
    """An object that its writer replaces by itself and more; another writer makes it fail."""

    most_bytes = 512 << 10

    def __init__(self, storage: ObjectStorage, path: Path) -> None:
        self._storage, self._path = storage, path
        self._content, self._tag = storage.stamped(path)

    def append(self, content: bytes) -> None:
        self._become(self._content + content)

    def truncate(self, size: int) -> None:
        if size < len(self._content):
            self._become(self._content[:size])

    def _become(self, content: bytes) -> None:
        tag = self._storage.replace_if(self._path, content, self._tag)
        if tag is None:
            is_gone = self._storage.about(self._path) is None
            why = "somebody has removed it" if is_gone else "another process has written it"
            raise OSError(None, why, self._storage.uri(self._path))
        self._content, self._tag = content, tag

    def close(self) -> None:
        pass


def _key(path: Path) -> str:
    return str(path).lstrip("/")


def _below(folder: Path) -> str:
    return f"{key}/" if (key := _key(folder)) else ""


def _tag(token: object) -> Tag:
    assert isinstance(token, tuple), "no token of an object store"
    return token
