"""Declared types of SQLite columns, and the values that may be stored under them.

SQLite stores any value in any column. A value that is not of its column's type is refused by
name, never converted by guess.

Choices: a DECIMAL is stored by SQLite as a binary number, so at most 15 digits are exact, and
sums leave traces such as 0.30000000000000004: a stored number is read to 15 digits and must
then have no more decimals than declared. A DATE has one form, `2024-05-01`. A TIMESTAMP may be
written with a blank or a `T` and with or without fractions; since one moment has several
texts, SQLite never compares timestamps for us, nor decimals that have a scale.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias

from headwater.algebra.values import (
    BOOL,
    BYTES,
    DATE,
    FLOAT,
    INT,
    TEXT,
    TIMESTAMP,
    TIMESTAMP_TZ,
    Row,
    Type,
    Value,
    canonical_decimal,
    canonical_float,
    decimal_type,
)

if TYPE_CHECKING:
    import pyarrow

Stored: TypeAlias = int | float | str | bytes | None
"""What SQLite holds."""
Reader = Callable[[Stored], Value]
"""Makes a stored value canonical; ValueError in words when it does not fit."""

EXACT_DIGITS = 15

_NAMES: dict[str, Type] = {
    **dict.fromkeys(("BOOLEAN", "BOOL"), BOOL),
    **dict.fromkeys(
        (
            *("INTEGER", "INT", "TINYINT", "SMALLINT", "MEDIUMINT", "BIGINT", "INT2", "INT4"),
            *("INT8", "UNSIGNED BIG INT"),
        ),
        INT,
    ),
    **dict.fromkeys(("REAL", "DOUBLE", "DOUBLE PRECISION", "FLOAT"), FLOAT),
    **dict.fromkeys(
        (
            *("TEXT", "CLOB", "VARCHAR", "CHAR", "CHARACTER", "CHARACTER VARYING", "NCHAR"),
            *("NVARCHAR", "VARYING CHARACTER", "NATIVE CHARACTER"),
        ),
        TEXT,
    ),
    **dict.fromkeys(("BLOB", "BINARY", "VARBINARY"), BYTES),
    "DATE": DATE,
    **dict.fromkeys(("TIMESTAMP", "DATETIME", "TIMESTAMP WITHOUT TIME ZONE"), TIMESTAMP),
    **dict.fromkeys(("TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE"), TIMESTAMP_TZ),
}
_SIZED = re.compile(r"(?P<name>[^()]*?)\s*\(\s*(?P<a>\d+)\s*(,\s*(?P<b>\d+)\s*)?\)(?P<rest>[^()]*)")


def type_of(declared: str) -> Type:
    """Headwater's type for a declared type; ValueError says what to declare instead."""
    name, digits, scale = " ".join(declared.upper().split()), None, 0
    if match := _SIZED.fullmatch(name):
        name = (match["name"] + " " + match["rest"].strip()).strip()
        digits, scale = int(match["a"]), int(match["b"] or 0)
    if name in ("DECIMAL", "NUMERIC", "DEC"):
        if digits is None or not (1 <= digits <= EXACT_DIGITS and scale <= digits):
            raise ValueError(
                f"Declare it as {name}(p,s) with at most {EXACT_DIGITS} digits, which is what "
                "SQLite keeps exactly, or as INTEGER or TEXT."
            )
        return decimal_type(digits, scale)
    if name in _NAMES:
        return _NAMES[name]
    raise ValueError(
        "Declare it as BOOLEAN, INTEGER, DECIMAL(p,s), REAL, TEXT, BLOB, DATE, TIMESTAMP or "
        "TIMESTAMPTZ, or leave the relation out."
    )


def pushes(operator: str, kind: Type) -> bool:
    """Whether SQLite's comparison finds at least what Headwater's does."""
    if operator == "=":
        return kind in (BOOL, INT, FLOAT, TEXT, BYTES, DATE) or (
            kind.name == "decimal" and not kind.scale
        )
    return kind == INT


# From SQLite


