"""Late functions as Spark columns: what the engines in memory leave to Spark.

Their names are Spark's own. Whole numbers that Spark takes with 32 bits are narrowed, and fail if
they are larger; days that we have no value for fail too. Functions of functions are given what
their lambdas make of a variable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (the name that everybody uses)
from pyspark.sql.types import DataType

from headwater.algebra.expressions import Call, Expression, Literal
from headwater.algebra.functions.late import (
    FROM_CSV,
    FROM_JSON,
    LAMBDA,
    LATE,
    LATE_BY_OPERATOR,
    PARSED,
    PICKED,
    VARIABLE,
)
from headwater.frames.functions import bounded, parameter_kinds

Bound: TypeAlias = Mapping[str, Column]
"""What variables of lambdas stand for."""
Compile: TypeAlias = Callable[[Expression, Bound], Column]
_NARROWEST, _WIDEST = -(2**31), 2**31 - 1


def late_column(call: Call, compiled: Compile, bound: Bound, result: DataType) -> Column:
    """A late call as a column of this type of Spark's, over arguments that `compiled` makes."""
    if call.operator == VARIABLE:
        return bound[_name(call)]
    if any(_is_lambda(argument) for argument in call.arguments):
        return _HIGHER[call.operator](
            *(
                _function(argument, compiled, bound)
                if isinstance(argument, Call) and _is_lambda(argument)
                else compiled(argument, bound)
                for argument in call.arguments
            )
        ).cast(result)
    parts = [compiled(argument, bound) for argument in call.arguments]
    if call.operator in (FROM_JSON, FROM_CSV):
        schema = call.arguments[1]
        assert isinstance(schema, Literal)
        name = call.operator.removeprefix(LATE)
        return F.call_function(name, parts[0], F.lit(schema.value)).cast(result)
    if call.operator in PARSED:
        return F.to_json(plain_column(call, parts))
    if call.operator in PICKED:
        return bounded(_picked(call, compiled, bound).cast(result), call.type)
    return bounded(plain_column(call, parts).cast(result), call.type)


def _picked(call: Call, compiled: Compile, bound: Bound) -> Column:
    """A value of JSON, which is not made a text of on the way."""
    of, *constants = call.arguments
    parse = "parse_json"
    if isinstance(of, Call):
        parse, of = of.operator.removeprefix(LATE), of.arguments[0]
    texts = [F.lit(each.value) for each in constants if isinstance(each, Literal)]
    variant = F.call_function(parse, compiled(of, bound))
    found = F.call_function(call.operator.removeprefix(LATE), variant, *texts)
    return found if len(constants) == 2 else F.to_json(found)


def plain_column(call: Call, parts: Sequence[Column]) -> Column:
    """A function of the table, of the type that Spark gives it."""
    function = LATE_BY_OPERATOR[call.operator]
    kinds = parameter_kinds(function.signatures, [argument.type for argument in call.arguments])
    arguments = [
        _narrowed(part, argument) if kind == "narrow" else part
        for part, argument, kind in zip(parts, call.arguments, kinds, strict=True)
    ]
    return F.call_function(function.spark, *arguments)


def _narrowed(part: Column, argument: Expression) -> Column:
    value = argument.value if isinstance(argument, Literal) else None
    if isinstance(value, int) and _NARROWEST <= value <= _WIDEST:
        return F.lit(value)
    return part.cast("int")


# Functions of functions


def _is_lambda(argument: Expression) -> bool:
    return isinstance(argument, Call) and argument.operator == LAMBDA


def _name(variable: Expression) -> str:
    assert isinstance(variable, Call)
    (name,) = variable.arguments
    assert isinstance(name, Literal)
    return str(name.value)


def _function(call: Call, compiled: Compile, bound: Bound) -> Callable[..., Column]:
    """A lambda as PySpark wants it: a function of Python with as many parameters."""
    body, *variables = call.arguments
    names = [_name(variable) for variable in variables]
    kinds = [variable.type for variable in variables]

    def made(*columns: Column) -> Column:
        # The number of an element has 32 bits in Spark.
        wide = [
            c.cast("bigint") if k.name == "int" else c for c, k in zip(columns, kinds, strict=True)
        ]
        return compiled(body, {**bound, **dict(zip(names, wide, strict=True))})

    match len(names):
        case 1:
            return lambda a: made(a)
        case _:
            return lambda a, b: made(a, b)


def _sorted(array: Column, order: Callable[..., Column]) -> Column:
    """Spark wants 32 bits of what the function gives."""
    return F.array_sort(array, lambda a, b: order(a, b).cast("int"))


_HIGHER: dict[str, Callable[..., Column]] = {
    f"{LATE}transform": F.transform,
    f"{LATE}filter": F.filter,
    f"{LATE}exists": F.exists,
    f"{LATE}forall": F.forall,
    f"{LATE}zip_with": F.zip_with,
    f"{LATE}aggregate": F.aggregate,
    f"{LATE}array_sort": _sorted,
}
