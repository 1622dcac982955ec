"""How Spark reaches the files of a warehouse: by itself, or through copies on this machine.

Files of a folder it reads and writes itself, and so it does in an object store for which it has a
connector. Where it has none, and runs on this machine alone, it is given copies. A file of a table
never changes, so a copy is good for as long as it is there; one that has not been used for a while
goes.
"""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from headwater.errors import EngineError
from headwater.storage.location import Location
from headwater.warehouse.table_versions import DataFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNUSED_S = 3600.0
_PACKAGES = {
    "s3a": "org.apache.hadoop:hadoop-aws",
    "gs": "com.google.cloud.bigdataoss:gcs-connector",
    "abfss": "org.apache.hadoop:hadoop-azure",
}


def readable(spark: SparkSession, folder: Location, files: Sequence[DataFile]) -> list[str]:
    """Names under which Spark reads these files."""
    if _reaches(spark, folder):
        return [_for_spark(folder / file.name) for file in files]
    return [str(_copied(folder / file.name, file.size)) for file in files]


@contextmanager
def writable(spark: SparkSession, staging: Location) -> Iterator[tuple[str, Location]]:
    """A folder into which Spark may write, by its name for it and by ours; gone afterwards."""
    if _reaches(spark, staging):
        written = staging / staging.storage.fresh_name()
    else:
        written = Location.of(_copies() / staging.storage.fresh_name(), durable=False)
    try:
        yield _for_spark(written), written
    finally:
        written.remove_tree()


def take_over(part: Location, target: Location) -> None:
    """Give a file that Spark has written its place in a table."""
    if part.storage is target.storage or part.storage == target.storage:
        part.adopt(target)
    else:
        with part.open() as file:
            target.write(file.read())


def _for_spark(path: Location) -> str:
    """The name under which Spark's connectors know a file or folder."""
    return re.sub(r"^s3://", "s3a://", path.uri)


def _reaches(spark: SparkSession, place: Location) -> bool:
    """EngineError if Spark neither has a connector nor runs on this machine alone."""
    scheme, is_address, _ = _for_spark(place).partition("://")
    if not is_address or _has_connector(spark, scheme):
        return True
    if (spark.sparkContext.master or "").startswith("local["):
        return False
    raise EngineError(
        f"Spark has no connector for {scheme}://, so its executors cannot read the warehouse.",
        f'Name one under [spark.settings]: "spark.jars.packages" = '
        f'"{_PACKAGES.get(scheme, "...")}:..." of the release that your Spark has.',
    )


@cache
def _has_connector(spark: SparkSession, scheme: str) -> bool:
    machine, context = spark.sparkContext._jvm, spark.sparkContext._jsc
    assert machine is not None
    try:
        machine.org.apache.hadoop.fs.FileSystem.getFileSystemClass(
            scheme, context.hadoopConfiguration()
        )
    except Py4JError:
        return False
    return True


def _copied(path: Location, size: int) -> Path:
    name = re.sub(r"[^\w.-]", "_", path.parent.uri)
    copy = _copies() / name / path.name
    if copy.exists() and copy.stat().st_size == size:
        copy.touch()
        return copy
    copy.parent.mkdir(exist_ok=True)
    _forget_unused()
    draft = copy.with_suffix(f".{path.storage.fresh_name()}")
    with path.open() as file, draft.open("xb") as target:
        shutil.copyfileobj(file, target)
    return draft.rename(copy)


def _forget_unused() -> None:
    for copy in _copies().glob("*/*"):
        if time.time() - copy.stat().st_mtime > _UNUSED_S:
            copy.unlink(missing_ok=True)


@cache
def _copies() -> Path:
    folder = tempfile.mkdtemp(prefix="headwater-copies-")  # mode 0700
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
