"""What the catalog says of tables: columns, keys, and why some cannot be used.

Rows that the database changes without logging them are the trap here: those that a foreign key
deletes or changes. A table with such a key cannot be followed, or lacks the columns concerned.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwater.errors import LostConnectionError, RefusedError, SourceError
from headwater.sources.mariadb.connect import Access, Connection, quoted, run, text_literal
from headwater.sources.mariadb.forms import as_printed
from headwater.sources.mariadb.meanings import Declared, UnknownTypeError, equality_of, form_of
from headwater.sources.mariadb.types import Table, TableColumn
from headwater.sources.naming import called, split_name

_DOING = "read the catalog"
_TABLES = """
SELECT TABLE_NAME, TABLE_TYPE, ENGINE, TABLE_ROWS, DATA_LENGTH, CREATE_OPTIONS
FROM information_schema.TABLES WHERE TABLE_SCHEMA = {database}
"""
_COLUMNS = """
SELECT TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, CHARACTER_SET_NAME, COLLATION_NAME,
  GENERATION_EXPRESSION, IS_NULLABLE
FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = {database}
ORDER BY TABLE_NAME, ORDINAL_POSITION
"""
_INDEXES = """
SELECT TABLE_NAME, INDEX_NAME, NON_UNIQUE, COLUMN_NAME, INDEX_TYPE, SUB_PART
FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = {database}
ORDER BY TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX
"""
_CASCADES = """
SELECT r.TABLE_NAME, r.CONSTRAINT_NAME, k.COLUMN_NAME, r.DELETE_RULE, r.UPDATE_RULE
FROM information_schema.REFERENTIAL_CONSTRAINTS r
JOIN information_schema.KEY_COLUMN_USAGE k ON k.CONSTRAINT_SCHEMA = r.CONSTRAINT_SCHEMA
  AND k.CONSTRAINT_NAME = r.CONSTRAINT_NAME AND k.TABLE_NAME = r.TABLE_NAME
WHERE r.CONSTRAINT_SCHEMA = {database} AND k.TABLE_SCHEMA = {database}
"""
_CHANGING = ("CASCADE", "SET NULL", "SET DEFAULT")
OWN_PREFIX = "_headwater_"


@dataclass(frozen=True)
class Index:
    name: str
    columns: tuple[str, ...]
    is_unique: bool
    is_whole: bool
    """Whether it has all of its columns' values, and an order."""


@dataclass
class Found:
    """What the catalog says of one table."""

    kind: str
    engine: str
    rows: int
    size: int
    columns: list[tuple[Any, ...]] = field(default_factory=list)
    indexes: dict[str, Index] = field(default_factory=dict)
    cascades: list[tuple[str, str, str, str]] = field(default_factory=list)


class Catalog:
    """One database at a server, as it was when it was looked at."""

    def __init__(self, access: Access, connection: Connection, database: str) -> None:
        self.database = database
        with access.errors(_DOING):
            asked = {"database": text_literal(database)}
            self.tables = {
                name: Found(str(kind), str(engine or ""), int(rows or 0), int(size or 0))
                for name, kind, engine, rows, size, _ in run(connection, _TABLES.format(**asked))
            }
            for name, *column in run(connection, _COLUMNS.format(**asked)):
                if name in self.tables:
                    self.tables[name].columns.append(tuple(column))
            self._read_indexes(run(connection, _INDEXES.format(**asked)))
            for name, *cascade in run(connection, _CASCADES.format(**asked)):
                if name in self.tables:
                    self.tables[name].cascades.append(tuple(cascade))
            ((folded,),) = run(connection, "SELECT @@lower_case_table_names")
        self._folds = str(folded) != "0"

    def _read_indexes(self, rows: Iterable[tuple[Any, ...]]) -> None:
        parts: dict[tuple[str, str], list[tuple[Any, ...]]] = defaultdict(list)
        for name, index, *rest in rows:
            parts[name, index].append(tuple(rest))
        for (name, index), found in parts.items():
            if name in self.tables:
                self.tables[name].indexes[index] = Index(
                    str(index),
                    tuple(str(column) for _, column, _, _ in found),
                    found[0][0] == "0",
                    all(kind in ("BTREE", "HASH") and column for _, column, kind, _ in found),
                )

    def actual(self, name: str) -> str | None:
        """The table that is meant by a name; None if there is none."""
        if name in self.tables:
            return name
        if self._folds:
            return next((each for each in self.tables if each.lower() == name.lower()), None)
        return None


