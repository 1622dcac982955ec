"""Functions and casts as Spark columns: the same values, and failures for the same values.

Most functions have a name in Spark that means the same. Written out here is what Spark says in
other words; what it takes with 32 bits and we with 64; and where Spark has values that we have
none for: days outside the years 1 to 9999, texts that are not UTF-8, times that depend on today.
Those fail here too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (the name that everybody uses)
from pyspark.sql.types import DataType

from headwater.algebra.expressions import Call, Literal
from headwater.algebra.functions.casts import DATE_TEXT, TIMESTAMP_TEXT
from headwater.algebra.functions.lists import (
    FROM_ONE,
    LONGEST,
    NO_SEQUENCE,
    NOT_ELEMENTS,
    TOO_LONG,
)
from headwater.algebra.functions.signatures import Signature
from headwater.algebra.functions.table import FUNCTIONS
from headwater.algebra.functions.texts import HIGHEST, clamped
from headwater.algebra.functions.times import OUTSIDE, UNITS
from headwater.algebra.values import Type

_BLANK = r"[\x00-\x20\x7f]*"
_TEXTS = {
    "date": rf"\A{_BLANK}{DATE_TEXT}{_BLANK}\z",
    "timestamp": rf"\A{_BLANK}{TIMESTAMP_TEXT}{_BLANK}\z",
    "timestamp_tz": rf"\A{_BLANK}{TIMESTAMP_TEXT}{_BLANK}\z",
}
_NAMES = {"date": "date", "timestamp": "timestamp_ntz", "timestamp_tz": "timestamp"}
_DAYS = ("0001-01-01", "9999-12-31")
_BOUNDS = {
    "date": _DAYS,
    "timestamp": (f"{_DAYS[0]} 00:00:00", f"{_DAYS[1]} 23:59:59.999999"),
    "timestamp_tz": (f"{_DAYS[0]} 00:00:00Z", f"{_DAYS[1]} 23:59:59.999999Z"),
}


def cast_column(call: Call, value: Column, kind: DataType) -> Column:
    """CAST and TRY_CAST to this type of Spark's."""
    (argument,), target = call.arguments, call.type
    source = argument.type.name
    is_try = call.operator == "try_cast"
    cast = value.try_cast(kind) if is_try else value.cast(kind)
    if (source, target.name) == ("bytes", "text"):
        return F.try_validate_utf8(cast) if is_try else F.validate_utf8(cast)
    if (source, target.name) == ("float", "decimal"):  # of which Spark would make a NULL
        finite = ~F.isnan(value) & (F.abs(value) != F.lit(math.inf))
        return _unless_failed(finite, cast, "no decimal value", is_try)
    if source == "text" and target.name in _TEXTS:
        is_written = F.rlike(value, F.lit(_TEXTS[target.name]))
        cast = _unless_failed(is_written, cast, f"no {target}", is_try)
    if source in ("text", "int") and target.name in _BOUNDS:
        return bounded(cast, target, is_try)
    return cast


def function_column(call: Call, parts: Sequence[Column], result: DataType) -> Column:
    """A function of the table, with a result of this type of Spark's."""
    function = FUNCTIONS[call.operator]
    kinds = [argument.type for argument in call.arguments]
    arguments = [
        _narrowed(part, argument, kind)
        for part, argument, kind in zip(
            parts, call.arguments, parameter_kinds(function.signatures, kinds), strict=True
        )
    ]
    say = _WRITTEN_OUT.get(function.name)
    column = say(*arguments) if say else F.call_function(function.spark, *arguments)
    if call.operator == "div" and any(kind.name == "decimal" for kind in kinds):
        column = _in_range(arguments[0], arguments[1], column)
    column = column.cast(result)
    is_dated = call.type.name in _BOUNDS and function.can_fail(kinds, call.type)
    return bounded(column, call.type) if is_dated else column


def _in_range(a: Column, b: Column, quotient: Column) -> Column:
    """DIV of decimals, of which Spark leaves the lowest 64 bits where there are more.

    Near the bounds the sign tells: one that does not fit has the wrong one then.
    """
    about = F.try_divide(a.cast("double"), b.cast("double"))
    near = (F.abs(about) < F.lit(9.3e18)) & (F.signum(quotient) == F.signum(about))
    holds = (F.abs(about) < F.lit(9.1e18)) | near
    return _unless_failed(holds, quotient, "the result is outside the range of its type")


def parameter_kinds(signatures: Sequence[Signature], kinds: Sequence[Type]) -> list[str]:
    constant = [True] * len(kinds)
    signature = next(s for s in signatures if s.targets(kinds, constant) is not None)
    return [signature.parameter(at).kind for at in range(len(kinds))]


def _narrowed(part: Column, argument: object, kind: str) -> Column:
    """A whole number with 32 bits where Spark takes no more."""
    if kind == "index":
        if isinstance(argument, Literal) and isinstance(argument.value, int):
            return F.lit(clamped(argument.value))
        low = F.when(part < F.lit(-HIGHEST), F.lit(-HIGHEST))
        return low.when(part > F.lit(HIGHEST), F.lit(HIGHEST)).otherwise(part).cast("int")
    return part


