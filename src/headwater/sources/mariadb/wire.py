"""Values in the rows of a binary log: how long they are, and what their bytes mean.

Every value has a fixed length, or a length before it. Dates and times become the text that the
server prints for them, so that one function makes both canonical.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TypeAlias

from headwater.algebra.values import Row, Value
from headwater.sources.mariadb import binlog
from headwater.sources.mariadb.binlog import WireColumn

Raw: TypeAlias = int | float | str | bytes | Decimal
Read: TypeAlias = Callable[[bytes], Value]

_FIXED = {
    binlog.TINY: 1,
    binlog.SHORT: 2,
    binlog.INT24: 3,
    binlog.LONG: 4,
    binlog.LONGLONG: 8,
    binlog.FLOAT: 4,
    binlog.DOUBLE: 8,
    binlog.YEAR: 1,
    binlog.DATE: 3,
    14: 3,
    binlog.TIME: 3,
    binlog.TIMESTAMP: 4,
    binlog.DATETIME: 8,
}
_FRACTION_BYTES = (0, 1, 1, 2, 2, 3, 3)
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def size_of(column: WireColumn) -> int | None:
    """How many bytes a value takes; negative: so many say how many follow; None: unknown."""
    kind, meta = column.type, column.meta
    if kind in _FIXED:
        return _FIXED[kind]
    match kind:
        case binlog.VARCHAR | binlog.VAR_STRING | binlog.VARCHAR_COMPRESSED:
            return -1 if meta < 256 else -2
        case binlog.STRING:
            return -1 if meta < 256 else -2
        case binlog.BLOB | binlog.GEOMETRY | binlog.JSON | binlog.BLOB_COMPRESSED:
            return -meta
        case binlog.ENUM | binlog.SET:
            return meta
        case binlog.BIT:
            return (meta >> 8) + (1 if meta & 0xFF else 0)
        case binlog.TIMESTAMP2:
            return 4 + _FRACTION_BYTES[meta]
        case binlog.DATETIME2:
            return 5 + _FRACTION_BYTES[meta]
        case binlog.TIME2:
            return 3 + _FRACTION_BYTES[meta]
        case binlog.NEWDECIMAL:
            return _decimal_size(meta >> 8, meta & 0xFF)
    return None


@dataclass(frozen=True)
class Step:
    """One column of an image: its bit among those that may be NULL, its size, where it goes."""

    bit: int
    size: int
    slot: int
    read: Read


Image: TypeAlias = tuple[tuple[Step, ...], int, int]
"""The steps through a row, how many bytes of NULL bits it has, and how many values it gives."""


def image(columns: Sequence[WireColumn], present: int, wanted: Sequence[Read | None]) -> Image:
    """How to read a row that has some columns of a table; ValueError if that is not known."""
    steps, slot = [], 0
    bit = 1
    for at, (column, read) in enumerate(zip(columns, wanted, strict=True)):
        is_wanted = read is not None
        if present >> at & 1:
            size = size_of(column)
            if size is None:
                raise ValueError(f"column {column.name} is of a type that cannot be read")
            steps.append(Step(bit, size, slot if is_wanted else -1, read or bytes))
            bit <<= 1
        slot += is_wanted
    return tuple(steps), (len(steps) + 7) // 8, slot


def read_row(data: bytes, at: int, how: Image) -> tuple[list[Value], int]:
    """One row, and where the next begins."""
    steps, null_bytes, count = how
    nulls = int.from_bytes(data[at : at + null_bytes], "little")
    at += null_bytes
    values: list[Value] = [None] * count
    for step in steps:
        if nulls & step.bit:
            continue
        size = step.size
        if size >= 0:
            start, end = at, at + size
        else:
            start = at - size
            end = start + int.from_bytes(data[at:start], "little")
        if step.slot >= 0:
            values[step.slot] = step.read(data[start:end])
        at = end
    if at > len(data):
        raise binlog.CorruptEventError("a row is longer than its event")
    return values, at


def as_row(values: list[Value]) -> Row:
    return tuple(values)


# What bytes mean


def whole(column: WireColumn) -> Callable[[bytes], int]:
    if column.is_unsigned:
        return lambda data: int.from_bytes(data, "little")
    return lambda data: int.from_bytes(data, "little", signed=True)


def bits(data: bytes) -> int:
    return int.from_bytes(data, "big")


def year(data: bytes) -> int:
    return 1900 + data[0] if data[0] else 0


def single(data: bytes) -> float:
    (value,) = struct.unpack("<f", data)
    return float(value)


def double(data: bytes) -> float:
    (value,) = struct.unpack("<d", data)
    return float(value)


def _decimal_size(precision: int, scale: int) -> int:
    whole_digits = precision - scale
    return (
        whole_digits // 9 * 4
        + _DIGIT_BYTES[whole_digits % 9]
        + scale // 9 * 4
        + _DIGIT_BYTES[scale % 9]
    )


def decimals(column: WireColumn) -> Callable[[bytes], Decimal]:
    """Groups of nine digits, each in four bytes; the first bit says whether it is positive."""
    precision, scale = column.meta >> 8, column.meta & 0xFF
    before, after = precision - scale, scale
    groups = [(before % 9, _DIGIT_BYTES[before % 9])] if before % 9 else []
    groups += [(9, 4)] * (before // 9 + after // 9)
    groups += [(after % 9, _DIGIT_BYTES[after % 9])] if after % 9 else []

    def read(data: bytes) -> Decimal:
        is_positive = data[0] & 0x80
        flipped = bytes([data[0] ^ 0x80, *data[1:]])
        if not is_positive:
            flipped = bytes(byte ^ 0xFF for byte in flipped)
        digits, at = 0, 0
        for count, size in groups:
            digits = digits * 10**count + int.from_bytes(flipped[at : at + size], "big")
            at += size
        return Decimal((0 if is_positive else 1, tuple(map(int, str(digits))), -scale))

    return read


def date_text(data: bytes) -> str:
    value = int.from_bytes(data, "little")
    return f"{value >> 9:04}-{value >> 5 & 15:02}-{value & 31:02}"


def moments(column: WireColumn) -> Callable[[bytes], str] | None:
    """A DATETIME as the server prints it."""
    if column.type == binlog.DATETIME:
        return _old_datetime
    if column.type != binlog.DATETIME2:
        return None
    digits = column.meta

    def read(data: bytes) -> str:
        packed = int.from_bytes(data[:5], "big") - 0x8000000000
        day, clock = packed >> 17, packed & 0x1FFFF
        months = day >> 5
        return (
            f"{months // 13:04}-{months % 13:02}-{day & 31:02} "
            f"{clock >> 12:02}:{clock >> 6 & 63:02}:{clock & 63:02}{_fraction(data[5:], digits)}"
        )

    return read


def stamps(column: WireColumn) -> Callable[[bytes], str] | None:
    """A TIMESTAMP as the server prints it in UTC."""
    if column.type == binlog.TIMESTAMP:
        digits, order = 0, "little"
    elif column.type == binlog.TIMESTAMP2:
        digits, order = column.meta, "big"
    else:
        return None

    def read(data: bytes) -> str:
        seconds = int.from_bytes(data[:4], order)  # type: ignore[arg-type] # it is one of both
        fraction = _fraction(data[4:], digits)
        if not seconds and not fraction.strip(".0"):
            return f"0000-00-00 00:00:00{fraction}"
        shown = datetime.fromtimestamp(0, UTC) + timedelta(seconds=seconds)
        return f"{shown:%Y-%m-%d %H:%M:%S}{fraction}"

    return read


def times(column: WireColumn) -> Callable[[bytes], str] | None:
    """A TIME as the server prints it."""
    if column.type == binlog.TIME:
        return _old_time
    if column.type != binlog.TIME2:
        return None
    digits = column.meta

    def read(data: bytes) -> str:
        behind = len(data) - 3
        packed = int.from_bytes(data, "big") - (0x800000 << 8 * behind)
        sign, packed = ("-", -packed) if packed < 0 else ("", packed)
        clock = packed >> 8 * behind
        fraction = (packed & ((1 << 8 * behind) - 1)).to_bytes(behind, "big")
        return (
            f"{sign}{clock >> 12 & 1023:02}:{clock >> 6 & 63:02}:{clock & 63:02}"
            f"{_fraction(fraction, digits)}"
        )

    return read


def _fraction(data: bytes, digits: int) -> str:
    if not digits:
        return ""
    shown = f"{int.from_bytes(data, 'big'):0{2 * len(data)}}"
    return "." + shown[:digits]


def _old_datetime(data: bytes) -> str:
    shown = f"{int.from_bytes(data, 'little'):014}"
    day = f"{shown[:-10]}-{shown[-10:-8]}-{shown[-8:-6]}"
    return f"{day} {shown[-6:-4]}:{shown[-4:-2]}:{shown[-2:]}"


def _old_time(data: bytes) -> str:
    value = int.from_bytes(data, "little", signed=True)
    shown = f"{abs(value):06}"
    return f"{'-' if value < 0 else ''}{shown[:-4]}:{shown[-4:-2]}:{shown[-2:]}"


def number_of_label(data: bytes) -> int:
    return int.from_bytes(data, "little")
