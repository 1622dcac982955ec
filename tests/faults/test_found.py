"""What the fault test has found, each as small as it gets."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.faults.schemas import Column, Schema, Table
from tests.faults.sqlite_database import SqliteDatabase
from tests.faults.steps.sources import without_triggers
from tests.faults.tally import Tally
from tests.faults.views import Occurrence, Part, Place, View
from tests.faults.world import World

NUMBER, NAME = Column("id", "int", "INTEGER", nullable=False), Column("name", "text", "TEXT")


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two tables in a SQLite file, and a view over one of them."""
    tables = {name: Table(name, (NUMBER, NAME), key=("id",)) for name in ("seen", "unseen")}
    database = SqliteDatabase("one", Schema(tables), tmp_path, [], by_snapshot=False)
    database.create()
    part = Part((Occurrence("t", "one", "seen"),), (), (), (Place("t", NUMBER), Place("t", NAME)))
    world = World(tmp_path, {"one": database}, {"v": View("v", (part,))}, {}, Tally())
    world.write_project()
    world.command("setup", "one")
    world.run()
    return world


def test_a_renamed_column_of_a_table_that_no_view_uses_stops_nothing(world: World) -> None:
    world.databases["one"].execute("ALTER TABLE unseen RENAME COLUMN name TO title")
    assert world.headwater("run", "--once").code == 0


def test_triggers_made_again_by_hand_after_rows_have_changed_are_noticed(world: World) -> None:
    database = world.databases["one"]
    assert isinstance(database, SqliteDatabase)
    with without_triggers(database):
        database.execute("INSERT INTO seen VALUES (1, 'in no log')")
    world.may_stop("triggers were dropped for a while")
    world.settle(Random(1))
