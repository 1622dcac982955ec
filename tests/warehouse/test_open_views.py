"""A view that is open is shared by all who ask its warehouse for it, and is never an old one."""

from pathlib import Path

import pytest

from headwater.algebra.rows import Rows
from headwater.errors import EngineError, FencedError, InputError
from headwater.storage.location import Location
from headwater.warehouse.commits import LogLine
from headwater.warehouse.delta_log import DeltaLog
from headwater.warehouse.loads import ViewLoad
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse
from tests.warehouse.views import definition, rows, vector

ONE, TWO = rows({(1, "a"): 1}), rows({(2, "b"): 1})


def put(warehouse: Warehouse, contents: Rows, number: int = 0) -> ViewTable:
    return warehouse.put(ViewLoad(definition(), vector(number), contents, "strobe", "strong", "r"))


def test_a_view_that_is_open_is_not_opened_again(warehouse: Warehouse) -> None:
    put(warehouse, ONE)
    assert warehouse.view("orders") is warehouse.view("orders")


def test_what_was_read_of_a_log_is_not_read_again(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    with put(warehouse, ONE).writer("r") as writer:
        for number in range(1, 20):
            writer.commit(TWO, vector(number))
    warehouse.view("orders").latest()
    read = set()
    entry = DeltaLog.entry

    def noted(self: DeltaLog, version: int) -> list[LogLine] | None:
        read.add(version)
        return entry(self, version)

    monkeypatch.setattr(DeltaLog, "entry", noted)
    assert warehouse.view("orders").latest().number == 21
    assert read == {20, 21}


def test_what_another_process_commits_is_seen(warehouse: Warehouse) -> None:
    put(warehouse, ONE)
    assert warehouse.view("orders").rows() == ONE
    with Warehouse(warehouse.path).view("orders").writer("other") as writer:
        writer.commit(TWO, vector(1))
    assert warehouse.view("orders").rows() == ONE + TWO


def test_a_view_that_was_loaded_anew_by_another_process_is_seen(warehouse: Warehouse) -> None:
    put(warehouse, ONE)
    assert warehouse.view("orders").rows() == ONE
    put(Warehouse(warehouse.path), TWO, 1)
    assert warehouse.view("orders").rows() == TWO


def test_a_view_that_was_dropped_and_made_again_is_opened_again(warehouse: Warehouse) -> None:
    before = put(warehouse, ONE)
    other = Warehouse(warehouse.path)
    other.drop("orders")
    with pytest.raises(InputError):
        warehouse.view("orders")
    put(other, TWO)
    assert warehouse.view("orders").rows() == TWO
    with pytest.raises(FencedError):
        before.rows()


def test_a_plain_table_that_was_made_anew_is_opened_again(warehouse: Warehouse) -> None:
    view = put(warehouse, ONE)
    Location.of(Path(view.plain.folder.path)).remove_tree()
    put(Warehouse(warehouse.path), TWO, 1)
    assert warehouse.view("orders").rows() == TWO


def test_a_log_that_was_cleaned_beside_is_read_from_its_checkpoint(warehouse: Warehouse) -> None:
    """The entries that are missing are those that were known."""
    view = put(warehouse, ONE)
    assert view.rows() == ONE
    other = Warehouse(warehouse.path).view("orders")
    with other.writer("other") as writer:
        for number in range(1, 9):
            writer.commit(TWO, vector(number))
    newest = other.log.snapshot()
    other.log.write_checkpoint(newest)
    other.log.set_oldest(newest.version)
    other.log.delete_before(newest.version)
    assert warehouse.view("orders").log.snapshot().says_the_same(newest)


def test_who_begins_to_write_relies_on_nothing_that_was_read_before(warehouse: Warehouse) -> None:
    view = put(warehouse, ONE)
    view.writer("one")
    assert view.latest().number == 2
    (view.log.folder / "_delta_log" / f"{0:020}.json").remove()
    with pytest.raises(EngineError, match="is damaged"):
        view.writer("two")


def test_few_views_stay_open_that_nobody_holds(warehouse: Warehouse) -> None:
    names = [f"v{at}" for at in range(40)]
    for name in names:
        load = ViewLoad(definition(name=name), vector(0), ONE, "strobe", "strong", "r")
        warehouse.create(load)
    for name in names:
        warehouse.view(name)
    assert len(warehouse._open) <= 32
