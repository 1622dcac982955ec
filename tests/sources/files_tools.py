"""A folder of files with a source over it, and who follows its log."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from headwater.algebra.rows import Rows
from headwater.errors import LostConnectionError
from headwater.sources.contract import Broken, Committed, Position
from headwater.sources.files.options import FilesOptions
from headwater.sources.files.source import FilesSource
from headwater.storage.location import Location

STILL = FilesOptions(still_s=0.02)
RENAMED = FilesOptions(complete="renamed")
SERIES = FilesOptions(layout="series", complete="renamed", still_s=0.01)
REPORTS = FilesOptions(layout="changes", complete="renamed", still_s=0.01)


class Folder:
    """A folder of files, and a source over it."""

    def __init__(self, path: Path) -> None:
        self.path = path / "in"
        self.path.mkdir()
        self.place = Location.of(path / "_headwater" / "sources" / "s")

    def put(self, name: str, content: str | bytes) -> None:
        target = self.path / name
        target.parent.mkdir(exist_ok=True)
        data = content.encode() if isinstance(content, str) else content
        target.write_bytes(data)

    def source(
        self,
        options: FilesOptions = RENAMED,
        relations: Sequence[str] = ("items",),
        keys: Mapping[str, Sequence[str]] | None = None,
    ) -> FilesSource:
        return FilesSource(
            "s", self.path, relations, keys, options, place=self.place, look_every_s=0.01
        )

    def set_up(self, *args: object, **settings: object) -> FilesSource:
        source = self.source(*args, **settings)  # type: ignore[arg-type]
        source.setup()
        return source


class Follower:
    """Reads a source's log, over new monitors where one is lost."""

    def __init__(self, source: FilesSource, after: Position | None = None) -> None:
        self.source = source
        self.position = after
        self.changes: list[dict[str, dict[tuple[object, ...], int]]] = []
        self.told = ""
        self.monitor = source.open_monitor(after)

    def look(self, seconds: float = 0.3) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                for item in self.monitor.read(0.05):
                    assert not isinstance(item, Broken)
                    if isinstance(item, Committed):
                        deltas = item.transaction.deltas
                        self.changes.append({n: dict(d.items()) for n, d in deltas.items()})
                        self.position = item.position
            except LostConnectionError as error:
                self.told = str(error)
                self.monitor.close()
                self.monitor = self.source.open_monitor(self.position)

    def wait(self, ready: Callable[[], bool]) -> None:
        until = time.monotonic() + 600
        while not ready():
            assert time.monotonic() < until, self.told
            self.look(0.05)

    def next(self) -> dict[tuple[object, ...], int]:
        """What the next step changes in the first relation."""
        count = len(self.changes)
        self.wait(lambda: len(self.changes) > count)
        assert len(self.changes) == count + 1
        return next(iter(self.changes[-1].values()))

    def tell(self) -> str:
        """What is told; nothing is taken meanwhile."""
        count, self.told = len(self.changes), ""
        self.wait(lambda: bool(self.told))
        assert len(self.changes) == count
        return self.told


def contents(source: FilesSource, relation: str = "items") -> Rows:
    load = source.open_load([relation], 1)
    found: list[tuple[object, ...]] = []
    for batch in load.read(relation, 0):
        found += [tuple(row.values()) for row in batch.to_pylist()]
    return Rows.of(source.relations()[relation].schema, found)
