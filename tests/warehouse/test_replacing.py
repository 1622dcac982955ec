"""A view that is loaded anew in place: one commit, whole for every reader, with its own columns."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import INT, TEXT, TIMESTAMP
from headwater.errors import FencedError
from headwater.frames.arrow import plain_from_arrow
from headwater.storage.location import Location
from headwater.warehouse.commits import LogLine, ViewCommit
from headwater.warehouse.delta_log import DeltaLog
from headwater.warehouse.folding import Unfolded
from headwater.warehouse.loads import ViewLoad
from headwater.warehouse.netting import local_frame
from headwater.warehouse.vectors import Reached, VersionVector
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse
from tests.warehouse.test_folding import plain_rows, spark_rows
from tests.warehouse.views import SCHEMA, definition, load, rows, vector

NOW = timedelta(0)
OTHER = Schema.of([("name", TEXT), ("total", INT), ("at", TIMESTAMP)])
CHANGE = rows({(1, "a"): -1, (5, "e"): 1})
NEW = rows({(7, "g"): 2, (1, "a"): 1})
LATER = rows({(7, "g"): -1, (8, "h"): 1})


@pytest.fixture
def view(warehouse: Warehouse, spark: SparkSession) -> ViewTable:
    """A view of three commits, whose tail has not been folded."""
    view = load(warehouse, spark, rows({(1, "a"): 2, (2, "b"): 1}))
    with view.writer("old") as writer:
        writer.commit(CHANGE, vector(1))
    return view


def replaced(
    view: ViewTable,
    spark: SparkSession,
    contents: Rows = NEW,
    at: VersionVector | None = None,
    key: Sequence[str] = (),
) -> ViewCommit:
    return view.replace(
        ViewLoad(
            definition("SELECT 2", schema=contents.schema),
            at or vector(40),
            local_frame(spark, contents),
            algorithm="sweep",
            level="complete",
            runner="reloader",
            key=tuple(key),
        )
    )


def killed(*arguments: Any) -> None:
    raise OSError("killed here")


def kill_before_the_plain_table_follows(
    view: ViewTable, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = DeltaLog.put

    def dies(
        self: DeltaLog, version: int, actions: list[LogLine], new: Sequence[Location] = ()
    ) -> bool:
        if self.folder != view.log.folder:
            killed()
        return put(self, version, actions, new)

    with monkeypatch.context() as patched:
        patched.setattr(DeltaLog, "put", dies)
        with pytest.raises(OSError, match="killed here"):
            replaced(view, spark)


def test_the_new_contents_replace_the_old_and_versions_go_on_counting(
    warehouse: Warehouse, view: ViewTable, spark: SparkSession
) -> None:
    before = [view.rows(number) for number in (1, 2, 3)]
    commit = replaced(view, spark)
    assert (commit.number, commit.kind, commit.vector, commit.rows) == (4, "load", vector(40), 3)
    for found in (view, warehouse.view("orders")):
        assert found.latest() == view.latest()
        assert (found.latest().number, found.latest().vector) == (4, vector(40))
        assert found.definition == definition("SELECT 2")
        assert found.rows() == found.rows(4) == plain_rows(found) == NEW
        assert spark_rows(found, spark) == NEW
        assert [found.rows(number) for number in (1, 2, 3)] == before
        assert [c.number for c in found.commits()] == [4, 3, 2, 1]
    assert view.tail().rows == 0
    assert plain_rows(view, 0) == before[0]


def test_maintenance_goes_on_from_the_new_contents(
    warehouse: Warehouse, view: ViewTable, spark: SparkSession
) -> None:
    replaced(view, spark)
    with view.writer("next") as writer:
        commit = writer.commit(LATER, vector(41))
        assert commit.number == 6
        assert view.rows() == NEW + LATER
        assert isinstance(view.fold(spark, "f"), ViewCommit)
        assert plain_rows(view) == view.rows() == NEW + LATER
        writer.commit(rows({(9, "i"): 1}), vector(42))
    again = warehouse.view("orders")
    assert [again.rows(n) for n in (4, 5, 6)] == [NEW, NEW, NEW + LATER]
    assert again.rows() == NEW + LATER + rows({(9, "i"): 1})
    assert [(c.number, c.kind) for c, _ in again.changes(0)] == [
        (4, "load"),
        (5, "open"),
        (6, "change"),
        (7, "change"),
    ]
    assert next(found for c, found in again.changes(0) if c.kind == "change") == LATER


def test_columns_key_and_sources_may_change_and_old_versions_keep_theirs(
    warehouse: Warehouse, view: ViewTable, spark: SparkSession
) -> None:
    contents = rows({("x", 3, None): 1, ("y", None, None): 1}, OTHER)
    at = {"stock": Reached(9, {"seq": 9})}
    replaced(view, spark, contents, at, key=["name"])
    again = warehouse.view("orders")
    assert (again.schema, again.key, again.sources) == (OTHER, ("name",), ("stock",))
    assert again.rows() == contents
    assert again.rows(1) == view.rows(1) == rows({(1, "a"): 2, (2, "b"): 1})
    assert spark_rows(again, spark, 3) == rows({(1, "a"): 1, (2, "b"): 1, (5, "e"): 1})
    change = rows({("y", None, None): -1, ("z", 1, None): 1}, OTHER)
    with again.writer("next") as writer:
        writer.commit(change, {"stock": Reached(10, {"seq": 10})})
        writer.commit(rows({("w", 1, None): 1}, OTHER), {"stock": Reached(11, {"seq": 11})})
    expected = contents + change + rows({("w", 1, None): 1}, OTHER)
    assert again.compact(at_least=2)
    assert again.rows() == expected
    assert isinstance(again.fold(spark, "f"), ViewCommit)
    table = DeltaTable(str(again.plain.folder.local))
    assert plain_from_arrow(table.to_pyarrow_table(), OTHER) == again.rows() == expected
    old = DeltaTable(str(again.plain.folder.local), version=0).to_pyarrow_table()
    assert old.column_names == list(SCHEMA.names)


def test_an_earlier_writer_cannot_commit_after_it(view: ViewTable, spark: SparkSession) -> None:
    writer = view.writer("old")
    contents = rows({("x", 3, None): 1}, OTHER)
    replaced(view, spark, contents)
    for _ in range(2):
        with pytest.raises(FencedError, match="taken over the view orders"):
            writer.commit(CHANGE, vector(2))
    assert view.rows() == contents


def test_whatever_is_committed_while_it_is_written_is_replaced_as_well(
    view: ViewTable, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = view.writer("old")
    put = DeltaLog.put

    def commit_first(
        self: DeltaLog, version: int, actions: list[LogLine], new: Sequence[Location] = ()
    ) -> bool:
        monkeypatch.setattr(DeltaLog, "put", put)
        writer.commit(CHANGE, vector(2))
        return put(self, version, actions, new)

    monkeypatch.setattr(DeltaLog, "put", commit_first)
    assert replaced(view, spark).number == 6
    assert view.rows() == plain_rows(view) == NEW
    with pytest.raises(FencedError):
        writer.commit(CHANGE, vector(3))


@pytest.mark.parametrize("table", ["log", "plain"])
def test_a_fold_of_the_old_contents_comes_too_late_or_is_replaced_too(
    view: ViewTable, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    """The load comes when the fold is about to commit, or the fold between the load's commits."""
    put = DeltaLog.put
    inner: list[ViewCommit | Unfolded | None] = []

    def load_first(
        self: DeltaLog, version: int, actions: list[LogLine], new: Sequence[Location] = ()
    ) -> bool:
        monkeypatch.setattr(DeltaLog, "put", put)
        inner.append(replaced(view, spark))
        return put(self, version, actions, new)

    def fold_between(
        self: DeltaLog, version: int, actions: list[LogLine], new: Sequence[Location] = ()
    ) -> bool:
        if self.folder == view.plain.folder:
            monkeypatch.setattr(DeltaLog, "put", put)
            with monkeypatch.context() as patched:
                patched.setattr("headwater.warehouse.folding.settle", lambda view: None)
                patched.setattr(ViewTable, "at", lambda self: state)
                inner.append(view.fold(spark, "inner"))
        return put(self, version, actions, new)

    state = view.at()
    if table == "log":
        monkeypatch.setattr(DeltaLog, "put", load_first)
        assert view.fold(spark, "outer") is None
    else:
        monkeypatch.setattr(DeltaLog, "put", fold_between)
        replaced(view, spark)
    assert isinstance(inner[0], ViewCommit)
    assert view.rows() == plain_rows(view) == NEW
    with view.writer("next") as writer:
        writer.commit(LATER, vector(41))
    assert view.rows() == NEW + LATER
    assert isinstance(view.fold(spark, "f"), ViewCommit)
    assert view.rows() == plain_rows(view) == NEW + LATER


