"""Typed expressions over named columns, and their evaluation on rows.

Three kinds of node: a literal, a column, a call of an operator. What operators mean stands
in `operators`, how they are typed in `typing_rules`; this module only holds the tree and
compiles it to a function of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import itemgetter
from typing import TypeAlias

from headwater.algebra.functions.casts import cast_can_fail
from headwater.algebra.functions.late import LAMBDA, LATE, VARIABLE, not_here
from headwater.algebra.functions.table import FUNCTIONS
from headwater.algebra.operators import CAN_FAIL, LAZY, TOTAL, Evaluator, strict_function
from headwater.algebra.schema import Schema
from headwater.algebra.values import FLOAT, Row, Type, Value, show
from headwater.errors import ExpressionError


@dataclass(frozen=True, slots=True)
class Literal:
    value: Value
    type: Type


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A column by its qualified name, `occurrence.column`."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Call:
    operator: str
    arguments: tuple[Expression, ...]
    type: Type


Expression: TypeAlias = Literal | ColumnRef | Call


def walk(expression: Expression) -> Iterator[Expression]:
    yield expression
    if isinstance(expression, Call):
        for argument in expression.arguments:
            yield from walk(argument)


def columns_of(expression: Expression) -> frozenset[str]:
    return frozenset(node.name for node in walk(expression) if isinstance(node, ColumnRef))


def tells_error(expression: Expression) -> bool:
    """Whether it is what tells of the errors of others (`totals`)."""
    match expression:
        case Call("case", (Call("fails"), *_)):
            return True
    return False


def substituted(expression: Expression, meanings: Mapping[str, Expression]) -> Expression:
    """The expression with other expressions, of the same types, for some of its columns."""
    match expression:
        case ColumnRef(name=name):
            return meanings.get(name, expression)
        case Call(arguments=arguments):
            changed = tuple(substituted(argument, meanings) for argument in arguments)
            return expression if changed == arguments else replace(expression, arguments=changed)
    return expression


def is_late(expression: Expression) -> bool:
    """Whether only Spark computes it (`functions.late`)."""
    return any(isinstance(e, Call) and e.operator.startswith(LATE) for e in walk(expression))


def can_fail(expression: Expression) -> bool:
    """Whether evaluating it may raise on some row; what is late may."""
    if not isinstance(expression, Call) or expression.operator in TOTAL:
        return False
    return call_can_fail(expression) or any(map(can_fail, expression.arguments))


def call_can_fail(call: Call) -> bool:
    """Whether the operator itself may raise, whatever its arguments do."""
    match call:
        case Call("cast", (argument,), target):
            return cast_can_fail(argument.type, target)
        case Call("like", (_, Literal())):
            return False  # the pattern was checked when the view was read
    if call.operator.startswith(LATE):
        return True
    if call.operator in FUNCTIONS:
        kinds = [argument.type for argument in call.arguments]
        return FUNCTIONS[call.operator].can_fail(kinds, call.type)
    return call.operator in CAN_FAIL


@lru_cache(maxsize=4096)
def compile_expression(expression: Expression, schema: Schema) -> Evaluator:
    """A function from a row of `schema` to the expression's value there."""
    evaluate = _compile(expression, schema)
    if not can_fail(expression):
        return evaluate

    def guarded(row: Row) -> Value:
        try:
            return evaluate(row)
        except (ArithmeticError, ValueError) as error:
            raise failed_on(expression, row, schema, str(error)) from None

    return guarded


def failed_on(expression: Expression, row: Row, schema: Schema, words: str) -> ExpressionError:
    """The error that an expression has no value on a row."""
    shown = ", ".join(
        f"{name} = {_short(show(row[schema.positions[name]]))}"
        for name in told_columns(expression, schema)
    )
    return ExpressionError(
        f"{show_expression(as_written(expression))} fails for {shown or 'every row'}: {words}.",
        "Change the view so that this row does not reach the expression, or the row.",
    )


_MOST_OTHERS = 3
_MOST_CHARACTERS = 100


def told_columns(expression: Expression, schema: Schema) -> list[str]:
    """The columns whose values tell on which row it fails: its own, and some beside them."""
    own = columns_of(expression)
    others = [name for name in schema.names if name not in own]
    return [*sorted(own), *others[:_MOST_OTHERS]] if own else []


def _short(shown: str) -> str:
    return shown if len(shown) <= _MOST_CHARACTERS else f"{shown[:_MOST_CHARACTERS]}..."


def _compile(expression: Expression, schema: Schema) -> Evaluator:
    match expression:
        case Literal(value=value):
            return lambda row: value
        case ColumnRef(name=name):
            position = schema.positions[name]
            return lambda row: row[position]
        case Call(operator=name) if name.startswith(LATE):
            return not_here
        case Call(operator=name, arguments=arguments, type=kind):
            parts = [_compile(argument, schema) for argument in arguments]
            if name in LAZY:
                return LAZY[name](parts)
            function = strict_function(name, [argument.type for argument in arguments], kind)
            assert function is not None, f"no implementation of {name}"
            return _strict(name, function, parts)


