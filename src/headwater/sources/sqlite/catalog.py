"""What a SQLite file says about its tables, and connections to it that fail in words."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.names import closest_first
from headwater.algebra.values import Row, Type
from headwater.errors import BrokenLogError, LostConnectionError, SourceError
from headwater.sources.sqlite.names import Names, is_ours
from headwater.sources.sqlite.types import Reader, Stored, reader, type_of
from headwater.sources.sqlite.uniques import IndexedTerm, Unique, compares, index_terms, quoted

BUSY_TIMEOUT_S = 5.0
_SHOWN = 200
_ROWIDS = ("rowid", "_rowid_", "oid")
_TRY_LATER = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR_SHM", "SQLITE_PROTOCOL")


@dataclass(frozen=True)
class Access:
    """The name of a source, the file it is, and the names of our log in it."""

    name: str
    path: Path
    names: Names = field(default_factory=Names)

    @property
    def set_up(self) -> str:
        """What to do where the setup does not fit."""
        return f"Run 'headwater setup {self.name}'."

    def broken(self, message: str) -> BrokenLogError:
        return BrokenLogError(self.name, message)

    def error(self, message: str, hint: str) -> SourceError:
        return SourceError(f"Source {self.name}: {message}", hint)

    def connect(self, timeout_s: float = BUSY_TIMEOUT_S, write: bool = False) -> Connection:
        """A connection to an existing file; it commits by itself outside BEGIN."""
        if not self.path.is_file():
            raise LostConnectionError(
                f"Source {self.name}: there is no file {self.path}.", "Check the path."
            )
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

    def identity(self) -> tuple[int, ...]:
        """What tells this file, with its write-ahead log, from another one under the same name."""
        try:
            status = os.stat(self.path)  # noqa: PTH116 (called at every poll)
            ahead = os.stat(f"{self.path}-wal")  # noqa: PTH116 (called at every poll)
        except OSError as error:
            raise LostConnectionError(
                f"Source {self.name}: {error.filename} is gone ({error.strerror}).",
                "Put the file back.",
            ) from None
        return status.st_dev, status.st_ino, ahead.st_ino

    def check(self, identity: tuple[int, ...]) -> None:
        """Nothing is known of another file; who connects to it looks whether it is the same log."""
        if self.identity() != identity:
            raise LostConnectionError(
                f"Source {self.name}: {self.path} was replaced.", "It is opened again."
            )

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
            return self.broken(f"the log in {self.path} is gone ({error}).")
        if "decode to UTF-8" in str(error):
            return self.error(f"a stored text is not UTF-8 ({error}).",
                              "Correct it in the database.")  # fmt: skip
        return self.error(
            f"SQLite says: {error}.",
            f"See whether the file can be read; if so, run: headwater repair {self.name}.",
        )


Connection = sqlite3.Connection


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

    @property
    def name(self) -> str:
        return self.relation.short_name

    @property
    def columns(self) -> tuple[str, ...]:
        return self.relation.schema.names

    @property
    def rowid(self) -> str | None:
        return self.shape.rowid

    @property
    def primary(self) -> tuple[str, ...]:
        return self.shape.primary

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
        return tuple(reader(column.type) for column in self.relation.schema.columns)

    def read(self, access: Access, values: Sequence[Stored]) -> Row:
        """A whole stored row in canonical form."""
        try:
            row = tuple(read(value) for read, value in zip(self.readers, values, strict=True))
        except ValueError:
            raise self.misfit(access, self.columns, self.relation.schema.types, values) from None
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
        columns: Sequence[str],
        types: Sequence[Type],
        values: Sequence[Stored],
    ) -> UnreadableError:
        """The error for the first value that does not fit its type."""
        for column, kind, value in zip(columns, types, values, strict=True):
            try:
                reader(kind)(value)
            except ValueError as error:
                return UnreadableError(
                    access,
                    column,
                    f"table {self.name}, column {column} ({kind}): {shown(value)} does not fit, "
                    f"{error}; row {show_row(values)}.",
                    "Correct it in the database, or declare the column as what it holds",
                )
        raise AssertionError("every value fits")


class UnreadableError(SourceError):
    """A value has no equal here."""

    def __init__(self, access: Access, column: str, reason: str, hint: str) -> None:
        super().__init__(
            f"Source {access.name}: {reason}", f"{hint}; then run 'headwater reload VIEW'."
        )
        self.column = column
        self.reason = f"{reason} {hint}."


def shown(value: Stored) -> str:
    text = f"x'{value.hex()}'" if isinstance(value, bytes) else repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def show_row(values: Sequence[Stored]) -> str:
    text = "(" + ", ".join(shown(value) for value in values) + ")"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def has_table(connection: Connection, name: str) -> bool:
    found = connection.execute(
        "SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = ?", (name,)
    )
    return found.fetchone() is not None


def describe(
    access: Access,
    connection: Connection,
    name: str,
    key: Sequence[str] | None = None,
    columns: Collection[str] | None = None,
) -> Table:
    """A table by its exact name; `key` instead of the declared one; `columns`: only these."""
    kinds = {
        str(table): (str(kind), bool(without))
        for _, table, kind, _, without, _ in connection.execute("PRAGMA main.table_list")
        if not str(table).startswith("sqlite_") and not is_ours(str(table))
    }
    if name not in kinds:
        tables = closest_first(name, (n for n, (kind, _) in kinds.items() if kind == "table"))
        raise access.error(
            f"there is no table {name}.",
            f"There are: {tables or 'none'}. Correct relations in headwater.toml.",
        )
    kind, without_rowid = kinds[name]
    if kind != "table":
        raise access.error(
            f"{name} is a {kind} table, not an ordinary one." if kind != "view"
            else f"{name} is a view, not a table.",
            "Name the tables that it reads.",
        )  # fmt: skip
    described = _columns(connection, name)
    readable = [column for column in described if not column.generated]
    if not readable:
        raise access.error(f"table {name} has no columns to read.", "Leave it out.")
    primary = tuple(c.name for c in sorted(described, key=lambda c: c.key) if c.key)
    known = {column.name for column in readable}
    chosen = _key(access, name, [column.name for column in readable], key, primary)
    wanted = known if columns is None else {*columns, *chosen}
    schema = _schema(access, name, [column for column in readable if column.name in wanted])
    return Table(
        Relation(f"{access.name}.{name}", access.name, schema, chosen),
        {column.name: column.declared for column in readable},
        _shape(access, connection, name, described, primary, without_rowid),
        tuple(sorted(wanted - known)),
    )


@dataclass(frozen=True)
class _Column:
    name: str
    declared: str
    default: str | None
    key: int
    generated: bool


def _columns(connection: Connection, name: str) -> list[_Column]:
    rows = connection.execute("SELECT * FROM pragma_table_xinfo(?, 'main')", (name,)).fetchall()
    return [
        _Column(str(column), str(declared), default if filled else None, int(key), hidden in (2, 3))
        for _, column, declared, filled, default, key, hidden in rows
        if hidden != 1
    ]


def _schema(access: Access, name: str, described: Sequence[_Column]) -> Schema:
    columns: list[tuple[str, Type]] = []
    for column in described:
        try:
            columns.append((column.name, type_of(column.declared)))
        except ValueError as error:
            says = f"the type {column.declared}" if column.declared else "no type"
            raise access.error(
                f"table {name}, column {column.name} has {says}, which Headwater does not read.",
                str(error),
            ) from None
    return Schema.of(columns)


def _key(
    access: Access,
    name: str,
    columns: Sequence[str],
    key: Sequence[str] | None,
    primary: tuple[str, ...],
) -> tuple[str, ...]:
    missing = [column for column in key or () if column not in columns]
    if missing:
        raise access.error(
            f"table {name} has no column {missing[0]} for its key.",
            f"Its columns are {', '.join(columns)}.",
        )
    return primary if key is None else tuple(key)


def _shape(
    access: Access,
    connection: Connection,
    name: str,
    described: Sequence[_Column],
    primary: tuple[str, ...],
    without_rowid: bool,
) -> TableShape:
    columns = tuple(column.name for column in described)
    taken = {column.lower() for column in columns}
    rowid = next((n for n in _ROWIDS if n not in taken), None)
    if rowid is None and not without_rowid:
        raise access.error(
            f"table {name} has columns named rowid, _rowid_ and oid, so its rows cannot be told "
            "apart.",
            "Rename one of them, or leave the table out.",
        )
    uniques = [] if without_rowid else [Unique((IndexedTerm(str(rowid), "BINARY", True),))]
    indexes = connection.execute("SELECT * FROM pragma_index_list(?, 'main')", (name,)).fetchall()
    for _, index, unique, _, _ in indexes:
        if unique:
            uniques.append(_unique(connection, str(index)))
    defaults = tuple((c.name, c.default) for c in described if c.default is not None)
    looked_at = {column for unique in uniques for column in unique.columns(columns)}
    keys = tuple(c.name for c in described if c.name in {*looked_at, *primary})
    if any(column.generated and column.name in looked_at for column in described):
        keys = ()
    elif not without_rowid:
        keys += tuple(n for n in _ROWIDS if n not in taken)
    return TableShape(
        name,
        columns,
        None if without_rowid else rowid,
        primary,
        tuple(uniques),
        defaults,
        keys,
        _followed(connection, name, columns, primary),
        bool(_referring(connection, name, "on_delete")),
    )


def _followed(
    connection: Connection, name: str, columns: Sequence[str], primary: Collection[str]
) -> tuple[str, ...]:
    """The columns whose changes the foreign keys of any table act on, by ON UPDATE."""
    found = _referring(connection, name, "on_update")
    referred = {column.lower() for column in found if column is not None}
    if None in found:
        referred |= {column.lower() for column in primary}
    return tuple(column for column in columns if column.lower() in referred)


def _referring(connection: Connection, name: str, event: str) -> set[str | None]:
    """The columns of a table that foreign keys with an action refer to; None: its primary key."""
    found = connection.execute(
        'SELECT key."to" FROM main.sqlite_master AS made, '
        "pragma_foreign_key_list(made.name, 'main') AS key WHERE made.type = 'table' "
        'AND lower(key."table") = lower(?) '
        f"AND key.{event} IN ('CASCADE', 'SET NULL', 'SET DEFAULT')",
        (name,),
    )
    return {None if column is None else str(column) for (column,) in found}


def _unique(connection: Connection, index: str) -> Unique:
    info = connection.execute("SELECT * FROM pragma_index_xinfo(?, 'main')", (index,)).fetchall()
    made = connection.execute(
        "SELECT sql FROM main.sqlite_master WHERE type = 'index' AND name = ? AND sql IS NOT NULL",
        (index,),
    ).fetchone()
    written, where = index_terms(made[0]) if made is not None else ([], "")
    terms = [
        IndexedTerm(written[at], str(collation), False)
        if column is None
        else IndexedTerm(str(column), str(collation), True)
        for at, (_, _, column, _, collation, is_key) in enumerate(info)
        if is_key
    ]
    return Unique(tuple(terms), where)


def check_followable(access: Access, table: Table) -> None:
    """SourceError if what happens to a table cannot be known exactly."""
    name = table.name
    for unique in table.shape.uniques:
        for term in unique.terms:
            if not term.is_column and compares(term.text):
                raise access.error(
                    f"table {name} has a unique index over {term.text}, which compares values: "
                    "what a REPLACE removes there cannot be followed.",
                    "Index a generated column instead, or leave the table out.",
                )
    if not is_key_kept(table):
        columns = ", ".join(quoted(column) for column in table.relation.key)
        raise access.error(
            f"nothing in the file keeps the key ({', '.join(table.relation.key)}) of table {name} "
            "unique.",
            f"Run CREATE UNIQUE INDEX {quoted(name + '_key')} ON {quoted(name)} ({columns}), or "
            "take the key out of the settings.",
        )


def is_key_kept(table: Table) -> bool:
    """Whether the file keeps the key unique, so that no two rows ever have the same."""
    key = set(table.relation.key)
    if not key or (table.primary and key.issuperset(table.primary)):
        return True
    return any(
        not unique.where and all(term.is_column and term.text in key for term in unique.terms)
        for unique in table.shape.uniques
    )


def describe_all(
    access: Access,
    connection: Connection,
    names: Sequence[str],
    keys: Mapping[str, Sequence[str]],
    columns: Mapping[str, Collection[str]] | None = None,
) -> dict[str, Table]:
    return {
        name: describe(access, connection, name, keys.get(name), (columns or {}).get(name))
        for name in names
    }
