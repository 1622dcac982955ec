"""Our expressions as Spark columns: the same meaning and the same type on a DataFrame.

Spark's operators mean what ours do, since ours follow Spark's in ANSI mode. What is written
out here is what Spark would do differently: the types of literals, the sign of zero,
comparisons of decimals that have no common type of 38 digits, changing the sign of one with more
than 34, and the time that LIKE takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from types import MappingProxyType
from typing import TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (the name that everybody uses)
from pyspark.sql import types as spark

from headwater.algebra.expressions import Call, ColumnRef, Expression, Literal
from headwater.algebra.functions.late import LATE
from headwater.algebra.functions.table import FUNCTIONS
from headwater.algebra.like import like_pattern
from headwater.algebra.schema import Schema
from headwater.algebra.values import MAX_DECIMAL_DIGITS, Type, Value, to_json
from headwater.frames import totals
from headwater.frames.functions import cast_column, function_column
from headwater.frames.json_text import JSON_OPERATORS, json_column
from headwater.frames.late import Bound, late_column
from headwater.frames.spark_types import spark_type

COLUMN_PREFIX = "c"
"""Columns are addressed by their place, `c0`, `c1`, ...: names may hold dots and quotes."""

Operator: TypeAlias = Callable[..., Column]


def place(at: int) -> str:
    return f"{COLUMN_PREFIX}{at}"


def to_column(
    expression: Expression, schema: Schema, bound: Bound = MappingProxyType({})
) -> Column:
    """The expression on a DataFrame whose columns stand in the places of `schema`.

    `bound` has what the variables of lambdas around it stand for.
    """
    match expression:
        case Literal():
            return _literal(expression)
        case ColumnRef(name=name):
            return F.col(place(schema.positions[name]))
        case Call(operator=operator, type=kind) if operator.startswith(LATE):
            found = late_column(
                expression, lambda e, more: to_column(e, schema, more), bound, spark_type(kind)
            )
            return canonical_column(found, kind)
        case Call(operator=operator, arguments=arguments, type=kind):
            parts = [to_column(argument, schema, bound) for argument in arguments]
            if operator in _COMPARISONS:
                return _comparison(operator, [a.type for a in arguments], parts)
            if operator == "like" and isinstance(pattern := arguments[1], Literal):
                return _like(parts[0], pattern)
            if operator in _LONG_DECIMALS and kind.precision > _ROUNDED_FROM:
                return _LONG_DECIMALS[operator](*parts, kind).cast(spark_type(kind))
            if operator == "field" and isinstance(field := arguments[1], Literal):
                return parts[0].getField(str(field.value))
            if operator == "struct":
                fields = zip(parts, kind.parts, strict=True)
                return F.struct(*(part.alias(n) for part, (n, _) in fields)).cast(spark_type(kind))
            if operator in ("cast", "try_cast"):
                return canonical_column(cast_column(expression, parts[0], spark_type(kind)), kind)
            if operator in JSON_OPERATORS:
                return json_column(expression, parts[0])
            if operator in FUNCTIONS:
                return canonical_column(function_column(expression, parts, spark_type(kind)), kind)
            return canonical_column(_OPERATORS[operator](*parts).cast(spark_type(kind)), kind)


def canonical_column(column: Column, kind: Type) -> Column:
    """Floats without a negative zero; all other values of Spark are canonical already."""
    if kind.name == "float":
        return column + F.lit(0.0)
    if not _has_floats(kind):
        return column
    if kind.name == "array":
        return F.transform(column, lambda each: canonical_column(each, kind.element))
    fields = [canonical_column(column.getField(n), part).alias(n) for n, part in kind.parts]
    return F.when(column.isNotNull(), F.struct(*fields))


def _has_floats(kind: Type) -> bool:
    return kind.name == "float" or any(_has_floats(part) for _, part in kind.parts)


def _literal(literal: Literal) -> Column:
    """Dates and times go as text, because Java's old calendar would move ancient ones."""
    value = literal.value
    if isinstance(value, tuple):
        return _nested_literal(value, literal.type)
    if literal.type.name in ("date", "timestamp", "timestamp_tz"):
        value = to_json(value)  # type: ignore[assignment]
    return F.lit(value).cast(spark_type(literal.type))


def _nested_literal(values: tuple[Value, ...], kind: Type) -> Column:
    if kind.name == "array":
        found = F.array(*(_literal(Literal(value, kind.element)) for value in values))
    else:
        fields = zip(kind.parts, values, strict=True)
        found = F.struct(*(_literal(Literal(v, part)).alias(n) for (n, part), v in fields))
    return found.cast(spark_type(kind))


