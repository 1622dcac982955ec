"""INTERVAL, which stands only beside + or - and a date or timestamp: Headwater has no such type.

As in Spark, one has either years and months or days and smaller units, never both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from sqlglot import exp

from headwater.algebra.expressions import Expression, Literal
from headwater.algebra.sql.text import RefusalError
from headwater.algebra.typing_rules import call, cast
from headwater.algebra.values import DATE, INT, TIMESTAMP, TIMESTAMP_TZ

_MONTHS = {"YEAR": 12, "MONTH": 1}
_DAYS = {"WEEK": 7, "DAY": 1}
_MICROSECONDS = {
    "HOUR": 3_600_000_000,
    "MINUTE": 60_000_000,
    "SECOND": 1_000_000,
    "MILLISECOND": 1_000,
    "MICROSECOND": 1,
}
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
