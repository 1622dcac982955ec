"""Exact sums of numbers, and what is made of them: sums, averages, variances.

A sum is a whole number of units, and the unit is small enough for every value of a type: 1 for
integers, the last decimal place for decimals, and for floats a power of two below the least float.
So sums of sums are exact in every order, and what is deleted leaves nothing behind; only the result
is rounded, once. NaN and the infinities have no number of units and are summed apart.

Separate from the table of aggregates because an engine that has the sums needs only the end.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, TypeAlias

from headwater.algebra.values import (
    FLOAT,
    INT,
    INT_MAX,
    INT_MIN,
    NAN,
    Row,
    Type,
    Value,
    canonical_decimal,
    canonical_float,
)

FLOAT_UNIT_EXPONENT = 1088
"""Floats are sums of units of 2 to the power of minus this; the least one is 2 ** -1074."""
_WIDE = Context(prec=200)
_ROOT_BITS = 64


@dataclass(frozen=True)
class Moments:
    """What is known of a multiset of numbers by adding alone."""

    number: int
    """How many there are, special ones included."""
    total: int
    """The sum, in units."""
    squares: int
    """The sum of the squares, in squares of units, where it is wanted."""
    special: float
    """The sum of NaN and the infinities; 0 if there are none."""


def units_per_one(kind: Type) -> int:
    """How many units make 1 for numbers of this type."""
    if kind == FLOAT:
        return 1 << FLOAT_UNIT_EXPONENT
    return int(10**kind.scale)


def units_of(value: Any, kind: Type) -> int:
    """A finite number in units."""
    if isinstance(value, float):
        numerator, denominator = value.as_integer_ratio()
        return numerator << (FLOAT_UNIT_EXPONENT + 1 - denominator.bit_length())
    return int(value.scaleb(kind.scale, _WIDE)) if isinstance(value, Decimal) else int(value)


def moments_of(counted: Iterable[tuple[Row, int]], kind: Type, *, squares: bool = False) -> Moments:
    """The moments of numbers of one type with their counts."""
    running = RunningMoments(kind, squares=squares)
    for (value,), count in counted:
        running.change(value, count)
    return running.moments


Finish: TypeAlias = Callable[[Moments, Type, Type], Value]
"""From moments, the type of the numbers and that of the result to the result."""


def sum_of(moments: Moments, kind: Type, result: Type) -> Value:
    if not moments.number:
        return None
    if result == FLOAT:
        return quotient(moments.total, units_per_one(kind), moments.special)
    if result == INT:
        if not INT_MIN <= moments.total <= INT_MAX:
            raise OverflowError("the sum is outside the range of int (64 bits)")
        return moments.total
    return canonical_decimal(Decimal(moments.total).scaleb(-result.scale, _WIDE), result)


def average_of(moments: Moments, kind: Type, result: Type) -> Value:
    if not moments.number:
        return None
    parts = moments.number * units_per_one(kind)
    if result == FLOAT:
        return quotient(moments.total, parts, moments.special)
    return canonical_decimal(_WIDE.divide(Decimal(moments.total), Decimal(parts)), result)


def _deviations(moments: Moments, kind: Type, result: Type) -> Value:
    """The sum of the squares of what lies between the numbers and their average."""
    if not moments.number:
        return None
    if moments.special != 0.0:
        return NAN
    spread = moments.squares * moments.number - moments.total**2
    return quotient(spread, moments.number * units_per_one(kind) ** 2)


def _variance(sample: bool, is_root: bool) -> Finish:
    def variance_of(moments: Moments, kind: Type, result: Type) -> Value:
        number = moments.number
        if number <= sample:
            return None
        if moments.special != 0.0:
            return NAN
        spread = moments.squares * number - moments.total**2
        parts = number * (number - sample) * units_per_one(kind) ** 2
        return root(spread, parts) if is_root else quotient(spread, parts)

    return variance_of


def quotient(total: int, parts: int, special: float = 0.0) -> float:
    """The float nearest to the exact quotient; dividing whole numbers rounds once."""
    if special != 0.0:
        return canonical_float(special)
    try:
        return canonical_float(total / parts)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def root(total: int, parts: int) -> float:
    """The float nearest to the exact root of a quotient, which itself may be too large for one.

    Its whole part has more bits than a float, once the quotient is shifted far enough; the lowest
    bit is set if there is more, so that rounding does not take it for the middle of two floats.
    """
    shift = max(0, _ROOT_BITS - (total.bit_length() - parts.bit_length()) // 2)
    whole, rest = divmod(total << 2 * shift, parts)
    found = math.isqrt(whole)
    inexact = bool(rest) or found * found != whole
    return quotient(found | inexact, 1 << shift)


FINISH: dict[str, Finish] = {
    "sum": sum_of,
    "avg": average_of,
    "deviations": _deviations,
    "var_pop": _variance(sample=False, is_root=False),
    "var_samp": _variance(sample=True, is_root=False),
    "stddev_pop": _variance(sample=False, is_root=True),
    "stddev_samp": _variance(sample=True, is_root=True),
}
"""The aggregates that moments tell."""


def with_squares(function: str) -> bool:
    """Whether it needs the sum of the squares."""
    return function not in ("sum", "avg")


class RunningMoments:
    """Moments of numbers that come and go: what goes leaves nothing behind."""

    def __init__(self, kind: Type, *, squares: bool) -> None:
        self._kind = kind
        self._squares = squares
        self._number = self._total = self._squared = 0
        self._special: Counter[float] = Counter()

    def change(self, value: Value, count: int) -> None:
        if value is None:
            return
        self._number += count
        if isinstance(value, float) and not math.isfinite(value):
            self._special[canonical_float(value)] += count
            return
        units = units_of(value, self._kind)
        self._total += units * count
        self._squared += units * units * count if self._squares else 0

    @property
    def moments(self) -> Moments:
        special = sum((value for value, count in self._special.items() if count), 0.0)
        return Moments(self._number, self._total, self._squared, special)
