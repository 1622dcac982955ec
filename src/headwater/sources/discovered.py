"""What a source says of everything that it has, before any view exists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class DiscoveredColumn:
    """A column: its type there, and here; or why it cannot be used."""

    name: str
    declared: str
    type: str = ""
    """Empty where it cannot be used."""
    remark: str = ""
    """Why it cannot be used, or how its equality differs."""


@dataclass(frozen=True)
class DiscoveredTable:
    """A table; without columns if it cannot be used, which `problem` explains."""

    name: str
    """As `relations` in settings may have it."""
    columns: tuple[DiscoveredColumn, ...] = ()
    key: tuple[str, ...] = ()
    rows: int | None = None
    """About how many, where the source knows without counting."""
    size_bytes: int | None = None
    indexes: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class RelationSize:
    """About how large a relation is, as far as its source knows or can tell soon."""

    rows: float
    row_bytes: float | None = None
    distinct: Mapping[str, float] = field(default_factory=dict)
    """How many different values columns have."""
