"""Arrow's columns in canonical form: no negative zero, one NaN, no day that there is not here.

What reads files of others puts every column through this: Arrow takes more for a value than
Headwater does, and one value may have several forms there.
"""

from __future__ import annotations

from typing import Any

import pyarrow
import pyarrow.compute as pc

from headwater.algebra.schema import Schema
from headwater.algebra.values import Type, canonical
from headwater.frames.arrow import arrow_array

_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_DAY_US = 86_400_000_000
_RANGES = {
    "date": (pyarrow.int32(), _FIRST_DAY, _LAST_DAY),
    "timestamp": (pyarrow.int64(), _FIRST_DAY * _DAY_US, (_LAST_DAY + 1) * _DAY_US - 1),
    "timestamp_tz": (pyarrow.int64(), _FIRST_DAY * _DAY_US, (_LAST_DAY + 1) * _DAY_US - 1),
}


class NotCanonicalError(Exception):
    """A column has what is no value here; the words say what."""

    def __init__(self, words: str, column: str = "") -> None:
        super().__init__(f"column {column}: {words}" if column else words)
        self.words = words
        self.column = column


def canonical_table(table: Any, schema: Schema) -> Any:
    """A table or batch with the columns of a schema by place, and others behind them."""
    columns = list(table.columns)
    for at, column in enumerate(schema.columns):
        try:
            columns[at] = canonical_array(columns[at], column.type)
        except NotCanonicalError as error:
            raise NotCanonicalError(error.words, column.name) from None
    return type(table).from_arrays(columns, schema=table.schema)


def canonical_array(array: Any, kind: Type) -> Any:
    """NotCanonicalError if not all of it are values of a type."""
    match kind.name:
        case "float":
            return pc.if_else(pc.is_nan(array), float("nan"), pc.add(array, 0.0))
        case "date" | "timestamp" | "timestamp_tz":
            _check_range(array, kind)
        case "text":
            _check_utf8(array)
        case "array" | "struct":
            return _canonical_nested(array, kind)
    return array


def _check_range(array: Any, kind: Type) -> None:
    numbers, first, last = _RANGES[kind.name]
    bounds = pc.min_max(array.cast(numbers))
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is not None and (low < first or high > last):
        raise NotCanonicalError(f"a {kind} is outside of the years 1 to 9999")


def _check_utf8(array: Any) -> None:
    try:
        array.validate(full=True)
    except pyarrow.ArrowInvalid:
        raise NotCanonicalError("a text has bytes that are none of UTF-8") from None


def _canonical_nested(array: Any, kind: Type) -> Any:
    try:
        values = [canonical(value, kind) for value in array.to_pylist()]
    except (ValueError, OverflowError) as error:
        raise NotCanonicalError(str(error)) from None
    found = arrow_array(values, kind)
    return pyarrow.chunked_array([found]) if isinstance(array, pyarrow.ChunkedArray) else found
