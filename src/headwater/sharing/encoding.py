"""Canonical bytes: one content, one address, on every machine.

An object is lines of JSON: first what it is (`kind`, versions, columns, ...), then its rows in the
order of their own bytes, each once, with its counts in front. Its address is the SHA-256 of
these bytes. Values are written as the algebra's canonical values, keys sorted, no blanks,
nothing outside ASCII.

Choices: our own text rather than Arrow or Parquet, whose files for the same rows differ between
releases (padding, statistics, the writer's name), and compression differs between releases of
its library. Text is larger; updategrams and boosters are small, and anybody can read them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, TypeAlias

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import Row, Type, from_json, text_of, to_json
from headwater.errors import HeadwaterError
from headwater.reading import format_problem
from headwater.sharing.booster import Booster
from headwater.sharing.contents import Contents
from headwater.sharing.entries import Item, NodeEntry, Publication, RelationEntry, ViewEntry
from headwater.sharing.errors import DamagedObjectError
from headwater.sharing.grouping import GroupingBooster
from headwater.sharing.limits import MOST_DEPTH, MOST_HEAD_BYTES
from headwater.sharing.shared_views import (
    SharedView,
    relation_from_json,
    relation_to_json,
)
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Interval, Versions
from headwater.sharing.windows import Window

FORMAT = 1
"""Raised when the bytes change, or what conditions are deduced to imply: a booster has only the
rows that its maker deduced to be relevant, and every reader must deduce the same."""

Manifest: TypeAlias = dict[str, Any]
Line: TypeAlias = tuple[Row, tuple[int, ...]]

_TEXT = rb'"(?:[^"\\]++|\\.)*+"'
_TEXTS, _BRACKETS = re.compile(_TEXT), re.compile(rb"[\[\]{}]")
_VALUE = rb'(?:[^",\[\]{}]++|' + _TEXT + rb")"
MALFORMED = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError),
    *(TypeError, ValueError, HeadwaterError),
)
"""What reading values that nobody has checked may raise."""


def address_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def encode(item: Item) -> bytes:
    """The bytes that stand for an object, the same wherever it was made."""
    manifest, lines = _described(item)
    encoded = sorted((_values(row), counts) for row, counts in lines)
    body = (_counted_values(values, counts) for values, counts in encoded)
    return "".join(f"{line}\n" for line in (_head(manifest, len(encoded)), *body)).encode("ascii")


def net_address(updategram: Updategram) -> str:
    """The address of what an updategram comes to: two that do the same have the same."""
    first, last, net = updategram.first, updategram.last, updategram.net
    return address_of(encode(Updategram.of_net(updategram.subject, first, last, net)))


def decode(content: bytes, what: str = "A shared object") -> Item:
    """The object that these bytes stand for; DamagedObjectError if they are not canonical.

    Line by line, so that little more is in memory than the bytes and the object.
    """
    head, _, body = content.partition(b"\n")
    manifest = read_manifest(head, what)
    try:
        item = _READERS[manifest["kind"]](manifest, body)
        described, lines = _described(item)
        rows = sum(1 for _ in lines)
        if _head(described, rows).encode("ascii") != head or content.count(b"\n") != rows + 1:
            raise _NotCanonicalError
    except _NotCanonicalError:
        raise DamagedObjectError(
            f"{what} of kind '{manifest['kind']}' is not in its canonical form.",
            "It was not written by Headwater: get another copy of it.",
        ) from None
    except MALFORMED as error:
        raise DamagedObjectError(
            f"{what} of kind '{manifest['kind']}' cannot be read: {_short(error)}.",
            "Get another copy of it.",
        ) from None
    return item


class _NotCanonicalError(Exception):
    """The same object has other bytes where Headwater writes it."""


def value_count(manifest: Manifest, content: bytes) -> int:
    """How many values the rows of an object have at most: a line of another form is not read.

    What is in arrays and structs is counted by the commas between, of which texts may have more.
    """
    columns = manifest.get("columns")
    width = len(columns) if isinstance(columns, list) else 0
    found = (content.count(b"\n") - 1) * max(width, 1)
    nested = isinstance(columns, list) and any("<" in str(column) for column in columns)
    return found + content.count(b",") if nested else found


def read_manifest(head: bytes, what: str = "A shared object") -> Manifest:
    """The first line: what an object is, without its rows."""
    try:
        if len(head) >= MOST_HEAD_BYTES or _depth(head) > MOST_DEPTH:
            raise ValueError
        manifest: Manifest = json.loads(head)
        kind, number = manifest["kind"], manifest.get("format")
    except MALFORMED:
        raise _unknown(what) from None
    if problem := format_problem(number, FORMAT):
        raise DamagedObjectError(
            f"{what} {problem}.",
            "Use the same release of Headwater at all nodes, and publish anew what is of another.",
        )
    if not isinstance(kind, str) or kind not in _READERS:
        raise _unknown(what)
    return manifest


def _unknown(what: str) -> DamagedObjectError:
    return DamagedObjectError(f"{what} does not say what it is.", "Get another copy of it.")


def _depth(line: bytes) -> int:
    depth = deepest = 0
    for bracket in _BRACKETS.findall(_TEXTS.sub(b"", line)):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


@lru_cache(maxsize=256)
def _line_form(types: tuple[Type, ...]) -> re.Pattern[bytes]:
    """Up to three counts and a list of values: nothing is nested deeper than the types are."""
    return re.compile(rb"\[\d{1,19}(?:,\d{1,19}){0,2},\[" + _values_form(types) + rb"\]\]")


def _values_form(types: Iterable[Type]) -> bytes:
    """Values of these types with commas between, those without parts that follow each other
    together, since a table may have many columns."""
    found: list[bytes] = []
    for is_nested, kinds in groupby(types, lambda kind: kind.is_nested):
        if is_nested:
            found += map(_nested_form, kinds)
        else:
            found.append(_VALUE + rb"(?:,%b){%d}" % (_VALUE, sum(1 for _ in kinds) - 1))
    return b",".join(found)


def _nested_form(kind: Type) -> bytes:
    inside = _values_form(part for _, part in kind.parts)
    if kind.name == "array":
        inside = rb"(?:%b(?:,(?!\])|(?=\])))*+" % inside
    return rb"(?:null|\[" + inside + rb"\])"


def _line(line: bytes, types: tuple[Type, ...]) -> list[Any]:
    if not _line_form(types).fullmatch(line):
        raise ValueError(f"a line is no row of {len(types)} values with its counts")
    found: list[Any] = json.loads(line)
    return found


def _short(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"it lacks {str(error)[:300]}"
    if not isinstance(error, ValueError | HeadwaterError):
        return "something in it is not what it must be"
    said = str(error).rstrip(".")
    return said if len(said) < 300 else f"{said[:300]}..."


# Writing


def _described(item: Item) -> tuple[Manifest, Iterable[Line]]:
    about: Manifest
    match item:
        case NodeEntry(name, key):
            return {"kind": "node", "name": name, **({"key": key} if key else {})}, ()
        case Publication(node, number, token, before):
            about = {"node": node, "number": number, "token": token, "before": before}
            return {"kind": "publication", **about}, ()
        case RelationEntry(relation, owner):
            return {"kind": "relation", "owner": owner, **relation_to_json(relation)}, ()
        case ViewEntry(definition):
            return {"kind": "view", **definition.to_json()}, ()
        case Contents(subject, versions, rows):
            about = {"subject": subject, "versions": dict(versions)}
            return {"kind": "contents", **about, **_columns(rows)}, _counted(rows)
        case Updategram(subject, first, last, inserted):
            about = {"subject": subject, "first": dict(first), "last": dict(last)}
            return {"kind": "updategram", **about, **_columns(inserted)}, _labelled(item)
        case Booster(view, interval, of, versions, rows, exact, through):
            about = {
                "view": view.to_json(),
                "changed": interval.relation,
                "first": interval.first,
                "last": interval.last,
                "of": list(of),
                "versions": dict(versions),
                "exact": exact,
                "through": dict(through),
            }
            return {"kind": "booster", **about, **_columns(rows)}, _counted(rows)
        case GroupingBooster(view, first, last, _, rows):
            about = {
                "view": view.to_json(),
                "first": dict(first),
                "last": dict(last),
                "by": list(item.by),
            }
            return {"kind": "grouping", **about, **_columns(rows)}, _grouped(item)
        case Window(view, versions, rows, bound):
            place = None if bound is None else list(map(to_json, bound))
            about = {"view": view.to_json(), "versions": dict(versions), "bound": place}
            return {"kind": "window", **about, **_columns(rows)}, _counted(rows)


def _head(manifest: Manifest, rows: int) -> str:
    return _dumps({"format": FORMAT, **manifest, "rows": rows})


def _values(row: Row) -> str:
    return _dumps(list(map(to_json, row)))


def _counted_values(values: str, counts: Iterable[int]) -> str:
    return f"[{','.join(map(str, counts))},{values}]"


def _columns(rows: Rows) -> Manifest:
    return {"columns": rows.schema.to_json()}


def _counted(rows: Rows) -> Iterable[Line]:
    return ((row, (count,)) for row, count in rows.items())


def _labelled(updategram: Updategram) -> Iterable[Line]:
    inserted, deleted = updategram.inserted, updategram.deleted
    for row in {**dict(inserted.items()), **dict(deleted.items())}:
        yield row, (inserted.count(row), deleted.count(row))


def _grouped(booster: GroupingBooster) -> Iterable[Line]:
    """Rows with their counts, which are sums and may be below zero; and groups, as rows that have
    nothing but their key."""
    rows, columns = booster.rows, booster.rows.schema.names
    places = [booster.by.index(name) if name in booster.by else None for name in columns]
    keys = booster.groups if booster.by else ()
    groups = {tuple(None if at is None else key[at] for at in places) for key in keys}
    for row in {**dict(rows.items()), **dict.fromkeys(groups, 0)}:
        count = rows.count(row)
        yield row, (max(count, 0), max(-count, 0), int(row in groups))


def _dumps(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


# Reading


def _publication(manifest: Manifest) -> Publication:
    node, token, before = (text_of(manifest[name]) for name in ("node", "token", "before"))
    return Publication(node, Versions({node: manifest["number"]})[node], token, before)


def depends(manifest: Manifest) -> tuple[int, bool, int]:
    """What to sort by, so that objects come after those on which they depend.

    A node's entry without a key, from an old release, comes after the one with its key. Of
    publications come those first with which a life begins, then one after the other.
    """
    kind, number = KINDS.index(manifest["kind"]), manifest.get("number")
    if manifest["kind"] == "publication":
        return kind, manifest.get("before") != "", number if type(number) is int else 0
    return kind, "key" not in manifest, 0


def _read_contents(manifest: Manifest, body: bytes) -> Contents:
    (rows,) = _rows(Schema.from_json(manifest["columns"]), body, 1)
    return Contents(text_of(manifest["subject"]), Versions(manifest["versions"]), rows)


def _read_updategram(manifest: Manifest, body: bytes) -> Updategram:
    return Updategram(
        text_of(manifest["subject"]),
        Versions(manifest["first"]),
        Versions(manifest["last"]),
        *_rows(Schema.from_json(manifest["columns"]), body, 2),
    )


def _read_booster(manifest: Manifest, body: bytes) -> Booster:
    (rows,) = _rows(Schema.from_json(manifest["columns"]), body, 1)
    return Booster(
        definition_of(manifest),
        read_interval(manifest),
        tuple(map(text_of, manifest["of"])),
        Versions(manifest["versions"]),
        rows,
        manifest["exact"] is True,
        Versions(manifest["through"]),
    )


def _read_grouping(manifest: Manifest, body: bytes) -> GroupingBooster:
    schema = Schema.from_json(manifest["columns"])
    above, below, padded = _rows(schema, body, 3)
    by = tuple(map(text_of, manifest["by"]))
    keys = Schema(tuple(schema.columns[schema.positions[name]] for name in by))
    groups: dict[Row, int] = dict.fromkeys(padded.only(keys), 1) if by else {(): 1}
    return GroupingBooster(
        definition_of(manifest),
        Versions(manifest["first"]),
        Versions(manifest["last"]),
        Rows(keys, groups),
        above - below,
    )


def _read_window(manifest: Manifest, body: bytes) -> Window:
    schema, bound = Schema.from_json(manifest["columns"]), manifest["bound"]
    (rows,) = _rows(schema, body, 1)
    place = None if bound is None else _row(schema, bound)
    return Window(definition_of(manifest), Versions(manifest["versions"]), rows, place)


def definition_of(manifest: Manifest) -> SharedView:
    """The view that a booster is for. Boosters of one view share it, and it is read once."""
    return _definition(json.dumps(manifest["view"]))


@lru_cache(maxsize=1024)
def _definition(text: str) -> SharedView:
    return SharedView.from_json(json.loads(text))


def read_interval(manifest: Manifest) -> Interval:
    changed = text_of(manifest["changed"])
    ends = (Versions({changed: manifest[end]})[changed] for end in ("first", "last"))
    return Interval(changed, *ends)


def _rows(schema: Schema, body: bytes, places: int) -> Iterator[Rows]:
    """For each of the counts that lines have, the rows where it is above zero."""
    found: list[dict[Row, int]] = [{} for _ in range(places)]
    before = ""
    for line in _lines(body):
        *counts, given = _line(line, schema.types)
        row = _row(schema, given)
        values = _values(row)
        written = _counted_values(values, counts).encode("ascii")
        if written != line or values <= before or len(counts) != places or not any(counts):
            raise _NotCanonicalError
        before = values
        for rows, count in zip(found, counts, strict=True):
            if count:
                rows[row] = count
    return (Rows(schema, rows) for rows in found)


def _lines(body: bytes) -> Iterator[bytes]:
    start = 0
    while (end := body.find(b"\n", start)) >= 0:
        yield body[start:end]
        start = end + 1
    if start < len(body):
        raise _NotCanonicalError


def _row(schema: Schema, values: Sequence[Any]) -> Row:
    return tuple(from_json(value, kind) for value, kind in zip(values, schema.types, strict=True))


_READERS: Mapping[str, Callable[[Manifest, bytes], Item]] = {
    "node": lambda manifest, body: NodeEntry(
        text_of(manifest["name"]), text_of(manifest.get("key", ""))
    ),
    "publication": lambda manifest, body: _publication(manifest),
    "relation": lambda manifest, body: RelationEntry(
        relation_from_json(manifest), text_of(manifest["owner"])
    ),
    "view": lambda manifest, body: ViewEntry(SharedView.from_json(manifest)),
    "contents": _read_contents,
    "updategram": _read_updategram,
    "booster": _read_booster,
    "grouping": _read_grouping,
    "window": _read_window,
}
KINDS = tuple(_READERS)
"""In the order in which objects depend on each other."""
