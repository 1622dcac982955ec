"""Orders of rows: what ORDER BY says, completed by all columns.

Separate because ORDER BY with LIMIT and windows share it. NULL comes first or last as is said,
NaN after every other number, texts by code point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.algebra.schema import Schema
from headwater.algebra.values import Row, Value, sort_key


@dataclass(frozen=True)
class Order:
    """One column of an ORDER BY; Spark puts NULL first when ascending, else last."""

    column: str
    descending: bool = False
    nulls_last: bool = False


class _Reversed:
    """A key that sorts the other way round."""

    __slots__ = ("key",)

    def __init__(self, key: object) -> None:
        self.key = key

    def __lt__(self, other: _Reversed) -> bool:
        return bool(other.key < self.key)  # type: ignore[operator]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def order_key(schema: Schema, order: Sequence[Order]) -> Callable[[Row], Any]:
    """What rows are sorted by, as far as `order` goes."""
    places = [(schema.positions[one.column], one.descending, one.nulls_last) for one in order]
    return lambda row: tuple([sorting_key(row[at], down, last) for at, down, last in places])


def sorting_key(value: Value, descending: bool, nulls_last: bool) -> Any:
    """What one value is sorted by."""
    if value is None:
        return (1 if nulls_last else -1, 0)
    (key,) = sort_key((value,))
    return (0, _Reversed(key) if descending else key)


def in_order(rows: Iterable[Row], schema: Schema, order: Sequence[Order]) -> list[Row]:
    """The rows in this order, completed by all columns."""
    completed = sorted(rows, key=sort_key)
    return sorted(completed, key=order_key(schema, order)) if order else completed
