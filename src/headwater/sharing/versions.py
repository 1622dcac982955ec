"""Version vectors of shared relations and views: a version number for each base relation.

A base relation's vector has one entry, its own version. A view's has one for each base relation
that it reads, however often (section 2.1 of the paper): a view that reads two versions of one
relation does not exist here.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headwater.errors import InputError
from headwater.sharing.limits import MOST_VERSION


class Versions(Mapping[str, int]):
    """An immutable version vector; equal ones are equal values, in whatever order they are made."""

    __slots__ = ("_items",)

    def __init__(self, numbers: Mapping[str, int]) -> None:
        for name, number in numbers.items():
            if type(number) is not int or not 0 <= number <= MOST_VERSION:
                raise InputError(
                    f"The version {reprlib.repr(number)} of {name} is no version number.",
                    "Versions are whole numbers of 64 bits from 0 on.",
                )
        self._items = tuple(sorted(numbers.items()))

    def __getitem__(self, name: str) -> int:
        for known, number in self._items:
            if known == name:
                return number
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Versions) and self._items == other._items

    def __hash__(self) -> int:
        return hash(self._items)

    def __repr__(self) -> str:
        return show_versions(self)

    def moved(self, name: str, number: int) -> Versions:
        """The same vector with another version of one relation."""
        return Versions({**self, name: number})

    def joined(self, other: Mapping[str, int]) -> Versions:
        return Versions({**self, **other})

    def only(self, names: Mapping[str, object] | tuple[str, ...]) -> Versions:
        return Versions({name: number for name, number in self.items() if name in names})

    def precedes(self, other: Versions) -> bool:
        """Whether no relation is newer here than there."""
        return self.keys() == other.keys() and all(n <= other[name] for name, n in self.items())


NOTHING = Versions({})
"""The vector of no relation."""


@dataclass(frozen=True)
class Interval:
    """The versions of one relation from `first` to `last`; both are states, changes lie between."""

    relation: str
    first: int
    last: int

    def contains(self, other: Interval) -> bool:
        return (
            self.relation == other.relation
            and self.first <= other.first
            and other.last <= self.last
        )

    def meets(self, other: Interval) -> bool:
        """Whether they overlap or touch, so that there is no change between them."""
        return self.relation == other.relation and max(self.first, other.first) <= min(
            self.last, other.last
        )

    def __str__(self) -> str:
        return f"{self.relation} {self.first} to {self.last}"


def show_versions(versions: Mapping[str, int]) -> str:
    """`Genes 3, Variants 7`."""
    return ", ".join(f"{name} {number}" for name, number in sorted(versions.items()))


def parse_versions(text: str) -> Versions:
    """Read `Genes=3,Variants=7`, as the command line takes it."""
    found: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, number = part.rpartition("=")
        if not equals or not name.strip() or not number.strip().isdecimal():
            raise InputError(
                f"'{part}' is not a version of a relation.", "Write for example Genes=3,Variants=7."
            )
        if name.strip() in found:
            raise InputError(f"{name.strip()} has two versions in '{text}'.", "Give it one.")
        found[name.strip()] = int(number)
    if not found:
        raise InputError("No version is given.", "Write for example Genes=3,Variants=7.")
    return Versions(found)