@dataclass(frozen=True)
class Wanted:
    """What settings say of tables."""

    names: tuple[str, ...]
    keys: Mapping[str, Sequence[str]]
    as_text: Mapping[str, Sequence[str]]


class MissingTableError(RefusedError):
    """There is no such table, or none that this account sees."""


def read_tables(
    access: Access, connection: Connection, wanted: Wanted
) -> tuple[dict[str, Table], dict[str, SourceError]]:
    """The tables by the names of their relations, and why others cannot be used."""
    default = access.database
    catalogs: dict[str, Catalog] = {}
    tables: dict[str, Table] = {}
    unusable: dict[str, SourceError] = {}
    for relation, name in zip(called(wanted.names), wanted.names, strict=True):
        place, table = split_name(name)
        database = place or default
        if not database:
            unusable[relation] = SourceError(
                f"Source {access.source}: nothing says in which database {name} is.",
                "Name one in the connection string, or write database.table.",
            )
            continue
        if database not in catalogs:
            catalogs[database] = Catalog(access, connection, database)
        try:
            tables[relation] = describe(access, catalogs[database], table, relation, wanted)
        except SourceError as error:
            unusable[relation] = error
    return tables, unusable


def describe(access: Access, catalog: Catalog, name: str, relation: str, wanted: Wanted) -> Table:
    """A table as it is; SourceError if it cannot be followed."""
    actual = catalog.actual(name)
    if actual is None:
        raise MissingTableError(
            f"Source {access.source}: there is no table {catalog.database}.{name}, or this account "
            "may not read it.",
            f"Correct the name, or run: GRANT SELECT ON {quoted(catalog.database, name)} TO the "
            "account;",
        )
    found = catalog.tables[actual]
    label = f"{catalog.database}.{actual}"
    check_sort(access, label, found)
    changed = _check_cascades(access, label, found)
    columns, left_out = _columns(access, found, wanted.as_text.get(relation, ()), changed)
    if not columns:
        raise SourceError(
            f"Source {access.source}: table {label} has no column that can be used.",
            "; ".join(f"{column}: {reason}" for column, reason in left_out) + ".",
        )
    given = wanted.keys.get(relation) or wanted.keys.get(name)
    key = _given_key(access, label, found, given) if given else _key(found)
    cut_by = _cut_by(found, {c.name: c for c in columns})
    return Table(
        catalog.database,
        actual,
        columns,
        key if set(key) <= {column.name for column in columns} else (),
        relation,
        left_out=left_out,
        is_key_given=bool(given),
        cut_by=cut_by,
    )


_SORTS = {
    "VIEW": "it is a view: write its query as a view of Headwater's",
    "SYSTEM VERSIONED": "it is system-versioned, and its log holds its past, too",
    "SEQUENCE": "it is a sequence",
    "SYSTEM VIEW": "it is the server's own, and there is no log of it",
    "TEMPORARY": "it is temporary, and there is no log of it",
    "TEMPORARY TABLE": "it is temporary, and there is no log of it",
}


