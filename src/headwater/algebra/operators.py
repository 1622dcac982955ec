"""What each operator does to values: Spark SQL's meaning in ANSI mode, on canonical values.

A table from an operator's name to its implementation for the types at hand. Separate from
the typing rules (`typing_rules`), so that each engine can bring its own implementation of
the same names. A strict operator is NULL as soon as one argument is; the others receive
their arguments as functions of the row and decide themselves what to evaluate.

An implementation raises ArithmeticError (overflow, division by zero) or ValueError in
words; whoever evaluates adds the row.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import ROUND_DOWN, Context, Decimal, InvalidOperation
from typing import Any

from headwater.algebra.like import like
from headwater.algebra.values import (
    INT_MAX,
    INT_MIN,
    NAN,
    Row,
    Type,
    Value,
    canonical_decimal,
    canonical_float,
)

Function = Callable[..., Any]
Evaluator = Callable[[Row], Value]
_WIDE = Context(prec=80)
_WRITTEN = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,9})?")
_BLANKS = "".join(map(chr, range(33)))
_REMAINDER = Context(prec=39)
"""As Spark, which refuses a remainder whose whole quotient has more digits than this."""


def strict_function(name: str, arguments: Sequence[Type], result: Type) -> Function | None:
    """The implementation of a strict operator for these types, or None if it is not strict."""
    if name in _COMPARISONS:
        return _comparison(_COMPARISONS[name], arguments)
    if name in _ARITHMETIC:
        return _ARITHMETIC[name](result)
    if name == "cast":
        return _cast(arguments[0], result)
    return _PLAIN.get(name)


# Comparisons: NaN equals NaN and is greater than every other number.

_COMPARISONS: dict[str, Function] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _comparison(compare: Function, arguments: Sequence[Type]) -> Function:
    if all(kind.name != "float" for kind in arguments):
        return compare
    return lambda a, b: compare((a != a, 0.0 if a != a else a), (b != b, 0.0 if b != b else b))


# Arithmetic


def _checked_int(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise OverflowError("the result is outside the range of int (64 bits)")


def _fitter(result: Type) -> Function:
    if result.name == "int":
        return _checked_int
    if result.name == "float":
        return canonical_float
    return lambda value: canonical_decimal(value, result)


def _plain_arithmetic(integer: Function, decimal: Function) -> Callable[[Type], Function]:
    def make(result: Type) -> Function:
        fit, compute = _fitter(result), decimal if result.name == "decimal" else integer
        return lambda a, b: fit(compute(a, b))

    return make


def _nonzero(b: Any) -> Any:
    if b == 0:
        raise ZeroDivisionError("division by zero")
    return b


def _division(result: Type) -> Function:
    if result.name == "float":
        return lambda a, b: canonical_float(a / _nonzero(b))
    return lambda a, b: canonical_decimal(_WIDE.divide(a, _nonzero(b)), result)


def _remainder(result: Type) -> Function:
    """The sign follows the dividend, as in Java, not the divisor, as in Python."""
    if result.name == "float":
        return lambda a, b: _float_remainder(a, _nonzero(b))
    if result.name == "decimal":
        return lambda a, b: canonical_decimal(_decimal_remainder(a, _nonzero(b)), result)
    return lambda a, b: (1 if a >= 0 else -1) * (abs(a) % abs(_nonzero(b)))


def _decimal_remainder(a: Decimal, b: Decimal) -> Decimal:
    try:
        return _REMAINDER.remainder(a, b)
    except InvalidOperation:
        raise OverflowError("the quotient has more than 39 digits") from None


def _float_remainder(a: float, b: float) -> float:
    return NAN if math.isinf(a) else canonical_float(math.fmod(a, b))


def _unary(plain: Function, decimal: Function) -> Callable[[Type], Function]:
    """Decimals by methods of their own: Python's operators would round them to 28 digits."""

    def make(result: Type) -> Function:
        fit, compute = _fitter(result), decimal if result.name == "decimal" else plain
        return lambda a: fit(compute(a))

    return make


