"""Reads a Delta table by Delta's own reader for Spark, for a Python that has it.

Usage: delta_spark.py FOLDER. Prints the column `n` of all rows, then of the row that each value of
each other column finds through a filter.
"""

import json
import sys

from delta import configure_spark_with_delta_pip  # type: ignore[import-not-found] # only there
from pyspark.sql import SparkSession

COLUMNS = ("n", "s", "d", "t", "z")


def main(folder: str) -> None:
    builder = (
        SparkSession.Builder()
        .master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.databricks.delta.snapshotPartitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config(
            "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        )
    )
    frame = configure_spark_with_delta_pip(builder).getOrCreate().read.format("delta").load(folder)
    rows = frame.collect()
    found = [
        frame.where((frame[column] == row[column]) & (frame["n"] == row["n"])).count()
        for column in COLUMNS
        for row in rows
        if row[column] is not None
    ]
    told = {"rows": sorted(row["n"] for row in rows), "found": sorted(set(found))}
    sys.stdout.write(f"\n{json.dumps(told)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
