"""Aggregate functions over a multiset of values: Spark SQL's meaning, and exact.

One table from a function's name to how it is typed and what it makes of the values of a group. An
aggregate sees each value with its count, so that it depends on the multiset alone: sums of floats
are exact and rounded once, whatever order rows come in, and what is deleted leaves nothing behind.
NaN and the infinities are counted apart. Only the result is checked for its range.

Choices: where Spark's answer depends on the order of rows (ANY_VALUE, MODE, FIRST), it is the least
one, and for LAST the greatest.
Averages of integers and variances are rounded once from the exact value, where Spark adds floats.
APPROX_PERCENTILE is exact, which is within any accuracy that is asked for: Spark gives the same
while its sample holds all values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce
from operator import and_, or_, xor
from typing import Any, TypeAlias

from headwater.algebra.expressions import (
    Call,
    Expression,
    Literal,
    columns_of,
    show_expression,
    substituted,
)
from headwater.algebra.moments import FINISH, Moments, moments_of, with_squares
from headwater.algebra.ranked import at_end, first_from, listed, mode, percentile
from headwater.algebra.shapes import OF_PAIRS, kurtosis, pairs_of, skewness
from headwater.algebra.values import (
    BOOL,
    FLOAT,
    INT,
    MAX_DECIMAL_DIGITS,
    TEXT,
    VOID,
    Row,
    Type,
    Value,
    array_type,
    decimal_type,
    show,
    sort_key,
)

Counted: TypeAlias = Iterable[tuple[Row, int]]
"""The arguments of an aggregate on each row, with how often they occur."""


@dataclass(frozen=True)
class Sorting:
    """One expression of an ORDER BY inside an aggregate, or of WITHIN GROUP."""

    expression: Expression
    descending: bool = False
    nulls_last: bool = False

    def __str__(self) -> str:
        return show_expression(self.expression) + (" DESC" if self.descending else "")


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of a query; `condition` is its FILTER."""

    function: str
    arguments: tuple[Expression, ...]
    type: Type
    distinct: bool = False
    condition: Expression | None = None
    order: tuple[Sorting, ...] = ()

    @property
    def inputs(self) -> tuple[Expression, ...]:
        """What is computed of each row: the arguments, then what they are ordered by."""
        return (*self.arguments, *(one.expression for one in self.order))

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All that is evaluated on each row."""
        return (*self.inputs, *([self.condition] if self.condition else []))

    @property
    def columns(self) -> frozenset[str]:
        return frozenset().union(*map(columns_of, self.expressions))

    def over(self, meanings: Mapping[str, Expression]) -> Aggregate:
        """The same aggregate, with these expressions in the place of its columns."""
        condition = self.condition
        return replace(
            self,
            arguments=tuple(substituted(argument, meanings) for argument in self.arguments),
            condition=None if condition is None else substituted(condition, meanings),
            order=tuple(
                replace(one, expression=substituted(one.expression, meanings)) for one in self.order
            ),
        )

    def __str__(self) -> str:
        inner = ", ".join(map(show_expression, self.arguments)) or "*"
        inner += f" ORDER BY {', '.join(map(str, self.order))}" if self.order else ""
        distinct = "DISTINCT " if self.distinct else ""
        condition = f" FILTER (WHERE {show_expression(self.condition)})" if self.condition else ""
        if self.function == "single":
            return f"(SELECT {inner} ...)"
        name = self.function.removesuffix("(*)").upper()
        return f"{name}({distinct}{inner}){condition}"


def aggregate(
    function: str,
    *arguments: Expression,
    distinct: bool = False,
    condition: Expression | None = None,
    order: Sequence[Sorting] = (),
) -> Aggregate:
    """The typed aggregate; ValueError says why these arguments do not fit."""
    rule = FUNCTIONS[function]
    if len(arguments) != rule.arguments:
        needed = "no argument" if not rule.arguments else f"{rule.arguments} argument(s)"
        raise ValueError(f"{function.upper()} takes {needed}")
    kind = rule.typed(function, tuple(argument.type for argument in arguments))
    found = Aggregate(function, arguments, kind, distinct, condition, tuple(order))
    return rule.checked(found) if rule.checked else found


def aggregated(function: Aggregate, counted: Counted) -> Value:
    """The aggregate of inputs with positive counts; those with a NULL argument do not count.

    Raises ArithmeticError or ValueError in words where the result has no value of its type.
    """
    rule, width = FUNCTIONS[function.function], len(function.arguments)
    if not rule.sees_nulls:
        counted = [(row, count) for row, count in counted if None not in row[:width]]
    if function.distinct:
        counted = [(row, 1) for row, _ in counted]
    return rule.compute(list(counted), function)


# Typing


def _numeric(function: str, kinds: Sequence[Type]) -> Type:
    kind = kinds[0]
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
    for kind in kinds:
        _numeric(function, [kind])
    return FLOAT


def _percentile_type(function: str, kinds: Sequence[Type]) -> Type:
    """One of the values, or one for each percentage of an array."""
    kind, fraction = kinds
    if not (kind.is_numeric or kind.name in ("date", "timestamp", "timestamp_tz")):
        raise ValueError(f"{function.upper()} needs numbers, dates or timestamps, not {kind}")
    return array_type(kind) if fraction.name == "array" else kind


def _int_type(function: str, kinds: Sequence[Type]) -> Type:
    if kinds[0] not in (INT, VOID):
        raise ValueError(f"{function.upper()} needs int, not {kinds[0]}")
    return INT


def _text_type(function: str, kinds: Sequence[Type]) -> Type:
    for kind in kinds:
        if kind not in (TEXT, VOID):
            raise ValueError(f"{function.upper()} needs text, not {kind}")
    return TEXT


def _array_type(function: str, kinds: Sequence[Type]) -> Type:
    if kinds[0] == VOID:
        raise ValueError(f"{function.upper()} needs values with a type")
    return array_type(kinds[0])


def _same(function: str, kinds: Sequence[Type]) -> Type:
    return kinds[0]


def _always(result: Type) -> Callable[[str, Sequence[Type]], Type]:
    return lambda function, kinds: result


def _bool(function: str, kinds: Sequence[Type]) -> Type:
    if kinds[0] not in (BOOL, VOID):
        raise ValueError(f"{function.upper()} needs bool, not {kinds[0]}")
    return BOOL


def _count_type(function: str, kinds: Sequence[Type]) -> Type:
    _bool(function, kinds)
    return INT


# Checking


def _with_fraction(function: Aggregate) -> Aggregate:
    """The second argument says which percentile; one order may say the direction."""
    value, fraction = function.arguments
    if not isinstance(fraction, Literal):
        raise ValueError(f"{function.function.upper()} needs a number for its percentage")
    if fraction.value is not None and not 0 <= fraction.value <= 1:  # type: ignore[operator]
        raise ValueError(f"the percentage {show(fraction.value)} is not between 0 and 1")
    if any(one.expression != value for one in function.order):
        raise ValueError(f"{function.function.upper()} is ordered by its own argument only")
    if fraction.value is None:  # which makes every percentile NULL, since no row has one
        return replace(function, arguments=(value, Literal(None, FLOAT)))
    return function


def _with_fractions(function: Aggregate) -> Aggregate:
    """The second argument of APPROX_PERCENTILE is a percentage, or an array of them."""
    fractions = function.arguments[1]
    value = fractions.value if isinstance(fractions, Literal) else None
    several = value if isinstance(value, tuple) else (value,)
    if not several or not all(isinstance(one, int | float | Decimal) for one in several):
        raise ValueError(f"{function.function.upper()} needs a number for its percentage")
    for one in several:
        if not 0 <= one <= 1:  # type: ignore[operator]
            raise ValueError(f"the percentage {show(one)} is not between 0 and 1")
    return function


def _with_separator(function: Aggregate) -> Aggregate:
    text, separator = function.arguments
    _ordered_by_itself(function)
    if not isinstance(separator, Literal):  # each text has its own before it
        if function.distinct:
            raise ValueError("the separator of STRING_AGG(DISTINCT ...) is not a constant text")
        before = Call("coalesce", (separator, Literal("", TEXT)), TEXT)
        return replace(function, arguments=(text, before))
    return replace(function, arguments=(text, Literal(separator.value or "", TEXT)))


def _ordered_by_itself(function: Aggregate) -> Aggregate:
    """With DISTINCT, nothing else than the argument itself can say the order."""
    argument = function.arguments[0]
    if function.distinct and any(one.expression != argument for one in function.order):
        name = function.function.upper()
        raise ValueError(f"{name}(DISTINCT ...) is ordered by its own argument only")
    return function


# Computing


def _count(counted: list[tuple[Row, int]], function: Aggregate) -> Value:
    return sum(count for _, count in counted)


def _count_if(counted: list[tuple[Row, int]], function: Aggregate) -> Value:
    return sum(count for (value,), count in counted if value is True)


def _by_moments(counted: list[tuple[Row, int]], function: Aggregate) -> Value:
    kind, squares = function.arguments[0].type, with_squares(function.function)
    return from_moments(function, moments_of(counted, kind, squares=squares))


def from_moments(function: Aggregate, moments: Moments) -> Value:
    """One of the aggregates in `FINISH`."""
    return FINISH[function.function](moments, function.arguments[0].type, function.type)


def _of_pairs(counted: list[tuple[Row, int]], function: Aggregate) -> Value:
    first, second = function.arguments
    return OF_PAIRS[function.function](pairs_of(counted, (first.type, second.type)))


def _shape(counted: list[tuple[Row, int]], function: Aggregate) -> Value:
    of = skewness if function.function == "skewness" else kurtosis
    return of(counted, function.arguments[0].type)


def _bits(
    merge: Callable[[int, int], int], *, twice_is_none: bool = False
) -> Callable[[list[tuple[Row, int]], Aggregate], Value]:
    """All values merged bit by bit; for XOR those that are there twice leave nothing."""

    def compute(counted: list[tuple[Row, int]], function: Aggregate) -> Value:
        values: list[Any] = [value for (value,), n in counted if n % 2 or not twice_is_none]
        return reduce(merge, values) if values else (0 if counted else None)

    return compute


def _percentile(discrete: bool) -> Callable[[list[tuple[Row, int]], Aggregate], Value]:
    def compute(counted: list[tuple[Row, int]], function: Aggregate) -> Value:
        if not counted:
            return None
        fraction = float(_constant(function)) if len(function.arguments) > 1 else 0.5
        descending = any(one.descending for one in function.order)
        return percentile(counted, fraction, descending=descending, discrete=discrete)

    return compute


def _approx_percentile(counted: list[tuple[Row, int]], function: Aggregate) -> Value:
    if not counted:
        return None
    fractions = _constant(function)
    if isinstance(fractions, tuple):
        return tuple(first_from(counted, float(fraction)) for fraction in fractions)
    return first_from(counted, float(fractions))


def _mode(counted: list[tuple[Row, int]], function: Aggregate) -> Value:
    return mode(counted, descending=any(one.descending for one in function.order))


def _string_agg(counted: list[tuple[Row, int]], function: Aggregate) -> Value:
    if not counted:
        return None
    rows = listed(counted, _order(function), width=2)
    if isinstance(function.arguments[1], Literal):
        return str(_constant(function)).join(str(row[0]) for row in rows)
    return str(rows[0][0]) + "".join(f"{row[1]!s}{row[0]!s}" for row in rows[1:])


def _array_agg(counted: list[tuple[Row, int]], function: Aggregate) -> Value:
    return tuple(row[0] for row in listed(counted, _order(function)))


def _at_end(last: bool) -> Callable[[list[tuple[Row, int]], Aggregate], Value]:
    """The value of the first or last row in an order, which the values complete."""

    def compute(counted: list[tuple[Row, int]], function: Aggregate) -> Value:
        return at_end(counted, _order(function), last=last)

    return compute


def _order(function: Aggregate) -> list[tuple[bool, bool]]:
    return [(one.descending, one.nulls_last) for one in function.order]


def _constant(function: Aggregate) -> Any:
    """The second argument of one that has been checked."""
    literal = function.arguments[1]
    assert isinstance(literal, Literal)
    return literal.value


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
    checked: Callable[[Aggregate], Aggregate] | None = None
    """What is to be said about a whole call, beyond its types."""


FUNCTIONS: dict[str, Function] = {
    "count(*)": Function(_always(INT), _count, arguments=0, additive=True),
    "count": Function(_always(INT), _count, additive=True),
    "count_if": Function(_count_type, _count_if, additive=True),
    "sum": Function(_sum_type, _by_moments, additive=True),
    "avg": Function(_avg_type, _by_moments, additive=True),
    "min": Function(_same, _extreme(greatest=False)),
    "max": Function(_same, _extreme(greatest=True)),
    "any_value": Function(_same, _extreme(greatest=False)),
    "min_by": Function(_same, _extreme_by(greatest=False), arguments=2, sees_nulls=True),
    "max_by": Function(_same, _extreme_by(greatest=True), arguments=2, sees_nulls=True),
    "bool_and": Function(_bool, _all, additive=True),
    "bool_or": Function(_bool, _any, additive=True),
    "var_pop": Function(_float_type, _by_moments, additive=True),
    "var_samp": Function(_float_type, _by_moments, additive=True),
    "stddev_pop": Function(_float_type, _by_moments, additive=True),
    "stddev_samp": Function(_float_type, _by_moments, additive=True),
    "deviations": Function(_float_type, _by_moments, additive=True),
    **{name: Function(_float_type, _of_pairs, arguments=2) for name in OF_PAIRS},
    "skewness": Function(_float_type, _shape),
    "kurtosis": Function(_float_type, _shape),
    "bit_and": Function(_int_type, _bits(and_)),
    "bit_or": Function(_int_type, _bits(or_)),
    "bit_xor": Function(_int_type, _bits(xor, twice_is_none=True)),
    "first": Function(_same, _at_end(last=False), sees_nulls=True),
    "last": Function(_same, _at_end(last=True), sees_nulls=True),
    "percentile_cont": Function(
        _float_type, _percentile(discrete=False), arguments=2, checked=_with_fraction
    ),
    "percentile_disc": Function(
        _float_type, _percentile(discrete=True), arguments=2, checked=_with_fraction
    ),
    "approx_percentile": Function(
        _percentile_type, _approx_percentile, arguments=2, checked=_with_fractions
    ),
    "median": Function(_float_type, _percentile(discrete=False)),
    "mode": Function(_same, _mode),
    "string_agg": Function(_text_type, _string_agg, arguments=2, checked=_with_separator),
    "array_agg": Function(_array_type, _array_agg, checked=_ordered_by_itself),
    "single": Function(_same, _single, sees_nulls=True),
}
