"""Random SQLite schemas and statements, for what REPLACE does inside other changes.

Tables `t` and `u` with every kind of uniqueness, foreign keys with actions within `t`, from `u`
to `t` and back, and an application's triggers that write to both. Values are few, so that rows
are in each other's way.
"""

from __future__ import annotations

from random import Random

COLUMNS = ("k", "a", "b", "p")
ACTIONS = ("CASCADE", "SET NULL", "SET DEFAULT", "NO ACTION")


def _action(random: Random) -> str:
    return f"ON DELETE {random.choice(ACTIONS)} ON UPDATE {random.choice(ACTIONS)}"


def _columns(random: Random) -> list[str]:
    """The columns `a`, `b` and `p`, as every table has them."""
    filled = random.choice(["", "", "NOT NULL DEFAULT 2"])
    collation = random.choice(["", " COLLATE NOCASE"])
    return [f"a INTEGER {filled}", f"b TEXT{collation}", "p INTEGER DEFAULT 1"]


def _uniques(random: Random, table: str) -> list[str]:
    candidates = [
        f"CREATE UNIQUE INDEX {table}_a ON {table} (a)",
        f"CREATE UNIQUE INDEX {table}_ab ON {table} (a, b)",
        f"CREATE UNIQUE INDEX {table}_b ON {table} (b COLLATE NOCASE)",
        f"CREATE UNIQUE INDEX {table}_part ON {table} (b) WHERE a > 2",
        f"CREATE UNIQUE INDEX {table}_lower ON {table} (lower(b), a)",
        f"CREATE UNIQUE INDEX {table}_sum ON {table} (a + coalesce(p, 0)) WHERE {table}.b = 'a'",
        f"CREATE UNIQUE INDEX {table}_p ON {table} (p)",
    ]
    return [statement for statement in candidates if random.random() < 0.25]


def _table(random: Random, table: str, reference: str) -> list[str]:
    columns = _columns(random)
    uniques = _uniques(random, table)
    kind = random.choice(["integer", "integer", "text", "pair", "none", "without", "without pair"])
    parts = ["k INTEGER PRIMARY KEY" if kind == "integer" else "k INTEGER", *columns]
    match kind:
        case "text" | "without":
            parts.append("PRIMARY KEY (k)")
        case "pair" | "without pair":
            parts.append("PRIMARY KEY (k, a)")
    if reference:
        parts.append(f"FOREIGN KEY (p) REFERENCES {reference} {_action(random)}")
    suffix = " WITHOUT ROWID" if kind.startswith("without") else ""
    key = [] if kind in ("integer", "text", "without") else [
        f"CREATE UNIQUE INDEX {table}_k ON {table} (k)"
    ]  # fmt: skip
    return [f"CREATE TABLE {table} ({', '.join(parts)}){suffix}", *key, *uniques]


def schema(random: Random) -> list[str]:
    """The statements that make the tables and the application's triggers."""
    statements = _table(random, "t", random.choice(["", "t (k)", "t (k)", "u (k)"]))
    statements += _table(random, "u", random.choice(["", "t (k)", "u (k)"]))
    for number in range(random.choice([0, 1, 1, 2, 3])):
        statements.append(_trigger(random, number))
    return statements


def _trigger(random: Random, number: int) -> str:
    event = random.choice(["INSERT", "INSERT", "UPDATE", "DELETE"])
    rows = {"INSERT": ["NEW"], "UPDATE": ["OLD", "NEW"], "DELETE": ["OLD"]}[event]
    row = random.choice(rows)
    when = random.choice(["", f"WHEN {row}.a <> 3", f"WHEN {row}.k % 2"])
    body = [_inner(random, row) for _ in range(random.choice([1, 1, 2]))]
    if random.random() < 0.1:
        body.append(f"SELECT RAISE(IGNORE) WHERE {row}.a = 1")
    return (
        f"CREATE TRIGGER x{number} {random.choice(['BEFORE', 'AFTER'])} {event} "
        f"ON {random.choice('ttu')} {when} BEGIN {'; '.join(body)}; END"
    )


def _inner(random: Random, row: str) -> str:
    """A statement of an application's trigger."""
    table = random.choice("tttu")
    column, other = random.choice("kabp"), random.choice("kap")
    number = random.randint(1, 4)
    value = f"'{random.choice('abAB')}'" if column == "b" else random.choice(
        [str(number), f"{row}.{other}", f"{row}.{other} + 1"]
    )  # fmt: skip
    return random.choice(
        [
            f"UPDATE {_or(random)} {table} SET {column} = {value} WHERE {other} = {number}",
            f"UPDATE {_or(random)} {table} SET {column} = {value} WHERE {other} = {row}.{other}",
            f"UPDATE {_or(random)} {table} SET {column} = {value} WHERE k = {row}.k",
            f"DELETE FROM {table} WHERE {other} = {random.choice([str(number), f'{row}.{other}'])}",
            f"INSERT {_or(random)} INTO {table} (k, a, b, p) "
            f"VALUES ({row}.{other}, {number}, {row}.b, {row}.p)",
            f"INSERT {_or(random)} INTO {table} (k, {column}) VALUES ({number}, {value})"
            if column != "k"
            else f"INSERT {_or(random)} INTO {table} (k) VALUES ({number})",
        ]
    )


def _or(random: Random) -> str:
    return random.choice(["OR REPLACE", "OR REPLACE", "OR IGNORE", ""])


def statement(random: Random) -> str:
    """A statement of an application."""
    table = random.choice("ttu")
    column = random.choice("kabp")
    number, other = random.randint(1, 5), random.randint(1, 5)
    value = _value(random, column)
    clause = random.choice(["OR REPLACE", "OR REPLACE", "OR REPLACE", "OR IGNORE", "OR FAIL", ""])
    return random.choice(
        [
            f"INSERT {clause} INTO {table} (k, a, b, p) VALUES {_row(random)}",
            f"INSERT {clause} INTO {table} (k, a, b, p) VALUES {_row(random)}, {_row(random)}",
            f"INSERT {clause} INTO {table} (a, b) VALUES ({number}, {_value(random, 'b')})",
            f"INSERT {clause} INTO {table} (k, a, b, p) SELECT k + {number}, a, b, p FROM t",
            f"INSERT INTO {table} (k, a, b, p) VALUES {_row(random)} ON CONFLICT DO NOTHING",
            f"INSERT INTO {table} (k, a, b, p) VALUES {_row(random)} "
            f"ON CONFLICT (k) DO UPDATE SET a = excluded.a, {column} = {value}",
            f"INSERT INTO {table} (k, a, b, p) VALUES {_row(random)} "
            f"ON CONFLICT ({random.choice('abp')}) DO UPDATE SET k = excluded.k",
            f"UPDATE {clause} {table} SET {column} = {value} WHERE k = {other}",
            f"UPDATE {clause} {table} SET a = {number}, b = {_value(random, 'b')} "
            f"WHERE k = {other}",
            f"UPDATE {clause} {table} SET k = k + 1 WHERE k >= {other}",
            f"UPDATE {clause} {table} SET k = {number}, a = {other}",
            f"DELETE FROM {table} WHERE {column} = {value}",
        ]
    )


def _row(random: Random) -> str:
    return f"({', '.join(_value(random, column) for column in COLUMNS)})"


def _value(random: Random, column: str) -> str:
    if column == "b":
        return random.choice(["'a'", "'b'", "'A'", "'B'", "NULL"])
    if column == "a" and random.random() < 0.15:
        return "NULL"
    if column == "p" and random.random() < 0.4:
        return "NULL"
    return str(random.randint(1, 5))
