"""What the settings of all sources have in common; each kind has a typed model of its own."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
    field_validator,
)

from headwater.algebra.sql.text import QuotedName
from headwater.sources.contract import Position, Retained, Source
from headwater.storage.location import Location
from headwater.storage.modes import OWN

_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def local_path(value: object) -> object:
    """A path of this machine; what would only look like one is refused."""
    if not isinstance(value, str):
        return value
    if not value.strip():
        raise ValueError("is empty: write a path")
    if "\0" in value:
        raise ValueError("has a NUL, which no path can have")
    if _SCHEME.match(value):
        raise ValueError(
            "is an address, and only paths of this machine are supported: write the path alone, "
            "such as '/data/lake'; a remote store can be mounted there"
        )
    if value.startswith("~"):
        raise ValueError("starts with ~, which is not replaced here: write ${HOME} for it")
    return value


LocalPath = Annotated[Path, BeforeValidator(local_path)]
"""A path of this machine."""


_UNITS = {"MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")


def parse_size(value: object) -> int:
    """Bytes, of a number and a unit."""
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2].upper() not in _UNITS or not float(match[1]):
        raise ValueError("is not a size: write a number and MB, GB or TB, such as '10 GB'")
    return int(float(match[1]) * _UNITS[match[2].upper()])


Size = Annotated[int, BeforeValidator(parse_size)]
"""Bytes; written as a number and a unit."""


def _no_boolean(value: object) -> object:
    """Python takes true for 1; whoever writes it means something else."""
    if isinstance(value, bool):
        raise ValueError("is true or false, and should be a whole number")
    return value


def _seconds(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.01 <= value <= 86_400:
        raise ValueError("is not a number of seconds from 0.01 to 86400")
    return float(value)


Seconds = Annotated[float, BeforeValidator(_seconds)]
"""A number of seconds, with or without a fraction."""


WholeNumber = Annotated[int, BeforeValidator(_no_boolean), Field(lt=2**31)]
"""A number of something, without a fraction."""


class SourceSettings(BaseModel, ABC):
    """What the settings of every kind of source have and say; `sources.kinds` has the kinds."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    kind: Annotated[str, Field(description="The kind of database.")]
    relations: Annotated[
        list[str],
        Field(
            description="The tables that views may use, schema-qualified if need be; a name with "
            "* is a pattern, such as 'sales.*'. Left out: all that views name."
        ),
    ] = []
    keys: Annotated[
        dict[str, list[str]],
        Field(description="Keys of tables whose key the database does not know."),
    ] = {}

    setup: Annotated[
        Literal["by command", "by run"],
        Field(
            description="Who has the source log what a new view needs: `headwater setup`, or `run` "
            "itself, which then needs the rights of setup."
        ),
    ] = "by command"

    node: Annotated[
        Literal["by run", "by itself"],
        Field(
            description="Where its node is, for views that USE rings or rings-star: in `run`, or "
            "in a process of its own, which `headwater node` starts."
        ),
    ] = "by run"

    @abstractmethod
    def open(self, name: str, project: Path, owner: str = "") -> Source:
        """The source of this name in a project's folder, with the logs of one warehouse."""

    def kept_in(self, warehouse: Location) -> Self:
        """The same, for a warehouse in which it may keep what it has seen of the source."""
        return self

    @property
    def listed(self) -> list[str]:
        """The relations without the patterns."""
        return [name for name in self.relations if not is_pattern(name)]

    @property
    def is_open(self) -> bool:
        """Whether views say which tables are meant."""
        return not self.relations or any(map(is_pattern, self.relations))

    def meaning(self, tables: Iterable[tuple[str, str]]) -> Self:
        """With the relations that views name, each with the part of the database that it is in."""
        patterns = [*filter(is_pattern, self.relations)] or ["*.*", "*"]
        listed = self.listed
        named = {
            next(filter(None, (self._matched(p, within, name) for p in patterns)), "")
            for within, name in tables
        }
        return self.model_copy(update={"relations": [*listed, *sorted(named - {"", *listed})]})

    @abstractmethod
    def written(self, within: str, name: str) -> str:
        """A table that a view names, as `relations` has it."""

    def _matched(self, pattern: str, within: str, name: str) -> str:
        """The table as `relations` has it, if it matches; a pattern may say where it is."""
        at = _without_quoted(pattern).rfind(".")
        place, table = pattern[: max(at, 0)], pattern[at + 1 :]
        is_there = _matches(place, within) if within else not is_pattern(place)
        if not (is_there and _matches(table, name)):
            return ""
        exact = _quoted(place)
        return self.written(within or (place if exact is None else exact), name)

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """What its relations are called in views."""

    @property
    def places(self) -> tuple[str, ...]:
        """For each of its relations the part of the database that it is in, empty if not said."""
        return ("",) * len(self.names)

    @property
    def merges(self) -> str:
        """Why no view over it can show every transaction by itself; empty if views can."""
        return ""

    @abstractmethod
    def excess(self, kept: Retained) -> str:
        """What is kept beyond the limit that is set, in words; empty if nothing is."""

    @abstractmethod
    def position_text(self, position: Position) -> str:
        """How people are shown a position in its log."""

    @field_validator("keys")
    @classmethod
    def _of_relations(
        cls, keys: dict[str, list[str]], info: ValidationInfo
    ) -> dict[str, list[str]]:
        relations = info.data.get("relations") or keys
        if any(map(is_pattern, relations)):
            return keys
        known = {*relations, *(name.rpartition(".")[2].strip('"') for name in relations)}
        for name in keys:
            if name not in known:
                close = get_close_matches(name, known, 1)
                meant = f"; did you mean '{close[0]}'?" if close else ""
                raise ValueError(f"has a table that is not in relations: {name}{meant}")
        return keys


