"""PostgreSQL's types and Headwater's: how a column's values are read, compared and loaded.

Values come as the text that PostgreSQL writes under the settings in `connect`, in the
log and in answers alike, and one function per type makes them canonical. So a row looks the
same however it came.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any

from psycopg import sql

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import (
    BOOL,
    BYTES,
    DATE,
    FLOAT,
    INT,
    MAX_DECIMAL_DIGITS,
    TEXT,
    TIMESTAMP,
    TIMESTAMP_TZ,
    Row,
    Type,
    Value,
    canonical_float,
    decimal_type,
)
from headwater.errors import SourceError

_BPCHAR, _NUMERIC, _FLOAT4 = 1042, 1700, 700
_TYPES = {
    16: BOOL,
    17: BYTES,
    20: INT,
    21: INT,
    23: INT,
    25: TEXT,
    _FLOAT4: FLOAT,
    701: FLOAT,
    _BPCHAR: TEXT,
    1043: TEXT,
    1082: DATE,
    1114: TIMESTAMP,
    1184: TIMESTAMP_TZ,
}
_SQL_TYPES = {
    "bool": "boolean",
    "int": "bigint",
    "decimal": "numeric",
    "float": "double precision",
    "text": "text",
    "bytes": "bytea",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_tz": "timestamptz",
}


def type_of(oid: int, modifier: int) -> Type:
    """The type that a column's values have here; ValueError says why there is none."""
    if oid != _NUMERIC:
        try:
            return _TYPES[oid]
        except KeyError:
            raise ValueError("Headwater has no such type") from None
    if modifier < 0:
        raise ValueError("it declares no precision")
    precision, scale = ((modifier - 4) >> 16) & 0xFFFF, (modifier - 4) & 0x7FF
    if precision > MAX_DECIMAL_DIGITS:
        raise ValueError(f"it has more than {MAX_DECIMAL_DIGITS} digits")
    if scale > precision:  # also a negative scale, whose sign bit is set
        raise ValueError("its scale is outside 0 to its precision")
    return decimal_type(precision, scale)


@dataclass(frozen=True)
class TableColumn:
    """A column as the catalog describes it."""

    name: str
    oid: int
    modifier: int
    shown_type: str
    collation: int
    type: Type

    @cached_property
    def read(self) -> Callable[[bytes], Value]:
        """Makes a value's text canonical; ValueError if no value here equals it."""
        if self.oid == _FLOAT4:
            return _read_float4
        if self.oid == _BPCHAR:
            return _read_padded
        return _READERS[self.type.name]

    @cached_property
    def repair(self) -> Callable[[Any], Value] | None:
        """Makes a value canonical that the driver has read; None where it is already.

        A decimal that is no number has no canonical form; that is looked for elsewhere.
        """
        if self.oid == _BPCHAR:
            return _unpadded
        if self.oid == _FLOAT4:
            return _as_float4
        return _REPAIRS.get(self.type.name)

    @property
    def is_padded(self) -> bool:
        """Whether spaces at the end of a value mean nothing."""
        return self.oid == _BPCHAR

    @property
    def parameter_type(self) -> sql.SQL:
        """What a value is passed as when it is compared with this column."""
        return sql.SQL("bpchar" if self.oid == _BPCHAR else _SQL_TYPES[self.type.name])


@dataclass(frozen=True)
class Table:
    """A table at the source."""

    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[TableColumn, ...]
    key: tuple[str, ...]
    used: frozenset[str] | None = None
    """The columns that anybody wants; None: all."""
    left_out: tuple[str, ...] = ()
    """Why columns of the table are not here: sentences."""

    @cached_property
    def wanted(self) -> tuple[TableColumn, ...]:
        """The columns that the relation has here."""
        return tuple(c for c in self.columns if self.used is None or c.name in self.used)

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
        return Schema.of((column.name, column.type) for column in self.wanted)

    def relation(self, source: str) -> Relation:
        key = self.key if set(self.key) <= set(self.relational_schema.names) else ()
        return Relation(f"{source}.{self.name}", source, self.relational_schema, key)

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
            "Decimals must be numbers, dates and times finite and in the years 1 to 9999; change "
            "the value at the source, then run 'headwater reload VIEW'.",
        )


def _read_float4(text: bytes) -> float:
    return _as_float4(float(text))


def _as_float4(value: float) -> float:
    """The exact value of the four bytes, as PostgreSQL compares it with eight."""
    (exact,) = struct.unpack("!f", struct.pack("!f", value))
    return canonical_float(exact)


def _read_padded(text: bytes) -> str:
    return _unpadded(text.decode())


def _unpadded(text: str) -> str:
    return text.rstrip(" ")


def _read_decimal(text: bytes) -> Decimal:
    value = Decimal(text.decode())
    if not value.is_finite():
        raise ValueError("not a number")
    return value  # at its declared scale already


_REPAIRS: dict[str, Callable[[Any], Value]] = {
    "float": canonical_float,
    "timestamp_tz": lambda value: value.astimezone(UTC),
}

_READERS: dict[str, Callable[[bytes], Value]] = {
    "bool": lambda text: text[:1] == b"t",
    "int": int,
    "decimal": _read_decimal,
    "float": lambda text: canonical_float(float(text)),
    "text": lambda text: text.decode(),
    "bytes": lambda text: bytes.fromhex(text[2:].decode()),
    "date": lambda text: date.fromisoformat(text.decode()),
    "timestamp": lambda text: datetime.fromisoformat(text.decode()),
    "timestamp_tz": lambda text: datetime.fromisoformat(text.decode()),
}
