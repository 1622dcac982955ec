"""What rows of the log say: which rows of which table came and went.

A logged row has the texts of some columns; its shape says of which. Which of them still mean
something is known from how the catalog shows the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import Row
from headwater.protocol.transactions import Tag
from headwater.sources.postgres.triggers.functions import TAGGED
from headwater.sources.postgres.triggers.watch import Seen, columns_of
from headwater.sources.postgres.types import Table, TableColumn, read_value


@dataclass(frozen=True)
class LogEntry:
    """A row of the log: a change, a gap (with a note), or a mark or tag (without a relation)."""

    xid: int
    seen: str
    relation: int | None
    shape: int
    old: Sequence[str | None] | None
    new: Sequence[str | None] | None
    note: str | None

    @property
    def tag(self) -> Tag | None:
        """Of which global transaction its transaction is a part, if it says that."""
        if self.relation is not None or self.note is None or not self.note.startswith(TAGGED):
            return None
        return Tag.from_json(self.note.removeprefix(TAGGED))


@dataclass
class Watched:
    """A table of interest, and how the catalog showed it last."""

    table: Table
    used: frozenset[str]
    seen: Seen | None
    lost: frozenset[str] | None = frozenset()
    """Columns that changed since the last look, None for all of them: what was logged meanwhile
    may come from before or after the change."""

    @property
    def is_readable(self) -> bool:
        return self.lost is not None

    @cached_property
    def columns(self) -> dict[str, TableColumn]:
        """Those that are used and can be read, in the table's own order."""
        found = {} if self.seen is None else columns_of(self.seen, self.table)
        return {name: column for name, column in found.items() if name in self.used}


def watched(table: Table, seen: Seen | None) -> Watched:
    """Columns that are used may have gone since the table was last seen."""
    every = {*table.by_name, *(columns_of(seen, table) if seen else ())}
    return Watched(table, frozenset(every if table.used is None else table.used), seen)


def lost_in(shapes: Mapping[int, Sequence[str]], entries: Sequence[LogEntry]) -> frozenset[str]:
    """The columns that the table had under another name, or not at all, when it was changed."""
    return frozenset(
        name
        for entry in entries
        for values in (entry.old, entry.new)
        for name in (values or ())[len(shapes[entry.shape]) :]
        if name is not None
    )


def delta_of(of: Watched, shapes: Mapping[int, Sequence[str]], entries: Sequence[LogEntry]) -> Rows:
    """What some rows of the log change, in the columns that all of them have."""
    logged = {entry.shape: shapes[entry.shape] for entry in entries}
    lost = lost_in(shapes, entries) | (of.lost or frozenset())
    columns = [
        column
        for name, column in of.columns.items()
        if name not in lost and all(name in names for names in logged.values())
    ]
    readers = {
        shape: [(names.index(column.name), column) for column in columns]
        for shape, names in logged.items()
    }
    counts: dict[Row, int] = {}
    for entry in entries:
        for values, sign in ((entry.old, -1), (entry.new, 1)):
            if values is not None:
                row = _row(of.table, readers[entry.shape], values)
                counts[row] = counts.get(row, 0) + sign
    return Rows(Schema.of((column.name, column.type) for column in columns), counts)


def _row(
    table: Table, readers: Sequence[tuple[int, TableColumn]], values: Sequence[str | None]
) -> Row:
    try:
        return tuple(
            [
                None if (t := values[at]) is None else column.read(t.encode())
                for at, column in readers
            ]
        )
    except ValueError:
        for at, column in readers:
            text = values[at]
            read_value(table, column, None if text is None else text.encode())
        raise