def test_killed_before_it_is_decided_nothing_has_changed(
    warehouse: Warehouse, view: ViewTable, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, latest = view.rows(), view.latest()
    with monkeypatch.context() as patched:
        patched.setattr(ViewLoad, "log_table", killed)
        with pytest.raises(OSError, match="killed here"):
            replaced(view, spark)
    again = warehouse.view("orders")
    assert (again.rows(), again.latest(), again.definition) == (before, latest, definition())
    files = {path.name for path in again.plain.folder.local.glob("*.parquet")}
    assert files > {file.name for file in again.plain.snapshot().files}
    again.clean_up(NOW, minimum_age=NOW)
    files = {path.name for path in again.plain.folder.local.glob("*.parquet")}
    assert files == {file.name for file in again.plain.snapshot().files}
    assert again.rows() == before


def test_killed_when_it_is_decided_readers_see_the_new_contents(
    warehouse: Warehouse, view: ViewTable, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = plain_rows(view)
    kill_before_the_plain_table_follows(view, spark, monkeypatch)
    again = warehouse.view("orders")
    assert plain_rows(again) == start
    assert again.rows() == again.rows(4) == NEW
    assert spark_rows(again, spark) == NEW
    assert again.latest().vector == vector(40)
    assert again.rows(3) == view.rows(3)


@pytest.mark.parametrize("finish", ["writer", "fold", "clean_up", "replace"])
def test_the_plain_table_follows_when_anybody_works_on_the_view(
    warehouse: Warehouse,
    view: ViewTable,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    finish: str,
) -> None:
    kill_before_the_plain_table_follows(view, spark, monkeypatch)
    again = warehouse.view("orders")
    expected = NEW
    match finish:
        case "writer":
            again.writer("next").close()
        case "fold":
            assert again.fold(spark, "f") is None
        case "clean_up":
            again.clean_up(NOW, minimum_age=NOW)
        case "replace":
            expected = NEW + LATER
            replaced(again, spark, expected)
    assert again.rows() == plain_rows(again) == expected
    with again.writer("next") as writer:
        writer.commit(CHANGE, vector(41))
    assert warehouse.view("orders").rows() == expected + CHANGE


def test_a_writer_that_opens_meanwhile_goes_on_from_the_new_contents(
    view: ViewTable, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = DeltaLog.put

    def load_first(
        self: DeltaLog, version: int, actions: list[LogLine], new: Sequence[Location] = ()
    ) -> bool:
        monkeypatch.setattr(DeltaLog, "put", put)
        replaced(view, spark)
        return put(self, version, actions, new)

    monkeypatch.setattr(DeltaLog, "put", load_first)
    with view.writer("next") as writer:
        assert (writer.latest.number, writer.latest.vector) == (5, vector(40))
        writer.commit(LATER, vector(41))
    assert view.rows() == NEW + LATER
    assert view.rows(5) == NEW


def test_a_load_reads_whole_while_it_comes_between_both_tables(
    view: ViewTable, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_log = view.log.snapshot()
    replaced(view, spark)
    with monkeypatch.context() as patched:
        patched.setattr(view.log, "snapshot", lambda version=None: old_log)
        state = view.at()
    assert state.rows() == NEW
    assert (state.number, state.commit.vector) == (4, vector(40))


def test_clean_up_keeps_the_contents_of_a_load_as_long_as_its_version(
    warehouse: Warehouse, view: ViewTable, spark: SparkSession
) -> None:
    replaced(view, spark)
    with view.writer("next") as writer:
        view.clean_up(NOW, minimum_age=NOW)
        assert view.rows() == plain_rows(view) == NEW
        writer.commit(LATER, vector(41))
        view.fold(spark, "f")
        writer.commit(rows({(9, "i"): 1}), vector(42))
    view.clean_up(timedelta(days=1), minimum_age=NOW)
    assert view.rows(6) == NEW + LATER
    view.clean_up(NOW, minimum_age=NOW)
    assert view.rows() == NEW + LATER + rows({(9, "i"): 1})
    kept = {file.name for file in view.plain.snapshot().files}
    assert {path.name for path in view.plain.folder.local.glob("*.parquet")} == kept


def test_checkpoints_of_both_tables_hold_a_load(
    warehouse: Warehouse, view: ViewTable, spark: SparkSession
) -> None:
    replaced(view, spark)
    for log in (view.log, view.plain):
        log.write_checkpoint(log.snapshot())
        table = DeltaTable(str(log.folder.local))
        assert table.version() == log.snapshot().version
        assert table.history(1)[0]["headwater"]["kind"] == "load"
    assert warehouse.view("orders").rows() == NEW
