"""Rows of the log: what it says of their tables, and what changes of them come to.

Rows are read by the names of their columns, as the log describes their table before each change,
so columns that nobody wants may come and go. Knows no order, and no transactions.
"""

from __future__ import annotations

import re
import reprlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from headwater.algebra.rows import Rows
from headwater.algebra.values import Row, Value
from headwater.errors import SourceError
from headwater.protocol.transactions import Tag
from headwater.sources.mariadb import binlog
from headwater.sources.mariadb.binlog import RowChanges, TableMap, WireColumn
from headwater.sources.mariadb.types import Table
from headwater.sources.mariadb.wire import Image, Read, image, read_row

_NOT_WHOLE = "the log does not hold its whole old rows; set binlog_row_image = FULL"
_NOT_DESCRIBED = (
    "the log does not name its columns (set binlog_row_metadata = FULL), or has types of them that "
    "are not known here"
)
_OLD_TIMES = (binlog.TIMESTAMP, binlog.DATETIME, binlog.TIME)
_WITH_FRACTION = re.compile(r"\([1-6]\)")
_OF_OLD_TIMES = (
    "has the format of times before MariaDB 10.1 with fractions, whose length the log does not "
    "tell; ALTER TABLE ... FORCE rewrites the table (with mysql56_temporal_format = ON)"
)
_UNREAD = (
    "its rows in the log cannot be read ({}); if it has times in the format before MariaDB 10.1, "
    "ALTER TABLE ... FORCE rewrites it"
)


@dataclass(frozen=True, eq=False)
class Shape:
    """What the log says of a table that is followed; `relation` is empty for tags."""

    relation: str
    columns: tuple[binlog.WireColumn, ...]
    reads: tuple[Read | None, ...]
    """For each column of the log how it is read, if anybody wants it."""
    names: tuple[str, ...]
    """The columns that are read, in the order of the log."""
    present: int
    """The bits of these."""
    lost: Mapping[str, str]
    """The wanted columns that cannot be read, and why."""
    is_described: bool
    """Whether the log names its columns."""
    refused: str = ""
    """Why its rows cannot be read at all."""


@dataclass(frozen=True)
class Change:
    shape: Shape
    rows: RowChanges


