"""Aggregate functions over a multiset of values: Spark SQL's meaning, and exact.

One table from a function's name to how it is typed and what it makes of the values of a group. An
aggregate sees each value with its count, so that it depends on the multiset alone: sums of floats
are exact and rounded once, whatever order rows come in, and what is deleted leaves nothing behind.
NaN and the infinities are counted apart. Only the result is checked for its range.

Choices: where Spark's answer depends on the order of rows (ANY_VALUE), it is the least one.
Averages of integers and variances are rounded once from the exact value, where Spark adds floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, TypeAlias

from headwater.algebra.expressions import Expression, columns_of, show_expression
from headwater.algebra.values import (
    BOOL,
    FLOAT,
    INT,
    INT_MAX,
    INT_MIN,
    MAX_DECIMAL_DIGITS,
    NAN,
    VOID,
    Row,
    Type,
    Value,
    canonical_decimal,
    canonical_float,
    decimal_type,
    sort_key,
)

Counted: TypeAlias = Iterable[tuple[Row, int]]
"""The arguments of an aggregate on each row, with how often they occur."""


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of a query; `condition` is its FILTER."""

    function: str
    arguments: tuple[Expression, ...]
    type: Type
    distinct: bool = False
    condition: Expression | None = None

    @property
    def columns(self) -> frozenset[str]:
        expressions = [*self.arguments, *([self.condition] if self.condition else [])]
        return frozenset().union(*map(columns_of, expressions))

    def __str__(self) -> str:
        inner = ", ".join(map(show_expression, self.arguments)) or "*"
        distinct = "DISTINCT " if self.distinct else ""
        condition = f" FILTER (WHERE {show_expression(self.condition)})" if self.condition else ""
        return f"{self.function.upper()}({distinct}{inner}){condition}"


def aggregate(
    function: str,
    *arguments: Expression,
    distinct: bool = False,
    condition: Expression | None = None,
) -> Aggregate:
    """The typed aggregate; ValueError says why these arguments do not fit."""
    rule = FUNCTIONS[function]
    if len(arguments) != rule.arguments:
        needed = "no argument" if not rule.arguments else f"{rule.arguments} argument(s)"
        raise ValueError(f"{function.upper()} takes {needed}")
    kind = rule.typed(function, tuple(argument.type for argument in arguments))
    return Aggregate(function, arguments, kind, distinct, condition)


def aggregated(function: Aggregate, counted: Counted) -> Value:
    """The aggregate of arguments with positive counts; those with a NULL among them do not count.

    Raises ArithmeticError or ValueError in words where the result has no value of its type.
    """
    rule = FUNCTIONS[function.function]
    if not rule.sees_nulls:
        counted = [(row, count) for row, count in counted if None not in row]
    if function.distinct:
        counted = [(row, 1) for row, _ in counted]
    return rule.compute(list(counted), function)


# Typing


def _numeric(function: str, kinds: Sequence[Type]) -> Type:
    (kind,) = kinds
    if not (kind.is_numeric or kind == VOID):
        raise ValueError(f"{function.upper()} needs a number, not {kind}")
    return INT if kind == VOID else kind


def _sum_type(function: str, kinds: Sequence[Type]) -> Type:
    kind = _numeric(function, kinds)
    if kind.name != "decimal":
        return kind
    return decimal_type(min(MAX_DECIMAL_DIGITS, kind.precision + 10), kind.scale)


def _avg_type(function: str, kinds: Sequence[Type]) -> Type:
    kind = _numeric(function, kinds)
    if kind.name != "decimal":
        return FLOAT
    precision, scale = kind.precision + 4, kind.scale + 4
    if precision <= MAX_DECIMAL_DIGITS:
        return decimal_type(precision, scale)
    kept = max(MAX_DECIMAL_DIGITS - (precision - scale), min(scale, 6))
    return decimal_type(MAX_DECIMAL_DIGITS, kept)


def _float_type(function: str, kinds: Sequence[Type]) -> Type:
    _numeric(function, kinds)
    return FLOAT


def _same(function: str, kinds: Sequence[Type]) -> Type:
    return kinds[0]


def _always(result: Type) -> Callable[[str, Sequence[Type]], Type]:
    return lambda function, kinds: result


def _bool(function: str, kinds: Sequence[Type]) -> Type:
    if kinds[0] not in (BOOL, VOID):
        raise ValueError(f"{function.upper()} needs bool, not {kinds[0]}")
    return BOOL


# Computing


def _count(counted: list[tuple[Row, int]], function: Aggregate) -> Value:
    return sum(count for _, count in counted)


def _count_if(counted: list[tuple[Row, int]], function: Aggregate) -> Value:
    return sum(count for (value,), count in counted if value is True)


def _sum(counted: list[tuple[Row, int]], function: Aggregate) -> Value:
    if not counted:
        return None
    if function.type == FLOAT:
        return _rounded(*_total(counted))
    exact: Any = sum(_scaled(value, function.type) * count for (value,), count in counted)
    if function.type == INT:
        if not INT_MIN <= exact <= INT_MAX:
            raise OverflowError("the sum is outside the range of int (64 bits)")
        return int(exact)
    return canonical_decimal(Decimal(exact).scaleb(-function.type.scale, _WIDE), function.type)


