"""Tables of a view damaged by hand: said in words, never read as something older, and curable."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.errors import EngineError, FencedError, InputError
from headwater.warehouse.commits import ViewCommit
from headwater.warehouse.delta_log import entry_of
from headwater.warehouse.files import UnreadableFileError
from headwater.warehouse.loads import ViewLoad
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse
from tests.warehouse.test_small import in_memory, no_spark, plain_rows
from tests.warehouse.views import definition, rows, vector

START = rows({(1, "a"): 2, (2, "b"): 1})
CHANGE = rows({(1, "a"): -1, (5, "e"): 1})
NEW = rows({(7, "g"): 2, (1, "a"): 1})
LATER = rows({(7, "g"): -1, (8, "h"): 1})


@pytest.fixture
def view(warehouse: Warehouse) -> ViewTable:
    """A view that has been folded once, with a commit behind the fold."""
    view = in_memory(warehouse, START, "orders")
    with view.writer("old") as writer:
        writer.commit(CHANGE, vector(1))
        assert isinstance(view.fold(no_spark, "f"), ViewCommit)
        writer.commit(rows({(9, "i"): 1}), vector(2))
    return view


def entries(folder: Path) -> list[Path]:
    return sorted((folder / "_delta_log").glob("*.json"))


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def replaced(view: ViewTable, contents: Rows = NEW) -> ViewCommit:
    return view.replace(ViewLoad(definition("SELECT 2"), vector(40), contents, "a", "strong", "r"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda told: told.pop("number"),
        lambda told: told.update(vector={}),
        lambda told: told.update(vector={"other": next(iter(told["vector"].values()))}),
    ],
    ids=["no number", "no vector", "the vector of another view"],
)
def test_a_commit_that_does_not_say_what_it_stands_for_is_damage(
    warehouse: Warehouse, view: ViewTable, damage: Callable[[dict[str, Any]], object]
) -> None:
    entry = entries(Path(str(view.log.folder)))[-1]
    lines = [json.loads(line) for line in entry.read_text(encoding="utf-8").splitlines()]
    damage(next(line["commitInfo"]["headwater"] for line in lines if "commitInfo" in line))
    entry.write_bytes(entry_of(lines))
    with pytest.raises(EngineError, match=r"damaged.*headwater reload orders"):
        warehouse.view("orders").writer("next")


def assert_cured(warehouse: Warehouse, last: int = 4) -> None:
    """After a load anew: counting goes on, and so do commits, folds and reading."""
    assert replaced(warehouse.view("orders")).number > last
    view = warehouse.view("orders")
    assert view.rows() == plain_rows(view) == NEW
    with view.writer("next") as writer:
        writer.commit(LATER, vector(41))
        assert isinstance(view.fold(no_spark, "f"), ViewCommit)
        writer.commit(rows({(9, "i"): 1}), vector(42))
    assert plain_rows(view) == NEW + LATER
    again = warehouse.view("orders")
    assert again.rows() == NEW + LATER + rows({(9, "i"): 1})
    for number in range(1, last + 1):
        try:
            found = again.rows(number)
        except (InputError, UnreadableFileError):
            continue
        assert found in (START, START + CHANGE, START + CHANGE + rows({(9, "i"): 1}))


def put_back(view: ViewTable) -> None:
    """The plain table as it was before the fold, as if from a backup."""
    for path in entries(view.plain.folder.local)[1:]:
        path.unlink()


def remove(view: ViewTable) -> None:
    shutil.rmtree(view.plain.folder.local)


PLAIN_DAMAGE = pytest.mark.parametrize("damage", [put_back, remove])
Damage = Callable[[ViewTable], object]


WORK: dict[str, Damage] = {
    "rows": lambda view: view.rows(),
    "tail": lambda view: view.tail(),
    "fold": lambda view: view.fold(no_spark, "f"),
    "writer": lambda view: view.writer("next"),
}


@PLAIN_DAMAGE
@pytest.mark.parametrize("work", WORK)
def test_a_plain_table_that_is_lost_or_older_is_not_built_on(
    warehouse: Warehouse, view: ViewTable, damage: Damage, work: str
) -> None:
    damage(view)
    for found in (view, warehouse.view("orders")):
        assert found.definition == definition("SELECT 1")
        assert found.latest().number == 4
        with pytest.raises(EngineError, match=r"plain table .*orders.*headwater reload orders"):
            WORK[work](found)


def test_the_plain_table_of_another_history_is_not_built_on(
    warehouse: Warehouse, view: ViewTable
) -> None:
    other = in_memory(warehouse, START, "other")
    for number in range(1, 4):
        with other.writer("o") as writer:
            for _ in range(2):
                writer.commit(rows({(number, "z"): 1}), vector(number))
        other.fold(no_spark, "f")
    shutil.rmtree(view.plain.folder.local)
    shutil.copytree(other.plain.folder.local, view.plain.folder.local)
    with pytest.raises(EngineError, match="headwater reload orders"):
        warehouse.view("orders").rows()
    assert_cured(warehouse)


def test_a_fold_that_the_log_does_not_rely_on_yet_may_be_lost(
    warehouse: Warehouse, view: ViewTable
) -> None:
    expected = view.rows()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("headwater.warehouse.folding.remove_folded", lambda view: None)
        assert isinstance(view.fold(no_spark, "f"), ViewCommit)
    entries(view.plain.folder.local)[-1].unlink()
    assert warehouse.view("orders").rows() == expected


@PLAIN_DAMAGE
def test_a_load_anew_cures_a_plain_table_that_is_lost_or_older(
    warehouse: Warehouse, view: ViewTable, damage: Damage
) -> None:
    writer = view.writer("old")
    damage(view)
    assert_cured(warehouse, 5)
    with pytest.raises(FencedError):
        writer.commit(CHANGE, vector(3))


@PLAIN_DAMAGE
def test_a_view_without_its_plain_table_can_be_dropped_and_made_again(
    warehouse: Warehouse, view: ViewTable, damage: Damage
) -> None:
    damage(view)
    warehouse.drop("orders")
    assert warehouse.view_names() == []
    assert warehouse.remains("orders") == ()
    assert in_memory(warehouse, NEW, "orders").rows() == NEW


@pytest.mark.parametrize("table", ["log", "plain"])
@pytest.mark.parametrize("damage", [cut, empty, Path.unlink])
@pytest.mark.parametrize("which", [0, 1, -2, -1])
def test_a_damaged_entry_is_cured_by_a_load_anew(
    warehouse: Warehouse,
    view: ViewTable,
    table: str,
    damage: Callable[[Path], None],
    which: int,
) -> None:
    writer = view.writer("old")
    folder = (view.log if table == "log" else view.plain).folder.local
    damage(entries(folder)[which])
    found = Warehouse(warehouse.path).view("orders")
    if damage is not Path.unlink:
        for work in WORK.values():
            with pytest.raises(EngineError, match="headwater reload orders"):
                work(found)
    assert_cured(warehouse, 4)
    found = warehouse.view("orders")
    assert len(list(found.commits())) >= 4
    with pytest.raises(FencedError):
        writer.commit(CHANGE, vector(3))


def test_a_signed_log_that_has_lost_commits_which_were_folded_is_not_written_to(
    warehouse: Warehouse, view: ViewTable
) -> None:
    for path in entries(view.log.folder.local)[2:]:
        path.unlink()
    with pytest.raises(EngineError, match=r"has lost entries.*headwater reload orders"):
        warehouse.view("orders").writer("next")
    assert_cured(warehouse, view.plain.snapshot().number)


def test_what_is_left_of_a_view_without_its_signed_log_is_replaced(
    warehouse: Warehouse, view: ViewTable
) -> None:
    shutil.rmtree(view.log.folder.local / "_delta_log")
    assert in_memory(warehouse, NEW, "orders").rows() == NEW


@pytest.mark.parametrize("table", ["log", "plain"])
@pytest.mark.parametrize("inside", ["", "_delta_log"])
def test_what_is_left_of_a_view_can_be_dropped(
    warehouse: Warehouse, view: ViewTable, table: str, inside: str
) -> None:
    log, plain = view.log.folder, view.plain.folder
    shutil.rmtree((log if table == "log" else plain).local / inside)
    expected = tuple(folder for folder in (log, plain) if folder.exists())
    assert warehouse.remains("orders") == expected
    assert warehouse.drop("orders") == expected
    assert not log.exists()
    assert not plain.exists()
    with pytest.raises(InputError, match="no view 'orders'"):
        warehouse.drop("orders")


def test_a_folder_of_somebody_else_is_not_dropped(warehouse: Warehouse, view: ViewTable) -> None:
    (warehouse.path / "theirs").mkdir()
    with pytest.raises(InputError, match="no view 'theirs'"):
        warehouse.drop("theirs")
    assert (warehouse.path / "theirs").is_dir()


def flip(path: Path) -> None:
    """Damage the last byte of the first column's values."""
    column = pyarrow.parquet.read_metadata(path).row_group(0).column(0)
    content = bytearray(path.read_bytes())
    content[column.data_page_offset + column.total_compressed_size - 1] ^= 0xFF
    path.write_bytes(content)


