"""What lies in pairs of numbers and in the shape of many: covariance, regression, skewness.

Separate from sums of single numbers because these need sums of products. All are computed from
exact sums and rounded once, as those are (`moments`).

Choices: as in Spark, pairs on a vertical line have no slope, those on a horizontal one are told
wholly by it, and neither has a correlation. With NaN or an infinity among the numbers, what looks
at them is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from headwater.algebra.moments import quotient, root, units_of, units_per_one
from headwater.algebra.values import NAN, Row, Type, Value


@dataclass(frozen=True)
class Pairs:
    """Sums over pairs of numbers, y and x, in units; those of x and y are sums of squares, too."""

    number: int
    x: int
    y: int
    xx: int
    yy: int
    xy: int
    units_of_x: int
    units_of_y: int
    is_x_special: bool
    is_y_special: bool

    @property
    def is_special(self) -> bool:
        """Whether some number of a pair has no number of units."""
        return self.is_x_special or self.is_y_special

    @property
    def spread_of_x(self) -> int:
        return self.number * self.xx - self.x**2

    @property
    def spread_of_y(self) -> int:
        return self.number * self.yy - self.y**2

    @property
    def common_spread(self) -> int:
        return self.number * self.xy - self.x * self.y

    @property
    def is_vertical(self) -> bool:
        return not self.is_x_special and not self.spread_of_x

    @property
    def is_horizontal(self) -> bool:
        return not self.is_y_special and not self.spread_of_y


def pairs_of(counted: Iterable[tuple[Row, int]], kinds: tuple[Type, Type]) -> Pairs:
    """The sums of pairs, of which no part is NULL: first y, then x."""
    number = x = y = xx = yy = xy = 0
    is_x_special = is_y_special = False
    for (b, a), count in counted:
        number += count
        is_x_special |= _is_special(a)
        is_y_special |= _is_special(b)
        u = 0 if _is_special(a) else units_of(a, kinds[1])
        v = 0 if _is_special(b) else units_of(b, kinds[0])
        x, y, xy = x + u * count, y + v * count, xy + u * v * count
        xx, yy = xx + u * u * count, yy + v * v * count
    units = units_per_one(kinds[1]), units_per_one(kinds[0])
    return Pairs(number, x, y, xx, yy, xy, *units, is_x_special, is_y_special)


def _is_special(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _covariance(sample: bool) -> Callable[[Pairs], Value]:
    def covariance(pairs: Pairs) -> Value:
        if pairs.number <= sample:
            return None
        parts = pairs.number * (pairs.number - sample) * pairs.units_of_x * pairs.units_of_y
        return NAN if pairs.is_special else quotient(pairs.common_spread, parts)

    return covariance


def _common_deviations(pairs: Pairs) -> Value:
    if not pairs.number:
        return None
    parts = pairs.number * pairs.units_of_x * pairs.units_of_y
    return NAN if pairs.is_special else quotient(pairs.common_spread, parts)


def _slope(pairs: Pairs) -> Value:
    if not pairs.number or pairs.is_vertical:
        return None
    if pairs.is_special:
        return NAN
    return quotient(pairs.common_spread * pairs.units_of_x, pairs.spread_of_x * pairs.units_of_y)


def _intercept(pairs: Pairs) -> Value:
    if not pairs.number or pairs.is_vertical:
        return None
    if pairs.is_special:
        return NAN
    return quotient(pairs.y * pairs.xx - pairs.x * pairs.xy, pairs.spread_of_x * pairs.units_of_y)


def _determination(pairs: Pairs) -> Value:
    """The share of what y varies that the line tells."""
    if not pairs.number or pairs.is_vertical:
        return None
    if pairs.is_horizontal:
        return 1.0
    if pairs.is_special:
        return NAN
    return quotient(pairs.common_spread**2, pairs.spread_of_x * pairs.spread_of_y)


def _correlation(pairs: Pairs) -> Value:
    if pairs.number < 2 or (not pairs.is_special and (pairs.is_vertical or pairs.is_horizontal)):
        return None
    if pairs.is_special:
        return NAN
    found = root(pairs.common_spread**2, pairs.spread_of_x * pairs.spread_of_y)
    return -found if pairs.common_spread < 0 else found


OF_PAIRS: dict[str, Callable[[Pairs], Value]] = {
    "covar_pop": _covariance(sample=False),
    "covar_samp": _covariance(sample=True),
    "corr": _correlation,
    "regr_sxy": _common_deviations,
    "regr_slope": _slope,
    "regr_intercept": _intercept,
    "regr_r2": _determination,
}
"""The aggregates of two numbers, y and x."""


# Of one number


def _powers(counted: Iterable[tuple[Row, int]], kind: Type) -> list[int] | None:
    """The sums of the powers from 0 to 4; None if some number has no number of units."""
    sums = [0] * 5
    for (value,), count in counted:
        if _is_special(value):
            return None
        power, units = count, units_of(value, kind)
        for at in range(5):
            sums[at] += power
            power *= units
    return sums


def skewness(counted: Iterable[tuple[Row, int]], kind: Type) -> Value:
    """The third moment about the average, in units of the deviation."""
    sums = _powers(counted, kind)
    if sums is None:
        return NAN
    n, s, ss, sss, _ = sums
    spread = n * ss - s * s
    third = n * n * sss - 3 * n * s * ss + 2 * s**3
    if not spread:
        return None
    found = root(third**2, spread**3)
    return -found if third < 0 else found


def kurtosis(counted: Iterable[tuple[Row, int]], kind: Type) -> Value:
    """The fourth moment about the average, in units of the deviation, less that of a bell curve."""
    sums = _powers(counted, kind)
    if sums is None:
        return NAN
    n, s, ss, sss, ssss = sums
    spread = n * ss - s * s
    fourth = n**3 * ssss - 4 * n * n * s * sss + 6 * n * s * s * ss - 3 * s**4
    return quotient(fourth - 3 * spread**2, spread**2) if spread else None
