"""Where a plan is carried out: few rows as they are, more in columns, and very many by Spark.

The plan is the same everywhere. Spark and Arrow are imported when they are needed, and not before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.frames.small import ROWS
from headwater.sharing.carrying_out import Lift, as_it_is
from headwater.sharing.plans import walk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.sharing.planning import ViewPlan

StartSpark = Callable[[], "SparkSession"]


def start_spark() -> SparkSession:
    """A session of one's own on this machine."""
    from headwater.frames.session import spark_session

    return spark_session()


def lift_for(plan: ViewPlan, start: StartSpark = start_spark) -> Lift:
    """How a plan's rows are held, from how many there are estimated to be."""
    return lift_for_rows(rows_of(plan), start)


def lift_for_rows(rows: float, start: StartSpark = start_spark) -> Lift:
    """How so many rows in all are held."""
    if rows <= ROWS:
        return as_it_is
    from headwater.frames.engine import Engine

    return Engine(start).lift


def rows_of(plan: ViewPlan) -> float:
    """How many rows a plan reads and makes, in all; what is needed more than once counts once."""
    return sum(plan.scales.weigh(node).rows for node in set(walk(plan.change)))
