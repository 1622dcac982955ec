"""A project's Spark session: started when it is first needed, looked at, and started again when the
cluster has ended it."""

from __future__ import annotations

import os
import tempfile
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.errors import HeadwaterError, NoExecutorError
from headwater.frames.engine import Engine
from headwater.frames.executors import check_executors
from headwater.frames.masters import is_one_process
from headwater.frames.naming import tell
from headwater.frames.session import master_of, spark_session
from headwater.project.java import check_java
from headwater.project.project import Project
from headwater.storage.location import Location
from headwater.storage.modes import OWN
from headwater.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session_of(
    project: Project, existing: SparkSession | None = None
) -> Callable[[], SparkSession]:
    """The project's Spark session, started when it is first needed, or beside one that runs.

    Executors that are elsewhere are looked at before anything is left to them.
    """
    lock = threading.Lock()
    found: list[SparkSession] = []
    failures: list[HeadwaterError] = []

    def session() -> SparkSession:
        known = len(failures)
        with lock:
            if len(failures) > known:
                raise failures[-1]  # somebody else has found out meanwhile
            if found and existing is None and _is_over(found[0]):
                _forget(found.pop())
            if not found:
                try:
                    started = _started(project, existing)
                    _look_at(project, started)
                except HeadwaterError as error:
                    failures.append(error)
                    raise
                found.append(started)
            return tell(found[0])

    return session


def _started(project: Project, existing: SparkSession | None) -> SparkSession:
    if existing is None:
        check_java()
    settings = project.settings.spark
    log = _log_of(project.warehouse / OWN)
    return spark_session(settings.settings, settings.master, existing=existing, log=log)


def _log_of(own: Location) -> Path:
    """Where Spark's virtual machine may write: beside the views, where that is a folder."""
    if not own.storage.moves_folders:
        number, name = tempfile.mkstemp(prefix="headwater-spark-", suffix=".log")  # mode 0600
        os.close(number)
        return Path(name)
    own.make_folder(durable=False)
    return (own / "spark.log").local


def _look_at(project: Project, session: SparkSession) -> None:
    """See that executors can do their part, in a folder that is as the warehouse's others are."""
    if is_one_process(session.sparkContext.master or ""):
        return
    scratch = Warehouse(project.warehouse).scratch(f"executors-{uuid.uuid4().hex[:12]}")
    folder = Location.of(scratch)
    folder.make_folder(durable=False)
    try:
        check_executors(session, scratch)
    finally:
        folder.remove_tree()


def _is_over(session: SparkSession) -> bool:
    """Whether Spark has ended a session by itself, as it does when its master is gone."""
    context = session.sparkContext._jsc
    return context is None or bool(context.sc().isStopped())


def _forget(session: SparkSession) -> None:
    with suppress(Exception):  # what is left of it
        session.stop()


class ClusterCheck:
    """Has the session of a project that runs on a cluster started at once, beside everything else:
    what is wrong with the cluster is said then, not when there is first much to do."""

    def __init__(self, project: Project, session: Callable[[], SparkSession]) -> None:
        self.failure: HeadwaterError | None = None
        self._session = session
        self._wanted = not is_one_process(master_of(project.settings.spark.master))

    def begin(self) -> None:
        if self._wanted:
            threading.Thread(target=self._look, name="cluster", daemon=True).start()

    def _look(self) -> None:
        try:
            self._session()
        except NoExecutorError:
            pass  # views that need it wait for it
        except HeadwaterError as error:
            self.failure = error


def engine_of(project: Project) -> Engine:
    """The project's engine, whose Spark session is started when it is first needed."""
    settings = project.settings.spark
    return Engine(session_of(project), settings.engine, settings.most_in_memory)
