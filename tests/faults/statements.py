"""Random statements of applications, as text with parameters, for either database."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.faults.schemas import Column, Schema, Table, Value, quoted, random_value

MANY = 2500


@dataclass(frozen=True)
class Statement:
    """A statement with `?` for each value."""

    text: str
    values: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Transaction:
    """Statements that are committed, or rolled back, together.

    A failing one is undone by itself, as behind a savepoint, or undoes all of them.
    """

    statements: tuple[Statement, ...]
    commits: bool = True
    savepoints: bool = False


def random_transaction(random: Random, schema: Schema, dialect: str) -> Transaction:
    count = random.choice([1, 1, 1, 2, 3, 5])
    return Transaction(
        tuple(random_statement(random, schema, dialect) for _ in range(count)),
        commits=random.random() < 0.85,
        savepoints=random.random() < 0.5,
    )


def first_rows(random: Random, schema: Schema, dialect: str) -> Transaction:
    """Some rows in every table; those that clash are left out."""
    tables = list(schema.tables.values()) * 12
    inserts = tuple(_insert(random, table, dialect) for table in tables)
    return Transaction(inserts, savepoints=True)


def random_statement(random: Random, schema: Schema, dialect: str) -> Statement:
    table = random.choice(list(schema.tables.values()))
    make = random.choice(
        [_insert, _insert, _insert, _replace, _update, _update, _change_key, _delete]
    )
    return make(random, table, dialect)


def _insert(random: Random, table: Table, dialect: str) -> Statement:
    rows = random.choice([1, 1, 3])
    values = [random_value(random, c) for _ in range(rows) for c in table.columns]
    places = ", ".join(["(" + ", ".join("?" for _ in table.columns) + ")"] * rows)
    return Statement(
        f"INSERT INTO {quoted(table.name)} ({_names(table)}) VALUES {places}", (*values,)
    )


def _replace(random: Random, table: Table, dialect: str) -> Statement:
    """What takes the place of a row that is in the way."""
    plain = _insert(random, table, dialect)
    if dialect == "sqlite":
        if random.random() < 0.3:
            column = random.choice(table.columns)
            value = random_value(random, column)
            text = f"UPDATE OR REPLACE {quoted(table.name)} SET {quoted(column.name)} = ?"
            where, found = _condition(random, table)
            return Statement(f"{text} WHERE {where}", (value, *found))
        return Statement("INSERT OR REPLACE" + plain.text.removeprefix("INSERT"), plain.values)
    if dialect == "mariadb":
        return Statement("REPLACE" + plain.text.removeprefix("INSERT"), plain.values)
    if not table.key:
        return Statement(plain.text + " ON CONFLICT DO NOTHING", plain.values)
    row = plain.values[: len(table.columns)]
    text = plain.text.partition(" VALUES ")[0] + f" VALUES ({', '.join('?' for _ in row)})"
    sets = ", ".join(f"{quoted(c.name)} = excluded.{quoted(c.name)}" for c in table.columns)
    keys = ", ".join(map(quoted, table.key))
    return Statement(f"{text} ON CONFLICT ({keys}) DO UPDATE SET {sets}", row)


def _update(random: Random, table: Table, dialect: str) -> Statement:
    column = random.choice(table.columns)
    where, values = _condition(random, table)
    text = f"UPDATE {quoted(table.name)} SET {quoted(column.name)} = ? WHERE {where}"
    return Statement(text, (random_value(random, column), *values))


def _change_key(random: Random, table: Table, dialect: str) -> Statement:
    """Moves rows along the first column, which is an int; whole ranges at times."""
    first = quoted(table.columns[0].name)
    step = random.choice(["+ 1", "- 1", "+ 6", "* -1"])
    limit = random.randint(0, 6)
    return Statement(
        f"UPDATE {quoted(table.name)} SET {first} = {first} {step} WHERE {first} >= {limit}"
    )


def _delete(random: Random, table: Table, dialect: str) -> Statement:
    if random.random() < 0.05:
        return Statement(f"DELETE FROM {quoted(table.name)}")
    where, values = _condition(random, table)
    return Statement(f"DELETE FROM {quoted(table.name)} WHERE {where}", values)


def many_rows(random: Random, table: Table, dialect: str) -> Statement:
    """Some thousand rows at once, whose numbers and texts differ, so that joins stay small."""
    first = random.randrange(100, 10_000_000, MANY)
    referring = {reference.column for reference in table.references}
    chosen = []
    values: list[Value] = []
    for column in table.columns:
        if column.name in referring:
            chosen.append("NULL")
        elif column.kind == "int":
            chosen.append("n")
        elif column.kind == "text":
            chosen.append("'m' || (n % 100000)")
        elif column.name in table.unique:
            chosen.append("NULL")
        else:
            chosen.append(f"CAST(? AS {column.declared})" if dialect == "postgres" else "?")
            values.append(random_value(random, column))
    columns = ", ".join(chosen)
    last = first + MANY - 1
    lead, series = "", f"generate_series({first}, {last}) AS s(n)"
    if dialect == "sqlite":
        numbers = f"SELECT {first} UNION ALL SELECT n + 1 FROM s WHERE n < {last}"
        lead, series = f"WITH RECURSIVE s(n) AS ({numbers}) ", "s"
    elif dialect == "mariadb":
        series = f"(SELECT seq AS n FROM seq_{first}_to_{last}) AS s"
    text = (
        f"{lead}INSERT INTO {quoted(table.name)} ({_names(table)}) SELECT {columns} FROM {series}"
    )
    return Statement(text, tuple(values))


def fewer_rows(table: Table) -> Statement:
    """Takes away what `many_rows` brought."""
    return Statement(
        f"DELETE FROM {quoted(table.name)} WHERE {quoted(table.columns[0].name)} >= 100"
    )


def _condition(random: Random, table: Table) -> tuple[str, tuple[Value, ...]]:
    column: Column = random.choice(table.columns)
    value = random_value(random, column)
    if value is None:
        return f"{quoted(column.name)} IS NULL", ()
    return f"{quoted(column.name)} = ?", (value,)


def _names(table: Table) -> str:
    return ", ".join(quoted(column.name) for column in table.columns)
