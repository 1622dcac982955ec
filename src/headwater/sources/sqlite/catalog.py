"""What a SQLite file says about its tables, and connections to it that fail in words."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql_names import closest_first
from headwater.algebra.values import Row, Type
from headwater.errors import LostConnectionError, SourceError
from headwater.sources.sqlite.types import Reader, Stored, reader, type_of

BUSY_TIMEOUT_S = 5.0
_SHOWN = 200
_TRY_LATER = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR_SHM", "SQLITE_PROTOCOL")


@dataclass(frozen=True)
class Place:
    """The name of a source and the file it is, for connections and messages."""

    name: str
    path: Path

    def error(self, message: str, hint: str) -> SourceError:
        return SourceError(f"Source {self.name}: {message}", hint)

    def connect(self, timeout_s: float = BUSY_TIMEOUT_S, write: bool = False) -> Connection:
        """A connection to an existing file; it commits by itself outside BEGIN."""
        if not self.path.is_file():
            raise self.error(f"there is no file {self.path}.", "Check the path.")
        with self.failures():
            connection = sqlite3.connect(
                self.path.absolute().as_uri() + "?mode=rw",
                uri=True,
                timeout=timeout_s,
                isolation_level=None,
                check_same_thread=False,
            )
            try:
                connection.execute("PRAGMA schema_version").fetchone()
                if not write:
                    connection.execute("PRAGMA query_only = 1")
            except BaseException:
                connection.close()
                raise
        return connection

    def identity(self) -> tuple[int, int]:
        """What tells this file from another one under the same name."""
        try:
            status = os.stat(self.path)  # noqa: PTH116 (called at every poll)
        except OSError as error:
            raise self.error(
                f"{self.path} is gone ({error.strerror}).", "Put the file back."
            ) from None
        return status.st_dev, status.st_ino

    def check(self, identity: tuple[int, int]) -> None:
        if self.identity() != identity:
            raise self.error(f"{self.path} was replaced.", "Put the file back, or load anew.")

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Turns what SQLite says inside into an error with a remedy."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._translated(error) from error

    def _translated(self, error: sqlite3.Error) -> SourceError:
        code = getattr(error, "sqlite_errorname", "") or ""
        if code.startswith(_TRY_LATER):
            return LostConnectionError(
                f"Source {self.name}: {self.path} is locked by another connection ({error}).",
                "Look for a writer that keeps its transaction open.",
            )
        if code.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
            return self.error(f"{self.path} is not a sound SQLite database ({error}).",
                              "Check the path, or restore the file.")  # fmt: skip
        if "_headwater_" in str(error):
            return self.error(f"the log in {self.path} is gone ({error}).",
                              "Run the setup again, then load the relations anew.")  # fmt: skip
        if "decode to UTF-8" in str(error):
            return self.error(f"a stored text is not UTF-8 ({error}).",
                              "Correct it in the database.")  # fmt: skip
        return self.error(f"SQLite says: {error}.", "See whether the file can be read.")


Connection = sqlite3.Connection


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class Unique:
    """Columns that no two rows share, each with the collation that decides it."""

    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Table:
    """A table of interest, as the file describes it."""

    relation: Relation
    declared: tuple[tuple[str, str], ...]
    primary: tuple[str, ...]
    uniques: tuple[Unique, ...]
    rowid: str | None
    """A name under which the rowid can be read; None where there is none."""

    @property
    def name(self) -> str:
        return self.relation.short_name

    @property
    def columns(self) -> tuple[str, ...]:
        return self.relation.schema.names

    @cached_property
    def readers(self) -> tuple[Reader, ...]:
        return tuple(reader(column.type) for column in self.relation.schema.columns)

    def read(self, place: Place, values: Sequence[Stored]) -> Row:
        """A whole stored row in canonical form."""
        try:
            row = tuple(read(value) for read, value in zip(self.readers, values, strict=True))
        except ValueError:
            raise self.misfit(place, self.columns, self.relation.schema.types, values) from None
        for at in self.relation.key_positions:
            if row[at] is None:
                raise place.error(
                    f"table {self.name}, column {self.columns[at]}: NULL in the key of row "
                    f"{show_row(values)}.",
                    "Give the row a key, or declare another one.",
                )
        return row

    def misfit(
        self,
        place: Place,
        columns: Sequence[str],
        types: Sequence[Type],
        values: Sequence[Stored],
    ) -> SourceError:
        """The error for the first value that does not fit its type."""
        for column, kind, value in zip(columns, types, values, strict=True):
            try:
                reader(kind)(value)
            except ValueError as error:
                return place.error(
                    f"table {self.name}, column {column} ({kind}): {shown(value)} does not fit, "
                    f"{error}; row {show_row(values)}.",
                    "Correct it in the database, or declare the column as what it holds.",
                )
        raise AssertionError("every value fits")


def shown(value: Stored) -> str:
    text = f"x'{value.hex()}'" if isinstance(value, bytes) else repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def show_row(values: Sequence[Stored]) -> str:
    text = "(" + ", ".join(shown(value) for value in values) + ")"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def describe(
    place: Place, connection: Connection, name: str, key: Sequence[str] | None = None
) -> Table:
    """A table by its exact name; `key` instead of the declared one."""
    kinds = {
        str(table): (str(kind), bool(without))
        for _, table, kind, _, without, _ in connection.execute("PRAGMA main.table_list")
        if not str(table).startswith(("sqlite_", "_headwater_"))
    }
    if name not in kinds:
        tables = closest_first(name, (n for n, (kind, _) in kinds.items() if kind == "table"))
        raise place.error(
            f"there is no table {name}.",
            f"There are: {tables or 'none'}. Correct relations in headwater.toml.",
        )
    kind, without_rowid = kinds[name]
    if kind != "table":
        raise place.error(
            f"{name} is a {kind} table, not an ordinary one." if kind != "view"
            else f"{name} is a view, not a table.",
            "Name the tables that it reads.",
        )  # fmt: skip
    described = connection.execute("SELECT * FROM pragma_table_info(?, 'main')", (name,)).fetchall()
    if not described:
        raise place.error(f"table {name} has no columns to read.", "Leave it out.")
    declared = tuple((str(c[1]), str(c[2])) for c in described)
    primary = tuple(str(c[1]) for c in sorted(described, key=lambda c: int(c[5])) if c[5])
    schema = _schema(place, name, declared)
    return Table(
        Relation(
            f"{place.name}.{name}", place.name, schema, _key(place, name, schema, key, primary)
        ),
        declared,
        primary,
        _uniques(connection, name, declared, primary, without_rowid),
        None if without_rowid else _rowid_name(schema),
    )


def _schema(place: Place, name: str, declared: Sequence[tuple[str, str]]) -> Schema:
    columns: list[tuple[str, Type]] = []
    for column, declaration in declared:
        try:
            columns.append((column, type_of(declaration)))
        except ValueError as error:
            says = f"the type {declaration}" if declaration else "no type"
            raise place.error(
                f"table {name}, column {column} has {says}, which Headwater does not read.",
                str(error),
            ) from None
    return Schema.of(columns)


def _key(
    place: Place, name: str, schema: Schema, key: Sequence[str] | None, primary: tuple[str, ...]
) -> tuple[str, ...]:
    missing = [column for column in key or () if column not in schema.positions]
    if missing:
        raise place.error(
            f"table {name} has no column {missing[0]} for its key.",
            f"Its columns are {', '.join(schema.names)}.",
        )
    return primary if key is None else tuple(key)


def _uniques(
    connection: Connection,
    name: str,
    declared: Sequence[tuple[str, str]],
    primary: tuple[str, ...],
    without_rowid: bool,
) -> tuple[Unique, ...]:
    """Every uniqueness that INSERT OR REPLACE may resolve, over plain columns."""
    found: list[Unique] = []
    types = dict(declared)
    if len(primary) == 1 and types[primary[0]].upper() == "INTEGER" and not without_rowid:
        found.append(Unique(((primary[0], "BINARY"),)))
    indexes = connection.execute("SELECT * FROM pragma_index_list(?, 'main')", (name,)).fetchall()
    for _, index, unique, _, partial in indexes:
        info = connection.execute("SELECT * FROM pragma_index_xinfo(?, 'main')", (index,))
        columns = [(c[2], str(c[4])) for c in info if c[5]]
        if unique and not partial and all(column is not None for column, _ in columns):
            found.append(Unique(tuple((str(column), collation) for column, collation in columns)))
    return tuple(found)


def _rowid_name(schema: Schema) -> str | None:
    taken = {name.lower() for name in schema.names}
    return next((n for n in ("rowid", "_rowid_", "oid") if n not in taken), None)


def describe_all(
    place: Place,
    connection: Connection,
    names: Sequence[str],
    keys: Mapping[str, Sequence[str]],
) -> dict[str, Table]:
    return {name: describe(place, connection, name, keys.get(name)) for name in names}
