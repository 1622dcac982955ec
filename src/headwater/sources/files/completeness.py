"""When a file counts: whether nobody writes to it any more, as far as that can be told."""

from __future__ import annotations

import time
from dataclasses import dataclass

from headwater.sources.files.layouts import Unit
from headwater.sources.files.options import FilesOptions
from headwater.storage.location import Location

_PATIENCE_S = 10.0
_SILENT_S = 60.0


@dataclass
class _Seen:
    """A mark, and since when it has been the same; and since when it has been looked at."""

    mark: str
    since: float
    first: float


class Completeness:
    """What has been seen of files of one source, look by look."""

    def __init__(self, folder: Location, options: FilesOptions) -> None:
        self._folder = folder
        self._options = options
        self._seen: dict[str, _Seen] = {}
        self._is_moving = False
        self._pending_since: float | None = None
        self._waiting: dict[str, tuple[float, int]] = {}
        self._looks = 0

    def look_begun(self) -> None:
        self._is_moving = False
        self._looks += 1
        self._waiting = {
            what: (since, look)
            for what, (since, look) in self._waiting.items()
            if look >= self._looks - 1
        }

    def look_ended(self) -> None:
        if not self._is_moving:
            self._pending_since = None
        elif self._pending_since is None:
            self._pending_since = time.monotonic()

    @property
    def is_pending(self) -> bool:
        """A file that somebody goes on writing to is waited for no longer than some time."""
        if self._pending_since is None:
            return False
        return time.monotonic() - self._pending_since < _PATIENCE_S + 3 * self._options.still_s

    def of(self, key: str, mark: str) -> bool:
        """Whether the files of a relation are whole; a marker is looked for elsewhere."""
        return self._options.complete != "still" or self._is_still(key, mark)

    def of_unit(self, unit: Unit) -> bool:
        match self._options.complete:
            case "renamed":
                return True
            case "marked":
                return self._marker(unit).exists()
        return self._is_still(unit.name, unit.mark) and not unit.is_bare

    def _is_still(self, key: str, mark: str) -> bool:
        now = time.monotonic()
        seen = self._seen.get(key)
        if seen is None or seen.mark != mark:
            self._seen[key] = seen = _Seen(mark, now, seen.first if seen is not None else now)
        is_still = now - seen.since >= self._options.still_s
        self._is_moving |= not is_still
        return is_still

    def moves_on(self, key: str) -> bool:
        """Whether somebody has been writing for so long that it has to be told."""
        seen = self._seen.get(key)
        return seen is not None and time.monotonic() - seen.first > (
            _SILENT_S + 10 * self._options.still_s
        )

    def taken(self, key: str) -> None:
        self._seen.pop(key, None)

    def marker_now(self) -> str:
        """What marks the files that take each other's place; nothing if there is no marker."""
        if self._options.complete != "marked":
            return ""
        about = (self._folder / self._options.marker).about()
        return "" if about is None else repr((about.token, about.changed))

    def marker_of(self, unit: Unit) -> str | None:
        """What marks a snapshot or report now; None where it takes no marker."""
        if self._options.complete != "marked":
            return None
        about = self._marker(unit).about()
        return "" if about is None else repr((about.token, about.changed))

    def _marker(self, unit: Unit) -> Location:
        if unit.folder.path != self._folder.path:
            return unit.folder / self._options.marker
        return unit.folder / f"{unit.name}.{self._options.marker}"

    def waits(self, what: str) -> bool:
        """Whether something has not been so, at each look, for long yet."""
        since, _ = self._waiting.get(what, (time.monotonic(), 0))
        self._waiting[what] = (since, self._looks)
        return time.monotonic() - since < min(_PATIENCE_S, 5 * self._options.still_s)
