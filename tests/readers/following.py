"""A process that keeps a table of a view's changes by a streaming query, until it is killed.

Usage: following.py WAREHOUSE FOLDER VERSIONS. The query goes on from its checkpoint in FOLDER, with
up to so many versions in a batch.
"""

import sys

import headwater
from tests.spark import shared_session


def main(warehouse: str, folder: str, versions: str) -> None:
    spark = shared_session()
    headwater.register(spark)
    changes = (
        spark.readStream.format("headwater")
        .options(warehouse=warehouse, changes="true", maxVersionsPerTrigger=versions)
        .load("orders")
    )
    query = (
        changes.writeStream.format("parquet")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .start(f"{folder}/changes")
    )
    sys.stdout.write("started\n")
    sys.stdout.flush()
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
