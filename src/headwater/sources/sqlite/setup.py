"""What Headwater adds to a SQLite file: a log of changes, filled by triggers, and its removal.

- `_headwater_head` has one row: the number of the last change, up to where the log has been
  pruned, and a name of this log that no other log has.
- `_headwater_log` has one row for each changed row: `o0, o1, ...` are the old values,
  `n0, n1, ...` the new ones. The columns have no type, so SQLite keeps every value as it is.
- `_headwater_relation` has the relations with their columns as they were at the setup.
- `_headwater_border` has numbers at which transactions ended.
- `_headwater_replaced` is empty between statements, or has what one of them might replace.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from headwater.sources.sqlite.catalog import Connection, Place, Table, describe
from headwater.sources.sqlite.triggers import ACTIONS, create_triggers, trigger_name

TABLES = (
    "_headwater_head",
    "_headwater_log",
    "_headwater_relation",
    "_headwater_border",
    "_headwater_replaced",
)

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
        for trigger, statement in create_triggers(table, its).items():
            if present.get(trigger) != statement:
                statements += [f"DROP TRIGGER IF EXISTS {trigger}", statement]
    return statements


def teardown_statements(connection: Connection, names: Iterable[str]) -> list[str]:
    """Remove the triggers of these relations, and the log once nothing else fills it."""
    if not has_log(connection):
        return []
    known = stored_relations(connection)
    gone = [known[name][0] for name in names if name in known]
    statements = [
        f"DROP TRIGGER IF EXISTS {trigger_name(number, action)}"
        for number in gone
        for action in ACTIONS
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
        _check_triggers(place, name, create_triggers(now, number), present)
        numbered[number] = table
    return numbered


def _check_columns(place: Place, table: Table, columns: str) -> None:
    if _columns_json(table) != columns:
        raise place.error(
            f"table {table.name} was altered since the setup.",
            "Run the teardown and the setup, then load the relations anew.",
        )


def _check_triggers(
    place: Place, name: str, expected: Mapping[str, str], present: Mapping[str, str]
) -> None:
    if missing := sorted(expected.keys() - present.keys()):
        raise place.error(
            f"table {name} has lost the trigger {missing[0]}, or has a new unique index.",
            "Run the setup again, then load the relations anew.",
        )
    if any(present[trigger] != statement for trigger, statement in expected.items()):
        raise place.error(
            f"the unique indexes of table {name} have changed since the setup.",
            "Run the setup again; if rows were replaced meanwhile, load the relations anew.",
        )


def _columns_json(table: Table) -> str:
    return json.dumps([list(column) for column in table.declared])


def _triggers(connection: Connection) -> dict[str, str]:
    rows = connection.execute(
        "SELECT name, sql FROM main.sqlite_master WHERE type = 'trigger' "
        "AND substr(name, 1, 11) = '_headwater_'"
    )
    return {str(name): str(sql) for name, sql in rows}


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
