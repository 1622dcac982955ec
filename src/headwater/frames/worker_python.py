"""The Python that Spark's tasks run: it has to be the one that runs Headwater.

Spark takes it from an environment variable, and finds out that it is another one in the middle of
the first task that needs it. Here it is looked at before Spark starts, where that is on this
machine.
"""

from __future__ import annotations

import os
import subprocess
import sys

from headwater.errors import InputError

VARIABLE = "PYSPARK_PYTHON"
_LIMIT_S = 60.0
_ASK = (
    "import importlib.util, sys; "
    "found = map(importlib.util.find_spec, ('headwater', 'pyarrow')); "
    "print('%d.%d' % sys.version_info[:2], None not in found)"
)


def require_own_python() -> None:
    """Let tasks run what this process runs; InputError if something else is asked for."""
    chosen = os.environ.setdefault(VARIABLE, sys.executable)
    if chosen == sys.executable:
        return
    own = "{}.{}".format(*sys.version_info)
    match _asked(chosen):
        case [version, "True"] if version == own:
            return
        case [version, "False"] if version == own:
            wrong = "in which Headwater is not installed with what it needs"
        case [version, _]:
            wrong = f"Python {version}"
        case _:
            wrong = "which cannot be started as a Python"
    raise InputError(
        f"{VARIABLE} is set to {chosen}, {wrong}; Headwater runs on Python {own}, and Spark's "
        "tasks have to as well.",
        f"Unset {VARIABLE}, or set it to {sys.executable}.",
    )


def offer_own_python() -> None:
    """On a cluster another one may be meant; nobody has said so, unless the variable is set."""
    os.environ.setdefault(VARIABLE, sys.executable)


def _asked(executable: str) -> list[str]:
    """The version of a Python, and whether it finds Headwater; nothing if it does not tell."""
    try:
        done = subprocess.run(
            [executable, "-c", _ASK], capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.split()
