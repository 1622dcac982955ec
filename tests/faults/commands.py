"""The command as an operator uses it: here, for speed, or in a process that can be killed.

A command must end, and must never show a traceback; both are looked for in every one.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from types import FrameType

import typer.main
from typer.testing import CliRunner

from headwater.cli import main as entry
from headwater.errors import HeadwaterError

COMMAND = typer.main.get_command(entry.app)
"""Made once: that takes as long as many a command does."""
LIMIT_S = 180.0
"""Longer than any command takes on a busy machine: who reaches it hangs."""


class FaultError(AssertionError):
    """What Headwater may not do: be wrong, silent, without remedy, or without end."""


@dataclass(frozen=True)
class Outcome:
    """A command's exit code and everything that it said."""

    command: str
    code: int
    said: str

    def check(self) -> Outcome:
        """Words, not tracebacks; and words where it failed."""
        if "Traceback (most recent call last)" in self.said:
            raise FaultError(f"{self.command} showed a traceback:\n{self.said}")
        if self.code and not self.said.strip():
            raise FaultError(f"{self.command} failed with {self.code} and did not say why")
        return self


def headwater(folder: Path, *arguments: str) -> Outcome:
    """Run a command in this process."""
    command = " ".join(("headwater", *arguments))
    threads: list[str] = []
    code, said = 0, ""
    with _limited(command), _watched_threads(threads), CliRunner().isolation() as (*_, output):
        try:
            COMMAND.main([*arguments, "--project", str(folder)], prog_name="headwater")
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0
        except HeadwaterError as error:
            code, said = error.exit_code, f"\nheadwater: {error}"
        except FaultError:
            raise
        except Exception as error:
            code, said = 1, "".join(traceback.format_exception(error))
        sys.stdout.flush()
        sys.stderr.flush()
        said = output.getvalue().decode(errors="replace") + said
    return Outcome(command, code, "\n".join([said, *threads])).check()


@contextlib.contextmanager
def _limited(command: str) -> Iterator[None]:
    """A command that hangs is ended, with a word on where every thread of it was."""

    def give_up(number: int, frame: FrameType | None) -> None:
        with tempfile.TemporaryFile("w+") as file:
            faulthandler.dump_traceback(file)
            file.seek(0)
            raise FaultError(f"{command} did not end within {LIMIT_S:.0f} s:\n{file.read()}")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S, 10.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _watched_threads(found: list[str]) -> Iterator[None]:
    """What a thread would print when it dies is a part of what the command says."""

    def note(died: threading.ExceptHookArgs) -> None:
        lines = traceback.format_exception(died.exc_type, died.exc_value, died.exc_traceback)
        found.append("".join(lines))

    before = threading.excepthook
    threading.excepthook = note
    try:
        yield
    finally:
        threading.excepthook = before


# In a process of its own


def _forks() -> ForkServerContext:
    """Processes that start with everything imported, from one that has no threads."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [
            "headwater.cli.running",
            "headwater.cli.maintenance",
            "headwater.pipeline.api",
            "psycopg",
            "deltalake",
        ]
    )
    return context


class Child:
    """A command in a process of its own, which can be stopped, continued and killed."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.command = " ".join(("headwater", *arguments))
        self._said = folder / "child.out"
        self._said.write_bytes(b"")
        self.process: ForkServerProcess = _forks().Process(
            target=_serve, args=(str(self._said), [*arguments, "--project", str(folder)])
        )
        self.process.start()

    @property
    def said(self) -> str:
        return self._said.read_text(errors="replace")

    def stopped_views(self) -> set[str]:
        """The views that it told to have stopped, and nothing else since."""
        states: dict[str, str] = {}
        for line in self.said.splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                told = json.loads(line)
                if "view" in told and "state" in told:
                    states[told["view"]] = told["state"]
        return {view for view, state in states.items() if state == "stopped"}

    def send(self, number: int) -> None:
        assert self.process.pid is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, number)

    def wait(self) -> Outcome:
        self.process.join(LIMIT_S)
        if self.process.exitcode is None:
            self.send(signal.SIGUSR1)  # it says where its threads are
            time.sleep(1)
            self.kill()
            raise FaultError(f"{self.command} did not end within {LIMIT_S:.0f} s:\n{self.said}")
        return Outcome(self.command, self.process.exitcode, self.said).check()

    def wait_until(self, condition: Callable[[], bool], limit_s: float) -> bool:
        """Whether it came so far in that time, and is still there."""
        deadline = time.monotonic() + limit_s
        while not condition():
            if self.process.exitcode is not None or time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


def _serve(said: str, arguments: list[str]) -> None:
    with Path(said).open("ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout = os.fdopen(1, "w", buffering=1, encoding="utf-8")
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8")
    faulthandler.register(signal.SIGUSR1, file=sys.stderr)
    sys.argv = ["headwater", *arguments]
    try:
        entry.main()
        code = 0
    except SystemExit as stopped:
        code = stopped.code if isinstance(stopped.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    os._exit(code)
