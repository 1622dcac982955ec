"""Parts of a text that holds JSON, as PostgreSQL has them: `->`, `->>`, `#>` and `#>>`.

A part is cut out of the text as it stands there: nothing is made into values and printed again,
which would change numbers (1.10) and the order of members. The whole text is looked at, so that one
that is no JSON fails wherever the part is. JSON is what PostgreSQL takes as `jsonb`: without the
character zero and without half a surrogate pair.

A value with nothing nested in it is skipped by one regular expression; any other is walked through
with a stack of its own, so that no depth is too much.

Choices: a scalar has itself as its element 0 and -1, as `jsonb` has it; a path into a scalar leads
nowhere, as in PostgreSQL.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias

NO_JSON = "the text is no JSON"

_BLANKS = r"[ \t\n\r]*"
_HEX = "[0-9A-Fa-f]"
_UNICODE = (
    rf"u(?!0000)(?:[0-9A-CEFa-cef]{_HEX}{{3}}|[Dd][0-7]{_HEX}{{2}}"
    rf"|[Dd][89ABab]{_HEX}{{2}}\\u[Dd][C-Fc-f]{_HEX}{{2}})"
)
_STRING = rf'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|{_UNICODE})[^"\\\x00-\x1f]*)*"'
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_SCALAR = rf"{_STRING}|{_NUMBER}|true|false|null"
_KEY = rf"({_STRING}){_BLANKS}:{_BLANKS}"
_UNTIL = rf"{_BLANKS}(?:,(?!{_BLANKS}[\]}}]){_BLANKS}|(?=[\]}}]))"
_FLAT_ARRAY = rf"\[{_BLANKS}(?:(?:{_SCALAR}){_UNTIL})*\]"
_FLAT_OBJECT = rf"\{{{_BLANKS}(?:{_STRING}{_BLANKS}:{_BLANKS}(?:{_SCALAR}){_UNTIL})*\}}"

_VALUE = re.compile(f"{_SCALAR}|{_FLAT_ARRAY}|{_FLAT_OBJECT}")
_FIRST = {"{": re.compile(rf"\{{{_BLANKS}{_KEY}"), "[": re.compile(rf"\[(?!{_BLANKS}\]){_BLANKS}")}
_NEXT = {"{": re.compile(rf"{_BLANKS},{_BLANKS}{_KEY}"), "[": re.compile(rf"{_BLANKS},{_BLANKS}")}
_LAST = {"{": re.compile(rf"{_BLANKS}\}}"), "[": re.compile(rf"{_BLANKS}\]")}
_SKIPPED = re.compile(_BLANKS)
_INDEX = re.compile(r"[ \t\n\v\f\r]*([+-]?)0*([0-9]{1,10})")


# The operators


def member(text: str, key: str | int) -> str | None:
    """`->`: the member of an object by its name, or the element of an array by its number."""
    return _cut(text, _member(text, key))


def member_text(text: str, key: str | int) -> str | None:
    """`->>`: the same as a text, which a string is without its quotes."""
    return _told(_cut(text, _member(text, key)))


def at_path(text: str, path: str) -> str | None:
    """`#>`: what a path leads to."""
    return _cut(text, _at_path(text, steps(path)))


def at_path_text(text: str, path: str) -> str | None:
    """`#>>`: the same as a text."""
    return _told(_cut(text, _at_path(text, steps(path))))


def _told(value: str | None) -> str | None:
    if value is None or value == "null":
        return None
    return _plain(value) if value.startswith('"') else value


def _plain(string: str) -> str:
    """What a string of JSON stands for."""
    return str(json.loads(string)) if "\\" in string else string[1:-1]


# Paths

_ITEM = re.compile(
    r"""[ \t\n\v\f\r]*(?:"((?:[^"\\]|\\.)*)"|((?:[^"\\{},]|\\.)+))[ \t\n\v\f\r]*(,|\}\Z)""",
    re.DOTALL,
)
_NO_PATH = "is no path; write for example '{a,b,0}'"


@lru_cache(maxsize=256)
def steps(path: str) -> tuple[str | None, ...]:
    """The steps of a path such as `{a,"b c",0}`, an array as PostgreSQL writes it; ValueError."""
    written = path.strip(" \t\n\v\f\r")
    if re.fullmatch(r"\{[ \t\n\v\f\r]*\}", written):
        return ()
    found: list[str | None] = []
    at, more = 1, written.startswith("{")
    while more:
        item = _ITEM.match(written, at)
        if item is None:
            break
        found.append(_step(item))
        at, more = item.end(), item[3] == ","
    if more or not found:
        raise ValueError(f"'{path}' {_NO_PATH}")
    return tuple(found)


def _step(item: re.Match[str]) -> str | None:
    if item[1] is not None:
        return re.sub(r"\\(.)", r"\1", item[1], flags=re.DOTALL)
    bare = re.sub(r"(?<!\\)((?:\\\\)*)[ \t\n\v\f\r]+\Z", r"\1", item[2])
    return None if bare.upper() == "NULL" else re.sub(r"\\(.)", r"\1", bare, flags=re.DOTALL)


def path_of(names: Iterable[str]) -> str:
    """The path with these steps."""
    escaped = (re.sub(r'(["\\])', r"\\\1", name) for name in names)
    return "{" + ",".join(f'"{name}"' for name in escaped) + "}"


def check_path(path: str) -> None:
    steps(path)


# Finding

Place: TypeAlias = tuple[int, int]


def _cut(text: str, place: Place | None) -> str | None:
    return None if place is None else text[slice(*place)]


def _member(text: str, key: str | int) -> Place | None:
    found, end = _child(text, start := _start(text), key)
    _check_end(text, end)
    is_scalar = text[start] not in _FIRST
    return (start, end) if is_scalar and key in (0, -1) else found


def _at_path(text: str, path: Sequence[str | None]) -> Place | None:
    start = _start(text)
    end = _end(text, start)
    _check_end(text, end)
    place: Place | None = (start, end)
    for step in path:
        if place is None or step is None:
            return None
        key = _index(step) if text[place[0]] == "[" else step
        place, _ = _child(text, place[0], key)
    return place


def _index(step: str) -> int | None:
    """The number that a step is; PostgreSQL takes blanks before it and a sign."""
    number = _INDEX.fullmatch(step)
    return None if number is None else int(number[1] + number[2])


def _start(text: str) -> int:
    found = _SKIPPED.match(text)
    return found.end() if found else 0


def _check_end(text: str, end: int) -> None:
    if _SKIPPED.fullmatch(text, end) is None:
        raise _error(text, end)


def _child(text: str, at: int, key: str | int | None) -> tuple[Place | None, int]:
    """Where a part of the value at this place is, if it has it, and where the value ends."""
    if text[at : at + 1] == "{" and isinstance(key, str):
        return _named(text, at, key)
    if text[at : at + 1] == "[" and isinstance(key, int):
        return _numbered(text, at, key)
    return None, _end(text, at)


def _named(text: str, at: int, name: str) -> tuple[Place | None, int]:
    """The last of the members with this name."""
    found = None
    written = _FIRST["{"].match(text, at)
    end = at + 1
    while written is not None:
        end = _end(text, written.end())
        if _plain(written[1]) == name:
            found = (written.end(), end)
        written = _NEXT["{"].match(text, end)
    return found, _closed(text, end, "{")


def _numbered(text: str, at: int, number: int) -> tuple[Place | None, int]:
    places = []
    before = _FIRST["["].match(text, at)
    end = at + 1
    while before is not None:
        end = _end(text, before.end())
        places.append((before.end(), end))
        before = _NEXT["["].match(text, end)
    found = places[number] if -len(places) <= number < len(places) else None
    return found, _closed(text, end, "[")


def _closed(text: str, end: int, opening: str) -> int:
    closing = _LAST[opening].match(text, end)
    if closing is None:
        raise _error(text, end)
    return closing.end()


def _end(text: str, at: int) -> int:
    """Where the value that begins at this place ends; ValueError if there is none."""
    opened: list[str] = []
    while True:
        opening = text[at : at + 1]
        if value := _VALUE.match(text, at):
            following, at = _behind(text, value.end(), opened)
            if following is None:
                return at
        else:
            following = _FIRST[opening].match(text, at) if opening in _FIRST else None
            if following is None:
                raise _error(text, at)
            opened.append(opening)
        at = following.end()


def _behind(text: str, at: int, opened: list[str]) -> tuple[re.Match[str] | None, int]:
    """What leads to the next value, once all is closed that ends before it; None at the end."""
    while opened:
        if following := _NEXT[opened[-1]].match(text, at):
            return following, at
        at = _closed(text, at, opened.pop())
    return None, at


def _error(text: str, at: int) -> ValueError:
    return ValueError(f"{NO_JSON}: it goes wrong at its character {min(at, len(text)) + 1}")
