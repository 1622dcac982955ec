"""Values that stand in a file as texts: the one meaning of each, and Arrow's quicker way to it.

A whole column is converted by Arrow where Arrow reads what is meant here; where it does not, or
refuses, each value is read by `value_of`, which finds the one that does not fit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from math import isinf

import pyarrow
import pyarrow.compute as pc

from headwater.algebra.values import Type, Value, canonical
from headwater.frames.arrow import arrow_array, arrow_type
from headwater.frames.canonical import NotCanonicalError, canonical_array

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NOT_FINITE = {"nan": "nan", "inf": "inf", "infinity": "inf", "-inf": "-inf", "-infinity": "-inf"}
_WORDS = {"true": True, "1": True, "false": False, "0": False}
_STRANGE = "[^0-9+-]"
_TOO_FINE = "[.,][0-9]{6}[0-9]*[1-9]"


@dataclass(frozen=True)
class Wording:
    """How values are written in a file."""

    decimal_mark: str = "."
    date_format: str = ""
    timestamp_format: str = ""


PLAIN = Wording()


def value_of(text: str, kind: Type, wording: Wording = PLAIN) -> Value:
    """ValueError if a text is no value of a type."""
    match kind.name:
        case "text":
            return text
        case "bytes":
            return bytes.fromhex(text)
        case "bool":
            if text.lower() not in _WORDS:
                raise ValueError(text)
            return _WORDS[text.lower()]
        case "int":
            if not _INTEGER.fullmatch(text):
                raise ValueError(text)
            return canonical(int(text), kind)
        case "decimal":
            return _decimal(_number(text, wording), kind)
        case "float":
            low = text.lower()
            found = float(_NOT_FINITE[low] if low in _NOT_FINITE else _number(text, wording))
            if isinf(found) and low not in _NOT_FINITE:
                raise ValueError(f"{text} is outside the range of float")
            return canonical(found, kind)
        case "date":
            if wording.date_format:
                return datetime.strptime(text, wording.date_format).date()
            return date.fromisoformat(text)
        case "timestamp" | "timestamp_tz":
            if wording.timestamp_format:
                return canonical(datetime.strptime(text, wording.timestamp_format), kind)
            if re.search(_TOO_FINE, text):
                raise ValueError(f"{text} has more than microseconds")
            return canonical(datetime.fromisoformat(text), kind)
    raise ValueError(f"values of type {kind} are not written as texts")


def _number(text: str, wording: Wording) -> str:
    if wording.decimal_mark != ".":
        if "." in text:
            raise ValueError(text)
        text = text.replace(wording.decimal_mark, ".")
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    return text


def _decimal(text: str, kind: Type) -> Value:
    """A decimal with more digits behind its point than there is room for is none of this type."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError(text) from None
    found = canonical(number, kind)
    if found != number:
        raise ValueError(f"{text} has more decimals than {kind}")
    return found


class NoValueError(Exception):
    """A row's text is no value of its column's type."""

    def __init__(self, row: int, text: str) -> None:
        super().__init__(text)
        self.row = row
        self.text = text


def column_of(
    texts: pyarrow.ChunkedArray, kind: Type, wording: Wording = PLAIN
) -> pyarrow.ChunkedArray:
    """A column of texts, NULLs among them, as its values; NoValueError for the first other."""
    if kind.name == "text":
        return texts.cast(arrow_type(kind))
    if wording == PLAIN and kind.name in ("int", "float", "decimal", "date", "timestamp"):
        try:
            return _cast(texts, kind)
        except (pyarrow.ArrowException, NotCanonicalError, ValueError):
            pass  # which one it is, or what only Arrow does not take
    return pyarrow.chunked_array([arrow_array(_values(texts.to_pylist(), kind, wording), kind)])


_ARROW_TAKES = {"int": _STRANGE, "timestamp": _TOO_FINE}
"""What Arrow takes, or takes otherwise, and we do not."""


def _cast(texts: pyarrow.ChunkedArray, kind: Type) -> pyarrow.ChunkedArray:
    """ValueError and others where each value has to be looked at."""
    strange = _ARROW_TAKES.get(kind.name)
    if strange is not None and pc.any(pc.match_substring_regex(texts, strange)).as_py():
        raise ValueError
    found = texts.cast(arrow_type(kind))
    if kind.name == "float" and pc.any(pc.is_inf(found)).as_py():
        raise ValueError
    return canonical_array(found, kind)


def _values(texts: Sequence[str | None], kind: Type, wording: Wording) -> list[Value]:
    found: list[Value] = []
    for row, text in enumerate(texts):
        try:
            found.append(None if text is None else value_of(text, kind, wording))
        except (ValueError, OverflowError):
            raise NoValueError(row, text or "") from None
    return found
