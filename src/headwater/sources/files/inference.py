"""The types of columns, told from a first file where nobody has declared them.

Choices: whole numbers with zeros in front are texts, as postcodes are. Numbers with a point are
decimals where all have as many digits behind it, as money has, and floats else. What a later file
has must fit what the first one had; that is what declaring columns is for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow

from headwater.algebra.schema import Column, Schema
from headwater.algebra.values import (
    BOOL,
    DATE,
    FLOAT,
    INT,
    MAX_DECIMAL_DIGITS,
    TEXT,
    TIMESTAMP,
    TIMESTAMP_TZ,
    Type,
    decimal_type,
)
from headwater.sources.files.texts import PLAIN, NoValueError, Wording, column_of

_WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]*)")
_MONEY_DIGITS = 18
_BOOLEANS = {"true", "false"}


_NO_VALUE = "it has no value in the first file: declare its type in columns"


def schema_of_texts(
    table: pyarrow.Table, wording: Wording = PLAIN
) -> tuple[Schema, dict[str, str]]:
    """The columns of a table of texts, and why some cannot be used."""
    columns, unusable = [], {}
    for name in table.column_names:
        kind = _type_of_texts(table.column(name), wording)
        if kind is None:
            unusable[name] = _NO_VALUE
        else:
            columns.append(Column(name, kind))
    return Schema(tuple(columns)), unusable


def _type_of_texts(column: pyarrow.ChunkedArray, wording: Wording) -> Type | None:
    texts = {text for text in column.to_pylist() if text is not None}
    if not texts:
        return None
    if all(map(_WHOLE.fullmatch, texts)):
        return INT if _fits(texts, INT, wording) else TEXT
    if {text.lower() for text in texts} <= _BOOLEANS:
        return BOOL
    mark = re.escape(wording.decimal_mark)
    points = [re.fullmatch(rf"[+-]?(0|[1-9][0-9]*){mark}([0-9]+)", text) for text in texts]
    scales = {len(match[2]) for match in points if match}
    if all(points) and len(scales) == 1 and (scale := scales.pop()) <= _MONEY_DIGITS:
        for digits in (_MONEY_DIGITS, MAX_DECIMAL_DIGITS):
            kind = decimal_type(digits, scale)
            if _fits(texts, kind, wording):
                return kind
    for kind in (FLOAT, DATE, TIMESTAMP, TIMESTAMP_TZ):
        if kind == FLOAT and any(re.match(r"[+-]?0[0-9]", text) for text in texts):
            continue
        if _fits(texts, kind, wording):
            return kind
    return TEXT


def _fits(texts: Iterable[str], kind: Type, wording: Wording) -> bool:
    try:
        column_of(pyarrow.chunked_array([pyarrow.array(texts, pyarrow.string())]), kind, wording)
    except NoValueError:
        return False
    return True


def schema_of_objects(objects: Iterable[Mapping[str, Any]]) -> tuple[Schema, dict[str, str]]:
    """The members of objects as columns, and why some cannot be used."""
    kinds: dict[str, set[str]] = {}
    scales: dict[str, set[int]] = {}
    for found in objects:
        for name, value in found.items():
            of = kinds.setdefault(name, set())
            if value is not None:
                of.add(type(value).__name__)
            if isinstance(value, Decimal):
                exponent = value.as_tuple().exponent
                scales.setdefault(name, set()).add(
                    -exponent if isinstance(exponent, int) and "E" not in str(value) else -1
                )
    columns, unusable = [], {}
    for name, of in kinds.items():
        if of & {"list", "dict"}:
            unusable[name] = "it has arrays or objects: declare its type in columns"
        elif not of:
            unusable[name] = _NO_VALUE
        else:
            columns.append(Column(name, _type_of_values(of, scales.get(name, set()))))
    return Schema(tuple(columns)), unusable


def _type_of_values(kinds: set[str], scales: set[int]) -> Type:
    if kinds == {"bool"}:
        return BOOL
    if kinds == {"int"}:
        return INT
    if (
        kinds == {"Decimal"}
        and len(scales) == 1
        and 0 < (scale := next(iter(scales))) <= _MONEY_DIGITS
    ):
        return decimal_type(MAX_DECIMAL_DIGITS, scale)
    if kinds <= {"int", "Decimal", "float"}:
        return FLOAT
    return TEXT
