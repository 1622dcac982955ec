"""A disk that changes what was synced: a byte is another, or is missing.

Whoever reads it is told so in a sentence, or reads what was there before; never something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from random import Random

from headwater.errors import HeadwaterError
from headwater.frames.arrow import arrow_schema, plain_from_arrow
from headwater.simulation.disk import Disk, File, Folder, Mount
from headwater.simulation.judge import ROOT
from headwater.storage.local import LocalStorage
from headwater.storage.location import Location
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.files import read_arrow
from headwater.warehouse.warehouse import Warehouse

REFUSED = "refused"


def damaged(disk: Disk, random: Random) -> tuple[Path, Disk]:
    """Another disk like this one, of which one byte of a file is another, or is missing."""
    files = [path for path, file in _files(disk.root, Path("/")) if file.synced]
    path = random.choice(files)
    found = deepcopy(disk)
    file = found.file(path)
    content, at = bytearray(file.synced), random.randrange(len(file.synced))
    if random.random() < 0.3:
        del content[at]
    else:
        content[at] ^= 1 << random.randrange(8)
    file.content = file.synced = bytes(content)
    return path, found


def _files(folder: Folder, path: Path) -> Iterator[tuple[Path, File]]:
    for name, entry in folder.entries.items():
        if isinstance(entry, Folder):
            yield from _files(entry, path / name)
        else:
            yield path / name, entry


def shown(disk: Disk, views: list[str], sources: list[str]) -> Mapping[str, object]:
    """What a process that comes now reads of a warehouse, or that it was refused."""
    storage = LocalStorage(system=Mount(disk, lambda step, path: None))
    warehouse = _told(Warehouse, Location(ROOT, storage))
    if not isinstance(warehouse, Warehouse):
        return {"warehouse": REFUSED}
    found: dict[str, object] = {}
    for name in views:
        found[name] = _told(_state, warehouse, name)
        found[f"{name} by its plain table"] = _told(_plain, warehouse, name)
    for source in sources:
        found[source] = _told(_log, warehouse, source)
    return found


def _told(read: Callable[..., object], *about: object) -> object:
    try:
        return read(*about)
    except HeadwaterError:
        return REFUSED


def _state(warehouse: Warehouse, name: str) -> object:
    view = warehouse.view(name)
    state = view.at()
    return state.number, view.definition, state.commit.vector, state.rows()


def _plain(warehouse: Warehouse, name: str) -> object:
    view = warehouse.view(name)
    plain, schema = view.plain.snapshot(), view.at().shown_schema
    found = read_arrow(plain.folder, plain.files, arrow_schema(schema))
    return plain.number, plain_from_arrow(found, schema)


def _log(warehouse: Warehouse, source: str) -> object:
    log = ChangeLog(warehouse.changes, source)
    log.scan()
    return log.end, log.position, list(log.read(log.first - 1))
