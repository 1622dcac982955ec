"""Parquet: a file's content as an Arrow table in canonical form."""

from __future__ import annotations

import io
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
from headwater.frames.arrow import arrow_type
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
    for field in _opened(content).schema_arrow:
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


def table_of(content: bytes, schema: Schema) -> pyarrow.Table:
    """The columns of a schema; others are passed over."""
    file = _opened(content)
    there = file.schema_arrow.names
    if missing := [name for name in schema.names if name not in there]:
        raise lacking(missing, there)
    try:
        table = file.read(columns=list(schema.names))
    except (pyarrow.ArrowException, OSError) as error:
        raise MisfitError(f"it is damaged: {error}") from None
    columns = []
    for column in schema.columns:
        found = table.column(column.name)
        try:
            if pyarrow.types.is_dictionary(found.type):
                found = found.cast(found.type.value_type)
            columns.append(found.cast(arrow_type(column.type)))
        except pyarrow.ArrowException as error:
            raise MisfitError(
                f"not all its values ({found.type}) are of type {column.type}: {error}",
                column=column.name,
            ) from None
    return pyarrow.Table.from_arrays(columns, names=list(schema.names))
