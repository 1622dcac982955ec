"""What functions of texts and bytes do, as Spark does it: texts are sequences of code points."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable
from typing import Any

from headwater.algebra.values import Type

_HASHES = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}


def bytes_of(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


# Upper and lower case

_NEWER = {
    0x1C89: 0x1C8A, 0xA7CB: 0x264, 0xA7CC: 0xA7CD, 0xA7CE: 0xA7CF, 0xA7D2: 0xA7D3,
    0xA7D4: 0xA7D5, 0xA7DA: 0xA7DB, 0xA7DC: 0x19B,
    **{0x10D50 + at: 0x10D70 + at for at in range(22)},
    **{0x16EA0 + at: 0x16EBB + at for at in range(25)},
}  # fmt: skip
"""Letters of Unicode 15 to 17, which Spark knows and older versions of Python do not."""
_NEWER_UPPER = {small: capital for capital, small in _NEWER.items()}


def upper(text: str) -> str:
    return text.upper() if text.isascii() else text.upper().translate(_NEWER_UPPER)


def lower(text: str) -> str:
    return text.lower() if text.isascii() else text.lower().translate(_NEWER)


# Cutting

HIGHEST = 2**30
"""No text has so many characters, and with 32 bits two such numbers can still be added."""


def clamped(number: int) -> int:
    return max(-HIGHEST, min(number, HIGHEST))


def substring(value: Any, start: int, length: int | None = None) -> Any:
    """From 1; a negative start counts from the end, and may lie before the text."""
    start, length = clamped(start), None if length is None else clamped(length)
    first = start - 1 if start > 0 else len(value) + start if start < 0 else 0
    end = len(value) if length is None else first + length
    return value[max(0, first) : max(0, end)]


def left(text: str, length: int) -> str:
    return text[: max(0, length)]


def right(text: str, length: int) -> str:
    return text[max(0, len(text) - length) :] if length > 0 else ""


def split_part(text: str, delimiter: str, number: int) -> str:
    if number == 0:
        raise ValueError("parts count from 1, or from -1 at the end")
    parts = text.split(delimiter) if delimiter else [text]
    at = number - 1 if number > 0 else len(parts) + number
    return parts[at] if 0 <= at < len(parts) else ""


def substring_index(text: str, delimiter: str, count: int) -> str:
    """What stands before the count-th delimiter; from the end if the count is negative."""
    count = clamped(count)
    if not delimiter or count == 0:
        return ""
    if count > 0:
        return delimiter.join(text.split(delimiter, count)[:count])
    return delimiter.join(text.rsplit(delimiter, -count)[count:])


# Blanks and padding: only the space counts as a blank


def trim(text: str, characters: str = " ") -> str:
    return text.strip(characters) if characters else text


def trim_left(text: str, characters: str = " ") -> str:
    return text.lstrip(characters) if characters else text


def trim_right(text: str, characters: str = " ") -> str:
    return text.rstrip(characters) if characters else text


def pad_left(text: str, length: int, filling: str = " ") -> str:
    return _filling(text, _sized(length), filling) + text[: max(0, length)]


def pad_right(text: str, length: int, filling: str = " ") -> str:
    return text[: max(0, length)] + _filling(text, _sized(length), filling)


def _filling(text: str, length: int, filling: str) -> str:
    missing = max(0, length - len(text)) if filling else 0
    return (filling * (missing // len(filling) + 1))[:missing] if missing else ""


def repeat(text: str, times: int) -> str:
    return text * _sized(times)


def _sized(number: int) -> int:
    if number < HIGHEST:
        return number
    raise OverflowError(f"no text has {number} characters")


# Finding


def position(text: str, part: str) -> int:
    return text.find(part) + 1


def locate(part: str | None, text: str | None, start: int | None = 1) -> int | None:
    """NULL as a start means that nothing is found, as in Spark."""
    if start is None:
        return 0
    if part is None or text is None:
        return None
    if start < 1:
        return 0
    return 1 if not part else text.find(part, start - 1) + 1


# Changing


def replace(text: str, old: str, new: str = "") -> str:
    return text.replace(old, new) if old else text


def translate(text: str, old: str, new: str) -> str:
    """Each character of `old` becomes the one in its place of `new`, or goes if there is none."""
    table: dict[int, str | None] = {}
    for at, character in enumerate(old):
        table.setdefault(ord(character), new[at] if at < len(new) else None)
    return text.translate(table)


def overlay(value: Any, part: Any, start: int, length: int = -1) -> Any:
    """`part` in the place of what stands at `start`; of as many characters if no length is said."""
    gone = len(part) if length < 0 else length
    return substring(value, 1, start - 1) + part + substring(value, start + gone)


def concat_ws(separator: str | None, *parts: str | None) -> str | None:
    if separator is None:
        return None
    return separator.join(part for part in parts if part is not None)


def capitalized(text: str) -> str:
    """Each word, between spaces, with its first letter as in titles and the others small."""
    return " ".join(map(_capitalized_word, text.split(" ")))


def _capitalized_word(word: str) -> str:
    first = word[:1]
    return first.title().translate(_NEWER_UPPER) + lower(word)[len(first.lower()) :]


# Codes


def ascii_code(text: str) -> int:
    return ord(text[0]) if text else 0


def character(code: int) -> str:
    return "" if code < 0 else chr(code % 256)


def hexadecimal(kinds: Any, result: Type) -> Callable[[Any], str]:
    if kinds[0].name == "int":
        return lambda value: f"{value % 2**64:X}"
    return lambda value: bytes_of(value).hex().upper()


def base_64(value: str | bytes) -> str:
    """In lines of 76 characters, as in mail."""
    whole = base64.b64encode(bytes_of(value)).decode()
    return "\r\n".join(whole[at : at + 76] for at in range(0, len(whole), 76))


def md5(value: str | bytes) -> str:
    return hashlib.md5(bytes_of(value), usedforsecurity=False).hexdigest()


def sha1(value: str | bytes) -> str:
    return hashlib.sha1(bytes_of(value), usedforsecurity=False).hexdigest()


def sha2(value: str | bytes, bits: int) -> str | None:
    """NULL where there is no such hash."""
    return hashlib.new(_HASHES[bits], bytes_of(value)).hexdigest() if bits in _HASHES else None


def crc32(value: str | bytes) -> int:
    return zlib.crc32(bytes_of(value))


def levenshtein(a: str, b: str) -> int:
    """How many characters must be put in, taken out or changed to turn one text into the other."""
    above = list(range(len(b) + 1))
    for row, left_character in enumerate(a, 1):
        here = [row]
        for at, right_character in enumerate(b, 1):
            changed = above[at - 1] + (left_character != right_character)
            here.append(min(above[at] + 1, here[-1] + 1, changed))
        above = here
    return above[-1]
