"""JSON lines: one object a line, a member for each column; a missing member is NULL."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow

from headwater.algebra.schema import Schema
from headwater.algebra.values import Type, Value, canonical
from headwater.frames.arrow import arrow_array, arrow_schema
from headwater.sources.files.misfits import MisfitError, no_value
from headwater.sources.files.texts import value_of


def objects_of(content: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each object with its line."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise MisfitError(
            f"the byte {content[error.start]:#04x} is none of UTF-8", line=line
        ) from None
    for line, written in enumerate(text.split("\n"), 1):
        if not written.strip():
            continue
        try:
            found = json.loads(written, parse_float=Decimal, object_pairs_hook=_members)
        except MisfitError as error:
            error.line = line
            raise
        except (ValueError, RecursionError):
            raise MisfitError("it is no JSON: it may be cut off", line=line) from None
        if not isinstance(found, dict):
            raise MisfitError("it is no JSON object", line=line)
        yield line, found


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(
            name for name, count in Counter(name for name, _ in pairs).items() if count > 1
        )
        raise MisfitError(f"an object has the member {twice!r} twice")
    return found


def table_of(content: bytes, schema: Schema) -> pyarrow.Table:
    """The columns of a schema; other members are passed over."""
    columns: list[list[Value]] = [[] for _ in schema.columns]
    for line, found in objects_of(content):
        for column, values in zip(schema.columns, columns, strict=True):
            value = found.get(column.name)
            try:
                values.append(_value(value, column.type))
            except (ValueError, OverflowError, TypeError):
                raise no_value(value, column.type, line, column.name) from None
    arrays = [
        arrow_array(values, column.type)
        for values, column in zip(columns, schema.columns, strict=True)
    ]
    return pyarrow.Table.from_arrays(arrays, schema=arrow_schema(schema))


def _value(value: Any, kind: Type) -> Value:
    """ValueError if a JSON value is none of a type."""
    match kind.name, value:
        case _, None:
            return None
        case "array", list():
            return tuple([_value(each, kind.element) for each in value])
        case "struct", dict():
            return tuple([_value(value.get(name), part) for name, part in kind.parts])
        case "text", str():
            value.encode()  # a lone surrogate is no text
            return value
        case "text", list() | dict():
            return _written(value)
        case "struct", _:
            raise ValueError(value)
        case "float", Decimal():
            return value_of(str(value), kind)
        case "decimal", Decimal() | int() if not isinstance(value, bool):
            return value_of(str(value), kind)
        case _, str():
            return value_of(value, kind)
    return canonical(value, kind)


def _written(value: Any) -> str:
    """JSON again, with all digits of its numbers."""
    if isinstance(value, dict):
        members = (f"{_written(name)}: {_written(item)}" for name, item in value.items())
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)
