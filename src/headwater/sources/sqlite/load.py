"""Loads of a SQLite source: several readers of one and the same state.

A table is cut by rowid; one without rowids by the first column of its key.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from headwater.sources.contract import Position
from headwater.sources.sqlite.access import Access, Connection
from headwater.sources.sqlite.described import Table
from headwater.sources.sqlite.monitor import SeqSnapshot
from headwater.sources.sqlite.standing import check_readable, follow
from headwater.sources.sqlite.types import Stored, arrow_batch
from headwater.sources.sqlite.uniques import quoted

if TYPE_CHECKING:
    import pyarrow

_TRIES = 20
_ROWS_PER_BATCH = 10_000
_Part = tuple[str, list[Stored]]
"""A condition, and its parameters."""


class SqliteLoad:
    """Whole relations as they were after one change."""

    def __init__(self, access: Access, tables: Mapping[str, Table], readers: int) -> None:
        self._access = access
        self._tables = tables
        self._readers: list[Connection] = []
        self._locks = [threading.Lock() for _ in range(max(1, readers))]
        try:
            for _ in self._locks:
                self._readers.append(access.connect())
            with access.failures():
                self.position = self._begin()
                self._parts = {name: self._cut(table) for name, table in tables.items()}
        except BaseException:
            self.close()
            raise

    def parts(self, relation: str) -> int:
        return len(self._parts[relation])

    def read(self, relation: str, part: int) -> Iterator[pyarrow.RecordBatch]:
        from headwater.frames.arrow import arrow_schema

        table = self._tables[relation]
        schema = arrow_schema(table.relation.schema)
        condition, parameters = self._parts[relation][part]
        columns = ", ".join(quoted(column) for column in table.bases)
        lock = self._locks[part]
        with self._access.failures():
            with lock:
                cursor = self._readers[part].execute(
                    f"SELECT {columns} FROM main.{quoted(table.name)}{condition}", parameters
                )
            while True:
                with lock:
                    rows = cursor.fetchmany(_ROWS_PER_BATCH)
                if not rows:
                    return
                reader = self._readers[part]
                read = [table.read(self._access, reader, row) for row in rows]
                yield arrow_batch(schema, read)

    @property
    def snapshot(self) -> SeqSnapshot:
        return SeqSnapshot(self._seq)

    def remote(self, relation: str, part: int) -> None:
        """SQLite cannot show one state to several processes."""

    def within(self, position: Position | None) -> bool:
        seq = 0 if position is None else position["seq"]
        return isinstance(seq, int) and seq >= self._seq

    def close(self) -> None:
        for reader in self._readers:
            reader.close()

    def _begin(self) -> Position:
        """Begin to read with all readers in the same state."""
        for _ in range(_TRIES):
            if len(seen := self._heads()) == 1:
                return self._checked(*seen)
        writer = self._access.connect(write=True)  # holds writers back for a moment
        try:
            writer.execute("BEGIN IMMEDIATE")
            return self._checked(*self._heads())
        finally:
            writer.close()

    def _heads(self) -> set[tuple[int, int, str, int]]:
        heads = set()
        for reader in self._readers:
            if reader.in_transaction:
                reader.execute("COMMIT")
            reader.execute("BEGIN")
            (schema,) = reader.execute("PRAGMA main.schema_version").fetchone()
            if not self._readers.index(reader):
                followed = follow(self._access, reader, self._tables)
                used = {name: table.stored for name, table in self._tables.items()}
                check_readable(self._access, followed, used)
            seq, nonce, log = reader.execute(
                f"SELECT seq, nonce, log FROM {self._access.names.head}"
            ).fetchone()
            heads.add((int(seq), int(nonce), str(log), int(schema)))
        return heads

    def _checked(self, head: tuple[int, int, str, int]) -> Position:
        self._seq, nonce, log, _ = head
        return {"seq": self._seq, "log": log, "nonce": nonce}

    # Parts

    def _cut(self, table: Table) -> list[_Part]:
        count = len(self._readers)
        column = table.rowid or (table.primary[0] if table.primary else None)
        if count == 1 or column is None:
            return [("", [])]
        bounds = self._rowids(table, count) if table.rowid else self._keys(table, count)
        if not bounds:
            return [("", [])]
        name = quoted(column)
        between = [
            (f" WHERE {name} >= ? AND {name} < ?", [low, high]) for low, high in pairwise(bounds)
        ]
        first: _Part = (f" WHERE {name} < ?", [bounds[0]])
        return [first, *between, (f" WHERE {name} >= ?", [bounds[-1]])]

    def _rowids(self, table: Table, count: int) -> list[Stored]:
        name = quoted(str(table.rowid))
        low, high = (
            self._readers[0]
            .execute(
                f"SELECT (SELECT min({name}) FROM main.{quoted(table.name)}), "
                f"(SELECT max({name}) FROM main.{quoted(table.name)})"
            )
            .fetchone()
        )
        if low is None or high - low < count:
            return []
        return [low + (high - low) * at // count for at in range(1, count)]

    def _keys(self, table: Table, count: int) -> list[Stored]:
        on, name = f"main.{quoted(table.name)}", quoted(table.primary[0])
        (rows,) = self._readers[0].execute(f"SELECT count(*) FROM {on}").fetchone()
        found: dict[Stored, None] = {}
        for at in range(1, count):
            row = (
                self._readers[0]
                .execute(
                    f"SELECT {name} FROM {on} ORDER BY {name} LIMIT 1 OFFSET ?",
                    (rows * at // count,),
                )
                .fetchone()
            )
            if row is not None:
                found[row[0]] = None
        return list(found)
