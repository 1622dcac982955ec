"""What administrators do to columns and tables."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.faults.commands import FaultError
from tests.faults.databases import Database
from tests.faults.schemas import KINDS, Column, Table, create_table, quoted, random_column
from tests.faults.steps.action import action, any_database, any_table
from tests.faults.world import World


def _column(world: World, random: Random, used: bool) -> tuple[Database, Table, Column] | None:
    """A column that some view uses, or that none ever did; not one of a key or the like.

    A source that no view is over is set up for all its columns, so none of them counts as unused.
    """
    now = {place for view in world.views.values() for place in view.columns()}
    busy = {source for source, _, _ in world.ever_used}
    found = [
        (database, table, column)
        for source, database in world.databases.items()
        if not database.is_down and source in busy
        for table in database.schema.tables.values()
        for column in table.columns[1:]
        if not table.is_bound(column.name)
        and ((source, table.name, column.name) in (now if used else world.ever_used)) == used
    ]
    return random.choice(found) if found else None


def _alter(database: Database, table: Table, *statements: str) -> bool:
    """Whether the database took it; the table is then as told."""
    if database.schema.triggers or not database.attempt(*statements):
        return False
    database.schema.tables[table.name] = table
    return True


def _alter_used(
    world: World, reason: str, database: Database, table: Table, *statements: str
) -> bool:
    """The same for a column that views use: a trigger that names it may be in the way."""
    try:
        done = _alter(database, table, *statements)
    except FaultError:
        return False
    if done:
        world.may_stop(reason)
    return done


@action(3)
def add_a_column(world: World, random: Random) -> bool | None:
    database = any_database(world, random)
    if database is None:
        return False
    table = any_table(database, random)
    column = random_column(random, f"new {random.randint(0, 9)}", tuple(KINDS), database.dialect)
    if any(c.name == column.name for c in table.columns):
        return False
    text = f"ALTER TABLE {quoted(table.name)} ADD COLUMN {quoted(column.name)} {column.declared}"
    return _alter(database, table.with_column(column), text)


@action(3)
def drop_an_unused_column(world: World, random: Random) -> bool | None:
    found = _column(world, random, used=False)
    if found is None:
        return False
    database, table, column = found
    text = f"ALTER TABLE {quoted(table.name)} DROP COLUMN {quoted(column.name)}"
    return _alter(database, table.without(column.name), text)


@action(2)
def rename_an_unused_column(world: World, random: Random) -> bool | None:
    found = _column(world, random, used=False)
    if found is None:
        return False
    database, table, column = found
    name = f"renamed {random.randint(0, 99)}"
    text = f"ALTER TABLE {quoted(table.name)} RENAME COLUMN {quoted(column.name)} TO {quoted(name)}"
    return _alter(database, table.renamed(column.name, name), text)


@action(1)
def retype_an_unused_column(world: World, random: Random) -> bool | None:
    found = _column(world, random, used=False)
    if found is None or found[0].dialect != "postgres":
        return False
    database, table, column = found
    text = f"ALTER TABLE {quoted(table.name)} ALTER COLUMN {quoted(column.name)} TYPE text"
    changed = replace(column, kind="text", declared="text")
    columns = tuple(changed if c.name == column.name else c for c in table.columns)
    if column.kind in ("bytes", "float", "decimal"):
        return False
    return _alter(database, replace(table, columns=columns), text)


@action(2)
def drop_a_used_column(world: World, random: Random) -> bool | None:
    """Its views cannot go on; the others can."""
    found = _column(world, random, used=True)
    if found is None:
        return False
    database, table, column = found
    text = f"ALTER TABLE {quoted(table.name)} DROP COLUMN {quoted(column.name)}"
    reason = f"column {column.name} was dropped"
    return _alter_used(world, reason, database, table.without(column.name), text)


@action(2)
def rename_a_used_column(world: World, random: Random) -> bool | None:
    found = _column(world, random, used=True)
    if found is None:
        return False
    database, table, column = found
    name = f"renamed {random.randint(0, 99)}"
    text = f"ALTER TABLE {quoted(table.name)} RENAME COLUMN {quoted(column.name)} TO {quoted(name)}"
    reason = f"column {column.name} was renamed"
    done = _alter_used(world, reason, database, table.renamed(column.name, name), text)
    if done:  # triggers name it until the next setup
        world.ever_used.add((database.source, table.name, name))
    return done


@action(2)
def drop_and_add_a_used_column(world: World, random: Random) -> bool | None:
    """The same name and type, with nothing in it."""
    found = _column(world, random, used=True)
    if found is None:
        return False
    database, table, column = found
    name = quoted(table.name)
    return _alter_used(
        world,
        f"column {column.name} was dropped and added",
        database,
        table.without(column.name).with_column(column),
        f"ALTER TABLE {name} DROP COLUMN {quoted(column.name)}",
        f"ALTER TABLE {name} ADD COLUMN {quoted(column.name)} {column.declared}",
    )


@action(2)
def recompute_a_used_column(world: World, random: Random) -> bool | None:
    """ALTER TYPE with USING, which keeps the type and changes the values."""
    found = _column(world, random, used=True)
    if found is None or found[0].dialect != "postgres" or found[2].kind not in ("int", "text"):
        return False
    database, table, column = found
    name = quoted(column.name)
    using = f"{name} + 1" if column.kind == "int" else "'b'"
    text = (
        f"ALTER TABLE {quoted(table.name)} ALTER COLUMN {name} TYPE {column.declared} USING {using}"
    )
    reason = f"column {column.name} was recomputed"
    return _alter_used(world, reason, database, table, text)


@action(2)
def rebuild_a_table(world: World, random: Random) -> bool | None:
    """A new table with the same rows takes its place, as tools do that alter tables."""
    database = any_database(world, random)
    if database is None or database.schema.triggers:
        return False
    table = any_table(database, random)
    if any(r.table == table.name for t in database.schema.tables.values() for r in t.references):
        return False
    names = ", ".join(quoted(c.name) for c in table.columns)
    old, new = quoted(table.name), quoted("rebuilt")
    done = database.attempt(
        create_table(table, "rebuilt"),
        f"INSERT INTO {new} ({names}) SELECT {names} FROM {old}",
        f"DROP TABLE {old}",
        f"ALTER TABLE {new} RENAME TO {old}",
    )
    if not done:
        return False
    world.may_stop(f"table {table.name} was rebuilt")
    return None


@action(2)
def truncate(world: World, random: Random) -> bool | None:
    database = any_database(world, random)
    if database is None:
        return False
    names = random.sample(database.schema.names(), 1)
    listed = ", ".join(map(quoted, names))
    if database.dialect == "sqlite":
        return database.attempt(f"DELETE FROM {listed}")
    cascade = " CASCADE" if database.dialect == "postgres" else ""
    if database.attempt(f"TRUNCATE {listed}{cascade}"):
        world.may_stop("a table was truncated")
    return None


@action(2)
def add_an_index(world: World, random: Random) -> bool | None:
    """Also a unique one, of a part of the rows, or of an expression: it decides what replaces."""
    database = any_database(world, random)
    if database is None:
        return False
    table = any_table(database, random)
    column = quoted(random.choice(table.columns).name)
    unique = random.choice(["", "UNIQUE "])
    of = random.choice([column, column, f"coalesce({column}, {column})"])
    where = random.choice(["", f" WHERE {column} IS NOT NULL"])
    name = quoted(f"own index {random.randint(0, 999)}")
    text = f"CREATE {unique}INDEX {name} ON {quoted(table.name)} ({of}){where}"
    if not database.attempt(text):
        return False
    if unique:
        world.may_stop(f"table {table.name} has another unique index")
    return None
