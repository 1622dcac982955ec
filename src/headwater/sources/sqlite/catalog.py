"""What a SQLite file says about its tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.names import closest_first
from headwater.errors import SourceError
from headwater.sources.sqlite.access import Access, Connection
from headwater.sources.sqlite.described import (
    Table,
    TableShape,
    base_of,
    is_reserved,
    own_column,
    text_column,
)
from headwater.sources.sqlite.meanings import meaning_of
from headwater.sources.sqlite.names import is_ours
from headwater.sources.sqlite.uniques import (
    IndexedTerm,
    Unique,
    collations,
    compares,
    index_terms,
    quoted,
)

_ROWIDS = ("rowid", "_rowid_", "oid")


_SORTS = {
    "view": (
        "a view: there is no log of its rows",
        "Name the tables that it reads, and write its query as a view of Headwater's.",
    ),
    "virtual": (
        "a virtual table: no trigger can log its changes",
        "Name the table that it is filled from, if there is one.",
    ),
    "shadow": ("a part of a virtual table", "Leave it out."),
}


def has_table(connection: Connection, name: str) -> bool:
    found = connection.execute(
        "SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = ?", (name,)
    )
    return found.fetchone() is not None


@dataclass(frozen=True)
class Sort:
    """What an entry of the catalog is: table, view, virtual or shadow, and of which sort."""

    kind: str
    without_rowid: bool
    strict: bool


def read_sorts(connection: Connection) -> dict[str, Sort]:
    """Everything in the file by its name, but for what SQLite and Headwater keep there."""
    return {
        str(table): Sort(str(kind), bool(without), bool(strict))
        for _, table, kind, _, without, strict in connection.execute("PRAGMA main.table_list")
        if not str(table).startswith("sqlite_") and not is_ours(str(table))
    }


def actual_name(name: str, sorts: Collection[str]) -> str:
    """The name as the file has it: SQLite knows no upper and lower case in names."""
    if name in sorts:
        return name
    return next((each for each in sorts if _lowered(each) == _lowered(name)), name)


def _lowered(name: str) -> str:
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)


def describe(
    access: Access,
    connection: Connection,
    name: str,
    key: Sequence[str] | None = None,
    columns: Collection[str] | None = None,
    sorts: Mapping[str, Sort] | None = None,
) -> Table:
    """A table by its exact name; `key` instead of the declared one; `columns`: only these."""
    sorts = read_sorts(connection) if sorts is None else sorts
    if name not in sorts:
        raise _missing(access, name, sorts)
    sort = sorts[name]
    if sort.kind != "table":
        what, remedy = _SORTS.get(sort.kind, ("no table", "Leave it out."))
        raise access.error(f"{name} is {what}.", remedy)
    described = _columns(connection, name)
    readable = [c for c in described if not c.generated and not is_reserved(c.name)]
    if not readable:
        raise access.error(f"table {name} has no columns to read.", "Leave it out.")
    primary = tuple(c.name for c in sorted(described, key=lambda c: c.key) if c.key)
    known = {column.name for column in readable}
    merged = [c.name for c in readable if not meaning_of(c.declared, sort.strict).tells_apart]
    chosen = _key(access, name, [column.name for column in readable], key, primary, merged)
    wanted = known if columns is None else {*columns, *chosen}
    schema = _schema(readable, wanted, sort.strict)
    return Table(
        Relation(f"{access.name}.{name}", access.name, schema, chosen, unusable=_left(described)),
        {column.name: column.declared for column in readable},
        _shape(access, connection, name, described, primary, sort.without_rowid),
        tuple(sorted({base_of(column) for column in wanted} - known)),
        sort.strict,
    )


def _missing(access: Access, name: str, sorts: Mapping[str, Sort]) -> SourceError:
    if is_ours(name):
        return access.error(
            f"{name} has a name that only Headwater's own tables have.",
            "Name another table, or rename it.",
        )
    tables = closest_first(name, (n for n, sort in sorts.items() if sort.kind == "table"))
    return access.error(
        f"there is no table {name}.",
        f"There are: {tables or 'none'}. Correct relations in headwater.toml, or the views that "
        "name it.",
    )


@dataclass(frozen=True)
class _Column:
    name: str
    declared: str
    default: str | None
    key: int
    generated: bool
    collation: str


def _columns(connection: Connection, name: str) -> list[_Column]:
    rows = connection.execute("SELECT * FROM pragma_table_xinfo(?, 'main')", (name,)).fetchall()
    made = connection.execute(
        "SELECT sql FROM main.sqlite_master WHERE type = 'table' AND name = ?", (name,)
    ).fetchone()
    given = dict(enumerate(collations(str(made[0])) if made is not None else ()))
    return [
        _Column(
            str(column),
            str(declared),
            default if filled else None,
            int(key),
            hidden in (2, 3),
            given.get(at, "BINARY"),
        )
        for at, (_, column, declared, filled, default, key, hidden) in enumerate(rows)
        if hidden != 1
    ]


def _schema(described: Sequence[_Column], wanted: Collection[str], strict: bool) -> Schema:
    """The wanted columns, those that are wanted as texts behind the others."""
    own = [
        own_column(c.name, c.declared, meaning_of(c.declared, strict, c.collation))
        for c in described
    ]
    texts = map(text_column, own)
    return Schema(tuple(column for column in (*own, *texts) if column.name in wanted))


def _left(described: Sequence[_Column]) -> tuple[tuple[str, str], ...]:
    """The columns that cannot be used, and why."""
    return tuple(
        (
            column.name,
            "it is generated, and not in the log. What it is computed from is: write its "
            "expression in the view."
            if column.generated
            else "only Headwater gives such names. Rename it.",
        )
        for column in described
        if column.generated or is_reserved(column.name)
    )


def _key(
    access: Access,
    name: str,
    columns: Sequence[str],
    key: Sequence[str] | None,
    primary: tuple[str, ...],
    merged: Collection[str],
) -> tuple[str, ...]:
    """The key by which rows are known here: none where rows with several keys may have one."""
    missing = [column for column in key or () if column not in columns]
    if missing:
        raise access.error(
            f"table {name} has no column {missing[0]} for its key.",
            f"Its columns are {', '.join(columns)}.",
        )
    if several := next((column for column in key or () if column in merged), None):
        raise access.error(
            f"column {several} of the key of table {name} does not tell its rows apart here: the "
            "file may hold values of it that differ there and are equal here.",
            "Take the key out of the settings, or name one of other columns.",
        )
    chosen = primary if key is None else tuple(key)
    return () if set(chosen) & set(merged) else chosen


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
    if not is_key_kept(table, table.relation.key):
        columns = ", ".join(quoted(column) for column in table.relation.key)
        raise access.error(
            f"nothing in the file keeps the key ({', '.join(table.relation.key)}) of table {name} "
            "unique.",
            f"Run CREATE UNIQUE INDEX {quoted(name + '_key')} ON {quoted(name)} ({columns}), or "
            "take the key out of the settings.",
        )


def is_key_kept(table: Table, key: Collection[str]) -> bool:
    """Whether the file keeps a key unique, so that no two rows ever have the same."""
    named = set(key)
    if not named or (table.primary and named.issuperset(table.primary)):
        return True
    return any(
        not unique.where and all(term.is_column and term.text in named for term in unique.terms)
        for unique in table.shape.uniques
    )


def describe_all(
    access: Access,
    connection: Connection,
    names: Sequence[str],
    keys: Mapping[str, Sequence[str]],
    columns: Mapping[str, Collection[str]] | None = None,
) -> tuple[dict[str, Table], dict[str, SourceError]]:
    """The tables by their names in the file, and why others cannot be used.

    With `columns` those that it names.
    """
    sorts = read_sorts(connection)
    tables: dict[str, Table] = {}
    unusable: dict[str, SourceError] = {}
    for called in names:
        name = actual_name(called, sorts)
        if columns and name not in columns:
            continue
        key = keys.get(called, keys.get(name))
        try:
            used = (columns or {}).get(name)
            tables[name] = describe(access, connection, name, key, used, sorts)
        except SourceError as error:
            unusable[name] = error
    return tables, unusable
