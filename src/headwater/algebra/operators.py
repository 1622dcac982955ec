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
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import Any

from headwater.algebra.functions.casts import cast_function
from headwater.algebra.functions.numbers import checked_int, nonzero
from headwater.algebra.functions.table import FUNCTIONS
from headwater.algebra.like import like
from headwater.algebra.values import (
    NAN,
    Row,
    Type,
    Value,
    canonical_decimal,
    canonical_float,
)
from headwater.errors import ExpressionError

Function = Callable[..., Any]
Evaluator = Callable[[Row], Value]
_WIDE = Context(prec=80)
_QUOTIENT_DIGITS = 39
"""As Spark, which refuses a remainder whose whole quotient has more digits than this."""


def strict_function(name: str, arguments: Sequence[Type], result: Type) -> Function | None:
    """The implementation of a strict operator for these types, or None if it is not strict."""
    if name in FUNCTIONS:
        return FUNCTIONS[name].value(arguments, result)
    if name in _COMPARISONS:
        return _comparison(_COMPARISONS[name], arguments)
    if name in _ARITHMETIC:
        return _ARITHMETIC[name](result)
    if name == "cast":
        return cast_function(arguments[0], result)
    if name in _TRIED:
        return _attempt(_ARITHMETIC[_TRIED[name]](result))
    if name == "try_cast":
        return _attempt(cast_function(arguments[0], result))
    return _PLAIN.get(name)


def _attempt(function: Function | None) -> Function:
    """NULL where the function fails."""
    assert function is not None

    def attempt(*values: Value) -> Any:
        try:
            return function(*values)
        except (ArithmeticError, ValueError):
            return None

    return attempt


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


def _fitter(result: Type) -> Function:
    if result.name == "int":
        return checked_int
    if result.name == "float":
        return canonical_float
    return lambda value: canonical_decimal(value, result)


def _plain_arithmetic(integer: Function, decimal: Function) -> Callable[[Type], Function]:
    def make(result: Type) -> Function:
        fit, compute = _fitter(result), decimal if result.name == "decimal" else integer
        return lambda a, b: fit(compute(a, b))

    return make


def _division(result: Type) -> Function:
    if result.name == "float":
        return lambda a, b: canonical_float(a / nonzero(b))
    return lambda a, b: canonical_decimal(_WIDE.divide(a, nonzero(b)), result)


def _remainder(result: Type) -> Function:
    """The sign follows the dividend, as in Java, not the divisor, as in Python."""
    remainder, fit = _unfitted_remainder(result), _fitter(result)
    return lambda a, b: fit(remainder(a, b))


def _unfitted_remainder(result: Type) -> Function:
    if result.name == "float":
        return lambda a, b: _float_remainder(a, nonzero(b))
    if result.name == "decimal":
        return lambda a, b: _decimal_remainder(a, nonzero(b))
    return lambda a, b: (1 if a >= 0 else -1) * (abs(a) % abs(nonzero(b)))


def _positive_remainder(result: Type) -> Function:
    """The remainder, and one divisor more if it is negative; what is in between has room."""
    remainder, fit = _unfitted_remainder(result), _fitter(result)
    is_decimal = result.name == "decimal"
    add = _WIDE.add if is_decimal else lambda a, b: fit(a + b)

    def compute(a: Any, b: Any) -> Any:
        found = remainder(a, b)
        return fit(remainder(add(found, b), b) if found < 0 else found)

    return compute


def _decimal_remainder(a: Decimal, b: Decimal) -> Decimal:
    """As Java has it with 39 digits: of a longer quotient all others have to be zeros."""
    if a.adjusted() - b.adjusted() >= _QUOTIENT_DIGITS - 1:
        quotient = abs(int(_WIDE.divide_int(a, b)))
        if quotient % 10 ** max(0, len(str(quotient)) - _QUOTIENT_DIGITS):
            raise OverflowError(f"the quotient has more than {_QUOTIENT_DIGITS} digits")
    return _WIDE.remainder(a, b)


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
    "pmod": _positive_remainder,
    "negate": _unary(operator.neg, Decimal.copy_negate),
    "abs": _unary(abs, Decimal.copy_abs),
}


_TRIED = {"try_add": "+", "try_subtract": "-", "try_multiply": "*", "try_divide": "/"}
"""What is NULL where the other one fails."""


# Text


_PLAIN: dict[str, Function] = {
    "not": operator.not_,
    "||": operator.add,
    "like": like,
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


# Operators for rows on which another expression fails (see `totals`)


def _tried(arguments: Sequence[Evaluator]) -> Evaluator:
    (tried,) = arguments

    def evaluate(row: Row) -> Value:
        try:
            return tried(row)
        except (ArithmeticError, ValueError):
            return None

    return evaluate


def _fails(arguments: Sequence[Evaluator]) -> Evaluator:
    (tried,) = arguments

    def evaluate(row: Row) -> Value:
        try:
            tried(row)
        except (ArithmeticError, ValueError):
            return True
        return False

    return evaluate


def _sound(arguments: Sequence[Evaluator]) -> Evaluator:
    (told,) = arguments

    def evaluate(row: Row) -> Value:
        if (error := told(row)) is None:
            return True
        raise ExpressionError(f"{error!s}.", CORRECT_IT)

    return evaluate


CORRECT_IT = "Correct the row at its source, or change the view so that it does not get there."

LAZY: dict[str, Callable[[Sequence[Evaluator]], Evaluator]] = {
    "and": _and,
    "or": _or,
    "coalesce": _coalesce,
    "case": _case,
    "is null": lambda arguments: lambda row: arguments[0](row) is None,
    "<=>": _null_safe_equal,
    "tried": _tried,
    "fails": _fails,
    "sound": _sound,
}
"""`tried` is its argument, NULL where that fails; `fails` is whether it does. `sound` is true where
its argument is NULL, and raises it as an error where it is not."""

CAN_FAIL = frozenset({"+", "-", "*", "/", "%", "pmod", "negate", "abs", "cast", "like", "sound"})
"""Operators that may raise on a row; conditions with them are decided last."""
TOTAL = frozenset({"tried", "fails"})
"""Operators that never raise, whatever their arguments do."""
