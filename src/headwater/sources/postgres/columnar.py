"""Large answers and large transactions of PostgreSQL, read column by column into Arrow.

No value becomes an object of Python's on this way. It is for the types whose text Arrow reads
as we do. Where it does not apply, or meets a value that it cannot read (a date far away, a
decimal that is no number, a row that was not sent whole), the result is None, and the caller
reads row by row, which gives the same or an error that names the value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow
import pyarrow.compute as pc
import pyarrow.csv
from psycopg import pq

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.frames.arrow import COUNT, arrow_type
from headwater.frames.columns import Columns
from headwater.sources.postgres.types import Table, TableColumn

MANY = 1_000
"""From this many rows on this way is worth while."""

_BLOCK_BYTES = 4 << 20
_READABLE = frozenset({"bool", "int", "decimal", "text", "date"})
_Bytes = npt.NDArray[np.uint8]
_Places = npt.NDArray[np.int64]


def is_readable(columns: Sequence[TableColumn]) -> bool:
    return bool(columns) and all(c.type.name in _READABLE and c.form.is_plain for c in columns)


def copy_out(pgconn: pq.abc.PGconn) -> Iterator[bytes]:
    """All that a COPY TO STDOUT sends, in blocks of whole rows."""
    lines: list[bytes] = []
    held = 0
    while True:
        size, line = pgconn.get_copy_data(0)
        if size <= 0:
            break
        lines.append(bytes(line))
        held += size
        if held >= _BLOCK_BYTES:
            yield b"".join(lines)
            lines, held = [], 0
    if lines:
        yield b"".join(lines)


def rows_of_csv(
    blocks: Iterable[bytes], columns: Sequence[TableColumn], schema: Schema
) -> Columns | None:
    """The rows that COPY has written as CSV; the blocks are read to their end in any case.

    Of the text no more than a block is held at a time.
    """
    fields = [(f"c{at}", arrow_type(kind)) for at, kind in enumerate(schema.types)]
    tables: list[pyarrow.Table] | None = [pyarrow.schema(fields).empty_table()]
    for block in blocks:
        if tables is None:
            continue
        try:
            tables.append(_parsed(block, columns))
        except pyarrow.ArrowInvalid:
            tables = None
    return None if tables is None else Columns.of_plain(schema, pyarrow.concat_tables(tables))


def _parsed(block: bytes, columns: Sequence[TableColumn]) -> pyarrow.Table:
    names = [f"c{at}" for at in range(len(columns))]
    table = pyarrow.csv.read_csv(
        pyarrow.BufferReader(block),
        pyarrow.csv.ReadOptions(column_names=names, block_size=len(block) + 1, use_threads=False),
        pyarrow.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pyarrow.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    arrays = [_values(c, texts) for c, texts in zip(columns, table.columns, strict=True)]
    return pyarrow.Table.from_arrays(arrays, names)


def rows_of_messages(messages: Sequence[bytes], table: Table) -> Rows | None:
    """The net change that messages of the log about one table make: insert, update, delete."""
    if not is_readable(table.wanted):
        return None
    data = np.frombuffer(b"".join(messages), np.uint8)
    lengths = np.fromiter(map(len, messages), np.int64, len(messages))
    starts = np.cumsum(lengths) - lengths
    kinds, images = data[starts], data[starts + 5]
    inserted, updated = kinds == ord("I"), kinds == ord("U")
    if not np.all(np.where(inserted, images == ord("N"), images == ord("O"))):
        return None  # an old row that was not sent, or not whole
    first = _walk(data, starts + 6, table)
    if first is None:
        return None
    second = _walk(data, first.ends[updated] + 1, table)
    if second is None:
        return None
    try:
        parts = [
            _signed(data, table, first, np.where(inserted, 1, -1)),
            _signed(data, table, second, np.ones(len(second.ends), np.int64)),
        ]
    except pyarrow.ArrowInvalid:
        return None
    merged = Columns(table.relational_schema, pyarrow.concat_tables(parts))
    return merged if merged else Rows.empty(table.relational_schema)


class _Walk:
    """Where the wanted values of rows stand: for each column their places and lengths."""

    def __init__(self, ends: _Places) -> None:
        self.ends = ends
        self.values: list[tuple[_Places, _Places]] = []


def _walk(data: _Bytes, starts: _Places, table: Table) -> _Walk | None:
    """Go through many rows at once, one column after the other; None if values are missing."""
    count = (data[starts].astype(np.int64) << 8) | data[starts + 1]
    if not np.all(count == len(table.columns)):
        return None
    walk = _Walk(starts + 2)
    for column in table.columns:
        kinds = data[walk.ends]
        if not np.all((kinds == ord("t")) | (kinds == ord("n"))):
            return None
        present = kinds == ord("t")
        lengths = np.full(len(starts), -1, np.int64)
        lengths[present] = _numbers(data, walk.ends[present] + 1)
        if column in table.wanted:
            walk.values.append((walk.ends + 5, lengths))
        walk.ends = walk.ends + np.where(present, 5 + lengths, 1)
    return walk


def _numbers(data: _Bytes, places: _Places) -> _Places:
    """The numbers of four bytes that stand at these places."""
    parts = [data[places + at].astype(np.int64) << shift for at, shift in enumerate((24, 16, 8, 0))]
    return parts[0] | parts[1] | parts[2] | parts[3]


def _signed(data: _Bytes, table: Table, walk: _Walk, counts: _Places) -> pyarrow.Table:
    arrays = [
        _values(column, _texts(data, *found))
        for column, found in zip(table.wanted, walk.values, strict=True)
    ]
    names = [f"c{at}" for at in range(len(arrays))]
    counted = pyarrow.array(counts, pyarrow.int64())
    return pyarrow.Table.from_arrays([*arrays, counted], [*names, COUNT])


def _texts(data: _Bytes, places: _Places, lengths: _Places) -> pyarrow.Array:
    """The bytes at these places as texts; a length below zero is NULL."""
    sizes = np.maximum(lengths, 0)
    ends = np.cumsum(sizes)
    gathered = data[
        np.repeat(places - (ends - sizes), sizes) + np.arange(ends[-1] if len(ends) else 0)
    ]
    offsets = np.concatenate(([0], ends)).astype(np.int64)
    present = np.packbits(lengths >= 0, bitorder="little")
    buffers = [pyarrow.py_buffer(each) for each in (present, offsets, gathered)]
    found = pyarrow.Array.from_buffers(pyarrow.large_binary(), len(lengths), buffers)
    return found.cast(pyarrow.string())


def _values(
    column: TableColumn, texts: pyarrow.Array | pyarrow.ChunkedArray
) -> pyarrow.Array | pyarrow.ChunkedArray:
    """Texts as PostgreSQL writes them as values of a column; ArrowInvalid for what is none."""
    if column.type.name == "bool":
        return pc.equal(texts, "t")
    if column.form_name == "padded":
        return pc.utf8_rtrim(texts, " ")
    return texts.cast(arrow_type(column.type))
