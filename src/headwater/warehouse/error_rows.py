"""Rows of a signed log without the column that tells of errors (`algebra.totals`).

What has been folded has no error row: a fold stops before one. So the error rows of a state are
those that are left of its tail when that is summed up, and where none is left, the other rows are
what is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import pyarrow
import pyarrow.compute as pc

from headwater.algebra.operators import CORRECT_IT
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.errors import ExpressionError
from headwater.frames.arrow import COUNT, from_arrow
from headwater.warehouse.netting import summed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def sound_table(signed: pyarrow.Table, column: str, schema: Schema) -> pyarrow.Table:
    """Signed rows of this schema without the column; ExpressionError if an error is left."""
    failed = signed.filter(pc.is_valid(signed[column]))
    if failed.num_rows:
        if left := from_arrow(failed, schema):
            _raise(left, column)
        signed = signed.filter(pc.is_null(signed[column]))
    return signed.drop_columns([column])


def sound_frame(signed: DataFrame, column: str, schema: Schema) -> DataFrame:
    """The same on Spark, which looks for errors at once."""
    failed = summed(signed.where(signed[column].isNotNull()), schema)
    left = from_arrow(failed.where(f"{COUNT} <> 0").limit(1).toArrow(), schema)
    if left:
        _raise(left, column)
    return signed.where(signed[column].isNull()).drop(column)


def _raise(errors: Rows, column: str) -> NoReturn:
    at = errors.schema.positions[column]
    raise ExpressionError(f"{min(str(row[at]) for row in errors)}.", CORRECT_IT)
