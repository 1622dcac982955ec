"""Rows of a view are looked up by key in its base and in its tail, and nothing else is read."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pyarrow
import pytest

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import INT, TEXT, Row
from headwater.protocol.action_lists import Bag
from headwater.protocol.look_ups import LookUp
from headwater.storage.location import Location
from headwater.warehouse import looking_up
from headwater.warehouse.files import read_arrow, read_places, write_arrow
from headwater.warehouse.loads import ViewLoad
from headwater.warehouse.looking_up import StoredRows
from headwater.warehouse.table_versions import DataFile
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse
from tests.warehouse import test_values as values
from tests.warehouse.test_small import no_spark
from tests.warehouse.views import definition, rows, vector

SCHEMA = Schema.of([("id", INT), ("line", INT), ("name", TEXT)])


def made(folder: Path, contents: Rows, key: tuple[str, ...] = ()) -> ViewTable:
    return Warehouse(folder / "warehouse", durable=False).create(
        ViewLoad(
            definition("SELECT 1", "orders", contents.schema),
            vector(0),
            contents,
            algorithm="strobe",
            level="strong",
            runner="loader",
            key=key,
        )
    )


def random_row(random: Random) -> Row:
    return random.randrange(6), random.randrange(3), random.choice(["a", "b"])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("whole_bytes", [0, looking_up.WHOLE_BYTES])
def test_what_is_found_is_what_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, whole_bytes: int
) -> None:
    monkeypatch.setattr(looking_up, "WHOLE_BYTES", whole_bytes)
    random = Random(seed)
    bag = Rows.of(SCHEMA, [random_row(random) for _ in range(10)])
    view = made(tmp_path, bag)
    stored = StoredRows(view)
    with view.writer("r") as writer:
        for number in range(1, 40):
            new = Rows.of(SCHEMA, [random_row(random)])
            gone = Rows(SCHEMA, {random.choice(list(bag)): -1}) if bag else Rows.empty(SCHEMA)
            writer.commit(new + gone, vector(number))
            bag = bag + new + gone
            if writer.written is not None and random.random() < 0.7:
                stored.wrote(*writer.written)
            if random.random() < 0.1:
                view.fold(no_spark, "r")
            if random.random() < 0.1:
                view.compact(2)
            keys = frozenset((random.randrange(6), random.randrange(3)) for _ in range(2))
            wanted = [LookUp(("id", "line"), keys), LookUp(("name",), frozenset({("b",)}))]
            found = stored.touched(wanted)
            assert Bag(found).touched(wanted) == Bag(bag).touched(wanted)
            assert stored.whole() == bag


@pytest.mark.parametrize("key", [(), ("id", "line")])
def test_an_example_of_a_look_up_finds_something(tmp_path: Path, key: tuple[str, ...]) -> None:
    stored = StoredRows(made(tmp_path, Rows.of(SCHEMA, [(1, 1, "a"), (2, 1, "b")]), key))
    assert stored.touched([stored.example()])


def test_an_example_of_a_look_up_in_a_view_without_rows_finds_nothing(tmp_path: Path) -> None:
    stored = StoredRows(made(tmp_path, Rows.empty(SCHEMA)))
    assert not stored.touched([stored.example()])


def test_whole_rows_are_found_by_the_key_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bag = Rows.of(SCHEMA, [(1, 1, "a"), (2, 1, "b")])
    stored = StoredRows(made(tmp_path, bag, ("id", "line")))
    read: list[list[str]] = []

    def noting(
        folder: Location, files: Sequence[DataFile], schema: pyarrow.Schema
    ) -> pyarrow.Table:
        if files:
            read.append(schema.names)
        return read_arrow(folder, files, schema)

    monkeypatch.setattr(looking_up, "read_arrow", noting)
    monkeypatch.setattr(looking_up, "WHOLE_BYTES", 0)
    wanted = [LookUp(SCHEMA.names, frozenset({(1, 1, "other")}))]
    assert stored.touched(wanted) == Rows.of(SCHEMA, [(1, 1, "a")])
    assert read == [["id", "line"]]


@pytest.mark.parametrize("column", values.SCHEMA.names)
@pytest.mark.parametrize("whole_bytes", [0, looking_up.WHOLE_BYTES])
def test_every_type_of_value_may_be_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str, whole_bytes: int
) -> None:
    monkeypatch.setattr(looking_up, "WHOLE_BYTES", whole_bytes)
    bag = rows(values.ALL, values.SCHEMA)
    view = made(tmp_path, bag)
    stored = StoredRows(view)
    at = values.SCHEMA.positions[column]
    for row in bag:
        wanted = [LookUp((column,), frozenset({(row[at],)}))]
        assert Bag(stored.touched(wanted)).touched(wanted) == Bag(bag).touched(wanted)


def test_a_small_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = StoredRows(made(tmp_path, Rows.of(SCHEMA, [(1, 1, "a"), (2, 1, "b")])))
    by_id = [[LookUp(("id",), frozenset({(n,)}))] for n in (1, 2)]
    assert stored.touched(by_id[0]) == Rows.of(SCHEMA, [(1, 1, "a")])
    monkeypatch.setattr(looking_up, "read_arrow", None)
    assert stored.touched(by_id[1]) == Rows.of(SCHEMA, [(2, 1, "b")])


def test_what_was_just_written_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view = made(tmp_path, Rows.of(SCHEMA, [(1, 1, "a")]))
    stored, look_up = StoredRows(view), LookUp(("id",), frozenset({(7,)}))
    stored.touched([look_up])
    monkeypatch.setattr(looking_up, "read_arrow", None)
    with view.writer("r") as writer:
        for number in range(1, 40):  # more pieces than the tail is kept in
            writer.commit(Rows.of(SCHEMA, [(7, number, "b")]), vector(number))
            assert writer.written is not None
            stored.wrote(*writer.written)
            assert len(stored.touched([look_up])) == number


def test_what_is_written_is_not_kept_where_nobody_looks(tmp_path: Path) -> None:
    view = made(tmp_path, Rows.of(SCHEMA, [(1, 1, "a")]))
    stored = StoredRows(view)
    stored.touched([LookUp(("id",), frozenset({(7,)}))])
    with view.writer("r") as writer:
        for number in range(1, 3 * looking_up._MOST_AT_HAND):
            writer.commit(Rows.of(SCHEMA, [(7, number, "b")]), vector(number))
            assert writer.written is not None
            stored.wrote(*writer.written)
            assert len(stored._at_hand) <= looking_up._MOST_AT_HAND


def test_only_the_row_groups_with_a_wanted_row_are_read(tmp_path: Path) -> None:
    folder = made(tmp_path, Rows.empty(SCHEMA)).plain.folder
    table = pyarrow.table({"n": list(range(10))})
    file = write_arrow(table, folder, None, None)
    pyarrow.parquet.write_table(table, (folder / file.name).local, row_group_size=3)
    schema = pyarrow.schema([("n", pyarrow.int64())])
    assert read_places(folder, file, schema, [1, 7, 9]).column("n").to_pylist() == [1, 7, 9]
