"""How values of PostgreSQL are read, each from its text, and how they are found again by SQL.

Values come as the text that PostgreSQL writes under the settings in `connect`, in the log and in
answers alike, and one function per form makes them canonical. So a row looks the same however it
came, and equal values are one value.

A form is known by its name. Names of nested ones say what is inside: `[,number]` is an array of
numbers with commas between, `(text,int)` a composite value of two fields. Names can be sent and
compared, where functions cannot.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

from headwater.algebra.values import Value, canonical_float
from headwater.sources.postgres.nesting import array_reader, composite_reader


@dataclass(frozen=True)
class Form:
    """One way in which values are written, read and compared.

    A `parameter` is the SQL type that a value is passed as to be compared with a column by the
    database's own equality, which then finds at least what ours does; without one the column is
    compared as `text`. Only texts that match `pattern` are values at all.
    """

    read: Callable[[bytes], Value]
    """Makes a value's text canonical; ValueError if no value here equals it."""
    parameter: str = ""
    repair: Callable[[Any], Value] | None = None
    """Makes a value canonical that the driver has read; None where it is already."""
    text: str = ""
    """In SQL, with {} for the column: its canonical text."""
    pattern: re.Pattern[str] | None = None
    is_loaded_as_text: bool = False
    """Whether the driver has to leave the value as it was printed."""
    is_plain: bool = True
    """Whether what is printed is canonical already, or known to Arrow."""


def _read_text(text: bytes) -> str:
    return text.decode()


def as_float4(value: float) -> float:
    """The exact value of the four bytes, as PostgreSQL compares it with eight."""
    (exact,) = struct.unpack("!f", struct.pack("!f", value))
    return canonical_float(exact)


def _unpadded(text: str) -> str:
    return text.rstrip(" ")


def _read_decimal(text: bytes) -> Decimal:
    value = Decimal(text.decode())
    if not value.is_finite():
        raise ValueError("not a number")
    return value  # at its declared scale already


def _as_utc(value: datetime) -> datetime:
    return value.astimezone(UTC)


def canonical_number(text: str) -> str:
    """A number, or what stands for none, without zeros at its end."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def _number_of(value: Decimal) -> str:
    return canonical_number(format(value, "f") if value.is_finite() else str(value))


_MONTH_DAYS, _DAY_US, _SECOND_US = 30, 86_400_000_000, 1_000_000
_INTERVAL = re.compile(
    r"(?:([+-]?\d+) years?)? ?(?:([+-]?\d+) mons?)? ?(?:([+-]?\d+) days?)? ?"
    r"(?:([+-]?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?"
)


def canonical_interval(text: str) -> str:
    """The interval as the database justifies it: equal if and only if the lengths are.

    A month has 30 days and a day 24 hours, as they have when the database compares.
    """
    if text in ("infinity", "-infinity"):
        return text
    match = _INTERVAL.fullmatch(text)
    if match is None or not text:
        raise ValueError("not an interval")
    years, months, days = (int(part or 0) for part in match.groups()[:3])
    sign, hours, minutes, seconds, fraction = match.groups()[3:]
    clock = int(hours or 0) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    within = clock * _SECOND_US + int((fraction or "").ljust(6, "0"))
    day_count = (years * 12 + months) * _MONTH_DAYS + days
    return _interval_text(day_count * _DAY_US + (-within if sign == "-" else within))


def _interval_text(length_us: int) -> str:
    minus = "-" if length_us < 0 else ""
    days, within = divmod(abs(length_us), _DAY_US)
    months, days = divmod(days, _MONTH_DAYS)
    years, months = divmod(months, 12)
    parts = [
        f"{minus}{count} {unit}{'' if count == 1 and not minus else 's'}"
        for count, unit in ((years, "year"), (months, "mon"), (days, "day"))
        if count
    ]
    if within or not parts:
        seconds, fraction = divmod(within, _SECOND_US)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        behind = f".{fraction:06}".rstrip("0") if fraction else ""
        parts.append(f"{minus}{clock}{behind}")
    return " ".join(parts)


_NUMBER = r"-?(?:0|[1-9]\d{0,131071})(?:\.\d{0,16382}[1-9])?|NaN|-?Infinity"
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_PRINTED = "pg_catalog.format('%%s', {}) COLLATE pg_catalog.\"C\""
"""By the type's output function: a cast could be one that a user has made."""

FORMS: Mapping[str, Form] = {
    "bool": Form(lambda text: text[:1] == b"t", "boolean"),
    "int": Form(int, "bigint"),
    "decimal": Form(_read_decimal, "numeric"),
    "float": Form(
        lambda text: canonical_float(float(text)), "double precision", repair=canonical_float
    ),
    "float4": Form(lambda text: as_float4(float(text)), "double precision", repair=as_float4),
    "text": Form(_read_text, "text", text="{}"),
    "padded": Form(
        lambda text: _unpadded(text.decode()), "bpchar", repair=_unpadded, text="{}::text"
    ),
    "bytes": Form(lambda text: bytes.fromhex(text[2:].decode()), "bytea"),
    "date": Form(lambda text: date.fromisoformat(text.decode()), "date"),
    "timestamp": Form(lambda text: datetime.fromisoformat(text.decode()), "timestamp"),
    "timestamp_tz": Form(
        lambda text: datetime.fromisoformat(text.decode()), "timestamptz", repair=_as_utc
    ),
    "printed": Form(_read_text, text=_PRINTED, is_loaded_as_text=True),
    "uuid": Form(
        _read_text, "uuid", text=_PRINTED, pattern=re.compile(_UUID), is_loaded_as_text=True
    ),
    "number": Form(
        lambda text: canonical_number(text.decode()),
        "numeric",
        repair=_number_of,
        text='pg_catalog.trim_scale({})::text COLLATE pg_catalog."C"',
        pattern=re.compile(_NUMBER),
        is_plain=False,
    ),
    "interval": Form(
        lambda text: canonical_interval(text.decode()),
        repair=canonical_interval,
        text='pg_catalog.justify_interval({})::text COLLATE pg_catalog."C"',
        is_loaded_as_text=True,
        is_plain=False,
    ),
}


_PART = re.compile(r"\w+|\[.|[](),]")


@lru_cache(maxsize=1024)
def form_of(name: str) -> Form:
    """The form of a name; of a nested one it is made of those inside."""
    if name in FORMS:
        return FORMS[name]
    parts = iter(_PART.findall(name))
    read = _reader(next(parts), parts)
    return Form(
        read,
        repair=lambda text: read(text.encode()),
        text=_PRINTED,
        is_loaded_as_text=True,
        is_plain=False,
    )


def array_form(element: str, delimiter: str) -> str:
    return f"[{delimiter}{element}]"


def composite_form(fields: Iterable[str]) -> str:
    return f"({','.join(fields)})"


def _reader(part: str, rest: Iterator[str]) -> Callable[[bytes], Value]:
    """The function that reads what begins with a part of a name; takes what belongs to it."""
    if part.startswith("["):
        element = _reader(next(rest), rest)
        next(rest)
        return array_reader(element, part[1])
    if part == "(":
        fields = []
        while part != ")":
            fields.append(_reader(next(rest), rest))
            part = next(rest)
        return composite_reader(fields)
    return FORMS[part].read
