"""What Headwater adds to a SQLite file: a log of changes, filled by triggers, and its removal.

- `head` has one row: the number of the last change and a random number that goes with it, what
  the triggers know about the statement under way, up to where the log has been pruned, a name of
  this log that no other log has, and who reads it.
- `log` has one row for each changed row: `o0, o1, ...` are old values, `n0, n1, ...` new ones. The
  columns have no type, so SQLite keeps every value as it is. Each row has a random number: the
  same number and the same random number are the same history.
- `relation` has the relations and what their triggers were made from; `column` has where in the
  log their columns are, and since when.
- `border` has numbers at which transactions ended, `gap` says where changes were not logged.
- `tag` has which transactions are parts of global ones (`tagging`).
- `aside_1`, ... have rows that the statement under way may replace (`triggers`).

The names carry the owner of the log (`names`).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping

from headwater.sources.sqlite.access import Access, Connection
from headwater.sources.sqlite.described import Table
from headwater.sources.sqlite.names import Names, owner_of_head
from headwater.sources.sqlite.standing import (
    StoredSetup,
    Trouble,
    check_alone,
    foreign_triggers,
    has_log,
    shape_json,
    shape_of,
    stored_relations,
    trouble_with,
)
from headwater.sources.sqlite.tagging import tagging_statements, untagging_statements
from headwater.sources.sqlite.triggers import GAP, Logging
from headwater.sources.sqlite.uniques import literal, quoted


def _create(names: Names) -> list[str]:
    return [
        f"CREATE TABLE {names.head} (seq INTEGER NOT NULL, nonce INTEGER NOT NULL, "
        "open INTEGER NOT NULL, at REAL NOT NULL, pruned INTEGER NOT NULL, log TEXT NOT NULL, "
        "relations INTEGER NOT NULL, width INTEGER NOT NULL, reader TEXT, epoch INTEGER)",
        f"INSERT INTO {names.head} VALUES "
        "(0, random(), 0, 0, 0, lower(hex(randomblob(8))), 0, 0, NULL, NULL)",
        f"CREATE TABLE {names.log} (seq INTEGER PRIMARY KEY, nonce INTEGER NOT NULL, "
        "relation INTEGER NOT NULL, action INTEGER NOT NULL)",
        f"INSERT INTO {names.log} SELECT seq, nonce, 0, 0 FROM {names.head}",
        f"CREATE TABLE {names.relation} "
        "(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, shape TEXT NOT NULL)",
        f"CREATE TABLE {names.column} (relation INTEGER NOT NULL, name TEXT NOT NULL, "
        "declared TEXT NOT NULL, slot INTEGER NOT NULL, since INTEGER NOT NULL)",
        f"CREATE TABLE {names.border} (seq INTEGER PRIMARY KEY)",
        f"CREATE TABLE {names.gap} (seq INTEGER PRIMARY KEY, columns TEXT, reason TEXT NOT NULL)",
    ]


def setup_statements(
    access: Access, connection: Connection, tables: Mapping[str, Table]
) -> list[str]:
    """What is still missing, to be run in one transaction; empty after a setup."""
    names = access.names
    known: dict[str, StoredSetup] = {}
    relations = width = 0
    statements = []
    is_there = has_log(connection, names)
    if is_there:
        known = stored_relations(connection, names)
        check_alone(access, connection, known.values())
        relations, width = connection.execute(
            f"SELECT relations, width FROM {names.head}"
        ).fetchone()
    else:
        statements = [*removal_statements(connection, names), *_create(names)]
    for name, table in tables.items():
        before = known.get(name)
        trouble = trouble_with(access, connection, before) if before is not None else None
        stay = _staying(table, before, trouble)
        if before is not None and trouble is None and _fits(before, table, stay):
            continue
        fresh = [column for column in table.stored if column not in stay]
        slots = {**stay, **{column: width + at for at, column in enumerate(fresh)}}
        statements += _widen(names, width, width + len(fresh))
        width += len(fresh)
        relations += before is None
        number = relations if before is None else before.logging.number
        if before is not None:
            statements += _forget(connection, names, number, stay)
        if before is not None and trouble is not None:
            statements += _gap(names, number, trouble)
        statements += _log_from_here(names, number, table, slots, fresh)
        statements.append(f"UPDATE {names.head} SET relations = {relations}, width = {width}")
    return [*statements, *tagging_statements(connection, names, anew=not is_there)]


def _staying(table: Table, before: StoredSetup | None, trouble: Trouble | None) -> dict[str, int]:
    """The columns that are in the log already, and where."""
    if before is None:
        return {}
    broken = trouble.columns if trouble is not None and trouble.columns is not None else ()
    return {
        column: before.columns[column].slot
        for column in table.stored
        if column in before.columns
        and column not in broken
        and before.columns[column].declared == table.declared[column]
    }


def _fits(before: StoredSetup, table: Table, stay: Mapping[str, int]) -> bool:
    wanted = shape_of(table.name, json.loads(shape_json(table.shape, table.stored)))
    return (
        before.logging.shape == wanted
        and stay.keys() == before.columns.keys()
        and stay.keys() == set(table.stored)
    )


def _forget(
    connection: Connection, names: Names, number: int, stay: Iterable[str]
) -> Iterator[str]:
    yield from _drop_triggers(connection, names, number)
    kept = ", ".join(map(literal, stay))
    yield f"DELETE FROM {names.column} WHERE relation = {number} AND name NOT IN ({kept})"
    yield f"DELETE FROM {names.relation} WHERE id = {number}"


def _gap(names: Names, number: int, trouble: Trouble) -> Iterator[str]:
    """Say in the log that changes are missing before this place."""
    columns = "NULL" if trouble.columns is None else literal(json.dumps(sorted(trouble.columns)))
    yield _border(names)
    yield f"UPDATE {names.head} SET seq = seq + 1, nonce = random()"
    yield (
        f"INSERT INTO {names.log} (seq, nonce, relation, action) "
        f"SELECT seq, nonce, {number}, {GAP} FROM {names.head}"
    )
    yield (
        f"INSERT INTO {names.gap} SELECT seq, {columns}, {literal(trouble.reason)} "
        f"FROM {names.head}"
    )


def _log_from_here(
    names: Names, number: int, table: Table, slots: Mapping[str, int], fresh: Iterable[str]
) -> Iterator[str]:
    shape = shape_json(table.shape, table.stored)
    ordered = tuple(sorted(slots.items(), key=lambda entry: entry[1]))
    logging = Logging(names, shape_of(table.name, json.loads(shape)), number, ordered)
    yield _border(names)
    yield (
        f"INSERT INTO {names.relation} VALUES ({number}, {literal(table.name)}, {literal(shape)})"
    )
    for column in fresh:
        yield (
            f"INSERT INTO {names.column} SELECT {number}, {literal(column)}, "
            f"{literal(table.declared[column])}, {slots[column]}, seq FROM {names.head}"
        )
    yield from logging.aside_statements()
    yield from logging.triggers().values()
    # Whoever makes one of them again makes it younger than this.
    yield f"CREATE VIEW {names.seal(number)} AS SELECT 1 AS one"


def _border(names: Names) -> str:
    return (
        f"INSERT INTO {names.border} SELECT seq FROM {names.head} "
        f"WHERE seq NOT IN (SELECT seq FROM {names.border})"
    )


def _drop_triggers(connection: Connection, names: Names, number: int) -> Iterator[str]:
    rows = connection.execute("SELECT name FROM main.sqlite_master WHERE type = 'trigger'")
    for (name,) in rows.fetchall():
        if names.number_of(str(name)) == number:
            yield f"DROP TRIGGER {name}"
    yield f"DROP VIEW IF EXISTS {names.seal(number)}"
    yield f"DROP TABLE IF EXISTS {names.aside(number)}"


def _widen(names: Names, now: int, width: int) -> Iterator[str]:
    for slot in range(now, width):
        yield f"ALTER TABLE {names.log} ADD COLUMN o{slot}"
        yield f"ALTER TABLE {names.log} ADD COLUMN n{slot}"


def teardown_statements(
    connection: Connection, names: Names, relations: Iterable[str]
) -> list[str]:
    """Remove the triggers of these relations, and the log once nothing else fills it.

    What is in the log stays as long as others need it: the history goes on.
    """
    if not has_log(connection, names):
        return removal_statements(connection, names)
    known = stored_relations(connection, names)
    gone = [known[name].logging.number for name in relations if name in known]
    if len(gone) == len(known):
        return removal_statements(connection, names)
    return [
        *(
            f"DROP TRIGGER {quoted(n)}"
            for n, _ in foreign_triggers(connection, names, known.values())
        ),
        *(statement for number in gone for statement in _forget(connection, names, number, ())),
    ]


def removal_statements(connection: Connection, names: Names) -> list[str]:
    """Remove everything of one owner, whatever is left of it."""
    found = connection.execute(
        "SELECT type, name FROM main.sqlite_master WHERE type IN ('table', 'trigger', 'view') "
        "ORDER BY type DESC"
    ).fetchall()
    return [
        *(
            f"DROP {str(kind).upper()} {quoted(str(name))}"
            for kind, name in found
            if names.owns(str(name))
        ),
        *untagging_statements(connection, names),
    ]


def owners(connection: Connection) -> list[str]:
    """Whose logs are in the file."""
    rows = connection.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'")
    found = (owner_of_head(str(name)) for (name,) in rows)
    return sorted(owner for owner in found if owner is not None)


def writing_failures(connection: Connection, tables: Iterable[Table]) -> dict[str, str]:
    """What SQLite says to statements that write to the tables, by the statement.

    It compiles triggers when somebody writes: better that it complains to us than to the
    application. A function that only the application has makes it complain in any case.
    """
    found = {}
    for table in tables:
        on, column = quoted(table.name), quoted(next(iter(table.declared)))
        for statement in (
            f"INSERT INTO {on} ({column}) SELECT {column} FROM {on} WHERE 0",
            f"UPDATE {on} SET {column} = {column} WHERE 0",
            f"DELETE FROM {on} WHERE 0",
        ):
            try:
                connection.execute(statement)
            except sqlite3.Error as error:
                found[statement] = str(error)
    return found


def check_writers(
    access: Access, connection: Connection, tables: Iterable[Table], before: Mapping[str, str]
) -> None:
    """SourceError if a statement that worked before our triggers were made works no more."""
    for statement, error in writing_failures(connection, tables).items():
        if statement not in before:
            raise access.error(
                f"with Headwater's triggers {statement} would fail ({error}).",
                "If the table has a unique index or a default that is an expression, write it in "
                "a simpler way, or leave the table out.",
            )


def run_all(connection: Connection, statements: Callable[[], Iterable[str]]) -> None:
    """All or none of the statements, which are found in the same transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in statements():
            connection.execute(statement)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
