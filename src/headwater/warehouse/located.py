"""Where in the files of a state the rows are that its tail took away, looked for without Spark.

It is looked for once for a state. The columns that rows are looked up by stay in memory for the
next state over the same files, up to a limit.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from headwater.algebra.keying import keying
from headwater.warehouse.remembered import Remembered
from headwater.warehouse.scanning import Scan, scan_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.warehouse.states import ViewState

KEPT_BYTES = 64 * 2**20
MOST_ROWS = 20_000_000
MOST_BYTES = 512 * 2**20
"""In so many rows, those that went are looked for by one process; in files up to this size where
whole rows have to be compared, and not keys alone."""


@dataclass(frozen=True)
class Located:
    """What is seen of a state, and by file the places of the rows that are not."""

    scan: Scan
    places: Mapping[str, Sequence[int]]
    frames: MutableMapping[SparkSession, tuple[Any, tuple[str, ...]]] = field(
        default_factory=WeakKeyDictionary, repr=False, compare=False
    )
    """By session what Spark has made of it, and of which files (see `placed`)."""

    @property
    def bytes(self) -> int:
        """What it takes here, and what a plan takes: the rows that came, and a bit for each row."""
        bits = sum(file.rows for file in self.scan.files if file.name in self.places) // 8
        return 2 * int(self.scan.added.nbytes) + 64 * sum(map(len, self.places.values())) + bits


LOCATED: Remembered[Located] = Remembered(KEPT_BYTES, lambda found: found.bytes)


def located(state: ViewState) -> Located | None:
    """Found out now or before; None where that is more than one process should do."""
    if not _is_for_one_process(state):
        return None
    if found := LOCATED.get(told := _told(state)):
        return found
    scan = scan_of(state)
    places = scan.located()
    return None if places is None else LOCATED.put(told, Located(scan, places))


def _is_for_one_process(state: ViewState) -> bool:
    if state.is_left_to_spark or not state.is_published or not state.has_small_tail:
        return False
    if state.top is not None and keying(state.top) is None:
        return False
    by_key = bool(state.key) and state.top is None
    return all(
        sum(file.rows for file in table.files) <= MOST_ROWS
        and (by_key or sum(file.size for file in table.files) <= MOST_BYTES)
        for table in (state.plain, state.stored)
    )


def _told(state: ViewState) -> Hashable:
    """What tells a state from all others: what it shows follows from its files."""
    tables = (state.plain.files, state.stored.files, state.tail_files)
    names = tuple(tuple(file.name for file in files) for files in tables)
    return state.plain.folder.uri, names, state.base.number, state.number, state.error_column
