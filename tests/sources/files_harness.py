"""Files in a temporary folder, for the conformance suite: written anew after each transaction.

`current`: a file for each table, put in its place by renaming the whole folder. `series`: a folder
for each snapshot. `changes`: a folder for each transaction, with the rows that went and came.
"""

from __future__ import annotations

import io
import itertools
import json
import math
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet

from headwater.algebra.schema import Schema
from headwater.algebra.values import TEXT, Row, Value
from headwater.sources.files.layouts import Layout
from headwater.sources.files.options import FilesOptions
from headwater.sources.files.source import FilesSource
from headwater.storage.location import Location
from headwater.testing.published import PublishedDatabase, PublishingWriter, Tables
from tests.sources.delta_harness import table_of


class FilesHarness:
    """A folder of files, empty at first."""

    def __init__(self, layout: Layout = "series", ending: str = "csv") -> None:
        self.kind = f"files: {layout} of {ending}"
        self._temporary = tempfile.TemporaryDirectory()
        self.path = Path(self._temporary.name) / "files"
        self.path.mkdir()
        self.layout = layout
        self.ending = ending
        self.merges = layout == "current"
        self._numbers = itertools.count(1)
        self._keys: dict[str, list[str]] = {}
        self.database = PublishedDatabase(self._publish)

    def create_table(self, name: str, schema: Schema, key: Sequence[str] = ()) -> None:
        if key:
            self._keys[name] = list(key)
        self.database.create_table(name, schema, key)

    def source(self, relations: Sequence[str], **settings: Any) -> FilesSource:
        keys = {name: key for name, key in self._keys.items() if name in relations}
        name = settings.pop("name", "s")
        settings.setdefault("keys", keys)
        options = FilesOptions(
            layout=self.layout,
            complete="renamed",
            columns=settings.pop("columns", self.database.schemas),
        )
        place = Location.of(self.path.parent / "_headwater" / "sources" / name)
        settings.setdefault("look_every_s", 0.02)
        settings.setdefault("options", options)
        folder = self.path / "now" if self.layout == "current" else self.path
        return FilesSource(name, folder, relations, place=place, **settings)

    def writer(self) -> PublishingWriter:
        return self.database.writer()

    def contents(self, name: str) -> Counter[Row]:
        return self.database.contents(name)

    def close(self) -> None:
        self.database.close()
        self._temporary.cleanup()

    def _publish(self, before: Tables, after: Tables) -> None:
        time.sleep(0.02)  # nobody puts files there faster
        number = next(self._numbers)
        hidden = self.path / f".{number:08}"
        hidden.mkdir()
        for name, rows in after.items():
            schema = self.database.schemas[name]
            if self.layout != "changes":
                written = written_as(self.ending, schema, rows.elements())
            else:
                reported = list(_reported(before.get(name, Counter()), rows))
                if not reported:
                    continue
                schema = Schema.of([("op", TEXT)]) + schema
                written = written_as(self.ending, schema, reported)
            (hidden / f"{name}.{self.ending}").write_bytes(written)
        if self.layout != "current":
            hidden.rename(self.path / f"{number:08}")
            return
        link = self.path / ".link"
        link.symlink_to(hidden.name)
        link.rename(self.path / "now")


def _reported(before: Counter[Row], after: Counter[Row]) -> Iterable[Row]:
    for row in (before - after).elements():
        yield ("D", *row)
    for row in (after - before).elements():
        yield ("I", *row)


def written_as(ending: str, schema: Schema, rows: Iterable[Row]) -> bytes:
    """Rows as a file's content."""
    match ending:
        case "csv":
            return as_csv(schema.names, rows)
        case "jsonl":
            lines = [
                json.dumps(dict(zip(schema.names, map(_json, row), strict=True))) for row in rows
            ]
            return "".join(f"{line}\n" for line in lines).encode() or b"\n"
    content = io.BytesIO()
    pyarrow.parquet.write_table(table_of(schema, Counter(rows)), content)
    return content.getvalue()


def as_csv(names: Sequence[str], rows: Iterable[Row]) -> bytes:
    """With quotes around texts, so that an empty one is not NULL."""
    lines = [",".join(map(_quoted, names))]
    lines += [",".join(_quoted(_text(value)) for value in row) for row in rows]
    return "".join(f"{line}\n" for line in lines).encode()


def _quoted(text: str | None) -> str:
    return "" if text is None else '"' + text.replace('"', '""') + '"'


def _text(value: Value) -> str | None:
    match value:
        case None | str():
            return value
        case bool():
            return str(value).lower()
        case float() if math.isnan(value):
            return "NaN"
        case bytes():
            return value.hex()
        case datetime() | date():
            return value.isoformat()
    return str(value)


def _json(value: Value) -> Any:
    match value:
        case bytes() | datetime() | date() | Decimal():
            return _text(value)
        case float() if not math.isfinite(value):
            return _text(value)
    return value
