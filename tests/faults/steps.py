"""What applications, administrators, disks and other people do to Headwater, one function each.

Each is drawn with its weight. One that may make Headwater stop says why, by `world.reasons`;
after everything else Headwater has to go on as if nothing had happened.
"""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random

from tests.faults.commands import Child, Fault
from tests.faults.databases import Database, PostgresDatabase, SqliteDatabase
from tests.faults.oracle import difference
from tests.faults.schemas import KINDS, Column, Table, create_table, quoted, random_column
from tests.faults.statements import Transaction, fewer_rows, many_rows, random_transaction
from tests.faults.views import LEVELS
from tests.faults.world import World

Do = Callable[[World, Random], bool | None]
"""False where there was nothing to do it to."""


@dataclass(frozen=True)
class Action:
    name: str
    weight: int
    do: Do


ACTIONS: dict[str, Action] = {}


def action(weight: int) -> Callable[[Do], Do]:
    def register(do: Do) -> Do:
        ACTIONS[do.__name__] = Action(do.__name__, weight, do)
        return do

    return register


def _any(world: World, random: Random) -> Database:
    return random.choice(list(world.databases.values()))


def _postgres(world: World, random: Random, by_triggers: bool) -> PostgresDatabase | None:
    found = [
        d
        for d in world.databases.values()
        if isinstance(d, PostgresDatabase) and d.by_triggers == by_triggers
    ]
    return random.choice(found) if found else None


def _sqlite(world: World, random: Random) -> SqliteDatabase | None:
    found = [d for d in world.databases.values() if isinstance(d, SqliteDatabase)]
    return random.choice(found) if found else None


def _write(database: Database, random: Random, times: int) -> None:
    for _ in range(times):
        if not database.is_down:
            database.apply(random_transaction(random, database.schema, database.dialect))


# Applications


@action(30)
def write(world: World, random: Random) -> None:
    """Transactions of every kind, some rolled back, some in part."""
    _write(_any(world, random), random, random.randint(1, 5))


@action(3)
def write_much(world: World, random: Random) -> bool | None:
    """Thousands of rows in one transaction, and away with them again."""
    database = _any(world, random)
    if database.is_down:
        return False
    table = random.choice(list(database.schema.tables.values()))
    statements = [many_rows(random, table, database.dialect)]
    if random.random() < 0.3:
        statements.append(fewer_rows(table))
    database.apply(Transaction(tuple(statements)))
    if random.random() < 0.5:
        database.apply(Transaction((fewer_rows(table),)))
    return None


# Running


@action(14)
def run(world: World, random: Random) -> None:
    """`run --once`, and what it says is done, or left for later."""
    if not world.run() and random.random() < 0.5:
        world.settle(random)


@contextmanager
def _runner(world: World) -> Iterator[Child]:
    child = Child(world.folder, "run", "--json")
    try:
        yield child
    finally:
        child.kill()


def _work_beside(world: World, random: Random, child: Child, most: int) -> None:
    """Changes while a runner is at work, after it has begun."""
    child.wait_until(lambda: '"state"' in child.said, 20)
    for _ in range(random.randint(0, most)):
        _write(_any(world, random), random, 1)
        time.sleep(random.choice([0, 0, 0.01, 0.05]))


def _all_loaded(world: World) -> bool:
    return set(world.views) <= set(world.warehouse.view_names())


@action(4)
def run_for_a_while(world: World, random: Random) -> bool | None:
    """A runner at work under changes, told to stop."""
    if not _all_loaded(world):
        return False
    with _runner(world) as child:
        _work_beside(world, random, child, 20)
        child.send(signal.SIGTERM)
        outcome = child.wait()
    world.note(f"{outcome.command} -> {outcome.code}: {outcome.said[-600:]}")
    if outcome.code and not world.reasons:
        raise Fault(f"the runner failed, and nothing was wrong: {outcome.said}")
    return None


