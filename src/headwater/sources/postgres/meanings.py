"""What PostgreSQL's types are here: the table of types, and what a type that users made is by it.

Where Headwater has a type of its own, values have it. Every other value is the text that the
server prints, under the settings in `connect`; where it prints equal values differently (numbers
without a scale, intervals) they are brought to one text. Types that users make come down to what
they are made of: a domain is its base type; enumerations, arrays, ranges and composites are
printed whole. Where texts are compared in a finer or coarser way than the database compares the
values, the table says so, and `headwater check` tells it of the views that do compare them.

Printing calls the type's output function, of which only superusers can make new ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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

FIRST_OWN = 16384
"""Types and other objects with smaller numbers come with the server."""


@dataclass(frozen=True)
class Known:
    """A type that comes with the server, by the name that SQL has for it."""

    name: str
    type: Type
    form: str
    equality: str = ""
    """How our equality differs from the database's."""
    inside: str = ""
    """The same where it is a part of another type's text, if that differs."""


@dataclass(frozen=True)
class Meaning:
    """What the values of a column are here."""

    type: Type
    form: str
    """How they are read and found again: a key of `forms.FORMS`."""
    equality: str = ""


@dataclass(frozen=True)
class Definition:
    """A type as the catalog has it."""

    name: str
    kind: str
    """Base, composite, domain, enumeration, range or multirange: the catalog's letter."""
    base: int = 0
    modifier: int = -1
    parts: tuple[int, ...] = ()
    """The types that its values consist of."""


def _own(name: str, kind: Type, form: str = "", inside: str = "") -> Known:
    return Known(name, kind, form or kind.name, inside=inside)


def _printed(name: str, equality: str = "") -> Known:
    return Known(name, TEXT, "printed", equality)


_NO_EQUALITY = "the database has no equality for it, and here its text counts"
_BY_AREA = "there two are equal whose areas are, and here their texts count"
_ROUNDED = "there almost equal coordinates are equal, and here their texts count"
_ZEROS = "numbers in it that differ by zeros at their end are equal there and differ here"
_SIGNED_ZERO = "0 and -0 in it are equal there and differ here"
_UNITS = "intervals in it of equal length are equal there and differ here if printed differently"
_PADDED = "spaces at the end of texts in it count here and not there"
_CASE = "upper and lower case are equal there and differ here"
_OWN_WAY = "the database compares it in a way of its own, and here its text counts"

KNOWN: Mapping[int, Known] = {
    16: _own("boolean", BOOL),
    21: _own("smallint", INT),
    23: _own("integer", INT),
    20: _own("bigint", INT),
    26: _own("oid", INT),
    700: _own("real", FLOAT, "float4", _SIGNED_ZERO),
    701: _own("double precision", FLOAT, inside=_SIGNED_ZERO),
    25: _own("text", TEXT),
    1043: _own("character varying", TEXT),
    1042: _own("character", TEXT, "padded", _PADDED),
    17: _own("bytea", BYTES),
    1082: _own("date", DATE),
    1114: _own("timestamp without time zone", TIMESTAMP),
    1184: _own("timestamp with time zone", TIMESTAMP_TZ),
    1700: _own("numeric", TEXT, "number", _ZEROS),
    1186: _own("interval", TEXT, "interval", _UNITS),
    2950: _own("uuid", TEXT, "uuid"),
    19: _printed("name"),
    18: _printed('"char"'),
    1083: _printed("time without time zone"),
    1266: _printed("time with time zone"),
    790: _printed("money"),
    1560: _printed("bit"),
    1562: _printed("bit varying"),
    869: _printed("inet"),
    650: _printed("cidr"),
    829: _printed("macaddr"),
    774: _printed("macaddr8"),
    3220: _printed("pg_lsn"),
    28: _printed("xid"),
    29: _printed("cid"),
    5069: _printed("xid8"),
    27: _printed("tid"),
    3802: _printed("jsonb", _ZEROS),
    114: _printed("json", _NO_EQUALITY),
    142: _printed("xml", _NO_EQUALITY),
    4072: _printed("jsonpath", _NO_EQUALITY),
    3614: _printed("tsvector"),
    3615: _printed("tsquery", _OWN_WAY),
    600: _printed("point", _NO_EQUALITY),
    601: _printed("lseg", _ROUNDED),
    602: _printed("path", "there two are equal that have as many points, and here texts count"),
    603: _printed("box", _BY_AREA),
    604: _printed("polygon", _NO_EQUALITY),
    628: _printed("line", _ROUNDED),
    718: _printed("circle", _BY_AREA),
    2970: _printed("txid_snapshot", _NO_EQUALITY),
    5038: _printed("pg_snapshot", _NO_EQUALITY),
    1790: _printed("refcursor", _NO_EQUALITY),
}
"""Types of the server whose equality is known; others are printed as well."""
_NAMED = {"citext": _CASE}
"""Types of extensions whose equality is known, by name."""
REFUSED: Mapping[int, str] = {
    **dict.fromkeys(
        (24, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4096, 4191),
        "it is printed as the name of something, which may be renamed without a trace in the log",
    ),
    1033: "it is printed with names of roles, which may be renamed without a trace in the log",
}
_NUMERIC = 1700


