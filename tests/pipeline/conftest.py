from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from headwater.frames.session import spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = spark_session(master="local[2]")
    yield session
    session.stop()