@action(4)
def kill_the_runner(world: World, random: Random) -> bool | None:
    """A runner killed at any moment, also while it starts."""
    if not _all_loaded(world):
        return False
    with _runner(world) as child:
        if random.random() < 0.3:
            time.sleep(random.uniform(0, 0.3))
        else:
            _work_beside(world, random, child, 12)
        child.kill()
        child_said = child.said
    if "Traceback" in child_said:
        raise Fault(f"the runner showed a traceback:\n{child_said}")
    return None


@action(2)
def replace_the_runner(world: World, random: Random) -> bool | None:
    """A runner stands still until another takes its place, and then wakes up."""
    if not _all_loaded(world) or world.reasons:
        return False
    with _runner(world) as child:
        _work_beside(world, random, child, 6)
        if not child.wait_until(lambda: (world.warehouse.internal / "status.json").exists(), 20):
            return False
        child.send(signal.SIGSTOP)
        _age_the_lease(world)
        _write(_any(world, random), random, 3)
        world.run()
        child.send(signal.SIGCONT)
        _write(_any(world, random), random, 2)
        outcome = child.wait()
    if outcome.code == 0:
        raise Fault(f"a runner that was replaced says that all is well: {outcome.said}")
    return None


def _age_the_lease(world: World) -> None:
    """As if the runner had been silent for long."""
    path = world.warehouse.internal / "lease.json"
    lease = json.loads(path.read_text())
    path.write_text(json.dumps({**lease, "renewed": 0.0}))


@action(3)
def reload_a_view(world: World, random: Random) -> None:
    world.command("reload", random.choice(list(world.views)))


@action(2)
def drop_a_view(world: World, random: Random) -> bool | None:
    name = random.choice(list(world.views))
    if name not in world.warehouse.view_names():
        return False
    world.command("drop", name)
    return None


@action(2)
def fold_a_view(world: World, random: Random) -> bool | None:
    """The plain table then has what the view has."""
    name = random.choice(list(world.views))
    if name not in world.warehouse.view_names():
        return False
    if world.command("fold", name):
        wrong = difference(world.published(name), world.shown(name))
        if wrong:
            raise Fault(f"the plain table of {name} is not the view: {wrong}")
    return None


@action(1)
def check_the_project(world: World, random: Random) -> None:
    world.command("check")


@action(1)
def set_up_again(world: World, random: Random) -> None:
    world.command("setup", random.choice(list(world.databases)))


# View files


@action(2)
def change_a_view(world: World, random: Random) -> None:
    """Another SELECT under the same name: it asks for a reload."""
    name = random.choice(list(world.views))
    world.write_view(world.new_view(random, name))
    world.reasons.append(f"view {name} was changed")


@action(1)
def change_a_level(world: World, random: Random) -> None:
    view = random.choice(list(world.views.values()))
    world.write_view(replace(view, level=random.choice(LEVELS)))


@action(2)
def add_a_view(world: World, random: Random) -> bool | None:
    name = f"v{random.randint(4, 9)}"
    if name in world.views or name in world.warehouse.view_names() or len(world.views) > 3:
        return False
    world.write_view(world.new_view(random, name))
    return None


@action(2)
def remove_a_view(world: World, random: Random) -> bool | None:
    """Its file goes, its tables stay, and other views go on."""
    if len(world.views) < 2:
        return False
    world.remove_view(random.choice(list(world.views)))
    return None


# Administrators: columns and tables


def _column(
    world: World, random: Random, used: bool
) -> tuple[Database, Table, Column] | None:
    """A column that some view uses, or that none does; not one of a key or the like."""
    wanted = {
        (source, table, column.name)
        for view in world.views.values()
        for (source, table), columns in view.used().items()
        for column in columns
    }
    found = [
        (database, table, column)
        for source, database in world.databases.items()
        if not database.is_down
        for table in database.schema.tables.values()
        for column in table.columns[1:]
        if ((source, table.name, column.name) in wanted) == used
        and not table.is_bound(column.name)
    ]
    return random.choice(found) if found else None


def _altered(database: Database, table: Table, *statements: str) -> bool:
    """Whether the database took it; the table is then as told."""
    if database.schema.triggers or not database.attempt(*statements):
        return False
    database.schema.tables[table.name] = table
    return True


