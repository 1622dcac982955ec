"""Values on their way to and from Arrow: one type for each of ours, rows in canonical form."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pyarrow

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import Row, Type, canonical

COUNT = "_count"
"""The column that holds a row's count where rows are signed."""

_ARROW = {
    "bool": pyarrow.bool_(),
    "int": pyarrow.int64(),
    "float": pyarrow.float64(),
    "text": pyarrow.string(),
    "bytes": pyarrow.binary(),
    "date": pyarrow.date32(),
    "timestamp": pyarrow.timestamp("us"),
    "timestamp_tz": pyarrow.timestamp("us", "UTC"),
    "void": pyarrow.null(),
}


def arrow_type(kind: Type) -> pyarrow.DataType:
    """How a column of this type is handed over."""
    if kind.precision:
        return pyarrow.decimal128(kind.precision, kind.scale)
    return _ARROW[kind.name]


def arrow_schema(schema: Schema) -> pyarrow.Schema:
    return pyarrow.schema([(column.name, arrow_type(column.type)) for column in schema.columns])


def signed_schema(schema: Schema) -> pyarrow.Schema:
    """A schema with each row's count behind it."""
    return arrow_schema(schema).append(pyarrow.field(COUNT, pyarrow.int64()))


def to_arrow(rows: Rows) -> pyarrow.Table:
    """Signed rows as a table whose last column is the count."""
    items = list(rows.items())
    columns = zip(*(row for row, _ in items), strict=True) if items else [()] * len(rows.schema)
    arrays = [
        pyarrow.array(values, arrow_type(column.type))
        for values, column in zip(columns, rows.schema.columns, strict=True)
    ]
    arrays.append(pyarrow.array([count for _, count in items], pyarrow.int64()))
    return pyarrow.Table.from_arrays(arrays, schema=signed_schema(rows.schema))


def from_arrow(table: pyarrow.Table, schema: Schema) -> Rows:
    """The signed rows of a table as `to_arrow` makes it."""
    counts: dict[Row, int] = defaultdict(int)
    for row, count in zip(
        row_values(table, schema), table.column(len(schema)).to_pylist(), strict=True
    ):
        counts[row] += count
    return Rows(schema, counts)


def plain_from_arrow(table: pyarrow.Table, schema: Schema) -> Rows:
    """The rows of a table without counts, each as often as it is there."""
    counts: dict[Row, int] = defaultdict(int)
    for row in row_values(table, schema):
        counts[row] += 1
    return Rows(schema, counts)


_AMBIGUOUS = frozenset({"float", "timestamp_tz"})
"""Types of which Arrow may give a value that is not canonical; all others stay as they were."""


def row_values(table: pyarrow.Table, schema: Schema) -> Iterable[Row]:
    """The rows of a table's first columns, in canonical form."""
    if not len(schema):
        return [()] * table.num_rows
    columns = []
    for at, column in enumerate(schema.columns):
        values = table.column(at).to_pylist()
        if column.type.name in _AMBIGUOUS:
            values = [canonical(value, column.type) for value in values]
        columns.append(values)
    return zip(*columns, strict=True)
