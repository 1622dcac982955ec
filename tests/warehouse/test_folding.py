import json
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.errors import EngineError, FencedError, InputError
from headwater.frames.arrow import from_arrow, plain_from_arrow
from headwater.frames.columns import FEW
from headwater.storage.location import Location
from headwater.warehouse import folding, states
from headwater.warehouse.commits import LogLine, ViewCommit
from headwater.warehouse.delta_log import DeltaLog, entry_of
from headwater.warehouse.folding import Unfolded
from headwater.warehouse.netting import local_frame
from headwater.warehouse.vectors import VersionVector
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse
from tests.warehouse.views import SCHEMA, load, rows, vector

NOW = timedelta(0)


def plain_rows(view: ViewTable, version: int | None = None) -> Rows:
    table = DeltaTable(str(view.plain.folder.local), version=version).to_pyarrow_table()
    return plain_from_arrow(table, SCHEMA)


def spark_rows(view: ViewTable, spark: SparkSession, number: int | None = None) -> Rows:
    return plain_from_arrow(view.dataframe(spark, number).toArrow(), SCHEMA)


@pytest.fixture
def view(warehouse: Warehouse, spark: SparkSession) -> ViewTable:
    return load(warehouse, spark, rows({(1, "a"): 2, (2, "b"): 1, (3, None): 1}))


def test_commits_that_only_add_hide_nothing_of_what_went(
    view: ViewTable, spark: SparkSession
) -> None:
    added = rows({(n, "x"): 1 for n in range(100, 100 + FEW)})
    with view.writer("r") as writer:
        for at, change in enumerate((rows({(1, "a"): -1}), added, rows({(2, "b"): -1})), 1):
            writer.commit(change, vector(at))
    assert spark_rows(view, spark) == view.rows()
    assert isinstance(view.fold(spark, "f"), ViewCommit)
    assert plain_rows(view) == view.rows()


def test_a_fold_without_deletions_only_adds_files(view: ViewTable, spark: SparkSession) -> None:
    before = set(view.plain.snapshot().files)
    with view.writer("r") as writer:
        writer.commit(rows({(1, "a"): 1, (9, "x"): 2, (2, "b"): -1}), vector(1))
        writer.commit(rows({(2, "b"): 1}), vector(2))
    expected = view.rows()
    commit = view.fold(spark, "f")
    assert isinstance(commit, ViewCommit)
    assert (commit.number, commit.kind, commit.vector) == (4, "fold", vector(2))
    assert plain_rows(view) == view.rows() == spark_rows(view, spark) == expected
    assert before < set(view.plain.snapshot().files)
    assert view.plain_commit(view.plain.snapshot()) is not None
    assert view.log.snapshot().files == ()
    assert view.fold(spark, "f") is None


def test_a_fold_with_deletions_rewrites_only_the_files_they_are_in(
    view: ViewTable, spark: SparkSession
) -> None:
    writer = view.writer("r")
    writer.commit(rows({(number, "new"): 1 for number in range(20)}), vector(1))
    view.fold(spark, "f")
    files = set(view.plain.snapshot().files)
    writer.commit(rows({(5, "new"): -1, (6, "new"): -1, (7, "newer"): 1}), vector(2))
    expected = view.rows()
    assert view.fold(spark, "f") is not None
    assert plain_rows(view) == view.rows() == expected
    assert len(files & set(view.plain.snapshot().files)) == len(files) - 1


def test_one_of_several_copies_and_rows_with_null_can_be_deleted(
    view: ViewTable, spark: SparkSession
) -> None:
    with view.writer("r") as writer:
        writer.commit(rows({(1, "a"): -1, (3, None): -1}), vector(1))
    expected = rows({(1, "a"): 1, (2, "b"): 1})
    assert spark_rows(view, spark) == expected
    view.fold(spark, "f")
    assert plain_rows(view) == expected


