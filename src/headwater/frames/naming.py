"""The names of Spark's jobs, for its own pages: by view and step, such as `order_lines: fold`.

A thread says what it is at; only when it gives Spark something to do is Spark told, so that what
is done without Spark pays nothing for it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROPERTIES = ("spark.jobGroup.id", "spark.job.description")


class _Here(threading.local):
    name: str | None = None
    told: str | None = None
    """The name that Spark has of this thread."""
    session: SparkSession | None = None
    """Which has been told."""


_here = _Here()


@contextmanager
def named(text: str) -> Iterator[None]:
    """Name the jobs that this thread starts inside."""
    before = _here.name
    _here.name = text
    try:
        yield
    finally:
        _here.name = before
        if _here.session is not None and _here.told != before:
            with suppress(Exception):  # the session may be gone
                _tell(_here.session, before)


def tell(spark: SparkSession) -> SparkSession:
    """Tell Spark what this thread is at, if it does not know; before it is given a job."""
    if _here.told != _here.name or (_here.session is not spark and _here.name is not None):
        _tell(spark, _here.name)
    return spark


def _tell(spark: SparkSession, name: str | None) -> None:
    for each in PROPERTIES:
        spark.sparkContext.setLocalProperty(each, name)  # type: ignore[arg-type] # None removes it
    _here.told, _here.session = name, spark if name is not None else None
