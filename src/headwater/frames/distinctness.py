"""Whether the rows of an Arrow table certainly differ, told without looking at texts.

Adding up equal rows groups by every column, which takes longer than most of what it follows,
and is seldom needed: rows of a join mostly have a key in them. So the columns of fixed width are
mixed into one number for each row first. Equal rows have equal numbers; where all numbers differ,
so do all rows, whatever the other columns hold. Two rows that differ and share a number only cost
the grouping that would have been done anyway.
"""

from __future__ import annotations

import numpy
import numpy.typing as npt
import pyarrow
import pyarrow.compute as pc

_Numbers = npt.NDArray[numpy.uint64]
_ODD = numpy.uint64(0x9E3779B97F4A7C15)
_SHIFT = numpy.uint64(29)


def differ(table: pyarrow.Table) -> bool:
    """Whether no two rows are equal; False where that is not known."""
    if table.num_rows < 2:
        return True
    mixed = numpy.zeros(table.num_rows, numpy.uint64)
    for column in table.columns:
        for numbers in _numbers(column):
            mixed ^= numbers
            mixed *= _ODD
            mixed ^= mixed >> _SHIFT
    mixed.sort()
    return bool((mixed[1:] != mixed[:-1]).all())


def _numbers(column: pyarrow.ChunkedArray) -> list[_Numbers]:
    """Numbers that equal values of a column share; none of a type whose width is not fixed."""
    kind = column.type
    if pyarrow.types.is_decimal128(kind):
        # What lies under a NULL may be anything.
        values = pc.fill_null(column, pyarrow.scalar(0, kind)) if column.null_count else column
        words = [_words(chunk) for chunk in values.chunks if len(chunk)]
        both = numpy.concatenate(words)
        return [both[::2], both[1::2]]
    if pyarrow.types.is_date32(kind):
        column, kind = column.cast(pyarrow.int32()), pyarrow.int32()
    elif pyarrow.types.is_timestamp(kind):
        column, kind = column.cast(pyarrow.int64()), pyarrow.int64()
    if pyarrow.types.is_integer(kind):
        filled = pc.fill_null(column, 0) if column.null_count else column
        return [filled.to_numpy().astype(numpy.int64).view(numpy.uint64)]
    return []


def _words(chunk: pyarrow.Array) -> _Numbers:
    """The two halves of each decimal."""
    start, end = 2 * chunk.offset, 2 * (chunk.offset + len(chunk))
    return numpy.frombuffer(chunk.buffers()[1], numpy.uint64)[start:end]
