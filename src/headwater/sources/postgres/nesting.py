"""Arrays and composite values out of the text that PostgreSQL prints for them.

Pure functions, made once for each shape of value. What is inside is read by the functions of its
own types, from the text that these print by themselves, so that a value is the same inside and
alone.

An array of PostgreSQL may have any number of dimensions and may begin at any index, whatever its
column says; here it has one and begins at 1, or is empty. Another is a ValueError.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from headwater.algebra.values import Value

Read = Callable[[bytes], Value]
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_DOUBLED = re.compile(r'(["\\])\1')
_FIELD = re.compile(r'(?:"((?:[^"\\]|""|\\\\)*+)"|([^",()\\]*+))([,)])', re.DOTALL)


@lru_cache(maxsize=16)
def _element(delimiter: str) -> re.Pattern[str]:
    """An element, in quotes or not, and what ends it."""
    end = re.escape(delimiter)
    return re.compile(rf'(?:"((?:[^"\\]|\\.)*+)"|([^"\\{{}}{end}]++))([{end}}}])', re.DOTALL)


def array_reader(element: Read, delimiter: str) -> Read:
    """Reads `{1,NULL,"a b"}`, by a function for what the elements are."""
    pattern = _element(delimiter)

    def read(text: bytes) -> Value:
        if text == b"{}":
            return ()
        found: list[Value] = []
        whole, at = text.decode(), 1
        if whole[0] != "{":
            raise ValueError("an array that does not begin at 1")
        while match := pattern.match(whole, at):
            quoted, plain, end = match.groups()
            if quoted is not None:
                found.append(element(_ESCAPED.sub(r"\1", quoted).encode()))
            else:
                found.append(None if plain == "NULL" else element(plain.encode()))
            at = match.end()
            if end == "}":
                break
        if at != len(whole) or end != "}":
            raise ValueError("not an array of one dimension")
        return tuple(found)

    return read


def composite_reader(fields: Sequence[Read]) -> Read:
    """Reads `(1,,"a b")`, by a function for each field."""

    def read(text: bytes) -> Value:
        whole, at, end = text.decode(), 1, ","
        found: list[Value] = []
        for field in fields:
            match = _FIELD.match(whole, at) if end == "," else None
            if match is None:
                raise ValueError("a composite value with other fields")
            quoted, plain, end = match.groups()
            if quoted is not None:
                found.append(field(_DOUBLED.sub(r"\1", quoted).encode()))
            else:
                found.append(field(plain.encode()) if plain else None)
            at = match.end()
        if at != len(whole) or end != ")":
            raise ValueError("a composite value with other fields")
        return tuple(found)

    return read
