"""Sums of groups, stored instead of their rows.

A sum is a count. Of a part that feeds additive aggregates only, each group has a row whose count is
the number of its rows, and beside it rows whose counts are sums: a number is written with digits
of 24 bits, `_sum` says which sum a row belongs to and `_bin` at which place its digit stands. So
what is stored is a signed multiset as ever, and linear in the relations: commits append what a
change adds and read nothing, in every order, and what is deleted leaves nothing behind. Counts stay
far inside 64 bits, whatever the sums are.

A float is a whole number of tiny units (`moments`), of which three or four digits are not zero. NaN
and the infinities have bins of their own. A row on which an argument fails is counted as well: it
is an error only if one is left when the sums are looked at.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from headwater.algebra.aggregates import Aggregate, from_moments
from headwater.algebra.expressions import Expression, compile_expression
from headwater.algebra.grouping import Group, key_reader, told_of
from headwater.algebra.moments import FINISH, Moments, units_of
from headwater.algebra.schema import Schema
from headwater.algebra.values import INT, NAN, Row, Type, Value
from headwater.errors import ExpressionError

SUM = "_sum"
BIN = "_bin"
COLUMNS = ((SUM, INT), (BIN, INT))
"""The stored columns that tell sums apart, NULL in the row that counts a group's rows."""

_DIGIT = 24
_SPECIAL: dict[int | None, float] = {-1: NAN, -2: math.inf, -3: -math.inf}
_BIN_OF_SPECIAL = {"nan": -1, "inf": -2, "-inf": -3}

Weights: TypeAlias = Sequence[tuple[int, int]]
"""What one value adds to a sum: at which places, and how much."""
_ONE: Weights = ((0, 1),)
_NOTHING: Weights = ()


@dataclass(frozen=True)
class Slot:
    """One sum: a measure of an argument, over the rows for which a condition is true."""

    measure: str
    argument: Expression | None = None
    condition: Expression | None = None


def slots_of(aggregate: Aggregate) -> tuple[Slot, ...] | None:
    """The sums that tell an aggregate; None if sums do not."""
    measures = _MEASURES_OF.get(aggregate.function)
    if measures is None or aggregate.distinct:
        return None
    argument = aggregate.arguments[0] if aggregate.arguments else None
    return tuple(Slot(measure, argument, aggregate.condition) for measure in measures)


def digits_of(number: int) -> Weights:
    """The digits of a whole number that are not zero, with their places; all have its sign."""
    sign, left = (1, number) if number >= 0 else (-1, -number)
    place = ((left & -left).bit_length() - 1) // _DIGIT if left else 0
    left >>= place * _DIGIT
    found = []
    while left:
        if digit := left & ((1 << _DIGIT) - 1):
            found.append((place, sign * digit))
        left >>= _DIGIT
        place += 1
    return found


def _number(value: Any, kind: Type) -> Weights:
    return _ONE


def _true(value: Any, kind: Type) -> Weights:
    return _ONE if value is True else _NOTHING


def _total(value: Any, kind: Type) -> Weights:
    if isinstance(value, float) and not math.isfinite(value):
        return ((_BIN_OF_SPECIAL[str(value)], 1),)
    return digits_of(units_of(value, kind))


def _square(value: Any, kind: Type) -> Weights:
    if isinstance(value, float) and not math.isfinite(value):
        return _NOTHING
    return digits_of(units_of(value, kind) ** 2)


_MEASURES: Mapping[str, Callable[[Any, Type], Weights]] = {
    "number": _number,
    "true": _true,
    "total": _total,
    "square": _square,
}
_MEASURES_OF: Mapping[str, tuple[str, ...]] = {
    "count(*)": ("number",),
    "count": ("number",),
    "count_if": ("true",),
    "bool_and": ("number", "true"),
    "bool_or": ("number", "true"),
    "sum": ("number", "total"),
    "avg": ("number", "total"),
    **dict.fromkeys(
        ("deviations", "var_pop", "var_samp", "stddev_pop", "stddev_samp"),
        ("number", "total", "square"),
    ),
}

Weigh: TypeAlias = Callable[[Row], Iterable[tuple[int, int, int]]]


