"""Keeps Spark's workers from sending what a profiler saw where none was at work.

Spark 4.3.0 has the workers that plan a Python data source send two profiles, empty ones too
(SPARK-59135). Over Spark Connect each comes back among the answers of the command that is under
way, and the client of declarative pipelines ends with an error, after a run that was done. A Spark
that sends none has nothing for us to take back.
"""

from __future__ import annotations

import sys


def send_no_empty_profile() -> None:
    """Called in a worker that plans; anywhere else it does nothing."""
    if "pyspark.sql.worker.utils" not in sys.modules or _is_profiled():
        return
    try:
        from pyspark.accumulators import SpecialAccumulatorIds, _accumulatorRegistry
    except ImportError:
        return
    for name, number in vars(SpecialAccumulatorIds).items():
        if name.startswith("SQL_UDF_PROF"):
            _accumulatorRegistry.pop(number, None)


def _is_profiled() -> bool:
    """Whether one is at work: what it saw is not known before this process is done."""
    monitoring = getattr(sys, "monitoring", None)  # since Python 3.12
    if monitoring is not None and monitoring.get_tool(monitoring.PROFILER_ID) is not None:
        return True
    return sys.getprofile() is not None or sys.gettrace() is not None
