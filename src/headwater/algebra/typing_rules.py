"""How operators are typed, and the casts that they imply: Spark SQL's rules in ANSI mode.

`call` builds a typed expression or raises ValueError in words. Narrower than Spark on
purpose where Spark would depend on the session (a date against a zoned timestamp) or would
guess (text against a number): those need an explicit CAST or are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headwater.algebra.expressions import Call, Expression, Literal
from headwater.algebra.operators import strict_function
from headwater.algebra.values import (
    BOOL,
    DATE,
    FLOAT,
    INT,
    MAX_DECIMAL_DIGITS,
    TEXT,
    TIMESTAMP,
    VOID,
    Type,
    decimal_type,
)

_MIN_SCALE_KEPT = 6
_ORDERS = ("<", "<=", ">", ">=")


def call(operator: str, *arguments: Expression) -> Expression:
    """The typed call of `operator`; ValueError says why these types do not fit."""
    return _RULES[operator](operator, arguments)


def cast(argument: Expression, target: Type) -> Expression:
    """An explicit CAST, or the argument itself where nothing changes."""
    source = argument.type
    if source == target:
        return argument
    if source == VOID:
        return Literal(None, target)
    allowed = (
        (source.is_numeric and target.is_numeric)
        or (source == INT and target == TEXT)
        or (source == TEXT and target.name == "decimal")
        or (source == DATE and target == TIMESTAMP)
    )
    if not allowed:
        raise ValueError(f"CAST from {source} to {target} is not supported")
    if isinstance(argument, Literal) and target != INT:
        return _cast_literal(argument, target)
    return Call("cast", (argument,), target)


def _cast_literal(literal: Literal, target: Type) -> Expression:
    """The cast done once for all rows, so that it does not count as one that may fail.

    Not for integers, which count with the digits that are written (`_decimal_of`).
    """
    function = strict_function("cast", (literal.type,), target)
    assert function is not None
    try:
        return Literal(None if literal.value is None else function(literal.value), target)
    except (ArithmeticError, ValueError):
        return Call("cast", (literal,), target)  # fails on the rows that reach it


def common_type(kinds: Sequence[Type]) -> Type:
    """The type to which values of all `kinds` are brought for a comparison or a choice."""
    result = VOID
    for kind in kinds:
        result = _common(result, kind)
    return result


def _common(a: Type, b: Type) -> Type:
    if a == b or b == VOID:
        return a
    if a == VOID:
        return b
    if a.is_numeric and b.is_numeric:
        if FLOAT in (a, b):
            return FLOAT
        a, b = _as_decimal(a), _as_decimal(b)
        scale = max(a.scale, b.scale)
        return _bounded(max(a.precision - a.scale, b.precision - b.scale) + scale, scale)
    if {a, b} == {DATE, TIMESTAMP}:
        return TIMESTAMP
    remedy = "" if a.is_nested or b.is_nested else "; CAST one of them"
    raise ValueError(f"{a} and {b} cannot be compared{remedy}")


def _as_decimal(kind: Type) -> Type:
    return decimal_type(20, 0) if kind == INT else kind


def _decimal_of(argument: Expression) -> Type:
    """An integer literal counts with its own digits, an integer column with 20."""
    if isinstance(argument, Literal) and argument.type == INT and argument.value is not None:
        assert isinstance(argument.value, int)
        return decimal_type(max(1, len(str(abs(argument.value)))), 0)
    return _as_decimal(argument.type)


def _bounded(precision: int, scale: int) -> Type:
    """At most 38 digits; the integer part is kept first, then at least six decimals."""
    if precision <= MAX_DECIMAL_DIGITS:
        return decimal_type(precision, scale)
    kept = max(MAX_DECIMAL_DIGITS - (precision - scale), min(scale, _MIN_SCALE_KEPT))
    return decimal_type(MAX_DECIMAL_DIGITS, kept)


def _require(arguments: Sequence[Expression], kind: Type, operator: str) -> tuple[Expression, ...]:
    for argument in arguments:
        if argument.type not in (kind, VOID):
            raise ValueError(f"{operator.upper()} needs {kind}, not {argument.type}")
    return tuple(cast(argument, kind) for argument in arguments)


def _comparison(operator: str, arguments: Sequence[Expression]) -> Expression:
    kind = common_type([argument.type for argument in arguments])
    if kind.is_nested and operator in _ORDERS:
        raise ValueError(f"values of type {kind} have no order, so {operator} is not supported")
    if kind.name == "decimal":  # int and decimal compare exactly as they are
        return Call(operator, tuple(arguments), BOOL)
    return Call(operator, tuple(cast(argument, kind) for argument in arguments), BOOL)


def _logical(operator: str, arguments: Sequence[Expression]) -> Expression:
    return Call(operator, _require(arguments, BOOL, operator), BOOL)


def _text(result: Type) -> Callable[[str, Sequence[Expression]], Expression]:
    def rule(operator: str, arguments: Sequence[Expression]) -> Expression:
        return Call(operator, _require(arguments, TEXT, operator), result)

    return rule


def _is_null(operator: str, arguments: Sequence[Expression]) -> Expression:
    return Call(operator, tuple(arguments), BOOL)


def _unary_number(operator: str, arguments: Sequence[Expression]) -> Expression:
    (only,) = _numbers(operator, arguments)
    return Call(operator, (only,), only.type)


def _numbers(operator: str, arguments: Sequence[Expression]) -> tuple[Expression, ...]:
    for argument in arguments:
        if not (argument.type.is_numeric or argument.type == VOID):
            raise ValueError(f"{operator.upper()} needs numbers, not {argument.type}")
    return tuple(cast(a, INT) if a.type == VOID else a for a in arguments)


def _arithmetic(operator: str, arguments: Sequence[Expression]) -> Expression:
    left, right = _numbers(operator, arguments)
    if operator == "/" and left.type == right.type == INT:
        return Call(operator, (cast(left, FLOAT), cast(right, FLOAT)), FLOAT)
    if FLOAT in (left.type, right.type):
        return Call(operator, (cast(left, FLOAT), cast(right, FLOAT)), FLOAT)
    if left.type == right.type == INT:
        return Call(operator, (left, right), INT)
    a, b = _decimal_of(left), _decimal_of(right)
    return Call(operator, (cast(left, a), cast(right, b)), _decimal_result(operator, a, b))


def _decimal_result(operator: str, a: Type, b: Type) -> Type:
    whole, scale = max(a.precision - a.scale, b.precision - b.scale), max(a.scale, b.scale)
    match operator:
        case "+" | "-":
            return _bounded(whole + scale + 1, scale)
        case "*":
            return _bounded(a.precision + b.precision + 1, a.scale + b.scale)
        case "/":
            kept = max(_MIN_SCALE_KEPT, a.scale + b.precision + 1)
            return _bounded(a.precision - a.scale + b.scale + kept, kept)
        case _:
            whole = min(a.precision - a.scale, b.precision - b.scale)
            return _bounded(max(1, whole + scale), scale)


def _coalesce(operator: str, arguments: Sequence[Expression]) -> Expression:
    kind = common_type([argument.type for argument in arguments])
    return Call(operator, tuple(cast(argument, kind) for argument in arguments), kind)


def _case(operator: str, arguments: Sequence[Expression]) -> Expression:
    *branches, otherwise = arguments
    conditions = _require(branches[::2], BOOL, "when")
    values = [*branches[1::2], otherwise]
    kind = common_type([value.type for value in values])
    *results, otherwise = (cast(value, kind) for value in values)
    pairs = zip(conditions, results, strict=True)
    return Call(operator, (*(part for pair in pairs for part in pair), otherwise), kind)


_RULES: dict[str, Callable[[str, Sequence[Expression]], Expression]] = {
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "<=>"), _comparison),
    **dict.fromkeys(("and", "or", "not"), _logical),
    **dict.fromkeys(("+", "-", "*", "/", "%"), _arithmetic),
    **dict.fromkeys(("negate", "abs"), _unary_number),
    "is null": _is_null,
    "like": _text(BOOL),
    "||": _text(TEXT),
    "length": _text(INT),
    "coalesce": _coalesce,
    "case": _case,
}
