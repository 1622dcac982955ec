"""States read without Spark: row groups of the plain table less what went, and what came."""

import pickle
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pyarrow
import pytest

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import FLOAT, INT, TEXT, Row, struct_type
from headwater.errors import InputError
from headwater.frames.arrow import plain_from_arrow
from headwater.warehouse import files
from headwater.warehouse.definition import StoredDefinition
from headwater.warehouse.finding import RowGroups
from headwater.warehouse.loads import Shown, ViewLoad
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


def test_a_column_is_not_taken_for_a_field_of_its_name(warehouse: Warehouse) -> None:
    schema = Schema.of([("a.b", INT), ("a", struct_type([("b", INT)]))])
    view = load(warehouse, Rows(schema, {(n, (1000 + n,)): 1 for n in range(5)}))
    commit(view, Rows(schema, {(3, (1003,)): -1}))
    assert whole(view.scan()) == view.rows()


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


@pytest.mark.parametrize(
    "select",
    [
        "SELECT t.g, u.v FROM shop.t LEFT JOIN shop.u ON u.g = t.g",
        "SELECT t.v FROM shop.t WHERE NOT EXISTS (SELECT 1 FROM shop.u WHERE u.g = t.g)",
        "SELECT t.g, count(u.v) AS n FROM shop.t LEFT JOIN shop.u ON u.g = t.g GROUP BY t.g",
    ],
)
def test_a_change_of_one_part_meets_the_rows_of_the_others(
    warehouse: Warehouse, select: str
) -> None:
    """Who loses its last partner is stored in a part that the change does not touch."""
    relations = [Relation(f"shop.{name}", "shop", topped.SCHEMA) for name in "tu"]
    parsed = parse_view(select, relations, "padded")
    t = topped.rows({("a", 1): 2, ("b", 2): 1, (None, 3): 1})
    states_of_u: list[dict[Row, int]] = [{("a", 7): 1}, {}, {("b", 8): 2}, {("a", 7): 1}]
    us = [topped.rows(counts) for counts in states_of_u]
    found = [evaluate_view(parsed, {"shop.t": t, "shop.u": u}) for u in us]
    shown = [parsed.shown(rows) for rows in found]
    states = [parsed.stored(rows) for rows in found]
    put = Shown(parsed.shown_schema, shown[0])
    loaded = StoredDefinition.of(parsed), topped.vector(0), states[0]
    view = warehouse.create(ViewLoad(*loaded, "sweep", "strong", "l", shown=put))
    with view.writer("r") as writer:
        for at, (before, after) in enumerate(pairwise(states), 1):
            writer.commit(after - before, topped.vector(at))
    first = view.latest().number - len(shown) + 1
    for number, expected in enumerate(shown, first):
        assert whole(view.scan(number)) == in_pieces(view.scan(number)) == expected
    for number, (before, after) in enumerate(pairwise(shown), first):
        assert view.shown_changes(number, number + 1, None) == after - before


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
