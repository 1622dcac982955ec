"""What is in a source's folder: which files a relation has, which snapshots or reports there are.

`current`: what is there now is the newest snapshot. `series`: each folder is a snapshot, `changes`:
each folder, or file, is a report of what changed; both are taken in the order of their names, once.

Choices: names that begin with a dot or an underscore, or end as unfinished files do, are nobody's.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal, TypeAlias

from headwater.sources.files.formats import ENDINGS
from headwater.storage.contract import About
from headwater.storage.location import Location

Layout: TypeAlias = Literal["current", "series", "changes"]
Complete: TypeAlias = Literal["still", "marked", "renamed"]

TRANSACTION = "_transaction.json"
_UNFINISHED = (".tmp", ".temp", ".part", ".partial", ".filepart", ".inprogress", ".crc", ".swp")
_NO_DATA = (*_UNFINISHED, TRANSACTION)
_NUMBER = re.compile(r"([0-9]+)(?!.*[0-9])")


def is_of_data(name: str) -> bool:
    """Whether a name may be that of data."""
    return not name.startswith((".", "_")) and not name.lower().endswith(_NO_DATA)


@dataclass(frozen=True)
class Found:
    """A file, and what it was when it was listed."""

    place: Location
    about: About


@dataclass(frozen=True)
class Unit:
    """What is taken at once: for each relation its files."""

    name: str
    folder: Location
    files: Mapping[str, tuple[Found, ...]]
    transaction: Found | None = None

    @property
    def mark(self) -> str:
        """Another whenever one of its files is another, or was written to."""
        return mark_of([f for found in self.files.values() for f in found], self.transaction)


def mark_of(files: Collection[Found], more: Found | None = None) -> str:
    listed = [*files, more] if more is not None else list(files)
    seen = sorted((str(f.place.path), repr(f.about.token), f.about.size) for f in listed)
    return hashlib.sha256(repr(seen).encode()).hexdigest()[:32]


def files_in(
    folder: Location, relations: Collection[str], named: Mapping[str, str]
) -> dict[str, tuple[Found, ...]]:
    """The files of some relations, of those that have any there."""
    listed = folder.listed()
    found: dict[str, tuple[Found, ...]] = {}
    for relation in relations:
        if relation in named:
            files = _named(folder, named[relation])
        else:
            files = _own(folder, listed, relation)
        if files is not None:
            found[relation] = files
    return found


def _named(folder: Location, path: str) -> tuple[Found, ...] | None:
    """A file or folder by the path that settings have."""
    place = folder
    for part in PurePosixPath(path).parts:
        place = place / part
    about = place.about()
    if about is None:
        return None
    return _inside(place) if about.is_folder else (Found(place, about),)


def _own(folder: Location, listed: Mapping[str, About], relation: str) -> tuple[Found, ...] | None:
    """`relation.csv` or the like, or all files of a folder `relation`."""
    about = listed.get(relation)
    if about is not None:
        place = folder / relation
        return _inside(place) if about.is_folder else (Found(place, about),)
    files = [
        Found(folder / name, listed[name])
        for name in (relation + ending for ending in ENDINGS)
        if name in listed and not listed[name].is_folder
    ]
    return tuple(files) or None


def _inside(folder: Location) -> tuple[Found, ...]:
    return tuple(
        Found(folder / name, about)
        for name, about in sorted(folder.listed().items())
        if is_of_data(name) and not about.is_folder
    )


def relations_in(folder: Location) -> list[str]:
    """The relations that a folder's names suggest."""
    found: dict[str, None] = {}
    for name, about in sorted(folder.listed().items()):
        if not is_of_data(name):
            continue
        stem, point, ending = name.rpartition(".")
        if about.is_folder and _inside(folder / name):
            found[name] = None
        elif not about.is_folder and point and f".{ending.lower()}" in ENDINGS:
            found[stem] = None
    return list(found)


def units_in(
    folder: Location, relations: Sequence[str], named: Mapping[str, str]
) -> Iterator[Unit]:
    """The snapshots or reports of a folder, by name: folders, and files by themselves."""
    listed = folder.listed()
    for name, about in sorted(listed.items()):
        if not is_of_data(name):
            continue
        place = folder / name
        if about.is_folder:
            yield _folder_unit(place, relations, named)
            continue
        relation = _relation_of(name, relations)
        if relation is not None:
            tag = f"{name}.{TRANSACTION}"
            tagged = Found(folder / tag, listed[tag]) if tag in listed else None
            yield Unit(name, folder, {relation: (Found(place, about),)}, tagged)


def _folder_unit(folder: Location, relations: Sequence[str], named: Mapping[str, str]) -> Unit:
    said = (folder / TRANSACTION).about()
    tagged = Found(folder / TRANSACTION, said) if said is not None else None
    return Unit(folder.name, folder, files_in(folder, relations, named), tagged)


def mark_now(unit: Unit, relations: Sequence[str], named: Mapping[str, str]) -> str:
    """The mark that a unit has now; another if it is gone."""
    if unit.folder.name == unit.name:
        return _folder_unit(unit.folder, relations, named).mark
    listed = [found.place for files in unit.files.values() for found in files]
    there = [Found(place, about) for place in listed if (about := place.about()) is not None]
    tag = unit.folder / f"{unit.name}.{TRANSACTION}"
    said = tag.about()
    return mark_of(there, Found(tag, said) if said is not None else None)


def _relation_of(name: str, relations: Sequence[str]) -> str | None:
    """`0001.items.csv` is a report about items; where there is one relation, every file is."""
    stem = name.rpartition(".")[0] or name
    said = stem.rpartition(".")[2]
    if said in relations:
        return said
    return relations[0] if len(relations) == 1 else None


def number_in(name: str) -> int | None:
    """The last number in a name."""
    match = _NUMBER.search(name.rpartition(".")[0] or name) or _NUMBER.search(name)
    return int(match[1]) if match else None
