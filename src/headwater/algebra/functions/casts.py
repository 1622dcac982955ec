"""What CAST does between any two types, as Spark in ANSI mode and in UTC.

One function for each pair of types; where there is none, the cast is refused. Texts are read as
Spark reads them, with two exceptions that would depend on more than the text: a time without a
day, which Spark puts on today, and a name of a time zone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_DOWN, Decimal
from typing import Any

from headwater.algebra.functions.numbers import checked_int
from headwater.algebra.functions.times import OUTSIDE, from_unix, midnight, unix_time
from headwater.algebra.values import (
    INT_MAX,
    NAN,
    Type,
    always_fits,
    canonical_decimal,
    canonical_float,
)

Function = Callable[..., Any]
_DECIMAL = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,9})?")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DIGITS = re.compile(r"[+-]?[0-9]+")
_HEX_FLOAT = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)"
)
_BLANKS = "".join(map(chr, range(33)))
_BLANKS_AND_CONTROLS = _BLANKS + "\x7f"
_FLOAT_WORDS = {
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), math.inf),
    **dict.fromkeys(("-inf", "-infinity"), -math.inf),
    "nan": NAN,
}
_BOOLS = {
    **dict.fromkeys(("t", "true", "y", "yes", "1"), True),
    **dict.fromkeys(("f", "false", "n", "no", "0"), False),
}

_DAY = r"[+]?([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
_CLOCK = r"([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?)?"
_ZONE = r"(Z|[+-][0-9]{1,2}:[0-9]{1,2}|[+-][0-9]{4})"
DATE_TEXT = rf"{_DAY}(?:[ T][\s\S]*)?)?)?"
"""A text that CAST takes for a date: also a year or a month alone, and whatever follows a day."""
TIMESTAMP_TEXT = rf"{_DAY}(?:[ T](?:{_CLOCK} ?{_ZONE}?)?)?)?)?"
"""A text that CAST takes for a timestamp."""
_DATE_TEXT, _TIMESTAMP_TEXT = re.compile(DATE_TEXT), re.compile(TIMESTAMP_TEXT)


def cast_function(source: Type, target: Type) -> Function | None:
    """The cast between two types, or None if there is none."""
    if target.name == "decimal" and source.name in _TO_DECIMAL:
        exact = _TO_DECIMAL[source.name]
        return lambda value: canonical_decimal(exact(value), target)
    if source.is_nested and target.name == "text":
        return _shown_nested(source)
    return _CASTS.get((source.name, target.name))


def cast_can_fail(source: Type, target: Type) -> bool:
    """Whether a value of one type may have no value in the other."""
    if source.name == "text":
        return target.name not in ("text", "bytes")
    if (source.name, target.name) in _SAFE:
        return False
    if (source.name, target.name) in _FRAGILE:
        return True
    return not always_fits(source, target)


_SAFE = {("bool", "int"), ("timestamp_tz", "int")}
_FRAGILE = {("bytes", "text"), ("int", "timestamp_tz")}


# Numbers


def exact_decimal(value: int | float | Decimal) -> Decimal:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} has no decimal value")
        return Decimal(repr(value))
    return Decimal(value)


def _written_decimal(text: str) -> Decimal:
    """The number that a text is, blanks around it left out; what Spark and Java take for one."""
    match = _DECIMAL.fullmatch(text.strip(_BLANKS))
    if match is None:
        raise ValueError(f"{text!r} is not a number")
    return Decimal(match[0])


def _truncated(value: int | float | Decimal) -> int:
    if isinstance(value, Decimal):
        return checked_int(int(value.to_integral_value(rounding=ROUND_DOWN)))
    if not math.isfinite(value):
        raise ValueError(f"{value} has no integer value")
    # As Spark compares: the float nearest to the greatest integer still becomes that integer.
    return checked_int(INT_MAX if value == float(INT_MAX) else int(value))


def _written_int(text: str) -> int:
    match = _DIGITS.fullmatch(text.strip(_BLANKS_AND_CONTROLS))
    if match is None:
        raise ValueError(f"{text!r} is not a whole number")
    return checked_int(int(match[0]))


def _written_float(text: str) -> float:
    stripped = text.strip(_BLANKS)
    if (word := _FLOAT_WORDS.get(stripped.lower())) is not None:
        return word
    number = stripped[:-1] if stripped[-1:] in ("d", "D", "f", "F") else stripped
    if _HEX_FLOAT.fullmatch(number):
        return canonical_float(_from_hex(number))
    if _FLOAT.fullmatch(number):
        return canonical_float(float(number))
    raise ValueError(f"{text!r} is not a number")


def _from_hex(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf


def _written_bool(text: str) -> bool:
    found = _BOOLS.get(text.strip(_BLANKS_AND_CONTROLS).lower())
    if found is None:
        raise ValueError(f"{text!r} is neither true nor false")
    return found


# Texts


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ValueError("the bytes are no text in UTF-8") from None


def _shown_timestamp(moment: datetime) -> str:
    shown = moment.replace(tzinfo=None, microsecond=0).isoformat(" ")
    fraction = f".{moment.microsecond:06}".rstrip("0")
    return shown + fraction if moment.microsecond else shown


def _shown_nested(kind: Type) -> Function | None:
    """An array in brackets, a struct in braces; no element may be of a type that can fail."""
    shown = [_shown_element(part) for _, part in kind.parts]
    if None in shown:
        return None
    opening, closing = "[]" if kind.name == "array" else "{}"

    def show(values: tuple[Any, ...]) -> str:
        each = shown * len(values) if kind.name == "array" else shown
        parts = zip(values, each, strict=True)
        return opening + ", ".join("null" if v is None else f(v) for v, f in parts) + closing

    return show


def _shown_element(kind: Type) -> Any:
    if kind.name == "text":
        return str
    return None if kind.name == "bytes" else cast_function(kind, Type("text"))


# Dates and timestamps


def _written_date(text: str) -> date:
    match = _DATE_TEXT.fullmatch(text.strip(_BLANKS_AND_CONTROLS))
    if match is None:
        raise ValueError(f"{text!r} is not a date")
    return _day(text, match)


def _day(text: str, match: re.Match[str]) -> date:
    year, month, day = (int(part or 1) for part in match.groups()[:3])
    try:
        return date(year, month, day)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a date: {error}") from None


def _written_timestamp(text: str) -> datetime:
    """The day and the time of day; a zone behind them is not looked at, as in Spark."""
    return _parts(text)[0]


def _written_instant(text: str) -> datetime:
    moment, zone = _parts(text)
    try:
        return (moment - _offset(zone)).replace(tzinfo=UTC)
    except OverflowError:
        raise OverflowError(OUTSIDE) from None


def _parts(text: str) -> tuple[datetime, str]:
    match = _TIMESTAMP_TEXT.fullmatch(text.strip(_BLANKS_AND_CONTROLS))
    if match is None:
        raise ValueError(f"{text!r} is not a timestamp")
    hour, minute, second = (int(part or 0) for part in match.groups()[3:6])
    fraction = int(((match[7] or "") + "000000")[:6])
    zone = match[8] or ""
    _offset(zone)
    try:
        return midnight(_day(text, match)).replace(
            hour=hour, minute=minute, second=second, microsecond=fraction
        ), zone
    except ValueError as error:
        raise ValueError(f"{text!r} is not a timestamp: {error}") from None


def _offset(zone: str) -> timedelta:
    if zone in ("", "Z"):
        return timedelta()
    digits = zone[1:]
    hours, minutes = digits.split(":") if ":" in digits else (digits[:2], digits[2:])
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    if int(minutes) > 59 or offset > timedelta(hours=18):
        raise ValueError(f"{zone!r} is no distance from UTC: at most 18 hours")
    return -offset if zone.startswith("-") else offset


_TO_DECIMAL: dict[str, Function] = {
    **dict.fromkeys(("int", "float", "decimal", "bool"), exact_decimal),
    "text": _written_decimal,
}
_CASTS: dict[tuple[str, str], Function] = {
    ("bool", "int"): int,
    ("bool", "float"): float,
    ("bool", "text"): lambda value: "true" if value else "false",
    ("int", "bool"): bool,
    ("int", "float"): lambda value: canonical_float(float(value)),
    ("int", "text"): str,
    ("int", "timestamp_tz"): from_unix(1_000_000),
    ("float", "bool"): bool,
    ("float", "int"): _truncated,
    ("decimal", "bool"): bool,
    ("decimal", "int"): _truncated,
    ("decimal", "float"): lambda value: canonical_float(float(value)),
    ("decimal", "text"): lambda value: f"{value:f}",
    ("text", "bool"): _written_bool,
    ("text", "int"): _written_int,
    ("text", "float"): _written_float,
    ("text", "bytes"): str.encode,
    ("text", "date"): _written_date,
    ("text", "timestamp"): _written_timestamp,
    ("text", "timestamp_tz"): _written_instant,
    ("bytes", "text"): _decoded,
    ("date", "text"): date.isoformat,
    ("date", "timestamp"): midnight,
    ("date", "timestamp_tz"): lambda day: midnight(day).replace(tzinfo=UTC),
    ("timestamp", "text"): _shown_timestamp,
    ("timestamp", "date"): datetime.date,
    ("timestamp", "timestamp_tz"): lambda moment: moment.replace(tzinfo=UTC),
    ("timestamp_tz", "text"): _shown_timestamp,
    ("timestamp_tz", "date"): datetime.date,
    ("timestamp_tz", "timestamp"): lambda moment: moment.replace(tzinfo=None),
    ("timestamp_tz", "int"): unix_time(1_000_000),
}
