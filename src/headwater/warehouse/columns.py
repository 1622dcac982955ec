"""A view's columns as Delta, Arrow and Spark know them, and which of them are refused."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import Type, array_type, parse_type, struct_type
from headwater.errors import EngineError, InputError
from headwater.frames.arrow import COUNT, signed_schema
from headwater.frames.spark_types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COMMIT = "_commit"
"""The column of the signed log that holds the number of the commit a row came with."""

VERSION = "_version"
CHANGE = "_change"
"""The columns of a table of changes: the version that a change led to, and its count."""

HASH = "_headwater_hash"
FILE = "_headwater_file"

_DELTA = {
    "boolean": "bool",
    "long": "int",
    "double": "float",
    "string": "text",
    "binary": "bytes",
    "date": "date",
    "timestamp_ntz": "timestamp",
    "timestamp": "timestamp_tz",
}


def check_name(name: str) -> str:
    """A view's name, if it can be the name of a folder and of a table."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_]*", name):
        raise InputError(
            f"The view name '{name}' cannot be used.",
            "Use letters of the Latin alphabet, digits and underscores, not an underscore first.",
        )
    return name


def check_columns(view: str, schema: Schema, also: Collection[str] = ()) -> None:
    """Refuse what a Delta table cannot hold, or what Headwater needs for itself."""
    seen: set[str] = set()
    for column in schema.columns:
        problem = ""
        if column.name.lower() in (COUNT, COMMIT, HASH, FILE, *also):
            problem = "has a name that Headwater uses itself"
        elif column.name.lower() in seen:
            problem = "differs from another column only in upper and lower case"
        elif not column.name or re.search(r"[ ,;{}()\n\t=]", column.name):
            problem = "has a name that Delta tables do not allow (spaces and ,;{}()= are refused)"
        if problem:
            raise InputError(
                f"The column '{column.name}' of the view {view} {problem}.",
                "Give it another name with AS.",
            )
        if column.type.name == "void":
            raise InputError(
                f"The column '{column.name}' of the view {view} is NULL without a type.",
                "Give it one with CAST(NULL AS ...).",
            )
        seen.add(column.name.lower())


def check_change(view: str, schema: Schema, change: Rows | DataFrame) -> None:
    """Refuse rows that do not have the view's columns and types, and a count if in a DataFrame."""
    found: Any
    expected: Any
    if isinstance(change, Rows):
        found, expected = change.schema, schema
    else:
        found, expected = (
            [(field.name, field.dataType) for field in fields]
            for fields in (change.schema.fields, spark_schema(schema, COUNT).fields)
        )
    if found != expected:
        raise EngineError(
            f"Rows for the view {view} have the columns {found}.",
            f"The view has {expected}: load it again if its definition has changed.",
        )


def log_arrow_schema(schema: Schema) -> pyarrow.Schema:
    return signed_schema(schema).append(pyarrow.field(COMMIT, pyarrow.int64()))


@lru_cache(maxsize=256)
def schema_from_delta(text: str) -> Schema:
    """The view's schema, read from a table's; the log's own columns are left out."""
    fields: list[dict[str, Any]] = json.loads(text)["fields"]
    return Schema.of(
        (field["name"], _type_from_delta(field["type"]))
        for field in fields
        if field["name"] not in (COUNT, COMMIT)
    )


def _type_from_delta(found: Any) -> Type:
    """A type as Delta names it; ValueError, KeyError or the like if it is none of ours."""
    if isinstance(found, str):
        return parse_type(_DELTA.get(found, found))
    match found["type"]:
        case "array":
            return array_type(_type_from_delta(found["elementType"]))
        case "struct":
            return struct_type((f["name"], _type_from_delta(f["type"])) for f in found["fields"])
    raise ValueError(f"unknown type {found['type']!r}")
