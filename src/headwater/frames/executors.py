"""What a cluster's executors have to have, looked at before anything is left to them.

They need the driver's Python, Headwater and what it stands on, and they have to see the folders
into which they write and from which they read. A job asks them, when a session is first used. What
is found there is one sentence; Headwater's own code is sent to those that lack it, or have another
release of it.
"""

from __future__ import annotations

import re
import tempfile
import threading
import uuid
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.errors import EngineError, InputError, NoExecutorError
from headwater.frames.failures import SPARK_ERRORS, in_words
from headwater.frames.masters import is_one_process
from headwater.frames.naming import named, tell
from headwater.version import VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAIT_S = 180.0
"""So long the first executor may take; those of YARN and Kubernetes are started by then."""
NEEDED = ("numpy", "pandas", "psycopg", "pyarrow")
_PACK = "'headwater pack' makes an archive of what they need: see docs/clusters.md."
_MISMATCH = re.compile(r"different version: (\S+) than that in driver: (\S+?),? ")
_NOT_STARTED = re.compile(r'Cannot run program "([^"]+)"')


@dataclass(frozen=True)
class Seen:
    """What one task saw where it ran."""

    host: str
    headwater: str
    """Its release; empty if there is none."""
    missing: Sequence[str]
    """The packages that are not there."""
    unshared: str
    """Why the folder is not the driver's; empty if it is."""
    note: str
    """A file that it has left there."""


def check_executors(spark: SparkSession, folder: Path) -> None:
    """See that executors can do their part, and give Headwater to those that lack it.

    `folder` is one that driver and executors have to share. NoExecutorError if there are none,
    InputError if something is missing.
    """
    if is_one_process(spark.sparkContext.master or ""):
        return
    with named("headwater: look at the executors"):
        seen = _look(spark, folder)
        if any(each.headwater != VERSION for each in seen):
            spark.sparkContext.addPyFile(str(_archive()))
            seen = _look(spark, folder)
    _require(seen, folder)


def _require(seen: Sequence[Seen], folder: Path) -> None:
    for each in seen:
        if each.unshared:
            raise InputError(
                f"Spark's executor on {each.host} does not share the folder {folder} with the "
                f"driver: {each.unshared}.",
                "Put the warehouse into a folder that all machines of the cluster see by the same "
                "path and may write, or into an object store.",
            )
        if each.missing:
            raise InputError(
                f"Python of Spark's executor on {each.host} has no {', '.join(each.missing)}.",
                f"Install headwater=={VERSION} there, or name a Python that has it in "
                f"PYSPARK_PYTHON; {_PACK}",
            )
        if each.headwater != VERSION:
            raise InputError(
                f"Spark's executor on {each.host} uses Headwater {each.headwater or 'nowhere'}, "
                f"and this is {VERSION}.",
                f"Install headwater=={VERSION} there; {_PACK}",
            )


def _look(spark: SparkSession, folder: Path) -> list[Seen]:
    token = uuid.uuid4().hex
    note = folder.absolute() / f"shared-{token}"
    note.write_text(token)
    try:
        found = [Seen(*each) for each in _asked(spark, _looking(str(note), token, NEEDED))]
        return [_with_note(each) for each in found]
    finally:
        for left in note.parent.glob(f"{note.name}*"):
            left.unlink(missing_ok=True)


def _with_note(seen: Seen) -> Seen:
    if seen.unshared or Path(seen.note).exists():
        return seen
    return Seen(seen.host, seen.headwater, seen.missing, "what it writes there is not here", "")


def _asked(spark: SparkSession, look: Callable[[Iterable[int]], Iterator[Any]]) -> list[Any]:
    """What tasks say, one for each core that the cluster has given us."""
    context, found, failed = spark.sparkContext, [], []
    tag = f"headwater-look-{uuid.uuid4().hex[:12]}"

    def ask() -> None:
        try:
            context.addJobTag(tag)
            tell(spark)
            count = max(2, context.defaultParallelism)
            found.extend(context.parallelize(range(count), count).mapPartitions(look).collect())
        except Exception as error:
            failed.append(error)

    with named("headwater: look at the executors"):
        asking = threading.Thread(target=_in_name(ask), name="executors", daemon=True)
        asking.start()
        asking.join(WAIT_S)
    if asking.is_alive():
        with suppress(Exception):  # the session may be gone
            context.cancelJobsWithTag(tag)
        raise NoExecutorError(
            f"Spark's cluster {context.master} has given no executor in {WAIT_S:.0f} seconds.",
            "See that workers are there, and have the cores and the memory that are asked for "
            "(spark.executor.cores, spark.executor.memory); it is tried again.",
        )
    if failed:
        raise _explained(failed[0])
    return found


def _in_name(do: Callable[[], None]) -> Callable[[], None]:
    def done() -> None:
        with named("headwater: look at the executors"):
            do()

    return done


def _explained(error: Exception) -> Exception:
    text = str(error)
    if found := _MISMATCH.search(text):
        return InputError(
            f"Spark's executors run Python {found[1]}, and Headwater runs on {found[2]} here.",
            "Name a Python of the same version there in PYSPARK_PYTHON, as it is called on the "
            f"executors' machines; {_PACK}",
        )
    if found := _NOT_STARTED.search(text):
        return InputError(
            f"Spark's executors have no Python {found[1]}.",
            "Name the one that they have in PYSPARK_PYTHON, as it is called on their machines; "
            f"{_PACK}",
        )
    if isinstance(error, SPARK_ERRORS):
        return EngineError(f"Spark's executors cannot be used: {in_words(error)}.", _PACK)
    return error


def _looking(
    note: str, token: str, needed: Sequence[str]
) -> Callable[[Iterable[int]], Iterator[Any]]:
    """What a task does. It travels by value, since there may be no Headwater where it runs."""

    def look(_: Iterable[int]) -> Iterator[Any]:
        import importlib
        import importlib.util
        import socket
        import time
        import uuid
        from pathlib import Path

        time.sleep(0.05)  # so that one executor does not take all
        missing = [each for each in needed if importlib.util.find_spec(each) is None]
        release = ""
        if not missing and importlib.util.find_spec("headwater") is not None:
            found = importlib.import_module("headwater")
            release = getattr(found, "__version__", "unknown")
        own, wrong = f"{note}-{uuid.uuid4().hex}", ""
        try:
            if Path(note).read_text() != token:
                wrong = "another file is there"
            else:
                Path(own).write_text("")
        except FileNotFoundError:
            wrong = "what the driver has written is not there"
        except OSError as error:
            wrong = (error.strerror or str(error)).lower()
        yield socket.gethostname(), release, missing, wrong, own

    return look


@cache
def _archive() -> Path:
    """Headwater's own code, as Python imports it from an archive."""
    package = Path(str(files("headwater")))
    folder = Path(tempfile.mkdtemp(prefix="headwater-code-"))
    path = folder / f"headwater-{VERSION}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(package.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(package.parent))
    return path
