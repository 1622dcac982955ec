"""What tasks of Spark read of a view: parts of a state, or changes, as Arrow's record batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow
from pyspark.sql.datasource import DataSourceReader, InputPartition

from headwater.frames.arrow import COUNT
from headwater.frames.columns import arrow_table
from headwater.warehouse.columns import CHANGE, VERSION
from headwater.warehouse.scanning import Piece, Scan
from headwater.warehouse.view_table import ViewTable

_BATCH_ROWS = 2**16


@dataclass
class Part(InputPartition):
    """A piece of the plain table; None for what came since."""

    piece: Piece | None


class StateReader(DataSourceReader):
    """One state, read by as many tasks as it has parts.

    It takes no filters: Spark 4.3 leaves those of one query on a DataFrame in place for the next
    one that hands none over, whose rows would be missing then.
    """

    def __init__(self, scan: Scan) -> None:
        self._scan = scan.divided()

    def partitions(self) -> list[Part]:
        return state_parts(self._scan)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        assert isinstance(partition, Part)
        for table in read_part(self._scan, partition):
            yield from batches(table)


class ChangesReader(DataSourceReader):
    """The changes from one version to another, read by one task."""

    def __init__(self, view: ViewTable, first: int, last: int | None) -> None:
        self._changes = changes_table(view, first, last)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        yield from batches(self._changes)


def state_parts(scan: Scan) -> list[Part]:
    return [Part(None), *map(Part, scan.pieces())]


def read_part(scan: Scan, part: Part) -> Iterator[pyarrow.Table]:
    return iter([scan.added]) if part.piece is None else scan.read(part.piece)


def changes_table(view: ViewTable, first: int, last: int | None) -> pyarrow.Table:
    """What went and came between two versions, with the version that it led to."""
    if last is None:
        last = view.latest().number
    changed = arrow_table(view.shown_changes(first, last, None))
    names = [CHANGE if name == COUNT else name for name in changed.column_names]
    return with_number(changed.rename_columns(names), VERSION, last)


def with_number(table: pyarrow.Table, name: str, number: int) -> pyarrow.Table:
    numbers = pyarrow.repeat(pyarrow.scalar(number, pyarrow.int64()), table.num_rows)
    return table.append_column(name, numbers)


def batches(table: pyarrow.Table) -> list[pyarrow.RecordBatch]:
    return list(table.to_batches(_BATCH_ROWS))
