"""What Headwater adds to a SQLite file: a log of changes, filled by triggers, and its removal.

- `_headwater_head` has one row: the number of the last change, up to where the log has been
  pruned, and a name of this log that no other log has.
- `_headwater_log` has one row for each changed row: `o0, o1, ...` are the old values,
  `n0, n1, ...` the new ones. The columns have no type, so SQLite keeps every value as it is.
- `_headwater_relation` has the relations with their columns as they were at the setup.
- `_headwater_border` has numbers at which transactions ended.
- `_headwater_replaced` is empty between statements, or has what one of them might replace.

INSERT OR REPLACE and UPDATE OR REPLACE remove rows without firing triggers of deletion, unless
the writer has set `recursive_triggers`. So a trigger before the change looks for the rows in
its way and puts them aside, and the trigger after the change, which does not fire if the
change was ignored, logs those as deleted. A trigger of deletion that does fire forgets them.
Uniqueness over expressions or over a part of the rows is not seen this way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from headwater.sources.sqlite_catalog import Connection, Place, Table, Unique, describe, quoted

TABLES = (
    "_headwater_head",
    "_headwater_log",
    "_headwater_relation",
    "_headwater_border",
    "_headwater_replaced",
)
INSERTED, DELETED, UPDATED = 1, 2, 3
_Named = Callable[[Table, str], str]
_ACTIONS = ("insert", "update", "delete", "before_insert", "before_update")

_CREATE = (
    "CREATE TABLE _headwater_head "
    "(seq INTEGER NOT NULL, pruned INTEGER NOT NULL, log TEXT NOT NULL)",
    "INSERT INTO _headwater_head VALUES (0, 0, lower(hex(randomblob(8))))",
    "CREATE TABLE _headwater_log "
    "(seq INTEGER PRIMARY KEY, relation INTEGER NOT NULL, action INTEGER NOT NULL)",
    "CREATE TABLE _headwater_relation "
    "(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, columns TEXT NOT NULL)",
    "CREATE TABLE _headwater_border (seq INTEGER PRIMARY KEY)",
    "CREATE TABLE _headwater_replaced "
    "(n INTEGER PRIMARY KEY, relation INTEGER NOT NULL, action INTEGER NOT NULL, id)",
)


def setup_statements(
    place: Place, connection: Connection, tables: Mapping[str, Table]
) -> list[str]:
    """What is still missing, to be run in one transaction; empty after a setup."""
    exists = has_log(connection)
    known = stored_relations(connection) if exists else {}
    for name in tables:
        if name in known:
            _check_columns(place, tables[name], known[name][1])
    statements = [] if exists else list(_CREATE)
    width = max((len(table.columns) for table in tables.values()), default=0)
    statements += _widen(_width(connection) if exists else 0, width)
    present = _triggers(connection)
    number = max((number for number, _ in known.values()), default=0)
    for name, table in tables.items():
        if name not in known:
            number += 1
            statements.append(
                "INSERT INTO _headwater_relation VALUES "
                f"({number}, {_literal(name)}, {_literal(_columns_json(table))})"
            )
        its = known[name][0] if name in known else number
        statements += [
            f"CREATE TRIGGER {trigger} {body}"
            for trigger, body in trigger_bodies(table, its)
            if trigger not in present
        ]
    return statements


def teardown_statements(connection: Connection, names: Iterable[str]) -> list[str]:
    """Remove the triggers of these relations, and the log once nothing else fills it."""
    if not has_log(connection):
        return []
    known = stored_relations(connection)
    gone = [known[name][0] for name in names if name in known]
    statements = [
        f"DROP TRIGGER IF EXISTS {_trigger(number, action)}"
        for number in gone
        for action in _ACTIONS
    ]
    if len(gone) == len(known):
        return statements + [f"DROP TABLE IF EXISTS {table}" for table in TABLES]
    for number in gone:
        statements.append(f"DELETE FROM _headwater_relation WHERE id = {number}")
        statements.append(f"DELETE FROM _headwater_log WHERE relation = {number}")
    return statements


def has_log(connection: Connection) -> bool:
    found = connection.execute(
        "SELECT count(*) FROM main.sqlite_master WHERE type = 'table' AND name IN "
        f"({', '.join('?' * len(TABLES))})",
        TABLES,
    ).fetchone()
    return bool(found[0] == len(TABLES))


def stored_relations(connection: Connection) -> dict[str, tuple[int, str]]:
    """The number of each relation in the log, and its columns at the setup."""
    rows = connection.execute("SELECT name, id, columns FROM _headwater_relation")
    return {str(name): (int(number), str(columns)) for name, number, columns in rows}


def check_setup(
    place: Place, connection: Connection, tables: Mapping[str, Table]
) -> dict[int, Table]:
    """The relations by their numbers in the log; SourceError if the log cannot be trusted."""
    if not has_log(connection):
        raise place.error(
            f"{place.path} has no log of changes.", "Run the setup, then load the relations."
        )
    known = stored_relations(connection)
    present = _triggers(connection)
    numbered: dict[int, Table] = {}
    for name, table in tables.items():
        if name not in known:
            raise place.error(f"table {name} is not in the log.", "Run the setup, then load it.")
        number, columns = known[name]
        now = describe(place, connection, name, table.relation.key)
        _check_columns(place, now, columns)
        _check_columns(place, table, columns)
        expected = {trigger for trigger, _ in trigger_bodies(table, number)}
        if missing := sorted(expected - present):
            raise place.error(
                f"table {name} has lost the trigger {missing[0]}, so changes were not logged.",
                "Run the teardown and the setup, then load the relations anew.",
            )
        numbered[number] = table
    return numbered


def _check_columns(place: Place, table: Table, columns: str) -> None:
    if _columns_json(table) != columns:
        raise place.error(
            f"table {table.name} was altered since the setup.",
            "Run the teardown and the setup, then load the relations anew.",
        )


def _columns_json(table: Table) -> str:
    return json.dumps([list(column) for column in table.declared])


def _triggers(connection: Connection) -> set[str]:
    rows = connection.execute(
        "SELECT name FROM main.sqlite_master WHERE type = 'trigger' "
        "AND substr(name, 1, 11) = '_headwater_'"
    )
    return {str(name) for (name,) in rows}


def _width(connection: Connection) -> int:
    columns = connection.execute("PRAGMA main.table_info(_headwater_replaced)").fetchall()
    return len(columns) - 4


def _widen(now: int, width: int) -> Iterator[str]:
    for at in range(now, width):
        yield f"ALTER TABLE _headwater_log ADD COLUMN o{at}"
        yield f"ALTER TABLE _headwater_log ADD COLUMN n{at}"
        yield f"ALTER TABLE _headwater_replaced ADD COLUMN o{at}"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# Triggers


def _trigger(number: int, action: str) -> str:
    return f"_headwater_{number}_{action}"


def trigger_bodies(table: Table, number: int) -> list[tuple[str, str]]:
    """The triggers of one relation: the name of each, and what follows it."""
    on = quoted(table.name)
    made = [
        ("insert", f"AFTER INSERT ON {on}", _log(table, number, INSERTED)),
        ("update", f"AFTER UPDATE ON {on}", _log(table, number, UPDATED)),
        ("delete", f"AFTER DELETE ON {on}", _log(table, number, DELETED)),
    ]
    if table.uniques:
        made.append(("before_insert", *_before(table, number, INSERTED)))
    if table.uniques and _identity(table):
        made.append(("before_update", *_before(table, number, UPDATED)))
    return [
        (_trigger(number, action), f"{when} BEGIN {' '.join(f'{s};' for s in body)} END")
        for action, when, body in made
    ]


def _log(table: Table, number: int, action: int) -> list[str]:
    """Log one changed row, and before it those that it replaced."""
    columns, values = ["seq", "relation", "action"], ["seq", str(number), str(action)]
    for sign, row, wanted in (("o", "OLD", action != INSERTED), ("n", "NEW", action != DELETED)):
        if wanted:
            columns += [f"{sign}{at}" for at in range(len(table.columns))]
            values += [f"{row}.{quoted(column)}" for column in table.columns]
    log = [
        "UPDATE _headwater_head SET seq = seq + 1",
        f"INSERT INTO _headwater_log ({', '.join(columns)}) "
        f"SELECT {', '.join(values)} FROM _headwater_head",
    ]
    if not table.uniques:
        return log
    forget = f"DELETE FROM _headwater_replaced WHERE n > 0 AND relation = {number}"
    return (
        [forget, *log] if action == DELETED else [*_replaced(table, number, action), forget, *log]
    )


def _replaced(table: Table, number: int, action: int) -> list[str]:
    olds = ", ".join(f"o{at}" for at in range(len(table.columns)))
    known = f"relation = {number} AND action = {action} AND ({_conflict(table, _aside, _new)})"
    if action == UPDATED:
        identity = _identity(table)
        if not identity:
            return []
        same = " AND ".join(f"{put} IS OLD.{quoted(column)}" for put, column in identity)
        known += f" AND NOT ({same})"
    return [
        f"INSERT INTO _headwater_log (seq, relation, action, {olds}) "
        f"SELECT (SELECT seq FROM _headwater_head) + n, {number}, {DELETED}, {olds} "
        f"FROM _headwater_replaced AS aside WHERE {known}",
        "UPDATE _headwater_head SET seq = seq + (SELECT max(n) FROM _headwater_replaced) "
        f"WHERE EXISTS (SELECT 1 FROM _headwater_replaced AS aside WHERE {known})",
    ]


def _before(table: Table, number: int, action: int) -> tuple[str, list[str]]:
    """Put aside the rows that are in the way of a change."""
    on = quoted(table.name)
    in_the_way = f"FROM {on} AS present WHERE ({_conflict(table, _present, _new)})"
    if action == UPDATED:
        same = " AND ".join(
            f"present.{quoted(column)} IS OLD.{quoted(column)}" for _, column in _identity(table)
        )
        in_the_way += f" AND NOT ({same})"
        keys = {column: None for unique in table.uniques for column, _ in unique.columns}
        event = f"BEFORE UPDATE OF {', '.join(map(quoted, keys))} ON {on}"
    else:
        event = f"BEFORE INSERT ON {on}"
    olds = ", ".join(f"o{at}" for at in range(len(table.columns)))
    values = ", ".join(f"present.{quoted(column)}" for column in table.columns)
    rowid = f"present.{quoted(table.rowid)}" if table.rowid else "NULL"
    return f"{event} WHEN EXISTS (SELECT 1 {in_the_way})", [
        f"DELETE FROM _headwater_replaced WHERE n > 0 AND relation = {number}",
        f"INSERT INTO _headwater_replaced (relation, action, id, {olds}) "
        f"SELECT {number}, {action}, {rowid}, {values} {in_the_way}",
    ]


def _identity(table: Table) -> list[tuple[str, str]]:
    """What tells a row from all others: where it is put aside, and its name in the table."""
    if table.rowid:
        return [("id", table.rowid)]
    if not table.uniques:
        return []
    # Without a rowid there is a primary key, and it is not NULL.
    primary = next((u for u in table.uniques if _is_primary(table, u)), table.uniques[0])
    return [(f"o{table.columns.index(column)}", column) for column, _ in primary.columns]


def _is_primary(table: Table, unique: Unique) -> bool:
    return {column for column, _ in unique.columns} == set(table.primary)


def _aside(table: Table, column: str) -> str:
    return f"o{table.columns.index(column)}"


def _present(_: Table, column: str) -> str:
    return f"present.{quoted(column)}"


def _new(_: Table, column: str) -> str:
    return f"NEW.{quoted(column)}"


def _conflict(table: Table, one: _Named, other: _Named) -> str:
    """Whether two rows cannot both be in the table."""
    return " OR ".join(
        " AND ".join(
            f"{one(table, column)} = {other(table, column)} COLLATE {quoted(collation)}"
            for column, collation in unique.columns
        )
        for unique in table.uniques
    )


def run_all(connection: Connection, statements: Callable[[], Sequence[str]]) -> None:
    """All or none of the statements, which are found in the same transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in statements():
            connection.execute(statement)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
