"""Values of every type that a PostgreSQL server's catalog lists, as SQL writes them.

Types that are made of others (arrays, ranges, composites, domains) get theirs from those. A type
that is neither here nor among those that hold no values of users makes the tests fail: a new
version of the server may have brought it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import psycopg

MADE = """
CREATE TYPE mood AS ENUM ('sad', 'ok', 'Very Happy', '');
CREATE TYPE pair AS (a integer, b text);
CREATE TYPE nested AS (p pair, m mood[], n numeric);
CREATE DOMAIN cents AS numeric(12,2) CHECK (VALUE >= 0);
CREATE DOMAIN any_number AS numeric;
CREATE DOMAIN code AS char(4);
CREATE DOMAIN key AS uuid;
CREATE DOMAIN sure_key AS key;
CREATE DOMAIN many AS integer[];
CREATE TYPE float_range AS RANGE (subtype = float8);
CREATE TYPE mood_range AS RANGE (subtype = mood);
"""
"""What users make of types; one of each sort."""
_LISTED = """
SELECT t.oid::int8, t.typname, t.typtype::text, t.typelem::int8, t.typcategory::text,
       coalesce(r.rngsubtype, m.rngsubtype, t.typbasetype)::int8,
       CASE t.typname WHEN 'bpchar' THEN 'bpchar' WHEN '_bpchar' THEN 'bpchar[]'
         ELSE pg_catalog.format_type(t.oid, NULL) END
FROM pg_catalog.pg_type t
LEFT JOIN pg_catalog.pg_range r ON r.rngtypid = t.oid
LEFT JOIN pg_catalog.pg_range m ON m.rngmultitypid = t.oid
JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
WHERE n.nspname IN ('pg_catalog', 'public') AND NOT EXISTS (
  SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_type e ON e.typrelid = c.oid
  WHERE e.oid IN (t.oid, t.typelem) AND c.relkind <> 'c')
ORDER BY t.oid
"""
NAMES_OF_OTHERS = frozenset({
    "regproc", "regprocedure", "regoper", "regoperator", "regclass", "regcollation", "regtype",
    "regconfig", "regdictionary", "regrole", "regnamespace", "regdatabase", "aclitem",
})  # fmt: skip
"""Printed as names of something that can be renamed: refused."""
NOT_OF_USERS = frozenset({
    "pg_node_tree", "pg_ndistinct", "pg_dependencies", "pg_mcv_list", "pg_brin_bloom_summary",
    "pg_brin_minmax_multi_summary", "gtsvector", "xml",
})  # fmt: skip
"""Values of these cannot be written by users; of xml not at a server that is built without it."""
_COORDINATES = ("0", "-0", "1.5", "1e30", "-7.25")


def _point(chance: random.Random) -> str:
    return f"({chance.choice(_COORDINATES)},{chance.choice(_COORDINATES)})"


VALUES: Mapping[str, tuple[str, ...]] = {
    "bool": ("t", "f"),
    "bytea": (r"\x", r"\x00ff", r"\x61"),
    "char": ("a", "Z", ""),
    "name": ("", "a", "Name with spaces", "x" * 63),
    "int8": ("0", "-9223372036854775808", "9223372036854775806"),
    "int2": ("0", "-32768", "32767"),
    "int4": ("0", "-1", "2147483646"),
    "oid": ("0", "4294967295"),
    "tid": ("(0,1)", "(4294967295,65535)"),
    "xid": ("3", "4294967295"),
    "cid": ("0", "4294967295"),
    "xid8": ("3", "18446744073709551615"),
    "text": ("", " a ", "ä", "A", "a", 'x"y', "a,b{}", "NULL", "line\nline\ttab\\", "'"),
    "json": ('{"a":1}', '{ "a": 1 }', "null", "[1.0, 1]", '{"a":1,"a":2}'),
    "jsonb": ('{"b":1,"a":"x"}', '{"b":1.0,"a":"x"}', "1", "1.00", "1e2", "[]", '"ä\\n"', "null"),
    "jsonpath": ("$.a", "$[*] ? (@ > 1)"),
    "xml": ("<a/>", "<a></a>", "text &amp; more", '<?xml version="1.0"?><a b="c"/>'),
    "float4": ("0", "-0", "1e-45", "3.4028235e38", "NaN", "Infinity", "0.1"),
    "float8": ("0", "-0", "5e-324", "1.7976931348623157e308", "NaN", "-Infinity", "0.1"),
    "money": ("0", "-1234567.89", "92233720368547758.07"),
    "macaddr": ("08:00:2b:01:02:03", "08-00-2B-01-02-03", "ff:ff:ff:ff:ff:ff"),
    "macaddr8": ("08:00:2b:01:02:03:04:05", "08002b0102030405"),
    "inet": ("10.0.0.1", "10.0.0.1/32", "10.0.0.1/8", "::1", "::ffff:1.2.3.4/96", "fe80::/10"),
    "cidr": ("10.0.0.0/8", "10.0.0.0/16", "::/0", "2001:db8::/32"),
    "bpchar": ("", "a", "a   ", " a", "A"),
    "varchar": ("", "a", "a ", "ß"),
    "date": ("0001-01-01", "2024-02-29", "9999-12-31"),
    "time": ("00:00", "24:00", "12:34:56.789", "23:59:59.999999"),
    "timetz": ("10:00+02", "08:00+00", "12:34:56.7-15:59"),
    "timestamp": ("0001-01-01 00:00", "2024-02-29 12:34:56.000001", "9999-12-31 23:59:59"),
    "timestamptz": ("1970-01-01 00:00+00", "2024-02-29 12:34:56.1+05:30", "2024-02-29 07:04:56.1Z"),
    "interval": (
        "0", "1 month", "30 days", "720:00", "-1 month", "1 year -1 day", "24:00", "1 day",
        "-00:00:00.000001", "1 mon -30 days", "14 months 3 days 04:05:06.7", "-25:00:00",
        "11 months 30 days", "178000000 years", "-2 years 3 days",
    ),
    "bit": ("0", "1"),
    "varbit": ("", "0", "010", "01"),
    "numeric": (
        "0", "0.00", "1", "1.0", "1.50", "-1.5", "NaN", "Infinity", "-Infinity", "100", "1e2",
        "0.000000000000000000000000000000000000000001", "1" + "0" * 60, "12345678901234567890.5",
    ),
    "uuid": ("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc999c0b4ef8bb6d6bb9bd380a11", "0" * 32),
    "pg_lsn": ("0/0", "16/B374D848"),
    "tsvector": ("a fat cat", "'a':1A 'b':2", "b a"),
    "tsquery": ("fat & rat", "!a | b <-> c", "a&b"),
    "refcursor": ("c1", "c2"),
    "txid_snapshot": ("10:20:10,14", "10:20:"),
    "pg_snapshot": ("10:20:10,14", "10:10:"),
    "int2vector": ("1 2", ""),
    "oidvector": ("1 2", ""),
    "citext": ("a", "A", "b"),
    "mood": ("sad", "ok", "Very Happy", ""),
    "pair": ("(1,x)", "(,)", '(2,"a,""b")', '(3,"")'),
    "nested": ('("(1,x)",{sad},1.0)', '("(1,x)",{sad},1)', "(,,)"),
    "cents": ("0", "1.50", "99"),
    "code": ("a", "ab  ", "abcd"),
}  # fmt: skip
"""By the type's name: its texts, among them pairs that the database takes for equal."""
_SHAPES: Mapping[str, Callable[[random.Random], str]] = {
    "point": _point,
    "lseg": lambda c: f"[{_point(c)},{_point(c)}]",
    "path": lambda c: c.choice(("[{}]", "({})")).format(f"{_point(c)},{_point(c)}"),
    "box": lambda c: f"{_point(c)},{_point(c)}",
    "polygon": lambda c: f"({_point(c)},{_point(c)},{_point(c)})",
    "line": lambda c: c.choice(("{1,2,3}", "{0,1,0}", "{2,4,6}", "{1,-1,0.5}")),
    "circle": lambda c: f"<{_point(c)},{c.choice(('0', '1', '2.5'))}>",
}


