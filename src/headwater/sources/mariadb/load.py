"""Loads of MariaDB and MySQL: several sessions that read one and the same state.

Servers cannot hand a snapshot to another session. So every reader takes its own, until all have
the same place in the log; where writers are too busy for that they are held back for a moment.
A table whose primary key is one whole number is cut by ranges of it, and read in their order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from headwater.algebra.values import Row
from headwater.errors import SourceError
from headwater.sources.contract import Position
from headwater.sources.mariadb.connect import Access, Connection, close, quoted, run
from headwater.sources.mariadb.places import LogPosition, Place, PlaceSnapshot
from headwater.sources.mariadb.snapshot import Holder, begin
from headwater.sources.mariadb.standing import started_at
from headwater.sources.mariadb.types import Table

if TYPE_CHECKING:
    import pyarrow

_DOING = "load"
_TRIES = 10
_ROWS_PER_BATCH = 20_000


class MariadbLoad:
    """Whole relations as they were at one place in the log."""

    def __init__(
        self,
        access: Access,
        tables: Mapping[str, Table],
        readers: int,
        log: Callable[[Connection], str],
        *,
        by_lock: bool,
    ) -> None:
        self._access = access
        self._tables = tables
        self._readers: list[Connection] = []
        self._locks = [threading.RLock() for _ in range(max(1, readers))]
        self._holder: Connection = access.connect()
        try:
            for _ in self._locks:
                self._readers.append(access.connect(is_streaming=True, waits=False))
            self._log = log(self._holder)
            self._start = started_at(access, self._holder)
            self._place = self._begin(by_lock)
            self._cuts = {name: self._cut(table) for name, table in tables.items()}
        except BaseException:
            self.close()
            raise

    @property
    def snapshot(self) -> PlaceSnapshot:
        return PlaceSnapshot(self._place.stamp, self._start)

    @property
    def position(self) -> Position:
        return LogPosition(self._place, self._log, self._start).json()

    def parts(self, relation: str) -> int:
        return len(self._cuts[self._name(relation)]) + 1

    def read(self, relation: str, part: int) -> Iterator[pyarrow.RecordBatch]:
        name = self._name(relation)
        table, cuts = self._tables[name], self._cuts[name]
        if not table.cut_by:
            yield from self._streamed(table)
            return
        low = cuts[part - 1] if part else None
        high = cuts[part] if part < len(cuts) else None
        yield from self._in_order(table, part, low, high)

    def remote(self, relation: str, part: int) -> None:
        """A server cannot show one state to several processes."""

    def within(self, position: Position | None) -> bool:
        if position is None:
            return False  # a monitor says first where it begins
        known = LogPosition.of(position)
        is_same = known.log == self._log and known.start in ("", self._start)
        return is_same and known.at.stamp >= self._place.stamp

    def close(self) -> None:
        for connection in (*self._readers, self._holder):
            close(connection)

    def _name(self, relation: str) -> str:
        name = relation.removeprefix(f"{self._access.source}.")
        if name not in self._tables:
            raise SourceError(
                f"Source {self._access.source}: {relation} is not part of this load.",
                "Its relations are " + ", ".join(self._tables) + ".",
            )
        return name

    # One state for all

    def _begin(self, by_lock: bool) -> Place:
        tables = list(self._tables.values())
        holder = Holder(self._access, self._holder, by_lock=by_lock)
        if not by_lock:
            holder.hold(tables)
            for _ in range(_TRIES):
                places = self._snapshots(holder, tables, by_lock=False)
                if len(places) == 1:
                    self._keep(tables)
                    holder.release()
                    return places.pop()
            holder.release()
        holder.hold(tables, locked=True)
        places = self._snapshots(holder, tables, by_lock=by_lock)
        self._keep(tables)
        holder.release()
        # While the tables are locked all of these places are behind what has changed them.
        return max(places, key=lambda place: place.stamp)

    def _snapshots(self, holder: Holder, tables: Collection[Table], *, by_lock: bool) -> set[Place]:
        return {begin(self._access, each, holder, tables, by_lock) for each in self._readers}

    def _keep(self, tables: Sequence[Table]) -> None:
        """Keep the tables from being altered until they have been read."""
        with self._access.errors(_DOING):
            for each in self._readers:
                for table in tables:
                    run(each, f"SELECT 1 FROM {table.identifier} LIMIT 0")

    # Parts

    def _cut(self, table: Table) -> list[int]:
        """Where a table is cut: the first numbers of its second part and those behind it."""
        count = len(self._readers)
        if count == 1 or not table.cut_by:
            return []
        name = quoted(table.cut_by)
        with self._access.errors(_DOING):
            ((low, high),) = run(
                self._readers[0], f"SELECT MIN({name}), MAX({name}) FROM {table.identifier}"
            )
        if low is None or int(high) - int(low) < count:
            return []
        first, last = int(low), int(high)
        return [first + (last - first) * at // count for at in range(1, count)]

    def _columns(self, table: Table) -> str:
        shown = [c.form.select.format(quoted(c.name)) for c in table.wanted]
        return ", ".join(shown) or "1"

    def _in_order(
        self, table: Table, part: int, low: int | None, high: int | None
    ) -> Iterator[pyarrow.RecordBatch]:
        """Rows in the order of the key, some at a time, so that nobody waits for a reader."""
        name = quoted(table.cut_by)
        reader, lock = self._readers[part], self._locks[part]
        bounds = [f"{name} < {high}"] if high is not None else []
        after = f"{name} >= {low}" if low is not None else ""
        while True:
            where = " AND ".join([*bounds, *([after] if after else [])])
            sql = (
                f"SELECT {name}, {self._columns(table)} FROM {table.identifier}"
                f"{' WHERE ' + where if where else ''} ORDER BY {name} LIMIT {_ROWS_PER_BATCH}"
            )
            with lock, self._access.errors(f"{_DOING} {table.label}"):
                rows = run(reader, sql)
            if rows:
                yield self._batch(table, [row[1 : 1 + len(table.wanted)] for row in rows])
            if len(rows) < _ROWS_PER_BATCH:
                return
            after = f"{name} > {int(rows[-1][0])}"

    def _streamed(self, table: Table) -> Iterator[pyarrow.RecordBatch]:
        """Rows in any order, over one reader that does nothing else meanwhile."""
        sql = f"SELECT {self._columns(table)} FROM {table.identifier}"
        with self._locks[0], self._access.errors(f"{_DOING} {table.label}"):
            cursor = self._readers[0].cursor()
            try:
                cursor.execute(sql)
                while rows := cursor.fetchmany(_ROWS_PER_BATCH):
                    yield self._batch(table, [row[: len(table.wanted)] for row in rows])
            finally:
                cursor.close()

    def _batch(self, table: Table, rows: Sequence[Sequence[object]]) -> pyarrow.RecordBatch:
        import pyarrow as pa

        from headwater.frames.arrow import arrow_schema

        schema = arrow_schema(table.schema)
        if not table.wanted:
            return pa.RecordBatch.from_arrays([], schema=schema)
        read: list[Row] = [table.row(table.wanted, row) for row in rows]
        columns = zip(*read, strict=True)
        arrays = [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