class ChangeReader:
    """Reads changes of rows of the tables that are followed, by the names of their relations."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables = tables
        self._images: dict[tuple[Shape, int], Image] = {}

    def shape(self, relation: str, told: TableMap) -> Shape:
        """How rows of a table are read."""
        table = self._tables[relation]
        reads: list[Read | None] = [None] * len(told.columns)
        lost: dict[str, str] = {}
        places = {column.name: at for at, column in enumerate(told.columns)}
        for column in table.wanted:
            at = places.get(column.name)
            read = None if at is None else column.form.wire(told.columns[at])
            if at is None:
                lost[column.name] = (
                    f"table {table.label} was changed while it had no column {column.name}"
                )
            elif read is None:
                lost[column.name] = (
                    f"table {table.label} was changed while its column {column.name} was of "
                    "another type"
                )
            else:
                reads[at] = read
        for gone in table.gone:
            lost[gone] = f"table {table.label} was changed, and it has no column {gone} any more"
        found = _shape(relation, told, reads, lost)
        old = [c.name for c in told.columns if c.type in _OLD_TIMES and _has_fraction(table, c)]
        return replace(found, refused=f"its column {old[0]} {_OF_OLD_TIMES}") if old else found

    def delta(self, relation: str, changes: Sequence[Change], lost: dict[str, str]) -> Rows:
        """The net change in the columns of which every value can be read; others become `lost`."""
        table = self._tables[relation]
        while True:
            names = [c.name for c in table.wanted if c.name not in lost]
            schema = table.schema.only(names)
            counts: dict[Row, int] = defaultdict(int)
            try:
                for change in changes:
                    self._count(change, names, counts)
            except UnreadableChangeError as error:
                lost[error.column] = (
                    f"table {table.label}, column {error.column}: a value cannot be represented "
                    f"({error}){error.where}; change it, or read the column with as_text"
                )
                continue
            return Rows(schema, counts)

    def _count(self, change: Change, names: Sequence[str], counts: dict[Row, int]) -> None:
        shape, rows = change.shape, change.rows
        if not shape.is_described:
            raise NotWholeError(_NOT_DESCRIBED)
        if shape.refused:
            raise NotWholeError(shape.refused)
        if rows.data is None:
            raise NotWholeError("the log holds only parts of its values; set "
                                 "binlog_row_value_options = ''")  # fmt: skip
        if rows.width != len(shape.columns):
            raise NotWholeError("its rows have other columns than the log says")
        for image_of in (rows.before, rows.after):
            if (
                image_of is not None
                and shape.present & ~image_of
                and (image_of is rows.before or rows.before is None or shape.present & ~rows.before)
            ):
                raise NotWholeError(_NOT_WHOLE)
        shape = _reduced(shape, names)
        order = [shape.names.index(name) for name in names]
        for row, count in self._rows(shape, rows):
            counts[tuple([row[at] for at in order])] += count

    def _rows(self, shape: Shape, rows: RowChanges) -> Iterator[tuple[Sequence[Value], int]]:
        data, at = rows.data or b"", 0
        before = None if rows.before is None else self._image(shape, rows.before)
        after = None if rows.after is None else self._image(shape, rows.after)
        fills = [
            slot
            for slot, place in enumerate(_places(shape))
            if rows.after is not None and not rows.after >> place & 1
        ]
        old: list[Value] = []
        while at < len(data):
            try:
                if before is not None:
                    old, at = read_row(data, at, before)
                    yield old, -1
                if after is not None:
                    new, at = read_row(data, at, after)
                    for slot in fills:
                        new[slot] = old[slot]
                    yield new, 1
            except ValueError as error:
                raise self._unreadable(shape, rows, str(error)) from None

    def _image(self, shape: Shape, present: int) -> Image:
        key = (shape, present)
        if key not in self._images:
            if len(self._images) > 1000:
                self._images.clear()
            try:
                self._images[key] = image(shape.columns, present, shape.reads)
            except ValueError as error:
                raise NotWholeError(str(error)) from None
        return self._images[key]

    def _unreadable(self, shape: Shape, rows: RowChanges, reason: str) -> Exception:
        """Which column has a value that cannot be read; each is read alone to find that out."""
        for at, read in enumerate(shape.reads):
            if read is None:
                continue
            column = shape.columns[at].name
            place, data = 0, rows.data or b""
            try:
                while place < len(data):
                    for present in (rows.before, rows.after):
                        if present is not None:
                            how = image(shape.columns, present, _only(shape, {column}))
                            row = partial(self._key_at, shape, present, data, place)
                            _, place = read_row(data, place, how)
            except binlog.CorruptEventError:
                break
            except ValueError as error:
                return UnreadableChangeError(column, str(error), row())
        return NotWholeError(_UNREAD.format(reason))

    def _key_at(self, shape: Shape, present: int, data: bytes, place: int) -> str:
        """The key of the row at a place, in words; nothing if that cannot be read either."""
        key = self._tables[shape.relation].key if shape.relation else ()
        names = [name for name in shape.names if name in key]
        try:
            how = image(shape.columns, present, _only(shape, names))
            values, _ = read_row(data, place, how)
        except ValueError:
            return ""
        return in_the_row(dict(zip(names, values, strict=True)))

    def tags(self, changes: Iterable[Change]) -> Iterator[Tag]:
        for change in changes:
            if change.rows.before is not None:
                continue  # somebody tidies up
            try:
                for row, _ in self._rows(change.shape, change.rows):
                    known = dict(zip(change.shape.names, row, strict=True))
                    parts = known.get("parts")
                    number = int(parts) if isinstance(parts, str) and parts.isdigit() else parts
                    yield Tag.of(known.get("id"), number)
            except (NotWholeError, UnreadableChangeError, SourceError):
                yield Tag("", 0, "it cannot be read")


class NotWholeError(Exception):
    """What a change came to is not in the log."""


class UnreadableChangeError(Exception):
    def __init__(self, column: str, reason: str, where: str = "") -> None:
        super().__init__(reason)
        self.column = column
        self.where = where


def in_the_row(key: Mapping[str, object]) -> str:
    """Which row it is, by its key; nothing if it has none."""
    shown = ", ".join(f"{name} = {reprlib.repr(value)}" for name, value in key.items())
    return f" in the row with {shown}" if shown else ""


def _has_fraction(table: Table, column: WireColumn) -> bool:
    known = table.by_name.get(column.name)
    return known is not None and _WITH_FRACTION.search(known.declared) is not None


def _only(shape: Shape, names: Collection[str]) -> list[Read | None]:
    """How some columns are read, and no others."""
    return [
        read if column.name in names else None
        for column, read in zip(shape.columns, shape.reads, strict=True)
    ]


def _reduced(shape: Shape, names: Collection[str]) -> Shape:
    """The same table with these of its columns alone; what is not read cannot be unreadable."""
    if set(shape.names) == set(names):
        return shape
    reads = tuple(_only(shape, names))
    kept = tuple(name for name in shape.names if name in names)
    present = sum(1 << at for at, read in enumerate(reads) if read is not None)
    return replace(shape, reads=reads, names=kept, present=present)


def _places(shape: Shape) -> list[int]:
    return [at for at, read in enumerate(shape.reads) if read is not None]


def _shape(
    relation: str,
    told: TableMap,
    reads: Sequence[Read | None],
    lost: Mapping[str, str],
) -> Shape:
    names = tuple(c.name for c, read in zip(told.columns, reads, strict=True) if read is not None)
    present = sum(1 << at for at, read in enumerate(reads) if read is not None)
    return Shape(relation, told.columns, tuple(reads), names, present, lost, told.is_described)


def shape_of_tags(told: TableMap) -> Shape:
    def text(data: bytes) -> str:
        return data.decode("utf-8", "replace")

    reads = [text if column.name in ("id", "parts") else None for column in told.columns]
    return _shape("", told, reads, {})
