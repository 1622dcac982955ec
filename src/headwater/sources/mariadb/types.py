"""Tables of MariaDB and MySQL and their columns, as the catalog describes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from headwater.algebra.schema import Column, Relation, Schema
from headwater.algebra.values import TEXT, Row, Value
from headwater.errors import SourceError
from headwater.sources.mariadb.connect import quoted
from headwater.sources.mariadb.forms import Form


@dataclass(frozen=True)
class TableColumn:
    """A column as the catalog describes it."""

    name: str
    declared: str
    form: Form
    collation: str = ""
    charset: str = ""
    equality: str = ""
    """How our equality of its values differs from the database's, in words."""
    is_padded: bool = False

    @property
    def described(self) -> Column:
        is_text = self.form.type == TEXT
        printed = self.declared if is_text and not self.form.is_own else ""
        column = Column(self.name, self.form.type, printed, self.equality)
        if self.is_padded:
            return replace(column, spaces="padded")
        return replace(column, spaces="varying") if self.collation else column

    @property
    def signature(self) -> str:
        return f"{self.name} {self.declared} {self.collation}"


@dataclass(frozen=True)
class Table:
    """A table at the source, with the columns that can be used."""

    database: str
    name: str
    columns: tuple[TableColumn, ...]
    key: tuple[str, ...]
    called: str
    """What the relation is called."""
    used: frozenset[str] | None = None
    """The columns that anybody wants; None: all."""
    left_out: tuple[tuple[str, str], ...] = ()
    """Columns that cannot be used, and why."""
    is_key_given: bool = False
    """Whether the key is one that settings name."""
    cut_by: str = ""
    """The column by whose ranges a load is cut; empty where there is none."""

    @cached_property
    def wanted(self) -> tuple[TableColumn, ...]:
        """The columns that the relation has here."""
        return tuple(c for c in self.columns if self.used is None or c.name in self.used)

    def concerned(self, columns: Iterable[str]) -> frozenset[str]:
        """Which of some columns, in lower case, anybody wants, whether they are there or not."""
        wanted = self.used if self.used is not None else {c.name for c in self.columns}
        named = frozenset(columns)
        found = frozenset(name for name in wanted if name.lower() in named)
        return found | (named if self.used is None and not found else frozenset())

    @cached_property
    def gone(self) -> tuple[str, ...]:
        """The wanted columns that it does not have, or that cannot be used."""
        return tuple(sorted((self.used or frozenset()) - self.by_name.keys()))

    @property
    def label(self) -> str:
        return f"{self.database}.{self.name}"

    @property
    def identifier(self) -> str:
        return quoted(self.database, self.name)

    @cached_property
    def by_name(self) -> dict[str, TableColumn]:
        return {column.name: column for column in self.columns}

    @cached_property
    def schema(self) -> Schema:
        return Schema(tuple(column.described for column in self.wanted))

    @property
    def signature(self) -> tuple[str, ...]:
        """What is to stay as it is while it is read."""
        return (self.label, *(column.signature for column in self.wanted))

    def relation(self, source: str) -> Relation:
        key = self.key if set(self.key) <= set(self.schema.names) else ()
        name = f"{source}.{self.called}"
        return Relation(name, source, self.schema, key, self.database, self.left_out)

    def row(self, columns: Sequence[TableColumn], texts: Sequence[Any]) -> Row:
        """A row of an answer in canonical form."""
        try:
            return tuple(
                [
                    None if text is None else column.form.read(text)
                    for column, text in zip(columns, texts, strict=True)
                ]
            )
        except ValueError:
            for column, text in zip(columns, texts, strict=True):
                self.value(column, text, self._where(columns, texts))
            raise

    def _where(self, columns: Sequence[TableColumn], texts: Sequence[Any]) -> str:
        shown = (
            f"{column.name} = {text!r}"
            for column, text in zip(columns, texts, strict=True)
            if column.name in self.key
        )
        told = ", ".join(shown)
        return f" in the row with {told}" if told else ""

    def value(self, column: TableColumn, text: Any, where: str = "") -> Value:
        if text is None:
            return None
        try:
            return column.form.read(text)
        except ValueError as error:
            raise UnreadableError(self, column.name, text, str(error), where) from None


class UnreadableError(SourceError):
    """A value has no equal here."""

    def __init__(
        self, table: Table, column: str, value: object, reason: str = "", where: str = ""
    ) -> None:
        shown = value.hex() if isinstance(value, bytes) else str(value)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        self.column = column
        self.reason = (
            f"table {table.label}, column {column}: the value {shown} cannot be represented{where}"
        )
        super().__init__(
            f"T{self.reason[1:]}.",
            "Dates must be in the years 1 to 9999 and have a month and a day, and a tinyint(1) "
            "must be 0 or 1; change the value at the source, or write as_text = "
            f"{{ {json.dumps(table.called)} = [{json.dumps(column)}] }} in the settings of "
            "the source.",
        )
