import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import INT, TEXT, VOID
from headwater.errors import EngineError, FencedError, InputError
from headwater.frames.arrow import from_arrow
from headwater.storage.local import LocalStorage
from headwater.warehouse.delta_log import DeltaLog
from headwater.warehouse.loads import ViewLoad
from headwater.warehouse.netting import local_frame
from headwater.warehouse.vectors import Reached
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse
from tests.warehouse.views import SCHEMA, definition, load, rows, vector

EMPTY = Rows.empty(SCHEMA)


def test_a_view_is_what_was_loaded_and_then_changed(
    warehouse: Warehouse, spark: SparkSession
) -> None:
    start = rows({(1, "a"): 1, (2, "b"): 2})
    view = load(warehouse, spark, start)
    change = rows({(1, "a"): -1, (3, "c"): 3, (2, "b"): -1})
    with view.writer("r1") as writer:
        commit = writer.commit(
            change,
            vector(7),
            added={"shop": ((1, 5), (7, 7))},
            algorithm="strobe",
            level="strong",
        )
    assert warehouse.view_names() == ["orders"]
    again = Warehouse(warehouse.path).view("orders")
    assert again.definition == definition("SELECT 1")
    assert again.schema == SCHEMA
    assert again.rows() == start + change
    assert [again.rows(n) for n in (1, 2, 3)] == [start, start, start + change]
    latest = again.latest()
    assert (latest.number, latest.kind, latest.vector) == (3, "change", vector(7))
    assert latest.added == {"shop": ((1, 5), (7, 7))}
    assert (commit.number, commit.rows, commit.version) == (3, 3, latest.version)
    assert [c.kind for c in again.commits()] == ["change", "open", "load"]


def test_any_delta_reader_reads_the_plain_table_and_the_log(
    warehouse: Warehouse, spark: SparkSession
) -> None:
    view = load(warehouse, spark, rows({(1, "a"): 2}))
    changes = [rows({(number, "x"): 1, (1, "a"): -1}) for number in range(5)]
    with view.writer("r") as writer:
        for number, change in enumerate(changes):
            writer.commit(change, vector(number))
    plain = DeltaTable(str(warehouse.path / "orders"))
    assert plain.to_pyarrow_table().to_pylist() == [{"id": 1, "name": "a"}] * 2
    log = DeltaTable(str(warehouse.path / "_headwater" / "views" / "orders"))
    table = log.to_pyarrow_table().sort_by("_commit").drop_columns(["_commit"])
    assert from_arrow(table, SCHEMA) == Rows.sum(SCHEMA, changes)
    assert log.transaction_version("headwater") == 7
    assert log.transaction_version("headwater:shop") == 4
    assert log.history(1)[0]["headwater"]["number"] == 7


def test_duckdb_reads_the_files(warehouse: Warehouse, spark: SparkSession) -> None:
    duckdb = pytest.importorskip("duckdb")
    view = load(warehouse, spark, rows({(1, "a"): 2}))
    with view.writer("r") as writer:
        writer.commit(rows({(4, "z"): 3}), vector(1))
    for folder, query, expected in (
        ("orders", "select id, name from read_parquet(?)", [(1, "a"), (1, "a")]),
        (
            "_headwater/views/orders",
            "select id, name, _count, _commit from read_parquet(?)",
            [(4, "z", 3, 3)],
        ),
    ):
        files = DeltaTable(str(warehouse.path / folder)).file_uris()
        connection = duckdb.connect()
        assert connection.execute(query, [files]).fetchall() == expected
        connection.close()


def test_a_large_change_comes_as_a_dataframe(warehouse: Warehouse, spark: SparkSession) -> None:
    view = load(warehouse, spark, EMPTY)
    change = rows({(n, "x"): 1 for n in range(100)})
    with view.writer("r") as writer:
        commit = writer.commit(local_frame(spark, change), vector(1))
        assert commit.rows == 100
        with pytest.raises(EngineError, match="have the columns"):
            writer.commit(local_frame(spark, change).drop("name"), vector(2))
        writer.commit(-change, vector(2))
    assert view.rows(commit.number) == change
    assert view.rows() == EMPTY
    assert not list((warehouse.path / "_headwater" / "staging").iterdir())


def test_a_commit_without_rows_moves_the_vector(warehouse: Warehouse, spark: SparkSession) -> None:
    view = load(warehouse, spark, rows({(1, "a"): 1}))
    with view.writer("r") as writer:
        writer.commit(EMPTY, vector(9), kind="vector")
    assert view.latest().vector == vector(9)
    assert view.rows() == rows({(1, "a"): 1})
    assert view.tail().files == 0


def test_a_change_with_other_columns_or_sources_is_refused(
    warehouse: Warehouse, spark: SparkSession
) -> None:
    view = load(warehouse, spark, EMPTY)
    other = Schema.of([("id", INT), ("other", TEXT)])
    with view.writer("r") as writer:
        with pytest.raises(EngineError, match="have the columns"):
            writer.commit(rows({(1, "a"): 1}, other), vector(1))
        with pytest.raises(EngineError, match="has the sources"):
            writer.commit(EMPTY, {"shop": Reached(1, {})})
        writer.commit(rows({(1, "a"): 1}), vector(1))
    assert view.rows() == rows({(1, "a"): 1})


