"""Looking rows of a view up by key, for action lists that are carried out on it.

A view may be large, and what a list touches is little. Small files at the base are kept in memory
for the next look-up, up to a limit. Of others only the columns of the key are; the whole rows are
read only of the row groups in which a key was found. The tail of the log is kept in memory as it
grows. Files never change, so nothing that is kept grows old: what a state does not name any more
is forgotten.

It is for the view's one writer, between its commits: what it finds is the newest state.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING

import pyarrow
import pyarrow.compute as pc

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.frames.arrow import (
    COUNT,
    arrow_schema,
    from_arrow,
    row_values,
    signed_schema,
)
from headwater.protocol.look_ups import LookUp
from headwater.warehouse.columns import COMMIT, log_arrow_schema
from headwater.warehouse.files import read_arrow, read_places
from headwater.warehouse.finding import Wanted
from headwater.warehouse.netting import columns, quoted
from headwater.warehouse.states import ViewState
from headwater.warehouse.table_versions import DataFile

if TYPE_CHECKING:
    from headwater.frames.session import Spark
    from headwater.warehouse.view_table import ViewTable

KEPT_BYTES = 64 * 2**20
"""So much of the base is kept in memory for one view."""
WHOLE_BYTES = 2**20
"""Of a file up to this size all columns are."""
_MOST_AT_HAND = 64
"""So many commits' rows are kept between two looks at the tail."""
_MOST_PIECES = 16
"""Of more than so many pieces the tail is put together: each takes its time in every look."""


