"""Why a load has failed, in words, and whether it is worth another try."""

from __future__ import annotations

import re

from headwater.algebra.rows import Rows
from headwater.errors import ExpressionError, HeadwaterError, LostConnectionError
from headwater.frames.failures import SPARK_ERRORS, in_words, state_lost, told_error
from headwater.frames.frame import Frame
from headwater.pipeline.loading import LostSnapshotError

_RAISED = re.compile(r"^headwater\.errors\.(\w+): (.+)$", re.MULTILINE)
"""An error of ours in what Spark tells of a task that failed."""


def failure_of(view: str, error: Exception, shown: Rows | None = None) -> HeadwaterError:
    """Why a view could not be loaded; a lost connection, also of a task, is worth another try.

    `shown` is what was to be computed: it can tell which expression fails on which row.
    """
    text = str(error)
    if (told := told_error(error)) is not None:
        return told
    if (lost := state_lost(error)) is not None:
        return lost
    if "snapshot" in text and "does not exist" in text:
        return LostSnapshotError(f"View {view}: a source closed the snapshot of its load.")
    raised = _RAISED.search(text)
    if raised and raised[1] == LostConnectionError.__name__:
        return LostConnectionError(raised[2])
    if not raised and isinstance(error, SPARK_ERRORS) and isinstance(shown, Frame):
        found = shown.explained(error)
        if isinstance(found, ExpressionError):
            return found
    return HeadwaterError(
        f"View {view} could not be loaded: {raised[2] if raised else _reason(error)}",
        "Nothing was written; 'headwater run' tries again.",
    )


def _reason(error: Exception) -> str:
    if isinstance(error, SPARK_ERRORS):
        return f"{in_words(error)}."
    return next((line for line in str(error).splitlines() if line.strip()), "no reason given")
