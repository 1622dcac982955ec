"""Values on their way to and from Arrow: one type for each of ours, rows in canonical form.

Arrays are Arrow's lists and structs its structs, by the names that Parquet and Spark have for
their parts. Arrow takes structs as dictionaries, so tuples become these on their way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pyarrow

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import Row, Type, Value, canonical

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
    if kind.is_nested:
        parts = [pyarrow.field(name, arrow_type(part)) for name, part in kind.parts]
        return pyarrow.list_(parts[0]) if kind.name == "array" else pyarrow.struct(parts)
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
        arrow_array(values, column.type)
        for values, column in zip(columns, rows.schema.columns, strict=True)
    ]
    arrays.append(pyarrow.array([count for _, count in items], pyarrow.int64()))
    return pyarrow.Table.from_arrays(arrays, schema=signed_schema(rows.schema))


def arrow_array(values: Iterable[Value], kind: Type) -> pyarrow.Array:
    """Canonical values as one array."""
    return pyarrow.array(
        [arrow_value(v, kind) for v in values] if kind.is_nested else values, arrow_type(kind)
    )


def arrow_value(value: Value, kind: Type) -> object:
    """A canonical value as Arrow takes it."""
    if value is None or not kind.is_nested:
        return value
    assert isinstance(value, tuple)
    if kind.name == "array":
        return [arrow_value(each, kind.element) for each in value]
    fields = zip(kind.parts, value, strict=True)
    return {name: arrow_value(each, part) for (name, part), each in fields}


def from_arrow(table: pyarrow.Table, schema: Schema) -> Rows:
    """The signed rows of a table as `to_arrow` makes it."""
    counts: dict[Row, int] = defaultdict(int)
    for row, count in zip(
        row_values(table, schema), table.column(len(schema)).to_pylist(), strict=True
    ):
        counts[row] += count
    return Rows(schema, counts)


def split_from_arrow(
    table: pyarrow.Table, labels: pyarrow.ChunkedArray, schema: Schema
) -> dict[int, Rows]:
    """The signed rows of a table by their labels, of which there is one for each row, in order."""
    found: dict[int, dict[Row, int]] = {}
    counts = table.column(len(schema)).to_pylist()
    for row, count, label in zip(
        row_values(table, schema), counts, labels.to_pylist(), strict=True
    ):
        of_label = found.setdefault(label, {})
        of_label[row] = of_label.get(row, 0) + count
    return {label: Rows(schema, found[label]) for label in sorted(found)}


def plain_from_arrow(table: pyarrow.Table, schema: Schema) -> Rows:
    """The rows of a table without counts, each as often as it is there."""
    counts: dict[Row, int] = defaultdict(int)
    for row in row_values(table, schema):
        counts[row] += 1
    return Rows(schema, counts)


_AMBIGUOUS = frozenset({"float", "timestamp_tz", "array", "struct"})
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
