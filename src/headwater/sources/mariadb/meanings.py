"""What the types of MariaDB and MySQL mean here: one form for each declared type, or why none.

docs/types.md has the table, which is generated from here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from headwater.sources.mariadb import forms
from headwater.sources.mariadb.charsets import WIDE, decoder
from headwater.sources.mariadb.forms import Form

_LENGTH = re.compile(r"\((\d+)(?:,(\d+))?\)")
_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_TEXTS = ("varchar", "tinytext", "text", "mediumtext", "longtext")
_BLOBS = ("varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_SHAPES = (
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
    "geometrycollection", "geomcollection",
)  # fmt: skip
_PLAIN: Mapping[str, Form] = {
    "float": forms.SINGLE,
    "double": forms.DOUBLE,
    "date": forms.DAY,
    "datetime": forms.MOMENT,
    "timestamp": forms.STAMP,
    "time": forms.CLOCK,
    "year": forms.YEAR,
    "uuid": forms.IDENTIFIER,
    "inet6": forms.ADDRESS6,
    "inet4": forms.ADDRESS4,
    **dict.fromkeys(_BLOBS, forms.BINARY),
    **dict.fromkeys(_SHAPES, forms.SHAPE),
}

TABLE: tuple[tuple[str, str, str], ...] = (
    ("`tinyint(1)`, `bool`", "bool; 0 or 1", ""),
    ("`tinyint`, `smallint`, `mediumint`, `int`, `bigint`, also `unsigned`", "int", ""),
    ("`bigint unsigned`", "decimal(20,0)", ""),
    ("`decimal(p,s)` with p up to 38", "decimal(p,s)", ""),
    ("`decimal(p,s)` with p from 39 to 65", "text, as printed", ""),
    ("`float`", "float, the exact value of the four bytes", ""),
    ("`double`", "float", ""),
    ("`bit(1)`", "bool", ""),
    ("`bit(n)`", "int; `bit(64)` is decimal(20,0)", ""),
    (
        "`varchar`, `tinytext`, `text`, `mediumtext`, `longtext`",
        "text",
        "as of its collation, and most find 'a' equal to 'A' and 'a '; here all characters count",
    ),
    (
        "`char`",
        "text, without the spaces that fill it up",
        "as of its collation there, and here all characters count",
    ),
    ("`json` of MariaDB", "text", "its text counts, here and there"),
    ("`json` of MySQL", "cannot be used", "it is logged in a form of its own"),
    ("`binary(n)`", "bytes, with the zeros that fill it up", ""),
    ("`varbinary`, `tinyblob`, `blob`, `mediumblob`, `longblob`", "bytes", ""),
    ("`date`", "date", ""),
    ("`datetime(n)`", "timestamp", ""),
    ("`timestamp(n)`", "timestamp_tz", ""),
    ("`time(n)`", "text, as printed", ""),
    ("`year`", "int; 0 is `0000`", ""),
    ("`enum`", "text: the label", "as of its collation there, and here all characters count"),
    (
        "`set`",
        "text: the labels in the order of their declaration, with commas",
        "as of its collation there, and here all characters count",
    ),
    ("`uuid`, `inet6`, `inet4`", "text, as printed", ""),
    ("`geometry` and its kinds", "bytes, as stored: a number of four bytes and the WKB", ""),
    ("`COMPRESSED` columns, `vector`, others", "cannot be used", ""),
)


@dataclass(frozen=True)
class Declared:
    """A column's type as the catalog has it."""

    kind: str
    """The name of the type."""
    shown: str
    """The same with its length, labels and the like."""
    charset: str
    collation: str
    server: str
    """`mariadb` or `mysql`."""


class UnknownTypeError(Exception):
    """A column's values cannot be read, and why."""


def form_of(declared: Declared) -> Form:
    """How the values of a column are read."""
    shown = declared.shown.lower()
    if "compressed" in shown.rpartition("/*")[2]:
        raise UnknownTypeError("it is COMPRESSED, and the log has its values compressed")
    length = _LENGTH.search(shown)
    first = int(length[1]) if length else 0
    match declared.kind:
        case "tinyint" if shown.startswith("tinyint(1)") and "unsigned" not in shown:
            return forms.BOOLEAN
        case "bigint" if "unsigned" in shown:
            return forms.UNSIGNED
        case kind if kind in _INTEGERS:
            return forms.INTEGER
        case "decimal":
            return forms.decimals(first, int(length[2] or 0) if length else 0)
        case "bit":
            return forms.BIT if first <= 1 else forms.BITS if first < 64 else forms.MOST_BITS
        case "binary":
            return forms.filled(first or 1)
        case "json":
            raise UnknownTypeError(
                "MySQL logs JSON in a form of its own; a generated column of type longtext is not "
                "logged as such either, so keep a text column beside it"
            )
        case kind if kind in _PLAIN:
            return _PLAIN[kind]
    return _text_form(declared)


def _text_form(declared: Declared) -> Form:
    if declared.kind not in ("char", "enum", "set", *_TEXTS):
        raise UnknownTypeError(f"type {declared.shown} is not known")
    decode = decoder(declared.charset)
    if decode is None:
        raise UnknownTypeError(f"its character set {declared.charset} is not known")
    match declared.kind:
        case "enum":
            return forms.enumeration(decode)
        case "set":
            return forms.set_of_labels(decode)
        case kind:
            return forms.texts(decode, is_padded=kind == "char", is_wide=declared.charset in WIDE)


def equality_of(declared: Declared) -> str:
    """How the database's equality of a text column differs from ours, in words."""
    if not declared.collation or declared.collation == "binary":
        return ""
    if declared.collation.endswith("_nopad_bin") or declared.collation == "utf8mb4_0900_bin":
        return ""
    if declared.collation.endswith("_bin"):
        return (
            ""
            if declared.kind in ("char", "enum", "set")
            else (
                f"its collation {declared.collation} ignores spaces at the end, and here they count"
            )
        )
    return (
        f"its collation {declared.collation} takes different texts for equal, and here they differ"
    )