# Comparisons

_COMPARISONS: dict[str, Operator] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<=>": lambda a, b: a.eqNullSafe(b),
}


def _comparison(operator: str, kinds: Sequence[Type], parts: Sequence[Column]) -> Column:
    compare, (a, b) = _COMPARISONS[operator], parts
    if _have_common_type(kinds):
        return compare(a, b)
    (a_whole, a_rest), (b_whole, b_rest) = (
        _divided(p, k) for p, k in zip(parts, kinds, strict=True)
    )
    if operator in ("=", "<=>"):
        return compare(a_whole, b_whole) & compare(a_rest, b_rest)
    if operator == "<>":
        return (a_whole != b_whole) | (a_rest != b_rest)
    return F.when(a_whole == b_whole, compare(a_rest, b_rest)).otherwise(compare(a_whole, b_whole))


def _have_common_type(kinds: Sequence[Type]) -> bool:
    """Whether Spark can bring both to one type without rounding one of them."""
    if {kind.name for kind in kinds} not in ({"decimal"}, {"decimal", "int"}):
        return True
    digits = [(20, 0) if k.name == "int" else (k.precision - k.scale, k.scale) for k in kinds]
    return max(whole for whole, _ in digits) + max(s for _, s in digits) <= MAX_DECIMAL_DIGITS


def _divided(number: Column, kind: Type) -> tuple[Column, Column]:
    """A number as its whole part and the rest behind the point, both with its sign."""
    most = spark.DecimalType(MAX_DECIMAL_DIGITS, MAX_DECIMAL_DIGITS)
    if kind.name == "int":
        return number.cast("decimal(38,0)"), F.when(number.isNotNull(), F.lit(0).cast(most))
    whole = F.when(_is_negative(number, kind), F.ceil(number)).otherwise(F.floor(number))
    return whole.cast("decimal(38,0)"), (number % F.lit(1).cast("decimal(1,0)")).cast(most)


# Changing the sign

_ROUNDED_FROM = 34
"""Spark rounds a decimal to so many digits when it changes its sign."""


def _negated(number: Column, kind: Type) -> Column:
    """The decimal with the other sign, as text, where Spark would round it."""
    text, minus = number.cast("string"), F.lit("-")
    without = F.substr(text, F.lit(2))
    return F.when(_is_negative(number, kind), without).otherwise(F.concat(minus, text))


def _without_sign(number: Column, kind: Type) -> Column:
    negative = _is_negative(number, kind)
    return F.when(negative, _negated(number, kind)).otherwise(number.cast("string"))


def _is_negative(number: Column, kind: Type) -> Column:
    """Against a zero of the same type: beside another one, Spark might round the number."""
    return number < F.lit(0).cast(spark_type(kind))


_LONG_DECIMALS: dict[str, Operator] = {"negate": _negated, "abs": _without_sign}


# All other operators


def _case(*arguments: Column) -> Column:
    """WHEN, THEN, WHEN, THEN, ..., ELSE."""
    *branches, otherwise = arguments
    pairs = list(zip(branches[::2], branches[1::2], strict=True))
    chosen = F.when(*pairs[0])
    for condition, value in pairs[1:]:
        chosen = chosen.when(condition, value)
    return chosen.otherwise(otherwise)


def _like(tested: Column, pattern: Literal) -> Column:
    """Spark's own LIKE tries every way to divide a text among several `%`."""
    if pattern.value is not None and like_pattern(str(pattern.value)).tries_again:
        return F.rlike(tested, F.lit(like_pattern(str(pattern.value)).regular))
    return F.like(tested, _literal(pattern))


def _all(*arguments: Column) -> Column:
    return reduce(lambda a, b: a & b, arguments)


def _any(*arguments: Column) -> Column:
    return reduce(lambda a, b: a | b, arguments)


_OPERATORS: dict[str, Operator] = {
    "and": _all,
    "or": _any,
    "not": lambda a: ~a,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "%": lambda a, b: a % b,
    "pmod": F.pmod,
    "try_add": F.try_add,
    "try_subtract": F.try_subtract,
    "try_multiply": F.try_multiply,
    "try_divide": F.try_divide,
    "negate": lambda a: -a,
    "abs": F.abs,
    "||": F.concat,
    "like": F.like,
    "coalesce": F.coalesce,
    "case": _case,
    "is null": lambda a: a.isNull(),
    "tried": totals.tried,
    "fails": totals.fails,
    "sound": totals.sound,
}