class KeptSettings(SourceSettings):
    """The settings of a kind that keeps what it has seen in the warehouse, and names relations as
    they are."""

    _warehouse: Location | None = PrivateAttr(None)

    def kept_in(self, warehouse: Location) -> Self:
        kept = self.model_copy()
        kept._warehouse = warehouse
        return kept

    def place_of(self, name: str) -> Location | None:
        """Where a source of this name keeps what it has seen; None outside of a project."""
        if self._warehouse is None:
            return None
        return self._warehouse / OWN / "sources" / name

    def excess(self, kept: Retained) -> str:
        return ""

    def position_text(self, position: Position) -> str:
        return str(position.get("at", ""))

    def written(self, within: str, name: str) -> str:
        return str(name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.listed)


def is_pattern(name: str) -> bool:
    """Whether a name in settings stands for several; a `*` in double quotes is one of a name."""
    return "*" in _without_quoted(name)


def _without_quoted(name: str) -> str:
    """A name with nothing that counts inside its double quotes, and as long as before."""
    return _QUOTED.sub(lambda match: " " * len(match[0]), name)


def _quoted(name: str) -> QuotedName | None:
    """What stands in double quotes, if all of a name does."""
    if not _QUOTED.fullmatch(name):
        return None
    return QuotedName(name[1:-1].replace('""', '"'))


def _matches(pattern: str, name: str) -> bool:
    exact = _quoted(pattern)
    if exact is not None:
        return exact == (name if isinstance(name, QuotedName) else name.lower())
    expression = ".*".join(map(re.escape, pattern.split("*")))
    return re.fullmatch(expression, name, re.IGNORECASE | re.DOTALL) is not None


def too_large(kept: Retained, most_bytes: int) -> str:
    """What is kept beyond a size, in words; empty if nothing is."""
    if (kept.size_bytes or 0) <= most_bytes:
        return ""
    return f"{kept.size_bytes:,} bytes of log wait there, and retain allows {most_bytes:,}"
