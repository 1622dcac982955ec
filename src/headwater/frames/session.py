"""The Spark session: one, warm, with the settings on which our values and timings rely.

Values mean what Spark SQL means by them in ANSI mode and in UTC, so those settings are not a
matter of taste: they are set last, and a session that somebody else has started is not
changed but gets a sister with settings of its own. All other settings are the user's before they
are ours (see `told_settings`).
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

from pyspark import SparkContext
from pyspark.sql import SparkSession

from headwater.errors import EngineError, InputError
from headwater.frames.failures import SPARK_ERRORS
from headwater.frames.masters import is_one_machine, require_master
from headwater.frames.told_settings import (
    ARGUMENTS,
    MASTER,
    PYTHON,
    is_submitted,
    told_settings,
    without_legacy,
)
from headwater.frames.worker_python import VARIABLE, offer_own_python, require_own_python

Spark: TypeAlias = SparkSession | Callable[[], SparkSession]
"""A session, or what gives one: then only what is not small is done on Spark."""

MEANING = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.chunkBase64String.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Would put values of the environment into texts such as '${env:HOME}'.
    "spark.sql.variable.substitute": "false",
}
"""Settings that decide what a value is; nobody may change them."""

DEFAULTS = {
    # Would note for every column where Python made it, which triples the time to plan a join.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Larger tables become data instead of a part of the plan: a join with 100,000 rows took a
    # third of the time, measured once on a busy machine.
    "spark.sql.execution.arrow.localRelationThreshold": "262144",
    # Of how large such data is Spark knows nothing, and would shuffle what one task has made.
    "spark.sql.maxSinglePartitionBytes": "9223372036854775807b",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
}
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_LOCAL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "2g",
}
_AT_START = {"spark.ui.showConsoleProgress": "false"}
_ON_ONE_MACHINE = {"spark.ui.enabled": "false"}
_REDACTED = "spark.redaction.regex"
_SECRETS = (
    "(?i)secret|pass(word|wd|phrase)|token|credential|access[._-]?key|account[._-]?key|dsn"
    r"|conn(ection)?[._-]?str|postgres(ql)?://[^/\s]*@"
)
"""What names of settings, or their values, have in them that nobody is shown: in Spark's pages, its
event log and its messages."""


def spark_session(
    settings: Mapping[str, str] | None = None,
    master: str = "local[*]",
    app: str = "headwater",
    existing: SparkSession | None = None,
    log: Path | None = None,
) -> SparkSession:
    """The session in which Headwater works.

    Under `spark-submit` its master holds, whatever `master` says. `existing` is a session that
    runs already: ours then shares its context, with SQL settings apart from its own.
    What the virtual machine says goes to the file `log`, or to standard error.
    """
    _silence_failed_queries()
    if existing is not None:
        theirs = dict(existing.sparkContext.getConf().getAll())
        return _beside(existing, DEFAULTS | theirs | dict(settings or {}) | MEANING)
    told, submitted = told_settings(), is_submitted()
    master = master_of(master)
    given = dict(settings or {})
    given = given | told if submitted else told | given
    here = is_one_machine(master)
    wanted = DEFAULTS | (_LOCAL if here else {}) | given | MEANING
    builder = SparkSession.Builder()
    if not submitted or "spark.app.name" not in told:
        builder = builder.appName(app)
    if not submitted:
        builder = builder.master(master)
        if PYTHON in given:
            os.environ.setdefault(VARIABLE, given[PYTHON])
        if here:
            require_own_python()  # what tasks import is here
        else:
            offer_own_python()
    require_master(master)
    at_start = _AT_START | (_ON_ONE_MACHINE if here and not submitted else {}) | wanted
    at_start[_REDACTED] = "|".join(filter(None, [given.get(_REDACTED), _SECRETS]))
    if not submitted:
        at_start = _local_folder(master) | at_start
        at_start[_JAVA_OPTIONS] = f"{_quiet()} {at_start.get(_JAVA_OPTIONS, '')}".rstrip()
    for key, value in at_start.items():
        if key != MASTER:
            builder = builder.config(key, value)
    with _errors_to(log):
        try:
            if not submitted:
                _start_machine(at_start)
            session = builder.getOrCreate()
        except SPARK_ERRORS as error:
            raise _did_not_start(error, log) from None
    without_legacy(session, given)
    return session


def master_of(master: str) -> str:
    """Where Spark runs, or will, if a project names this master."""
    told, submitted = told_settings(), is_submitted()
    return (told.get(MASTER) if submitted else master or told.get(MASTER)) or "local[*]"


def _local_folder(master: str) -> dict[str, str]:
    """A folder for what Spark puts aside while it works, which nobody else may enter.

    Spark's own choice is a folder that everybody may read, under most umasks.
    """
    is_running = SparkContext._gateway is not None
    if not is_one_machine(master) or "SPARK_LOCAL_DIRS" in os.environ or is_running:
        return {}
    folder = tempfile.mkdtemp(prefix="headwater-spark-")  # mode 0700
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return {"spark.local.dir": folder}


def _start_machine(settings: Mapping[str, str]) -> None:
    """Start Spark's virtual machine, unless it runs, with settings that may be secrets.

    They go into a file that only this user may read, and that is gone afterwards. PySpark would
    put them into the command line, where everybody on the machine can read them.
    """
    number, path = tempfile.mkstemp(prefix="headwater-", suffix=".properties")  # mode 0600
    before = os.environ.get(ARGUMENTS)
    try:
        with os.fdopen(number, "w", encoding="ascii") as file:
            file.writelines(f"{_property(k)}={_property(v)}\n" for k, v in settings.items())
        options = f"--properties-file {shlex.quote(path)} --load-spark-defaults"
        os.environ[ARGUMENTS] = f"{options} {before or 'pyspark-shell'}"
        SparkContext._ensure_initialized()
    finally:
        Path(path).unlink()
        if before is None:
            del os.environ[ARGUMENTS]
        else:
            os.environ[ARGUMENTS] = before


def _property(text: str) -> str:
    """A name or value as Java's property files have it."""
    units = text.encode("utf-16-be")
    codes = (int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))
    return "".join(
        chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\u{code:04x}"
        for code in codes
    )


def _did_not_start(error: Exception, log: Path | None) -> EngineError:
    said = next((line for line in str(error).splitlines() if line.strip()), "")
    where = f" {log} has the details." if log else ""
    return EngineError(
        f"Spark did not start: {re.sub(r'^.[A-Z_.]+. ', '', said).rstrip('.')}.{where}",
        "Check [spark] in headwater.toml.",
    )


@contextmanager
def _errors_to(log: Path | None) -> Iterator[None]:
    """Processes that are started inside write their errors to a file."""
    if log is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    before = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def _beside(existing: SparkSession, wanted: Mapping[str, str]) -> SparkSession:
    session = existing.newSession()
    without_legacy(session, wanted)
    for key, value in wanted.items():
        if session.conf.isModifiable(key):
            if not key.startswith("spark.sql.legacy."):
                session.conf.set(key, value)
        elif key in MEANING and session.conf.get(key, None) != value:
            raise InputError(
                f"The Spark session has {key} = {session.conf.get(key, None)}, and Headwater's "
                f"values need {value}.",
                f"Start it with {key}={value}.",
            )
    return session


def _silence_failed_queries() -> None:
    """PySpark prints a page for a failed query; Headwater raises one sentence instead."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).disabled = True


def _quiet() -> str:
    """Tell the virtual machine of the driver how little to log, from its first line on."""
    return f'-Dlog4j2.configurationFile="{files("headwater.frames") / "log4j2.properties"}"'
