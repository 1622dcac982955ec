"""No traceback reaches a terminal: what goes wrong is a sentence and an exit code."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from headwater.cli import lab
from headwater.terminal.failures import told
from tests.cli.commands import PROGRAM, failing


@pytest.fixture(autouse=True)
def _details_in_a_folder_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def planted(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let a command fail inside, in a way that nobody has thought of."""

    def fail(*arguments: object) -> None:
        raise error

    monkeypatch.setattr(lab, "read_objects", fail)


def test_a_fault_of_our_own_is_one_sentence_that_names_the_details(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted(monkeypatch, RuntimeError("hush"))
    found = failing(monkeypatch, capsys, "lab", "replay", "x.json")
    assert found.code == 70
    assert "Traceback" not in found.err
    assert "hush" not in found.err
    assert found.err.startswith("headwater: this is a fault of Headwater: RuntimeError. The detai")
    assert found.err.count("\n") == 1
    named = re.search(r"are in (\S+)\.", found.err)
    assert named is not None
    details = Path(named[1])
    assert stat.S_IMODE(details.stat().st_mode) == 0o600
    assert "RuntimeError: hush" in details.read_text(encoding="utf-8")


def test_the_details_are_printed_for_those_who_ask(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADWATER_DEBUG", "1")
    planted(monkeypatch, RuntimeError("hush"))
    found = failing(monkeypatch, capsys, "lab", "replay", "x.json")
    assert "RuntimeError: hush" in found.err
    assert found.code == 70


def test_an_interrupted_command_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted(monkeypatch, KeyboardInterrupt())
    found = failing(monkeypatch, capsys, "lab", "replay", "x.json")
    assert (found.code, found.err) == (130, "headwater: interrupted.\n")


def test_ctrl_c_before_a_command_has_begun_says_so_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended, told():
        raise KeyboardInterrupt
    assert (ended.value.code, capsys.readouterr().err) == (130, "headwater: interrupted.\n")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_fails_is_told_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)  # put back afterwards

    def fail() -> None:
        raise ValueError("hush")

    with told():
        thread = threading.Thread(target=fail, name="reader")
        thread.start()
        thread.join()
    said = capsys.readouterr().err
    assert said.startswith("headwater: this is a fault of Headwater, in its thread reader: ValueE")
    assert "hush" not in said


def test_a_reader_that_has_gone_is_no_matter() -> None:
    command = [sys.executable, "-c", PROGRAM, "lab", "generate", "--seeds", "0:2000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
