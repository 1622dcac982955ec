"""Constants and type names of a view's SQL, as Spark reads them."""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from decimal import Decimal

from sqlglot import exp

from headwater.algebra.expressions import Literal
from headwater.algebra.sql.text import RefusalError
from headwater.algebra.values import (
    BOOL,
    BYTES,
    DATE,
    FLOAT,
    INT,
    INT_MAX,
    INT_MIN,
    TEXT,
    TIMESTAMP,
    TIMESTAMP_TZ,
    Type,
    Value,
    canonical,
    decimal_type,
)

_DATE = r"\d{4}-\d\d-\d\d"
_TIME = rf"{_DATE}(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{{1,6}})?)?)?"
_FORMATS = {
    DATE: (re.compile(_DATE), "DATE '2024-01-31'"),
    TIMESTAMP: (re.compile(_TIME), "TIMESTAMP_NTZ '2024-01-31 12:30:00'"),
    TIMESTAMP_TZ: (
        re.compile(rf"{_TIME}(?:Z|[+-]\d\d:\d\d)"),
        "TIMESTAMP_NTZ '2024-01-31 12:30:00' or TIMESTAMP '2024-01-31 12:30:00+00:00'",
    ),
}
ZONE_HINT = (
    "TIMESTAMP depends on the time zone of the session; "
    "TIMESTAMP_NTZ is a timestamp without a zone."
)
_TYPES = {
    "BOOLEAN": BOOL,
    "INT": INT,
    "BIGINT": INT,
    "FLOAT": FLOAT,
    "DOUBLE": FLOAT,
    "TEXT": TEXT,
    "BINARY": BYTES,
    "DATE": DATE,
    "TIMESTAMPNTZ": TIMESTAMP,
    "TIMESTAMPTZ": TIMESTAMP_TZ,
    "TIMESTAMPLTZ": TIMESTAMP_TZ,
}
_TYPE_HINT = (
    "There are BOOLEAN, BIGINT, DECIMAL(p,s), DOUBLE, STRING, BINARY, DATE, "
    "TIMESTAMP_NTZ and TIMESTAMP."
)


def number(text: str, sign: int = 1) -> Literal:
    """A number as it is written: with an exponent a float, with a point a decimal."""
    if "e" in text.lower():
        value = sign * float(text)
        if not math.isfinite(value):
            raise RefusalError(f"{text} is outside the range of float.", "Write a smaller number.")
        return Literal(canonical(value, FLOAT), FLOAT)
    exact = Decimal(text) if sign > 0 else Decimal(text).copy_negate()
    if "." not in text and INT_MIN <= exact <= INT_MAX:
        return Literal(int(exact), INT)
    digits, exponent = exact.as_tuple().digits, exact.as_tuple().exponent
    assert isinstance(exponent, int)
    kind = decimal_type(max(len(digits), -exponent), -exponent)
    return Literal(canonical(exact, kind), kind)


def dated(text: str, kind: Type) -> Literal:
    """A date or timestamp that is written as text."""
    shape, example = _FORMATS[kind]
    if not shape.fullmatch(text.strip()):
        without_zone = kind == TIMESTAMP_TZ and re.fullmatch(_TIME, text.strip())
        if without_zone:
            raise RefusalError(
                f"TIMESTAMP '{text}' has no time zone.", f"{ZONE_HINT} Write {example}."
            )
        raise RefusalError(f"'{text}' is not a {kind}.", f"Write it as {example}.")
    try:
        return Literal(canonical(_parsed(text.strip(), kind), kind), kind)
    except (ValueError, OverflowError) as error:
        raise RefusalError(
            f"'{text}' is not a {kind}: {error}.", f"Write it as {example}."
        ) from None


def _parsed(text: str, kind: Type) -> Value:
    return date.fromisoformat(text) if kind == DATE else datetime.fromisoformat(text)


def constant_decimal(text: str, kind: Type) -> Literal | None:
    """The decimal that a text spells, as in 1.5BD, which sqlglot reads as a cast of '1.5'."""
    if re.fullmatch(r"\d+\.?\d*|\.\d+", text):
        return Literal(canonical(Decimal(text), kind), kind)
    return None


def type_of(node: exp.DataType) -> Type:
    """The type that a type name of Spark stands for."""
    name = node.this.name if isinstance(node.this, exp.DType) else str(node.this)
    if name == "DECIMAL":
        if not all(parameter.name.isdecimal() for parameter in node.expressions):
            raise RefusalError("DECIMAL takes numbers of digits.", "Write DECIMAL(10,2).")
        sizes = [int(parameter.name) for parameter in node.expressions]
        return decimal_type(*(sizes if len(sizes) == 2 else [*(sizes or [10]), 0]))
    if name in _TYPES:
        return _TYPES[name]
    raise RefusalError(f"type {node.sql('spark')} is not supported.", _TYPE_HINT)
