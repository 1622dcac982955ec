"""What a view with a top shows of a state, on Spark: the plain table, corrected where a tail is.

Where the top can be computed key by key (`keying`), only the keys that the tail touches are looked
at: the top over their stored rows, before the tail and after it, tells which shown rows go and
which come. Elsewhere the top is evaluated whole, from what is stored and never from the sources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.algebra.rows import Rows
from headwater.algebra.tops import Top, evaluate_top
from headwater.warehouse.netting import local_frame, repeated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headwater.warehouse.states import ViewState


def shown_frame(state: ViewState, top: Top, spark: SparkSession) -> DataFrame:
    """What a reader sees, duplicates as repeated rows."""
    return repeated(counted(whole(state, top, spark), spark), state.shown_schema)


def whole(state: ViewState, top: Top, spark: SparkSession) -> Rows:
    """What the top makes of all that is stored, with counts."""
    from headwater.frames.frame import Frame  # needs Spark

    stored = Frame.of_dataframe(state.signed(spark), state.schema, signed=True)
    shown = evaluate_top(top, stored.positive())
    return shown.settled() if isinstance(shown, Frame) else shown


def counted(rows: Rows, spark: SparkSession) -> DataFrame:
    """Rows as a DataFrame with their counts."""
    from headwater.frames.frame import Frame

    return rows.dataframe if isinstance(rows, Frame) else local_frame(spark, rows)
