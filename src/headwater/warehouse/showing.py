"""What a view with a top shows of a state, on Spark: the plain table, corrected where a tail is.

Where the top can be computed key by key, only the keys that the tail touches are looked at (see
`algebra.touched`). Elsewhere the top is evaluated whole, from what is stored and never from the
sources. Either is computed before a DataFrame is given out: a row on which the top fails is found
here, and not by who reads it later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.algebra.keying import keying
from headwater.algebra.rows import Rows
from headwater.algebra.tops import Top, evaluate_top
from headwater.algebra.touched import Keying, shown_change
from headwater.errors import EngineError
from headwater.frames.small import ROWS
from headwater.warehouse.netting import (
    Patch,
    local_frame,
    patch_of_frame,
    patch_of_rows,
    repeated,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headwater.warehouse.states import ViewState


def shown_frame(state: ViewState, top: Top, spark: SparkSession) -> DataFrame:
    """What a reader sees, duplicates as repeated rows."""
    patch = shown_patch(state, top, spark)
    if patch is not None:
        return patch.applied_to(state.plain_frame(spark))
    return repeated(counted(whole(state, top, spark), spark), state.shown_schema)


def shown_patch(state: ViewState, top: Top, spark: SparkSession) -> Patch | None:
    """What the tail does to the plain rows; None if that is only told by all that is stored."""
    from headwater.frames.frame import Frame  # needs Spark

    by = keying(top) if state.is_published else None
    if by is None:
        return None
    plain = state.plain_frame_with_files(spark)
    change = _change(state, top, by, spark)
    if isinstance(change, Frame):
        found = change.settled(large=state.has_long_tail)
        patch = patch_of_frame(plain, found.dataframe, state.shown_schema)
    else:
        patch = patch_of_rows(spark, plain, change)
    below_zero, _ = patch.touched(plain)
    if below_zero:
        raise EngineError(
            f"The plain table {state.plain.folder} lacks rows that its stored parts show.",
            f"Load the view anew with 'headwater reload {state.commit.view}'.",
        )
    return patch


def _change(state: ViewState, top: Top, by: Keying, spark: SparkSession) -> Rows:
    from headwater.frames.frame import Frame

    stored = Frame.of_dataframe(state.stored_frame(spark), state.schema, signed=True)

    def settle(rows: Rows) -> Rows:
        if isinstance(rows, Frame):
            rows = rows.settled(large=state.has_long_tail)
        return rows if state.is_left_to_spark else _in_memory(rows)

    return shown_change(top, by, stored, state.tail(spark), settle)


def _in_memory(rows: Rows) -> Rows:
    """Rows that Spark has computed, in memory if they are few."""
    from headwater.frames.frame import Frame

    if isinstance(rows, Frame) and len(rows) <= ROWS:
        return rows.collected()
    return rows


def whole(state: ViewState, top: Top, spark: SparkSession) -> Rows:
    """What the top makes of all that is stored, with counts."""
    from headwater.frames.frame import Frame

    stored = Frame.of_dataframe(state.signed(spark), state.schema, signed=True)
    shown = evaluate_top(top, stored)
    return shown.settled() if isinstance(shown, Frame) else shown


def counted(rows: Rows, spark: SparkSession) -> DataFrame:
    """Rows as a DataFrame with their counts."""
    from headwater.frames.frame import Frame

    return rows.dataframe if isinstance(rows, Frame) else local_frame(spark, rows)
