"""The one Spark session of a test process, started when a test first needs it."""

from functools import cache

from pyspark.sql import SparkSession

from headwater.frames.session import spark_session


@cache
def shared_session() -> SparkSession:
    settings = {
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.memory": "1g",
        # Many small plans, each run once: the optimising compiler would never pay off. Without it
        # the code cache has 48 MB, which a long session fills: nothing is compiled any more then.
        "spark.driver.extraJavaOptions": (
            "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
        ),
    }
    return spark_session(settings, master="local[2]", app="headwater-tests")