def reader(kind: Type) -> Reader:
    if kind.name == "decimal":
        return lambda value: None if value is None else _decimal(value, kind)
    return _READERS[kind.name]


def _bool(value: Stored) -> Value:
    if value is None:
        return None
    if type(value) is int and value in (0, 1):
        return value == 1
    raise ValueError("it is neither 0 nor 1")


def _int(value: Stored) -> Value:
    if value is None or type(value) is int:
        return value
    raise ValueError("it is not an integer of 64 bits")


def _float(value: Stored) -> Value:
    match value:
        case None:
            return None
        case float() | int():
            return canonical_float(float(value))
    raise ValueError("it is not a number")


def _text(value: Stored) -> Value:
    if value is None or type(value) is str:
        return value
    raise ValueError("it is not a text")


def _bytes(value: Stored) -> Value:
    if value is None or type(value) is bytes:
        return value
    raise ValueError("it is not a blob")


def _decimal(value: Stored, kind: Type) -> Value:
    if isinstance(value, int):
        return canonical_decimal(Decimal(value), kind)
    if not isinstance(value, float):
        raise ValueError("it is not a number")
    if kind.scale:
        exact = Decimal(f"{value:.{EXACT_DIGITS}g}")
    else:
        exact = Decimal(value)
    fitted = canonical_decimal(exact, kind)
    if fitted != exact:
        raise ValueError(f"it has more than {kind.scale} decimals")
    return fitted


_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d)(:\d\d)?(\.\d{1,6})?", re.ASCII)
_ZONED = re.compile(rf"{_MOMENT.pattern} ?(Z|[+-]\d\d(:?\d\d)?)", re.ASCII)


def _date(value: Stored) -> Value:
    if value is None:
        return None
    if not isinstance(value, str) or not _DATE.fullmatch(value):
        raise ValueError("it is not written as 2024-05-01")
    return date.fromisoformat(value)


def _timestamp(value: Stored) -> Value:
    if value is None:
        return None
    match = _MOMENT.fullmatch(value) if isinstance(value, str) else None
    if match is None or (match[4] and not match[3]):
        raise ValueError("it is not written as 2024-05-01 12:30:00 without a zone")
    return datetime.fromisoformat(_whole(match))


def _timestamp_tz(value: Stored) -> Value:
    if value is None:
        return None
    match = _ZONED.fullmatch(value) if isinstance(value, str) else None
    if match is None or (match[4] and not match[3]):
        raise ValueError("it is not written as 2024-05-01 12:30:00+02:00 with a zone")
    zone = match[5].replace(":", "")
    zone = "+00:00" if zone == "Z" else f"{zone[:3]}:{zone[3:] or '00'}"
    try:
        return datetime.fromisoformat(_whole(match) + zone).astimezone(UTC)
    except OverflowError:
        raise ValueError("it is outside the years 1 to 9999 in UTC") from None


def _whole(match: re.Match[str]) -> str:
    fraction = (match[4] or ".")[1:].ljust(6, "0")
    return f"{match[1]} {match[2]}{match[3] or ':00'}.{fraction}"


_READERS: dict[str, Reader] = {
    "bool": _bool,
    "int": _int,
    "float": _float,
    "text": _text,
    "bytes": _bytes,
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_tz": _timestamp_tz,
}


# Towards SQLite


def stored(value: Value) -> Stored:
    """The value as SQLite would hold it, to be a parameter."""
    match value:
        case bool():
            return int(value)
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case datetime():
            return value.isoformat(" ")
        case date():
            return value.isoformat()
        case tuple():
            raise AssertionError("no column of SQLite holds arrays or structs")
        case _:
            return value


def can_be_stored(value: Value) -> bool:
    """False for texts that no SQLite database holds, so that nothing can equal them."""
    if not isinstance(value, str):
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


# Towards Arrow


def arrow_batch(schema: pyarrow.Schema, rows: Sequence[Row]) -> pyarrow.RecordBatch:
    import pyarrow as pa

    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
