"""Views with a top: what is stored is maintained, and what is shown is a function of it."""

from typing import NoReturn

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.frames.arrow import plain_from_arrow
from headwater.warehouse.commits import ViewCommit
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse
from tests.warehouse import topped
from tests.warehouse.topped import rows, vector

START = rows({("a", 1): 2, ("a", 5): 1, ("b", 7): 1, (None, 2): 1})
CHANGES = (
    rows({("a", 1): -1, ("c", 3): 1}),
    rows({("b", 7): -1, (None, 4): 1}),
    rows({("c", 3): -1, ("a", 9): 2}),
)
NAMES = ("totals", "greatest")


@pytest.fixture(autouse=True)
def _tops(monkeypatch: pytest.MonkeyPatch) -> None:
    topped.read_with_tops(monkeypatch)


def no_spark() -> NoReturn:
    raise AssertionError("this is to be done without Spark")


def plain_rows(view: ViewTable, version: int | None = None) -> Rows:
    table = DeltaTable(str(view.plain.folder.local), version=version).to_pyarrow_table()
    return plain_from_arrow(table, topped.view(view.name).shown_schema)


def on_spark(view: ViewTable, spark: SparkSession, number: int | None = None) -> Rows:
    schema = topped.view(view.name).shown_schema
    return plain_from_arrow(view.dataframe(spark, number).toArrow(), schema)


def committed(view: ViewTable, start: Rows = START) -> dict[int, Rows]:
    """What is to be shown after each commit of a view that has just been loaded."""
    stored, show = start, topped.view(view.name).shown
    found = {1: show(stored), 2: show(stored)}
    with view.writer("r") as writer:
        for at, change in enumerate(CHANGES, 1):
            stored = stored + change
            found[writer.commit(change, vector(at)).number] = show(stored)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_load_stores_the_parts_and_shows_the_top(warehouse: Warehouse, name: str) -> None:
    view = topped.load(warehouse, name, START)
    assert view.schema == topped.SCHEMA
    assert view.at().stored_rows() == START
    assert plain_rows(view) == view.rows() == topped.view(name).shown(START)


@pytest.mark.parametrize("name", NAMES)
def test_every_version_is_read_in_memory_and_on_spark(
    warehouse: Warehouse, spark: SparkSession, name: str
) -> None:
    view = topped.load(warehouse, name, START)
    expected = committed(view)
    assert {number: view.rows(number) for number in expected} == expected
    assert view.rows() == on_spark(view, spark) == expected[5]
    assert on_spark(view, spark, 4) == expected[4]


@pytest.mark.parametrize("name", NAMES)
def test_a_fold_brings_the_plain_table_and_the_stored_parts_up(
    warehouse: Warehouse, spark: SparkSession, name: str
) -> None:
    view = topped.load(warehouse, name, START)
    expected = committed(view)
    folded = view.fold(spark if name == "totals" else no_spark, "f")
    assert isinstance(folded, ViewCommit)
    assert plain_rows(view) == view.rows() == expected[5]
    assert view.at().stored_rows() == START + Rows.sum(topped.SCHEMA, CHANGES)
    assert view.log.snapshot().files == ()
    assert {number: view.rows(number) for number in expected} == expected
