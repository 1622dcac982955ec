"""What the user has told Spark by Spark's own means: `spark-submit --conf`, `spark-defaults.conf`.

Such settings win over Headwater's defaults. Under `spark-submit` they win over `headwater.toml` as
well, the master and what else is about deployment above all: the same project is submitted here
and there.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext

MASTER = "spark.master"
PYTHON = "spark.pyspark.python"
ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_GATEWAY = "PYSPARK_GATEWAY_PORT"
_SETTING = re.compile(r"([^\s=:]+)(?:\s*[=:]\s*|\s+)(.*)")
_OPTIONS = {"--master": MASTER, "--driver-memory": "spark.driver.memory"}


def is_submitted() -> bool:
    """Whether `spark-submit` has started this process."""
    return _GATEWAY in os.environ


def told_settings(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Every setting that the user has told Spark, by its name."""
    if is_submitted():
        SparkContext._ensure_initialized()
        return dict(SparkConf().getAll())
    return _defaults(environment) | _arguments(environment.get(ARGUMENTS, ""))


def _defaults(environment: Mapping[str, str]) -> dict[str, str]:
    """What `spark-defaults.conf` has, where Spark looks for it."""
    if folder := environment.get("SPARK_CONF_DIR"):
        path = Path(folder)
    elif home := environment.get("SPARK_HOME"):
        path = Path(home, "conf")
    else:
        return {}
    try:
        lines = (path / "spark-defaults.conf").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    found = (_SETTING.match(line.strip()) for line in lines if not line.strip().startswith("#"))
    return {each[1]: each[2].strip() for each in found if each}


def _arguments(text: str) -> dict[str, str]:
    """What options of a command line have, that PySpark would start Spark with."""
    try:
        words = shlex.split(text)
    except ValueError:
        return {}  # Spark says what is wrong with it
    told: dict[str, str] = {}
    for option, value in pairwise(words):
        if option in ("--conf", "-c"):
            name, _, told[name] = value.partition("=")
        elif option in _OPTIONS:
            told[_OPTIONS[option]] = value
    return told


def without_legacy(session: Any, settings: Mapping[str, str]) -> None:
    """Let a session of ours mean what Spark means by values now, whatever it is told."""
    for name in settings:
        if name.startswith("spark.sql.legacy.") and session.conf.isModifiable(name):
            session.conf.unset(name)
