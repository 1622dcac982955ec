"""Who may read what Headwater writes, on a machine where files are readable unless one cares."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater import Project
from headwater.errors import InputError
from headwater.project.example import make_project
from headwater.sharing.node import SharingNode
from headwater.warehouse.warehouse import Warehouse
from tests.cli.commands import PROGRAM, quick

OTHERS = 0o077
NOBODY = 65534


@pytest.fixture(autouse=True)
def lenient() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "orders"
    make_project(folder)
    return folder


def say(project: Path, section: str, *lines: str) -> None:
    """Put settings into a section of headwater.toml, which has it already."""
    text = (project / "headwater.toml").read_text()
    assert f"[{section}]\n" in text
    said = "".join(f"{line}\n" for line in lines)
    (project / "headwater.toml").write_text(text.replace(f"[{section}]\n", f"[{section}]\n{said}"))


def headwater(project: Path, *arguments: str) -> None:
    program = f"import os; os.umask(0o022); {PROGRAM}"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments, "-p", str(project)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def readable(folder: Path) -> list[Path]:
    """What others may read there, if they may come as far as the folder."""
    found = []
    if folder.is_dir() and mode(folder) & OTHERS:
        found += [each for inner in folder.iterdir() for each in readable(inner)]
    return [folder, *found] if mode(folder) & OTHERS else found


def test_nobody_else_reads_what_commands_write(project: Path) -> None:
    say(project, "spark", 'engine = "spark"')
    headwater(project, "setup", "shop")
    headwater(project, "setup", "crm")
    headwater(project, "run", "--once")
    headwater(project, "share", "publish")
    files = [path for name in ("warehouse", "share") for path in (project / name).rglob("*")]
    assert len(files) > 20
    assert [path for path in files if mode(path) & OTHERS] == []
    assert not mode(project / "warehouse") & OTHERS
    assert not mode(project / "share") & OTHERS


def test_nobody_else_reads_what_a_program_writes_and_its_umask_is_its_own(
    project: Path, spark: SparkSession
) -> None:
    for source in Project.open(project).sources.values():
        source.setup()
    Project.open(project).run(once=True, spark=spark)
    assert readable(project / "warehouse") == []
    assert os.umask(0o022) == 0o022


@pytest.mark.parametrize(("readers", "folder", "file"), [("group", 0o750, 0o640),
                                                         ("public", 0o755, 0o644)])  # fmt: skip
def test_views_are_read_by_whom_the_settings_say_and_nothing_else_is(
    project: Path, readers: str, folder: int, file: int
) -> None:
    say(project, "warehouse", f'readers = "{readers}"')
    headwater(project, "setup", "shop")
    headwater(project, "setup", "crm")
    headwater(project, "run", "--once")
    headwater(project, "reload", "order_lines")
    warehouse = project / "warehouse"
    assert mode(warehouse) == folder
    assert mode(warehouse / "_headwater") == 0o700
    for view in ("order_lines", "big_orders"):
        paths = [warehouse / view, *(warehouse / view).rglob("*")]
        assert {mode(path) for path in paths if path.is_dir()} == {folder}
        assert {mode(path) for path in paths if path.is_file()} == {file}


def test_a_change_of_the_setting_holds_for_what_is_there_already(
    project: Path, spark: SparkSession
) -> None:
    for source in Project.open(project).sources.values():
        source.setup()
    settings = (project / "headwater.toml").read_text()
    for readers, expected in (("public", 0o644), ("private", 0o600), ("group", 0o640)):
        (project / "headwater.toml").write_text(settings)
        say(project, "warehouse", f'readers = "{readers}"')
        Project.open(project).run(once=True, spark=spark)
        files = list((project / "warehouse" / "big_orders").rglob("*.*"))
        assert {mode(path) for path in files if path.is_file()} == {expected}
    assert mode(project / "warehouse" / "_headwater") == 0o700


def test_what_an_earlier_version_left_open_is_closed(project: Path, spark: SparkSession) -> None:
    for source in Project.open(project).sources.values():
        source.setup()
    Project.open(project).run(once=True, spark=spark)
    warehouse = project / "warehouse"
    for path in [warehouse, *warehouse.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    Project.open(project).run(once=True, spark=spark)
    assert readable(warehouse) == []
    assert mode(warehouse / "_headwater") == 0o700


def test_a_node_publishes_to_those_who_may_enter_its_folder(tmp_path: Path) -> None:
    SharingNode.create(tmp_path / "mine", "mine", "shared")
    assert readable(tmp_path / "mine") == []
    (tmp_path / "ours").mkdir(mode=0o755)
    SharingNode.create(tmp_path / "ours", "ours", "shared")
    found = {path.name for path in readable(tmp_path / "ours")}
    assert {"objects", "node.json"} <= found
    assert found.isdisjoint({"held", "temporary", "lock"})
    assert not [name for name in found if "private" in name or "key" in name]


LOOK = """
import sys
from pathlib import Path
from headwater.frames.session import spark_session
spark = spark_session(master="local[1]")
spark.range(100).repartition(3).count()
for path in Path(sys.argv[1]).rglob("*"):
    print(oct(path.stat().st_mode & 0o777), path)
"""


def test_what_spark_puts_aside_is_in_a_folder_that_nobody_else_enters(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOOK, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    found = {Path(line.split(" ", 1)[1]): int(line.split()[0], 8)
             for line in done.stdout.splitlines()}  # fmt: skip
    aside = [path for path in found if path.name.startswith("blockmgr-")]
    assert aside
    for path in aside:
        top = tmp_path / path.relative_to(tmp_path).parts[0]
        assert found[top] == 0o700
    assert not any(tmp_path.glob("headwater-spark-*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder to another user")
@pytest.mark.parametrize("foreign", ["warehouse", "warehouse/_headwater"])
@pytest.mark.parametrize("command", [["run", "--once"], ["check"], ["setup", "shop"], ["status"]])
def test_a_warehouse_of_another_user_is_refused_and_nothing_is_done_there(
    project: Path, foreign: str, command: list[str]
) -> None:
    inside = project / "warehouse" / "_headwater"
    kept = inside / "trash" / "kept"
    kept.mkdir(parents=True)
    for folder in (kept.parent, kept):
        os.utime(folder, (0, 0))
    os.chown(project / foreign, NOBODY, NOBODY)
    try:
        done = quick(*command, "-p", str(project))
        said, code = done.out + done.err, done.code
    except InputError as error:
        said, code = str(error), 2
    assert code == 2
    assert "belongs to another user" in " ".join(said.split())
    assert kept.is_dir()
    assert [path.name for path in inside.iterdir()] == ["trash"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a link to another user")
def test_a_link_of_another_user_is_no_warehouse(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    Warehouse(tmp_path / "link")
    os.chown(tmp_path / "link", NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(InputError, match="belongs to another user"):
        Warehouse(tmp_path / "link")
