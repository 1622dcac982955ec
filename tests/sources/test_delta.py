"""What others may do to a Delta table that is followed: every kind of commit, and worse."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from headwater.errors import LostConnectionError, SourceError
from headwater.sources.contract import Broken, Committed, Position
from headwater.sources.delta.commits import Commit, Together, next_unit, tags_of
from headwater.sources.delta.source import DeltaSource
from headwater.storage.location import Location

CDF = {"delta.enableChangeDataFeed": "true"}


class Lake:
    """A folder with a table `t`, and a source over it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "lake"
        self.place = Location.of(folder / "_headwater" / "sources" / "s")

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(self.path / "t")

    def write(
        self, ids: Sequence[int], mode: Any = "append", table: str = "t", **more: Any
    ) -> None:
        data = pyarrow.table({"id": pyarrow.array(ids, pyarrow.int64()), "v": ["x"] * len(ids)})
        write_deltalake(self.path / table, data, mode=mode, **more)

    def source(self, relations: Sequence[str] = ("t",)) -> DeltaSource:
        return DeltaSource("s", self.path, relations, place=self.place, look_every_s=0.01)

    def log(self, version: int) -> Path:
        return self.path / "t" / "_delta_log" / f"{version:020}.json"


class Follower:
    """Reads a source's log, and keeps what it was told."""

    def __init__(self, source: DeltaSource, after: Position | None = None) -> None:
        self.source = source
        self.position = after
        self.items: list[Committed | Broken] = []
        self.told = ""
        self.monitor = source.open_monitor(after)

    def look(self, seconds: float = 0.3) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                for item in self.monitor.read(0.05):
                    if isinstance(item, Committed | Broken):
                        self.items.append(item)
                        self.position = item.position
            except LostConnectionError as error:
                self.told = str(error)
                time.sleep(0.01)
                with suppress(LostConnectionError):
                    self.monitor = self.source.open_monitor(self.position)

    def wait(self, ready: Callable[[], bool]) -> None:
        until = time.monotonic() + 60
        while not ready():
            assert time.monotonic() < until, self.told
            self.look(0.02)

    def next(self) -> Committed | Broken:
        count = len(self.items)
        self.wait(lambda: len(self.items) > count)
        assert len(self.items) == count + 1
        return self.items[-1]

    def change(self) -> dict[tuple[object, ...], int]:
        found = self.next()
        assert isinstance(found, Committed)
        (delta,) = found.transaction.deltas.values()
        return dict(delta.items())

    def gap(self) -> str:
        found = self.next()
        assert isinstance(found, Broken)
        return found.reason


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path)
    made.write([1, 2, 3])
    return made


@pytest.fixture
def follower(lake: Lake) -> Follower:
    source = lake.source()
    source.setup()
    return Follower(source)


def ids(source: DeltaSource) -> list[int]:
    load = source.open_load(["t"], 1)
    return sorted(i for batch in load.read("t", 0) for i in batch.column(0).to_pylist())


# Commits


