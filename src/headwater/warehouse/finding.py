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
from headwater.warehouse.table_versions import DataFile

COMPARED_BY_ARROW = frozenset(
    {"bool", "int", "decimal", "text", "bytes", "date", "timestamp", "timestamp_tz"}
)
"""Types whose values are equal to Arrow exactly if they are to us."""
_ORDERED = frozenset({"int", "text", "date"})
"""Types whose statistics in a file are in the order in which Arrow compares."""
_FEW = 64
"""So many rows that may be meant are looked at whole rather than by another column."""


class RowGroups:
    """An open file, read row group by row group in the types of a schema."""

    def __init__(self, file: pyarrow.parquet.ParquetFile, schema: pyarrow.Schema) -> None:
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

    def bounds(self, group: int, name: str) -> tuple[Any, Any] | None:
        """The least and the greatest value of a column, if the file tells them."""
        at = self._places.get(name)
        found = None if at is None else self._file.metadata.row_group(group).column(at).statistics
        return (found.min, found.max) if found is not None and found.has_min_max else None

    @cached_property
    def _places(self) -> dict[str, int]:
        schema = self._file.schema
        return {schema.column(at).path: at for at in range(len(schema))}


@contextmanager
def row_groups(folder: Location, file: DataFile, schema: pyarrow.Schema) -> Iterator[RowGroups]:
    """A file of a table; UnreadableFileError if it is missing or damaged."""
    path = folder / file.name
    try:
        source = path.for_arrow()
        with pyarrow.parquet.ParquetFile(source, page_checksum_verification=True) as opened:
            yield RowGroups(opened, schema)
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

    def places(self, file: RowGroups, group: int, *, all_columns: bool = False) -> pyarrow.Array:
        """Where in a row group rows are that may be wanted; fewer if all columns are looked at."""
        if not self._any or self._is_elsewhere(file, group):
            return pyarrow.array([], pyarrow.int64())
        places = pyarrow.array(range(file.rows(group)), pyarrow.int64()) if not self._sets else None
        for name, kind, values in self._sets:
            column = file.read(group, [name]).column(0).cast(arrow_type(kind))
            if places is None:
                places = pc.indices_nonzero(pc.is_in(column, values)).cast(pyarrow.int64())
            else:
                places = places.filter(pc.is_in(column.take(places).combine_chunks(), values))
            if not len(places) or (len(places) <= _FEW and not all_columns):
                break
        return places

    def _is_elsewhere(self, file: RowGroups, group: int) -> bool:
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
