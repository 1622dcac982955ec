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
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import Row, from_json, to_json
from headwater.errors import InputError
from headwater.sharing.booster import Booster
from headwater.sharing.contents import Contents
from headwater.sharing.definitions import (
    Definition,
    columns_from_json,
    columns_to_json,
    relation_from_json,
    relation_to_json,
)
from headwater.sharing.entries import Item, NodeEntry, RelationEntry, ViewEntry
from headwater.sharing.errors import DamagedObjectError, SharingError
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Interval, Versions

FORMAT = 1
"""Raised when the bytes change, or what conditions are deduced to imply: a booster has only the
rows that its maker deduced to be relevant, and every reader must deduce the same."""

Manifest: TypeAlias = dict[str, Any]
Line: TypeAlias = tuple[Row, tuple[int, ...]]


def address_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def encode(item: Item) -> bytes:
    """The bytes that stand for an object, the same wherever it was made."""
    manifest, lines = _described(item)
    encoded = sorted((_dumps(list(map(to_json, row))), counts) for row, counts in lines)
    head = _dumps({"format": FORMAT, **manifest, "rows": len(encoded)})
    body = (f"[{','.join(map(str, counts))},{row}]" for row, counts in encoded)
    return "".join(f"{line}\n" for line in (head, *body)).encode("ascii")


def decode(content: bytes) -> Item:
    """The object that these bytes stand for; DamagedObjectError if they are not canonical."""
    head, *body = content.split(b"\n")[:-1] or [b""]
    manifest = read_manifest(head)
    try:
        item = _READERS[manifest["kind"]](manifest, [json.loads(line) for line in body])
    except (KeyError, TypeError, ValueError, AssertionError, SharingError, InputError) as error:
        raise DamagedObjectError(
            f"A shared object of kind '{manifest.get('kind')}' cannot be read: {error}",
            "Get another copy of it.",
        ) from None
    if encode(item) != content:
        raise DamagedObjectError(
            f"A shared object of kind '{manifest['kind']}' is not in its canonical form.",
            "It was not written by Headwater: get another copy of it.",
        )
    return item


def read_manifest(head: bytes) -> Manifest:
    """The first line: what an object is, without its rows."""
    try:
        manifest = json.loads(head)
        if not isinstance(manifest, dict) or manifest["kind"] not in _READERS:
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise DamagedObjectError(
            "A shared object does not say what it is.", "Get another copy of it."
        ) from None
    if manifest.get("format") != FORMAT:
        raise DamagedObjectError(
            f"A shared object has format {manifest.get('format')}; this release reads {FORMAT}.",
            "Use the same release of Headwater at all nodes.",
        )
    return manifest


# Writing


def _described(item: Item) -> tuple[Manifest, Iterable[Line]]:
    about: Manifest
    match item:
        case NodeEntry(name):
            return {"kind": "node", "name": name}, ()
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


def _columns(rows: Rows) -> Manifest:
    return {"columns": columns_to_json(rows.schema)}


def _counted(rows: Rows) -> Iterable[Line]:
    return ((row, (count,)) for row, count in rows.items())


def _labelled(updategram: Updategram) -> Iterable[Line]:
    inserted, deleted = updategram.inserted, updategram.deleted
    for row in {**dict(inserted.items()), **dict(deleted.items())}:
        yield row, (inserted.count(row), deleted.count(row))


def _dumps(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


# Reading


def _read_contents(manifest: Manifest, lines: Sequence[list[Any]]) -> Contents:
    schema = columns_from_json(manifest["columns"])
    rows = _rows(schema, lines, 0)
    return Contents(manifest["subject"], Versions(manifest["versions"]), rows)


def _read_updategram(manifest: Manifest, lines: Sequence[list[Any]]) -> Updategram:
    schema = columns_from_json(manifest["columns"])
    return Updategram(
        manifest["subject"],
        Versions(manifest["first"]),
        Versions(manifest["last"]),
        _rows(schema, lines, 0),
        _rows(schema, lines, 1),
    )


def _read_booster(manifest: Manifest, lines: Sequence[list[Any]]) -> Booster:
    return Booster(
        Definition.from_json(manifest["view"]),
        Interval(manifest["changed"], manifest["first"], manifest["last"]),
        tuple(manifest["of"]),
        Versions(manifest["versions"]),
        _rows(columns_from_json(manifest["columns"]), lines, 0),
        manifest["exact"],
        Versions(manifest["through"]),
    )


def _rows(schema: Schema, lines: Sequence[list[Any]], place: int) -> Rows:
    """The rows whose count at this place is above zero; none may be below."""
    counts: dict[Row, int] = {}
    for line in lines:
        if type(line[place]) is not int or line[place] < 0:
            raise ValueError(f"{line[place]!r} is no count")
        counts[_row(schema, line[-1])] = line[place]
    return Rows(schema, counts)


def _row(schema: Schema, values: Sequence[Any]) -> Row:
    return tuple(from_json(value, kind) for value, kind in zip(values, schema.types, strict=True))


_READERS: Mapping[str, Callable[[Manifest, Sequence[list[Any]]], Item]] = {
    "node": lambda manifest, lines: NodeEntry(manifest["name"]),
    "relation": lambda manifest, lines: RelationEntry(
        relation_from_json(manifest), manifest["owner"]
    ),
    "view": lambda manifest, lines: ViewEntry(Definition.from_json(manifest)),
    "contents": _read_contents,
    "updategram": _read_updategram,
    "booster": _read_booster,
}
KINDS = tuple(_READERS)
"""In the order in which objects depend on each other."""
