"""What functions of numbers do: exact, and with the same rounding as Spark.

Left out are exp, ln, power and the trigonometric functions: Java's strict library gives another
last digit than Python's for some numbers, and these engines must agree in every bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from typing import Any

from headwater.algebra.values import (
    INT_MAX,
    INT_MIN,
    MAX_DECIMAL_DIGITS,
    NAN,
    Type,
    Value,
    canonical_decimal,
    canonical_float,
    decimal_type,
)

_WIDE = Context(prec=800)
_MOST_DIGITS = 400
"""More digits behind or before the point than any number has, so that a scale is never huge."""


def checked_int(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise OverflowError("the result is outside the range of int (64 bits)")


def nonzero(b: Any) -> Any:
    if b == 0:
        raise ZeroDivisionError("division by zero")
    return b


# Rounding


def rounded_type(kinds: Sequence[Type], constants: Sequence[Value]) -> Type:
    """Of a decimal: with one more digit before the point, into which rounding may carry."""
    kind = kinds[0]
    if kind.name != "decimal":
        return kind
    scale = constants[1] if len(constants) > 1 else 0
    assert isinstance(scale, int)
    whole = kind.precision - kind.scale + 1
    if scale < 0:
        return decimal_type(min(max(whole, 1 - scale), MAX_DECIMAL_DIGITS), 0)
    scale = min(scale, kind.scale)
    return decimal_type(min(whole + scale, MAX_DECIMAL_DIGITS), scale)


def whole_type(kinds: Sequence[Type], constants: Sequence[Value]) -> Type:
    """Of a decimal a decimal without a point, of everything else a whole number."""
    (kind,) = kinds
    if kind.name != "decimal":
        return Type("int")
    more = 1 if kind.scale else 0
    return decimal_type(min(kind.precision - kind.scale + more, MAX_DECIMAL_DIGITS), 0)


def rounding_can_fail(kinds: Sequence[Type], result: Type) -> bool:
    """Whether rounding may carry out of the type."""
    kind = kinds[0]
    if kind.name == "decimal":
        return kind.precision - kind.scale == MAX_DECIMAL_DIGITS
    return kind.name == "int"


def whole_can_fail(kinds: Sequence[Type], result: Type) -> bool:
    return kinds[0].name == "float"


def rounding(mode: str) -> Callable[[Sequence[Type], Type], Callable[..., Any]]:
    def make(kinds: Sequence[Type], result: Type) -> Callable[..., Any]:
        if result.name == "decimal":
            return lambda value, scale=0: canonical_decimal(_at(value, scale, mode), result)
        if result.name == "int":
            return lambda value, scale=0: checked_int(int(_at(Decimal(value), scale, mode)))
        return lambda value, scale=0: _rounded_float(value, scale, mode)

    return make


def _at(value: Decimal, scale: int, mode: str) -> Decimal:
    """The number with so many digits behind the point."""
    scale = max(-_MOST_DIGITS, min(scale, _MOST_DIGITS))
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    if exponent >= -scale:
        return value
    return value.quantize(Decimal(1).scaleb(-scale, _WIDE), rounding=mode, context=_WIDE)


def _rounded_float(value: float, scale: int, mode: str) -> float:
    if not math.isfinite(value):
        return value
    return canonical_float(float(_at(Decimal(repr(value)), scale, mode)))


def whole(mode: str) -> Callable[[Sequence[Type], Type], Callable[..., Any]]:
    """Rounded to a whole number, up or down."""

    def make(kinds: Sequence[Type], result: Type) -> Callable[..., Any]:
        if kinds[0].name == "decimal":
            return lambda value: canonical_decimal(_at(value, 0, mode), result)
        if kinds[0].name == "int":
            return lambda value: value
        integral = math.floor if mode == ROUND_FLOOR else math.ceil
        return lambda value: _whole_float(value, integral)

    return make


def _whole_float(value: float, integral: Callable[[float], int]) -> int:
    """Java's conversion to a long: NaN is 0."""
    if value != value:
        return 0
    if math.isinf(value):
        raise OverflowError("the result is outside the range of int (64 bits)")
    return checked_int(integral(value))


# Signs, roots and divisions


def sign(value: float) -> float:
    return value if value != value else (value > 0) - (value < 0) + 0.0


def square_root(value: float) -> float:
    return NAN if value < 0 or value != value else math.sqrt(value)


def quotient(a: Any, b: Any) -> int:
    """The whole part of a quotient, cut off towards zero."""
    return checked_int(int(_WIDE.divide_int(Decimal(a), Decimal(nonzero(b)))))


# The greatest and the least


def _order(value: Any) -> tuple[bool, Any]:
    """NaN comes after every other number."""
    is_nan = isinstance(value, float) and value != value
    return is_nan, 0.0 if is_nan else value


def greatest(*values: Any) -> Any:
    return max((value for value in values if value is not None), key=_order, default=None)


def least(*values: Any) -> Any:
    return min((value for value in values if value is not None), key=_order, default=None)


def is_nan(value: float | None) -> bool:
    return value is not None and value != value


def factorial(value: int) -> int | None:
    return math.factorial(value) if 0 <= value <= 20 else None


HALF_UP, HALF_EVEN, FLOOR, CEILING = ROUND_HALF_UP, ROUND_HALF_EVEN, ROUND_FLOOR, ROUND_CEILING