@pytest.mark.parametrize("has_feed", [False, True])
def test_every_kind_of_commit_is_what_it_changes(tmp_path: Path, has_feed: bool) -> None:
    lake = Lake(tmp_path)
    lake.write([1, 2, 3], configuration=CDF if has_feed else {})
    source = lake.source()
    source.setup()
    follower = Follower(source)
    lake.write([3, 4])
    assert follower.change() == {(3, "x"): 1, (4, "x"): 1}
    lake.table.update(updates={"v": "'y'"}, predicate="id = 3")
    assert follower.change() == {(3, "x"): -2, (3, "y"): 2}
    lake.table.delete("id = 1")
    assert follower.change() == {(1, "x"): -1}
    new = pyarrow.table({"id": pyarrow.array([2, 9], pyarrow.int64()), "v": ["z", "z"]})
    merge = lake.table.merge(new, "s.id = t.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert follower.change() == {(2, "x"): -1, (2, "z"): 1, (9, "z"): 1}
    lake.write([7], mode="overwrite")
    assert follower.change()[(7, "x")] == 1
    lake.table.restore(1)
    assert follower.change() == {(7, "x"): -1, **dict.fromkeys([(1, "x"), (2, "x"), (4, "x")], 1),
                                 (3, "x"): 2}  # fmt: skip
    assert ids(source) == [1, 2, 3, 3, 4]


def test_upkeep_by_others_changes_nothing_and_is_followed(lake: Lake, follower: Follower) -> None:
    lake.write([4])
    assert follower.change() == {(4, "x"): 1}
    lake.table.optimize.compact()
    lake.table.create_checkpoint()
    lake.table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    lake.table.cleanup_metadata()
    follower.look()
    assert ids(follower.source) == [1, 2, 3, 4]
    lake.write([5])
    assert follower.change() == {(5, "x"): 1}


def test_a_partitioned_table_with_nulls_and_a_column_that_comes_later(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    data = pyarrow.table({"id": [1, 2], "p": ["a", None]})
    write_deltalake(lake.path / "t", data, partition_by=["p"])
    source = lake.source()
    source.setup()
    follower = Follower(source)
    more = pyarrow.table({"id": [3], "p": ["b=c /%d"], "more": [1.5]})
    write_deltalake(lake.path / "t", more, mode="append", schema_mode="merge")
    assert follower.change() == {(3, "b=c /%d"): 1}
    assert source.relations()["t"].schema.names == ("id", "p", "more")
    assert ids(source) == [1, 2, 3]


def test_a_small_and_a_narrow_number_and_an_array_are_what_they_are_here(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    data = pyarrow.table({
        "i": pyarrow.array([1], pyarrow.int8()), "f": pyarrow.array([0.1], pyarrow.float32()),
        "l": pyarrow.array([[1, None]], pyarrow.list_(pyarrow.int32())),
        "s": pyarrow.array([{"a": 1}], pyarrow.struct([("a", pyarrow.int16())])),
        "m": pyarrow.array([[("k", 1)]], pyarrow.map_(pyarrow.string(), pyarrow.int32())),
    })  # fmt: skip
    write_deltalake(lake.path / "t", data)
    source = lake.source()
    source.setup()
    relation = source.relations()["t"]
    assert [str(kind) for kind in relation.schema.types] == [
        "int",
        "float",
        "array<int>",
        "struct<a int>",
    ]
    assert dict(relation.unusable) == {"m": "its type map has no counterpart here"}
    follower = Follower(source)
    write_deltalake(lake.path / "t", data, mode="append")
    assert follower.change() == {(1, 0.10000000149011612, (1, None), (1,)): 1}


# What cannot be followed


def test_files_that_were_deleted_unread_are_a_gap_and_it_goes_on(lake: Lake) -> None:
    source = lake.source()
    source.setup()
    lake.write([4])
    lake.table.delete("id >= 0")
    lake.table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    follower = Follower(source)
    follower.wait(lambda: len(follower.items) == 2)
    assert all(isinstance(item, Broken) for item in follower.items)
    assert "cannot be read any more" in str(follower.items[0])
    lake.write([5])
    assert follower.change() == {(5, "x"): 1}
    assert ids(source) == [5]


@pytest.mark.parametrize("is_longer", [False, True])
def test_another_table_in_its_place_is_a_gap(
    lake: Lake, follower: Follower, is_longer: bool
) -> None:
    lake.write([4])
    follower.change()
    shutil.rmtree(lake.path / "t")
    follower.look(0.1)
    for number in range(4 if is_longer else 1):
        lake.write([10 + number])
    follower.wait(lambda: any(isinstance(item, Broken) for item in follower.items))
    follower.look(0.2)
    assert ids(follower.source) == [10, 11, 12, 13][: 4 if is_longer else 1]
    assert "was put in its place" in str([i for i in follower.items if isinstance(i, Broken)])


def test_another_table_is_noticed_that_came_while_nobody_read(lake: Lake) -> None:
    source = lake.source()
    source.setup()
    lake.write([4])
    assert Follower(source).change() == {(4, "x"): 1}
    shutil.rmtree(lake.path / "t")
    write_deltalake(lake.path / "t", pyarrow.table({"other": [1]}))
    write_deltalake(lake.path / "t", pyarrow.table({"other": [2]}), mode="append")
    again = lake.source()
    follower = Follower(again)
    follower.wait(lambda: len(follower.items) > 1)
    assert all(isinstance(item, Broken) for item in follower.items)
    assert "was put in its place" in str(follower.items[-1])
    assert again.relations()["t"].schema.names == ("other",)


def test_an_earlier_copy_of_the_table_is_a_gap(lake: Lake, follower: Follower) -> None:
    shutil.copytree(lake.path / "t", lake.path / "_copy")
    lake.write([4])
    follower.change()
    shutil.rmtree(lake.path / "t")
    (lake.path / "_copy").rename(lake.path / "t")
    assert "was put in its place" in follower.gap()
    lake.write([5])
    assert follower.change() == {(5, "x"): 1}


def test_a_table_that_is_gone_is_told_and_read_on_when_it_is_back(
    lake: Lake, follower: Follower
) -> None:
    (lake.path / "t").rename(lake.path / "away")
    follower.wait(lambda: "is not there" in follower.told)
    (lake.path / "away").rename(lake.path / "t")
    lake.write([4])
    assert follower.change() == {(4, "x"): 1}


def test_a_column_that_is_dropped_is_a_gap_for_that_column(lake: Lake, follower: Follower) -> None:
    data = pyarrow.table({"id": [5]})
    write_deltalake(lake.path / "t", data, mode="overwrite", schema_mode="overwrite")
    follower.wait(lambda: bool(follower.items))
    (gap,) = [item for item in follower.items if isinstance(item, Broken)]
    assert gap.columns == {"s.t": frozenset({"v"})}
    assert "columns v were dropped or altered" in gap.reason
    assert follower.source.relations()["t"].schema.names == ("id",)


def test_what_is_not_read_is_refused_by_name_and_read_again_later(
    lake: Lake, follower: Follower
) -> None:
    entry = [
        {"commitInfo": {"timestamp": 1}},
        {"add": {"path": "x.parquet", "partitionValues": {}, "size": 1, "dataChange": True,
                 "modificationTime": 1, "deletionVector": {"storageType": "u"}}},
    ]  # fmt: skip
    lake.log(1).write_text("\n".join(map(json.dumps, entry)))
    assert "uses deletion vectors, which are not read" in follower.gap()
    with pytest.raises(SourceError, match="REORG TABLE"):
        follower.source.relations()
    lake.log(2).write_text(json.dumps({"remove": {"path": "x.parquet", "dataChange": True}}))
    assert "could not be read for a while" in follower.gap()
    assert ids(follower.source) == [1, 2, 3]


def test_mapped_columns_are_refused_by_name(lake: Lake) -> None:
    lake.log(1).write_text(json.dumps({"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}))
    with pytest.raises(SourceError, match="mapped columns"):
        lake.source().setup()


def test_rows_that_share_a_key_stop_their_table_until_it_is_corrected(lake: Lake) -> None:
    source = DeltaSource("s", lake.path, ["t"], {"t": ["id"]}, place=lake.place, look_every_s=0.01)
    source.setup()
    follower = Follower(source)
    lake.write([4])
    assert follower.change() == {(4, "x"): 1}
    lake.write([3])
    assert "has rows that share a key (id)" in follower.gap()
    with pytest.raises(SourceError, match="Correct the table"):
        source.relations()
    lake.table.delete("id = 3")
    assert "could not be read for a while" in follower.gap()
    assert ids(source) == [1, 2, 4]


def test_a_folder_without_a_table_is_told_in_words(lake: Lake) -> None:
    with pytest.raises(SourceError, match="holds no Delta table"):
        lake.source(["nothing"]).setup()
    assert [table.name for table in lake.source().discover()] == ["t"]


def test_a_position_of_a_warehouse_that_was_put_back_is_refused(
    lake: Lake, follower: Follower
) -> None:
    shutil.copytree(lake.place.path, lake.path.parent / "earlier")
    lake.write([4])
    follower.change()
    shutil.rmtree(lake.place.path)
    shutil.copytree(lake.path.parent / "earlier", lake.place.path)
    with pytest.raises(SourceError, match="headwater repair s"):
        lake.source().open_monitor(follower.position)


# Answers as of a version


def test_what_is_committed_meanwhile_is_in_no_answer_before_it_was_reported(
    lake: Lake, follower: Follower
) -> None:
    lake.write([4])
    assert ids(follower.source) == [1, 2, 3]
    follower.change()
    assert ids(follower.source) == [1, 2, 3, 4]


# Transactions


def test_commits_of_several_tables_wait_for_each_other(lake: Lake) -> None:
    lake.write([1], table="u")
    source = lake.source(["t", "u"])
    source.setup()
    follower = Follower(source)
    said = CommitProperties(custom_metadata={"headwater.global": '{"id": "x", "tables": 2}'})
    lake.write([4], commit_properties=said)
    lake.write([5])
    follower.look()
    assert follower.items == []
    lake.write([2], table="u", commit_properties=said)
    follower.wait(lambda: len(follower.items) == 2)
    first, second = follower.items
    assert isinstance(first, Committed)
    assert isinstance(second, Committed)
    assert set(first.transaction.deltas) == {"s.t", "s.u"}
    assert set(second.transaction.deltas) == {"s.t"}


def test_a_part_that_does_not_come_is_named(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.sources.delta.states._PATIENCE_S", 0.1)
    source = lake.source()
    source.setup()
    follower = Follower(source)
    said = CommitProperties(custom_metadata={"headwater.global": '{"id": "x", "tables": 2}'})
    lake.write([4], commit_properties=said)
    follower.wait(lambda: "'x'" in follower.told)
    assert "there are only version 1 of t" in follower.told


def test_transactions_that_cross_are_one_step() -> None:
    x, y = Together("x", 2), Together("y", 2)
    pending = {
        "t": [Commit(1, 1, x), Commit(2, 2, y)],
        "u": [Commit(1, 1, y), Commit(2, 2, x), Commit(3, 3)],
    }
    assert next_unit(pending, {}) == {"t": 2, "u": 2}
    assert next_unit({"t": pending["t"][:1], "u": []}, {}) is None
    assert next_unit({"t": pending["t"][:1], "u": []}, {"u": {"x"}}) == {"t": 1}


def test_tags_are_read_as_spark_and_delta_rs_write_them() -> None:
    said = {"id": "t17", "parts": 2}
    for info in (
        {"headwater.global": json.dumps(said)},
        {"userMetadata": json.dumps({"headwater": said})},
    ):
        _, tag = tags_of(info)
        assert tag is not None
        assert (tag.id, tag.parts, tag.mistake) == ("t17", 2, "")
    assert tags_of({"userMetadata": "nightly job"}) == (None, None)
    _, wrong = tags_of({"headwater.global": '{"id": 1}'})
    assert wrong is not None
    assert wrong.mistake


def test_an_entry_that_is_missing_within_the_log_is_told(lake: Lake) -> None:
    lake.write([1])
    source = lake.source()
    source.setup()
    lake.write([2])
    lake.write([3])
    missing = lake.log(lake.table.version() - 1)
    content = missing.read_bytes()
    missing.unlink()
    follower = Follower(source)
    follower.wait(lambda: bool(follower.told))
    assert "does not have version" in follower.told
    missing.write_bytes(content)
    follower.wait(lambda: len(follower.items) == 2)


def test_a_column_of_another_type_meanwhile_stops_nothing_but_itself(lake: Lake) -> None:
    lake.write([1])
    source = lake.source()
    source.setup()
    for ids in (["a"], [2]):
        data = pyarrow.table({"id": ids, "v": ["x"]})
        write_deltalake(lake.path / "t", data, mode="overwrite", schema_mode="overwrite")
    follower = Follower(lake.source())
    lake.write([3])
    follower.wait(lambda: any(isinstance(i, Committed) and not_null(i) for i in follower.items))
    gaps = [item for item in follower.items if isinstance(item, Broken)]
    assert [gap.columns for gap in gaps] == [{"s.t": frozenset({"id"})}] * 2


def not_null(found: Committed) -> bool:
    (delta,) = found.transaction.deltas.values()
    return dict(delta.items()) == {(3, "x"): 1}


def test_there_is_one_zero_and_no_day_beyond_the_last(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    far = pyarrow.array([2**60], pyarrow.timestamp("us", "UTC"))
    write_deltalake(lake.path / "t", pyarrow.table({"id": [-0.0]}))
    write_deltalake(lake.path / "far", pyarrow.table({"at": far}))
    source = lake.source(["t", "far"])
    source.setup()
    (batch,) = source.open_load(["t"], 1).read("t", 0)
    assert str(batch.column(0)[0].as_py()) == "0.0"
    with pytest.raises(SourceError, match="column at: a timestamp_tz is outside of the years"):
        list(source.open_load(["far"], 1).read("far", 0))


def test_a_table_in_anothers_place_answers_nothing_for_it(lake: Lake) -> None:
    lake.write([1])
    source = lake.source()
    source.setup()
    list(source.open_load(["t"], 1).read("t", 0))
    version = lake.table.version()
    shutil.rmtree(lake.path / "t")
    for _ in range(version + 1):
        lake.write([9])
    with pytest.raises(LostConnectionError, match="not the one that was read"):
        list(lake.source().open_load(["t"], 1).read("t", 0))
    with pytest.raises(LostConnectionError, match="not the one that was read"):
        list(source.open_load(["t"], 1).read("t", 0))
