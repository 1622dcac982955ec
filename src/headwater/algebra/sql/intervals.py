"""INTERVAL and differences of moments: added to a date or timestamp, and compared with each other.

As in Spark, an interval has either years and months or days and smaller units, never both. One of
the latter is so many microseconds, a *span*. A span is a type for whoever reads expressions only
(`SPAN`): no value of a row is one, so an expression that gives one stands only where something else
is made of it, a moment, a comparison or a number of seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from sqlglot import exp

from headwater.algebra.expressions import Call, Expression, Literal
from headwater.algebra.functions.times import UNITS
from headwater.algebra.sql.text import RefusalError
from headwater.algebra.typing_rules import call, cast, common_type
from headwater.algebra.values import DATE, INT, TIMESTAMP, TIMESTAMP_TZ, VOID, Type

SPAN = Type("interval")
MOMENTS = (DATE, TIMESTAMP, TIMESTAMP_TZ)
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")

_MONTHS = {"YEAR": 12, "MONTH": 1}
_DAYS = {"WEEK": 7, "DAY": 1}
_MICROSECONDS = {
    "HOUR": 3_600_000_000,
    "MINUTE": 60_000_000,
    "SECOND": 1_000_000,
    "MILLISECOND": 1_000,
    "MICROSECOND": 1,
}
_ADDED = {**_MONTHS, "QUARTER": 3, **_DAYS, "DAYOFYEAR": 1, **_MICROSECONDS}
_EPOCH = datetime(1970, 1, 1)
_MICROSECONDS_PER_DAY = 86_400_000_000
_HINT = "Write for example INTERVAL '3' MONTH, INTERVAL 90 DAYS or INTERVAL '1 day 12 hours'."
_NUMBER = re.compile(r"\s*([+-]?\d+(?:\.\d{1,9})?)\s*")
_PIECES = re.compile(r"\s*(?:[+-]?\d+(?:\.\d{1,9})?\s+[a-zA-Z]+\s*)+")
_PIECE = re.compile(r"([+-]?\d+(?:\.\d{1,9})?)\s+([a-zA-Z]+)")


def is_interval(node: exp.Expr) -> bool:
    """Whether it is an INTERVAL, which sqlglot divides where it has several units."""
    node = node.unnest()
    if isinstance(node, exp.Add):
        return is_interval(node.left) and is_interval(node.right)
    return isinstance(node, exp.Interval)


def moved(moment: Expression, interval: exp.Expr, sign: int) -> Expression:
    """A date or timestamp plus or minus an interval."""
    size, unit = size_of(interval)
    if unit == "month":
        name = "add_months" if moment.type == DATE else "plus_months"
        return call(name, _checked(moment), Literal(sign * size, INT))
    if moment.type == DATE and unit == "day":
        return call("date_add", moment, Literal(sign * size, INT))
    size *= _MICROSECONDS_PER_DAY if unit == "day" else 1
    start = cast(moment, TIMESTAMP_TZ) if moment.type == DATE else _checked(moment)
    return call("plus_microseconds", start, Literal(sign * size, INT))


def span(interval: exp.Expr) -> Expression:
    """An INTERVAL as a span."""
    size, unit = size_of(interval)
    if unit == "month":
        raise RefusalError(
            "an INTERVAL of months is no fixed time, and stands only beside + or - and a moment.",
            "Write until > at + INTERVAL '1' MONTH.",
        )
    return _spanning(Literal(size * (_MICROSECONDS_PER_DAY if unit == "day" else 1), INT))


def _spanning(microseconds: Expression) -> Expression:
    return Call("span", (microseconds,), SPAN)


def _microseconds(span: Expression) -> Expression:
    assert isinstance(span, Call)
    return span.arguments[0]


def combined(operator: str, left: Expression, right: Expression) -> Expression:
    """An operator between any two values: numbers, moments and days, spans."""
    match operator, left.type, right.type:
        case "+", Type("date"), Type("int"):
            return call("date_add", left, right)
        case "+", Type("int"), Type("date"):
            return call("date_add", right, left)
        case "-", Type("date"), Type("int"):
            return call("date_sub", left, right)
        case "-", a, b if a in MOMENTS and b in MOMENTS:
            common_type([a, b])
            return _spanning(call("microseconds_between", right, left))
    if SPAN in (left.type, right.type):
        return _with_spans(operator, left, right)
    return call(operator, left, right)


def _with_spans(operator: str, left: Expression, right: Expression) -> Expression:
    if left.type == right.type == SPAN:
        found = call(operator, _microseconds(left), _microseconds(right))
        if operator in _COMPARISONS:
            return found
        if operator in ("+", "-"):
            return _spanning(found)
    if operator in _COMPARISONS and VOID in (left.type, right.type):
        known, other = (_microseconds(e) if e.type == SPAN else e for e in (left, right))
        return call(operator, known, other)
    if operator in ("+", "-") and left.type in MOMENTS:
        by = _microseconds(right)
        return _later(left, by if operator == "+" else call("negate", by))
    if operator == "+" and right.type in MOMENTS:
        return _later(right, _microseconds(left))
    raise RefusalError(
        f"{operator} between {left.type} and {right.type} is not supported.",
        "Write an INTERVAL, or EXTRACT(EPOCH FROM (a - b)) for a number of seconds.",
    )


def _later(moment: Expression, microseconds: Expression) -> Expression:
    start = cast(moment, TIMESTAMP_TZ) if moment.type == DATE else moment
    return call("plus_microseconds", start, microseconds)


def is_missing(span: Expression) -> Expression:
    """Whether a span is NULL."""
    return call("is null", _microseconds(span))


def seconds(of: Expression) -> Expression:
    """EPOCH: the seconds since 1970 of a moment, or those of a span, with their fraction."""
    if of.type != SPAN:
        return call("epoch", of)
    micros = _microseconds(of)
    if isinstance(micros, Call) and micros.operator == "microseconds_between":
        start, end = micros.arguments
        return call("-", call("epoch", end), call("epoch", start))
    return call("*", micros, Literal(Decimal("0.000001"), Type("decimal", 6, 6)))


# Functions that name a unit


def units_between(unit: str, start: Expression, end: Expression) -> Expression:
    """TIMESTAMPDIFF: how many whole units there are from one moment to another."""
    if unit.lower() not in UNITS:
        listed = ", ".join(each.upper() for each in UNITS)
        raise RefusalError(f"{unit} is no unit to count moments by.", f"There are {listed}.")
    return call(f"{unit.lower()}s_between", start, end)


def units_later(unit: str, number: Expression, moment: Expression) -> Expression:
    """TIMESTAMPADD: the moment so many units later."""
    name = unit.upper()
    if name not in _ADDED:
        listed = ", ".join(_ADDED)
        raise RefusalError(f"{unit} is no unit to add to a moment.", f"There are {listed}.")
    if number.type not in (INT, VOID):
        raise RefusalError(f"a whole number of {unit} is added, not {number.type}.", "CAST it.")
    start = cast(moment, TIMESTAMP_TZ) if moment.type == DATE else _checked(moment)
    in_days = name in _DAYS or name == "DAYOFYEAR"
    factor = _ADDED[name] * (_MICROSECONDS_PER_DAY if in_days else 1)
    if isinstance(number, Literal) and isinstance(number.value, int):
        size: Expression = Literal(number.value * factor, INT)
    else:
        size = call("*", number, Literal(factor, INT)) if factor != 1 else cast(number, INT)
    is_months = name in _MONTHS or name == "QUARTER"
    return call("plus_months" if is_months else "plus_microseconds", start, size)


def stride(node: exp.Expr) -> int:
    """The microseconds of an INTERVAL, or of a text such as '5 minutes', that are above zero."""
    if isinstance(node, exp.Literal) and node.is_string:
        node = exp.Interval(this=node)
    if not is_interval(node):
        raise RefusalError("the length of a bin is no INTERVAL.", _HINT)
    size, unit = size_of(node)
    size *= _MICROSECONDS_PER_DAY if unit == "day" else 1
    if unit == "month" or size <= 0:
        raise RefusalError(
            "the length of a bin is a time above zero without months.",
            "For months write DATE_TRUNC('MONTH', at).",
        )
    return size


def binned(
    moment: Expression, size: int, origin: Expression | None = None, offset: int = 0
) -> Expression:
    """DATE_BIN: the start of the bin that a moment is in.

    One starts at `origin` or, if that is not said, so many microseconds after 1970 began.
    """
    if moment.type == DATE:
        moment = cast(moment, TIMESTAMP_TZ)
    if origin is None:
        first = _EPOCH + timedelta(microseconds=offset)
        is_zoned = moment.type == TIMESTAMP_TZ
        origin = Literal(first.replace(tzinfo=UTC) if is_zoned else first, moment.type)
    common_type([moment.type, origin.type])
    into = call("pmod", call("microseconds_between", origin, moment), Literal(size, INT))
    return _later(_checked(moment), call("negate", into))


def size_of(interval: exp.Expr) -> tuple[int, str]:
    """So many months, or days if there are no smaller units, or microseconds."""
    units = list(_units(interval.unnest()))
    months = sum(_whole(number * _MONTHS[unit]) for number, unit in units if unit in _MONTHS)
    days = sum(_whole(number * _DAYS[unit]) for number, unit in units if unit in _DAYS)
    smaller = [(number, unit) for number, unit in units if unit in _MICROSECONDS]
    if any(unit in _MONTHS for _, unit in units):
        if days or smaller:
            raise RefusalError("an INTERVAL has either months or days, not both.", "Add two.")
        return months, "month"
    if not smaller:
        return days, "day"
    size = sum(_whole(number * _MICROSECONDS[unit]) for number, unit in smaller)
    return days * _MICROSECONDS_PER_DAY + size, "microsecond"


def _checked(moment: Expression) -> Expression:
    if moment.type in (DATE, TIMESTAMP, TIMESTAMP_TZ):
        return moment
    raise RefusalError(
        f"an INTERVAL is added to a date or timestamp, not to {moment.type}.", "CAST it to one."
    )


def _units(node: exp.Expr) -> Iterator[tuple[Decimal, str]]:
    if isinstance(node, exp.Add):
        yield from _units(node.left.unnest())
        yield from _units(node.right.unnest())
        return
    written, unit = node.this, node.args.get("unit")
    if not isinstance(written, exp.Literal) or isinstance(unit, exp.IntervalSpan):
        raise RefusalError(f"{node.sql('spark')} is not supported.", _HINT)
    if unit is None and _PIECES.fullmatch(written.name):
        for number, name in _PIECE.findall(written.name):
            yield Decimal(number), _known(name)
    elif unit is not None and (match := _NUMBER.fullmatch(written.name)):
        yield Decimal(match[1]), _known(unit.name)
    else:
        raise RefusalError(f"{node.sql('spark')} is not supported.", _HINT)


def _known(unit: str) -> str:
    name = unit.upper().removesuffix("S")
    if name in _MONTHS or name in _DAYS or name in _MICROSECONDS:
        return name
    raise RefusalError(f"{unit} is no unit of an INTERVAL.", _HINT)


def _whole(number: Decimal) -> int:
    if number != number.to_integral_value():
        raise RefusalError(f"an INTERVAL of {number} has no whole unit.", _HINT)
    return int(number)
