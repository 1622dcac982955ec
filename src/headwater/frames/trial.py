"""Constants that only Spark can judge: patterns, formats, character sets, time zones.

Spark looks at them when a row comes along, and then fails on every row. So before a view is loaded,
each call of a late function with a constant text is tried once, with values that nothing is wrong
with in the place of columns. What fails for another reason than its constants is left alone: the
row on which it does is told where it happens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

from pyspark.sql import SparkSession

from headwater.algebra.expressions import Call, Expression, Literal, as_written, show_expression
from headwater.algebra.functions.late import LAMBDA, LATE
from headwater.algebra.left_to_spark import late_calls
from headwater.algebra.schema import Schema
from headwater.algebra.values import Type, Value
from headwater.algebra.views import View
from headwater.errors import InputError
from headwater.frames.expressions import to_column
from headwater.frames.failures import SPARK_ERRORS, in_words

_NO_COLUMNS = Schema(())
_SAMPLES: dict[str, Value] = {
    "bool": True,
    "int": 0,
    "float": 0.0,
    "decimal": Decimal(0),
    "text": "a",
    "bytes": b"a",
    "date": date(2024, 1, 1),
    "timestamp": datetime(2024, 1, 1),
    "timestamp_tz": datetime(2024, 1, 1, tzinfo=UTC),
}
_OWN_SAMPLES: dict[str, dict[str, Value]] = {
    "xpath": {"text": "<a/>"},
    "make_timestamp": {"int": 1},
    "try_make_timestamp": {"int": 1},
    "variant_get": {"text": "{}"},
    "try_variant_get": {"text": "{}"},
}
"""Of functions by what their names begin with, where another value would be wrong by itself."""
_OF_CONSTANTS: dict[str, str] = {
    r"INVALID_DATETIME_PATTERN": "it is no pattern of dates and times",
    r"DATETIME_PATTERN_RECOGNITION": "it is no pattern of dates and times",
    r"INVALID_TIMEZONE": "there is no such time zone",
    r"INVALID_PARAMETER_VALUE\.PATTERN": "it is no regular expression",
    r"^IllegalArgumentException: .* near index \d": "it is no regular expression",
    r"Invalid XPath": "it is no path of XPath",
    r"^IllegalArgumentException: (?:Conversion|Format specifier|Flags|\w != )": (
        "the format does not fit the values"
    ),
    r"JsonParseException": "it is no JSON",
    r"INVALID_VARIANT_GET_PATH": "it is no path such as $.a[0]",
    r"INVALID_PARAMETER_VALUE\.(?!AES)": "",
    r"INVALID_FORMAT\.(?!MISMATCH_INPUT)": "",
    r"DATATYPE_MISMATCH\.|PARSE_SYNTAX_ERROR": "",
    r"^IllegalArgumentException: [^\[]": "",
}
"""What tells that a constant is wrong, and not a value; how to say it, if not in Spark's words."""


class ConstantError(InputError):
    """A constant in a view with which a function of Spark's can compute nothing."""

    def __init__(self, call: Call, words: str) -> None:
        self.operator = call.operator
        self.constants = [text for each in call.arguments if (text := _text(each)) is not None]
        shown = show_expression(as_written(call))
        super().__init__(f"{shown} has no value for any row: {words}.", "Change the constant.")


def check_constants(spark: SparkSession, view: View) -> None:
    """ConstantError for the first call of a view that fails whatever the rows are."""
    tried = [call for top in view.tops for call in late_calls(top) if _has_constants(call)]
    if not tried or _fails(spark, tried) is None:
        return
    for call in tried:
        if words := _fails(spark, [call]):
            raise ConstantError(call, words)


def _has_constants(call: Call) -> bool:
    """Whether there is one to try; of functions of functions, those inside are tried."""
    takes_function = any(isinstance(a, Call) and a.operator == LAMBDA for a in call.arguments)
    return not takes_function and any(_text(each) is not None for each in call.arguments)


def _text(argument: Expression) -> str | None:
    """The text that an argument is, if it is a constant."""
    value = argument.value if isinstance(argument, Literal) else None
    return value if isinstance(value, str) else None


def _fails(spark: SparkSession, calls: Iterable[Call]) -> str | None:
    """What is wrong with the constants of some calls; nothing is done by tasks."""
    try:
        row = spark.createDataFrame([(1,)], "_ long")
        row.select(*(to_column(_sampled(call), _NO_COLUMNS) for call in calls)).collect()
    except SPARK_ERRORS as error:
        said = f"{type(error).__name__}: {error}"
        for pattern, words in _OF_CONSTANTS.items():
            if re.search(pattern, said):
                return words or in_words(error)
    return None


def _sampled(call: Call) -> Call:
    """The call with values in the place of all that is no constant."""
    name = call.operator.removeprefix(LATE)
    own = next((own for begin, own in _OWN_SAMPLES.items() if name.startswith(begin)), {})
    samples = _SAMPLES | own
    return replace(
        call,
        arguments=tuple(
            each if isinstance(each, Literal) else Literal(_sample(each.type, samples), each.type)
            for each in call.arguments
        ),
    )


def _sample(kind: Type, samples: dict[str, Value]) -> Value:
    if kind.is_nested:
        return tuple(_sample(part, samples) for _, part in kind.parts)
    return samples.get(kind.name)
