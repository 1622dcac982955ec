"""What is in a source's folder: which files a relation has, which snapshots or reports there are.

`current`: what is there now is the newest snapshot. `series`: each folder is a snapshot, `changes`:
each folder, or file, is a report of what changed; both are taken in the order of their names, once.

Choices: names that begin with a dot or an underscore, or end as unfinished files do, are nobody's.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal, TypeAlias

from headwater.sources.files.formats import ENDINGS
from headwater.sources.files.misfits import MisfitError
from headwater.storage.contract import About
from headwater.storage.location import Location

Layout: TypeAlias = Literal["current", "series", "changes"]
Complete: TypeAlias = Literal["still", "marked", "renamed"]

TRANSACTION = "_transaction.json"
MOST_BYTES = 16 << 30
_UNFINISHED = (".tmp", ".temp", ".part", ".partial", ".filepart", ".inprogress", ".crc", ".swp")
_COPIES = ("~", ".bak", ".orig")
_NO_DATA = (*_UNFINISHED, *_COPIES, TRANSACTION)
_DELTA = "_delta_log"
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
class FilesFound:
    """For each relation that has any its files; and why those of others cannot be told."""

    files: Mapping[str, tuple[Found, ...]] = field(default_factory=dict)
    problems: Mapping[str, MisfitError] = field(default_factory=dict)

    def of(self, relation: str) -> tuple[Found, ...]:
        """Those of a relation; MisfitError if it cannot be told which they are."""
        if relation in self.problems:
            raise self.problems[relation]
        return self.files.get(relation, ())

    def mark(self, relation: str) -> str:
        """Another whenever one of its files is another, or was written to."""
        return mark_of(self.files.get(relation, ())) + str(self.problems.get(relation, ""))


@dataclass(frozen=True)
class Unit:
    """What is taken at once: for each relation its files."""

    name: str
    folder: Location
    files: FilesFound
    transaction: Found | None = None
    is_bare: bool = False
    """A folder with nothing in it, so far."""

    @property
    def mark(self) -> str:
        """Another whenever one of its files is another, or was written to."""
        words = "".join(str(error) for error in self.files.problems.values())
        return mark_of(self.listed) + words

    @property
    def listed(self) -> list[Found]:
        """All files that count in it."""
        files = [file for found in self.files.files.values() for file in found]
        return files if self.transaction is None else [*files, self.transaction]


def mark_of(files: Collection[Found]) -> str:
    """By the time of the last change, too, which nobody can put back."""
    seen = sorted(
        (str(f.place.path), repr(f.about.token), f.about.size, f.about.changed) for f in files
    )
    return hashlib.sha256(repr(seen).encode()).hexdigest()[:32]


def files_in(folder: Location, relations: Collection[str], named: Mapping[str, str]) -> FilesFound:
    """The files of some relations, of those that have any there."""
    listed = folder.listed()
    found: dict[str, tuple[Found, ...]] = {}
    problems: dict[str, MisfitError] = {}
    for relation in relations:
        try:
            if relation in named:
                files = _named(folder, named[relation])
            else:
                files = _own(folder, listed, relation)
        except MisfitError as error:
            problems[relation] = error
            continue
        if files is not None:
            found[relation] = files
    return FilesFound(found, problems)


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
    """`relation.csv` or the like, or all files of a folder `relation`; MisfitError for several."""
    names = [name for name in listed if _is_named(name, relation, listed[name])]
    if len(names) > 1:
        shown = " and ".join(sorted(names))
        raise MisfitError(
            f"there are {shown}, and only one of them can be {relation}",
            f"Remove the other; or say which it is: files = {{{relation} = ...}}.",
        )
    for name in names:
        place = folder / name
        return _inside(place) if listed[name].is_folder else (Found(place, listed[name]),)
    return None


def _is_named(name: str, relation: str, about: About) -> bool:
    if name == relation:
        return True
    stem, point, ending = name.rpartition(".")
    return not about.is_folder and stem == relation and point + ending.lower() in ENDINGS


def _inside(folder: Location) -> tuple[Found, ...]:
    """The files of a folder; MisfitError if there is more in it than files of rows."""
    listed, names = folder.listed(), sorted(folder.names())
    if _DELTA in names:
        raise MisfitError(
            f"{folder.name} is a Delta table, which has files that do not count any more",
            "Read it by a source with kind = 'delta'.",
        )
    found = []
    for name in filter(is_of_data, names):
        about = listed.get(name) or (folder / name).about()
        if about is not None and about.is_folder:
            raise MisfitError(
                f"{folder.name} has a folder {name} in it, and those in a relation's folder are "
                "not read",
                "Put its files beside the others; or give it a name that begins with _ .",
            )
        if about is None and name in folder.names():
            raise MisfitError(
                f"{folder.name}/{name} is a link that leads nowhere",
                "Put back what it leads to, or remove it.",
            )
        if about is not None:
            found.append(Found(folder / name, about))
    return tuple(found)


def relations_in(folder: Location) -> list[str]:
    """The relations that a folder's names suggest."""
    found: dict[str, None] = {}
    for name, about in sorted(folder.listed().items()):
        if not is_of_data(name):
            continue
        stem, point, ending = name.rpartition(".")
        if about.is_folder and any(map(is_of_data, (folder / name).names())):
            found[name] = None
        elif not about.is_folder and point and f".{ending.lower()}" in ENDINGS:
            found[stem] = None
    return list(found)


def units_in(
    folder: Location, relations: Sequence[str], named: Mapping[str, str], layout: Layout
) -> Iterator[Unit]:
    """The snapshots or reports of a folder, by name: folders, and files that are reports."""
    listed = folder.listed()
    for name, about in sorted(listed.items()):
        if not is_of_data(name):
            continue
        place = folder / name
        if about.is_folder:
            yield _folder_unit(place, relations, named)
            continue
        relation = _relation_of(name, relations) if layout == "changes" else None
        if relation is not None:
            tag = f"{name}.{TRANSACTION}"
            tagged = Found(folder / tag, listed[tag]) if tag in listed else None
            yield Unit(name, folder, FilesFound({relation: (Found(place, about),)}), tagged)


def _folder_unit(folder: Location, relations: Sequence[str], named: Mapping[str, str]) -> Unit:
    said = (folder / TRANSACTION).about()
    tagged = Found(folder / TRANSACTION, said) if said is not None else None
    files = files_in(folder, relations, named)
    is_bare = tagged is None and not files.files and not folder.listed()
    return Unit(folder.name, folder, files, tagged, is_bare)


def mark_now(unit: Unit, relations: Sequence[str], named: Mapping[str, str]) -> str:
    """The mark that a unit has now; another if it is gone."""
    if unit.folder.name == unit.name:
        return _folder_unit(unit.folder, relations, named).mark
    files = {
        relation: tuple(Found(f.place, about) for f in found if (about := f.place.about()))
        for relation, found in unit.files.files.items()
    }
    tag = unit.folder / f"{unit.name}.{TRANSACTION}"
    said = tag.about()
    tagged = Found(tag, said) if said is not None else None
    return Unit(unit.name, unit.folder, FilesFound(files), tagged).mark


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