def check_sort(access: Access, label: str, found: Found) -> None:
    reason = "" if found.kind == "BASE TABLE" else _SORTS.get(found.kind, f"it is a {found.kind}")
    if not reason and not (found.engine and found.columns):
        raise LostConnectionError(
            f"Source {access.source}: the server does not say what table {label} is made of just "
            "now; somebody may be altering it.",
            f"It is looked at again. If it stays so: CHECK TABLE {label}.",
        )
    if not reason and found.engine.upper() != "INNODB":
        reason = (
            f"its engine {found.engine} has no snapshots, so that nobody can "
            "say which changes an answer holds"
        )
        raise SourceError(
            f"Source {access.source}: table {label} cannot be followed: {reason}.",
            f"Run: ALTER TABLE {label} ENGINE = InnoDB; or leave the table out.",
        )
    if reason:
        raise SourceError(
            f"Source {access.source}: table {label} cannot be followed: {reason}.",
            "Leave the table out.",
        )


def _check_cascades(access: Access, label: str, found: Found) -> dict[str, str]:
    """The columns that foreign keys change without a word in the log, and which key it is."""
    changed: dict[str, str] = {}
    for name, column, on_delete, on_update in found.cascades:
        if on_delete == "CASCADE":
            raise SourceError(
                f"Source {access.source}: table {label} cannot be followed: its foreign key {name} "
                "has ON DELETE CASCADE, and the server does not log which rows that deletes.",
                f"Replace it: ALTER TABLE {label} DROP FOREIGN KEY {name}, ADD FOREIGN KEY ... ON "
                "DELETE RESTRICT; and delete those rows by a trigger or by the application, which "
                "is logged.",
            )
        if on_delete in _CHANGING or on_update in _CHANGING:
            changed[column] = name
    return changed


def _columns(
    access: Access, found: Found, printed: Sequence[str], changed: Mapping[str, str]
) -> tuple[tuple[TableColumn, ...], tuple[tuple[str, str], ...]]:
    columns, left_out = [], []
    for name, kind, shown, charset, collation, expression, _ in found.columns:
        declared = Declared(kind, shown, charset or "", collation or "", access.kind)
        try:
            if name in changed:
                raise UnknownTypeError(
                    f"its foreign key {changed[name]} changes it (SET NULL or ON UPDATE CASCADE), "
                    "and the server does not log that"
                )
            if expression:
                raise UnknownTypeError(
                    f"it is generated, and views say the expression instead: {expression}"
                )
            form = form_of(declared)
        except UnknownTypeError as error:
            left_out.append((str(name), str(error)))
            continue
        if name in printed:
            form = as_printed(form)
        columns.append(
            TableColumn(
                str(name), str(shown), form, str(collation or ""), str(charset or ""),
                equality_of(declared), kind == "char",
            )
        )  # fmt: skip
    return tuple(columns), tuple(left_out)


def _nullable(found: Found) -> set[str]:
    return {str(name) for name, *_, nullable in found.columns if nullable == "YES"}


def _key(found: Found) -> tuple[str, ...]:
    primary = found.indexes.get("PRIMARY")
    return primary.columns if primary is not None else ()


def _given_key(access: Access, label: str, found: Found, columns: Sequence[str]) -> tuple[str, ...]:
    """The key that settings name, if the database keeps it."""
    nullable = _nullable(found)
    for index in found.indexes.values():
        if index.is_unique and set(index.columns) <= set(columns) - nullable:
            return tuple(columns)
    shown = ", ".join(map(quoted, columns))
    raise SourceError(
        f"Source {access.source}: keys names ({', '.join(columns)}) as the key of {label}, and no "
        "unique index without NULLs keeps it.",
        f"Run: ALTER TABLE {label} ADD UNIQUE ({shown}); with NOT NULL columns, or correct keys.",
    )


def _cut_by(found: Found, columns: Mapping[str, TableColumn]) -> str:
    """The column of whole numbers that the primary key consists of."""
    primary = found.indexes.get("PRIMARY")
    if primary is None or len(primary.columns) != 1:
        return ""
    first = columns.get(primary.columns[0])
    return first.name if first is not None and first.form.type.name == "int" else ""


def served_columns(catalog: Catalog, table: Table) -> frozenset[str]:
    """The columns that some index begins with."""
    found = catalog.tables.get(table.name)
    if found is None:
        return frozenset()
    return frozenset(i.columns[0] for i in found.indexes.values() if i.is_whole and i.columns)