def test_an_earlier_writer_is_fenced_off(warehouse: Warehouse, spark: SparkSession) -> None:
    view = load(warehouse, spark, EMPTY)
    first = view.writer("first")
    first.commit(rows({(1, "a"): 1}), vector(1))
    second = warehouse.view("orders").writer("second")
    files = set(view.log.folder.local.glob("*.parquet"))
    for _ in range(2):
        with pytest.raises(FencedError, match="taken over the view orders"):
            first.commit(rows({(2, "b"): 1}), vector(2))
    assert set(view.log.folder.local.glob("*.parquet")) == files
    second.commit(rows({(3, "c"): 1}), vector(2))
    with pytest.raises(FencedError):
        first.commit(rows({(2, "b"): 1}), vector(2))
    assert view.rows() == rows({(1, "a"): 1, (3, "c"): 1})
    assert [c.number for c in view.commits()] == [5, 4, 3, 2, 1]


def test_a_writer_overtaken_between_its_check_and_its_commit_is_fenced_off(
    warehouse: Warehouse, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = load(warehouse, spark, EMPTY)
    first = view.writer("first")
    put = DeltaLog.put
    others = []

    def overtaken(self: DeltaLog, *about: Any) -> bool:
        monkeypatch.setattr(DeltaLog, "put", put)
        others.append(warehouse.view("orders").writer("second"))
        return put(self, *about)

    monkeypatch.setattr(DeltaLog, "put", overtaken)
    with pytest.raises(FencedError):
        first.commit(rows({(1, "a"): 1}), vector(1))
    others[0].commit(rows({(2, "b"): 1}), vector(1))
    assert view.rows() == rows({(2, "b"): 1})


def test_maintenance_by_others_does_not_disturb_the_writer(
    warehouse: Warehouse, spark: SparkSession
) -> None:
    view = load(warehouse, spark, EMPTY)
    writer = view.writer("r")
    total = EMPTY
    for number in range(6):
        change = rows({(number, "x"): 1})
        writer.commit(change, vector(number))
        total += change
        if number == 3:
            DeltaTable(str(view.log.folder.local)).optimize.compact()
    assert view.rows() == total
    assert view.latest().vector == vector(5)
    assert view.rows(4) == rows({(0, "x"): 1, (1, "x"): 1})


def test_data_of_others_in_the_log_stops_the_writer(
    warehouse: Warehouse, spark: SparkSession
) -> None:
    from deltalake import write_deltalake

    view = load(warehouse, spark, EMPTY)
    writer = view.writer("r")
    foreign = pyarrow.table({"id": [1], "name": ["a"], "_count": [1], "_commit": [2]})
    write_deltalake(str(view.log.folder.local), foreign, mode="append")
    with pytest.raises(EngineError, match="changed by something else"):
        writer.commit(rows({(1, "a"): 1}), vector(1))
    with pytest.raises(EngineError, match="Open a new writer"):
        writer.commit(rows({(1, "a"): 1}), vector(1))


def test_many_commits_are_checkpointed_beside_the_writer(
    warehouse: Warehouse, spark: SparkSession
) -> None:
    view = load(warehouse, spark, EMPTY)
    with view.writer("r") as writer:
        for number in range(60):
            writer.commit(rows({(number, "x"): 1}), vector(number))
            if number == 50:
                view.log.try_checkpoint()
    pointer = json.loads((view.log.folder.local / "_delta_log" / "_last_checkpoint").read_text())
    assert pointer["version"] >= 50
    assert view.rows() == rows({(n, "x"): 1 for n in range(60)})
    assert view.rows(12) == rows({(n, "x"): 1 for n in range(10)})


def lose_entries(view: ViewTable) -> None:
    """As if another tool had cleaned up the log, up to its newest version."""
    DeltaTable(str(view.log.folder.local)).create_checkpoint()
    for entry in (view.log.folder.local / "_delta_log").glob("*.json"):
        entry.unlink()


def test_a_vector_is_not_taken_for_less_than_it_was(
    warehouse: Warehouse, spark: SparkSession
) -> None:
    """What is in above its numbers is only in the entry: it would be taken in twice."""
    view = load(warehouse, spark, EMPTY)
    with view.writer("r") as writer:
        writer.commit(rows({(1, "a"): 1}), vector(42))
    lose_entries(view)
    with pytest.raises(EngineError, match="has lost the entry of its newest commit"):
        warehouse.view("orders").writer("next")


def test_a_vector_outlives_the_log_entries(warehouse: Warehouse, spark: SparkSession) -> None:
    view = load(warehouse, spark, EMPTY)
    with view.writer("r") as writer:
        in_order = {source: replace(at, also=()) for source, at in vector(42).items()}
        writer.commit(rows({(1, "a"): 1}), in_order)
    lose_entries(view)
    latest = warehouse.view("orders").latest()
    assert latest.number == 3
    assert latest.vector == {"shop": Reached(42, None), "crm": Reached(0, None)}
    with warehouse.view("orders").writer("next") as writer:
        writer.commit(rows({(2, "b"): 1}), vector(43))
    assert view.rows() == rows({(1, "a"): 1, (2, "b"): 1})
    assert view.latest().number == 5


def test_a_version_that_does_not_exist_is_named(warehouse: Warehouse, spark: SparkSession) -> None:
    view = load(warehouse, spark, EMPTY)
    for number in (0, 2):
        with pytest.raises(InputError, match=r"no version .* newest version is 1"):
            view.rows(number)


def test_a_view_that_does_not_exist_is_named(warehouse: Warehouse, spark: SparkSession) -> None:
    with pytest.raises(InputError, match="no views yet"):
        warehouse.view("orders")
    load(warehouse, spark, EMPTY)
    with pytest.raises(InputError, match="It has orders"):
        warehouse.view("other")


@pytest.mark.parametrize("name", ["", "_orders", "a-b", "a/b", "../a", "ä", "a b"])
def test_a_view_name_must_be_usable_as_a_table_name(warehouse: Warehouse, name: str) -> None:
    with pytest.raises(InputError, match="cannot be used"):
        warehouse.create(ViewLoad(definition(name=name), vector(0), rows({}), "", "", ""))


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ([("_count", INT)], "uses itself"),
        ([("_COMMIT", INT)], "uses itself"),
        ([("a", INT), ("A", INT)], "upper and lower case"),
        ([("a b", INT)], "do not allow"),
        ([("a", VOID)], "without a type"),
    ],
)
def test_columns_that_a_table_cannot_have_are_refused(
    warehouse: Warehouse, columns: list[tuple[str, object]], problem: str
) -> None:
    schema = Schema.of(columns)  # type: ignore[arg-type]  # types of ours
    loaded = ViewLoad(definition(schema=schema), vector(0), rows({}, schema), "", "", "")
    with pytest.raises(InputError, match=problem):
        warehouse.create(loaded)


