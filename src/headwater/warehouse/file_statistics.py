"""What a plain table's log says of each file, so that other readers may pass over some of them.

Delta's statistics: for each column the least and the greatest value, and how many are NULL, taken
from what the file says of its row groups. A reader that believes in a bound that is too narrow
misses rows. So a column has bounds only where they can be told exactly: none for floats, decimals,
bytes and long texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow.parquet

_MOST_COLUMNS = 32
"""As other writers of Delta tables do: of wide tables the first columns only."""
_MOST_TEXT = 32
_YEARS = range(1000, 10_000)
_MILLISECOND = timedelta(milliseconds=1)


def statistics_of(metadata: pyarrow.parquet.FileMetaData) -> dict[str, dict[str, Any]]:
    """The bounds and NULLs of a file's columns; nested ones are left out."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for at in range(min(metadata.num_columns, _MOST_COLUMNS)):
        column = metadata.schema.column(at)
        if column.max_repetition_level or "." in column.path:
            continue
        groups = [metadata.row_group(g).column(at) for g in range(metadata.num_row_groups)]
        found = [group.statistics for group in groups]
        if any(each is None or not each.has_null_count for each in found):
            continue
        nulls[column.path] = sum(each.null_count for each in found)
        # A row group that has nothing but NULL has no bounds, and needs none.
        bounded = [e for g, e in zip(groups, found, strict=True) if e.null_count < g.num_values]
        if bounded and all(each.has_min_max for each in bounded):
            low = _told((each.min for each in bounded), min, up=False)
            high = _told((each.max for each in bounded), max, up=True)
            if low is not None and high is not None:
                least[column.path], greatest[column.path] = low, high
    return {"minValues": least, "maxValues": greatest, "nullCount": nulls}


def _told(values: Iterable[Any], choose: Callable[..., Any], *, up: bool) -> int | str | None:
    """A bound as Delta's JSON has it; None if it cannot be told exactly."""
    match choose(values):
        case bool():
            return None
        case int(value):
            return value
        case str(value) if len(value) <= _MOST_TEXT:
            return value
        case datetime() as value if value.year in _YEARS and value <= _latest(value):
            return _instant(value, up=up)
        case datetime():
            return None
        case date() as value if value.year in _YEARS:
            return value.isoformat()
    return None


def _latest(value: datetime) -> datetime:
    """The greatest that can be rounded upwards."""
    return datetime.max.replace(microsecond=999_000, tzinfo=value.tzinfo)


def _instant(value: datetime, *, up: bool) -> str:
    """To a millisecond: downwards, or upwards if it is the greatest."""
    beyond = timedelta(microseconds=value.microsecond % 1000)
    value = value - beyond + (_MILLISECOND if up and beyond else timedelta(0))
    zone = "Z" if value.tzinfo else ""
    return value.replace(tzinfo=None).isoformat(timespec="milliseconds") + zone
