"""A table as its file describes it: what triggers are made from, and how its rows are read.

Beside its own columns a table offers each as a text, which any value is: `CAST(v AS STRING)` in a
view reads the column `v (as text)`, so that what does not fit the declared type stops no view
that takes it as a text. Both are one column in the file and in the log.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from headwater.algebra.schema import Column, Relation, Schema
from headwater.algebra.values import TEXT, Row
from headwater.errors import SourceError
from headwater.sources.sqlite.access import Access, Connection
from headwater.sources.sqlite.meanings import Meaning, meaning_of
from headwater.sources.sqlite.types import (
    STORAGE_CLASSES,
    Reader,
    Stored,
    Undecoded,
    as_text,
    read_printed,
    reader,
)
from headwater.sources.sqlite.uniques import Unique, quoted

_SHOWN = 200
_AS_TEXT = " (as text)"


def base_of(column: str) -> str:
    """The column of the file that a column of a relation is."""
    return column.removesuffix(_AS_TEXT)


def is_reserved(column: str) -> bool:
    """Whether a name is one that only Headwater gives."""
    return column.endswith(_AS_TEXT)


def as_written(column: str) -> tuple[str, str]:
    """Both columns that a column of the file is here."""
    return column, column + _AS_TEXT


def own_column(name: str, declared: str, meaning: Meaning) -> Column:
    printed = (declared or "no type") if meaning.is_printed else ""
    return Column(name, meaning.type, printed, meaning.equality, affinity=meaning.compared_as)


def text_column(own: Column) -> Column:
    """A column taken as a text; a CAST leaves it its collation."""
    name, equality = own.name + _AS_TEXT, own.equality
    return Column(name, TEXT, equality=equality, text_of=own.name, affinity="text")


@dataclass(frozen=True)
class TableShape:
    """What the triggers of a table are made from, beside the columns that they log.

    `rowid` is a name under which the rowid can be read, None where there is none. `defaults`
    has what takes the place of NULL, by column, where REPLACE does that. `keys` are the columns
    that an update sets if it brings a row into the way of another one; empty if any may do that.
    `followed` are the columns that foreign keys refer to and whose changes they act on;
    `is_acted_on`: whether they act on deletions.
    """

    name: str
    columns: tuple[str, ...]
    rowid: str | None
    primary: tuple[str, ...]
    uniques: tuple[Unique, ...]
    defaults: tuple[tuple[str, str], ...]
    keys: tuple[str, ...]
    followed: tuple[str, ...] = ()
    is_acted_on: bool = False

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that tell a row from all others."""
        return self.primary if self.rowid is None else (self.rowid,)

    @property
    def is_computed(self) -> bool:
        """Whether a uniqueness looks at a generated column."""
        return not self.keys

    def kept(self, logged: Collection[str]) -> tuple[str, ...]:
        """The columns that have to be known of a row which may be replaced."""
        needed = {*logged, *(self.primary if self.rowid is None else ())}
        for unique in self.uniques:
            needed.update(unique.columns(self.columns))
        if self.is_computed:
            needed.update(column for column, _ in self.defaults)
        return tuple(column for column in self.columns if column in needed)