@action(3)
def add_a_column(world: World, random: Random) -> bool | None:
    database = _any(world, random)
    if database.is_down:
        return False
    table = random.choice(list(database.schema.tables.values()))
    column = random_column(random, f"new {random.randint(0, 9)}", tuple(KINDS), database.dialect)
    if any(c.name == column.name for c in table.columns):
        return False
    text = f"ALTER TABLE {quoted(table.name)} ADD COLUMN {quoted(column.name)} {column.declared}"
    return _altered(database, table.with_column(column), text)


@action(3)
def drop_an_unused_column(world: World, random: Random) -> bool | None:
    found = _column(world, random, used=False)
    if found is None:
        return False
    database, table, column = found
    text = f"ALTER TABLE {quoted(table.name)} DROP COLUMN {quoted(column.name)}"
    return _altered(database, table.without(column.name), text)


@action(2)
def rename_an_unused_column(world: World, random: Random) -> bool | None:
    found = _column(world, random, used=False)
    if found is None:
        return False
    database, table, column = found
    name = f"renamed {random.randint(0, 99)}"
    text = f"ALTER TABLE {quoted(table.name)} RENAME COLUMN {quoted(column.name)} TO {quoted(name)}"
    return _altered(database, table.renamed(column.name, name), text)


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
    return _altered(database, replace(table, columns=columns), text)


@action(2)
def drop_a_used_column(world: World, random: Random) -> bool | None:
    """Its views cannot go on; the others can."""
    found = _column(world, random, used=True)
    if found is None:
        return False
    database, table, column = found
    text = f"ALTER TABLE {quoted(table.name)} DROP COLUMN {quoted(column.name)}"
    if not _altered(database, table.without(column.name), text):
        return False
    world.reasons.append(f"column {column.name} was dropped")
    return None


@action(2)
def rename_a_used_column(world: World, random: Random) -> bool | None:
    found = _column(world, random, used=True)
    if found is None:
        return False
    database, table, column = found
    name = f"renamed {random.randint(0, 99)}"
    text = f"ALTER TABLE {quoted(table.name)} RENAME COLUMN {quoted(column.name)} TO {quoted(name)}"
    if not _altered(database, table.renamed(column.name, name), text):
        return False
    world.reasons.append(f"column {column.name} was renamed")
    return None


@action(2)
def drop_and_add_a_used_column(world: World, random: Random) -> bool | None:
    """The same name and type, with nothing in it."""
    found = _column(world, random, used=True)
    if found is None:
        return False
    database, table, column = found
    name = quoted(table.name)
    done = _altered(
        database,
        table.without(column.name).with_column(column),
        f"ALTER TABLE {name} DROP COLUMN {quoted(column.name)}",
        f"ALTER TABLE {name} ADD COLUMN {quoted(column.name)} {column.declared}",
    )
    if not done:
        return False
    world.reasons.append(f"column {column.name} was dropped and added")
    return None


@action(2)
def recompute_a_used_column(world: World, random: Random) -> bool | None:
    """ALTER TYPE with USING, which keeps the type and changes the values."""
    found = _column(world, random, used=True)
    if found is None or found[0].dialect != "postgres" or found[2].kind not in ("int", "text"):
        return False
    database, table, column = found
    name = quoted(column.name)
    using = f"{name} + 1" if column.kind == "int" else "'b'"
    text = f"ALTER TABLE {quoted(table.name)} ALTER COLUMN {name} TYPE {column.declared} USING {using}"
    if not _altered(database, table, text):
        return False
    world.reasons.append(f"column {column.name} was recomputed")
    return None


@action(2)
def rebuild_a_table(world: World, random: Random) -> bool | None:
    """A new table with the same rows takes its place, as tools do that alter tables."""
    database = _any(world, random)
    if database.is_down or database.schema.triggers:
        return False
    table = random.choice(list(database.schema.tables.values()))
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
    world.reasons.append(f"table {table.name} was rebuilt")
    return None