FILE_DAMAGE = pytest.mark.parametrize("damage", [Path.unlink, empty, cut, flip])
TABLE = pytest.mark.parametrize("table", ["log", "plain"])


def damage_files(view: ViewTable, table: str, damage: Callable[[Path], None]) -> None:
    log = view.log if table == "log" else view.plain
    for file in log.snapshot().files:
        damage(log.folder.local / file.name)


@TABLE
@FILE_DAMAGE
def test_a_damaged_file_is_named_and_cured_by_a_load_anew(
    warehouse: Warehouse, view: ViewTable, table: str, damage: Callable[[Path], None]
) -> None:
    damage_files(view, table, damage)
    found = warehouse.view("orders")
    place = r"file .*parquet of the view orders is missing or damaged.*headwater reload orders"
    for work in ("rows", "fold"):
        with pytest.raises(EngineError, match=place):
            WORK[work](found)
    assert_cured(warehouse)


@TABLE
@pytest.mark.parametrize("damage", [Path.unlink, empty, cut])
def test_a_damaged_file_is_named_before_spark_finds_it(
    view: ViewTable, spark: SparkSession, table: str, damage: Callable[[Path], None]
) -> None:
    damage_files(view, table, damage)
    for work in (lambda: view.dataframe(spark), lambda: view.fold(spark, "f")):
        with pytest.raises(EngineError, match="is missing or damaged"):
            work()


