"""Rows of Parquet files found by their values, one row group after the other.

Of a row group one column after the other is read, the most telling first, until few rows are left
that may be meant: what is not looked for costs little. A row group whose own statistics say that
it has none of the values is not read at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, reduce
from typing import Any

import pyarrow
import pyarrow.compute as pc
import pyarrow.parquet

from headwater.algebra.schema import Schema
from headwater.algebra.values import Type
from headwater.frames.arrow import arrow_array, arrow_type
from headwater.protocol.look_ups import LookUp
from headwater.storage.location import Location
from headwater.warehouse.files import unreadable
from headwater.warehouse.remembered import Remembered
from headwater.warehouse.table_versions import DataFile

COMPARED_BY_ARROW = frozenset(
    {"bool", "int", "decimal", "text", "bytes", "date", "timestamp", "timestamp_tz"}
)
"""Types whose values are equal to Arrow exactly if they are to us."""
_ORDERED = frozenset({"int", "text", "date"})
"""Types whose statistics in a file are in the order in which Arrow compares."""
_FEW = 64
"""So many rows that may be meant are looked at whole rather than by another column."""


KEPT_BYTES = 64 * 2**20
_COLUMNS: Remembered[pyarrow.Array] = Remembered(KEPT_BYTES, lambda column: int(column.nbytes))
_WHOLE = tuple(
    (kind(), 2**bits)
    for kind, bits in ((pyarrow.int8, 7), (pyarrow.int16, 15), (pyarrow.int32, 31))
)


class RowGroups:
    """An open file, read row group by row group in the types of a schema."""

    def __init__(
        self, name: str, file: pyarrow.parquet.ParquetFile, schema: pyarrow.Schema
    ) -> None:
        self._name = name
        self._file = file
        self._schema = schema

    @property
    def count(self) -> int:
        return int(self._file.num_row_groups)

    def rows(self, group: int) -> int:
        return int(self._file.metadata.row_group(group).num_rows)

    def bytes(self, group: int) -> int:
        return int(self._file.metadata.row_group(group).total_byte_size)

    def read(self, group: int, names: Sequence[str]) -> pyarrow.Table:
        wanted = pyarrow.schema([self._schema.field(name) for name in names])
        if not wanted.names:  # Arrow would forget how many rows there are
            return pyarrow.table({"": pyarrow.nulls(self.rows(group))}).select([])
        return self._file.read_row_group(group, wanted.names).select(wanted.names).cast(wanted)

    def column(self, group: int, name: str, kind: pyarrow.DataType) -> pyarrow.Array:
        """A column to look rows up by: kept for the next time, whole numbers as small as they are
        in it."""
        told = self._name, group, name, kind
        if (found := _COLUMNS.get(told)) is not None:
            return found
        column = self.read(group, [name]).column(0).cast(kind).combine_chunks()
        return _COLUMNS.put(told, _narrowed(column))

    def nothing(self, names: Sequence[str]) -> pyarrow.Table:
        return pyarrow.schema([self._schema.field(name) for name in names]).empty_table()

    def bounds(self, group: int, name: str) -> tuple[Any, Any] | None:
        """The least and the greatest value of a column, if the file tells them."""
        at = self._places.get(name)
        found = None if at is None else self._file.metadata.row_group(group).column(at).statistics
        return (found.min, found.max) if found is not None and found.has_min_max else None

    @cached_property
    def _places(self) -> dict[str, int]:
        """Where columns are; a part of a nested one has a path that may be another's name."""
        columns = map(self._file.schema.column, range(len(self._file.schema)))
        return {column.name: at for at, column in enumerate(columns) if column.name == column.path}


@contextmanager
def row_groups(folder: Location, file: DataFile, schema: pyarrow.Schema) -> Iterator[RowGroups]:
    """A file of a table; UnreadableFileError if it is missing or damaged."""
    path = folder / file.name
    try:
        source = path.for_arrow()
        with pyarrow.parquet.ParquetFile(source, page_checksum_verification=True) as opened:
            yield RowGroups(path.uri, opened, schema)
    except (OSError, pyarrow.ArrowException, ValueError, KeyError) as error:
        raise unreadable(path, error) from None


