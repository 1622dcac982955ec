"""What administrators do to a database as a whole, and to what Headwater made there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random

from tests.faults.databases import Database
from tests.faults.mariadb_database import MariadbDatabase
from tests.faults.schemas import Table, create_table, quoted, random_column
from tests.faults.sqlite_database import SqliteDatabase
from tests.faults.statements import random_transaction
from tests.faults.steps.action import (
    action,
    any_database,
    any_postgres,
    any_sqlite,
    any_table,
    change,
)
from tests.faults.world import World


@action(2)
def disable_triggers_for_a_while(world: World, random: Random) -> bool | None:
    """A common way to load in bulk; what is loaded meanwhile is in no log."""
    database = any_postgres(world, random, by_triggers=True)
    if database is None:
        return False
    table = any_table(database, random)
    before = database.select(
        "SELECT tgname, tgenabled FROM pg_trigger WHERE NOT tgisinternal"
        f" AND tgrelid = '{quoted(table.name).replace(chr(39), 2 * chr(39))}'::regclass"
    )
    if not before:
        return False
    database.execute(f"ALTER TABLE {quoted(table.name)} DISABLE TRIGGER USER")
    change(database, random, 3)
    words = {"A": "ENABLE ALWAYS", "R": "ENABLE REPLICA", "D": "DISABLE", "O": "ENABLE"}
    for name, enabled in before:
        word = words[enabled if isinstance(enabled, str) else enabled.decode()]
        database.execute(f"ALTER TABLE {quoted(table.name)} {word} TRIGGER {quoted(name)}")
    world.may_stop("triggers were disabled for a while")
    return None


@action(2)
def drop_triggers(world: World, random: Random) -> bool | None:
    """In a SQLite file: all or some, rows are changed, and `setup` makes them again, or nobody."""
    database = any_sqlite(world, random)
    if database is None or not (before := _triggers(database)):
        return False
    chosen = before if random.random() < 0.5 else [random.choice(before)]
    database.execute(*(f"DROP TRIGGER {quoted(name)}" for name, _ in chosen))
    change(database, random, 3)
    world.may_stop("triggers were dropped")
    if random.random() < 0.5:
        world.command("setup", database.source)
    return None


@action(2)
def drop_triggers_for_a_while(world: World, random: Random) -> bool | None:
    """The same, and somebody makes them again by hand, exactly as they were."""
    database = any_sqlite(world, random)
    if database is None:
        return False
    with without_triggers(database):
        change(database, random, 3)
    world.may_stop("triggers were dropped for a while")
    return None


@contextmanager
def without_triggers(database: SqliteDatabase) -> Iterator[None]:
    """Headwater's triggers are gone meanwhile."""
    before = _triggers(database)
    database.execute(*(f"DROP TRIGGER {quoted(name)}" for name, _ in before))
    yield
    database.execute(*(text for _, text in before))


def _triggers(database: SqliteDatabase) -> list[tuple[str, str]]:
    """Headwater's, with the statements that make them."""
    return [
        (name, text)
        for name, text in database.select(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND name LIKE '%headwater%'"
        )
    ]


@action(1)
def load_as_a_replica(world: World, random: Random) -> bool | None:
    """Changes in a session in which ordinary triggers do not fire."""
    database = any_postgres(world, random, by_triggers=True)
    if database is None:
        return False
    with database.session() as session:
        session.select("SELECT set_config('session_replication_role', 'replica', false)")
        for _ in range(3):
            session.apply(random_transaction(random, database.schema, "postgres"))
    return None


@action(2)
def leave_the_publication_for_a_while(world: World, random: Random) -> bool | None:
    """A table is taken out, changed, and put back."""
    database = any_postgres(world, random, by_triggers=False)
    if database is None:
        return False
    listed = database.select("SELECT pubname, tablename FROM pg_publication_tables")
    if not listed:
        return False
    publication, table = random.choice(listed)
    if len([p for p, _ in listed if p == publication]) < 2 and random.random() < 0.5:
        return False
    alter = f"ALTER PUBLICATION {quoted(publication)}"
    database.execute(f"{alter} DROP TABLE ONLY {quoted(table)}")
    change(database, random, 3)
    database.execute(f"{alter} ADD TABLE ONLY {quoted(table)}")
    world.may_stop("a table was out of the publication for a while")
    return None