_WIDE = Context(prec=200)


def _scaled(value: Any, kind: Type) -> int:
    """A whole or decimal number in units of the last decimal place of `kind`."""
    return int(value.scaleb(kind.scale, _WIDE)) if isinstance(value, Decimal) else int(value)


def _total(counted: list[tuple[Row, int]]) -> tuple[Fraction, float]:
    """The exact sum of the finite numbers, and that of NaN and the infinities."""
    total, special = Fraction(0), 0.0
    for (value,), count in counted:
        number: Any = value
        if isinstance(number, float) and not math.isfinite(number):
            special += number
        else:
            total += Fraction(number) * count
    return total, special


def _rounded(total: Fraction, special: float) -> float:
    if special != 0.0:
        return canonical_float(special)
    try:
        return canonical_float(float(total))
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def _avg(counted: list[tuple[Row, int]], function: Aggregate) -> Value:
    if not counted:
        return None
    number = sum(count for _, count in counted)
    total, special = _total(counted)
    if function.type == FLOAT:
        return _rounded(total / number, special)
    mean = total / number
    quotient = _WIDE.divide(Decimal(mean.numerator), Decimal(mean.denominator))
    return canonical_decimal(quotient, function.type)


def _variance(sample: bool, root: bool) -> Callable[[list[tuple[Row, int]], Aggregate], Value]:
    def compute(counted: list[tuple[Row, int]], function: Aggregate) -> Value:
        number = sum(count for _, count in counted)
        if number <= sample:
            return None
        total, special = _total(counted)
        if special != 0.0:
            return NAN
        squares = sum((Fraction(value) ** 2 * count for (value,), count in counted), Fraction(0))  # type: ignore[arg-type]
        spread = (squares - total * total / number) / (number - sample)
        variance = _rounded(spread, 0.0)
        return canonical_float(math.sqrt(variance)) if root else variance

    return compute


def _extreme(greatest: bool) -> Callable[[list[tuple[Row, int]], Aggregate], Value]:
    def compute(counted: list[tuple[Row, int]], function: Aggregate) -> Value:
        if not counted:
            return None
        return (max if greatest else min)((row for row, _ in counted), key=sort_key)[0]

    return compute


def _extreme_by(greatest: bool) -> Callable[[list[tuple[Row, int]], Aggregate], Value]:
    """The first argument where the second is extreme; of several the least one, NULL first."""

    def compute(counted: list[tuple[Row, int]], function: Aggregate) -> Value:
        rows = [row for row, _ in counted if row[1] is not None]
        if not rows:
            return None
        best = (max if greatest else min)(sort_key(row[1:]) for row in rows)
        return min((row for row in rows if sort_key(row[1:]) == best), key=sort_key)[0]

    return compute


def _all(counted: list[tuple[Row, int]], function: Aggregate) -> Value:
    return all(value for (value,), _ in counted) if counted else None


def _any(counted: list[tuple[Row, int]], function: Aggregate) -> Value:
    return any(value for (value,), _ in counted) if counted else None


def _single(counted: list[tuple[Row, int]], function: Aggregate) -> Value:
    """The one value that there is: what a scalar subquery gives."""
    if sum(count for _, count in counted) > 1:
        raise ValueError("a subquery that stands for one value has more than one row")
    return counted[0][0][0] if counted else None


@dataclass(frozen=True)
class Function:
    """How an aggregate function is typed and computed."""

    typed: Callable[[str, Sequence[Type]], Type]
    compute: Callable[[list[tuple[Row, int]], Aggregate], Value]
    arguments: int = 1
    sees_nulls: bool = False
    additive: bool = False
    """Whether it can be told from sums over the rows of a group."""


FUNCTIONS: dict[str, Function] = {
    "count(*)": Function(_always(INT), _count, arguments=0, additive=True),
    "count": Function(_always(INT), _count, additive=True),
    "count_if": Function(_always(INT), _count_if, additive=True),
    "sum": Function(_sum_type, _sum, additive=True),
    "avg": Function(_avg_type, _avg, additive=True),
    "min": Function(_same, _extreme(greatest=False)),
    "max": Function(_same, _extreme(greatest=True)),
    "any_value": Function(_same, _extreme(greatest=False)),
    "min_by": Function(_same, _extreme_by(greatest=False), arguments=2, sees_nulls=True),
    "max_by": Function(_same, _extreme_by(greatest=True), arguments=2, sees_nulls=True),
    "bool_and": Function(_bool, _all, additive=True),
    "bool_or": Function(_bool, _any, additive=True),
    "var_pop": Function(_float_type, _variance(sample=False, root=False), additive=True),
    "var_samp": Function(_float_type, _variance(sample=True, root=False), additive=True),
    "stddev_pop": Function(_float_type, _variance(sample=False, root=True), additive=True),
    "stddev_samp": Function(_float_type, _variance(sample=True, root=True), additive=True),
    "single": Function(_same, _single, sees_nulls=True),
}