@action(2)
def truncate(world: World, random: Random) -> bool | None:
    database = _any(world, random)
    if database.is_down:
        return False
    names = random.sample(database.schema.names(), 1)
    listed = ", ".join(map(quoted, names))
    if database.dialect == "sqlite":
        return database.attempt(f"DELETE FROM {listed}")
    if database.attempt(f"TRUNCATE {listed} CASCADE"):
        world.reasons.append("a table was truncated")
    return None


# Administrators: what Headwater made at a source


@action(2)
def disable_triggers_for_a_while(world: World, random: Random) -> bool | None:
    """A common way to load in bulk; what is loaded meanwhile is in no log."""
    database = _postgres(world, random, by_triggers=True)
    if database is None or database.is_down:
        return False
    table = random.choice(list(database.schema.tables.values()))
    before = database.select(
        "SELECT tgname, tgenabled FROM pg_trigger WHERE NOT tgisinternal"
        f" AND tgrelid = '{quoted(table.name).replace(chr(39), 2 * chr(39))}'::regclass"
    )
    if not before:
        return False
    database.execute(f"ALTER TABLE {quoted(table.name)} DISABLE TRIGGER USER")
    _write(database, random, 3)
    words = {"A": "ENABLE ALWAYS", "R": "ENABLE REPLICA", "D": "DISABLE", "O": "ENABLE"}
    for name, enabled in before:
        word = words[enabled if isinstance(enabled, str) else enabled.decode()]
        database.execute(f"ALTER TABLE {quoted(table.name)} {word} TRIGGER {quoted(name)}")
    world.reasons.append("triggers were disabled for a while")
    return None


@action(2)
def drop_triggers_for_a_while(world: World, random: Random) -> bool | None:
    """In a SQLite file: dropped, rows changed, and made again as they were."""
    database = _sqlite(world, random)
    if database is None or database.is_down:
        return False
    before = database.select(
        "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND name LIKE '%headwater%'"
    )
    if not before:
        return False
    database.execute(*(f"DROP TRIGGER {quoted(name)}" for name, _ in before))
    _write(database, random, 3)
    database.execute(*(text for _, text in before))
    world.reasons.append("triggers were dropped for a while")
    return None


@action(1)
def load_as_a_replica(world: World, random: Random) -> bool | None:
    """Changes in a session in which ordinary triggers do not fire."""
    database = _postgres(world, random, by_triggers=True)
    if database is None or database.is_down:
        return False
    with database.session() as session:
        session.select("SELECT set_config('session_replication_role', 'replica', false)")
        for _ in range(3):
            session.apply(random_transaction(random, database.schema, "postgres"))
    return None


@action(2)
def leave_the_publication_for_a_while(world: World, random: Random) -> bool | None:
    """A table is taken out, changed, and put back."""
    database = _postgres(world, random, by_triggers=False)
    if database is None or database.is_down:
        return False
    listed = database.select("SELECT pubname, tablename FROM pg_publication_tables")
    if not listed:
        return False
    publication, table = random.choice(listed)
    if len([p for p, _ in listed if p == publication]) < 2 and random.random() < 0.5:
        return False
    change = f"ALTER PUBLICATION {quoted(publication)}"
    database.execute(f"{change} DROP TABLE ONLY {quoted(table)}")
    _write(database, random, 3)
    database.execute(f"{change} ADD TABLE ONLY {quoted(table)}")
    world.reasons.append("a table was out of the publication for a while")
    return None


@action(1)
def change_the_identity_for_a_while(world: World, random: Random) -> bool | None:
    """Without the full replica identity, old rows are not in the log."""
    database = _postgres(world, random, by_triggers=False)
    if database is None or database.is_down:
        return False
    table = random.choice([t for t in database.schema.tables.values()])
    if not table.key:
        return False
    database.execute(f"ALTER TABLE {quoted(table.name)} REPLICA IDENTITY DEFAULT")
    _write(database, random, 3)
    database.execute(f"ALTER TABLE {quoted(table.name)} REPLICA IDENTITY FULL")
    world.reasons.append("the replica identity was another for a while")
    return None


