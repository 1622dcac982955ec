"""What functions of dates and timestamps do, in the calendar that Spark and Python share.

A date is a `date`, a timestamp a `datetime`, with a zone always UTC's. What would fall outside the
years 1 to 9999 fails, because Headwater has no value for it.
"""

from __future__ import annotations

import calendar
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

_EPOCH = date(1970, 1, 1)
_EPOCH_TIME = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_SECONDS_PER_DAY = 86_400
_SECONDS_PER_MONTH = 31 * _SECONDS_PER_DAY
_DAYS_OF_ANY_MONTH = 32
MICROSECONDS = 1_000_000
OUTSIDE = "the result is outside the years 1 to 9999"


# Days and months


def add_days(day: date, days: int) -> date:
    try:
        return day + timedelta(days=days)
    except OverflowError:
        raise OverflowError(OUTSIDE) from None


def subtract_days(day: date, days: int) -> date:
    return add_days(day, -days)


def days_between(end: date, start: date) -> int:
    return (end - start).days


def add_months(moment: Any, months: int) -> Any:
    """The same day so many months later, or the last of the month if it has no such day."""
    number = moment.year * 12 + moment.month - 1 + months
    year, month = number // 12, number % 12 + 1
    if not 1 <= year <= 9999:
        raise OverflowError(OUTSIDE)
    return moment.replace(year=year, month=month, day=min(moment.day, _length(year, month)))


def _length(year: int, month: int) -> int:
    return calendar.monthrange(year, month)[1]


def last_day(day: date) -> date:
    return day.replace(day=_length(day.year, day.month))


_WEEKDAYS = {
    name: number
    for number, names in enumerate(
        ("MO MON MONDAY", "TU TUE TUESDAY", "WE WED WEDNESDAY", "TH THU THURSDAY",
         "FR FRI FRIDAY", "SA SAT SATURDAY", "SU SUN SUNDAY")
    )
    for name in names.split()
}  # fmt: skip


def check_weekday(name: str) -> None:
    if name.upper() not in _WEEKDAYS:
        raise ValueError(f"'{name}' is no day of the week, such as 'MON'")


def next_day(day: date, name: str) -> date:
    """The first day after this one that has this name."""
    return add_days(day, (_WEEKDAYS[name.upper()] - day.weekday() - 1) % 7 + 1)


def months_between(end: datetime, start: datetime, rounded: bool = True) -> float:
    """Whole months, and parts of 31 days; between two last days of months, or equal days, whole."""
    months = (end.year - start.year) * 12 + end.month - start.month
    both_last = end.day == _length(end.year, end.month) and start.day == _length(
        start.year, start.month
    )
    if end.day == start.day or both_last:
        return float(months)
    seconds = (end.day - start.day) * _SECONDS_PER_DAY + _seconds(end) - _seconds(start)
    between = months + seconds / _SECONDS_PER_MONTH
    return _half_up(between * 1e8) / 1e8 if rounded else between


def _seconds(moment: datetime) -> int:
    return moment.hour * 3600 + moment.minute * 60 + moment.second


def _half_up(value: float) -> int:
    whole = int(value // 1)
    return whole + 1 if value - whole >= 0.5 else whole


# Fields

DAY_FIELDS: dict[str, Callable[[Any], int]] = {
    "year": lambda moment: moment.year,
    "quarter": lambda moment: (moment.month + 2) // 3,
    "month": lambda moment: moment.month,
    "weekofyear": lambda moment: moment.isocalendar()[1],
    "dayofyear": lambda moment: moment.timetuple().tm_yday,
    "day dayofmonth": lambda moment: moment.day,
    "dayofweek": lambda moment: moment.isoweekday() % 7 + 1,
    "weekday": lambda moment: moment.weekday(),
}
TIME_FIELDS: dict[str, Callable[[Any], int]] = {
    "hour": lambda moment: moment.hour,
    "minute": lambda moment: moment.minute,
    "second": lambda moment: moment.second,
}


def year_of_week(day: date) -> int:
    return day.isocalendar()[0]


def iso_weekday(day: date) -> int:
    return day.isoweekday()


def seconds_with_fraction(moment: datetime) -> Decimal:
    return (Decimal(moment.second) + Decimal(moment.microsecond).scaleb(-6)).quantize(
        Decimal("0.000001")
    )


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def day_name(day: date) -> str:
    return _DAYS[day.weekday()]


def month_name(day: date) -> str:
    return _MONTHS[day.month - 1]


# Beginnings of units


def _first_of_week(day: Any) -> Any:
    return add_days(day, -day.weekday())


_DAY_UNITS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), lambda day: day.replace(month=1, day=1)),
    "QUARTER": lambda day: day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1),
    **dict.fromkeys(("MONTH", "MM", "MON"), lambda day: day.replace(day=1)),
    "WEEK": _first_of_week,
}
_TIME_UNITS: dict[str, Callable[[datetime], datetime]] = {
    **dict.fromkeys(("DAY", "DD"), lambda t: t.replace(hour=0, minute=0, second=0, microsecond=0)),
    "HOUR": lambda t: t.replace(minute=0, second=0, microsecond=0),
    "MINUTE": lambda t: t.replace(second=0, microsecond=0),
    "SECOND": lambda t: t.replace(microsecond=0),
    "MILLISECOND": lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000),
    "MICROSECOND": lambda t: t,
}


