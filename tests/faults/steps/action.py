"""The table of actions, and how an action finds what it is done to.

Each is drawn with its weight. One that may make Headwater stop says why, by `world.may_stop`;
after everything else Headwater has to go on as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from tests.faults.databases import Database
from tests.faults.postgres_database import PostgresDatabase
from tests.faults.schemas import Table
from tests.faults.sqlite_database import SqliteDatabase
from tests.faults.statements import random_transaction
from tests.faults.world import World

D = TypeVar("D", bound=Database)
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


def any_database(world: World, random: Random) -> Database | None:
    return _one(random, [d for d in world.databases.values() if not d.is_down])


def any_sqlite(world: World, random: Random) -> SqliteDatabase | None:
    found = [d for d in world.databases.values() if isinstance(d, SqliteDatabase)]
    return _one(random, [d for d in found if not d.is_down])


def any_postgres(world: World, random: Random, by_triggers: bool) -> PostgresDatabase | None:
    found = [d for d in world.databases.values() if isinstance(d, PostgresDatabase)]
    return _one(random, [d for d in found if not d.is_down and d.by_triggers == by_triggers])


def any_table(database: Database, random: Random) -> Table:
    return random.choice(list(database.schema.tables.values()))


def _one(random: Random, found: list[D]) -> D | None:
    return random.choice(found) if found else None


def change(database: Database, random: Random, times: int) -> None:
    """Transactions of an application."""
    for _ in range(times):
        database.apply(random_transaction(random, database.schema, database.dialect))


def change_something(world: World, random: Random, times: int) -> None:
    for _ in range(times):
        database = any_database(world, random)
        if database is not None:
            change(database, random, 1)
