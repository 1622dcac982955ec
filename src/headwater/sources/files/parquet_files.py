"""Parquet: a file's content as an Arrow table in canonical form."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow
import pyarrow.parquet

from headwater.algebra.schema import Column, Schema
from headwater.algebra.values import (
    BOOL,
    BYTES,
    DATE,
    FLOAT,
    INT,
    TEXT,
    TIMESTAMP,
    TIMESTAMP_TZ,
    Type,
    array_type,
    decimal_type,
    struct_type,
)
from headwater.frames.arrow import arrow_schema, arrow_type
from headwater.frames.canonical import NotCanonicalError, canonical_array
from headwater.sources.files.misfits import MisfitError, lacking


def _opened(content: bytes) -> pyarrow.parquet.ParquetFile:
    try:
        return pyarrow.parquet.ParquetFile(
            io.BytesIO(content), coerce_int96_timestamp_unit="us", page_checksum_verification=True
        )
    except (pyarrow.ArrowException, OSError) as error:
        raise MisfitError(f"it is no whole Parquet file: {error}") from None


def schema_of(content: bytes) -> tuple[Schema, dict[str, str]]:
    """The columns that can be used, and why others cannot be."""
    columns, unusable = [], {}
    there = _opened(content).schema_arrow
    _check_names(there.names)
    for field in there:
        try:
            columns.append(Column(field.name, type_of(field.type)))
        except ValueError as error:
            unusable[field.name] = str(error)
    return Schema(tuple(columns)), unusable


def type_of(kind: pyarrow.DataType) -> Type:
    """ValueError in words if there is no such type here."""
    t = pyarrow.types
    if t.is_dictionary(kind):
        return type_of(kind.value_type)
    if t.is_decimal(kind):
        return decimal_type(kind.precision, kind.scale)
    if t.is_timestamp(kind) and kind.unit != "ns":
        return TIMESTAMP if kind.tz is None else TIMESTAMP_TZ
    if t.is_timestamp(kind):
        return TIMESTAMP if kind.tz is None else TIMESTAMP_TZ
    if t.is_list(kind) or t.is_large_list(kind):
        return array_type(type_of(kind.value_type))
    if t.is_struct(kind):
        return struct_type([(field.name, type_of(field.type)) for field in kind])
    for test, found in _PLAIN:
        if test(kind):
            return found
    raise ValueError(f"its type {kind} has no counterpart here")


_PLAIN: tuple[tuple[Any, Type], ...] = (
    (pyarrow.types.is_boolean, BOOL),
    (lambda kind: pyarrow.types.is_integer(kind) and kind != pyarrow.uint64(), INT),
    (pyarrow.types.is_floating, FLOAT),
    (pyarrow.types.is_string, TEXT),
    (pyarrow.types.is_large_string, TEXT),
    (pyarrow.types.is_binary, BYTES),
    (pyarrow.types.is_large_binary, BYTES),
    (pyarrow.types.is_fixed_size_binary, BYTES),
    (pyarrow.types.is_date, DATE),
)


def _check_names(names: Sequence[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise MisfitError(f"it has the column {twice[0]!r} twice")


def table_of(content: bytes, schema: Schema) -> pyarrow.Table:
    """The columns of a schema; others are passed over."""
    file = _opened(content)
    there = file.schema_arrow.names
    _check_names(there)
    if missing := [name for name in schema.names if name not in there]:
        raise lacking(missing, there)
    try:
        table = file.read(columns=list(schema.names))
    except (pyarrow.ArrowException, OSError) as error:
        raise MisfitError(f"it is damaged: {error}") from None
    columns = [_as_type(table.column(c.name), c) for c in schema.columns]
    return pyarrow.Table.from_arrays(columns, schema=arrow_schema(schema))


def _as_type(found: pyarrow.ChunkedArray, column: Column) -> pyarrow.ChunkedArray:
    """A column as the type that it is to have; MisfitError if that would say something else."""
    if pyarrow.types.is_dictionary(found.type):
        found = found.cast(found.type.value_type)
    if not _fits(found.type, column.type):
        raise MisfitError(
            f"it is of type {found.type}, and was of type {column.type}",
            "Write it as it was; or run 'headwater repair SOURCE' if it is to stay so.",
            column=column.name,
        )
    try:
        return canonical_array(found.cast(arrow_type(column.type)), column.type)
    except pyarrow.ArrowException as error:
        raise MisfitError(
            f"not all its values ({found.type}) are of type {column.type}: {error}",
            column=column.name,
        ) from None
    except NotCanonicalError as error:
        raise MisfitError(error.words, column=column.name) from None


_SAME_VALUES = {
    ("int", "float"),
    ("int", "decimal"),
    ("float", "int"),
    ("decimal", "decimal"),
    ("bytes", "text"),
    ("date", "timestamp"),
}
"""Types of which Arrow makes the same values, or says that it cannot."""


def _fits(kind: pyarrow.DataType, wanted: Type) -> bool:
    if pyarrow.types.is_null(kind):
        return True
    try:
        found = type_of(kind)
    except ValueError:
        return False
    if wanted.name == "array" and found.name == "array":
        return _fits(kind.value_type, wanted.element)
    if wanted.name == "struct" and found.name == "struct":
        parts = {field.name: field.type for field in kind}
        return all(name in parts and _fits(parts[name], part) for name, part in wanted.parts)
    return found == wanted or (found.name, wanted.name) in _SAME_VALUES
