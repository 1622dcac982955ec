"""Delta tables in a temporary folder, written by delta-rs, for the conformance suite.

A transaction over several tables is a commit of each, tagged as one.
"""

from __future__ import annotations

import json
import tempfile
import uuid
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow
from deltalake import CommitProperties, DeltaTable, write_deltalake

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import Row
from headwater.frames.arrow import arrow_schema
from headwater.frames.columns import copies
from headwater.sources.delta.source import DeltaSource
from headwater.storage.location import Location
from headwater.testing.published import PublishedDatabase, PublishingWriter, Tables


class DeltaHarness:
    """A folder of tables, empty at first."""

    kind = "delta"

    def __init__(self, *, change_feed: bool = False) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name) / "tables"
        self.path.mkdir()
        self._change_feed = change_feed
        self._keys: dict[str, list[str]] = {}
        self.database = PublishedDatabase(self._publish)

    def create_table(self, name: str, schema: Schema, key: Sequence[str] = ()) -> None:
        if key:
            self._keys[name] = list(key)
        self.database.create_table(name, schema, key)

    def source(self, relations: Sequence[str], **settings: Any) -> DeltaSource:
        keys = {name: key for name, key in self._keys.items() if name in relations}
        name = settings.pop("name", "s")
        settings.setdefault("keys", keys)
        place = Location.of(self.path.parent / "_headwater" / "sources" / name)
        settings.setdefault("look_every_s", 0.02)
        return DeltaSource(name, self.path, relations, place=place, **settings)

    def writer(self) -> PublishingWriter:
        return self.database.writer()

    def contents(self, name: str) -> Counter[Row]:
        return self.database.contents(name)

    def close(self) -> None:
        self.database.close()
        self._folder.cleanup()

    def _publish(self, before: Tables, after: Tables) -> None:
        changed = [name for name in after if before.get(name) != after[name]]
        said = json.dumps({"id": uuid.uuid4().hex, "tables": len(changed)})
        metadata = {"headwater.global": said} if len(changed) > 1 else {}
        for name in changed:
            self._commit(name, before.get(name), after[name], metadata)

    def _commit(
        self,
        name: str,
        before: Counter[Row] | None,
        after: Counter[Row],
        metadata: dict[str, str],
    ) -> None:
        """What came is appended where nothing went; otherwise the table is written anew."""
        schema, path = self.database.schemas[name], self.path / name
        properties = CommitProperties(custom_metadata=metadata)
        if before is not None and not before - after:
            data, mode = after - before, "append"
        else:
            data, mode = after, "overwrite"
        write_deltalake(
            path,
            table_of(schema, data),
            mode="append" if mode == "append" else "overwrite",
            commit_properties=properties,
            configuration={"delta.enableChangeDataFeed": str(self._change_feed).lower()},
        )

    def table(self, name: str) -> DeltaTable:
        return DeltaTable(self.path / name)


def table_of(schema: Schema, rows: Counter[Row]) -> pyarrow.Table:
    found = copies(Rows(schema, dict(rows)))
    return found.rename_columns(list(schema.names)).cast(arrow_schema(schema))
