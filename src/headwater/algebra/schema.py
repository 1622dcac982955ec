"""Schemas: named and typed columns; relations: a schema at a source, with its key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from headwater.algebra.hashing import cached_hash
from headwater.algebra.values import Json, Row, Type, Value, canonical, parse_type, text_of


@dataclass(frozen=True, slots=True)
class Column:
    """A name and a type.

    Where values are texts here and something else at their source, `printed` is the source's own
    name for their type: then their order means nothing. `equality` says in words how equality of
    the values differs from the source's; between a column that is `padded` and one that is
    `varying` spaces at the end do not count there. Compared with a column of numeric `affinity`, a
    text of a column of text affinity is made a number there. A column that is another one as a
    text, whatever is stored there, has that one's name in `text_of`: it stands for CASTs, and
    cannot be named.
    All these make no difference to a schema.
    """

    name: str
    type: Type
    printed: str = field(default="", compare=False)
    equality: str = field(default="", compare=False)
    spaces: Literal["", "padded", "varying"] = field(default="", compare=False)
    text_of: str = field(default="", compare=False)
    affinity: Literal["", "numeric", "text"] = field(default="", compare=False)


@cached_hash
@dataclass(frozen=True)
class Schema:
    """An ordered list of columns; names are unique."""

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        assert len(self.positions) == len(self.columns), f"duplicate column in {self.names}"

    @classmethod
    def of(cls, columns: Iterable[tuple[str, Type]]) -> Schema:
        return cls(tuple(Column(name, kind) for name, kind in columns))

    def to_json(self) -> list[Json]:
        """The names and types, as they are stored and sent."""
        return [[column.name, str(column.type)] for column in self.columns]

    @classmethod
    def from_json(cls, columns: Any) -> Schema:
        """What `to_json` gave; ValueError or TypeError if it is something else."""
        found = [(text_of(name), parse_type(text_of(kind))) for name, kind in columns]
        if len(dict(found)) < len(found):
            raise ValueError("two columns have one name")
        return cls.of(found)

    @cached_property
    def positions(self) -> dict[str, int]:
        return {column.name: at for at, column in enumerate(self.columns)}

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def types(self) -> tuple[Type, ...]:
        return tuple(column.type for column in self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __add__(self, other: Schema) -> Schema:
        return Schema(self.columns + other.columns)

    def qualified(self, alias: str) -> Schema:
        """The same columns, each named `alias.column`."""
        return Schema(tuple(replace(c, name=f"{alias}.{c.name}") for c in self.columns))

    def only(self, names: Sequence[str]) -> Schema:
        return Schema(tuple(self.columns[self.positions[name]] for name in names))

    def row(self, values: Sequence[object]) -> Row:
        """`values` as a canonical row; ValueError in words when they do not fit."""
        if len(values) != len(self.columns):
            names = ", ".join(self.names)
            raise ValueError(f"{len(values)} values for {len(self.columns)} columns ({names})")
        return tuple(
            _fit(value, column) for value, column in zip(values, self.columns, strict=True)
        )


def _fit(value: object, column: Column) -> Value:
    try:
        return canonical(value, column.type)
    except ValueError as error:
        raise ValueError(f"column {column.name}: {error}") from None


@dataclass(frozen=True)
class Relation:
    """A base relation at a source. An empty `key` means a bag: duplicates are allowed.

    `name` is unique among all sources; real sources name theirs `source.table`.
    """

    name: str
    source: str
    schema: Schema
    key: tuple[str, ...] = ()
    within: str = field(default="", compare=False)
    """The part of its database that it is in, where databases have such parts: PostgreSQL's
    schemas. A second table of a name is called `source.within.table`."""
    unusable: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    """Columns that the source has and nobody can use, and why."""

    @property
    def short_name(self) -> str:
        """The name without the source."""
        return self.name.removeprefix(f"{self.source}.")

    def only(self, columns: Sequence[str]) -> Relation:
        """The relation without its other columns; its key is gone if a part of it is."""
        key = self.key if set(self.key) <= set(columns) else ()
        return replace(self, schema=self.schema.only(columns), key=key)

    def without_texts(self) -> Relation:
        """The relation without columns that stand for CASTs of others."""
        return self.only([column.name for column in self.schema.columns if not column.text_of])

    @cached_property
    def key_positions(self) -> tuple[int, ...]:
        return tuple(self.schema.positions[name] for name in self.key)

    def key_of(self, row: Row) -> Row:
        return tuple(row[at] for at in self.key_positions)
