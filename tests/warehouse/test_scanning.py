"""States read without Spark: row groups of the plain table less what went, and what came."""

import pickle
from collections.abc import Sequence
from random import Random

import pyarrow
import pytest

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import FLOAT, INT, TEXT, Row
from headwater.errors import InputError
from headwater.frames.arrow import plain_from_arrow
from headwater.warehouse import files
from headwater.warehouse.finding import RowGroups
from headwater.warehouse.loads import ViewLoad
from headwater.warehouse.scanning import Scan
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse
from tests.warehouse import topped
from tests.warehouse.test_stored_and_shown import CHANGES, NAMES, START, committed
from tests.warehouse.views import SCHEMA, definition, vector


@pytest.fixture(autouse=True)
def small_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few rows lie in many row groups."""
    monkeypatch.setattr(files, "_GROUP_ROWS", 7)


def load(warehouse: Warehouse, contents: Rows, key: tuple[str, ...] = ()) -> ViewTable:
    loaded = definition(schema=contents.schema)
    return warehouse.create(ViewLoad(loaded, vector(0), contents, "strobe", "strong", "l", key=key))


def commit(view: ViewTable, *changes: Rows) -> None:
    with view.writer("r") as writer:
        for at, change in enumerate(changes, 1):
            writer.commit(change, vector(at))


def whole(scan: Scan) -> Rows:
    return plain_from_arrow(scan.table(), scan.schema)


def in_pieces(scan: Scan) -> Rows:
    """The same as tasks elsewhere read it."""
    sent: Scan = pickle.loads(pickle.dumps(scan.divided()))
    tables = [table for piece in sent.pieces() for table in sent.read(piece)]
    return plain_from_arrow(pyarrow.concat_tables([sent.added, *tables]), scan.schema)


@pytest.mark.parametrize("seed", range(10))
def test_copies_go_and_come_as_often_as_they_count(warehouse: Warehouse, seed: int) -> None:
    random = Random(seed)
    contents: dict[Row, int] = {(n, random.choice("ab")): random.randint(1, 3) for n in range(30)}
    view = load(warehouse, Rows(SCHEMA, contents))
    gone: dict[Row, int] = {
        row: -random.randint(1, count + 1) for row, count in list(contents.items())[::4]
    }
    commit(view, Rows(SCHEMA, gone), Rows(SCHEMA, {(99, None): 2, (1, "a"): 1}))
    assert whole(view.scan()) == in_pieces(view.scan()) == view.rows()
    assert whole(view.scan(1)) == Rows(SCHEMA, contents)


def test_where_there_is_a_key_nothing_is_counted(warehouse: Warehouse) -> None:
    view = load(warehouse, Rows(SCHEMA, {(n, f"name {n}"): 1 for n in range(50)}), ("id",))
    gone: dict[Row, int] = {(n, f"name {n}"): -1 for n in (3, 14, 15)}
    commit(view, Rows(SCHEMA, gone | {(14, "new"): 1}))
    scan = view.scan()
    assert scan.divided() is scan
    assert whole(scan) == in_pieces(scan) == view.rows()


def test_values_that_arrow_compares_otherwise_are_told_apart_by_us(warehouse: Warehouse) -> None:
    schema = Schema.of([("x", FLOAT), ("n", TEXT)])
    nan = float("nan")
    rows = Rows(schema, {schema.row(row): 2 for row in [(nan, "a"), (0.0, "a"), (1.5, None)]})
    view = load(warehouse, rows)
    commit(view, Rows(schema, {schema.row((nan, "a")): -1, schema.row((1.5, None)): -2}))
    assert whole(view.scan()) == in_pieces(view.scan()) == view.rows()


def test_only_some_columns_are_read(warehouse: Warehouse) -> None:
    view = load(warehouse, Rows(SCHEMA, {(1, "a"): 1, (2, "b"): 1}))
    commit(view, Rows(SCHEMA, {(1, "a"): -1, (3, "c"): 1}))
    assert sorted(view.scan().table(["name"]).column("name").to_pylist()) == ["b", "c"]


@pytest.mark.parametrize("name", NAMES)
def test_a_top_is_shown_of_every_version(warehouse: Warehouse, name: str) -> None:
    view = topped.load(warehouse, name, START)
    for number, state in committed(view).items():
        scan = view.scan(number)
        assert whole(scan) == in_pieces(scan) == state
    assert view.at().top is not None
    assert len(CHANGES) < view.latest().number


def test_a_version_is_found_by_when_it_was_committed(warehouse: Warehouse) -> None:
    view = load(warehouse, Rows(SCHEMA, {(1, "a"): 1}))
    commit(view, Rows(SCHEMA, {(2, "b"): 1}))
    newest, *_, first = view.commits()
    assert view.version_at(newest.timestamp / 1000 + 60) == newest.number
    assert view.version_at(first.timestamp / 1000) >= first.number
    with pytest.raises(InputError, match=r"as old as 1970-01-01 00:00:07\+00:00"):
        view.version_at(7)


def test_a_row_group_without_the_wanted_values_is_not_read(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = load(warehouse, Rows(Schema.of([("n", INT)]), {(n,): 1 for n in range(70)}))
    commit(view, Rows(view.schema, {(69,): -1}))
    read: list[int] = []
    before = RowGroups.read

    def noted(self: RowGroups, group: int, names: Sequence[str]) -> pyarrow.Table:
        read.append(group)
        return before(self, group, names)

    monkeypatch.setattr(RowGroups, "read", noted)
    assert view.scan().divided().places is not None
    assert set(read) == {9}
