"""What PostgreSQL's types are here: the table of types, and what a type that users made is by it.

Where Headwater has a type of its own, values have it. Every other value is the text that the
server prints, under the settings in `connect`; where it prints equal values differently (numbers
without a scale, intervals) they are brought to one text. Types that users make come down to what
they are made of: a domain is its base type, an array one of what its elements are, a composite a
struct of what its fields are; enumerations and ranges are printed whole. Where texts are compared
in a finer or coarser way than the database compares the values, the table says so, and
`headwater check` tells it of the views that do compare them.

Printing calls the type's output function, of which only superusers can make new ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
    array_type,
    decimal_type,
    struct_type,
)
from headwater.sources.postgres.forms import array_form, composite_form

PRINTED = "printed"
"""The form of values that are the text of their type's output function."""
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
    array: int = 0
    """The type of arrays of it."""


@dataclass(frozen=True)
class Meaning:
    """What the values of a column are here."""

    type: Type
    form: str
    """How they are read and found again: a name of `forms.form_of`."""
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
    delimiter: str = ""
    """What stands between elements; only arrays have one."""
    fields: tuple[Field, ...] = ()
    """The fields of a composite."""


@dataclass(frozen=True)
class Field:
    """A part of a composite that has a name."""

    name: str
    type: int
    modifier: int


def _own(array: int, name: str, kind: Type, form: str = "", inside: str = "") -> Known:
    return Known(name, kind, form or kind.name, inside=inside, array=array)


def _printed(array: int, name: str, equality: str = "") -> Known:
    return Known(name, TEXT, PRINTED, equality, array=array)


_NO_EQUALITY = "the database has no equality for it, and here its text counts"
_BY_AREA = "there two are equal whose areas are, and here their texts count"
_ROUNDED = "there almost equal coordinates are equal, and here their texts count"
_ZEROS = "numbers in it that differ by zeros at their end are equal there and differ here"
_SIGNED_ZERO = "0 and -0 in it are equal there and differ here"
_UNITS = "intervals in it of equal length are equal there and differ here if printed differently"
_PADDED = "spaces at the end of texts in it count here and not there"
_CASE = "upper and lower case are equal there and differ here"
_OWN_WAY = "the database compares it in a way of its own, and here its text counts"
LOOSE = "texts that its collation takes for equal are equal there and differ here"
"""Of a column whose collation is not deterministic."""

KNOWN: Mapping[int, Known] = {
    16: _own(1000, "boolean", BOOL),
    21: _own(1005, "smallint", INT),
    23: _own(1007, "integer", INT),
    20: _own(1016, "bigint", INT),
    26: _own(1028, "oid", INT),
    700: _own(1021, "real", FLOAT, "float4", _SIGNED_ZERO),
    701: _own(1022, "double precision", FLOAT, inside=_SIGNED_ZERO),
    25: _own(1009, "text", TEXT),
    1043: _own(1015, "character varying", TEXT),
    1042: _own(1014, "character", TEXT, "padded", _PADDED),
    17: _own(1001, "bytea", BYTES),
    1082: _own(1182, "date", DATE),
    1114: _own(1115, "timestamp without time zone", TIMESTAMP),
    1184: _own(1185, "timestamp with time zone", TIMESTAMP_TZ),
    1700: _own(1231, "numeric", TEXT, "number", _ZEROS),
    1186: _own(1187, "interval", TEXT, "interval", _UNITS),
    2950: _own(2951, "uuid", TEXT, "uuid"),
    19: _printed(1003, "name"),
    18: _printed(1002, '"char"'),
    1083: _printed(1183, "time without time zone"),
    1266: _printed(1270, "time with time zone"),
    790: _printed(791, "money"),
    1560: _printed(1561, "bit"),
    1562: _printed(1563, "bit varying"),
    869: _printed(1041, "inet"),
    650: _printed(651, "cidr"),
    829: _printed(1040, "macaddr"),
    774: _printed(775, "macaddr8"),
    3220: _printed(3221, "pg_lsn"),
    28: _printed(1011, "xid"),
    29: _printed(1012, "cid"),
    5069: _printed(271, "xid8"),
    27: _printed(1010, "tid"),
    3802: _printed(3807, "jsonb", _ZEROS),
    114: _printed(199, "json", _NO_EQUALITY),
    142: _printed(143, "xml", _NO_EQUALITY),
    4072: _printed(4073, "jsonpath", _NO_EQUALITY),
    3614: _printed(3643, "tsvector"),
    3615: _printed(3645, "tsquery", _OWN_WAY),
    600: _printed(1017, "point", _NO_EQUALITY),
    601: _printed(1018, "lseg", _ROUNDED),
    602: _printed(
        1019, "path", "there two are equal that have as many points, and here texts count"
    ),
    603: _printed(1020, "box", _BY_AREA),
    604: _printed(1027, "polygon", _NO_EQUALITY),
    628: _printed(629, "line", _ROUNDED),
    718: _printed(719, "circle", _BY_AREA),
    2970: _printed(2949, "txid_snapshot", _NO_EQUALITY),
    5038: _printed(5039, "pg_snapshot", _NO_EQUALITY),
    1790: _printed(2201, "refcursor", _NO_EQUALITY),
}
"""Types of the server whose equality is known; others are printed as well."""
ARRAYS: Mapping[int, int] = {known.array: oid for oid, known in KNOWN.items()}
"""What the elements of arrays of these types are."""
_DELIMITERS = {603: ";"}
"""What stands between elements where it is not a comma."""
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
_STORABLE = re.compile(r"[^ ,;{}()\n\t=]+")
"""Names of fields that Delta tables allow."""


