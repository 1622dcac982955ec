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

import pyarrow
import pyarrow.compute as pc

from headwater.algebra.values import Type, Value, canonical
from headwater.frames.arrow import arrow_array, arrow_type

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NOT_FINITE = {"nan": "nan", "inf": "inf", "infinity": "inf", "-inf": "-inf", "-infinity": "-inf"}
_WORDS = {"true": True, "1": True, "false": False, "0": False}
_STRANGE = "[^0-9+-]"


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
            return canonical(
                float(_NOT_FINITE[low] if low in _NOT_FINITE else _number(text, wording)), kind
            )
        case "date":
            if wording.date_format:
                return datetime.strptime(text, wording.date_format).date()
            return date.fromisoformat(text)
        case "timestamp" | "timestamp_tz":
            if wording.timestamp_format:
                found = datetime.strptime(text, wording.timestamp_format)
            else:
                found = datetime.fromisoformat(text)
            return canonical(found, kind)
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
    wanted = arrow_type(kind)
    if kind.name == "text":
        return texts.cast(wanted)
    if wording == PLAIN and kind.name in ("int", "float", "decimal", "date", "timestamp"):
        try:
            if kind.name == "int" and pc.any(pc.match_substring_regex(texts, _STRANGE)).as_py():
                raise ValueError
            return texts.cast(wanted)
        except (pyarrow.ArrowException, ValueError):
            pass  # which one it is, or what only Arrow does not take
    return pyarrow.chunked_array([arrow_array(_values(texts.to_pylist(), kind, wording), kind)])


def _values(texts: Sequence[str | None], kind: Type, wording: Wording) -> list[Value]:
    found: list[Value] = []
    for row, text in enumerate(texts):
        try:
            found.append(None if text is None else value_of(text, kind, wording))
        except (ValueError, OverflowError):
            raise NoValueError(row, text or "") from None
    return found