def test_a_path_that_looks_like_a_pattern_is_refused() -> None:
    for path in ("100%", "a*", "a[b]", "{a}"):
        with pytest.raises(InputError, match="contains"):
            Warehouse(path)


def test_loading_an_existing_view_is_refused_and_a_dropped_one_can_be_loaded_again(
    warehouse: Warehouse, spark: SparkSession
) -> None:
    view = load(warehouse, spark, rows({(1, "a"): 1}))
    writer = view.writer("r")
    with pytest.raises(InputError, match="already in the warehouse"):
        load(warehouse, spark, EMPTY)
    warehouse.drop("orders")
    assert warehouse.view_names() == []
    assert not (warehouse.path / "orders").exists()
    with pytest.raises(FencedError, match="has been dropped"):
        writer.commit(rows({(2, "b"): 1}), vector(1))
    again = load(warehouse, spark, rows({(5, "e"): 1}))
    with pytest.raises(FencedError, match="has been dropped"):
        writer.commit(rows({(2, "b"): 1}), vector(1))
    with pytest.raises(FencedError, match="has been dropped"):
        view.rows()
    assert again.rows() == rows({(5, "e"): 1})


def test_a_load_that_failed_half_way_leaves_no_view_and_is_replaced(
    warehouse: Warehouse, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    move = LocalStorage.move

    def fail_at_the_log(self: LocalStorage, path: Path, target: Path) -> None:
        if path.name == "log":
            raise OSError("killed here")
        move(self, path, target)

    monkeypatch.setattr(LocalStorage, "move", fail_at_the_log)
    with pytest.raises(OSError, match="killed here"):
        load(warehouse, spark, rows({(1, "a"): 1}))
    monkeypatch.undo()
    assert (warehouse.path / "orders").exists()
    assert warehouse.view_names() == []
    assert load(warehouse, spark, rows({(2, "b"): 1})).rows() == rows({(2, "b"): 1})


def test_contents_with_other_columns_are_not_loaded(
    warehouse: Warehouse, spark: SparkSession
) -> None:
    contents = local_frame(spark, rows({(1, "a"): 1})).withColumnRenamed("name", "other")
    with pytest.raises(EngineError, match="have the columns"):
        warehouse.create(ViewLoad(definition(), vector(0), contents, "", "", ""))
    assert warehouse.view_names() == []


def test_a_folder_of_the_user_is_not_overwritten(warehouse: Warehouse, spark: SparkSession) -> None:
    (warehouse.path / "orders").mkdir(parents=True)
    (warehouse.path / "orders" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="in the way"):
        load(warehouse, spark, EMPTY)
    assert (warehouse.path / "orders" / "mine.txt").read_text() == "mine"


def test_what_killed_processes_left_is_removed_once_it_is_old(warehouse: Warehouse) -> None:
    for name in ("old", "new"):
        (warehouse.scratch(name) / "part").mkdir(parents=True)
        (warehouse.scratch(name) / "part" / "file").write_text("x")
    for path in [warehouse.scratch("old"), *warehouse.scratch("old").rglob("*")]:
        os.utime(path, (1, 1))
    warehouse.remove_leftovers()
    assert not warehouse.scratch("old").exists()
    assert (warehouse.scratch("new") / "part" / "file").exists()
