"""PostgreSQL's operators for JSON as Spark columns, by the very code that rows in memory have.

Spark computes what Python does before everything else of a plan, and so also on rows that a
condition keeps from it. So Python never fails here: it gives a mark, of which the plan makes a
failure where the value is used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from pyspark import SparkContext
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (the name that everybody uses)

from headwater.algebra.expressions import Call, Literal
from headwater.algebra.functions.json_text import NO_JSON
from headwater.algebra.functions.table import FUNCTIONS
from headwater.algebra.values import TEXT, Value

JSON_OPERATORS = ("->", "->>", "#>", "#>>")
_FAILED, _FOUND = "", "="
"""What is given for a text that is no JSON, and what stands before all others."""


def json_column(call: Call, text: Column) -> Column:
    """A call of one of them on this column."""
    key = call.arguments[1]
    assert isinstance(key, Literal)
    marked = _reader(str(_context().applicationId), call.operator, key.value)(text)
    failure = F.raise_error(F.lit(NO_JSON))
    return F.when(marked == F.lit(_FAILED), failure).otherwise(F.substring(marked, 2, _MOST))


_MOST = 2**31 - 1


def _context() -> SparkContext:
    context = SparkContext._active_spark_context
    assert context is not None
    return context


@lru_cache(maxsize=1024)
def _reader(application: str, operator: str, key: Value) -> Callable[[Column], Column]:
    """One for each key, so that Spark sees that it is the same wherever it is used."""
    read = FUNCTIONS[operator].value((TEXT, TEXT), TEXT)

    def marked(text: str | None) -> str | None:
        if text is None:
            return None
        try:
            found = read(text, key)
        except ValueError:
            return _FAILED
        return None if found is None else _FOUND + found

    return F.udf(marked, "string", useArrow=True)
