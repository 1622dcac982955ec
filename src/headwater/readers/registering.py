"""Views made known to a session of Spark: as the format `headwater`, and by their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.project.settings import warehouse_of_project
from headwater.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def register(spark: SparkSession, project: str | Path | None = None) -> list[str]:
    """Make the format `headwater` known to a session; with a project also its views, by name.

    Each view that has been loaded becomes a temporary view with the state that it has now, those
    of one group with states that belong together. Call it again for newer states. The names are
    returned.
    """
    from headwater.readers.source import HeadwaterSource

    spark.createDataFrame([], "n INT")  # makes it the active one, in which Spark looks for the name
    spark.dataSource.register(HeadwaterSource)
    if project is None:
        return []
    warehouse = Warehouse(warehouse_of_project(Path(project)))
    frames = newest_frames(warehouse, spark, warehouse.shown_names())
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    return list(frames)


def newest_frames(
    warehouse: Warehouse, spark: SparkSession, views: Iterable[str]
) -> Mapping[str, DataFrame]:
    """The newest states of views; those of one group belong together: they are of one commit."""
    found: dict[str, DataFrame] = {}
    groups: dict[str, list[str]] = {}
    for name in dict.fromkeys(views):
        if group := warehouse.group_of(name):
            groups.setdefault(group.name, []).append(name)
        else:
            found[name] = warehouse.view(name).dataframe(spark)
    for group_name, names in groups.items():
        found |= warehouse.group(group_name).frames(spark, names=names)
    return found
