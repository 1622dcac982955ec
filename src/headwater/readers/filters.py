"""Filters that Spark hands to a data source, as expressions of Arrow.

They only leave rows out early: Spark evaluates every filter again. So one that Arrow might take
otherwise than Spark (of floats, of times in other zones, of nested values) is left to Spark alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from functools import reduce

import pyarrow
import pyarrow.compute as pc
from pyspark.sql import datasource as spark

from headwater.algebra.schema import Schema
from headwater.frames.arrow import arrow_type

_COMPARED = {"bool": bool, "int": int, "text": str, "date": date}
"""Types that both compare alike, and the values that filters then have."""


def as_arrow(filters: Iterable[spark.Filter], schema: Schema) -> pc.Expression | None:
    """What is known of the rows that all filters let through; None if nothing is."""
    found = [each for each in (_as_arrow(one, schema) for one in filters) if each is not None]
    return reduce(lambda a, b: a & b, found) if found else None


def _as_arrow(one: spark.Filter, schema: Schema) -> pc.Expression | None:
    path: tuple[str, ...] = getattr(one, "attribute", ())
    if len(path) != 1 or path[0] not in schema.positions:
        return None
    kind = schema.columns[schema.positions[path[0]]].type
    column = pc.field(path[0])
    match one:
        case spark.IsNull():
            return column.is_null()
        case spark.IsNotNull():
            return column.is_valid()
    values = one.value if isinstance(one, spark.In) else (getattr(one, "value", None),)
    wanted = _COMPARED.get(kind.name)
    if wanted is None or any(type(value) is not wanted for value in values):
        return None
    if isinstance(one, spark.In):
        return column.isin(pyarrow.array(values, arrow_type(kind)))
    value = pc.scalar(pyarrow.scalar(values[0], arrow_type(kind)))
    match one:
        case spark.EqualTo() | spark.EqualNullSafe():
            return column == value
        case spark.GreaterThan():
            return column > value
        case spark.GreaterThanOrEqual():
            return column >= value
        case spark.LessThan():
            return column < value
        case spark.LessThanOrEqual():
            return column <= value
    return None
