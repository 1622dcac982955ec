"""Numbers as whole limbs that Spark adds up exactly, and the sums put together again.

Spark's own sums round floats after every step and overflow in between. Here a number is made of
limbs, `sum of limb[i] * base ** i` units, each a whole number small enough that 10 ** 18 of them,
or of their products, have a sum of 38 digits. A float's unit is that of the bin that its exponent
falls into, so floats are added up for each bin, of which there are at most 258 in a group and
seldom more than five.

Assumes the units of `algebra.moments`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (the name that everybody uses)

from headwater.algebra.moments import FLOAT_UNIT_EXPONENT
from headwater.algebra.values import FLOAT, MAX_DECIMAL_DIGITS, Type

WHOLE = "decimal(20,0)"
_BIN = 8
_LEAST_BIN = -FLOAT_UNIT_EXPONENT // _BIN
_MANTISSA = 53
_LONG = 18
"""Decimals of so many digits are whole numbers of 64 bits."""
_HALF = 31
_SHORT = 9


def float_bin(number: Column) -> Column:
    """In which bin a float is; NULL if it is zero or has no finite value.

    The logarithm may be off by one at a power of two: the bin is low enough for either.
    """
    exponent = F.floor(F.log2(F.abs(number)))
    lowest = F.floor((exponent - _MANTISSA) / _BIN)
    is_finite = (number != 0) & ~F.isnan(number) & (F.abs(number) != float("inf"))
    return F.when(is_finite, F.greatest(lowest, F.lit(_LEAST_BIN)))


def _in_bin(number: Column) -> Column:
    """A float in units of its bin: multiplied by a power of two in two steps, both exact."""
    factor = F.pow(F.lit(2.0), float_bin(number) * F.lit(-_BIN // 2))
    return (number * factor * factor).cast("bigint")


def base_of(kind: Type, squares: bool) -> int:
    """What a limb is worth, counted in limbs before it."""
    if kind.precision > _LONG:
        return int(10 ** (_SHORT if squares else _LONG))
    return int(2**_HALF)


def limbs_of(number: Column, kind: Type, squares: bool) -> list[Column]:
    """The limbs, the least first; those of which products are added up are shorter."""
    if kind.precision > _LONG:
        return _digits(number, kind, _SHORT if squares else _LONG)
    whole = _in_bin(number) if kind == FLOAT else number
    if kind.precision:
        one = F.lit(10**kind.scale).cast(f"decimal({kind.scale + 1},0)")
        whole = (number * one).cast("bigint")
    if not squares:
        return [whole]
    return [whole.bitwiseAND(F.lit(2**_HALF - 1)), F.shiftright(whole, _HALF)]


def _digits(number: Column, kind: Type, length: int) -> list[Column]:
    """A long decimal, cut into so many digits each, all with its sign."""
    pieces = -(-MAX_DECIMAL_DIGITS // length)
    text = F.lpad(F.translate(number.cast("string"), "-.", ""), pieces * length, "0")
    sign = F.when(F.startswith(number.cast("string"), F.lit("-")), F.lit(-1)).otherwise(F.lit(1))
    starts = [at * length + 1 for at in reversed(range(pieces))]
    return [F.substring(text, start, length).cast("bigint") * sign for start in starts]


def sums_of(
    name: str, number: Column, kind: Type, count: Column, squares: bool
) -> dict[str, Column]:
    """What is to be summed: limbs, and if wanted their products, each times the count."""
    times = count.cast(WHOLE)
    limbs = [limb.cast(WHOLE) for limb in limbs_of(number, kind, squares)]
    found = {f"{name}_{at}": limb * times for at, limb in enumerate(limbs)}
    if squares:
        for at, limb in enumerate(limbs):
            for other in range(at, len(limbs)):
                found[f"{name}_{at}_{other}"] = (limb * limbs[other]).cast("decimal(38,0)") * times
    return found


def put_together(sums: Mapping[str, Any], name: str, kind: Type, squares: bool) -> tuple[int, int]:
    """The sum, and that of the squares, in units, out of such sums; NULL where nothing was."""
    base, total, squared = base_of(kind, squares), 0, 0
    for key, value in sums.items():
        if value is None or not key.startswith(f"{name}_"):
            continue
        at = [int(part) for part in key.removeprefix(f"{name}_").split("_")]
        if len(at) == 1:
            total += int(value) * base ** at[0]
        else:
            twice = 2 if at[0] != at[1] else 1
            squared += twice * int(value) * base ** sum(at)
    return total, squared


def put_bins_together(
    bins: Sequence[Mapping[str, Any]], name: str, squares: bool
) -> tuple[int, int]:
    """The same of floats, out of the sums of each `bin`."""
    total = squared = 0
    for sums in bins:
        if sums["bin"] is not None:
            shift = sums["bin"] * _BIN + FLOAT_UNIT_EXPONENT
            one, two = put_together(sums, name, FLOAT, squares)
            total, squared = total + (one << shift), squared + (two << 2 * shift)
    return total, squared