def check_day_unit(unit: str) -> None:
    if unit.upper() not in _DAY_UNITS:
        raise ValueError(f"'{unit}' is no unit of days; there are {', '.join(_DAY_UNITS)}")


def check_unit(unit: str) -> None:
    if unit.upper() not in _DAY_UNITS | _TIME_UNITS:
        known = ", ".join(_DAY_UNITS | _TIME_UNITS)
        raise ValueError(f"'{unit}' is no unit of time; there are {known}")


def first_day(day: date, unit: str) -> date:
    found: date = _DAY_UNITS[unit.upper()](day)
    return found


def truncated(unit: str, moment: datetime) -> datetime:
    if unit.upper() in _TIME_UNITS:
        return _TIME_UNITS[unit.upper()](moment)
    found: datetime = _DAY_UNITS[unit.upper()](_TIME_UNITS["DAY"](moment))
    return found


# Numbers that stand for moments


def unix_date(day: date) -> int:
    return (day - _EPOCH).days


def date_from_unix_date(days: int) -> date:
    return add_days(_EPOCH, days)


def unix_micros(moment: datetime) -> int:
    return (moment.replace(tzinfo=None) - _EPOCH_TIME) // _MICROSECOND


def unix_time(microseconds: int) -> Callable[[datetime], int]:
    """Units of so many microseconds since 1970."""
    return lambda moment: unix_micros(moment) // microseconds


def epoch(moment: datetime) -> Decimal:
    """Seconds since 1970, with microseconds behind the point."""
    return Decimal(unix_micros(moment)).scaleb(-6)


def _micros_between(start: datetime, end: datetime) -> int:
    return (end - start) // _MICROSECOND


def _months_between(start: datetime, end: datetime) -> int:
    """Whole months from one moment to the other, towards zero, as Java counts them.

    A last day that is not over does not count; then a month is over on the day of its start.
    """
    day, over = end.date(), (end.time() > start.time()) - (end.time() < start.time())
    if over * _sign(day, start.date()) < 0:
        day += timedelta(days=over)
    months = (day.year - start.year) * 12 + day.month - start.month
    return _towards_zero(months * _DAYS_OF_ANY_MONTH + day.day - start.day, _DAYS_OF_ANY_MONTH)


def _sign(end: date, start: date) -> int:
    return (end > start) - (end < start)


def _towards_zero(number: int, size: int) -> int:
    return number // size if number >= 0 else -(-number // size)


_UNITS: dict[str, tuple[Callable[[datetime, datetime], int], int]] = {
    **{
        unit: (_micros_between, size)
        for unit, size in {
            "microsecond": 1,
            "millisecond": 1000,
            "second": MICROSECONDS,
            "minute": 60 * MICROSECONDS,
            "hour": 3600 * MICROSECONDS,
            "day": _SECONDS_PER_DAY * MICROSECONDS,
            "week": 7 * _SECONDS_PER_DAY * MICROSECONDS,
        }.items()
    },
    "month": (_months_between, 1),
    "quarter": (_months_between, 3),
    "year": (_months_between, 12),
}
UNITS = tuple(_UNITS)
"""The units in which TIMESTAMPDIFF and TIMESTAMPADD count."""


def units_between(unit: str) -> Callable[[datetime, datetime], int]:
    """How many whole units lie between two moments."""
    count, size = _UNITS[unit]
    return lambda start, end: _towards_zero(count(start, end), size)


def from_unix(microseconds: int) -> Callable[[int], datetime]:
    return lambda number: add_micros(_EPOCH_TIME.replace(tzinfo=UTC), number * microseconds)


def add_micros(moment: datetime, microseconds: int) -> datetime:
    try:
        return moment + timedelta(microseconds=microseconds)
    except OverflowError:
        raise OverflowError(OUTSIDE) from None


def make_date(year: int, month: int, day: int) -> date:
    return date(year, month, day)


def midnight(day: date) -> datetime:
    return datetime.combine(day, time())
