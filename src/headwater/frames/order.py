"""Orders of rows on Spark, completed by all columns, and the first rows in one.

Spark sorts as `algebra.order` does: NULL first where nothing else is said, NaN after every other
number, texts by code point.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, Window
from pyspark.sql import functions as F  # noqa: N812 (the name that everybody uses)

from headwater.algebra.order import Order
from headwater.algebra.schema import Schema
from headwater.frames.arrow import COUNT
from headwater.frames.expressions import place
from headwater.frames.held import Held

_UP_TO_HERE = "_up_to_here"


def sort_columns(schema: Schema, order: Sequence[Order]) -> list[Column]:
    """What rows are sorted by, as far as `order` goes, on columns by place."""
    return [_sorted(F.col(place(schema.positions[one.column])), one) for one in order]


def completed(schema: Schema, order: Sequence[Order]) -> list[Column]:
    """The order completed by all columns."""
    named = {one.column for one in order}
    rest = [Order(name) for name in schema.names if name not in named]
    return sort_columns(schema, [*order, *rest])


def _sorted(column: Column, order: Order) -> Column:
    if order.descending:
        return column.desc_nulls_last() if order.nulls_last else column.desc_nulls_first()
    return column.asc_nulls_last() if order.nulls_last else column.asc_nulls_first()


def first_of(held: Held, order: Sequence[Column], limit: int | None, offset: int) -> Held:
    """The first rows of merged and unsigned ones, behind `offset` others.

    Each counts at least once, so that no more rows need to be sorted than are skipped and wanted.
    """
    data, most = held.data, held.most
    if limit is not None:
        most = min(most, limit + offset)
        data = data.orderBy(*order).limit(limit + offset)
    up_to_here = F.sum(COUNT).over(Window.orderBy(*order).rowsBetween(Window.unboundedPreceding, 0))
    numbered = data.withColumn(_UP_TO_HERE, up_to_here)
    start = F.greatest(F.col(_UP_TO_HERE) - F.col(COUNT), F.lit(offset).cast("bigint"))
    end = F.col(_UP_TO_HERE)
    if limit is not None:
        end = F.least(end, F.lit(offset + limit).cast("bigint"))
    chosen = numbered.select(*held.schema.names, (end - start).alias(COUNT))
    first = held.derived(chosen.where(F.col(COUNT) > 0))
    first.most = most
    return first
