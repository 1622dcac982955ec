"""LIKE: the meaning of a pattern in Spark SQL, found in time that a text cannot make long.

A pattern is cut at its `%` into segments. The first stands at the beginning of the text, the last
at its end, each other one at the earliest place after the one before it: where a later place would
do, the earliest does too, so nothing is ever tried again. A segment with `_` is found by one bit
for each of its characters (Baeza-Yates and Gonnet's Shift-And), so a long one is no trap either.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

_ANY = None
"""What `_` stands for: one character, whichever it is."""


@dataclass(frozen=True)
class _Segment:
    """What stands between two `%`."""

    characters: tuple[str | None, ...]

    def __len__(self) -> int:
        return len(self.characters)

    @cached_property
    def literal(self) -> str | None:
        """The segment as a text, if every character in it stands for itself."""
        known = [each for each in self.characters if each is not _ANY]
        return "".join(known) if len(known) == len(self) else None

    @cached_property
    def regular(self) -> str:
        """The segment as a regular expression of Java."""
        return "".join("." if each is _ANY else re.escape(each) for each in self.characters)

    def stands_at(self, text: str, start: int) -> bool:
        if self.literal is not None:
            return text.startswith(self.literal, start)
        there = text[start : start + len(self)]
        pairs = zip(self.characters, there, strict=False)
        return len(there) == len(self) and all(each in (_ANY, found) for each, found in pairs)

    def find(self, text: str, start: int, end: int) -> int:
        """The first place where it stands between these two; -1 if there is none."""
        if self.literal is not None:
            return text.find(self.literal, start, end)
        fits, fits_any = self._bits
        reached, whole = 0, 1 << (len(self) - 1)
        for place in range(start, end):
            reached = (reached << 1 | 1) & fits.get(text[place], fits_any)
            if reached & whole:
                return place + 1 - len(self)
        return -1

    @cached_property
    def _bits(self) -> tuple[dict[str, int], int]:
        """The places that a character fits, as bits; and those that every character fits."""
        fits_any = sum(1 << at for at, each in enumerate(self.characters) if each is _ANY)
        fits: dict[str, int] = {}
        for at, each in enumerate(self.characters):
            if each is not _ANY:
                fits[each] = fits.get(each, fits_any) | 1 << at
        return fits, fits_any


@dataclass(frozen=True)
class LikePattern:
    """A pattern that has been read."""

    segments: tuple[_Segment, ...]

    def matches(self, text: str) -> bool:
        first, *middle = self.segments
        if not middle:
            return len(text) == len(first) and first.stands_at(text, 0)
        last = middle.pop()
        start, end = len(first), len(text) - len(last)
        if start > end or not (first.stands_at(text, 0) and last.stands_at(text, end)):
            return False
        for segment in middle:
            found = segment.find(text, start, end)
            if found < 0:
                return False
            start = found + len(segment)
        return True

    @property
    def tries_again(self) -> bool:
        """Whether a regular expression without care goes back over a text again and again."""
        return len([segment for segment in self.segments[1:] if len(segment)]) > 1

    @property
    def regular(self) -> str:
        """A regular expression of Java that keeps the first place it finds for each segment."""
        first, *middle = self.segments
        last = rf".*{middle.pop().regular}" if middle else ""
        found = "".join(f"(?>.*?{segment.regular})" for segment in middle if len(segment))
        return rf"(?s)\A{first.regular}{found}{last}\z"


@lru_cache(maxsize=256)
def like_pattern(pattern: str) -> LikePattern:
    """Read a pattern; ValueError if a backslash in it escapes what needs no escape."""
    segments: list[list[str | None]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            escaped = next(characters, None)
            if escaped not in ("_", "%", "\\"):
                raise ValueError(f"the LIKE pattern {pattern!r} escapes something else than _ % \\")
            segments[-1].append(escaped)
        elif character == "%":
            segments.append([])
        else:
            segments[-1].append(_ANY if character == "_" else character)
    return LikePattern(tuple(_Segment(tuple(segment)) for segment in segments))


def like(text: str, pattern: str) -> bool:
    return like_pattern(pattern).matches(text)
