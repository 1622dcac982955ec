"""What applications do: they write."""

from __future__ import annotations

from random import Random

from tests.faults.statements import Transaction, fewer_rows, many_rows, random_statement
from tests.faults.steps.action import action, any_database, any_table, change_something
from tests.faults.world import World


@action(30)
def write(world: World, random: Random) -> None:
    """Transactions of every kind, some rolled back, some in part."""
    change_something(world, random, random.randint(2, 8))


@action(3)
def write_much(world: World, random: Random) -> bool | None:
    """Thousands of rows in one transaction, and away with them again."""
    database = any_database(world, random)
    if database is None:
        return False
    table = any_table(database, random)
    statements = [many_rows(random, table, database.dialect)]
    if random.random() < 0.3:
        statements.append(fewer_rows(table))
    database.apply(Transaction(tuple(statements)))
    if random.random() < 0.5:
        database.apply(Transaction((fewer_rows(table),)))
    return None


@action(2)
def write_often(world: World, random: Random) -> bool | None:
    """A hundred small transactions, of which each is a step of a complete view."""
    database = any_database(world, random)
    if database is None:
        return False
    with database.session() as session:
        for _ in range(100):
            statement = random_statement(random, database.schema, database.dialect)
            session.apply(Transaction((statement,)))
    return None