@action(1)
def change_the_identity_for_a_while(world: World, random: Random) -> bool | None:
    """Without the full replica identity, old rows are not in the log."""
    database = any_postgres(world, random, by_triggers=False)
    if database is None:
        return False
    table = any_table(database, random)
    if not table.key:
        return False
    database.execute(f"ALTER TABLE {quoted(table.name)} REPLICA IDENTITY DEFAULT")
    change(database, random, 3)
    database.execute(f"ALTER TABLE {quoted(table.name)} REPLICA IDENTITY FULL")
    world.may_stop("the replica identity was another for a while")
    return None


@action(1)
def drop_the_slot(world: World, random: Random) -> bool | None:
    database = any_postgres(world, random, by_triggers=False)
    if database is None:
        return False
    database.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
        f" WHERE database = '{database.name}' AND NOT active"
    )
    world.may_stop("the slot was dropped")
    return None


@action(1)
def tear_down(world: World, random: Random) -> None:
    source = random.choice(list(world.databases))
    if world.command("teardown", source):
        world.may_stop(f"{source} was torn down")
        if random.random() < 0.5:
            change(world.databases[source], random, 2)
            world.command("setup", source)


@action(2)
def maintain_the_database(world: World, random: Random) -> bool | None:
    """VACUUM and the like, which change no row."""
    database = any_database(world, random)
    if database is None:
        return False
    if isinstance(database, SqliteDatabase):
        database.execute(
            random.choice(["VACUUM", "REINDEX", "ANALYZE", "PRAGMA wal_checkpoint(TRUNCATE)"])
        )
        return None
    table = quoted(random.choice(database.schema.names()))
    if isinstance(database, MariadbDatabase):
        database.execute(
            random.choice([f"OPTIMIZE TABLE {table}", "FLUSH BINARY LOGS", "FLUSH TABLES"])
        )
        return None
    database.execute(random.choice(["VACUUM", f"VACUUM FULL {table}", "ANALYZE", "CHECKPOINT"]))
    return None


@action(2)
def back_up(world: World, random: Random) -> bool | None:
    database = any_database(world, random)
    if database is None:
        return False
    _back_up(database)
    return None


def _back_up(database: Database) -> None:
    database.remember()
    database.remembered = replace(database.schema, tables=dict(database.schema.tables))


@action(3)
def restore(world: World, random: Random) -> bool | None:
    """A copy takes the place of the database, and life goes on from there."""
    database = any_database(world, random)
    if database is None:
        return False
    if database.remembered is None:
        _back_up(database)
        change(database, random, random.randint(1, 6))
        if world.is_sound and random.random() < 0.7:
            world.run()
    assert database.remembered is not None
    database.restore()
    database.schema = replace(database.remembered, tables=dict(database.remembered.tables))
    change(database, random, random.randint(0, 6))
    world.may_stop(f"{database.source} was restored")
    world.undo.append(world.write_project)  # a table that the settings name may be gone
    return None


@action(1)
def move_the_database(world: World, random: Random) -> bool | None:
    """It has another name or place from now on, the settings say so, and it is the same."""
    database = any_database(world, random)
    if database is None:
        return False
    database.move()
    world.write_project()
    return None


@action(1)
def add_a_table(world: World, random: Random) -> bool | None:
    """The settings name one more table; its source asks to be set up for it."""
    database = any_database(world, random)
    if database is None or "later" in database.schema.tables:
        return False
    number, text = (random_column(random, n, (n,), database.dialect) for n in ("int", "text"))
    table = Table("later", (number, text), (), ())
    database.execute(create_table(table))
    database.schema.tables["later"] = table
    world.write_project()
    world.may_stop(f"table later is new at {database.source}")
    return None


@action(2)
def source_goes_away(world: World, random: Random) -> bool | None:
    database = any_database(world, random)
    if database is None:
        return False
    database.down()
    database.is_down = True
    world.may_stop(f"{database.source} is away")
    world.undo.append(lambda: _come_back(database))
    return None


def _come_back(database: Database) -> None:
    if database.is_down:
        database.up()
        database.is_down = False


@action(3)
def sources_come_back(world: World, random: Random) -> None:
    for database in world.databases.values():
        _come_back(database)