@dataclass(frozen=True)
class ListedType:
    """A type of the catalog and how SQL names it."""

    oid: int
    name: str
    kind: str
    element: int
    category: str
    below: int
    shown: str


def listed_types(connection: psycopg.Connection) -> dict[int, ListedType]:
    return {row[0]: ListedType(*row) for row in connection.execute(_LISTED)}


def may_hold_values(of: ListedType, types: Mapping[int, ListedType]) -> bool:
    """Whether a column of this type can be filled here; what is not known fails later on."""
    part = types.get(of.element if of.category == "A" and of.kind == "b" else of.below)
    if of.kind == "p" or of.name in NOT_OF_USERS or of.name in NAMES_OF_OTHERS:
        return False
    return part is None or may_hold_values(part, types)


def value_of(of: ListedType, types: Mapping[int, ListedType], chance: random.Random) -> str:
    """A text that the type's input function takes."""
    if of.name in _SHAPES:
        return _SHAPES[of.name](chance)
    if of.name in VALUES:
        return chance.choice(VALUES[of.name])
    if of.kind == "d":
        return value_of(types[of.below], types, chance)
    if of.category == "A" and of.kind == "b":
        return _array(types[of.element], types, chance)
    if of.kind == "r":
        return _range(types[of.below], types, chance)
    if of.kind == "m":
        return "{" + (_range(types[of.below], types, chance) if chance.random() < 0.8 else "") + "}"
    raise AssertionError(f"no values are known of the type {of.shown}")


def _array(of: ListedType, types: Mapping[int, ListedType], chance: random.Random) -> str:
    values = [
        "NULL" if chance.random() < 0.2 else _quoted(value_of(of, types, chance))
        for _ in range(chance.randrange(3))
    ]
    return "{" + (";" if of.name == "box" else ",").join(values) + "}"


def _range(of: ListedType, types: Mapping[int, ListedType], chance: random.Random) -> str:
    value = _quoted(value_of(of, types, chance))
    return chance.choice(("empty", f"[{value},{value}]", f"[{value},)", f"(,{value}]", "(,)"))


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def columns(types: Mapping[int, ListedType]) -> Iterator[ListedType]:
    """The types that a table can have columns of."""
    return (of for of in types.values() if may_hold_values(of, types))