def weighing(slots: Mapping[int, Slot], schema: Schema) -> Weigh:
    """What a row adds to sums: to which, at which place, and how much.

    Slots with the same argument and condition are taken together: each is evaluated once.
    """
    together: dict[tuple[Expression | None, Expression | None], dict[int, Slot]] = {}
    for number, slot in slots.items():
        together.setdefault((slot.argument, slot.condition), {})[number] = slot
    groups = [_weighing_alike(alike, schema) for alike in together.values()]
    return (
        groups[0] if len(groups) == 1 else lambda row: [w for weigh in groups for w in weigh(row)]
    )


def _weighing_alike(slots: Mapping[int, Slot], schema: Schema) -> Weigh:
    one = next(iter(slots.values()))
    argument, condition = (
        compile_expression(expression, schema) if expression is not None else None
        for expression in (one.argument, one.condition)
    )
    kind = one.argument.type if one.argument is not None else INT
    measures = [(number, _MEASURES[slot.measure]) for number, slot in slots.items()]
    failing = [(failures_of(number), 0, 1) for number in slots]
    single = [(number, 0, 1) for number in slots]

    def weigh(row: Row) -> Iterable[tuple[int, int, int]]:
        try:
            if condition is not None and condition(row) is not True:
                return ()
            if argument is None:
                return single
            value = argument(row)
        except ExpressionError:
            return failing
        if value is None:
            return ()
        return [
            (number, place, weight)
            for number, measure in measures
            for place, weight in measure(value, kind)
        ]

    return weigh


# From sums to aggregates

Sums: TypeAlias = Mapping[int | None, Mapping[int | None, int]]
"""Of one group: by sum and by bin the count; under None the number of its rows."""


@dataclass(frozen=True)
class SummedAggregate:
    """An aggregate, and the numbers of the sums that tell it, in the order of `slots_of`."""

    aggregate: Aggregate
    slots: tuple[int | None, ...]

    def value(self, sums: Sums, group: Group) -> Value:
        """Its value; an ExpressionError that names it where it has none."""
        return told_of(self.aggregate, lambda: self._value(sums), group)

    def _value(self, sums: Sums) -> Value:
        for slot in self.slots:
            if slot is not None and (failing := sum(sums.get(failures_of(slot), {}).values())):
                rows = "one row" if failing == 1 else f"{failing} rows"
                raise ValueError(f"it cannot be computed for {rows} of its group")
        found = [sums.get(slot, {}) for slot in self.slots]
        number = sum(found[0].values())
        match self.aggregate.function:
            case "count(*)" | "count" | "count_if":
                return number
            case "bool_and":
                return sum(found[1].values()) == number if number else None
            case "bool_or":
                return sum(found[1].values()) > 0 if number else None
        assert self.aggregate.function in FINISH
        special = sum((_SPECIAL.get(at, 0.0) for at, n in found[1].items() if n), 0.0)
        squares = _put_together(found[2]) if len(found) > 2 else 0
        return from_moments(
            self.aggregate, Moments(number, _put_together(found[1]), squares, special)
        )


def failures_of(slot: int) -> int:
    """The sum that counts the rows for which a sum's expressions fail."""
    return -slot


def _put_together(digits: Mapping[int | None, int]) -> int:
    return sum(n << (at * _DIGIT) for at, n in digits.items() if at is not None and at >= 0)


def summed(
    rows: Iterable[tuple[Row, int]],
    schema: Schema,
    keys: Sequence[str],
    aggregates: Sequence[SummedAggregate],
    *,
    always: bool,
) -> Iterator[Row]:
    """For each key of stored sums: the key, then its aggregates."""
    key, where = key_reader(schema, keys), key_reader(schema, (SUM, BIN))
    groups: dict[Row, dict[Any, dict[Any, int]]] = {}
    if always and not keys:
        groups[()] = defaultdict(dict)
    for row, count in rows:
        slot, place = where(row)
        known = groups.setdefault(key(row), defaultdict(dict))
        known[slot][place] = known[slot].get(place, 0) + count
    for found, sums in groups.items():
        if is_there(sums) or (always and not keys):
            group = Group(keys, found)
            yield found + tuple(one.value(sums, group) for one in aggregates)


def is_there(sums: Sums) -> bool:
    """Whether a group has rows."""
    return sum(sums.get(None, {}).values()) > 0
