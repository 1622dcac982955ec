"""Texts of a binary log, in the character sets of their columns.

Only sets are here whose every character Python reads as the server does (tests/sources compare
them); a column in another one cannot be used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

_LATIN1 = {
    ord(bytes([byte]).decode("latin-1")): bytes([byte]).decode("cp1252", "replace")
    for byte in range(0x80, 0xA0)
    if byte not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)
}
"""The server's latin1 is Windows's, whose five gaps are control characters there."""

_CODECS: Mapping[str, str] = {
    "utf8mb4": "utf-8",
    "utf8mb3": "utf-8",
    "utf8": "utf-8",
    "ascii": "ascii",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "latin2": "iso8859-2",
    "latin5": "iso8859-9",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp850": "cp850",
    "cp852": "cp852",
    "koi8r": "koi8-r",
}

WIDE = frozenset({"ucs2", "utf16", "utf16le", "utf32"})
"""Sets in which a column can have half a character."""

Decode = Callable[[bytes], str]


def decoder(charset: str) -> Decode | None:
    """How texts of a character set are read; None if that is not known."""
    if charset == "latin1":
        return _latin1
    codec = _CODECS.get(charset)
    return None if codec is None else lambda data: data.decode(codec)


def encodes(charset: str, text: str) -> bool:
    """Whether a column of a character set can hold a text at all."""
    if charset == "latin1":
        return all(letter in _LATIN1_LETTERS for letter in text)
    codec = _CODECS.get(charset)
    try:
        text.encode(codec or "utf-8")
    except UnicodeEncodeError:
        return False
    return charset not in ("utf8mb3", "utf8", "ucs2") or all(letter <= "\uffff" for letter in text)


def known_charsets() -> tuple[str, ...]:
    return ("latin1", *_CODECS)


def _latin1(data: bytes) -> str:
    return data.decode("latin-1").translate(_LATIN1)


_LATIN1_LETTERS = frozenset(_latin1(bytes(range(256))))
