"""A Delta table's schema in Headwater's types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

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
    parse_type,
    struct_type,
)

TYPES: Mapping[str, Type] = {
    "string": TEXT,
    "long": INT,
    "integer": INT,
    "short": INT,
    "byte": INT,
    "boolean": BOOL,
    "float": FLOAT,
    "double": FLOAT,
    "date": DATE,
    "timestamp": TIMESTAMP_TZ,
    "timestamp_ntz": TIMESTAMP,
    "binary": BYTES,
}


def columns_of(metadata: Mapping[str, Any]) -> tuple[Schema, dict[str, str], dict[str, str]]:
    """The columns that can be used; for all of them what they are there; why others cannot be."""
    return _columns_of(metadata["schemaString"])


@lru_cache(maxsize=64)
def _columns_of(said: str) -> tuple[Schema, dict[str, str], dict[str, str]]:
    found, declared, unusable = [], {}, {}
    for field in json.loads(said)["fields"]:
        name = field["name"]
        declared[name] = _shown(field["type"])
        try:
            found.append(Column(name, type_of(field["type"])))
        except ValueError as error:
            unusable[name] = str(error)
    return Schema(tuple(found)), declared, unusable


def type_of(kind: Any) -> Type:
    """ValueError in words if there is no such type here."""
    if isinstance(kind, str):
        if kind.startswith("decimal"):
            return parse_type(kind if "(" in kind else "decimal(10,0)")
        if kind in TYPES:
            return TYPES[kind]
    elif kind["type"] == "array":
        return array_type(type_of(kind["elementType"]))
    elif kind["type"] == "struct":
        return struct_type([(each["name"], type_of(each["type"])) for each in kind["fields"]])
    raise ValueError(f"its type {_shown(kind)} has no counterpart here")


def _shown(kind: Any) -> str:
    return kind if isinstance(kind, str) else str(kind["type"])
