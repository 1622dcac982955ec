"""What may happen to files: half-written, cut off, of other columns, gone, late, or strange."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import INT, TEXT, decimal_type
from headwater.errors import SourceError
from headwater.frames.columns import Columns
from headwater.reading import parse_json
from headwater.sources.channel import Channel
from headwater.sources.contract import Committed
from headwater.sources.files.csv_files import Dialect
from headwater.sources.files.formats import Format
from headwater.sources.files.kept import KeptFiles
from headwater.sources.files.options import FilesOptions
from headwater.sources.files.texts import Wording
from headwater.sources.stepwise.journal import FILE, MOST_BYTES
from headwater.storage.location import Location
from tests.sources.files_tools import RENAMED, REPORTS, SERIES, STILL, Folder, Follower, contents


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


# What a CSV file may be


def test_columns_are_told_from_the_first_file_and_kept(folder: Folder) -> None:
    folder.put("items.csv", "id,zip,price,on,at,what,none\n1,01,1.25,2024-01-02,,a,\n")
    source = folder.set_up()
    relation = source.relations()["items"]
    kinds = {column.name: str(column.type) for column in relation.schema.columns}
    assert kinds == {
        "id": "int",
        "zip": "text",
        "price": "decimal(18,2)",
        "on": "date",
        "what": "text",
    }
    assert dict(relation.unusable).keys() == {"at", "none"}
    folder.put("items.csv", "id,zip,price,on,what\n1,2,1.25,2024-01-02,5\n")
    assert Follower(folder.source()).next()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("id,name\n1,a\nx,b\n", "items.csv, line 3, column id: 'x' is not a value of type int"),
        ('id,name\n1,"a\nb"\nx,b\n', "items.csv, line 4, column id: 'x'"),
        ("id,name\n1,a\n2\n", "items.csv, line 3: it has 1 fields, and there are 2 columns"),
        ("id,name\n1,a\n2,b", "it does not end with a line's end"),
        ('id,name\n1,a\n2,"b\n', "is not closed"),
        ("id,id\n1,a\n", "its header has 'id' twice"),
        ("id,title\n1,a\n", "it has no column name; it has id, title"),
        ("", "it is empty"),
        (b"id,name\n1,\xff\n", "line 2: the byte 0xff is none of utf-8"),
        ("id,name\n99999999999999999999,a\n", "'99999999999999999999' is not a value of type int"),
    ],
)
def test_a_file_that_does_not_fit_is_told_with_its_place_and_taken_when_it_is_corrected(
    folder: Folder, content: str | bytes, words: str
) -> None:
    folder.put("items.csv", "id,name\n1,a\n")
    follower = Follower(folder.set_up())
    folder.put("items.csv", content)
    told = follower.tell()
    assert words in told
    assert told.count(".") >= 2  # what is wrong, and what to do
    folder.put("items.csv", "id,name\n1,a\n2,b\n")
    assert follower.next() == {(2, "b"): 1}


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfid,name\n1,a\n2,b\n",
        b"id,name\r\n1,a\r\n2,b\r\n",
        b'name,id,more\n"a",1,x\n"b",2,y\n',
        b"id,name\n\n1,a\n2,b\n",
    ],
)
def test_marks_line_ends_orders_of_columns_and_more_of_them_make_no_difference(
    folder: Folder, content: bytes
) -> None:
    folder.put("items.csv", "id,name\n1,a\n")
    follower = Follower(folder.set_up())
    folder.put("items.csv", content)
    assert follower.next() == {(2, "b"): 1}


def test_a_files_way_of_writing_can_be_set(folder: Folder) -> None:
    wording = Wording(",", "%d.%m.%Y")
    dialect = Dialect(";", "'", encoding="latin-1", nulls=("", "-"), wording=wording)
    folder.put("items.csv", "id;name;price;on\n1;'é;';1,50;31.12.2024\n2;-;-;-\n".encode("latin-1"))
    source = folder.set_up(replace(RENAMED, format=Format("csv", dialect)))
    rows = {tuple(map(str, row)) for row in contents(source)}
    assert rows == {("1", "é;", "1.50", "2024-12-31"), ("2", "None", "None", "None")}


def test_a_text_in_quotes_is_no_null_and_every_copy_of_a_row_counts(folder: Folder) -> None:
    folder.put("items.csv", "id,name\n1,x\n1,x\n")
    follower = Follower(folder.set_up())
    folder.put("items.csv", 'id,name\n1,x\n1,x\n1,x\n2,""\n3,\n')
    assert follower.next() == {(1, "x"): 1, (2, ""): 1, (3, None): 1}


# When a file counts


def test_a_file_that_is_still_being_written_is_not_taken(folder: Folder) -> None:
    folder.put("items.csv", "id,name\n1,a\n")
    follower = Follower(folder.set_up(replace(STILL, still_s=0.5)))
    with (folder.path / "items.csv").open("w") as file:
        file.write("id,name\n")
        for number in range(8):  # each line is whole, the file is not
            file.write(f"{number},n\n")
            file.flush()
            follower.look(0.1)
            assert follower.changes == []
    assert len(follower.next()) == 9


def test_whoever_asks_for_all_that_is_there_waits_until_a_new_file_is_still(folder: Folder) -> None:
    folder.put("items.csv", "id\n1\n")
    source = folder.set_up(replace(STILL, still_s=0.5))
    channel = Channel(source)
    channel.start()
    try:
        folder.put("items.csv", "id\n2\n")
        channel.catch_up()
        assert channel.end == 1
    finally:
        channel.close()


def test_a_file_is_taken_once_its_marker_is_there_and_again_with_the_next(folder: Folder) -> None:
    folder.put("items.csv", "id,name\n1,a\n")
    folder.put("_SUCCESS", "")
    follower = Follower(folder.set_up(FilesOptions(complete="marked")))
    folder.put("items.csv", "id,name\n1,a\n2,b\n")
    follower.look()
    assert follower.changes == []
    (folder.path / "_SUCCESS").unlink()
    follower.look()
    folder.put("_SUCCESS", "")
    assert follower.next() == {(2, "b"): 1}


@pytest.mark.parametrize("is_renamed", [True, False])
def test_a_file_with_an_older_time_or_of_the_same_size_is_seen(
    folder: Folder, is_renamed: bool
) -> None:
    folder.put("items.csv", "id,name\n1,a\n")
    follower = Follower(folder.set_up())
    target = folder.path / ("items.csv.tmp" if is_renamed else "items.csv")
    target.write_text("id,name\n1,b\n")
    os.utime(target, (1, 1))
    if is_renamed:
        follower.look()
        assert follower.changes == []
        target.rename(folder.path / "items.csv")
    assert follower.next() == {(1, "a"): -1, (1, "b"): 1}


def test_a_half_written_parquet_file_is_not_taken(folder: Folder) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"id": [1]}), folder.path / "items.parquet")
    follower = Follower(folder.set_up(STILL))
    pyarrow.parquet.write_table(pyarrow.table({"id": [1, 2]}), folder.path / ".new")
    whole = (folder.path / ".new").read_bytes()
    folder.put("items.parquet", whole[:-5])
    assert "it is no whole Parquet file" in follower.tell()
    folder.put("items.parquet", whole)
    assert follower.next() == {(2,): 1}


def test_what_is_kept_outlives_the_process_and_nothing_comes_twice(folder: Folder) -> None:
    folder.put("items.csv", "id,name\n1,a\n")
    follower = Follower(folder.set_up())
    folder.put("items.csv", "id,name\n2,b\n")
    first = follower.next()
    follower.monitor.close()
    again = Follower(folder.source())
    assert again.next() == first  # it was not stored with a position
    after = Follower(folder.source(), follower.position)
    after.look()
    assert after.changes == []
    assert contents(folder.source()) == Rows.of(
        Schema.of([("id", INT), ("name", TEXT)]), [[2, "b"]]
    )


# Folders, links, rights


def test_a_relation_may_be_a_folder_of_files_and_a_link_leads_to_it(folder: Folder) -> None:
    for number in range(3):
        folder.put(f"v1/part-{number}.csv", f"id\n{number}\n")
    folder.put("v1/_SUCCESS", "")
    (folder.path / "items").symlink_to("v1")
    follower = Follower(folder.set_up())
    folder.put("v2/part-0.csv", "id\n0\n")
    (folder.path / "link").symlink_to("v2")
    (folder.path / "link").rename(folder.path / "items")
    assert follower.next() == {(1,): -1, (2,): -1}


def test_a_folder_or_file_that_is_gone_is_not_taken_for_empty(folder: Folder) -> None:
    folder.put("items.csv", "id\n1\n")
    follower = Follower(folder.set_up())
    (folder.path / "items.csv").unlink()
    assert "there is no file of items" in follower.tell()
    folder.path.rename(folder.path.with_name("away"))
    assert "there is no file of items" in follower.tell()
    folder.path.with_name("away").rename(folder.path)
    folder.put("items.csv", "id\n1\n2\n")
    assert follower.next() == {(2,): 1}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_told(folder: Folder) -> None:
    folder.put("items.csv", "id\n1\n")
    follower = Follower(folder.set_up())
    folder.put("items.csv", "id\n2\n")
    (folder.path / "items.csv").chmod(0)
    assert "cannot be read" in follower.tell()


def test_a_pipe_or_a_folder_in_place_of_a_file_holds_nobody_up(folder: Folder) -> None:
    folder.put("items.csv", "id\n1\n")
    follower = Follower(folder.set_up())
    (folder.path / "items.csv").unlink()
    os.mkfifo(folder.path / "items.csv")
    assert "cannot be read" in follower.tell()
    (folder.path / "items.csv").unlink()
    folder.put("items.csv", "id\n2\n")
    assert follower.next() == {(1,): -1, (2,): 1}


@pytest.mark.stress
def test_ten_thousand_small_files_are_one_relation(folder: Folder) -> None:
    for number in range(10_000):
        folder.put(f"items/{number:05}.csv", f"id\n{number}\n")
    follower = Follower(folder.set_up())
    folder.put("items/00000.csv", "id\n-1\n")
    assert follower.next() == {(0,): -1, (-1,): 1}


# Keys


def test_two_rows_with_one_key_are_told_and_nothing_is_taken(folder: Folder) -> None:
    folder.put("items.csv", "id,name\n1,a\n")
    follower = Follower(folder.set_up(keys={"items": ["id"]}))
    folder.put("items.csv", "id,name\n1,a\n1,b\n")
    assert "2 rows of s.items have the key id = 1" in follower.tell()
    folder.put("items.csv", "id,name\n1,b\n")
    assert follower.next() == {(1, "a"): -1, (1, "b"): 1}


# Series of snapshots


def test_snapshots_are_taken_in_the_order_of_their_names_and_a_late_one_is_told(
    folder: Folder,
) -> None:
    folder.put("2024-01-01/items.csv", "id\n1\n")
    follower = Follower(folder.set_up(SERIES))
    folder.put("2024-01-04/items.csv", "id\n4\n")
    assert follower.next() == {(1,): -1, (4,): 1}
    folder.put("2024-01-03/items.csv", "id\n3\n")
    assert "came when 2024-01-04 was taken already" in follower.tell()
    (folder.path / "2024-01-03" / "items.csv").unlink()
    (folder.path / "2024-01-03").rmdir()
    folder.put("2024-01-05/items.csv", "id\n5\n")
    assert follower.next() == {(4,): -1, (5,): 1}


def test_a_snapshot_without_a_relation_is_not_taken_for_an_empty_one(folder: Folder) -> None:
    folder.put("1/items.csv", "id\n1\n")
    follower = Follower(folder.set_up(SERIES))
    (folder.path / "2").mkdir()
    assert "has no file of items" in follower.tell()
    folder.put("2/items.csv", "id\n2\n")
    assert follower.next() == {(1,): -1, (2,): 1}


# Reports of changes


def test_reports_are_taken_once_each_by_name_whatever_their_form(folder: Folder) -> None:
    folder.put("001.csv", "op,id,name\nI,1,a\nI,2,b\n")
    source = folder.set_up(REPORTS, keys={"items": ["id"]})
    assert contents(source) == Rows.of(source.relations()["items"].schema, [[1, "a"], [2, "b"]])
    follower = Follower(source)
    folder.put("002.jsonl", '{"op": "update", "id": 1, "name": "c"}\n{"op": "delete", "id": 2}\n')
    assert follower.next() == {(1, "a"): -1, (1, "c"): 1, (2, "b"): -1}
    folder.put("003/items.csv", "op,id,name\nM,3,x\nD,3,\nI,3,y\n")
    assert follower.next() == {(3, "y"): 1}


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ("op,id,name\nI,1,a\n", "inserts 1, which is there already"),
        ("op,id,name\nD,9,\n", "deletes 9, which is not there"),
        ("op,id,name\nU,9,z\n", "updates 9, which is not there"),
        ("op,id,name\n?,1,a\n", "row 1 has the operation '?'"),
        ("id,name\n1,a\n", "it has no column op"),
    ],
)
def test_a_report_that_contradicts_what_is_there_is_told(
    folder: Folder, report: str, words: str
) -> None:
    folder.put("001.csv", "op,id,name\nI,1,a\n")
    follower = Follower(folder.set_up(REPORTS, keys={"items": ["id"]}))
    folder.put("002.csv", report)
    assert words in follower.tell()
    folder.put("002.csv", "op,id,name\nD,1,\n")
    assert follower.next() == {(1, "a"): -1}


def kept_of(folder: Folder) -> Mapping[str, Any]:
    """What the rows of items are in, before the steps that are kept."""
    found: Mapping[str, Any] = parse_json((folder.place / FILE).read(MOST_BYTES))["base"]["items"]
    return found


def test_many_reports_are_kept_together(folder: Folder) -> None:
    for number in range(70):
        folder.put(f"{number:04}.csv", f"op,id,v\nI,{number},a\n")
    source = folder.set_up(REPORTS, keys={"items": ["id"]})
    kept = kept_of(folder)
    assert kept["base"]
    assert len(kept["parts"]) < 32
    folder.put("0070.csv", "op,id,v\nD,5,\nU,69,b\n")
    follower = Follower(source)
    assert follower.next() == {(5, "a"): -1, (69, "a"): -1, (69, "b"): 1}
    assert contents(source).size_hint == 69


def test_a_large_relation_is_not_written_again_for_few_changes(folder: Folder) -> None:
    for report in range(40):
        lines = (f"I,{number}\n" for number in range(20 * report, 20 * report + 20))
        folder.put(f"{report:04}.csv", "op,id\n" + "".join(lines))
    follower = Follower(folder.set_up(REPORTS, keys={"items": ["id"]}))
    before = kept_of(folder)
    for report in range(40, 80):
        folder.put(f"{report:04}.csv", f"op,id\nD,{report}\n")
    follower.wait(lambda: len(follower.changes) == 40)
    assert follower.position is not None
    follower.monitor.acknowledge(follower.position)
    folder.put("0080.csv", "op,id\nI,40\n")
    assert follower.next() == {(40,): 1}
    after = kept_of(folder)
    assert after["base"] == before["base"]
    assert len(after["parts"]) == 1
    assert contents(follower.source).size_hint == 761


def test_signed_files_come_to_few_tables(tmp_path: Path) -> None:
    kept, schema = KeptFiles("s", Location.of(tmp_path)), Schema.of([("id", INT)])
    parts = [kept.put_rows(Rows(schema, {(number,): 1})) for number in range(100)]
    parts += [kept.put_rows(Rows(schema, {(number,): -1})) for number in range(90)]
    tables = kept.nets("items", schema, parts)
    assert len(tables) < 8
    found = Rows.sum(schema, [Columns(schema, table) for table in tables])
    assert dict(found.items()) == {(number,): 1 for number in range(90, 100)}


def test_a_bag_is_reported_by_whole_rows(folder: Folder) -> None:
    folder.put("001.csv", "op,id,name\n+,1,a\n+,1,a\n")
    follower = Follower(folder.set_up(REPORTS))
    folder.put("002.csv", "op,id,name\n-,1,a\n-,1,a\n-,1,a\n")
    assert "deletes (1, 'a'), which is not there so often" in follower.tell()
    folder.put("002.csv", "op,id,name\n-,1,a\n")
    assert follower.next() == {(1, "a"): -1}


def test_a_number_that_is_missing_is_told_until_it_is_there(folder: Folder) -> None:
    folder.put("r1.csv", "op,id\nI,1\n")
    follower = Follower(folder.set_up(replace(REPORTS, numbered=True)))
    folder.put("r3.csv", "op,id\nI,3\n")
    assert "there should be the number 2, and there is r3.csv" in follower.tell()
    folder.put("r2.csv", "op,id\nI,2\n")
    follower.wait(lambda: len(follower.changes) == 2)
    assert [list(c.values()) for c in follower.changes] == [[{(2,): 1}], [{(3,): 1}]]


def test_a_report_may_be_a_part_of_a_transaction_across_sources(folder: Folder) -> None:
    folder.put("001/items.csv", "op,id\nI,1\n")
    source = folder.set_up(REPORTS)
    hidden = folder.path / ".002"
    hidden.mkdir()
    (hidden / "items.csv").write_text("op,id\nI,2\n")
    (hidden / "_transaction.json").write_text('{"id": "t17", "parts": 2}')
    hidden.rename(folder.path / "002")
    monitor = source.open_monitor(None)
    until = time.monotonic() + 60
    found: list[Committed] = []
    while not found and time.monotonic() < until:
        found = [item for item in monitor.read(0.1) if isinstance(item, Committed)]
    assert [(tag.id, tag.parts) for tag in found[0].transaction.tags] == [("t17", 2)]


# Declared columns, and large snapshots


def test_columns_that_are_declared_hold_from_the_first_file_on(folder: Folder) -> None:
    declared = {"items": Schema.of([("id", INT), ("price", decimal_type(6, 2))])}
    options = replace(RENAMED, columns=declared)
    folder.put("items.csv", "id,price\n")
    source = folder.set_up(options)
    follower = Follower(source)
    folder.put("items.csv", "id,price\n1,1.255\n")
    assert "line 2, column price: '1.255' is not a value of type decimal(6,2)" in follower.tell()
    other = replace(options, columns={"items": Schema.of([("id", TEXT)])})
    (problem,) = folder.source(other).problems()
    assert "headwater repair s" in str(problem)


@pytest.mark.usefixtures("spark")
def test_large_snapshots_are_compared_by_spark(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.sources.files.comparing.THRESHOLD", 10)
    folder.put("items.csv", "id,name\n" + "".join(f"{n},a\n" for n in range(20)))
    follower = Follower(folder.set_up())
    folder.put("items.csv", "id,name\n" + "".join(f"{n},a\n" for n in range(1, 20)) + "1,a\n,\n")
    assert follower.next() == {(0, "a"): -1, (1, "a"): 1, (None, None): 1}


def test_what_was_set_up_without_its_first_file_is_told_in_words(folder: Folder) -> None:
    with pytest.raises(SourceError, match="there is no file of items"):
        folder.source().setup()
