"""The triggers that log the changes of one table, with the rows that they replace.

INSERT OR REPLACE and UPDATE OR REPLACE remove rows without firing triggers of deletion, unless
the writer has set `recursive_triggers`. So a trigger before the change looks for the rows in
its way and puts them aside, and the trigger after the change, which does not fire if the
change was ignored, logs those as deleted. A trigger of deletion that does fire forgets them.
Uniqueness over expressions or over a part of the rows is not seen this way.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.sources.sqlite.catalog import Table, Unique, quoted

INSERTED, DELETED, UPDATED = 1, 2, 3
ACTIONS = ("insert", "update", "delete", "before_insert", "before_update")
_Named = Callable[[Table, str], str]


def trigger_name(number: int, action: str) -> str:
    return f"_headwater_{number}_{action}"


def create_triggers(table: Table, number: int) -> dict[str, str]:
    """The triggers of one relation: the name of each, and the statement that makes it."""
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
    statements = {}
    for action, when, body in made:
        name = trigger_name(number, action)
        statements[name] = (
            f"CREATE TRIGGER {name} {when} BEGIN {' '.join(f'{s};' for s in body)} END"
        )
    return statements


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
