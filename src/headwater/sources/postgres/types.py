"""Tables of PostgreSQL and their columns, as the catalog describes them.

What a type means is in `meanings`, how values are read in `forms`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from psycopg import sql

from headwater.algebra.schema import Column, Relation, Schema
from headwater.algebra.values import TEXT, Row, Type, Value
from headwater.errors import SourceError
from headwater.sources.postgres.forms import Form, form_of

_SPACES: Mapping[int, Literal["", "padded", "varying"]] = {1042: "padded", 1043: "varying"}


@dataclass(frozen=True)
class TableColumn:
    """A column as the catalog describes it; `oid` is that of its declared type."""

    name: str
    oid: int
    modifier: int
    shown_type: str
    collation: int
    type: Type
    form_name: str = ""
    """How its values are read, by a name of `form_of`; without one as those of `type` are."""
    equality: str = ""
    """How our equality of its values differs from the database's, in words."""
    base_oid: int = 0
    """The base type of a domain."""

    @property
    def form(self) -> Form:
        return form_of(self.form_name or self.type.name)

    @property
    def base(self) -> int:
        """The type that answers say the values have."""
        return self.base_oid or self.oid

    @cached_property
    def read(self) -> Callable[[bytes], Value]:
        """Makes a value's text canonical; ValueError if no value here equals it."""
        return self.form.read

    @property
    def is_printed(self) -> bool:
        """Whether its values are texts here and something else there."""
        return (
            self.type == TEXT
            and self.form.text != ""
            and self.form_name not in ("text", "padded", "")
        )

    @property
    def described(self) -> Column:
        printed = self.shown_type if self.is_printed else ""
        spaces = _SPACES.get(self.base, "")
        return Column(self.name, self.type, printed, self.equality, spaces)


@dataclass(frozen=True)
class Partition:
    """A part of a partitioned table that has rows of its own."""

    oid: int
    schema: str
    name: str
    identity: str

    @property
    def identifier(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)


@dataclass(frozen=True)
class Table:
    """A table at the source; of a partitioned one `identity` is nobody's."""

    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[TableColumn, ...]
    key: tuple[str, ...]
    used: frozenset[str] | None = None
    """The columns that anybody wants; None: all."""
    left_out: tuple[tuple[str, str], ...] = ()
    """Columns that cannot be used, and why."""
    called: str = ""
    """What the relation is called; without it as the table is."""
    partitions: tuple[Partition, ...] | None = None
    """Where the rows of a partitioned table are; None: it is not partitioned."""

    @cached_property
    def wanted(self) -> tuple[TableColumn, ...]:
        """The columns that the relation has here."""
        return tuple(c for c in self.columns if self.used is None or c.name in self.used)

    @property
    def stored(self) -> Sequence[Table | Partition]:
        """What has rows and an identity of its own."""
        return [self] if self.partitions is None else self.partitions

    @property
    def from_clause(self) -> sql.Composable:
        """The table and nothing that inherits from it; partitions are the table."""
        if self.partitions is not None:
            return self.identifier
        return sql.SQL("ONLY {}").format(self.identifier)

    @property
    def relation_name(self) -> str:
        return self.called or self.name

    @property
    def label(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def identifier(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)

    @cached_property
    def by_name(self) -> dict[str, TableColumn]:
        return {column.name: column for column in self.columns}

    @cached_property
    def relational_schema(self) -> Schema:
        return Schema(tuple(column.described for column in self.wanted))

    def relation(self, source: str) -> Relation:
        key = self.key if set(self.key) <= set(self.relational_schema.names) else ()
        name = f"{source}.{self.relation_name}"
        return Relation(name, source, self.relational_schema, key, self.schema, self.left_out)

    @cached_property
    def _readers(self) -> tuple[tuple[int, Callable[[bytes], Value]], ...]:
        return tuple((self.columns.index(column), column.read) for column in self.wanted)

    def row(self, data: Sequence[bytes | None]) -> Row:
        """A row of the log in canonical form."""
        try:
            return tuple(
                [None if (text := data[at]) is None else read(text) for at, read in self._readers]
            )
        except ValueError:
            for column in self.wanted:
                read_value(self, column, data[self.columns.index(column)])
            raise


def read_value(table: Table, column: TableColumn, text: bytes | None) -> Value:
    """One value in canonical form; UnreadableError names its place when there is no such value."""
    if text is None:
        return None
    try:
        return column.read(text)
    except ValueError:
        raise UnreadableError(table, column.name, text.decode(errors="replace")) from None


class UnreadableError(SourceError):
    """A value has no equal here."""

    def __init__(self, table: Table, column: str, value: str) -> None:
        shown = value if len(value) <= 60 else value[:57] + "..."
        self.column = column
        self.reason = (
            f"table {table.label}, column {column}: the value {shown} cannot be represented"
        )
        super().__init__(
            f"T{self.reason[1:]}.",
            "Decimals must be numbers, dates and times finite and in the years 1 to 9999, arrays "
            "of one dimension that begins at 1; change the value at the source, or write as_text = "
            f"{{ {json.dumps(table.relation_name)} = [{json.dumps(column)}] }} in the settings of "
            "the source.",
        )
