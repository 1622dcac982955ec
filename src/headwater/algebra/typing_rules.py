"""How operators are typed, and the casts that they imply: Spark SQL's rules in ANSI mode.

`call` builds a typed expression or raises ValueError in words. Narrower than Spark on
purpose where Spark would depend on the session (a date against a zoned timestamp) or would
guess (text against a number): those need an explicit CAST or are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headwater.algebra.expressions import Call, Expression, Literal, can_fail, compile_expression
from headwater.algebra.functions.casts import cast_function
from headwater.algebra.functions.late import LATE
from headwater.algebra.functions.table import FUNCTIONS, Function
from headwater.algebra.operators import strict_function
from headwater.algebra.schema import Schema
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
    array_type,
    decimal_type,
    struct_type,
)
from headwater.errors import ExpressionError

_MIN_SCALE_KEPT = 6
_LEAST_ARGUMENTS = {"greatest": 2, "least": 2}
_ORDERS = ("<", "<=", ">", ">=")


def call(operator: str, *arguments: Expression) -> Expression:
    """The typed call of `operator`; ValueError says why these types do not fit."""
    rule = _RULES.get(operator)
    return rule(operator, arguments) if rule else _function(FUNCTIONS[operator], arguments)


def _function(function: Function, arguments: Sequence[Expression]) -> Expression:
    """The call of a function of the table, done once for all rows if its arguments are constant."""
    return folded(_fitted(function, arguments, function.name))


def late_call(function: Function, *arguments: Expression) -> Call:
    """The call of a late function; ValueError says why these types do not fit."""
    return _fitted(function, arguments, f"{LATE}{function.name}")


def _fitted(function: Function, arguments: Sequence[Expression], operator: str) -> Call:
    kinds = [argument.type for argument in arguments]
    constant = [isinstance(a, Literal) and a.value is not None for a in arguments]
    for signature in function.signatures:
        targets = signature.targets(kinds, constant)
        if targets is not None:
            fitted = tuple(cast(a, kind) for a, kind in zip(arguments, targets, strict=True))
            values = [a.value if isinstance(a, Literal) else None for a in fitted]
            function.check_constants(signature, values)
            result = function.result_type(signature, targets, values)
            return Call(operator, fitted, result)
    shown = ", ".join(map(str, kinds))
    raise ValueError(f"{function.name.upper()} takes {function.takes}, not ({shown})")


def folded(call: Call) -> Expression:
    """The value of a call of constants; if there is none, it fails on the rows that reach it."""
    if not all(isinstance(argument, Literal) for argument in call.arguments):
        return call
    try:
        return Literal(compile_expression(call, Schema(()))(()), call.type)
    except ExpressionError:
        return call


def cast(argument: Expression, target: Type) -> Expression:
    """An explicit CAST, or the argument itself where nothing changes."""
    source = argument.type
    if source == target:
        return argument
    if source == VOID:
        return Literal(None, target)
    if (source, target) == (FLOAT, TEXT):
        raise ValueError(
            "CAST from float to text is not supported, because versions of Java differ in its last "
            "digit; CAST it AS DECIMAL(p,s) first"
        )
    if cast_function(source, target) is None:
        raise ValueError(f"CAST from {source} to {target} is not supported")
    if isinstance(argument, Literal) and target != INT:
        return _cast_literal(argument, target)
    return Call("cast", (argument,), target)


def try_cast(argument: Expression, target: Type) -> Expression:
    """TRY_CAST: NULL where CAST fails."""
    found = cast(argument, target)
    if isinstance(found, Call) and found.operator == "cast" and can_fail(found):
        return Call("try_cast", found.arguments, target)
    return found


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


def _tried(operator: str, arguments: Sequence[Expression]) -> Expression:
    plain = _arithmetic({"try_divide": "/", "try_multiply": "*"}.get(operator, "+"), arguments)
    assert isinstance(plain, Call)
    return folded(Call(operator, plain.arguments, plain.type))


def _quotient(operator: str, arguments: Sequence[Expression]) -> Expression:
    left, right = _numbers(operator, arguments)
    if FLOAT in (left.type, right.type):
        raise ValueError("DIV needs whole or decimal numbers, not float")
    return Call(operator, (left, right), INT)


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
    if len(arguments) < _LEAST_ARGUMENTS.get(operator, 1):
        raise ValueError(f"{operator.upper()} needs more arguments")
    kind = common_type([argument.type for argument in arguments])
    if kind.is_nested and operator in _LEAST_ARGUMENTS:
        raise ValueError(f"values of type {kind} have no order, so {operator.upper()} has none")
    return Call(operator, tuple(cast(argument, kind) for argument in arguments), kind)


def _case(operator: str, arguments: Sequence[Expression]) -> Expression:
    *branches, otherwise = arguments
    conditions = _require(branches[::2], BOOL, "when")
    values = [*branches[1::2], otherwise]
    kind = common_type([value.type for value in values])
    *results, otherwise = (cast(value, kind) for value in values)
    pairs = zip(conditions, results, strict=True)
    return Call(operator, (*(part for pair in pairs for part in pair), otherwise), kind)


# Arrays and structs


def _concatenated(operator: str, arguments: Sequence[Expression]) -> Expression:
    kinds = {argument.type for argument in arguments}
    if any(kind.name == "array" for kind in kinds):
        _check_alike(arguments)
        return folded(Call(operator, tuple(arguments), arguments[0].type))
    return _text(TEXT)(operator, arguments)


def _check_alike(arguments: Sequence[Expression]) -> None:
    first, *others = (argument.type for argument in arguments)
    for other in others:
        if other != first:
            raise ValueError(f"{first} and {other} are not arrays of one type")


def _array(operator: str, arguments: Sequence[Expression]) -> Expression:
    kind = common_type([argument.type for argument in arguments])
    if kind == VOID:
        raise ValueError("an array needs an element with a type")
    elements = tuple(cast(argument, kind) for argument in arguments)
    return folded(Call(operator, elements, array_type(kind)))


def struct(names: Sequence[str], values: Sequence[Expression]) -> Expression:
    """A struct of these fields; ValueError says why there is none."""
    if any(value.type == VOID for value in values):
        raise ValueError("a field of a struct is always NULL and has no type")
    kind = struct_type((name, value.type) for name, value in zip(names, values, strict=True))
    return folded(Call("struct", tuple(values), kind))


def _field(operator: str, arguments: Sequence[Expression]) -> Expression:
    of, literal = arguments
    assert isinstance(literal, Literal)
    name = str(literal.value)
    if of.type.name != "struct":
        raise ValueError(f"{of.type} has no field {name}; only a struct has fields")
    known = [part for part in of.type.parts if part[0].lower() == name.lower()]
    if len(known) != 1:
        fields = ", ".join(part for part, _ in of.type.parts)
        no = "no" if not known else "more than one"
        raise ValueError(f"there is {no} field {name}; there are {fields}")
    ((found, kind),) = known
    return folded(Call(operator, (of, Literal(found, TEXT)), kind))


def _with_element(operator: str, arguments: Sequence[Expression]) -> Expression:
    if len(arguments) == 2 and arguments[0].type.name == "array":
        array, value = arguments
        element = array.type.element
        if common_type([element, value.type]) != element:
            raise ValueError(f"{value.type} is looked for among {element}; CAST it")
        arguments = (array, cast(value, element))
    return _function(FUNCTIONS[operator], arguments)


def _of_two_arrays(operator: str, arguments: Sequence[Expression]) -> Expression:
    _check_alike(arguments)
    return _function(FUNCTIONS[operator], arguments)


def _of_ordered(operator: str, arguments: Sequence[Expression]) -> Expression:
    kind = arguments[0].type if arguments else VOID
    if kind.name == "array" and kind.element.is_nested:
        raise ValueError(f"values of type {kind.element} have no order")
    return _function(FUNCTIONS[operator], arguments)


def _flattened(operator: str, arguments: Sequence[Expression]) -> Expression:
    kind = arguments[0].type if arguments else VOID
    if kind.name == "array" and kind.element.name != "array":
        raise ValueError(f"FLATTEN takes an array of arrays, not {kind}")
    return _function(FUNCTIONS[operator], arguments)


_RULES: dict[str, Callable[[str, Sequence[Expression]], Expression]] = {
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "<=>"), _comparison),
    **dict.fromkeys(("and", "or", "not"), _logical),
    **dict.fromkeys(("+", "-", "*", "/", "%", "pmod"), _arithmetic),
    **dict.fromkeys(("negate", "abs"), _unary_number),
    "is null": _is_null,
    "like": _text(BOOL),
    "||": _concatenated,
    **dict.fromkeys(("coalesce", "greatest", "least"), _coalesce),
    **dict.fromkeys(("try_add", "try_subtract", "try_multiply", "try_divide"), _tried),
    "div": _quotient,
    "case": _case,
    "array": _array,
    "field": _field,
    **dict.fromkeys(
        ("array_contains", "array_position", "array_remove", "array_append", "array_prepend"),
        _with_element,
    ),
    **dict.fromkeys(
        ("array_union", "array_except", "array_intersect", "arrays_overlap"), _of_two_arrays
    ),
    **dict.fromkeys(("array_max", "array_min", "sort_array", "array_sort"), _of_ordered),
    "flatten": _flattened,
}
