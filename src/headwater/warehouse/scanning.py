"""A state of a view as a scan, without Spark: its plain files less what went since, and what came.

What goes and comes is the sum of the tail; under a top it is what the top shows before and after,
by the keys that the tail touches. Files are read one row group after the other, here or wherever
a scan is sent: it can be pickled.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy
import pyarrow

from headwater.algebra.keying import keying
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.tops import PART, evaluate_top
from headwater.algebra.touched import Keying, shown_change
from headwater.algebra.values import Row
from headwater.errors import EngineError, InputError
from headwater.frames.arrow import arrow_schema, from_arrow, row_values, signed_schema
from headwater.frames.columns import copies
from headwater.protocol.look_ups import LookUp
from headwater.storage.location import Location
from headwater.warehouse.finding import RowGroups, Wanted, matching, row_groups
from headwater.warehouse.table_versions import DataFile

if TYPE_CHECKING:
    from headwater.warehouse.states import ViewState

MOST_WHOLE = 500_000
"""So many stored rows a top that has no keys is evaluated over in memory."""
_PIECE_BYTES = 64 * 2**20
_AT_ONCE = 2
"""So many row groups of a file are looked through at the same time."""
_MOST_SUSPECTS = 200_000
"""So many rows of a part of a file are looked at one by one."""


class LeftToSparkError(InputError):
    """What a view shows can only be computed by Spark."""


@dataclass(frozen=True)
class Piece:
    """Some row groups of a file, to be read by one task."""

    file: DataFile
    groups: tuple[int, ...]


@dataclass(frozen=True)
class Scan:
    """What a reader sees of a state."""

    view: str
    number: int
    schema: Schema
    folder: Location
    files: tuple[DataFile, ...]
    key: tuple[str, ...]
    gone: Rows
    """Rows of the files that are not seen, with how many copies of each; by the key if there is
    one."""
    added: pyarrow.Table
    """Rows that are seen beside, each as often as it counts."""
    has_all: bool = False
    """Whether all that went has to be in the files."""
    places: Mapping[str, Mapping[int, Sequence[int]]] | None = None
    """Where in the row groups of files the rows are that went, once that has been found out."""

    def pieces(self) -> list[Piece]:
        """The files in parts of a size that suits a task."""
        found = []
        for file in self.files:
            with row_groups(self.folder, file, self.arrow_schema) as groups:
                taken: list[int] = []
                size = 0
                for group in range(groups.count):
                    taken.append(group)
                    size += groups.bytes(group)
                    if size >= _PIECE_BYTES:
                        found.append(Piece(file, tuple(taken)))
                        taken, size = [], 0
                if taken:
                    found.append(Piece(file, tuple(taken)))
        return found

    def divided(self) -> Scan:
        """The same, whose pieces may be read apart.

        Of rows that have no key it is found out first which copies went; a key tells by itself.
        """
        if self.key or not self.gone:
            return self
        places: dict[str, dict[int, Sequence[int]]] = {}
        for file, group, _, gone in self._walk():
            if gone:
                places.setdefault(file.name, {})[group] = gone
        return replace(self, places=places, gone=Rows.empty(self.schema))

    def read(self, piece: Piece, names: Sequence[str] | None = None) -> Iterator[pyarrow.Table]:
        """What is seen of a piece, some columns of it or all; the scan has to be `divided`."""
        with row_groups(self.folder, piece.file, self.arrow_schema) as groups:
            for group in piece.groups:
                known = (self.places or {}).get(piece.file.name, {})
                gone = known.get(group) or self._gone_by_key(groups, group)
                yield _kept(groups, group, self._named(names), gone)

    def tables(self, names: Sequence[str] | None = None) -> Iterator[pyarrow.Table]:
        """All that is seen, what came last first; read as it is asked for."""
        wanted = self._named(names)
        yield self.added.select(wanted)
        for _, group, groups, gone in self._walk():
            yield _kept(groups, group, wanted, gone)

    def table(self, names: Sequence[str] | None = None) -> pyarrow.Table:
        return pyarrow.concat_tables(self.tables(names))

    @property
    def arrow_schema(self) -> pyarrow.Schema:
        return arrow_schema(self.schema)

    def _named(self, names: Sequence[str] | None) -> list[str]:
        return list(self.schema.names if names is None else names)

    # The rows that went

    def located(self) -> Mapping[str, Sequence[int]] | None:
        """Where in each file the rows are that went, by its name; None if very many may be meant.

        What may be meant is looked for in several files and row groups at a time.
        """
        left = self._left()
        if not left:
            return {}
        found: dict[str, list[int]] = {}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            parts = [(file, part) for file in self.files for part in range(_AT_ONCE)]
            for (file, _), suspects in zip(
                parts, pool.map(lambda part: self._suspects_of(*part), parts), strict=True
            ):
                if suspects is None:
                    return None
                if places := _take(left, suspects):
                    found.setdefault(file.name, []).extend(places)
        self._check(left)
        return {name: sorted(places) for name, places in found.items()}

    def _suspects_of(self, file: DataFile, part: int) -> list[tuple[int, Row]] | None:
        """The rows of every so many-th row group of a file that may be meant, by their places."""
        found: list[tuple[int, Row]] = []
        with row_groups(self.folder, file, self.arrow_schema) as groups:
            start = 0
            for group in range(groups.count):
                if group % _AT_ONCE == part:
                    found += ((start + at, row) for at, row in self._suspects(groups, group))
                    if len(found) > _MOST_SUSPECTS:
                        return None
                start += groups.rows(group)
        return found

    def _walk(self) -> Iterator[tuple[DataFile, int, RowGroups, Sequence[int]]]:
        """All row groups in turn, each with the places of the rows that went."""
        left = self._left()
        for file in self.files:
            with row_groups(self.folder, file, self.arrow_schema) as groups:
                for group in range(groups.count):
                    suspects = self._suspects(groups, group) if left else ()
                    yield file, group, groups, _take(left, suspects)
        self._check(left)

    def _suspects(self, groups: RowGroups, group: int) -> Iterable[tuple[int, Row]]:
        """The rows of a row group that may be meant, or their keys, by their places."""
        names = self.key or self.schema.names
        places, rows = self._wanted.rows(groups, group, names)
        return zip(places.to_pylist(), row_values(rows, self.schema.only(names)), strict=True)

    def _gone_by_key(self, groups: RowGroups, group: int) -> list[int]:
        return _take(self._left(), self._suspects(groups, group)) if self.key else []

    def _left(self) -> dict[Row, float]:
        """How many copies of rows are to be found; by the key whatever is there."""
        return dict.fromkeys(self._keys, math.inf) if self.key else dict(self.gone.items())

    def _check(self, left: Mapping[Row, float]) -> None:
        if self.has_all and left:
            raise EngineError(
                f"The plain table {self.folder} lacks rows that its stored parts show.",
                f"Load the view anew with 'headwater reload {self.view}'.",
            )

    @cached_property
    def _keys(self) -> frozenset[Row]:
        return frozenset(self.gone.distinct(self.key or self.schema.names))

    @cached_property
    def _wanted(self) -> Wanted:
        names = self.key or self.schema.names
        return Wanted(LookUp(tuple(names), self._keys), self.schema)


def _take(left: dict[Row, float], suspects: Iterable[tuple[int, Row]]) -> list[int]:
    """The places of rows of which copies are left to be found; which of them is all the same."""
    found = []
    for at, row in suspects:
        if row in left:
            found.append(at)
            left[row] -= 1
            if not left[row]:
                del left[row]
    return found


def _kept(
    groups: RowGroups, group: int, names: Sequence[str], gone: Sequence[int]
) -> pyarrow.Table:
    table = groups.read(group, names)
    if not gone:
        return table
    mask = numpy.ones(groups.rows(group), dtype=bool)
    mask[list(gone)] = False
    return table.filter(pyarrow.array(mask))


# States


def scan_of(state: ViewState) -> Scan:
    """What a reader sees of a state; LeftToSparkError if only Spark can tell.

    ExpressionError where its top fails.
    """
    if state.is_published and (not state.tail_files or state.number <= state.base.number):
        return plain_scan(state)
    if state.top is None:
        return _changed(state, state.tail_rows(), state.key)
    by = keying(state.top) if state.is_published else None
    check_memory_tells(state, is_keyed=by is not None)
    if by is None:
        whole = copies(evaluate_top(state.top, state.signed_rows()))
        return replace(plain_scan(state), files=(), added=whole)
    tail = state.tail_rows()
    change = shown_change(state.top, by, touched_rows(state, tail, by), tail)
    return replace(_changed(state, change), has_all=True)


def plain_scan(state: ViewState) -> Scan:
    """What the plain table holds of a state."""
    schema = state.shown_schema
    nothing = pyarrow.Table.from_batches([], arrow_schema(schema))  # loads no pandas
    return Scan(
        state.commit.view,
        state.number,
        schema,
        state.plain.folder,
        state.plain.files,
        (),
        Rows.empty(schema),
        nothing,
    )


def check_memory_tells(state: ViewState, *, is_keyed: bool) -> None:
    """LeftToSparkError if a top cannot be evaluated in memory."""
    why = ""
    if state.is_left_to_spark:
        why = "has expressions that only Spark computes"
    elif not is_keyed and state.stored_size > MOST_WHOLE:
        why = f"is evaluated whole, over {state.stored_size:,} rows"
    if why:
        raise LeftToSparkError(
            f"The view {state.commit.view} {why}, so it is not read without Spark's help.",
            "Read it with headwater.register(spark, project), which makes it a temporary view, or "
            "with project.view(...).df(spark).",
        )


def touched_rows(state: ViewState, change: Rows, by: Keying) -> Rows:
    """The rows stored at a state's base with a key that some row of a change has, and others.

    Of every part, whichever part the change is of: who loses a partner is stored in another one.
    """
    keys = {key for number, names in by.items() for key in _keys(number, names, change)}
    look_ups = [_look_up(number, names, keys) for number, names in by.items()]
    wanted = [Wanted(look_up, state.schema) for look_up in look_ups]
    schema = signed_schema(state.schema)
    found = matching(state.stored.folder, state.stored.files, schema, wanted)
    return from_arrow(found, state.schema)


def _keys(number: int | None, names: Sequence[str], change: Rows) -> Iterable[Row]:
    """The keys that a part of a change has."""
    if number is None:
        return change.distinct(names)
    return (key[1:] for key in change.distinct((PART, *names)) if key[0] == number)


def _look_up(number: int | None, names: Sequence[str], keys: Collection[Row]) -> LookUp:
    if number is None:
        return LookUp(tuple(names), frozenset(keys))
    return LookUp((PART, *names), frozenset((number, *key) for key in keys))


def _changed(state: ViewState, change: Rows, key: tuple[str, ...] = ()) -> Scan:
    gone = -change.negative()
    added = copies(change.positive())
    return replace(plain_scan(state), key=key if gone else (), gone=gone, added=added)