def own_meaning(oid: int, modifier: int) -> Meaning:
    """What a type that comes with the server is here; ValueError says why it is nothing."""
    if oid in REFUSED:
        raise ValueError(REFUSED[oid])
    if oid >= FIRST_OWN:
        raise ValueError("it is not one of the server's own types")
    if oid == _NUMERIC and (fixed := _fixed(modifier)) is not None:
        return Meaning(fixed, "decimal")
    if oid in ARRAYS:
        element = ARRAYS[oid]
        return _array(own_meaning(element, modifier), _DELIMITERS.get(element, ","))
    known = KNOWN.get(oid)
    return Meaning(TEXT, PRINTED, _OWN_WAY) if known is None else _meaning(known)


def meaning_of(oid: int, modifier: int, types: Mapping[int, Definition]) -> Meaning:
    """What any type is here; `types` has all that is not in the table, and what that is made of."""
    if oid in KNOWN or oid in REFUSED or oid not in types:
        return own_meaning(oid, modifier)
    found = types[oid]
    if found.kind == "d":
        return meaning_of(found.base, found.modifier, types)
    if found.kind == "p":
        raise ValueError("it is a pseudo-type, and has no values")
    if found.delimiter:
        return _array(meaning_of(found.parts[0], modifier, types), found.delimiter)
    if _is_struct(found):
        return _struct(found.fields, types)
    return as_text(oid, modifier, types)


def as_text(oid: int, modifier: int, types: Mapping[int, Definition]) -> Meaning:
    """The text that is printed for a whole value, whatever it is made of."""
    return Meaning(TEXT, PRINTED, _inside(oid, modifier, types))


def _array(element: Meaning, delimiter: str) -> Meaning:
    kind, form = array_type(element.type), array_form(element.form, delimiter)
    return Meaning(kind, form, element.equality)


def _is_struct(found: Definition) -> bool:
    """Whether structs can hold it: fields that tables can have, each with a name of its own."""
    names = [field.name for field in found.fields]
    differ = len({name.lower() for name in names}) == len(names)
    return bool(names) and differ and all(map(_STORABLE.fullmatch, names))


def _struct(fields: Sequence[Field], types: Mapping[int, Definition]) -> Meaning:
    parts = [meaning_of(field.type, field.modifier, types) for field in fields]
    named = zip((field.name for field in fields), (part.type for part in parts), strict=True)
    equality = next(filter(None, (part.equality for part in parts)), "")
    return Meaning(struct_type(named), composite_form(part.form for part in parts), equality)


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
    return _equality(oid, modifier, types)


def _fixed(modifier: int) -> Type | None:
    """The type of numbers with so many digits, where there is one."""
    if modifier < 0:
        return None
    precision, scale = ((modifier - 4) >> 16) & 0xFFFF, (modifier - 4) & 0x7FF
    if precision > MAX_DECIMAL_DIGITS or scale > precision:  # also a negative scale: its sign bit
        return None
    return decimal_type(precision, scale)
