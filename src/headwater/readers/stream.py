"""A view's changes as a stream of Spark's, whose offsets are versions of the view.

Version 0 is the view without rows: what leads from it to a version are all rows of the view, so a
stream that begins there adds up to the view. What is between two versions is a function of these,
however often it is asked for; Spark asks for the same two again after a crash. So a sink that
takes every batch once holds exactly the changes.

An offset also says which view it is of: one that was dropped and loaded again counts anew. Offsets
pin nothing: how long a query may be away is what the warehouse keeps versions for (`retention`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from headwater.errors import InputError
from headwater.readers.asked import whole_number
from headwater.readers.parts import (
    Part,
    batches,
    changes_table,
    read_part,
    state_parts,
    with_number,
)
from headwater.warehouse.columns import CHANGE, VERSION
from headwater.warehouse.failing import seen
from headwater.warehouse.scanning import Scan, scan_of
from headwater.warehouse.view_table import ViewTable

if TYPE_CHECKING:
    from collections.abc import Iterator

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # before Spark 4.2
    SupportsTriggerAvailableNow = object  # type: ignore[assignment,misc]
    _HAS_LIMITS = False
else:
    _HAS_LIMITS = True

Offset: TypeAlias = dict[str, Any]


@dataclass
class _Changes(InputPartition):
    first: int
    last: int


@dataclass
class _Rows(Part):
    """A part of the rows that a stream begins with."""

    scan: Scan


class ChangesStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What goes and comes in a view, from version to version. Spark pickles it for its tasks."""

    def __init__(self, open_view: Callable[[], ViewTable], options: Mapping[str, str]) -> None:
        self._open = open_view
        self._opened: ViewTable | None = None
        self._starting = options.get("startingVersion", "earliest").strip().lower()
        most = options.get("maxVersionsPerTrigger")
        self._most = None if most is None else whole_number("maxVersionsPerTrigger", most, least=1)
        self._until: int | None = None
        if most is not None and not _HAS_LIMITS:
            raise InputError(
                "This version of Spark does not limit what a batch of a Python data source has.",
                "Leave maxVersionsPerTrigger out, or use Spark 4.2 or newer.",
            )

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_opened": None}

    @property
    def _view(self) -> ViewTable:
        if self._opened is None or not self._opened.is_in_place:
            self._opened = self._open()
        return self._opened

    # Offsets. The names are Spark's.

    def initialOffset(self) -> Offset:  # noqa: N802
        match self._starting:
            case "earliest":
                return self._offset(0)
            case "latest":
                return self._offset(self._shown(self._view.latest().number))
        number = whole_number("startingVersion", self._starting)
        return self._offset(self._view.at(number).number if number else 0)

    def latestOffset(  # noqa: N802
        self, start: Offset | None = None, limit: object = None
    ) -> Offset:
        """The version that the next batch leads to; the same if there is nothing new.

        Spark before 4.2 says neither where a batch starts nor how much it may have.
        """
        newest = self._view.latest().number if self._until is None else self._until
        if start is None:
            return self._offset(self._shown(newest))
        first = self._number(start)
        end = newest
        if first and self._most is not None and not isinstance(limit, ReadAllAvailable):
            end = min(first + self._most, newest)  # from nothing it is always one batch
        if end <= first:
            return start
        shown = self._shown(end)
        if shown <= first and end < newest:  # what fails there may have been put right since
            shown = self._shown(newest)
        return self._offset(max(first, shown))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """A version is one file of the log, as Spark's limits go."""
        return ReadAllAvailable() if self._most is None else ReadMaxFiles(self._most)

    def reportLatestOffset(self) -> Offset:  # noqa: N802
        return self._offset(self._view.latest().number)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._until = self._view.latest().number

    def _offset(self, number: int) -> Offset:
        return {"version": number, "view": self._view.identity}

    def _number(self, offset: Offset) -> int:
        """The version of an offset, if it is one of this view."""
        view, number = self._view, int(offset["version"])
        if offset.get("view") != view.identity:
            raise InputError(
                f"The view {view.name} has been dropped and loaded again since this query read it, "
                "and its versions count anew.",
                "Start the query with a new checkpointLocation: it begins with all rows.",
            )
        if number > (newest := view.latest().number):
            raise InputError(
                f"This query has read version {number} of the view {view.name}, whose newest "
                f"version is {newest}: the warehouse has been put back to an earlier state.",
                "Start the query with a new checkpointLocation: it begins with all rows.",
            )
        return number

    def _shown(self, number: int) -> int:
        """This version; if the view fails in it, the last before that."""
        state = self._view.at(number)
        if state.top is None and state.error_column is None:
            return number
        return seen(self._view, lambda each: scan_of(each).number, number)

    # Rows

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        first, last = self._number(start), self._number(end)
        if first == last:
            return []
        _check_kept(self._view, first or last)
        if first:
            return [_Changes(first, last)]
        scan = seen(self._view, scan_of, last).divided()
        plain = replace(scan, added=scan.added.slice(0, 0))
        return [
            _Rows(part.piece, scan if part.piece is None else plain) for part in state_parts(scan)
        ]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """A list's iterator: Spark refuses one that is made as it goes."""
        if isinstance(partition, _Changes):
            return iter(_batches([changes_table(self._view, partition.first, partition.last)]))
        assert isinstance(partition, _Rows)
        found = [
            with_number(with_number(table, CHANGE, 1), VERSION, partition.scan.number)
            for table in read_part(partition.scan, partition)
        ]
        return iter(_batches(found))


def _batches(tables: Sequence[pyarrow.Table]) -> list[pyarrow.RecordBatch]:
    return [batch for table in tables for batch in batches(table)]


def _check_kept(view: ViewTable, number: int) -> None:
    try:
        view.at(number)
    except InputError as gone:
        raise InputError(
            f"{gone.message} This query goes on with what changed from there on or up to there, "
            "and that is lost to it.",
            f"{gone.hint} Start the query with a new checkpointLocation, which begins with all "
            "rows; 'retention' in headwater.toml says how long versions are kept.",
        ) from None
