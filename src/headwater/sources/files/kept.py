"""What was seen of a relation, kept as Parquet files in the warehouse: whole, or as signed rows.

A few signed rows have a text for a name, which says them: they stand in the journal itself. A file
is durable before it is named anywhere, and never changes. What is named no more is deleted after a
while, since others may still read it.
"""

from __future__ import annotations

import io
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Any

import pyarrow
import pyarrow.parquet

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import Row, from_json, to_json
from headwater.errors import BrokenLogError
from headwater.frames.arrow import COUNT, signed_schema
from headwater.frames.columns import Columns, arrow_table
from headwater.storage.location import Location

_ENDING = ".parquet"
_FEW = 50
_SHORT = 8_000
_MOST_BYTES = 512 << 20
_UNNAMED_S = 900.0
_LOOK_EVERY_S = 60.0


class KeptFiles:
    """The files of one source; those that were read last are in memory."""

    def __init__(self, source: str, place: Location | None) -> None:
        self._source = source
        self._place = place
        self._lock = threading.Lock()
        self._tables: OrderedDict[str, pyarrow.Table] = OrderedDict()
        self._bytes: dict[str, int] = {}
        self._held = 0
        self._has_folder = False
        self._nets: dict[str, tuple[tuple[str, ...], tuple[pyarrow.Table, ...]]] = {}
        self._cleaned = time.monotonic()

    @property
    def folder(self) -> Location:
        assert self._place is not None, "a journal asks for the place first"
        return self._place / "files"

    def put(self, table: pyarrow.Table) -> str:
        """Make a table durable; its name."""
        content = io.BytesIO()
        pyarrow.parquet.write_table(
            table, content, compression="zstd", write_page_checksum=True, row_group_size=1 << 17
        )
        if not self._has_folder:
            self.folder.make_folder()
            self._has_folder = True
        name = self.folder.storage.fresh_name() + _ENDING
        (self.folder / name).write(content.getbuffer())
        self._remember(name, table)
        return name

    def forget(self) -> None:
        """The folder may have been removed."""
        self._has_folder = False

    def put_rows(self, rows: Rows) -> str:
        """Signed rows; what they are called."""
        if rows.size_hint <= _FEW:
            listed = [[count, *map(to_json, row)] for row, count in rows.items()]
            text = json.dumps(listed, separators=(",", ":"))
            if len(text) <= _SHORT:
                return text
        return self.put(arrow_table(rows).cast(signed_schema(rows.schema)))

    def get(self, name: str) -> pyarrow.Table:
        with self._lock:
            if name in self._tables:
                self._tables.move_to_end(name)
                return self._tables[name]
        place = self.folder / name
        try:
            with pyarrow.parquet.ParquetFile(
                place.for_arrow(), page_checksum_verification=True
            ) as file:
                table = file.read()
        except (OSError, pyarrow.ArrowException) as error:
            raise BrokenLogError(
                self._source, f"what was kept of it, {place}, cannot be read: {error}."
            ) from None
        self._remember(name, table)
        return table

    def get_rows(self, name: str, schema: Schema) -> Rows:
        """Signed rows by what they are called; `schema` has all columns that they were put with."""
        if name.startswith("["):
            return Rows(schema, dict(_row(found, schema) for found in json.loads(name)))
        return Columns(schema, self.get(name).select([*schema.names, COUNT]))

    def nets(
        self, relation: str, schema: Schema, parts: Sequence[str]
    ) -> tuple[pyarrow.Table, ...]:
        """What signed files come to together, as few tables: each has more than twice the rows of
        the next, so what one more costs hardly depends on how many there were before it.

        Those of a moment ago are known.
        """
        with self._lock:
            done, tables = self._nets.get(relation, ((), ()))
        if done != tuple(parts[: len(done)]):
            done, tables = (), ()
        for part in parts[len(done) :]:
            found = arrow_table(Columns.of_rows(self.get_rows(part, schema)))
            tables = _stacked(schema, tables, found)
        with self._lock:
            self._nets[relation] = (tuple(parts), tables)
        return tables

    def drop(self, name: str) -> None:
        """Remove what nothing has named yet."""
        (self.folder / name).remove()
        with self._lock:
            self._tables.pop(name, None)
            self._held -= self._bytes.pop(name, 0)

    def _remember(self, name: str, table: pyarrow.Table) -> None:
        with self._lock:
            self._tables[name] = table
            self._tables.move_to_end(name)
            self._held += table.nbytes - self._bytes.get(name, 0)
            self._bytes[name] = table.nbytes
            while len(self._tables) > 1 and self._held > _MOST_BYTES:
                oldest, _ = self._tables.popitem(last=False)
                self._held -= self._bytes.pop(oldest)

    def clean(self, named: Collection[str]) -> None:
        """Delete, now and then, what is named no more."""
        if time.monotonic() - self._cleaned < _LOOK_EVERY_S:
            return
        self._cleaned = time.monotonic()
        for file in self.folder.files(_ENDING):
            if file.name not in named and file.age_s() > _UNNAMED_S:
                file.remove()


def _stacked(
    schema: Schema, tables: tuple[pyarrow.Table, ...], table: pyarrow.Table
) -> tuple[pyarrow.Table, ...]:
    while tables and tables[-1].num_rows <= 2 * table.num_rows:
        together = Columns(schema, tables[-1]) + Columns(schema, table)
        tables, table = tables[:-1], arrow_table(Columns.of_rows(together))
    return (*tables, table) if table.num_rows else tables


def _row(found: list[Any], schema: Schema) -> tuple[Row, int]:
    count, *values = found
    row = tuple(from_json(v, kind) for v, kind in zip(values, schema.types, strict=True))
    return row, count
