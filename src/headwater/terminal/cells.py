"""Values of rows for people, and for machines."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal


def as_json_value(value: object) -> object:
    """A value of Spark's as JSON: those that views have as everywhere, others as text.

    Structs are objects, by the names of their fields.
    """
    from pyspark.sql import Row

    from headwater.algebra.values import to_json

    if isinstance(value, Row):
        return {name: as_json_value(each) for name, each in value.asDict().items()}
    if isinstance(value, dict):
        return {name: as_json_value(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json_value(each) for each in value]
    if isinstance(value, bytearray):
        return value.hex()
    if value is None or isinstance(value, bool | int | str | float | Decimal | bytes | date):
        return to_json(value)
    return str(value)


def cell(value: object) -> str:
    """A value for people; arrays and structs as JSON, whose parts cannot be mistaken."""
    if isinstance(value, list | tuple | dict):
        return json.dumps(as_json_value(value), ensure_ascii=False)
    return "NULL" if value is None else str(value)
