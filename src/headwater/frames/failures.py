"""A failed Spark job as an error of ours: the expression and the row, not a Java stack trace.

Spark says that some row divided by zero; it does not say which. The rows on which an
expression was evaluated can be computed again, so the first that fails is found by
evaluating it on them here, with the same words as for rows in memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import ArithmeticException, NumberFormatException, PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (the name that everybody uses)

from headwater.algebra.expressions import (
    Expression,
    as_written,
    compile_expression,
    failed_on,
    is_late,
    show_expression,
)
from headwater.algebra.rows import Rows
from headwater.errors import (
    EngineError,
    ExpressionError,
    HeadwaterError,
    LostConnectionError,
    SourceError,
    StateLostError,
)

_OF_SOURCE = re.compile(r"^headwater\.errors\.(LostConnectionError|SourceError): (.+)$", re.M)
_SAMPLE = 100_000
"""So many rows are looked at to name the one that fails."""

# A condition as Spark's message opens with it, or a message of Java's.
_WORDS = {
    "[DIVIDE_BY_ZERO": "division by zero",
    "[REMAINDER_BY_ZERO": "division by zero",
    "[ARITHMETIC_OVERFLOW": "the result is outside the range of its type",
    "[BINARY_ARITHMETIC_OVERFLOW": "the result is outside the range of its type",
    "[NUMERIC_VALUE_OUT_OF_RANGE": "the result has too many digits for its type",
    "[CAST_OVERFLOW": "the value is outside the range of the type",
    "[CAST_INVALID_INPUT": "the value is none of the type",
    "[INVALID_FORMAT.ESC": "the LIKE pattern escapes something else than _ % \\",
    "[INVALID_FORMAT": "the text does not fit the format",
    "[INVALID_INDEX_OF_ZERO": "parts count from 1, or from -1 at the end",
    "[INVALID_ARRAY_INDEX": "the array has no such element",
    "[DATETIME_FIELD_OUT_OF_BOUNDS": "there is no such day",
    "[DATETIME_OVERFLOW": "the result is outside the years 1 to 9999",
    "[INVALID_UTF8_STRING": "the bytes are no text in UTF-8",
    "[USER_RAISED_EXCEPTION": "the value is none of the type",
    "Division impossible": "the quotient has more than 39 digits",
}


SPARK_ERRORS = (PySparkException, Py4JJavaError)
"""What a failed job raises: PySpark translates only some of Java's exceptions."""


@dataclass(frozen=True)
class Fragile:
    """An expression that may fail, and where it is evaluated."""

    expression: Expression
    sample: Callable[[Expression, int], Rows]
    """Gives the rows on which it is evaluated, so many at most, with what tells them apart."""
    failing: Callable[[Expression], Rows]
    """Gives a row on which Spark cannot compute it, with what tells it apart."""


_DATA = re.compile(r"SQLSTATE: 22")
"""The class of errors that values are the reason of, in standard SQL and in Spark."""
_JAVA = re.compile(
    r"^(?:java\.util\.(?:\w*Format\w*|regex\.\w+)|java\.lang\.Illegal\w+|java\.time\.[\w.]+"
    r"|org\.xml\.sax\.\w+)\b"
)
"""What functions that only Spark has raise by themselves, on a value that they cannot take."""
_CODES = re.compile(r"^(?:\w+\.[\w.]+: )?(?:\[[A-Z_.]+\] )?| SQLSTATE: \w+.*", re.DOTALL)
_TRACEBACK = "Traceback (most recent call last)"
_OF_PYTHON = re.compile(r"\s*[A-Za-z_][\w.]*(?:Error|Exception): ")
_KEPT = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
"""Rows that were kept by an executor alone: all others that go with one are computed again."""
_LOST = re.compile(
    r"ExecutorLostFailure[^\n]*|[^\n]*has failed the maximum allowable number of times[^\n]*"
    r"|SparkContext was shut down|stopped SparkContext|Master removed our application[^\n]*"
)
"""What Spark says of a job when it has given up to compute again what went with executors."""
_SPACES = re.compile(r"\s+")
_TOLD = re.compile(r"<headwater>(.*?)</headwater>")


def told(message: str, hint: str) -> str:
    """What a plan or a task has to raise, so that a reader is told this."""
    return f"<headwater>{json.dumps([message, hint])}</headwater>"