def test_a_view_may_become_empty_and_fill_again(view: ViewTable, spark: SparkSession) -> None:
    writer = view.writer("r")
    writer.commit(-view.rows(), vector(1))
    view.fold(spark, "f")
    assert view.plain.snapshot().files == ()
    assert spark_rows(view, spark) == Rows.empty(SCHEMA)
    writer.commit(rows({(1, "a"): 1}), vector(2))
    assert spark_rows(view, spark) == rows({(1, "a"): 1})
    view.fold(spark, "f")
    assert plain_rows(view) == rows({(1, "a"): 1})


def test_a_count_below_zero_waits_for_its_other_half(view: ViewTable, spark: SparkSession) -> None:
    writer = view.writer("r")
    start = view.rows()
    writer.commit(rows({(7, "late"): -1, (2, "b"): -2}), vector(1))
    waiting = view.fold(spark, "f")
    assert isinstance(waiting, Unfolded)
    assert "stays at version 1: at version 3 some rows have a count below zero" in waiting.reason
    assert plain_rows(view) == start
    assert view.rows() == spark_rows(view, spark) == rows({(1, "a"): 2, (3, None): 1})
    signed = from_arrow(view.at().signed(spark).toArrow(), SCHEMA)
    assert signed == view.at().signed_rows() == start + rows({(7, "late"): -1, (2, "b"): -2})
    writer.commit(rows({(7, "late"): 1, (2, "b"): 1}), vector(2))
    assert view.fold(spark, "f") is not None
    assert plain_rows(view) == rows({(1, "a"): 2, (3, None): 1})


def _whole(number: int) -> VersionVector:
    return {source: replace(reached, also=()) for source, reached in vector(number).items()}


def test_what_is_taken_away_early_is_no_fault_and_what_came_before_is_folded(
    view: ViewTable, spark: SparkSession
) -> None:
    writer = view.writer("r")
    writer.commit(rows({(4, "d"): 1}), _whole(1))
    whole = view.rows()
    writer.commit(rows({(7, "late"): -1}), vector(1))
    assert isinstance(view.fold(spark, "f"), ViewCommit)
    assert plain_rows(view) == whole
    waiting = view.fold(spark, "f")
    assert isinstance(waiting, Unfolded)
    assert not waiting.is_unsound
    writer.commit(rows({(8, "lost"): -1}), _whole(3))
    waiting = view.fold(spark, "f")
    assert isinstance(waiting, Unfolded)
    assert waiting.is_unsound


def test_a_tail_of_thousands_of_rows_that_takes_one_away_is_folded(
    view: ViewTable, spark: SparkSession
) -> None:
    """Long enough to be held by columns, and short enough to be summed up in memory."""
    with view.writer("r") as writer:
        writer.commit(
            rows({(1, "a"): -1, **{(number, "new"): 1 for number in range(FEW + 1)}}), vector(1)
        )
    expected = view.rows()
    assert isinstance(view.fold(spark, "f"), ViewCommit)
    assert plain_rows(view) == expected


def test_every_version_stays_readable_across_folds(view: ViewTable, spark: SparkSession) -> None:
    writer = view.writer("r")
    expected = {1: view.rows(), 2: view.rows()}
    for number in range(1, 9):
        change = rows({(number, "x"): 1, (number - 1, "x"): -1 if number > 1 else 1})
        commit = writer.commit(change, vector(number))
        expected[commit.number] = expected[commit.number - 1] + change
        if number % 3 == 0:
            assert view.fold(spark, "f") is not None
        if number == 7:
            assert view.compact(at_least=1)
    assert {number: view.rows(number) for number in expected} == expected
    for number in (2, 5, 6, 10):
        assert spark_rows(view, spark, number) == expected[number]
    assert [plain_rows(view, version) for version in range(3)] == [
        expected[1],
        expected[5],
        expected[8],
    ]