@TABLE
@pytest.mark.parametrize("damage", [Path.unlink, empty, cut])
def test_a_writer_does_not_open_where_a_file_is_damaged(
    view: ViewTable, table: str, damage: Callable[[Path], None]
) -> None:
    damage_files(view, table, damage)
    with pytest.raises(EngineError, match=r"is missing or damaged.*headwater reload orders"):
        view.writer("next")


def test_changes_say_that_a_file_is_damaged(view: ViewTable) -> None:
    damage_files(view, "log", empty)
    with pytest.raises(EngineError, match="is missing or damaged"):
        view.changes(3)


@pytest.mark.parametrize("small", [True, False])
def test_rows_below_zero_are_found_in_the_newest_state(
    view: ViewTable, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    given = no_spark if small else lambda: spark
    if not small:
        monkeypatch.setattr("headwater.frames.small.ROWS", 1)
    assert not view.at().below_zero(no_spark)
    with view.writer("r") as writer:
        writer.commit(rows({(1, "a"): -1}), vector(3))
        assert not view.at().below_zero(given)
        writer.commit(rows({(1, "a"): -1, (6, None): -2}), vector(4))
        assert view.at().below_zero(given) == rows({(1, "a"): -1, (6, None): -2})
        writer.commit(rows({(1, "a"): 1, (6, None): 2}), vector(5))
        assert not view.at().below_zero(given)
    view.fold(no_spark if small else spark, "f")
    assert not view.at().below_zero(no_spark)
