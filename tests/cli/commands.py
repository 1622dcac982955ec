"""Running the command as a user does, in a process of its own or, faster, in this one."""

import subprocess
import sys
from dataclasses import dataclass

import pytest
from typer.testing import CliRunner

from headwater.cli import main as entry

PROGRAM = "import sys; sys.argv[0] = 'headwater'; from headwater.cli.main import main; main()"
_TELLING = "atexit.register(lambda: print('loaded:', *sys.modules))"


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


def headwater(*arguments: str, stdin: str = "") -> Result:
    """Run the command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def loaded_by(*command: str) -> set[str]:
    """The modules that a command has imported when it is done."""
    done = subprocess.run(
        [sys.executable, "-c", f"import atexit, sys; {_TELLING}; {PROGRAM}", *command],
        capture_output=True,
        text=True,
        check=False,
    )
    return set(done.stdout.partition("loaded:")[2].split())


def quick(*arguments: str, stdin: str = "") -> Result:
    """Run a command here, for what needs no process of its own; errors are raised."""
    done = CliRunner().invoke(entry.app, list(arguments), input=stdin, catch_exceptions=False)
    return Result(done.exit_code, done.stdout, done.stderr)


def failing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> Result:
    """Run the entry point here, up to the exit code."""
    monkeypatch.setattr(sys, "argv", ["headwater", *arguments])
    with pytest.raises(SystemExit) as stopped:
        entry.main()
    captured = capsys.readouterr()
    return Result(int(stopped.value.code or 0), captured.out, captured.err)
