"""What declared types of SQLite are here: the table of types, by name and by affinity.

A declared type is any text, and SQLite takes from it only an affinity: what it tries to make of a
value before it stores it. Where the name says what is meant, values have Headwater's type of that
meaning, and one that does not fit stops the views that use it. Where it does not (no type, JSON,
UUID, numbers without digits), every value fits, as the text that SQLite has for it.

Choices: the text of a number has all digits that tell it from others, where SQLite prints 15, and
equal numbers have one text. A blob is written as `quote` writes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from headwater.algebra.values import (
    BOOL,
    BYTES,
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

AFFINITIES = (
    ("INT", "INTEGER"),
    ("CHAR", "TEXT"),
    ("CLOB", "TEXT"),
    ("TEXT", "TEXT"),
    ("BLOB", "BLOB"),
    ("REAL", "REAL"),
    ("FLOA", "REAL"),
    ("DOUB", "REAL"),
)
"""What is looked for in a declared type, in this order; a type without any of it is NUMERIC."""

KNOWN: Mapping[str, Type] = {
    **dict.fromkeys(("BOOLEAN", "BOOL"), BOOL),
    **dict.fromkeys(("REAL", "DOUBLE", "DOUBLE PRECISION", "FLOAT"), FLOAT),
    **dict.fromkeys(("TEXT", "CLOB", "VARCHAR", "CHAR", "CHARACTER VARYING", "NVARCHAR"), TEXT),
    **dict.fromkeys(("BLOB", "BINARY", "VARBINARY"), BYTES),
    "DATE": DATE,
    **dict.fromkeys(("TIMESTAMP", "DATETIME", "TIMESTAMP WITHOUT TIME ZONE"), TIMESTAMP),
    **dict.fromkeys(("TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE"), TIMESTAMP_TZ),
}
"""Names that say what is meant; others do by their affinity, or not at all."""
_NUMBERS = ("DECIMAL", "NUMERIC", "DEC")
_BY_AFFINITY = {"TEXT": TEXT, "REAL": FLOAT, "BLOB": BYTES}
_INTEGER = re.compile(r"\b(TINY|SMALL|MEDIUM|BIG|LONG|U)?INT(EGER)?\d*\b")
_SIZED = re.compile(r"(?P<name>[^()]*?)\s*\(\s*(?P<a>\d+)\s*(,\s*(?P<b>\d+)\s*)?\)(?P<rest>[^()]*)")
_ALIKE = "a number, a text and a blob that are written alike differ there and are equal here"
_COLLATED = "there its collation {} says which texts are equal, and here every character counts"


@dataclass(frozen=True)
class Meaning:
    """What the values of a column are here."""

    type: Type
    affinity: str
    """SQLite's: INTEGER, TEXT, BLOB, REAL or NUMERIC; NONE where it leaves every value as it is."""
    is_printed: bool = False
    """Whether every value fits, as a text."""
    equality: str = ""
    """How our equality of its values differs from SQLite's, in words."""
    is_kept: bool = False
    """Whether SQLite itself keeps the column free of values of other types."""

    @property
    def tells_apart(self) -> bool:
        """Whether values that differ in the file always differ here, as those of a key have to."""
        if self.is_printed:
            return self.affinity != "NONE"
        return self.type not in (TIMESTAMP, TIMESTAMP_TZ) and not self.type.scale

    @property
    def compared_as(self) -> Literal["", "numeric", "text"]:
        """What SQLite tries to make of the other side before it compares; the first wins."""
        if self.affinity in ("INTEGER", "REAL", "NUMERIC"):
            return "numeric"
        return "text" if self.affinity == "TEXT" else ""


def affinity_of(declared: str, strict: bool = False) -> str:
    """The affinity of a column; in a STRICT table the type ANY has none."""
    name = declared.upper()
    if not name or (strict and name == "ANY"):
        return "NONE"
    return next((affinity for part, affinity in AFFINITIES if part in name), "NUMERIC")


def meaning_of(declared: str, strict: bool = False, collation: str = "BINARY") -> Meaning:
    """What a column of a declared type is here."""
    affinity = affinity_of(declared, strict)
    kind = _own_type(declared, affinity)
    looser = _COLLATED.format(collation) if kind in (None, TEXT) and collation != "BINARY" else ""
    if kind is None:
        alike = _ALIKE if affinity == "NONE" else ""
        return Meaning(TEXT, affinity, True, "; ".join(filter(None, (alike, looser))))
    return Meaning(kind, affinity, equality=looser, is_kept=strict)


def _own_type(declared: str, affinity: str) -> Type | None:
    """Headwater's type for what a declared type says; None if it does not say what is meant."""
    name, digits, scale = " ".join(declared.upper().split()), None, 0
    if match := _SIZED.fullmatch(name):
        name = (match["name"] + " " + match["rest"].strip()).strip()
        digits, scale = int(match["a"]), int(match["b"] or 0)
    if name in _NUMBERS:
        fits = digits is not None and 1 <= digits <= MAX_DECIMAL_DIGITS and scale <= digits
        return decimal_type(digits or 0, scale) if fits else None
    if name in KNOWN:
        return KNOWN[name]
    if affinity == "INTEGER":
        return INT if _INTEGER.search(name) else None
    return _BY_AFFINITY.get(affinity)
