"""Small views are loaded and folded in memory: the same tables as by Spark, and no session."""

from pathlib import Path
from random import Random
from typing import NoReturn

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.frames import small
from headwater.frames.arrow import plain_from_arrow
from headwater.warehouse.commits import ViewCommit
from headwater.warehouse.folding import Unfolded
from headwater.warehouse.loads import ViewLoad
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse
from tests.warehouse import test_values as values
from tests.warehouse.views import SCHEMA, definition, load, rows, vector


def no_spark() -> NoReturn:
    raise AssertionError("this is to be done without Spark")


def in_memory(warehouse: Warehouse, contents: Rows, name: str) -> ViewTable:
    return warehouse.create(
        ViewLoad(
            definition("SELECT 1", name, contents.schema),
            vector(0),
            contents,
            algorithm="strobe",
            level="strong",
            runner="loader",
        )
    )


def plain_rows(view: ViewTable) -> Rows:
    """What other programs find in the plain table."""
    return plain_from_arrow(DeltaTable(str(view.plain.folder)).to_pyarrow_table(), view.schema)


def described(commit: object) -> tuple[object, ...]:
    assert isinstance(commit, ViewCommit)
    return commit.number, commit.kind, commit.vector, commit.rows, commit.base.number


def commit_to(views: list[ViewTable], change: Rows, number: int) -> None:
    for view in views:
        with view.writer("r") as writer:
            writer.commit(change, vector(number))


def test_every_type_of_value_is_loaded_and_folded_as_by_spark(
    tmp_path: Path, spark: SparkSession
) -> None:
    warehouse = Warehouse(tmp_path / "warehouse", durable=False)
    start = rows(values.ALL, values.SCHEMA)
    ours, sparks = in_memory(warehouse, start, "ours"), load(warehouse, spark, start, "sparks")
    assert described(ours.plain_commit(ours.plain.snapshot())) == described(
        sparks.plain_commit(sparks.plain.snapshot())
    )
    assert plain_rows(ours) == plain_rows(sparks) == start
    assert values.collected(ours.dataframe(spark)) == start
    change = {values.NULLS: -1, values.EXTREME: 2, values.LEAST: -2, values.EVERYDAY: -1}
    commit_to([ours, sparks], rows(change, values.SCHEMA), 1)
    expected = ours.rows()
    assert described(ours.fold(no_spark, "f")) == described(sparks.fold(spark, "f"))
    for view in (ours, sparks):
        assert view.tail().files == 0
        assert view.rows() == plain_rows(view) == expected
        assert values.collected(view.dataframe(spark)) == expected


def test_random_changes_are_folded_as_by_spark(warehouse: Warehouse, spark: SparkSession) -> None:
    random = Random(4)
    start = rows({(n, random.choice(["a", None])): n % 3 + 1 for n in range(4)})
    views = [in_memory(warehouse, start, "ours"), load(warehouse, spark, start, "sparks")]
    for number in range(1, 9):
        change = {(random.randrange(4), random.choice(["a", None])): random.choice([-1, 1, 2])}
        commit_to(views, rows(change), number)
        ours, sparks = views[0].fold(no_spark, "f"), views[1].fold(spark, "f")
        assert isinstance(ours, Unfolded) == bool(views[0].at().signed_rows().negative())
        assert isinstance(ours, Unfolded) == isinstance(sparks, Unfolded)
        assert plain_rows(views[0]) == plain_rows(views[1])
    assert views[0].at().signed_rows() == views[1].at().signed_rows()


def test_an_empty_view_is_loaded_fills_and_becomes_empty_again(warehouse: Warehouse) -> None:
    view = in_memory(warehouse, Rows.empty(SCHEMA), "ours")
    assert view.plain.snapshot().files == ()
    for number, counts in enumerate([{(1, "a"): 2}, {(1, "a"): -2}], 1):
        commit_to([view], rows(counts), number)
        assert isinstance(view.fold(no_spark, "f"), ViewCommit)
        assert plain_rows(view) == view.rows()
    assert view.plain.snapshot().files == ()


def test_a_vector_that_moved_on_without_rows_is_folded_without_writing_a_file(
    warehouse: Warehouse,
) -> None:
    view = in_memory(warehouse, rows({(1, "a"): 1}), "ours")
    files = view.plain.snapshot().files
    with view.writer("r") as writer:
        writer.commit(Rows.empty(SCHEMA), vector(7), kind="vector")
    commit = view.fold(no_spark, "f")
    assert isinstance(commit, ViewCommit)
    assert commit.vector == vector(7)
    assert view.plain.snapshot().files == files


def test_older_versions_stay_readable_behind_a_fold_in_memory(warehouse: Warehouse) -> None:
    view = in_memory(warehouse, rows({(1, "a"): 2}), "ours")
    commit_to([view], rows({(1, "a"): -1, (2, "b"): 1}), 1)
    before = view.latest().number
    assert isinstance(view.fold(no_spark, "f"), ViewCommit)
    commit_to([view], rows({(2, "b"): 1}), 2)
    assert view.rows(1) == rows({(1, "a"): 2})
    assert view.rows(before) == rows({(1, "a"): 1, (2, "b"): 1})
    assert view.rows() == rows({(1, "a"): 1, (2, "b"): 2})


@pytest.mark.parametrize("bound", ["ROWS", "BYTES"])
def test_a_view_that_is_not_small_is_folded_on_spark(
    warehouse: Warehouse, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    view = in_memory(warehouse, rows({(1, "a"): 2}), "ours")
    commit_to([view], rows({(1, "a"): -1}), 1)
    monkeypatch.setattr(small, bound, 1)
    with pytest.raises(AssertionError, match="without Spark"):
        view.fold(no_spark, "f")
    assert isinstance(view.fold(lambda: spark, "f"), ViewCommit)
    assert plain_rows(view) == rows({(1, "a"): 1})


def test_a_view_is_loaded_anew_in_memory(warehouse: Warehouse) -> None:
    view = in_memory(warehouse, rows({(1, "a"): 2}), "ours")
    commit_to([view], rows({(2, "b"): 1}), 1)
    contents = rows({(3, None): 2, (4, "d"): 1})
    commit = view.replace(
        ViewLoad(definition("SELECT 2", "ours"), vector(5), contents, "a", "strong", "r")
    )
    assert view.rows() == plain_rows(view) == contents
    assert view.rows(commit.number - 1) == rows({(1, "a"): 2, (2, "b"): 1})
