"""Engine: whether relations are worked on in memory, row by row or in columns, or by Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.frames.columns import FEW, Columns
from headwater.frames.frame import Frame
from headwater.frames.session import Spark
from headwater.frames.small import ROWS, THRESHOLD


@dataclass(frozen=True)
class Engine:
    """In the mode `spark` all rows are Frames. In `auto` those above the threshold are, few rows
    are `Rows`, and what is in between is `Columns`."""

    start: Callable[[], SparkSession]
    """Gives the session; called when a Frame is first needed."""
    mode: Literal["auto", "spark"] = "auto"
    threshold: int = THRESHOLD

    @property
    def spark(self) -> SparkSession:
        return self.start()

    @property
    def spark_from(self) -> int:
        """Relations of more rows are worked on by Spark."""
        return 0 if self.mode == "spark" else self.threshold

    @property
    def for_small(self) -> Spark:
        """What work that may be small is given: in `auto` it then need not start Spark, unless the
        threshold says that less is too much already."""
        return self.start if self.mode == "auto" and self.threshold >= ROWS else self.start()

    def lift(self, rows: Rows) -> Rows:
        """Rows that come in, held as suits their number."""
        if isinstance(rows, Frame):
            return rows
        if self._is_for_spark(rows):
            return Frame.of_rows(self.spark, rows)
        return Columns.of_rows(rows) if rows.size_hint > FEW else rows

    def receive(self, rows: Rows) -> Rows:
        """Rows of an answer. What they are made of is here already, so where they stay on Spark
        they are computed once with what is done to them next, and not by a job of their own."""
        return rows if self.mode == "spark" and isinstance(rows, Frame) else self.settle(rows)

    def settle(self, rows: Rows) -> Rows:
        """Rows that are to be kept, computed; in memory where that is better from here on."""
        if isinstance(rows, Frame) and not self._is_for_spark(rows.settled()):
            rows = rows.in_columns()
        if isinstance(rows, Columns) and len(rows) <= FEW:
            rows = rows.collected()
        return self.lift(rows)

    def _is_for_spark(self, rows: Rows) -> bool:
        return self.mode == "spark" or rows.size_hint > self.spark_from