def test_a_vector_alone_is_folded_too_and_an_opening_is_not(
    view: ViewTable, spark: SparkSession
) -> None:
    writer = view.writer("r")
    assert view.fold(spark, "f") is None
    writer.commit(Rows.empty(SCHEMA), vector(3), kind="vector")
    commit = view.fold(spark, "f")
    assert isinstance(commit, ViewCommit)
    assert (commit.vector, commit.rows) == (vector(3), 0)


def test_a_fold_between_reading_the_log_and_the_plain_table_is_not_seen_twice(
    view: ViewTable, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = view.writer("r")
    writer.commit(rows({(1, "a"): -1, (8, "x"): 1}), vector(1))
    expected = view.rows()
    pinned = view.log.snapshot()
    assert view.fold(spark, "f") is not None
    newer = writer.commit(rows({(9, "y"): 1}), vector(2))
    monkeypatch.setattr(view.log, "snapshot", lambda version=None: pinned)
    assert view.rows() == expected
    monkeypatch.undo()
    assert view.fold(spark, "f") is not None
    monkeypatch.setattr(view.log, "snapshot", lambda version=None: pinned)
    state = view.at()
    assert state.rows() == expected + rows({(9, "y"): 1})
    assert (state.number, state.commit.vector) == (newer.number, vector(2))


def test_of_two_folds_at_once_one_gives_up(
    view: ViewTable, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = view.writer("r")
    writer.commit(rows({(1, "a"): -1, (8, "x"): 1}), vector(1))
    expected = view.rows()
    put = DeltaLog.put
    inner = []

    def second_fold_first(
        self: DeltaLog, version: int, actions: list[LogLine], new: Sequence[Location] = ()
    ) -> bool:
        monkeypatch.setattr(DeltaLog, "put", put)
        inner.append(view.fold(spark, "inner"))
        return put(self, version, actions, new)

    monkeypatch.setattr(DeltaLog, "put", second_fold_first)
    assert view.fold(spark, "outer") is None
    assert inner[0] is not None
    assert plain_rows(view) == view.rows() == expected
    assert {p.name for p in view.plain.folder.local.glob("*.parquet")} >= {
        file.name for file in view.plain.snapshot().files
    }


def test_a_writer_commits_while_a_fold_is_under_way(
    view: ViewTable, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = view.writer("r")
    writer.commit(rows({(8, "x"): 1}), vector(1))
    put = DeltaLog.put
    later = rows({(8, "x"): -1, (9, "y"): 1})

    def commit_first(
        self: DeltaLog, version: int, actions: list[LogLine], new: Sequence[Location] = ()
    ) -> bool:
        monkeypatch.setattr(DeltaLog, "put", put)
        writer.commit(later, vector(2))
        monkeypatch.setattr(DeltaLog, "put", commit_before_clean)
        return put(self, version, actions, new)

    def commit_before_clean(
        self: DeltaLog, version: int, actions: list[LogLine], new: Sequence[Location] = ()
    ) -> bool:
        monkeypatch.setattr(DeltaLog, "put", put)
        writer.commit(rows({(10, "z"): 1}), vector(3))
        return put(self, version, actions, new)

    expected = view.rows()
    monkeypatch.setattr(DeltaLog, "put", commit_first)
    assert view.fold(spark, "f") is not None
    assert plain_rows(view) == expected
    assert view.rows() == expected + later + rows({(10, "z"): 1})
    last = writer.commit(rows({(11, "z"): 1}), vector(4))
    assert (last.number, last.base.number) == (6, 3)
    assert [view.rows(number) for number in (3, 4)] == [expected, expected + later]


def test_a_fold_killed_half_way_is_finished_by_the_next(
    view: ViewTable, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = view.writer("r")
    writer.commit(rows({(1, "a"): -1, (8, "x"): 1}), vector(1))
    expected = view.rows()

    def killed(view: ViewTable) -> None:
        raise OSError("killed here")

    monkeypatch.setattr(folding, "remove_folded", killed)
    with pytest.raises(OSError, match="killed here"):
        view.fold(spark, "f")
    monkeypatch.undo()
    assert view.log.snapshot().files != ()
    assert plain_rows(view) == view.rows() == spark_rows(view, spark) == expected
    writer.commit(rows({(9, "y"): 1}), vector(2))
    assert view.rows() == expected + rows({(9, "y"): 1})
    view.fold(spark, "f")
    assert view.log.snapshot().files == ()
    assert plain_rows(view) == view.rows() == expected + rows({(9, "y"): 1})


def test_a_long_tail_is_summed_up_on_spark(
    view: ViewTable, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states, "SMALL_TAIL", 3)
    writer = view.writer("r")
    change = rows({(1, "a"): -2, (3, None): -1, **{(n, "n"): n for n in range(5, 9)}})
    writer.commit(local_frame(spark, change), vector(1))
    expected = view.rows()
    assert spark_rows(view, spark) == expected
    assert view.fold(spark, "f") is not None
    assert plain_rows(view) == expected


def test_many_small_plain_files_are_merged_by_a_fold(
    view: ViewTable, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folding, "MANY_SMALL_FILES", 3)
    writer = view.writer("r")
    for number in range(4):
        writer.commit(rows({(number, "n"): 1}), vector(number + 1))
        view.fold(spark, "f")
    assert len(view.plain.snapshot().files) <= 3
    assert plain_rows(view) == view.rows()


def test_compaction_gives_up_when_its_files_are_gone(
    view: ViewTable, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = view.writer("r")
    for number in range(5):
        writer.commit(rows({(number, "n"): 1}), vector(number + 1))
    expected = view.rows()
    assert not view.compact(at_least=6)
    put = DeltaLog.put

    def fold_first(
        self: DeltaLog, version: int, actions: list[LogLine], new: Sequence[Location] = ()
    ) -> bool:
        monkeypatch.setattr(DeltaLog, "put", put)
        view.fold(spark, "f")
        return put(self, version, actions, new)

    monkeypatch.setattr(DeltaLog, "put", fold_first)
    assert not view.compact(at_least=2)
    assert view.log.snapshot().files == ()
    assert view.rows() == expected


def test_a_compacted_file_that_is_partly_folded_counts_once(
    view: ViewTable, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = view.writer("r")
    for number in range(3):
        writer.commit(rows({(number, "n"): 1}), vector(number + 1))
    put = DeltaLog.put

    def compact_after_another_commit(
        self: DeltaLog, version: int, actions: list[LogLine], new: Sequence[Location] = ()
    ) -> bool:
        monkeypatch.setattr(DeltaLog, "put", put)
        writer.commit(rows({(3, "n"): 1}), vector(4))
        assert view.compact(at_least=2)
        return put(self, version, actions, new)

    monkeypatch.setattr(DeltaLog, "put", compact_after_another_commit)
    assert view.fold(spark, "f") is not None
    assert len(view.log.snapshot().files) == 1
    expected = rows({(1, "a"): 2, (2, "b"): 1, (3, None): 1, **{(n, "n"): 1 for n in range(4)}})
    assert view.rows() == spark_rows(view, spark) == expected
    assert view.fold(spark, "f") is not None
    assert view.log.snapshot().files == ()
    assert view.rows() == expected


def test_clean_up_forgets_old_versions_and_says_so(view: ViewTable, spark: SparkSession) -> None:
    writer = view.writer("r")
    for number in range(1, 6):
        writer.commit(rows({(number, "n"): 1, (1, "a"): -1 if number == 2 else 1}), vector(number))
        if number in (2, 4):
            view.fold(spark, "f")
    expected = view.rows()
    uncommitted = view.log.folder.local / "about-to-be-committed.parquet"
    uncommitted.write_bytes(b"")
    view.clean_up(timedelta(days=1))
    assert view.rows(1) == rows({(1, "a"): 2, (2, "b"): 1, (3, None): 1})
    assert uncommitted.exists()
    view.clean_up(NOW, minimum_age=NOW)
    assert not uncommitted.exists()
    assert view.rows() == view.rows(7) == plain_rows(view) + rows({(5, "n"): 1, (1, "a"): 1})
    assert view.latest().vector == vector(5)
    for number in (1, 6):
        with pytest.raises(InputError, match=r"cleaned up.* can still be read is 7"):
            view.rows(number)
    kept = {file.name for file in view.plain.snapshot().files}
    assert {path.name for path in view.plain.folder.local.glob("*.parquet")} == kept
    writer.commit(rows({(6, "n"): 1}), vector(6))
    assert view.rows() == expected + rows({(6, "n"): 1})
    view.clean_up(NOW, minimum_age=NOW)
    assert view.rows() == expected + rows({(6, "n"): 1})


def test_a_writer_that_slept_through_a_clean_up_goes_on_unless_it_was_replaced(
    view: ViewTable, warehouse: Warehouse, spark: SparkSession
) -> None:
    sleeper = view.writer("sleeper")
    sleeper.commit(rows({(8, "x"): 1}), vector(1))
    view.fold(spark, "f")
    view.clean_up(NOW, minimum_age=NOW)
    sleeper.commit(rows({(9, "y"): 1}), vector(2))
    expected = view.rows()
    with warehouse.view("orders").writer("other") as other:
        for number in range(3):
            other.commit(Rows.empty(SCHEMA), vector(3 + number))
    view.clean_up(NOW, minimum_age=NOW)
    assert view.log.oldest() > 5
    entries = set(Path(view.log.folder.local / "_delta_log").iterdir())
    with pytest.raises(FencedError):
        sleeper.commit(rows({(10, "z"): 1}), vector(3))
    assert set(Path(view.log.folder.local / "_delta_log").iterdir()) == entries
    assert view.rows() == expected


def test_clean_up_removes_what_a_job_that_died_left_behind(
    view: ViewTable, spark: SparkSession
) -> None:
    running, dead = view.staging.local / "running", view.staging.local / "dead"
    for folder in (running, dead):
        (folder / "_temporary").mkdir(parents=True)
    for path in (dead / "_temporary", dead):
        os.utime(path, (0, 0))
    view.clean_up(NOW)
    assert running.exists()
    assert not dead.exists()


def test_plain_tables_are_checkpointed(
    view: ViewTable, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folding, "CHECKPOINT_EVERY", 1)
    view.writer("r").commit(Rows.empty(SCHEMA), vector(1), kind="vector")
    assert view.fold(spark, "f") is not None
    assert view.plain.has_checkpoint(1)
    assert view.plain.snapshot().number == 3


def test_a_plain_table_with_deletion_vectors_is_refused(
    view: ViewTable, spark: SparkSession
) -> None:
    entry = view.plain.folder.local / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in entry.read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            features = ["deletionVectors"]
            action["protocol"] = {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": features,
                "writerFeatures": features,
            }
    entry.write_bytes(entry_of(actions))
    with pytest.raises(EngineError, match="deletion vectors"):
        view.rows()


def test_a_view_with_a_key_is_read_in_one_pass(warehouse: Warehouse, spark: SparkSession) -> None:
    contents = rows({(1, "a"): 1, (2, None): 1, (3, "c"): 1, (4, "d"): 1})
    view = load(warehouse, spark, contents, key=SCHEMA.names[:1])
    with view.writer("r") as writer:
        writer.commit(rows({(2, None): -1, (5, "e"): 1, (3, "c"): -1}), vector(1))
        writer.commit(rows({(5, "e"): -1, (4, "d"): -1, (4, "D"): 1}), vector(2))
    expected = rows({(1, "a"): 1, (4, "D"): 1})
    assert view.rows() == expected
    assert spark_rows(view, spark) == expected
    assert view.fold(spark, "f") is not None
    assert plain_rows(view) == expected
