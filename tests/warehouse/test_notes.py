"""Notes of how far views have come count for the commit that they name, and for no other."""

import pytest

from headwater.warehouse.loads import ViewLoad
from headwater.warehouse.notes import VectorNote, read_notes, write_notes
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse
from tests.warehouse.views import definition, rows, vector


@pytest.fixture
def view(warehouse: Warehouse) -> ViewTable:
    contents = rows({(1, "a"): 1})
    return warehouse.create(ViewLoad(definition(), vector(3), contents, "strobe", "strong", "r"))


def note(warehouse: Warehouse, view: ViewTable, reached: int) -> None:
    write_notes(warehouse.internal, {view.name: VectorNote.of(view.latest(), vector(reached))})


def test_a_view_has_come_as_far_as_was_noted(warehouse: Warehouse, view: ViewTable) -> None:
    note(warehouse, view, 9)
    assert view.latest().vector == vector(9)
    assert view.at().commit.vector == vector(9)


def test_a_writer_goes_on_from_what_was_noted(warehouse: Warehouse, view: ViewTable) -> None:
    note(warehouse, view, 9)
    with view.writer("s") as writer:
        assert writer.latest.vector == vector(9)
    write_notes(warehouse.internal, {})
    assert view.latest().vector == vector(9)  # it is in the commit with which a writer opens


def test_a_note_of_an_earlier_commit_says_nothing_of_a_later_one(
    warehouse: Warehouse, view: ViewTable
) -> None:
    note(warehouse, view, 9)
    with view.writer("s") as writer:
        writer.commit(rows({(2, "b"): 1}), vector(7))
    assert view.latest().vector == vector(7)


def test_a_note_of_another_table_by_that_name_says_nothing(
    warehouse: Warehouse, view: ViewTable
) -> None:
    write_notes(warehouse.internal, {view.name: VectorNote(1, {"shop": 2}, vector(9))})
    assert view.latest().vector == vector(3)


def test_a_view_that_is_dropped_leaves_no_note(warehouse: Warehouse, view: ViewTable) -> None:
    note(warehouse, view, 9)
    warehouse.drop("orders")
    assert read_notes(warehouse.internal) == {}


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"format": 2, "views": {}}', '{"format": 1, "views": {"orders": {"number": "1"}}}'],
)
def test_damaged_notes_say_nothing(warehouse: Warehouse, view: ViewTable, content: str) -> None:
    (warehouse.internal / "notes.json").write_text(content)
    assert read_notes(warehouse.internal) == {}
    assert view.latest().vector == vector(3)