@dataclass(frozen=True)
class Table:
    """A table of interest, as the file describes it."""

    relation: Relation
    declared: Mapping[str, str]
    """The types of all its columns, also of those that nobody asked for."""
    shape: TableShape
    missing: tuple[str, ...] = ()
    """Columns that were asked for and are not there."""
    strict: bool = False

    @property
    def name(self) -> str:
        return self.relation.short_name

    @property
    def columns(self) -> tuple[str, ...]:
        return self.relation.schema.names

    @cached_property
    def bases(self) -> tuple[str, ...]:
        """For each column of the relation the one of the file that it is."""
        return tuple(map(base_of, self.columns))

    @cached_property
    def stored(self) -> tuple[str, ...]:
        """The columns of the file that are read, each once."""
        return tuple(dict.fromkeys(self.bases))

    @property
    def rowid(self) -> str | None:
        return self.shape.rowid

    @property
    def primary(self) -> tuple[str, ...]:
        return self.shape.primary

    @cached_property
    def offered(self) -> Relation:
        """The relation with each column as a text besides, where another value may be in it."""
        own = self.relation.schema.columns
        texts = (text_column(c) for c in own if self._is_offered_as_text(c.name))
        schema = Schema((*own, *texts))
        return replace(self.relation, schema=schema)

    def _is_offered_as_text(self, column: str) -> bool:
        meaning = self.meaning(column)
        return not is_reserved(column) and not meaning.is_printed and not meaning.is_kept

    def meaning(self, column: str) -> Meaning:
        return meaning_of(self.declared[base_of(column)], self.strict)

    def reader(self, column: str) -> Reader:
        """How values of a column are read."""
        if is_reserved(column):
            return as_text
        meaning = self.meaning(column)
        return read_printed if meaning.is_printed else reader(meaning.type)

    def without(self, columns: Collection[str]) -> Table:
        """The same table, of which some columns cannot be read."""
        if not columns:
            return self
        relation = self.relation
        schema = Schema(tuple(c for c in relation.schema.columns if c.name not in columns))
        key = relation.key if set(relation.key) <= set(schema.names) else ()
        return replace(self, relation=replace(relation, schema=schema, key=key))

    @cached_property
    def readers(self) -> tuple[Reader, ...]:
        return tuple(map(self.reader, self.columns))

    def read(self, access: Access, connection: Connection, values: Sequence[Stored]) -> Row:
        """A row in canonical form; where it does not fit, the connection finds out which it is."""
        try:
            row = tuple([read(value) for read, value in zip(self.readers, values, strict=True)])
        except ValueError:
            raise self.misfit(access, connection, self.columns, values) from None
        for at in self.relation.key_positions:
            if row[at] is None:
                raise UnreadableError(
                    access,
                    self.columns[at],
                    f"table {self.name}, column {self.columns[at]}: NULL in the key of row "
                    f"{show_row(values)}.",
                    "Give the row a key, or declare another one",
                )
        return row

    def misfit(
        self,
        access: Access,
        connection: Connection,
        columns: Sequence[str],
        values: Sequence[Stored],
    ) -> UnreadableError:
        """The error for the first value that does not fit its column."""
        for column, value in zip(columns, values, strict=True):
            try:
                self.reader(column)(value)
            except ValueError as error:
                row = dict(zip(map(base_of, columns), values, strict=True))
                declared = self.declared[base_of(column)] or "no type"
                return UnreadableError(
                    access,
                    column,
                    f"table {self.name}, column {base_of(column)} ({declared}), "
                    f"{self._place(connection, row)}: the {STORAGE_CLASSES[type(value)]} "
                    f"{shown(value)} does not fit, {error}.",
                    self._remedy(column, value),
                )
        raise AssertionError("every value fits")

    def _remedy(self, column: str, value: Stored) -> str:
        other = "declare the column as what it holds"
        if self._is_offered_as_text(column) and type(value) is not Undecoded:
            other = f"write CAST({column} AS STRING) in the view, which takes it as a text"
        return f"Correct it in the database, or {other}"

    def _place(self, connection: Connection, row: Mapping[str, Stored]) -> str:
        """Which row of the table some values are of: by its key, its rowid, or what is known."""
        key = self.relation.key
        if key and set(key) <= row.keys():
            return "row " + ", ".join(f"{column} = {shown(row[column])}" for column in key)
        if self.rowid is not None:
            found = _rowid(connection, self, row)
            if found is not None:
                return f"row {self.rowid} = {found}"
        return f"row {show_row(list(row.values()))}"


def _rowid(connection: Connection, table: Table, row: Mapping[str, Stored]) -> int | None:
    """The first row with exactly these values; None if it is there no more."""
    conditions, parameters = [], []
    for column, value in row.items():
        taken = "CAST(? AS TEXT)" if type(value) is Undecoded else "?"
        conditions.append(f"{quoted(column)} IS {taken} AND typeof({quoted(column)}) = ?")
        parameters += [value, STORAGE_CLASSES[type(value)]]
    found = connection.execute(
        f"SELECT {quoted(str(table.rowid))} FROM main.{quoted(table.name)} "
        f"WHERE {' AND '.join(conditions)} LIMIT 1",
        parameters,
    ).fetchone()
    return None if found is None else int(found[0])


class UnreadableError(SourceError):
    """A value has no equal here."""

    def __init__(self, access: Access, column: str, reason: str, hint: str) -> None:
        super().__init__(f"Source {access.name}: {reason}", f"{hint}.")
        self.column = column
        self.reason = f"{reason} {hint}."


def shown(value: Stored) -> str:
    text = f"x'{value.hex()}'" if isinstance(value, bytes) else repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def show_row(values: Sequence[Stored]) -> str:
    text = "(" + ", ".join(shown(value) for value in values) + ")"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