class Wanted:
    """A look-up, prepared for Arrow."""

    def __init__(self, look_up: LookUp, schema: Schema) -> None:
        sets = []
        for at, name in enumerate(look_up.columns):
            kind = schema.columns[schema.positions[name]].type
            if kind.name in COMPARED_BY_ARROW:
                sets.append((name, kind, arrow_array({key[at] for key in look_up.keys}, kind)))
        self._sets: list[tuple[str, Type, pyarrow.Array]] = sorted(sets, key=lambda s: -len(s[2]))
        self._any = bool(look_up.keys)

    @property
    def compared(self) -> list[str]:
        """The columns by which Arrow tells rows apart."""
        return [name for name, _, _ in self._sets]

    def mask(self, table: pyarrow.Table) -> pyarrow.Array:
        """The rows that may be wanted: each column has a value of one of the keys."""
        everything = pyarrow.chunked_array([pyarrow.repeat(self._any, table.num_rows)])
        there = set(table.column_names)
        masks = (pc.is_in(table.column(n), s) for n, _, s in self._sets if n in there)
        return reduce(pc.and_, masks, everything)

    def places(self, file: RowGroups, group: int) -> pyarrow.Array:
        """Where in a row group rows are that may be wanted; few of them are not looked at more."""
        if self._is_elsewhere(file, group):
            return pyarrow.array([], pyarrow.int64())
        places = pyarrow.array(range(file.rows(group)), pyarrow.int64()) if not self._sets else None
        for name, kind, values in self._sets:
            column = file.read(group, [name]).column(0).cast(arrow_type(kind))
            if places is None:
                places = pc.indices_nonzero(pc.is_in(column, values)).cast(pyarrow.int64())
            else:
                places = places.filter(pc.is_in(column.take(places).combine_chunks(), values))
            if len(places) <= _FEW:
                break
        return places

    def rows(
        self, file: RowGroups, group: int, names: Sequence[str]
    ) -> tuple[pyarrow.Array, pyarrow.Table]:
        """Where in a row group rows are that may be wanted, and these columns of them.

        Each column is read once, and no more of them when no row is left.
        """
        places = None
        held: dict[str, pyarrow.Array] = {}
        for name, kind, values in [] if self._is_elsewhere(file, group) else self._sets:
            column = file.column(group, name, arrow_type(kind))
            column = column if places is None else column.take(places)
            kept = pc.indices_nonzero(pc.is_in(column, _within(values, column.type)))
            places = kept if places is None else places.take(kept)
            held = {each: one.take(kept) for each, one in held.items()} | {name: column.take(kept)}
            if not len(places):
                break
        if places is None and self._any and not self._sets:
            places = pyarrow.array(range(file.rows(group)), pyarrow.uint64())
        if places is None or not len(places):
            return pyarrow.array([], pyarrow.uint64()), file.nothing(names)
        for name in names:
            if name not in held:
                held[name] = file.read(group, [name]).column(0).take(places).combine_chunks()
        table = pyarrow.table({"": pyarrow.nulls(len(places)), **held}).select(list(names))
        return places, table.cast(file.nothing(names).schema)

    def _is_elsewhere(self, file: RowGroups, group: int) -> bool:
        """Whether a row group is known to have nothing that is wanted."""
        if not self._any:
            return True
        for name, bounds in self._bounds.items():
            there = file.bounds(group, name)
            if there is not None and (there[0] > bounds[1] or there[1] < bounds[0]):
                return True
        return False

    @cached_property
    def _bounds(self) -> dict[str, tuple[Any, Any]]:
        """The least and the greatest value that is wanted, of columns where none is NULL."""
        found = {}
        for name, kind, values in self._sets:
            if kind.name in _ORDERED and len(values) and not values.null_count:
                bounds = pc.min_max(values)
                found[name] = (bounds["min"].as_py(), bounds["max"].as_py())
        return found


def matching(
    folder: Location, files: Sequence[DataFile], schema: pyarrow.Schema, wanted: Sequence[Wanted]
) -> pyarrow.Table:
    """The rows of files that some look-up may want, and perhaps a few more."""
    found = [schema.empty_table()]
    for file in files:
        with row_groups(folder, file, schema) as groups:
            for group in range(groups.count):
                each = [one.places(groups, group) for one in wanted]
                places = pc.unique(pyarrow.chunked_array(each, pyarrow.int64()))
                if len(places):
                    found.append(groups.read(group, schema.names).take(places))
    return pyarrow.concat_tables(found)


def _narrowed(column: pyarrow.Array) -> pyarrow.Array:
    """Whole numbers in as few bytes as they need."""
    if column.type != pyarrow.int64():
        return column
    bounds = pc.min_max(column)
    least, greatest = bounds["min"].as_py() or 0, bounds["max"].as_py() or 0
    for kind, beyond in _WHOLE:
        if -beyond <= least and greatest < beyond:
            return column.cast(kind)
    return column


def _within(values: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array:
    """Those values that a column of this type can have."""
    beyond = dict(_WHOLE).get(kind)
    if beyond is None:
        return values
    fits = pc.and_(pc.greater_equal(values, -beyond), pc.less(values, beyond))
    return values.filter(pc.fill_null(fits, True)).cast(kind)