@action(1)
def drop_the_slot(world: World, random: Random) -> bool | None:
    database = _postgres(world, random, by_triggers=False)
    if database is None or database.is_down:
        return False
    database.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
        f" WHERE database = '{database.name}' AND NOT active"
    )
    world.reasons.append("the slot was dropped")
    return None


@action(1)
def tear_down(world: World, random: Random) -> None:
    source = random.choice(list(world.databases))
    if world.command("teardown", source):
        world.reasons.append(f"{source} was torn down")
        if random.random() < 0.5:
            _write(world.databases[source], random, 2)
            world.command("setup", source)


@action(2)
def maintain_the_database(world: World, random: Random) -> bool | None:
    """VACUUM and the like, which change no row."""
    database = _any(world, random)
    if database.is_down:
        return False
    if isinstance(database, SqliteDatabase):
        database.execute(
            random.choice(["VACUUM", "REINDEX", "ANALYZE", "PRAGMA wal_checkpoint(TRUNCATE)"])
        )
        return None
    table = quoted(random.choice(database.schema.names()))
    database.execute(random.choice(["VACUUM", f"VACUUM FULL {table}", "ANALYZE", "CHECKPOINT"]))
    return None


@action(2)
def back_up(world: World, random: Random) -> bool | None:
    database = _any(world, random)
    if database.is_down:
        return False
    database.remember()
    database.remembered = replace(database.schema, tables=dict(database.schema.tables))
    return None


@action(2)
def restore(world: World, random: Random) -> bool | None:
    """A copy takes the place of the database, and life goes on from there."""
    database = _any(world, random)
    if database.is_down or database.remembered is None:
        return False
    database.restore()
    database.schema = replace(database.remembered, tables=dict(database.remembered.tables))
    _write(database, random, random.randint(0, 6))
    world.reasons.append(f"{database.source} was restored")
    return None


@action(2)
def source_goes_away(world: World, random: Random) -> bool | None:
    database = _any(world, random)
    if database.is_down:
        return False
    database.down()
    database.is_down = True
    world.reasons.append(f"{database.source} is away")
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


# The warehouse, and other people


@action(2)
def lose_the_lease(world: World, random: Random) -> bool | None:
    """Somebody cleans up the warehouse's folder."""
    path = world.warehouse.internal / "lease.json"
    if not path.exists():
        return False
    if random.random() < 0.5:
        path.unlink()
    else:
        path.write_bytes(b"")
    return None


@action(1)
def tear_the_checkpoints(world: World, random: Random) -> bool | None:
    """What a power loss leaves of files that were not flushed."""
    found = False
    for path in world.warehouse.path.rglob("_delta_log/*"):
        if path.name == "_last_checkpoint" or path.name.endswith(".checkpoint.parquet"):
            path.write_bytes(b"")
            found = True
    return None if found else False


@action(1)
def lose_the_warehouse(world: World, random: Random) -> bool | None:
    if not world.warehouse.path.exists():
        return False
    shutil.rmtree(world.warehouse.path)
    world.reasons.append("the warehouse was deleted")
    return None


@action(1)
def damage_the_change_log(world: World, random: Random) -> bool | None:
    """A byte of a record that is on disk is another."""
    files = [p for p in world.warehouse.changes.rglob("*") if p.is_file() and p.stat().st_size > 40]
    if not files:
        return False
    path = random.choice(files)
    data = bytearray(path.read_bytes())
    at = random.randrange(len(data))
    data[at] ^= 1 << random.randrange(8)
    path.write_bytes(data)
    world.reasons.append("the change log was damaged")
    return None


@action(2)
def somebody_else(world: World, random: Random) -> None:
    """A colleague's clone of the project, with a warehouse of its own, over the same databases."""
    folder = world.folder / "clone"
    if not folder.exists():
        shutil.copytree(world.folder / "views", folder / "views")
        shutil.copy(world.folder / "headwater.toml", folder)
    clone = World(folder, world.databases, world.views, world.settings, ["it is a clone"])
    for source in world.databases:
        clone.headwater("setup", source)
    clone.headwater("run", "--once")
    world.history += [f"clone: {line}" for line in clone.history]
