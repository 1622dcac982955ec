"""Constants that only Spark can judge are tried before a view is loaded."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from headwater.algebra.functions.late import LATE_FUNCTIONS
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import parse_type
from headwater.algebra.views import View
from headwater.frames.trial import ConstantError, check_constants

R = Relation(
    "r",
    "x",
    Schema.of(
        (name, parse_type(kind))
        for name, kind in {"i": "int", "t": "text", "b": "bytes", "at": "timestamp"}.items()
    ),
)
WRONG = {
    "SPLIT(t, '(')": "split(r.t, '(') has no value for any row: it is no regular expression",
    "TRANSFORM(SPLIT(t, ','), x -> REGEXP_INSTR(x, '[a'))": "'[a') has no value",
    "XPATH_INT(t, 'a[')": "it is no path of XPath",
    "ENCODE(t, 'klingon')": "but got klingon",
    "TRY_TO_DATE(t, 'YYYY-ww')": "it is no pattern of dates and times",
    "CONVERT_TIMEZONE('Nowhere', 'UTC', at)": "there is no such time zone",
    "TO_NUMBER(t, '9.9.9')": "At most one . or D",
    "VARIANT_GET(PARSE_JSON(t), 'a b', 'int')": "it is no path such as $.a[0]",
    "FORMAT_STRING('%d', t)": "the format does not fit the values",
}
VALUES_MAY_FAIL = (
    "TO_DATE(t, 'd.M.yyyy')",
    "TO_NUMBER(t, '99.99')",
    "REGEXP_EXTRACT_ALL(t, 'a', i)",
    "AES_DECRYPT(b, b, 'GCM', 'DEFAULT')",
    "DECODE(b, 'UTF-16')",
    "TO_BINARY(t, 'hex')",
    "ELT(i, 'a', 'b')",
    "FROM_JSON(t, 'x BIGINT').x",
    "XPATH(t, 'a/b')",
)


def view(*expressions: str) -> View:
    listed = ", ".join(f"{each} AS v{at}" for at, each in enumerate(expressions))
    return parse_view(f"SELECT {listed} FROM r", [R])


@pytest.mark.parametrize(("expression", "words"), WRONG.items())
def test_a_constant_with_which_every_row_would_fail_is_told(
    spark: SparkSession, expression: str, words: str
) -> None:
    with pytest.raises(ConstantError) as caught:
        check_constants(spark, view("SOUNDEX(t)", expression))
    assert words in str(caught.value)
    assert "java" not in str(caught.value)
    assert "SQLSTATE" not in str(caught.value)


def test_what_may_fail_on_some_values_only_is_left_to_the_rows(spark: SparkSession) -> None:
    for expression in VALUES_MAY_FAIL:
        check_constants(spark, view(expression))


def test_the_constants_of_all_examples_are_in_order(spark: SparkSession) -> None:
    check_constants(spark, view(*(f.example for f in LATE_FUNCTIONS if f.example)))
