"""Regular expressions: those that mean the same to Java and to Python.

A pattern is a constant in Java's syntax, and Spark takes it as it is. Here it is read once and
written down for Python with Java's meaning: what a dot, `$`, `\\d`, `\\w` and `\\s` stand for.
Refused is what the two understand differently (`\\b`, lookarounds, flags), and what a long text
could make slow: a repetition inside a repetition, and one of choices that begin alike.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

_CLASSES = {"d": "0-9", "w": "a-zA-Z0-9_", "s": r" \t\n\x0b\f\r"}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LINE_ENDS = r"\r\x85\u2028\u2029"
_DOT = rf"[^\n{_LINE_ENDS}]"
_END = rf"(?:\Z|(?=\r\n\Z)|(?<!\r)(?=\n\Z)|(?=[{_LINE_ENDS}]\Z))"
_TIMES = re.compile(r"[*+?]|\{(\d{1,3})(?:(,)(\d{0,3}))?\}")
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_REFERENCE = re.compile(r"\$(\d)(?!\d)")


@dataclass(frozen=True)
class _Piece:
    """A part of a pattern for Python, and what must be known of it before it is repeated."""

    text: str
    is_empty: bool = False
    """Whether it may match nothing."""
    first: str | None = None
    """The character that it begins with, if that is known."""
    trouble: str = ""
    """Why it may not be repeated more than once."""


@dataclass
class _Reader:
    pattern: str
    at: int = 0
    groups: int = 0
    empty: _Piece = field(default=_Piece("", is_empty=True))

    def error(self, what: str) -> ValueError:
        shown = self.pattern if len(self.pattern) <= 60 else self.pattern[:60] + "..."
        return ValueError(f"the pattern '{shown}' {what}")

    @property
    def next(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def take(self) -> str:
        if self.at >= len(self.pattern):
            raise self.error("ends too early")
        self.at += 1
        return self.pattern[self.at - 1]

    # The grammar

    def choice(self) -> _Piece:
        found = [self.sequence()]
        while self.next == "|":
            self.take()
            found.append(self.sequence())
        if len(found) == 1:
            return found[0]
        if any(not piece.text for piece in found):
            raise self.error("has an empty choice")
        firsts = [piece.first for piece in found]
        apart = None not in firsts and len(set(firsts)) == len(firsts)
        troubles = [piece.trouble for piece in found if piece.trouble]
        trouble = troubles[0] if troubles else "" if apart else "choices that may begin alike"
        text = "|".join(piece.text for piece in found)
        return _Piece(text, any(piece.is_empty for piece in found), None, trouble)

    def sequence(self) -> _Piece:
        found = []
        while self.next and self.next not in "|)":
            found.append(self.repeated())
        if not found:
            return self.empty
        return _Piece(
            "".join(piece.text for piece in found),
            all(piece.is_empty for piece in found),
            found[0].first,
            next((piece.trouble for piece in found if piece.trouble), ""),
        )

    def repeated(self) -> _Piece:
        piece = self.single()
        times = _TIMES.match(self.pattern, self.at)
        if times is None:
            if self.next == "{":
                raise self.error("has a { that repeats nothing; write \\{")
            return piece
        self.at = times.end()
        lazy = "?" if self.next == "?" else ""
        self.at += len(lazy)
        if self.next and self.next in "*+?{":
            raise self.error("repeats a repetition")
        many = times[0] in "*+" or (times[1] and (times[2] or int(times[1]) > 1))
        if piece.is_empty:
            raise self.error("repeats what may be nothing")
        if many and piece.trouble:
            raise self.error(f"repeats {piece.trouble}, which could take very long")
        least = {"*": 0, "?": 0, "+": 1}.get(times[0]) if not times[1] else int(times[1])
        return _Piece(f"{piece.text}{times[0]}{lazy}", not least, None, "a repetition")

    def single(self) -> _Piece:
        character = self.take()
        match character:
            case "(":
                return self.group()
            case "[":
                return _Piece(self.members())
            case ".":
                return _Piece(_DOT)
            case "^":
                return _Piece(r"\A", is_empty=True)
            case "$":
                return _Piece(_END, is_empty=True)
            case "\\":
                return self.escaped()
            case "*" | "+" | "?" | "{":
                raise self.error(f"has a {character} that repeats nothing")
        return _Piece(re.escape(character), first=character)

    def group(self) -> _Piece:
        opening = "(?:"
        if self.pattern.startswith("?:", self.at):
            self.at += 2
        elif self.next == "?":
            raise self.error("has a group with ?, of which only (?:...) is supported")
        else:
            opening, self.groups = "(", self.groups + 1
        inside = self.choice()
        if self.take() != ")":
            raise self.error("has a ( that is never closed")
        trouble = inside.trouble or ("a group; write (?:...)" if opening == "(" else "")
        return _Piece(f"{opening}{inside.text})", inside.is_empty, inside.first, trouble)

    def escaped(self) -> _Piece:
        character = self.take()
        if character.lower() in _CLASSES:
            negated = "^" if character.isupper() else ""
            return _Piece(f"[{negated}{_CLASSES[character.lower()]}]")
        plain = self.plain(character)
        return _Piece(re.escape(plain), first=plain)

    def plain(self, character: str) -> str:
        """The character that a backslash and this one stand for."""
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character in _PUNCTUATION:
            return character
        raise self.error(f"has \\{character}, which is not supported")

    def members(self) -> str:
        """A class of characters, without its opening bracket."""
        negated = self.next == "^"
        self.at += negated
        found: list[str] = []
        while (character := self.take()) != "]":
            if character in "[&":
                raise self.error(f"has a {character} in brackets; write \\{character}")
            if character == "\\" and self.next in _CLASSES:
                found.append(_CLASSES[self.take()])
                if self.next == "-" and self.pattern[self.at + 1 : self.at + 2] != "]":
                    raise self.error("has a - behind a class in brackets; write \\-")
                continue
            low = self.member(character)
            if self.next == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("]", ""):
                self.take()
                high = self.member(self.take())
                if high < low:
                    raise self.error(f"has the range {low}-{high}")
                found.append(f"{_member(low)}-{_member(high)}")
            else:
                found.append(_member(low))
        if not found:
            raise self.error("has empty brackets")
        return f"[{'^' if negated else ''}{''.join(found)}]"

    def member(self, character: str) -> str:
        if character == "[":
            raise self.error("has a [ in brackets; write \\[")
        return self.plain(self.take()) if character == "\\" else character


def _member(character: str) -> str:
    return f"\\{character}" if character in _PUNCTUATION else re.escape(character)


@dataclass(frozen=True)
class Pattern:
    """A pattern that has been read."""

    compiled: re.Pattern[str]
    groups: int
    is_empty: bool


@lru_cache(maxsize=256)
def pattern(text: str) -> Pattern:
    """Read a pattern; ValueError in words if it is not one that is supported."""
    reader = _Reader(text)
    whole = reader.choice()
    if reader.at < len(text):
        raise reader.error("has a ) that closes nothing")
    return Pattern(re.compile(whole.text), reader.groups, whole.is_empty)


def check_pattern(text: str) -> None:
    pattern(text)


def check_not_empty(text: str) -> None:
    if pattern(text).is_empty:
        raise ValueError(f"the pattern '{text}' may match nothing, of which there is no end")


def check_extract(text: str, group: int = 1) -> None:
    groups = pattern(text).groups
    if not 0 <= group <= groups:
        raise ValueError(f"the pattern '{text}' has {groups} groups, so there is no group {group}")


def check_replace(text: str, replacement: str) -> None:
    check_not_empty(text)
    left = _REFERENCE.sub("", replacement)
    if "$" in left or "\\" in left:
        raise ValueError(f"'{replacement}' has a $ or \\ that is no $1 to $9 for a group")
    for number in _REFERENCE.findall(replacement):
        check_extract(text, int(number))


def matches(text: str, wanted: str) -> bool:
    return pattern(wanted).compiled.search(text) is not None


def extract(text: str, wanted: str, group: int = 1) -> str:
    found = pattern(wanted).compiled.search(text)
    return (found[group] or "") if found else ""


def first_match(text: str, wanted: str) -> str | None:
    """NULL also where nothing but an empty text is found, as in Spark."""
    found = pattern(wanted).compiled.search(text)
    return (found[0] or None) if found else None


def count(text: str, wanted: str) -> int:
    return sum(1 for _ in pattern(wanted).compiled.finditer(text))


def replace(text: str, wanted: str, replacement: str) -> str:
    def filled(found: re.Match[str]) -> str:
        return _REFERENCE.sub(lambda number: found[int(number[1])] or "", replacement)

    return pattern(wanted).compiled.sub(filled, text)
