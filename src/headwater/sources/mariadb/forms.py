"""How values are read, from the log's bytes and from answers' texts alike, and asked for.

Either way ends in one function, so that a row looks the same however it came, and equal values
are one value. A form is made for one column: some need its character set, length or labels.
"""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from headwater.algebra.values import (
    BOOL,
    BYTES,
    DATE,
    FLOAT,
    INT,
    INT_MAX,
    INT_MIN,
    TEXT,
    TIMESTAMP,
    TIMESTAMP_TZ,
    Type,
    Value,
    canonical_decimal,
    canonical_float,
    decimal_type,
)
from headwater.sources.mariadb import binlog, wire
from headwater.sources.mariadb.binlog import WireColumn
from headwater.sources.mariadb.charsets import Decode
from headwater.sources.mariadb.wire import Read

_WHOLE = (binlog.TINY, binlog.SHORT, binlog.INT24, binlog.LONG, binlog.LONGLONG)
_TEXTS = (binlog.STRING, binlog.VAR_STRING, binlog.VARCHAR, binlog.BLOB)


@dataclass(frozen=True)
class Form:
    """One way in which a column's values are written, read and compared.

    `read` makes a text of an answer canonical, `wire` makes a function that does so with bytes of
    the log, or None if they are of another type; both raise ValueError if no value here equals it.
    """

    type: Type
    read: Callable[[Any], Value]
    wire: Callable[[WireColumn], Read | None]
    select: str = "{}"
    """In SQL, what is read of a column."""
    compare: str = "{}"
    """In SQL, what values are compared with."""
    is_own: bool = True
    """Whether values are here what they are there, so that the server may join on them."""


def _of(
    types: tuple[int, ...], raw: Callable[[WireColumn], Callable[[bytes], Any] | None], canon: Any
) -> Callable[[WireColumn], Read | None]:
    """For columns of these types: their bytes read, then made canonical."""

    def wire_of(column: WireColumn) -> Read | None:
        if column.type not in types:
            return None
        found = raw(column)
        return None if found is None else lambda data: canon(found(data))

    return wire_of


def _int(value: Any) -> int:
    number = int(value)
    if not INT_MIN <= number <= INT_MAX:
        raise ValueError("it has more than 64 bits")
    return number


def _bool(value: Any) -> bool:
    number = int(value)
    if number not in (0, 1):
        raise ValueError("it is neither 0 nor 1")
    return number == 1


def _whole(column: WireColumn) -> Callable[[bytes], int]:
    return wire.whole(column)


def _bits(column: WireColumn) -> Callable[[bytes], int]:
    return wire.bits


INTEGER = Form(INT, _int, _of(_WHOLE, _whole, _int))
UNSIGNED = Form(
    decimal_type(20, 0), lambda text: Decimal(text), _of(_WHOLE, _whole, Decimal)
)  # a bigint of 64 bits without a sign
BOOLEAN = Form(BOOL, _bool, _of((binlog.TINY,), _whole, _bool))
YEAR = Form(INT, _int, _of((binlog.YEAR,), lambda c: wire.year, _int), compare="({} + 0)")
BIT = Form(BOOL, _bool, _of((binlog.BIT,), _bits, _bool), select="({} + 0)")
BITS = Form(INT, _int, _of((binlog.BIT,), _bits, _int), select="({} + 0)")
MOST_BITS = Form(
    decimal_type(20, 0), lambda text: Decimal(text), _of((binlog.BIT,), _bits, Decimal),
    select="({} + 0)",
)  # fmt: skip
SINGLE = Form(
    FLOAT,
    lambda text: canonical_float(float(text)),
    _of((binlog.FLOAT,), lambda c: wire.single, canonical_float),
    select="CAST({} AS DOUBLE)",
)
DOUBLE = Form(
    FLOAT,
    lambda text: canonical_float(float(text)),
    _of((binlog.DOUBLE,), lambda c: wire.double, canonical_float),
    select="({} + 0e0)",
)


def decimals(precision: int, scale: int) -> Form:
    """A number with a declared scale; one with more digits than fit here is its text."""
    if precision > 38:
        return Form(
            TEXT,
            lambda text: _fixed(Decimal(text)),
            _of((binlog.NEWDECIMAL,), wire.decimals, _fixed),
            is_own=False,
        )
    kind = decimal_type(precision, scale)

    def canon(value: Decimal | str) -> Decimal:
        return canonical_decimal(Decimal(value), kind)

    def is_same(column: WireColumn) -> Callable[[bytes], Decimal] | None:
        wide = (column.meta >> 8) - (column.meta & 0xFF) <= precision - scale
        return wire.decimals(column) if wide and column.meta & 0xFF <= scale else None

    return Form(kind, canon, _of((binlog.NEWDECIMAL,), is_same, canon))


def _fixed(value: Decimal) -> str:
    return format(value if value else abs(value), "f")


def texts(decode: Decode, *, is_padded: bool = False, is_wide: bool = False) -> Form:
    """A text; one that is padded loses the spaces that fill it up. One of a wide character set may
    have half a character, which the driver would fail on, so its bytes are read."""
    canon: Any = (lambda text: text.rstrip(" ")) if is_padded else str
    wire_of = _of(_TEXTS, lambda c: decode, canon)
    if is_wide:
        return Form(TEXT, lambda data: canon(decode(data)), wire_of, select="CAST({} AS BINARY)")
    return Form(TEXT, canon, wire_of)