def bounded(column: Column, kind: Type, is_try: bool = False) -> Column:
    """A day or a time that we have a value for; everything else is as it is."""
    if kind.name not in _BOUNDS:
        return column
    low, high = (F.lit(text).cast(_NAMES[kind.name]) for text in _BOUNDS[kind.name])
    return _unless_failed(column.between(low, high), column, OUTSIDE, is_try)


def _unless_failed(holds: Column, column: Column, words: str, is_try: bool = False) -> Column:
    otherwise = F.lit(None) if is_try else F.raise_error(F.lit(words))
    return F.when(holds.isNull() | holds, column).otherwise(otherwise)


def _trimmed(name: str) -> Callable[..., Column]:
    """Spark has the characters first."""
    return lambda text, *characters: F.call_function(name, *characters, text)


def _filled(name: str) -> Callable[..., Column]:
    """Fails instead of making a text that is too long, unless an argument is NULL."""

    def say(text: Column, size: Column, *filling: Column) -> Column:
        fits = size < F.lit(HIGHEST)
        made = F.call_function(name, text, F.when(fits, size), *filling)
        is_null = reduce(lambda a, b: a | b, [part.isNull() for part in (text, size, *filling)])
        return _unless_failed(is_null | fits, made, "no text is so long")

    return say


def _rounded(name: str) -> Callable[..., Column]:
    return lambda value, *scale: F.call_function(name, value, *(s.cast("int") for s in scale))


def _added(unit: str) -> Callable[..., Column]:
    return lambda moment, number: F.timestamp_add(unit, number, moment)


def _between(unit: str) -> Callable[..., Column]:
    return lambda start, end: F.timestamp_diff(unit, start, end)


def _epoch(moment: Column) -> Column:
    micros = F.unix_micros(moment).cast("decimal(18,0)")
    return micros * F.lit("0.000001").cast("decimal(6,6)")


def _extracted(field: str) -> Callable[..., Column]:
    return lambda moment: F.extract(F.lit(field), moment)


def _item(values: Column, at: Column) -> Column:
    holds = (at >= F.lit(0)) & (at < F.array_size(values))
    return _unless_failed(values.isNull() | at.isNull() | holds, F.get(values, at), NOT_ELEMENTS)


def _slice(values: Column, start: Column, length: Column) -> Column:
    is_null = values.isNull() | start.isNull() | length.isNull()
    holds = (start != F.lit(0)) & (length >= F.lit(0))
    found = F.slice(values, F.when(holds, start), F.when(holds, length))
    return _unless_failed(is_null | holds, found, FROM_ONE)


def _array_repeat(value: Column, times: Column) -> Column:
    fits = times <= F.lit(LONGEST)
    return _unless_failed(fits, F.array_repeat(value, F.when(fits, times)), TOO_LONG)


def _sequence(start: Column, stop: Column, *step: Column) -> Column:
    """Fails in words where Spark's fails in Java's."""
    by = step[0] if step else F.when(start <= stop, F.lit(1)).otherwise(F.lit(-1)).cast("bigint")
    exact = [column.cast("decimal(20,0)") for column in (start, stop, by)]
    is_null = start.isNull() | stop.isNull() | by.isNull()
    zero = F.lit(0).cast("decimal(20,0)")
    leads = ((exact[2] > zero) & (stop > start)) | ((exact[2] < zero) & (stop < start))
    number = F.abs(exact[1] - exact[0]) / F.abs(F.when(exact[2] != zero, exact[2]))
    holds = (start == stop) | (leads & (number < F.lit(LONGEST).cast("decimal(20,0)")))
    made = F.sequence(F.when(holds, start), F.when(holds, stop), F.when(holds, by))
    return _unless_failed(is_null | F.coalesce(holds, F.lit(False)), made, NO_SEQUENCE)


_WRITTEN_OUT: dict[str, Callable[..., Column]] = {
    "trim_left": _trimmed("ltrim"),
    "trim_right": _trimmed("rtrim"),
    "lpad": _filled("lpad"),
    "rpad": _filled("rpad"),
    "repeat": _filled("repeat"),
    "round": _rounded("round"),
    "bround": _rounded("bround"),
    "seconds_with_fraction": _extracted("SECOND"),
    "yearofweek": _extracted("YEAROFWEEK"),
    "dayofweek_iso": _extracted("DAYOFWEEK_ISO"),
    "plus_months": _added("MONTH"),
    "plus_microseconds": _added("MICROSECOND"),
    "epoch": _epoch,
    **{f"{unit}s_between": _between(unit.upper()) for unit in UNITS},
    "item": _item,
    "slice": _slice,
    "array_repeat": _array_repeat,
    "sequence": _sequence,
}
