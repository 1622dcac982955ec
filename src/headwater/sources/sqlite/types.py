"""Stored values of SQLite, read as what their column means, and as texts.

SQLite stores any value in any column. A value that is not of its column's type is refused by
name, never converted by guess.

Choices: a DECIMAL is stored by SQLite as a binary number, so at most 15 digits are exact, and
sums leave traces such as 0.30000000000000004: a stored number is read to 15 digits and must
then have no more decimals than declared; one so large that these digits do not reach to its last
decimal is refused. A DATE has one form, `2024-05-01`. A TIMESTAMP may be
written with a blank or a `T` and with or without fractions; since one moment has several
texts, SQLite never compares timestamps for us, nor decimals that have a scale.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
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
    Row,
    Type,
    Value,
    canonical_decimal,
    canonical_float,
)

if TYPE_CHECKING:
    import pyarrow


class Undecoded(bytes):
    """The bytes of a stored text that is not UTF-8."""


def text_or_bytes(text: bytes) -> str | Undecoded:
    """A stored text, as connections give it."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return Undecoded(text)


Stored: TypeAlias = int | float | str | bytes | None
"""What SQLite holds."""
Reader = Callable[[Stored], Value]
"""Makes a stored value canonical; ValueError in words when it does not fit."""

EXACT_DIGITS = 15


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
    shown = f"{value:.{EXACT_DIGITS}g}"
    if abs(value) >= 10 ** (EXACT_DIGITS - kind.scale) and float(shown) != value:
        raise ValueError(f"SQLite keeps only {EXACT_DIGITS} digits of it")
    if kind.scale:
        exact = Decimal(shown)
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


# As texts


def read_printed(value: Stored) -> Value:
    """Any value as a text, equal numbers as one; a text that another value is written as is none.

    Where SQLite converts what looks like a number, no two values have one text.
    """
    if isinstance(value, float) and value.is_integer() and -(2**63) <= value < 2**63:
        return str(int(value))
    if isinstance(value, str) and _OTHER.fullmatch(value):
        raise ValueError("a blob or an infinity is written like that")
    return as_text(value)


def as_text(value: Stored) -> Value:
    """A value as SQLite casts it to a text, numbers with all their digits, blobs quoted."""
    match value:
        case None | str():
            return value
        case int():
            return str(value)
        case float():
            return _real_text(value)
        case Undecoded():
            raise ValueError("it is not UTF-8")
        case bytes():
            return f"X'{value.hex().upper()}'"


_OTHER = re.compile(r"X'([0-9A-F]{2})*'|-?Inf")


def _real_text(value: float) -> str:
    """As SQLite prints it, with as many digits as it takes to tell it from others."""
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    shown = next(
        text for digits in (15, 16, 17) if float(text := f"{value + 0.0:.{digits}g}") == value
    )
    mantissa, exponent, rest = shown.partition("e")
    return (mantissa if "." in mantissa else f"{mantissa}.0") + exponent + rest


def candidates(text: str) -> list[Stored]:
    """All values that may be stored where the text is what they are printed as."""
    found: list[Stored] = [text] if can_be_stored(text) else []
    if _OTHER.fullmatch(text):
        found.append(float(text) if "I" in text else bytes.fromhex(text[2:-1]))
    elif _WHOLE.fullmatch(text) and -(2**63) <= int(text) < 2**63:
        found.append(int(text))
    elif _REAL.fullmatch(text):
        found.append(float(text))
    return found


_WHOLE = re.compile(r"-?\d{1,19}", re.ASCII)
_REAL = re.compile(r"-?\d+\.\d+(e[+-]\d+)?", re.ASCII)
STORAGE_CLASSES: Mapping[type, str] = {
    int: "integer",
    float: "real",
    str: "text",
    bytes: "blob",
    Undecoded: "text",
    type(None): "null",
}


# Towards SQLite


def stored(value: Value) -> Stored:
    """The value as SQLite would hold it, to be a parameter."""
    match value:
        case bool():
            return int(value)
        case Decimal():
            whole = value == value.to_integral_value() and abs(value) < 2**63
            return int(value) if whole else float(value)
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
