"""What others do to files that were taken, or are to be: come late, change, double, or mislead."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pyarrow
import pytest
from deltalake import write_deltalake

from headwater.errors import SourceError
from headwater.sources.contract import Marked, Position
from headwater.sources.files.options import FilesOptions
from headwater.sources.files.source import FilesSource
from tests.sources.files_tools import RENAMED, REPORTS, SERIES, Folder, Follower, contents

WRITTEN = FilesOptions(layout="changes", still_s=0.1)
BOTH = ("items", "lines")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


# Reports and snapshots


def test_a_reports_folder_that_is_empty_is_waited_for_and_told(folder: Folder) -> None:
    folder.put("0001/items.csv", "op,id\nI,1\n")
    follower = Follower(folder.set_up(WRITTEN))
    (folder.path / "0002").mkdir()
    assert "0002 is empty, and waited for" in follower.tell()
    folder.put("0002/items.csv", "op,id\nI,2\n")
    assert follower.next() == {(2,): 1}


def test_a_file_that_comes_into_a_report_that_was_taken_is_told(folder: Folder) -> None:
    for name in BOTH:
        folder.put(f"0001/{name}.csv", "op,id\nI,1\n")
    follower = Follower(folder.set_up(REPORTS, BOTH))
    folder.put("0002/items.csv", "op,id\nI,2\n")
    assert follower.next() == {(2,): 1}
    folder.put("0002/lines.csv", "op,id\nI,2\n")
    assert "0002/lines.csv came, or was changed" in follower.tell()
    (folder.path / "0002" / "lines.csv").unlink()
    folder.put("0003/lines.csv", "op,id\nI,2\n")
    assert follower.next() == {(2,): 1}


def test_a_report_that_says_something_else_later_is_told(folder: Folder) -> None:
    folder.put("0001.csv", "op,id\nI,1\n")
    follower = Follower(folder.set_up(REPORTS))
    folder.put("0001.csv", "op,id\nI,1\nI,7\n")
    assert "0001.csv came, or was changed" in follower.tell()
    folder.put("0001.csv", "op,id\nI,1\n")
    folder.put("0002.csv", "op,id\nI,2\n")
    assert follower.next() == {(2,): 1}


def test_a_report_that_is_gone_and_comes_again_as_another_is_told(folder: Folder) -> None:
    folder.put("0001.csv", "op,id\nI,1\n")
    follower = Follower(folder.set_up(REPORTS))
    (folder.path / "0001.csv").unlink()
    folder.put("0002.csv", "op,id\nI,2\n")
    assert follower.next() == {(2,): 1}
    folder.put("0001.csv", "op,id\nI,9\n")
    assert "0001.csv came, or was changed" in follower.tell()


def test_a_relation_that_is_set_up_later_makes_no_report_another(folder: Folder) -> None:
    for name in BOTH:
        folder.put(f"0001/{name}.csv", "op,id\nI,1\n")
    folder.set_up(REPORTS)
    follower = Follower(folder.set_up(REPORTS, BOTH))
    folder.put("0002/lines.csv", "op,id\nI,2\n")
    assert follower.next() == {(2,): 1}
    assert not follower.told


def test_the_newest_snapshot_is_taken_again_when_it_was_written_anew(folder: Folder) -> None:
    folder.put("0001/items.csv", "id\n1\n")
    follower = Follower(folder.set_up(SERIES))
    folder.put("0002/items.csv", "id\n2\n")
    assert follower.next() == {(1,): -1, (2,): 1}
    folder.put("0002/items.csv", "id\n2\n3\n")
    assert follower.next() == {(3,): 1}
    folder.put("0001/items.csv", "id\n9\n")
    folder.put("0003/items.csv", "id\n3\n")
    assert follower.next() == {(2,): -1}


def test_a_file_beside_snapshots_is_none(folder: Folder) -> None:
    folder.put("0001/items.csv", "id\n1\n")
    folder.put("README.md", "hello\n")
    assert dict(contents(folder.set_up(SERIES)).items()) == {(1,): 1}


def test_two_troubles_at_once_are_told(folder: Folder) -> None:
    folder.put("0002.csv", "op,id\nI,1\n")
    follower = Follower(folder.set_up(REPORTS))
    folder.put("0002.csv", "op,id\nI,5\n")
    folder.put("0001.csv", "op,id\nI,5\n")
    assert follower.tell()


# Files that take each other's place


def test_a_bad_file_holds_up_its_own_relation_only(folder: Folder) -> None:
    for name in BOTH:
        folder.put(f"{name}.csv", "id\n1\n")
    follower = Follower(folder.set_up(RENAMED, BOTH))
    folder.put("items.csv", "id\nx\n")
    assert "'x' is not a value of type int" in follower.tell()
    folder.put("lines.csv", "id\n2\n")
    follower.wait(lambda: bool(follower.changes))
    assert follower.changes == [{"s.lines": {(1,): -1, (2,): 1}}]
    folder.put("items.csv", "id\n5\n")
    assert follower.next() == {(1,): -1, (5,): 1}


def test_markers_come_by_while_a_file_is_bad(folder: Folder) -> None:
    folder.put("items.csv", "id\n1\n")
    source = folder.set_up()
    follower = Follower(source)
    follower.look()
    folder.put("items.csv", "id\nx\n")
    follower.tell()
    follower.monitor.close()  # nothing counts as handed on, so an answer has a marker
    monitor = source.open_monitor({**monitor_position(source)})
    awaited = source.replied_elsewhere("0", None).marker
    assert awaited is not None
    assert Marked(awaited) in monitor.read(5)


def monitor_position(source: FilesSource) -> Position:
    """Where everything that is kept has been read."""
    return source.open_load(["items"], 1).position


def test_files_with_a_common_marker_wait_for_each_other(folder: Folder) -> None:
    options = FilesOptions(complete="marked")
    for name in BOTH:
        folder.put(f"{name}.csv", "id\n1\n")
    folder.put("_SUCCESS", "1")
    follower = Follower(folder.set_up(options, BOTH))
    folder.put("items.csv", "id\nx\n")
    folder.put("lines.csv", "id\n2\n")
    folder.put("_SUCCESS", "22")
    assert "items.csv, line 2" in follower.tell()
    folder.put("items.csv", "id\n5\n")
    follower.wait(lambda: bool(follower.changes))
    assert set(follower.changes[0]) == {"s.items", "s.lines"}


def test_a_file_that_is_written_to_with_its_time_put_back_is_seen(folder: Folder) -> None:
    folder.put("items.csv", "id\n1\n")
    file = folder.path / "items.csv"
    before = file.stat()
    follower = Follower(folder.set_up())
    with file.open("r+") as opened:
        opened.write("id\n2\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert follower.next() == {(1,): -1, (2,): 1}


# Which files are a relation's


def refused(folder: Folder, options: FilesOptions = RENAMED) -> str:
    with pytest.raises(SourceError) as raised:
        folder.set_up(options)
    return str(raised.value)


@pytest.mark.parametrize("other", ["items.jsonl", "items.CSV", "items/a.csv"])
def test_two_things_that_are_named_as_a_relation_are_refused(folder: Folder, other: str) -> None:
    folder.put("items.csv", "id\n1\n")
    folder.put(other, "id\n2\n")
    assert "only one of them can be items" in refused(folder)


def test_a_folder_in_a_relations_folder_is_not_passed_over(folder: Folder) -> None:
    folder.put("items/a.csv", "id\n1\n")
    (folder.path / "items" / "year=2024").mkdir()
    assert "has a folder year=2024 in it" in refused(folder)


def test_a_delta_table_is_not_read_as_a_folder_of_files(folder: Folder) -> None:
    for number in (1, 2):
        write_deltalake(folder.path / "items", pyarrow.table({"id": [number]}), mode="overwrite")
    assert "kind = 'delta'" in refused(folder)


def test_a_link_that_leads_nowhere_is_not_passed_over(folder: Folder) -> None:
    folder.put("items/a.csv", "id\n1\n")
    (folder.path / "items" / "b.csv").symlink_to("gone.csv")
    assert "b.csv is a link that leads nowhere" in refused(folder)


def test_copies_that_programs_leave_are_nobodys(folder: Folder) -> None:
    for name in ("a.csv", "a.csv~", "a.csv.bak", "a.csv.orig", ".a.csv.swp"):
        folder.put(f"items/{name}", "id\n1\n")
    assert dict(contents(folder.set_up()).items()) == {(1,): 1}


def test_a_file_whose_name_says_no_format_needs_one_in_the_settings(folder: Folder) -> None:
    folder.put("items/part-00000", "id\n1\n")
    assert "nothing says how it is written" in refused(folder)
    named = replace(RENAMED, format=replace(RENAMED.format, name="csv"))
    assert dict(contents(folder.set_up(named)).items()) == {(1,): 1}
