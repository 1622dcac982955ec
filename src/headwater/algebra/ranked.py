"""Aggregates that look at values in their order: percentiles, the mode, lists and texts.

Separate from sums, which do not. A value that counts n times is n values here. The order of a
list is completed by the values themselves, so that the result depends on the multiset alone.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from headwater.algebra.order import sorting_key
from headwater.algebra.values import Row, Value, canonical_float, sort_key

Counted = Sequence[tuple[Row, int]]


def percentile(counted: Counted, fraction: float, *, descending: bool, discrete: bool) -> Value:
    """The value below which this part of the numbers lies.

    Spark's arithmetic: between two values in the proportion of the distances or, if `discrete`,
    the first value whose share of the rows up to it reaches the fraction.
    """
    if not counted:
        return None
    if discrete:
        value = first_from(counted, fraction, descending=descending)
        return canonical_float(float(value))  # type: ignore[arg-type]
    number, value_at = _placed(counted, descending=descending)

    def at(place: int) -> float:
        return float(value_at(place))  # type: ignore[arg-type]

    position = (number - 1) * fraction
    lower, higher = math.floor(position), math.ceil(position)
    if lower == higher or at(lower) == at(higher):
        return canonical_float(at(lower))
    return canonical_float(at(lower) + (at(higher) - at(lower)) * (position - lower))


def first_from(counted: Counted, fraction: float, *, descending: bool = False) -> Value:
    """The first value whose share of the rows up to it reaches the fraction."""
    number, value_at = _placed(counted, descending=descending)
    return value_at(max(math.ceil(number * fraction) - 1, 0))


def _placed(counted: Counted, *, descending: bool) -> tuple[int, Callable[[int], Value]]:
    """How many values there are, and which is at a place in their order, counted from 0."""
    ordered = sorted(counted, key=lambda item: sort_key(item[0][:1]), reverse=descending)
    up_to = list(accumulate(count for _, count in ordered))
    return up_to[-1], lambda place: ordered[bisect_left(up_to, place + 1)][0][0]


def mode(counted: Counted, *, descending: bool) -> Value:
    """The most frequent value; of several the least one, or the greatest."""
    if not counted:
        return None
    most = max(count for _, count in counted)
    first = max if descending else min
    return first((row for row, count in counted if count == most), key=sort_key)[0]


def listed(counted: Counted, order: Sequence[tuple[bool, bool]], width: int = 1) -> list[Row]:
    """The rows, each as often as it counts, in the order of what follows the arguments in them.

    `order` says for each of these values whether it descends, and whether NULL comes last; `width`
    is the number of arguments.
    """

    key = _place(order, width)
    return [row for row, count in sorted(counted, key=key) for _ in range(count)]


def at_end(counted: Counted, order: Sequence[tuple[bool, bool]], *, last: bool) -> Value:
    """The argument of the first or the last row in that order; NULL if there is none."""
    if not counted:
        return None
    return (max if last else min)(counted, key=_place(order, 1))[0][0]


def _place(order: Sequence[tuple[bool, bool]], width: int) -> Callable[[tuple[Row, int]], Any]:
    def key(item: tuple[Row, int]) -> Any:
        row, _ = item
        pairs = zip(row[width:], order, strict=True)
        return [sorting_key(value, *how) for value, how in pairs], sort_key(row[:width])

    return key
