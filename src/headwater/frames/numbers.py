"""Numbers as whole limbs that Spark adds up exactly, and the sums put together again.

Spark's own sums round floats after every step, and those of decimals overflow in between. Here a
number is `sum of limb[i] * base ** i` units, with limbs so short that Spark can add up more than
10 ** 11 of them in 64 bits, which takes it a tenth of the time that long decimals would. A float's
unit is that of the bin that its exponent falls into, so floats are added up for each bin: at most
258 in a group, and seldom more than five. Squares are added up as limbs too.

Assumes the units of `algebra.moments`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (the name that everybody uses)

from headwater.algebra.moments import FLOAT_UNIT_EXPONENT
from headwater.algebra.values import FLOAT, MAX_DECIMAL_DIGITS, Type
from headwater.frames.spark_types import spark_type

_BITS = 21
_DIGITS = 6
_BIN = 8
_LEAST_BIN = -FLOAT_UNIT_EXPONENT // _BIN
_MANTISSA = 53
_LONG = 18
"""Decimals of so many digits are whole numbers of 64 bits."""
_LIMBS_OF_LONG = 3
_LIMBS_OF_WIDE = -(-MAX_DECIMAL_DIGITS // _DIGITS)


def float_bin(number: Column) -> Column:
    """In which bin a float is; NULL if it is zero or has no finite value.

    The logarithm may be off by one at a power of two: the bin is low enough for either.
    """
    exponent = F.floor(F.log2(F.abs(number)))
    lowest = F.floor((exponent - _MANTISSA) / _BIN)
    is_finite = (number != 0) & ~F.isnan(number) & (F.abs(number) != float("inf"))
    return F.when(is_finite, F.greatest(lowest, F.lit(_LEAST_BIN)))


def prepared(name: str, number: Column, kind: Type) -> dict[str, Column]:
    """Columns that limbs are taken from, so that each is computed once for a row."""
    if kind == FLOAT:
        # Multiplied by a power of two in two steps, both of which are exact.
        factor = F.pow(F.lit(2.0), float_bin(number) * F.lit(-_BIN // 2))
        return {f"{name}_units": (number * factor * factor).cast("bigint")}
    if not kind.precision:
        return {f"{name}_units": number}
    if kind.precision <= _LONG:
        return {f"{name}_units": _in_units(number, kind)}
    text = F.lpad(F.translate(number.cast("string"), "-.", ""), _LIMBS_OF_WIDE * _DIGITS, "0")
    sign = F.when(number < F.lit(0).cast(spark_type(kind)), F.lit(-1)).otherwise(F.lit(1))
    is_long, units = F.lit(False), F.lit(None).cast("bigint")
    if kind.scale <= _LONG:
        most = F.lit(f"1E{_LONG - kind.scale}").cast(spark_type(kind))
        least = F.lit(f"-1E{_LONG - kind.scale}").cast(spark_type(kind))
        is_long, units = (number < most) & (number > least), _in_units(number, kind)
    return {
        f"{name}_units": F.when(is_long, units),
        f"{name}_text": F.when(~is_long, text),
        f"{name}_sign": F.when(~is_long, sign),
    }


def _in_units(number: Column, kind: Type) -> Column:
    """A decimal that has no more than 18 digits as a whole number."""
    one = F.lit(10**kind.scale).cast(f"decimal({kind.scale + 1},0)")
    return (number.cast(f"decimal({_LONG},{kind.scale})") * one).cast("bigint")


def _is_wide(kind: Type) -> bool:
    return kind.precision > _LONG


def _base(kind: Type) -> int:
    return int(10**_DIGITS if _is_wide(kind) else 2**_BITS)


def _limbs(name: str, kind: Type) -> list[Column]:
    """The limbs of prepared columns, the least first; only the last of binary ones has a sign."""
    units = F.col(f"{name}_units")
    if not _is_wide(kind):
        low, rest = _divided(units, kind)
        return [low, *_divided(rest, kind)]
    text, sign = F.col(f"{name}_text"), F.col(f"{name}_sign")
    starts = [at * _DIGITS + 1 for at in reversed(range(_LIMBS_OF_WIDE))]
    digits = [F.substring(text, start, _DIGITS).cast("bigint") * sign for start in starts]
    low, rest = _divided(units, kind)
    few = [low, *_divided(rest, kind)]
    return [F.coalesce(a, b) for a, b in zip(few, digits, strict=False)] + digits[_LIMBS_OF_LONG:]


def _divided(whole: Column, kind: Type) -> tuple[Column, Column]:
    """The lowest limb of a whole number, and how often the base is in the rest."""
    if _is_wide(kind):
        base = F.lit(_base(kind)).cast("bigint")
        return whole % base, F.call_function("div", whole, base)
    return whole.bitwiseAND(F.lit(_base(kind) - 1)), F.shiftright(whole, _BITS)


def sums_of(name: str, kind: Type, count: Column, squares: bool) -> dict[str, Column]:
    """What is to be summed, of prepared columns, for each power of the base; if wanted, of the
    square as well."""
    limbs = _limbs(name, kind)
    found = {f"{name}_total_{power}": limb * count for power, limb in enumerate(limbs)}
    if squares:
        square = _square(limbs, kind)
        found |= {f"{name}_square_{power}": part * count for power, part in enumerate(square)}
    return found


def _square(limbs: Sequence[Column], kind: Type) -> list[Column]:
    """The limbs of the square: products by their power, each with what the one before carries."""
    powers: list[list[Column]] = [[] for _ in range(2 * len(limbs) - 1)]
    for i, one in enumerate(limbs):
        for j, other in enumerate(limbs):
            powers[i + j].append(one * other)
    parts = [_divided(reduce(Column.__add__, products), kind) for products in powers]
    carried = [low + rest for (low, _), (_, rest) in zip(parts[1:], parts, strict=False)]
    return [parts[0][0], *carried, parts[-1][1]]


def put_together(sums: Mapping[str, Any], name: str, kind: Type) -> tuple[int, int]:
    """The sum, and that of the squares, in units, out of such sums; NULL where nothing was."""
    base = _base(kind)
    return _number(sums, f"{name}_total_", base), _number(sums, f"{name}_square_", base)


def _number(sums: Mapping[str, Any], prefix: str, base: int) -> int:
    return sum(
        value * base ** int(key.removeprefix(prefix))
        for key, value in sums.items()
        if value is not None and key.startswith(prefix)
    )


def put_bins_together(bins: Sequence[Mapping[str, Any]], name: str) -> tuple[int, int]:
    """The same of floats, out of the sums of each `bin`."""
    total = squared = 0
    for sums in bins:
        if sums["bin"] is not None:
            shift = sums["bin"] * _BIN + FLOAT_UNIT_EXPONENT
            one, two = put_together(sums, name, FLOAT)
            total, squared = total + (one << shift), squared + (two << 2 * shift)
    return total, squared


def total_of(name: str, kind: Type) -> Column:
    """The sum in units as Spark itself tells it: of numbers that are no floats and not wide."""
    wide = "decimal(38,0)"
    parts = [
        F.col(f"{name}_total_{power}").cast(wide) * F.lit(_base(kind) ** power).cast(wide)
        for power in range(_LIMBS_OF_LONG)
    ]
    return reduce(Column.__add__, (part.cast(wide) for part in parts)).cast(wide)
