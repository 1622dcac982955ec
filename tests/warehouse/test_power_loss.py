"""What a power loss may leave of a view's tables, and what still has to be read from it."""

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.errors import EngineError
from headwater.warehouse import checkpoints as writing
from headwater.warehouse import folding
from headwater.warehouse.delta_log import DeltaLog
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse
from tests.warehouse.test_folding import plain_rows
from tests.warehouse.test_processes import committing, read_numbers
from tests.warehouse.views import SCHEMA, load, rows, vector

NOW = timedelta(0)


@pytest.fixture
def view(warehouse: Warehouse, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> ViewTable:
    """A view with several checkpoints of both tables, and a tail."""
    monkeypatch.setattr(folding, "CHECKPOINT_EVERY", 2)
    view = load(warehouse, spark, rows({(0, "start"): 1}))
    with view.writer("r") as writer:
        for number in range(1, 14):
            writer.commit(
                rows({(number, "x"): 1, (number - 1, "x"): -1 if number > 1 else 1}), vector(number)
            )
            if number % 4 == 0:
                view.log.try_checkpoint()
            if number % 5 == 0:
                assert view.fold(spark, "f") is not None
    assert len(checkpoints(view.log)) > 1
    assert checkpoints(view.plain)
    return view


def checkpoints(log: DeltaLog) -> list[Path]:
    return sorted(log.folder.local.glob("_delta_log/*.checkpoint.parquet"))


def hint(log: DeltaLog) -> Path:
    return log.folder.local / "_delta_log" / "_last_checkpoint"


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


@pytest.mark.parametrize("damage", [emptied, cut_off, zeroed, Path.unlink])
@pytest.mark.parametrize("which", ["checkpoints", "newest checkpoint", "hint", "all"])
def test_checkpoints_may_be_lost_while_the_entries_are_there(
    warehouse: Warehouse, view: ViewTable, which: str, damage: Callable[[Path], None]
) -> None:
    expected = view.rows()
    latest = view.latest()
    folded = plain_rows(view)
    for log in (view.log, view.plain):
        if which != "hint":
            for path in checkpoints(log)[-1 if which == "newest checkpoint" else 0 :]:
                damage(path)
        if which in ("hint", "all"):
            damage(hint(log))
    again = warehouse.view("orders")
    assert (again.latest(), again.rows()) == (latest, expected)
    assert [again.rows(number) for number in (6, 9)] == [view.rows(6), view.rows(9)]
    with again.writer("next") as writer:
        writer.commit(rows({(100, "y"): 1}), vector(100))
    assert again.rows() == expected + rows({(100, "y"): 1})
    assert plain_rows(again) == folded
    assert DeltaTable(str(again.log.folder.local)).version() == again.latest().version


def holed(path: Path) -> None:
    """All of a column is zeros that other readers need and we do not."""
    column = _column(path, "remove.path")
    content = bytearray(path.read_bytes())
    start = column.dictionary_page_offset or column.data_page_offset
    content[start : start + column.total_compressed_size] = bytes(column.total_compressed_size)
    path.write_bytes(content)


def _column(path: Path, name: str) -> Any:
    group = pyarrow.parquet.read_metadata(path).row_group(0)
    columns = map(group.column, range(group.num_columns))
    return next(column for column in columns if column.path_in_schema == name)


@pytest.mark.parametrize("damage", [zeroed, holed])
def test_a_checkpoint_that_is_lost_behind_a_newer_one_keeps_no_other_from_being_written(
    view: ViewTable, damage: Callable[[Path], None]
) -> None:
    earlier = checkpoints(view.log)[0]
    version = int(earlier.name[:20])
    damage(earlier)
    for wanted in (version, version + 1):
        view.log.write_checkpoint(view.log.snapshot(wanted))
    assert DeltaTable(str(view.log.folder.local), version=version + 1).version() == version + 1


def test_a_checkpoint_that_others_cannot_read_stays_while_it_is_needed(
    warehouse: Warehouse, view: ViewTable
) -> None:
    view.clean_up(NOW, minimum_age=NOW)
    expected = view.rows()
    holed(checkpoints(view.log)[-1])
    again = Warehouse(warehouse.path).view("orders")
    again.writer("next").close()
    assert Warehouse(warehouse.path).view("orders").rows() == expected


def test_a_checkpoint_that_is_damaged_and_needed_is_an_error_and_not_an_older_state(
    warehouse: Warehouse, view: ViewTable, spark: SparkSession
) -> None:
    view.clean_up(NOW, minimum_age=NOW)
    for path in checkpoints(view.log):
        emptied(path)
    again = Warehouse(warehouse.path).view("orders")
    with pytest.raises(EngineError, match=r"is damaged.*headwater drop orders"):
        again.rows()
    with pytest.raises(EngineError, match="is damaged"):
        again.writer("next")
    assert checkpoints(view.log)
    warehouse.drop("orders")
    assert load(warehouse, spark, rows({(1, "a"): 1})).rows() == rows({(1, "a"): 1})


def test_an_entry_that_is_missing_is_an_error_and_not_an_older_state(
    warehouse: Warehouse, view: ViewTable
) -> None:
    version = view.latest().version
    (view.log.folder.local / "_delta_log" / f"{version - 1:020}.json").unlink()
    for path in checkpoints(view.log):
        path.unlink()
    with pytest.raises(EngineError, match=f"there is no entry {version - 1} that can be read"):
        Warehouse(warehouse.path).view("orders").rows()


@pytest.mark.parametrize("damage", [emptied, cut_off])
def test_an_entry_that_cannot_be_read_is_named(
    warehouse: Warehouse, view: ViewTable, damage: Callable[[Path], None]
) -> None:
    entry = view.log.folder.local / "_delta_log" / f"{view.latest().version:020}.json"
    damage(entry)
    with pytest.raises(EngineError, match=f"{entry} cannot be read"):
        warehouse.view("orders").rows()


def test_nothing_is_removed_before_what_replaces_it_is_durable(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = load(Warehouse(tmp_path / "w"), spark, Rows.empty(SCHEMA))
    with view.writer("r") as writer:
        for number in range(1, 5):
            writer.commit(rows({(number, "x"): 1}), vector(number))
        view.fold(spark, "f")
        writer.commit(rows({(5, "x"): 1}), vector(5))
    done: list[tuple[str, Path]] = []
    sync, unlink = os.fsync, Path.unlink

    def noted_sync(descriptor: int) -> None:
        done.append(("sync", Path(f"/proc/self/fd/{descriptor}").readlink()))
        sync(descriptor)

    def noted_unlink(path: Path, missing_ok: bool = False) -> None:
        done.append(("remove", path))
        unlink(path, missing_ok)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(Path, "unlink", noted_unlink)
    view.clean_up(NOW, minimum_age=NOW)
    for log in (view.log, view.plain):
        entries = log.folder.local / "_delta_log"
        removed = min(
            at
            for at, found in enumerate(done)
            if found[0] == "remove" and found[1].match(f"{entries}/*.json")
        )
        (checkpoint,) = checkpoints(log)
        wanted = (checkpoint, hint(log), entries, log.folder.local)
        before = list(enumerate(done[:removed]))
        order = [max(at for at, found in before if found == ("sync", path)) for path in wanted]
        assert order == sorted(order)
        assert order[-1] < removed


def test_a_checkpoint_that_fails_costs_a_sentence_and_no_traceback(
    view: ViewTable, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*arguments: object, **options: object) -> None:
        raise DeltaError("Expected contiguous commit files, but found gap: 4049 -> 4051")

    monkeypatch.setattr(writing, "DeltaTable", fails)
    with view.writer("next") as writer:
        writer.commit(rows({(100, "y"): 1}), vector(100))
    view.log.try_checkpoint()
    (record,) = caplog.records[-1:]
    assert "found gap" in record.getMessage()
    assert record.exc_info is None
    with pytest.raises(EngineError, match="nothing was removed"):
        view.log.write_checkpoint(view.log.snapshot())


def test_a_listing_that_races_with_commits_is_not_an_error(
    warehouse: Warehouse, spark: SparkSession
) -> None:
    load(warehouse, spark, Rows.empty(SCHEMA))
    seen = 0
    with committing(warehouse, "fast") as process:
        read_numbers(process, 1)
        while seen < 300:
            view = warehouse.view("orders")
            number = view.latest().number
            assert number >= seen
            assert len(view.rows()) <= 1
            view.compact(at_least=16)
            seen = number