BINARY = Form(BYTES, bytes, _of(_TEXTS, lambda c: bytes, bytes))
SHAPE = Form(BYTES, bytes, _of((binlog.GEOMETRY,), lambda c: bytes, bytes), is_own=False)


def filled(length: int) -> Form:
    """Bytes of a fixed length, whose zeros at the end the log leaves out."""
    return Form(BYTES, bytes, _of(_TEXTS, lambda c: lambda data: data.ljust(length, b"\0"), bytes))


DAY = Form(
    DATE,
    date.fromisoformat,
    _of((binlog.DATE, 14), lambda c: wire.date_text, date.fromisoformat),
)
MOMENT = Form(
    TIMESTAMP,
    datetime.fromisoformat,
    _of((binlog.DATETIME, binlog.DATETIME2), wire.moments, datetime.fromisoformat),
)


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


STAMP = Form(TIMESTAMP_TZ, _utc, _of((binlog.TIMESTAMP, binlog.TIMESTAMP2), wire.stamps, _utc))
CLOCK = Form(TEXT, str, _of((binlog.TIME, binlog.TIME2), wire.times, str), is_own=False)


def enumeration(decode: Decode) -> Form:
    """The label; the empty text where the server has put in an error."""

    def labels(column: WireColumn) -> Callable[[bytes], str] | None:
        known = ["", *map(decode, column.labels)]

        def read(data: bytes) -> str:
            number = wire.number_of_label(data)
            if number >= len(known):
                raise ValueError("it is of a label that is not known")
            return known[number]

        return read if column.labels else None

    return Form(TEXT, str, _of((binlog.ENUM,), labels, str), is_own=False)


def set_of_labels(decode: Decode) -> Form:
    """The labels as the server prints them, in the order in which they are declared."""

    def labels(column: WireColumn) -> Callable[[bytes], str] | None:
        known = list(map(decode, column.labels))

        def read(data: bytes) -> str:
            chosen = wire.number_of_label(data)
            if chosen >> len(known):
                raise ValueError("it is of a label that is not known")
            return ",".join(label for at, label in enumerate(known) if chosen >> at & 1)

        return read if known else None

    return Form(TEXT, str, _of((binlog.SET,), labels, str), is_own=False)


def _padded_to(length: int, show: Callable[[bytes], str]) -> Callable[[WireColumn], Any]:
    def raw(column: WireColumn) -> Callable[[bytes], str] | None:
        if column.meta != length:
            return None
        return lambda data: show(data.ljust(length, b"\0"))

    return raw


def _inet6(data: bytes) -> str:
    """As the server prints it: the longest gap of zeros left out, an address of IPv4 with dots."""
    words = [int.from_bytes(data[at : at + 2], "big") for at in range(0, 16, 2)]
    gap, length = 0, 0
    for start in range(8):
        end = start
        while end < 8 and not words[end]:
            end += 1
        if end - start > length:
            gap, length = start, end - start
    dotted = str(ipaddress.IPv4Address(data[12:]))
    if gap == 0 and length == 6:
        return f"::{dotted}"
    if gap == 0 and length == 5 and words[5] == 0xFFFF:
        return f"::ffff:{dotted}"
    if not length:
        return ":".join(f"{word:x}" for word in words)
    before, after = words[:gap], words[gap + length :]
    return ":".join(f"{w:x}" for w in before) + "::" + ":".join(f"{w:x}" for w in after)


IDENTIFIER = Form(
    TEXT,
    str,
    _of((binlog.STRING,), _padded_to(16, lambda data: str(uuid.UUID(bytes=data))), str),
    is_own=False,
)
ADDRESS6 = Form(TEXT, str, _of((binlog.STRING,), _padded_to(16, _inet6), str), is_own=False)
ADDRESS4 = Form(
    TEXT,
    str,
    _of((binlog.STRING,), _padded_to(4, lambda data: str(ipaddress.IPv4Address(data))), str),
    is_own=False,
)


# As texts, for values that a type has no room for


def as_printed(form: Form) -> Form:
    """The same column as the text that the server prints for its values."""
    if form.type == TEXT:
        return form
    show = _SHOWN.get(form.type.name, str)
    plain = _PRINTED.get(id(form), form)

    def wire_of(column: WireColumn) -> Read | None:
        found = plain.wire(column)
        return None if found is None else lambda data: show(found(data))

    return Form(TEXT, lambda text: show(plain.read(text)), wire_of, form.select, is_own=False)


def _hex(value: Any) -> str:
    return str(value.hex().upper())


_SHOWN: dict[str, Callable[[Any], str]] = {"bytes": _hex, "decimal": _fixed}
_PRINTED = {
    id(BOOLEAN): INTEGER,
    id(BIT): BITS,
    id(DAY): Form(TEXT, str, _of((binlog.DATE, 14), lambda c: wire.date_text, str)),
    id(MOMENT): Form(TEXT, str, _of((binlog.DATETIME, binlog.DATETIME2), wire.moments, str)),
    id(STAMP): Form(TEXT, str, _of((binlog.TIMESTAMP, binlog.TIMESTAMP2), wire.stamps, str)),
}