def told_column(words: Column) -> Column:
    """The same where message and hint are a column, in JSON."""
    kept = F.replace(words, F.lit("<"), F.lit("\\u003c"))
    return F.concat(F.lit("<headwater>"), kept, F.lit("</headwater>"))


def in_words(error: Exception) -> str:
    """Why a job of Spark's has failed, in one line without codes and names of Java's."""
    return without_codes(cause_of(error)) or type(error).__name__


def explained(error: Exception, fragile: Sequence[Fragile]) -> HeadwaterError:
    """The error to raise in the place of Spark's."""
    if (told_of := told_error(error)) is not None:
        return told_of
    if (lost := state_lost(error)) is not None:
        return lost
    if (failed := source_failure(error)) is not None:
        return failed
    words = _words(error)
    if words is None and any(is_late(each.expression) for each in fragile):
        words = cause_of(error) if _JAVA.search(cause_of(error)) else None
    if words is None:
        return EngineError(f"Spark failed: {cause_of(error)}.", "Put that right and try again.")
    for each in fragile:
        try:
            _evaluate(each, words)
        except HeadwaterError as found:
            return found
    shown = " or ".join(
        dict.fromkeys(show_expression(as_written(each.expression)) for each in fragile)
    )
    return ExpressionError(
        f"{shown or 'An expression'} fails on a row: {words}.",
        "Change the view so that this row does not reach the expression, or the row.",
    )


def told_error(error: Exception) -> ExpressionError | None:
    """What a plan or a task has raised for a reader, if it has."""
    if said := _TOLD.findall(str(error)):
        message, hint = json.loads(said[-1])
        return ExpressionError(message, hint)
    return None


def source_failure(error: Exception) -> SourceError | None:
    """What a task that reads a source has failed with, if it has; whether it is worth another try
    is kept."""
    raised = _OF_SOURCE.search(str(error))
    if raised is None:
        return None
    is_lost = raised[1] == LostConnectionError.__name__
    return LostConnectionError(raised[2]) if is_lost else SourceError(raised[2])


def state_lost(error: Exception) -> StateLostError | None:
    """What is to be said if a job has failed because rows that Spark kept are gone."""
    if isinstance(error, StateLostError):
        return error
    text = str(error)
    if _KEPT in text:
        what = "Rows that Spark kept are gone with an executor."
    elif found := _LOST.search(text):
        what = f"Spark has lost executors: {_SPACES.sub(' ', found[0]).strip().rstrip('.')}."
    else:
        return None
    return StateLostError(
        what,
        "It is begun again from the last commit. If that goes on, look at the logs of executors, "
        "and at their memory (spark.executor.memory).",
    )


def _words(error: Exception) -> str | None:
    """What went wrong with a row, or None if it was not a row's fault."""
    text = str(error)
    for name, words in _WORDS.items():
        if name in text:
            return words
    if isinstance(error, ArithmeticException | NumberFormatException):
        return cause_of(error)
    if _DATA.search(text):
        return without_codes(cause_of(error))
    return None


def without_codes(message: str) -> str:
    """A message of Spark's without what only programs read."""
    return _CODES.sub("", message).rstrip(". ;")


def cause_of(error: Exception) -> str:
    """The innermost of Java's messages, or the last of a worker's in Python, in one line."""
    lines = str(error).strip().splitlines()
    raised = [line.strip() for line in lines if _OF_PYTHON.match(line)]
    if _TRACEBACK in str(error) and raised:
        return raised[-1].rstrip(".")
    causes = [line for line in lines if line.startswith(("Caused by: ", ": "))]
    found = (causes or lines)[-1 if causes else 0]
    return found.removeprefix("Caused by").removeprefix(": ").rstrip(".")


def _evaluate(fragile: Fragile, words: str) -> None:
    """Raise what is to be said of the first row that fails, if there is one."""
    if is_late(fragile.expression):
        with suppress(*SPARK_ERRORS):  # where it cannot be caught inside a plan
            for row in (found := fragile.failing(fragile.expression)):
                raise failed_on(fragile.expression, row, found.schema, words)
        return
    rows = fragile.sample(fragile.expression, _SAMPLE)
    evaluate = compile_expression(fragile.expression, rows.schema)
    for row in rows:
        evaluate(row)