def _strict(name: str, function: Callable[..., Value], parts: list[Evaluator]) -> Evaluator:
    """NULL as soon as one argument is, and then the others are not evaluated: they cannot fail.

    As in Spark, the left argument comes first, but of a division the divisor.
    """
    if name in FUNCTIONS and FUNCTIONS[name].sees_nulls:
        return lambda row: function(*[part(row) for part in parts])
    if len(parts) == 1:
        (only,) = parts
        return lambda row: None if (value := only(row)) is None else function(value)
    if len(parts) != 2:
        return _strict_of_many(function, parts)
    left, right = parts

    def forwards(row: Row) -> Value:
        if (a := left(row)) is None or (b := right(row)) is None:
            return None
        return function(a, b)

    def backwards(row: Row) -> Value:
        if (b := right(row)) is None or (a := left(row)) is None:
            return None
        return function(a, b)

    return backwards if name in ("/", "%", "pmod", "div", "try_divide") else forwards


def _strict_of_many(function: Callable[..., Value], parts: list[Evaluator]) -> Evaluator:
    def evaluate(row: Row) -> Value:
        values = []
        for part in parts:
            if (value := part(row)) is None:
                return None
            values.append(value)
        return function(*values)

    return evaluate


@lru_cache(maxsize=4096)
def compile_rows(outputs: tuple[Expression, ...], schema: Schema) -> Callable[[Row], Row]:
    """A function from a row of `schema` to the row of all `outputs`."""
    if outputs and all(isinstance(output, ColumnRef) for output in outputs):
        positions = [schema.positions[o.name] for o in outputs if isinstance(o, ColumnRef)]
        if len(positions) == 1:
            (at,) = positions
            return lambda row: (row[at],)
        return itemgetter(*positions)
    parts = [compile_expression(output, schema) for output in outputs]
    return lambda row: tuple([part(row) for part in parts])


# Showing

_INFIX = {
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "<=>",
    "+",
    "-",
    "*",
    "/",
    "%",
    "div",
    "||",
    "and",
    "or",
    "like",
    "->",
    "->>",
    "#>",
    "#>>",
}


def show_expression(expression: Expression, column: Callable[[str], str] = str) -> str:
    """The expression in SQL-like words; `column` may shorten column names.

    What is done about its errors (`totals`) is left out.
    """
    match expression:
        case Literal(value=value):
            return show(value)
        case ColumnRef(name=name):
            return column(name)
        case Call(operator="tried", arguments=(only,)):
            return show_expression(only, column)
        case Call(operator="or", arguments=(Call(operator="fails"), only)):
            return show_expression(only, column)
        case Call(operator="is null", arguments=(only,)):
            return f"{_operand(only, column)} IS NULL"
        case Call(operator="not", arguments=(only,)):
            return f"NOT {_operand(only, column)}"
        case Call(operator="cast", arguments=(only,), type=kind):
            return f"CAST({show_expression(only, column)} AS {kind})"
        case Call(operator="try_cast", arguments=(only,), type=kind):
            return f"TRY_CAST({show_expression(only, column)} AS {kind})"
        case Call(operator="case", arguments=arguments):
            shown = [show_expression(argument, column) for argument in arguments]
            pairs = zip(shown[:-1:2], shown[1:-1:2], strict=True)
            branches = " ".join(f"WHEN {when} THEN {then}" for when, then in pairs)
            return f"CASE {branches} ELSE {shown[-1]} END"
        case Call(operator=name, arguments=arguments) if name in _INFIX:
            return f" {name.upper()} ".join(_operand(argument, column) for argument in arguments)
        case Call(operator="field", arguments=(of, Literal(value=name))):
            return f"{show_expression(of, column)}.{name!s}"
        case Call(operator="item", arguments=(of, at)):
            return f"{_operand(of, column)}[{show_expression(at, column)}]"
        case Call(operator="negate", arguments=(only,)):
            return f"-{_operand(only, column)}"
        case Call(operator=name, arguments=(Literal(value=word),)) if name == VARIABLE:
            return str(word).partition("#")[0]
        case Call(operator=name, arguments=(body, *variables)) if name == LAMBDA:
            names = ", ".join(show_expression(v, column) for v in variables)
            bound = names if len(variables) == 1 else f"({names})"
            return f"{bound} -> {show_expression(body, column)}"
        case Call(operator=name, arguments=arguments):
            shown_arguments = ", ".join(show_expression(a, column) for a in arguments)
            return f"{name.removeprefix(LATE)}({shown_arguments})"


def _operand(expression: Expression, column: Callable[[str], str]) -> str:
    shown = show_expression(expression, column)
    if isinstance(expression, Call) and expression.operator == "tried":
        (expression,) = expression.arguments
    composite = isinstance(expression, Call) and expression.operator in _INFIX
    return f"({shown})" if composite else shown


def as_written(expression: Expression) -> Expression:
    """Without the casts that only make a number wider, which nobody has to write."""
    match expression:
        case Call("cast", (only,), kind) if _only_widens(only.type, kind):
            return as_written(only)
    if isinstance(expression, Call):
        return replace(expression, arguments=tuple(map(as_written, expression.arguments)))
    return expression


def _only_widens(kind: Type, to: Type) -> bool:
    if to == FLOAT:
        return kind.is_numeric
    return to.name == "decimal" and kind.is_numeric and kind != FLOAT and to.scale >= kind.scale