_ARITHMETIC: dict[str, Callable[[Type], Function]] = {
    "+": _plain_arithmetic(operator.add, _WIDE.add),
    "-": _plain_arithmetic(operator.sub, _WIDE.subtract),
    "*": _plain_arithmetic(operator.mul, _WIDE.multiply),
    "/": _division,
    "%": _remainder,
    "negate": _unary(operator.neg, Decimal.copy_negate),
    "abs": _unary(abs, Decimal.copy_abs),
}


# Casts


def _cast(source: Type, target: Type) -> Function:
    if source.name == "date" and target.name == "timestamp":
        return lambda value: datetime.combine(_as_date(value), time())
    if target.name == "text":
        return str
    if target.name == "float":
        return lambda value: canonical_float(float(value))
    if target.name == "decimal" and source.name == "text":
        return lambda text: canonical_decimal(_written_decimal(text), target)
    if target.name == "decimal":
        return lambda value: canonical_decimal(_exact_decimal(value), target)
    return lambda value: _checked_int(_truncated(value))


def _as_date(value: date) -> date:
    return value


def _exact_decimal(value: int | float | Decimal) -> Decimal:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} has no decimal value")
        return Decimal(repr(value))
    return Decimal(value)


def _written_decimal(text: str) -> Decimal:
    """The number that a text is, blanks around it left out; what Spark and Java take for one."""
    match = _WRITTEN.fullmatch(text.strip(_BLANKS))
    if match is None:
        raise ValueError(f"{text!r} is not a number")
    return Decimal(match[0])


def _truncated(value: int | float | Decimal) -> int:
    if isinstance(value, Decimal):
        return int(value.to_integral_value(rounding=ROUND_DOWN))
    if not math.isfinite(value):
        raise ValueError(f"{value} has no integer value")
    # As Spark compares: the float nearest to the greatest integer still becomes that integer.
    return INT_MAX if value == float(INT_MAX) else int(value)


# Text


_PLAIN: dict[str, Function] = {
    "not": operator.not_,
    "||": operator.add,
    "like": like,
    "length": len,
}


# Operators that look at NULLs themselves


def _and(arguments: Sequence[Evaluator]) -> Evaluator:
    def evaluate(row: Row) -> Value:
        result: Value = True
        for argument in arguments:
            value = argument(row)
            if value is False:
                return False
            if value is None:
                result = None
        return result

    return evaluate


def _or(arguments: Sequence[Evaluator]) -> Evaluator:
    def evaluate(row: Row) -> Value:
        result: Value = False
        for argument in arguments:
            value = argument(row)
            if value is True:
                return True
            if value is None:
                result = None
        return result

    return evaluate


def _coalesce(arguments: Sequence[Evaluator]) -> Evaluator:
    def evaluate(row: Row) -> Value:
        for argument in arguments:
            if (value := argument(row)) is not None:
                return value
        return None

    return evaluate


def _case(arguments: Sequence[Evaluator]) -> Evaluator:
    """WHEN, THEN, WHEN, THEN, ..., ELSE."""
    *branches, otherwise = arguments
    pairs = list(zip(branches[::2], branches[1::2], strict=True))

    def evaluate(row: Row) -> Value:
        for condition, value in pairs:
            if condition(row) is True:
                return value(row)
        return otherwise(row)

    return evaluate


def _null_safe_equal(arguments: Sequence[Evaluator]) -> Evaluator:
    left, right = arguments

    def evaluate(row: Row) -> Value:
        a, b = left(row), right(row)
        return a is b or (a is not None and b is not None and a == b)

    return evaluate


LAZY: dict[str, Callable[[Sequence[Evaluator]], Evaluator]] = {
    "and": _and,
    "or": _or,
    "coalesce": _coalesce,
    "case": _case,
    "is null": lambda arguments: lambda row: arguments[0](row) is None,
    "<=>": _null_safe_equal,
}

CAN_FAIL = frozenset({"+", "-", "*", "/", "%", "negate", "abs", "cast", "like"})
"""Operators that may raise on a row; conditions with them are decided last."""
