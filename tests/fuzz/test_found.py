"""What the fuzzer has found, and what else is refused for the same reasons, each by itself."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from headwater.errors import BrokenLogError, EngineError, HeadwaterError, InputError, ScenarioError
from headwater.pipeline.requests import ask_runner, forget_requests, waiting_requests
from headwater.project.example import make_project
from headwater.project.project import Project
from headwater.reading import read_plain
from headwater.warehouse.change_records import SEGMENT_START
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.delta_log import entry_of
from headwater.warehouse.identity import owner_of
from headwater.warehouse.lease import Lease, current_runner
from headwater.warehouse.sealing import sealed
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse
from tests.cli.commands import quick
from tests.scenarios import load_scenarios
from tests.warehouse.test_changes import change
from tests.warehouse.test_small import in_memory
from tests.warehouse.views import rows, vector

# Files that are none


def fifo(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def endless(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


def circle(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(path.name)


NO_FILE = pytest.mark.parametrize("spoil", [fifo, folder, endless, circle])
Spoil = Callable[[Path], None]


@NO_FILE
@pytest.mark.parametrize("name", ["headwater.toml", "views/big_orders.sql"])
def test_a_project_reads_plain_files_only(tmp_path: Path, spoil: Spoil, name: str) -> None:
    make_project(tmp_path / "p")
    spoil(tmp_path / "p" / name)
    with pytest.raises(InputError, match=f"{name}: cannot be read: "):
        Project.open(tmp_path / "p")


@NO_FILE
def test_a_change_log_reads_plain_files_only(tmp_path: Path, spoil: Spoil) -> None:
    (segment,) = segments(tmp_path)
    spoil(segment)
    for read in (lambda: ChangeLog(tmp_path, "s").scan(), lambda: all_of(tmp_path)):
        with pytest.raises(BrokenLogError, match=r"cannot be read: .*\.log: .*headwater repair s"):
            read()


@NO_FILE
@pytest.mark.parametrize("pattern", ["_delta_log/*.json", "*.parquet"])
def test_a_table_reads_plain_files_only(tmp_path: Path, spoil: Spoil, pattern: str) -> None:
    view = view_in(tmp_path)
    for path in view.plain.folder.local.glob(pattern):
        spoil(path)
    with pytest.raises(EngineError):
        Warehouse(tmp_path).view("orders").rows()


@NO_FILE
@pytest.mark.parametrize("name", ["lease.json", "lease.lock", "epoch", "warehouse.json"])
def test_a_warehouse_reads_plain_files_of_its_own_only(
    tmp_path: Path, spoil: Spoil, name: str
) -> None:
    lease = Lease(tmp_path)
    lease.acquire()
    lease.release()
    spoil(tmp_path / name)
    with pytest.raises(HeadwaterError, match=name):
        Lease(tmp_path).acquire()


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 11)
    assert len(read_plain(tmp_path / "large", 11)) == 11
    with pytest.raises(OSError, match="more than 10 bytes"):
        read_plain(tmp_path / "large", 10)


def test_an_endless_scenario_is_not_read() -> None:
    with pytest.raises(ScenarioError, match="more than"):
        load_scenarios(Path("/dev/zero"))


def test_settings_that_are_nested_too_deeply_are_refused(tmp_path: Path) -> None:
    make_project(tmp_path / "p")
    deep = "x = " + "[" * 100_000 + "]" * 100_000
    (tmp_path / "p" / "headwater.toml").write_text(deep)
    with pytest.raises(InputError, match="nested too deeply"):
        Project.open(tmp_path / "p")


# The change log


def segments(folder: Path) -> list[Path]:
    log = ChangeLog(folder, "s")
    log.open(1)
    for number in (1, 2, 3):
        log.append([change(number)])
    log.close()
    return sorted(folder.glob("s/*.log"))


def all_of(folder: Path) -> list[object]:
    return list(ChangeLog(folder, "s").read())


def framed(payload: bytes, batch: int) -> bytes:
    check = zlib.crc32(payload, batch)
    return struct.pack("<4sIIQ", b"\xa9hw\n", len(payload), check, batch) + payload


def headed(header: Any, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<I", len(text)) + text + body


SOUND = {"position": {}, "number": 1, "id": "t", "stamp": 1, "relations": []}


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        headed(b"[" * 100_000),
        headed([]),
        headed({}),
        headed({**SOUND, "number": "1"}),
        headed({**SOUND, "stamp": None}),
        headed({**SOUND, "relations": [["s.r", [["id", "int"]], 10]]}, b"not Arrow "),
        headed({**SOUND, "relations": [["s.r", [["id", "int"], ["id", "int"]], 0]]}),
        headed({**SOUND, "relations": [["s.r", [["id", "strange"]], 0]]}),
        headed({"position": {}, "number": 1, "reason": 3, "stamp": None, "columns": None}),
    ],
)
def test_a_record_with_a_right_checksum_and_a_wrong_form_is_damage(
    tmp_path: Path, payload: bytes
) -> None:
    (segment,) = segments(tmp_path)
    segment.write_bytes(SEGMENT_START + framed(payload, len(SEGMENT_START)))
    with pytest.raises(BrokenLogError, match=r"damaged: .*\.log at byte 12"):
        all_of(tmp_path)


def test_a_record_that_was_cut_out_whole_is_missed(tmp_path: Path) -> None:
    """Also the last one: what was written behind it knows where it stood."""
    (segment,) = segments(tmp_path)
    content = segment.read_bytes()
    marks = [at for at in range(len(content)) if content.startswith(b"\xa9hw\n", at)]
    third, progress = marks[2:]
    segment.write_bytes(content[:third] + content[progress:])
    for read in (lambda: ChangeLog(tmp_path, "s").scan(), lambda: all_of(tmp_path)):
        with pytest.raises(BrokenLogError, match="damaged"):
            read()


def test_a_file_that_is_not_named_as_a_segment_is_none(tmp_path: Path) -> None:
    segments(tmp_path / "changes")
    for name in ("x-y.log", "²-1.log", "9" * 40 + "-1.log"):
        (tmp_path / "changes" / "s" / name).touch()
    assert len(all_of(tmp_path / "changes")) == 3
    lease = Lease(tmp_path)
    lease.acquire()
    lease.release()
    assert lease.epoch == 2


# Delta tables


def view_in(folder: Path) -> ViewTable:
    view = in_memory(Warehouse(folder, durable=False), rows({(1, "a"): 1}), "orders")
    with view.writer("r") as writer:
        writer.commit(rows({(2, "b"): 1}), vector(1))
    return view


ADD = {"path": "x", "size": 1}
METADATA = {"schemaString": '{"fields": []}'}


@pytest.mark.parametrize(
    "action",
    [
        {"add": {}},
        {"add": {**ADD, "size": "1"}},
        {"add": {**ADD, "stats": "{"}},
        {"add": {**ADD, "stats": '{"numRecords": -1}'}},
        {"add": {**ADD, "path": "../../outside"}},
        {"add": {**ADD, "path": "%2Fetc%2Fpasswd"}},
        {"remove": []},
        {"txn": {"appId": "headwater", "version": 10**30}},
        {"metaData": {**METADATA, "schemaString": "[]"}},
        {"metaData": {**METADATA, "description": 3}},
        {"protocol": {"readerFeatures": [3]}},
        {"commitInfo": {"timestamp": 1, "headwater": {"number": 2}}},
        {"commitInfo": {"headwater": {"kind": "clean", "base": {"plain": 1}}}},
    ],
)
def test_an_entry_of_another_form_is_damage(tmp_path: Path, action: dict[str, Any]) -> None:
    view = view_in(tmp_path)
    newest = max((view.log.folder.local / "_delta_log").glob("*.json"))
    newest.write_bytes(sealed(newest.read_bytes() + b"\n" + json.dumps(action).encode()))
    with pytest.raises(
        EngineError, match=rf"{newest.name} cannot be read.*headwater reload orders"
    ):
        Warehouse(tmp_path).view("orders").rows()


@pytest.mark.parametrize("content", [b"\xff", b"[" * 100_000, b"3", b'"add"'])
def test_an_entry_that_is_no_json_object_is_damage(tmp_path: Path, content: bytes) -> None:
    view = view_in(tmp_path)
    newest = max((view.log.folder.local / "_delta_log").glob("*.json"))
    newest.write_bytes(content)
    with pytest.raises(EngineError, match=f"{newest.name} cannot be read"):
        Warehouse(tmp_path).view("orders").rows()


def test_a_checkpoint_of_another_form_is_passed_over(tmp_path: Path) -> None:
    view = view_in(tmp_path)
    expected = view.rows()
    snapshot = view.log.snapshot()
    view.log.write_checkpoint(snapshot)
    (path,) = (view.log.folder.local / "_delta_log").glob("*.checkpoint.parquet")
    table = pyarrow.parquet.read_table(path)
    numbers = pyarrow.array([1] * table.num_rows)
    pyarrow.parquet.write_table(table.set_column(0, "add", numbers), path)
    assert Warehouse(tmp_path).view("orders").rows() == expected


def describe(view: ViewTable, description: dict[str, Any]) -> None:
    """Let the metadata of a view's log say something else of it."""
    first = min((view.log.folder.local / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in first.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["description"] = json.dumps(description)
    first.write_bytes(entry_of(actions))


def test_a_table_that_does_not_describe_a_view_is_damage(tmp_path: Path) -> None:
    describe(view_in(tmp_path), {"definition": 3})
    with pytest.raises(EngineError, match=r"does not describe a view.*headwater reload orders"):
        _ = Warehouse(tmp_path).view("orders").definition


@pytest.mark.parametrize("stored", [{}, {"view": 1, "select": 2, "columns": 3, "relations": 4}])
def test_a_definition_of_another_form_is_told(tmp_path: Path, stored: dict[str, Any]) -> None:
    describe(view_in(tmp_path), {"definition": stored, "sources": []})
    with pytest.raises(EngineError) as raised:
        _ = Warehouse(tmp_path).view("orders").definition
    assert str(raised.value) == (
        "What view orders was loaded with cannot be read. Run headwater reload orders."
    )


# Small files


@pytest.mark.parametrize(
    "change",
    [{"pid": 10**30}, {"pid": -1}, {"epoch": True}, {"epoch": 10**400}, {"renewed": float("nan")}],
)
def test_a_lease_of_another_form_says_nothing(tmp_path: Path, change: dict[str, Any]) -> None:
    lease = Lease(tmp_path)
    lease.acquire()
    told = json.loads((tmp_path / "lease.json").read_bytes())
    lease.release()
    (tmp_path / "lease.json").write_text(json.dumps({**told, **change}))
    assert current_runner(tmp_path) is None
    after = Lease(tmp_path)
    after.acquire()
    after.release()
    assert after.epoch == 2


def test_an_identity_that_is_a_link_to_nowhere_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "warehouse.json").symlink_to("nowhere")
    with pytest.raises(InputError, match="is damaged"):
        owner_of(tmp_path)


@pytest.mark.parametrize("told", ["3", '{"views": 3}', '{"sources": {"crm": 3}}', "[" * 100_000])
def test_a_status_of_another_form_says_nothing(tmp_path: Path, told: str) -> None:
    make_project(tmp_path / "p")
    own = tmp_path / "p" / "warehouse" / "_headwater"
    own.mkdir(parents=True)
    (own / "status.json").write_text(told)
    found = quick("status", "--json", "--project", str(tmp_path / "p"))
    assert (found.code, json.loads(found.out)["troubles"]) == (3, [])


@pytest.mark.parametrize("told", ["3", "{}", '{"action": []}', '{"action": "drop", "name": 3}'])
def test_a_request_of_another_form_is_none(tmp_path: Path, told: str) -> None:
    (tmp_path / "requests").mkdir()
    (tmp_path / "requests" / "a.request").write_text(told)
    (tmp_path / "requests" / "b.request").mkdir()
    assert waiting_requests(tmp_path) == []
    forget_requests(tmp_path)


def test_requests_behind_a_link_are_somebody_elses_files(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "letter.request").write_text('{"action": "drop", "name": "v"}')
    (tmp_path / "requests").symlink_to("outside")
    assert waiting_requests(tmp_path) == []
    forget_requests(tmp_path)
    assert (tmp_path / "outside" / "letter.request").exists()


@pytest.mark.parametrize("name", ["staging", "trash", "scratch"])
def test_leftovers_behind_a_link_are_somebody_elses_files(tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "letter").touch()
    warehouse = Warehouse(tmp_path / "w")
    warehouse.internal.mkdir(parents=True)
    (warehouse.internal / name).symlink_to(tmp_path / "outside")
    warehouse.remove_leftovers(older_than_s=-1)
    assert (tmp_path / "outside" / "letter").exists()


def test_where_requests_cannot_be_put_is_told(tmp_path: Path) -> None:
    make_project(tmp_path / "p")
    own = tmp_path / "p" / "warehouse" / "_headwater"
    lease = Lease(own)
    lease.acquire()
    (own / "requests").touch()
    try:
        with pytest.raises(HeadwaterError, match=r"cannot be asked to drop v: .*requests"):
            ask_runner(Project.open(tmp_path / "p"), "drop", "v")
    finally:
        lease.release()
