"""Executors of a cluster on this machine: processes below its folder that can be killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

LIMIT_S = 600.0
"""For what hangs; a busy machine is slow."""


def executors_in(folder: Path) -> list[int]:
    """The processes of executors that work below a folder."""
    return sorted(
        pid
        for pid, line in _command_lines()
        if b"CoarseGrainedExecutorBackend" in line and _is_java(line) and _works_in(pid, folder)
    )


def kill_executor_in(folder: Path) -> int:
    """Kill one as `kill -9` does, and what it has started; waits until there is one."""
    until = time.monotonic() + LIMIT_S
    while not (running := executors_in(folder)):
        assert time.monotonic() < until, "no executor is running"
        time.sleep(0.01)
    with suppress(ProcessLookupError):  # it has just ended by itself, which is as good
        os.kill(running[0], signal.SIGKILL)
    return running[0]


def _is_java(line: bytes) -> bool:
    """Not the shell that has started it."""
    return line.split(b"\0", 1)[0].endswith(b"java")


def _works_in(pid: int, folder: Path) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cwd").resolve().is_relative_to(folder)
    return False


def _command_lines() -> Iterator[tuple[int, bytes]]:
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            with suppress(OSError):
                yield int(process.name), (process / "cmdline").read_bytes()
