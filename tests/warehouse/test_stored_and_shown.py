"""Views with a top: what is stored is maintained, and what is shown is a function of it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import NoReturn

import pyarrow.compute
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.errors import EngineError, ExpressionError, InputError
from headwater.frames.arrow import from_arrow, plain_from_arrow
from headwater.storage.location import Location
from headwater.warehouse import folding, remaking
from headwater.warehouse.commits import LogLine, ViewCommit
from headwater.warehouse.delta_log import DeltaLog
from headwater.warehouse.failing import failure
from headwater.warehouse.folding import Unfolded
from headwater.warehouse.loads import Shown
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse
from tests.warehouse import topped
from tests.warehouse.topped import rows, vector

START = rows({("a", 1): 2, ("a", 5): 1, ("b", 7): 1, (None, 2): 1})
CHANGES = (
    rows({("a", 1): -1, ("c", 3): 1}),
    rows({("b", 7): -1, (None, 4): 1}),
    rows({("c", 3): -1, ("a", 9): 2}),
)
NAMES = ("totals", "greatest", "sums")


def no_spark() -> NoReturn:
    raise AssertionError("this is to be done without Spark")


def plain_rows(view: ViewTable, version: int | None = None) -> Rows:
    table = DeltaTable(str(view.plain.folder.local), version=version).to_pyarrow_table()
    return plain_from_arrow(table, topped.view(view.name).shown_schema)


def on_spark(view: ViewTable, spark: SparkSession, number: int | None = None) -> Rows:
    schema = topped.view(view.name).shown_schema
    return plain_from_arrow(view.dataframe(spark, number).toArrow(), schema)


def committed(view: ViewTable, start: Rows = START) -> dict[int, Rows]:
    """What is to be shown after each commit of a view that has just been loaded."""
    stored, show = start, topped.view(view.name).shown
    found = {1: show(stored), 2: show(stored)}
    with view.writer("r") as writer:
        for at, change in enumerate(CHANGES, 1):
            stored = stored + change
            change = topped.view(view.name).stored(change)
            found[writer.commit(change, vector(at)).number] = show(stored)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_load_stores_the_parts_and_shows_the_top(warehouse: Warehouse, name: str) -> None:
    view = topped.load(warehouse, name, START)
    assert view.schema == topped.view(name).stored_schema
    assert view.at().stored_rows() == topped.view(name).stored(START)
    assert plain_rows(view) == view.rows() == topped.view(name).shown(START)


@pytest.mark.parametrize("name", NAMES)
def test_every_version_is_read_in_memory_and_on_spark(
    warehouse: Warehouse, spark: SparkSession, name: str
) -> None:
    view = topped.load(warehouse, name, START)
    expected = committed(view)
    assert {number: view.rows(number) for number in expected} == expected
    assert view.rows() == on_spark(view, spark) == expected[5]
    assert on_spark(view, spark, 4) == expected[4]


@pytest.mark.parametrize("name", NAMES)
def test_a_fold_brings_the_plain_table_and_the_stored_parts_up(
    warehouse: Warehouse, spark: SparkSession, name: str
) -> None:
    view = topped.load(warehouse, name, START)
    expected = committed(view)
    folded = view.fold(no_spark if name == "greatest" else spark, "f")
    assert isinstance(folded, ViewCommit)
    assert plain_rows(view) == view.rows() == expected[5]
    stored = topped.view(name).stored(START + Rows.sum(topped.SCHEMA, CHANGES))
    assert view.at().stored_rows() == stored
    assert view.log.snapshot().files == ()
    assert {number: view.rows(number) for number in expected} == expected


def test_a_fold_killed_before_the_plain_table_names_its_parts_counts_for_nothing(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = topped.load(warehouse, "totals", START)
    expected = committed(view)
    put = DeltaLog.put

    def killed(
        self: DeltaLog, version: int, actions: Sequence[LogLine], new: Sequence[Location] = ()
    ) -> bool:
        if self.folder == view.plain.folder:
            raise OSError("killed here")
        return put(self, version, actions, new)

    monkeypatch.setattr(DeltaLog, "put", killed)
    with pytest.raises(OSError, match="killed here"):
        view.fold(no_spark, "f")
    assert view.stored.snapshot().version == 1
    monkeypatch.setattr(DeltaLog, "put", put)
    assert view.at().stored_rows() == START
    assert view.rows() == expected[5]
    with view.writer("r") as writer:
        writer.commit(rows({("b", 8): 1}), vector(9))
    assert isinstance(view.fold(no_spark, "f"), ViewCommit)
    stored = START + Rows.sum(topped.SCHEMA, CHANGES) + rows({("b", 8): 1})
    assert view.at().stored_rows() == stored
    assert plain_rows(view) == view.rows() == topped.view("totals").shown(stored)


def test_a_fold_killed_before_the_log_lets_go_shows_nothing_twice(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = topped.load(warehouse, "totals", START)
    expected = committed(view)

    def killed(view: ViewTable) -> None:
        raise OSError("killed here")

    monkeypatch.setattr(folding, "remove_folded", killed)
    with pytest.raises(OSError, match="killed here"):
        view.fold(no_spark, "f")
    assert plain_rows(view) == view.rows() == expected[5]
    monkeypatch.undo()
    assert view.fold(no_spark, "f") is None
    assert view.log.snapshot().files == ()
    assert view.rows() == expected[5]


def test_with_a_key_only_files_with_touched_rows_are_written_anew(
    warehouse: Warehouse, spark: SparkSession
) -> None:
    view = topped.load(warehouse, "totals", START)
    writer = view.writer("r")
    writer.commit(rows({("x", 1): 1}), vector(1))
    view.fold(spark, "f")
    first, second = (table.snapshot().files for table in (view.plain, view.stored))
    writer.commit(rows({("x", 1): -1, ("x", 2): 1}), vector(2))
    assert isinstance(view.fold(spark, "f"), ViewCommit)
    assert set(first) & set(view.plain.snapshot().files)
    assert set(second) & set(view.stored.snapshot().files)
    expected = topped.view("totals").shown(START + rows({("x", 2): 1}))
    assert plain_rows(view) == on_spark(view, spark) == expected


def test_a_plain_table_that_lacks_what_its_parts_show_is_not_built_on(
    warehouse: Warehouse, spark: SparkSession
) -> None:
    view = warehouse.create(
        replace(
            topped.load_of("totals", START),
            shown=Shown(
                topped.view("totals").shown_schema, Rows.empty(topped.view("totals").shown_schema)
            ),
        )
    )
    with view.writer("r") as writer:
        writer.commit(rows({("a", 1): -1}), vector(1))
    with pytest.raises(EngineError, match="lacks rows that its stored parts show"):
        view.dataframe(spark)


def test_a_fold_stops_where_nothing_is_above_the_watermarks(warehouse: Warehouse) -> None:
    view = topped.load(warehouse, "totals", START)
    with view.writer("r") as writer:
        whole = writer.commit(CHANGES[0], vector(1))
        writer.commit(CHANGES[1], vector(1, 3))
    folded = view.fold(no_spark, "f")
    assert isinstance(folded, ViewCommit)
    assert (folded.number, folded.vector) == (whole.number, vector(1))
    assert plain_rows(view) == topped.view("totals").shown(START + CHANGES[0])
    assert view.fold(no_spark, "f") is None
    with view.writer("r") as writer:
        writer.commit(CHANGES[2], vector(3))
    view.fold(no_spark, "f")
    assert plain_rows(view) == topped.view("totals").shown(START + Rows.sum(topped.SCHEMA, CHANGES))


@pytest.mark.parametrize("engine", ["memory", "spark"])
def test_while_the_top_fails_readers_keep_the_state_before_and_correcting_the_row_heals(
    warehouse: Warehouse, spark: SparkSession, engine: str
) -> None:
    view, show = topped.load(warehouse, "shares", START), topped.view("shares").shown
    session = spark if engine == "spark" else no_spark

    def read() -> Rows:
        return on_spark(view, spark) if engine == "spark" else view.rows()

    writer = view.writer("r")
    writer.commit(CHANGES[0], vector(1))
    good = show(START + CHANGES[0])
    bad = writer.commit(rows({("z", 0): 1}), vector(2))
    later = writer.commit(CHANGES[1], vector(3))
    assert read() == good
    assert "division by zero" in failure(view)
    with pytest.raises(ExpressionError, match="division by zero"):
        view.rows(bad.number)
    waiting = view.fold(session, "f")
    assert isinstance(waiting, Unfolded)
    assert not waiting.is_unsound
    assert f"stays at version {bad.number - 1}: at version {later.number}" in waiting.reason
    assert plain_rows(view) == read() == good
    writer.commit(rows({("z", 0): -1, ("z", 2): 1}), vector(4))
    healed = show(START + CHANGES[0] + CHANGES[1] + rows({("z", 2): 1}))
    assert read() == healed
    assert not failure(view)
    assert isinstance(view.fold(session, "f"), ViewCommit)
    assert plain_rows(view) == healed


@pytest.mark.parametrize("name", NAMES)
def test_changes_between_versions_are_what_is_shown_there_subtracted(
    warehouse: Warehouse, spark: SparkSession, name: str
) -> None:
    view = topped.load(warehouse, name, START)
    expected = committed(view)
    for first, last in ((1, 5), (2, 3), (4, 5), (5, 3)):
        changed = expected[last] - expected[first]
        assert view.shown_changes(first, last, no_spark) == changed
    assert view.shown_changes(3, None, spark).sorted_items() == (
        (expected[5] - expected[3]).sorted_items()
    )
    view.fold(no_spark, "f")
    assert view.shown_changes(3, 5, no_spark) == expected[5] - expected[3]


def test_a_view_of_other_columns_has_no_changes_from_what_it_was(warehouse: Warehouse) -> None:
    view = topped.load(warehouse, "totals", START)
    definition = replace(topped.load_of("totals", START).definition, layout="")
    load = replace(topped.load_of("totals", START), definition=definition, shown=None)
    view.replace(load)
    assert view.rows() == START
    assert view.rows(1) == topped.view("totals").shown(START)
    with pytest.raises(InputError, match=r"have other columns\. .* new checkpointLocation"):
        view.shown_changes(1, None, no_spark)


def feed(view: ViewTable) -> dict[int, Rows]:
    """What the table of changes has up to each version, added up."""
    folder = f"{view.plain.folder.local}_changes"
    table = DeltaTable(folder).to_pyarrow_table().sort_by("_version")
    schema, found = topped.view(view.name).shown_schema, {}
    state = Rows.empty(schema)
    for version in dict.fromkeys(table.column("_version").to_pylist()):
        part = table.filter(pyarrow.compute.field("_version") == version)
        state = state + from_arrow(part.select([*schema.names, "_change"]), schema)
        found[version] = state
    return found


@pytest.mark.parametrize("engine", ["memory", "spark"])
def test_the_table_of_changes_adds_up_to_every_published_version(
    warehouse: Warehouse, spark: SparkSession, engine: str
) -> None:
    session = spark if engine == "spark" else no_spark
    view = topped.load(warehouse, "totals", START)
    expected = {1: view.rows()}
    view.follow_changes(session)
    with view.writer("r") as writer:
        for at, change in enumerate(CHANGES, 1):
            number = writer.commit(change, vector(at)).number
            expected[number] = view.rows()
            view.fold(no_spark, "f")
            if at != 2:  # once it is left out, as by a crash
                view.follow_changes(session)
    assert feed(view) == expected
    assert {folder.name for folder in warehouse.drop("totals")} == {"totals", "totals_changes"}


def test_the_table_of_changes_of_a_drop_that_was_killed_is_gone_with_the_next_load(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = topped.load(warehouse, "totals", START)
    view.follow_changes(no_spark)
    throw_away = remaking.throw_away

    def killed(log: DeltaLog, trash: Location) -> None:
        if log.folder.name == "totals_changes":
            raise KeyboardInterrupt
        throw_away(log, trash)

    with monkeypatch.context() as patch:
        patch.setattr("headwater.warehouse.warehouse.throw_away", killed)
        with pytest.raises(KeyboardInterrupt):
            warehouse.drop("totals")
    view = topped.load(warehouse, "totals", CHANGES[0])
    view.follow_changes(no_spark)
    assert feed(view) == {1: view.rows()}


@pytest.mark.parametrize("engine", ["memory", "spark"])
def test_old_changes_are_added_up_and_later_ones_go_on(
    warehouse: Warehouse, spark: SparkSession, engine: str
) -> None:
    session = spark if engine == "spark" else no_spark
    view = topped.load(warehouse, "totals", START)
    view.follow_changes(no_spark)
    expected, one = {}, rows({("b", 8): 1})
    with view.writer("r") as writer:
        for at, change in enumerate((one, -one, one, -one, one), 1):
            number = writer.commit(change, vector(at)).number
            expected = {number: view.rows()}
            view.fold(no_spark, "f")
            view.follow_changes(no_spark)
        now = timedelta(0)
        view.trim_changes(timedelta(hours=2), now, session, minimum_age=now)
        assert len(feed(view)) > 2, "nothing is that old"
        view.trim_changes(now, now, session, minimum_age=now)
        assert feed(view) == expected
        number = writer.commit(-one, vector(99)).number
        expected[number] = view.rows()
        view.fold(no_spark, "f")
    view.follow_changes(no_spark)
    assert feed(view) == expected
    view.trim_changes(now, now, session, minimum_age=now)
    assert feed(view) == expected, "that would be no less than there is"
    assert len(list((view.plain.folder.parent / "totals_changes").files(".parquet"))) == 2


def test_the_table_of_changes_begins_anew_where_the_plain_table_no_longer_tells_them(
    warehouse: Warehouse,
) -> None:
    view = topped.load(warehouse, "totals", START)
    view.follow_changes(no_spark)
    expected = committed(view)
    view.fold(no_spark, "f")
    with view.writer("r") as writer:
        writer.commit(CHANGES[0], vector(9))
    view.fold(no_spark, "f")
    view.clean_up(timedelta(0), minimum_age=timedelta(0))
    view.follow_changes(no_spark)
    assert list(feed(view)) == [view.plain.snapshot().number]
    assert feed(view)[7] == view.rows() != expected[5]


def test_a_load_in_place_brings_other_parts_and_old_versions_stay(warehouse: Warehouse) -> None:
    view = topped.load(warehouse, "totals", START)
    expected = committed(view)
    again = view.replace(topped.load_of("totals", CHANGES[2].positive()))
    show = topped.view("totals").shown
    assert view.at(again.number).stored_rows() == CHANGES[2].positive()
    assert view.rows() == view.rows(again.number) == plain_rows(view) == show(CHANGES[2].positive())
    assert {number: view.rows(number) for number in expected} == expected
    with view.writer("r") as writer:
        writer.commit(rows({("b", 8): 1}), vector(9))
    assert view.rows() == show(CHANGES[2].positive() + rows({("b", 8): 1}))


def test_a_load_in_place_makes_lost_parts_anew(warehouse: Warehouse) -> None:
    view = topped.load(warehouse, "totals", START)
    committed(view)
    view.stored.folder.remove_tree()
    lost = warehouse.view("totals")
    with pytest.raises(EngineError, match="headwater reload totals"):
        lost.rows()
    lost.replace(topped.load_of("totals", START))
    found = warehouse.view("totals")
    assert found.rows() == plain_rows(found) == topped.view("totals").shown(START)
    with pytest.raises(InputError, match="Version 4 of the view totals has been cleaned up"):
        found.rows(4)


def test_clean_up_keeps_the_parts_of_versions_that_are_kept(warehouse: Warehouse) -> None:
    view = topped.load(warehouse, "totals", START)
    expected = committed(view)
    view.fold(no_spark, "f")
    view.clean_up(timedelta(hours=1), minimum_age=timedelta(0))
    assert {number: view.rows(number) for number in expected} == expected
    with view.writer("r") as writer:
        writer.commit(Rows.empty(topped.SCHEMA), vector(9), kind="vector")
    view.clean_up(timedelta(0), minimum_age=timedelta(0))
    assert view.rows() == expected[5]
    assert view.stored.oldest() == 1
    assert len(list(view.stored.folder.files(".parquet"))) == 1