class StoredRows:
    """What is stored of a view, as its writer finds it."""

    def __init__(self, view: ViewTable, spark: Spark | None = None) -> None:
        self._view = view
        self._spark = spark
        self._keys: dict[tuple[str, tuple[str, ...]], pyarrow.Table] = {}
        self._tail: tuple[frozenset[str], pyarrow.Table] | None = None
        self._at_hand: dict[str, pyarrow.Table] = {}
        """What was written since the last look at the tail, by file."""

    @cached_property
    def schema(self) -> Schema:
        """The columns of commits, which stay while the view has one writer."""
        return self._view.schema

    def touched(self, look_ups: Sequence[LookUp]) -> Rows:
        """The rows that some look-up wants, each with its whole count."""
        state = self._view.at()
        wanted = [_by_key(look_up, state.key) for look_up in look_ups]
        found = [self._in_tail(state, wanted)]
        found += [self._in_file(state, file, wanted) for file in state.stored.files]
        return from_arrow(pyarrow.concat_tables(found), self.schema)

    def wrote(self, file: DataFile, rows: pyarrow.Table) -> None:
        """A commit's rows, of which the file need not be read."""
        if self._tail is None or len(self._at_hand) >= _MOST_AT_HAND:
            self._at_hand.clear()  # nobody looks, or seldom
        else:
            self._at_hand[file.name] = rows

    def example(self) -> LookUp:
        """A look-up by one column, which finds something if the base has rows."""
        state = self._view.at()
        schema = state.schema.only((state.key or state.schema.names)[:1])
        largest = max(state.stored.files, key=lambda file: file.rows, default=None)
        if largest is None or not largest.rows:
            return LookUp(schema.names, frozenset())
        values = self._kept(state, largest, arrow_schema(schema))
        middle = row_values(values.slice(values.num_rows // 2, 1), schema)
        return LookUp(schema.names, frozenset(middle))

    def whole(self) -> Rows:
        state = self._view.at()
        if self._spark is None or (callable(self._spark) and state.is_small):
            table = [self._base_table(state, state.stored.files), self._tail_table(state)]
            return from_arrow(pyarrow.concat_tables(table), self.schema)
        from headwater.frames.frame import Frame

        spark = self._spark() if callable(self._spark) else self._spark
        base = state.stored_frame(spark)
        if state.error_column is not None:
            base = base.selectExpr("*", f"CAST(NULL AS STRING) AS {quoted(state.error_column)}")
        rows = base.select(*columns(self.schema), COUNT).unionAll(state.logged_frame(spark))
        return Frame.of_dataframe(rows, self.schema, signed=True).settled()

    # The tail

    def _in_tail(self, state: ViewState, wanted: Sequence[LookUp]) -> pyarrow.Table:
        tail = self._tail_table(state)
        return tail.filter(_mask(tail, wanted, self.schema))

    def _tail_table(self, state: ViewState) -> pyarrow.Table:
        """The tail's signed rows; only files that were not there before are read."""
        files = {file.name: file for file in state.tail_files}
        names, table = self._tail or (frozenset(), None)
        schema = log_arrow_schema(self.schema)
        if table is None or not names <= files.keys():
            names, table = frozenset[str](), schema.empty_table()
        new = [file for name, file in files.items() if name not in names]
        if new:
            table = pyarrow.concat_tables([table, *(self._log_rows(state, f, schema) for f in new)])
            if table.column(COMMIT).num_chunks > _MOST_PIECES:
                table = table.combine_chunks()
        self._at_hand.clear()
        self._tail = frozenset(files), table
        number = table.column(COMMIT)  # a mask is had sooner than a plan for an expression
        behind = pc.greater(number, state.base.number)
        current = pc.and_(behind, pc.less_equal(number, state.number))
        return table.filter(current).drop_columns([COMMIT])

    def _log_rows(self, state: ViewState, file: DataFile, schema: pyarrow.Schema) -> pyarrow.Table:
        if (rows := self._at_hand.get(file.name)) is not None:
            return rows.select(schema.names).cast(schema)
        return read_arrow(state.log.folder, [file], schema)

    # The base

    def _in_file(self, state: ViewState, file: DataFile, wanted: Sequence[LookUp]) -> pyarrow.Table:
        schema = signed_schema(state.schema) if state.is_counted else arrow_schema(state.schema)
        if file.size <= WHOLE_BYTES:
            rows = self._kept(state, file, schema)
            return self._signed(state, rows.filter(_mask(rows, wanted, state.schema)))
        used = {column for look_up in wanted for column in look_up.columns}
        names = tuple(name for name in state.schema.names if name in used)
        keys = self._kept(state, file, arrow_schema(state.schema.only(names)))
        places = pc.indices_nonzero(_mask(keys, wanted, state.schema)).to_pylist()
        if not places:
            return signed_schema(self.schema).empty_table()
        return self._signed(state, read_places(state.stored.folder, file, schema, places))

    def _kept(self, state: ViewState, file: DataFile, schema: pyarrow.Schema) -> pyarrow.Table:
        """Some columns of a file, kept for the next look-up if there is room."""
        there = {each.name for each in state.stored.files}
        self._keys = {known: table for known, table in self._keys.items() if known[0] in there}
        names = tuple(schema.names)
        if (file.name, names) in self._keys:
            return self._keys[file.name, names]
        table = read_arrow(state.stored.folder, [file], schema)
        if table.nbytes + sum(kept.nbytes for kept in self._keys.values()) <= KEPT_BYTES:
            self._keys[file.name, names] = table
        return table

    def _base_table(self, state: ViewState, files: Sequence[DataFile]) -> pyarrow.Table:
        schema = signed_schema(state.schema) if state.is_counted else arrow_schema(state.schema)
        return self._signed(state, read_arrow(state.stored.folder, files, schema))

    def _signed(self, state: ViewState, table: pyarrow.Table) -> pyarrow.Table:
        """Rows of the base as commits have them: with counts, and with the column of errors."""
        if state.is_counted:
            counts = table.column(COUNT)
            table = table.drop_columns([COUNT])
        else:
            counts = pyarrow.repeat(pyarrow.scalar(1, pyarrow.int64()), table.num_rows)
        if state.error_column is not None:
            nothing = pyarrow.nulls(table.num_rows, pyarrow.string())
            table = table.append_column(state.error_column, nothing)
        return table.append_column(COUNT, counts).cast(signed_schema(self.schema))


def _by_key(look_up: LookUp, key: tuple[str, ...]) -> LookUp:
    """The same by the columns that identify a row, where all of them are looked at."""
    if not key or not set(key) < set(look_up.columns):
        return look_up
    places = [look_up.columns.index(name) for name in key]
    return LookUp(key, frozenset(tuple(row[at] for at in places) for row in look_up.keys))


def _mask(table: pyarrow.Table, wanted: Sequence[LookUp], schema: Schema) -> pyarrow.Array:
    """The rows that some look-up may want: each of its columns has a value of one of its keys."""
    return reduce(pc.or_, (Wanted(look_up, schema).mask(table) for look_up in wanted))