def own_meaning(oid: int, modifier: int) -> Meaning:
    """What a type that comes with the server is here; ValueError says why it is nothing."""
    if oid in REFUSED:
        raise ValueError(REFUSED[oid])
    if oid >= FIRST_OWN:
        raise ValueError("it is not one of the server's own types")
    if oid == _NUMERIC and (fixed := _fixed(modifier)) is not None:
        return Meaning(fixed, "decimal")
    known = KNOWN.get(oid)
    return Meaning(TEXT, "printed", _OWN_WAY) if known is None else _meaning(known)


def meaning_of(oid: int, modifier: int, types: Mapping[int, Definition]) -> Meaning:
    """What any type is here; `types` has all that is not in the table, and what that is made of."""
    if oid in KNOWN or oid in REFUSED or oid not in types:
        return own_meaning(oid, modifier)
    found = types[oid]
    if found.kind == "d":
        return meaning_of(found.base, found.modifier, types)
    if found.kind == "p":
        raise ValueError("it is a pseudo-type, and has no values")
    return Meaning(TEXT, "printed", _equality(oid, modifier, types))


def base_of(oid: int, types: Mapping[int, Definition]) -> int:
    """The type below all domains."""
    while oid in types and types[oid].kind == "d":
        oid = types[oid].base
    return oid


def _meaning(known: Known) -> Meaning:
    return Meaning(known.type, known.form, known.equality)


def _equality(oid: int, modifier: int, types: Mapping[int, Definition]) -> str:
    """How the equality of a text that is printed whole differs from the database's."""
    found = types[oid]
    if not found.parts:
        if found.kind == "e":
            return ""
        return _NAMED.get(found.name, _OWN_WAY)
    told = [_inside(part, modifier, types) for part in found.parts]
    return next(filter(None, told), "")


def _inside(oid: int, modifier: int, types: Mapping[int, Definition]) -> str:
    if oid in REFUSED:
        raise ValueError(REFUSED[oid])
    if known := KNOWN.get(oid):
        return "" if modifier >= 0 else known.inside or known.equality
    if oid not in types:
        return _OWN_WAY
    found = types[oid]
    if found.kind == "d":
        return _inside(found.base, found.modifier, types)
    return _equality(oid, -1, types)


def _fixed(modifier: int) -> Type | None:
    """The type of numbers with so many digits, where there is one."""
    if modifier < 0:
        return None
    precision, scale = ((modifier - 4) >> 16) & 0xFFFF, (modifier - 4) & 0x7FF
    if precision > MAX_DECIMAL_DIGITS or scale > precision:  # also a negative scale: its sign bit
        return None
    return decimal_type(precision, scale)
