"""What processes hold of memory and have had of processors: this one, Spark's, those below them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from pathlib import Path


def memory_mb() -> dict[str, float]:
    """What this process, the virtual machine below it, and the workers of Spark's tasks below that
    hold now, and each held at most (`peak`)."""
    parents = _parents()
    jvms = _jvms(parents)
    kinds = {"python": {os.getpid()}, "jvm": jvms, "workers": _below(jvms, parents)}
    found: dict[str, float] = {}
    for kind, pids in kinds.items():
        found[kind] = sum(_held_mb(pid, "VmRSS") for pid in pids)
        found[f"{kind}_peak"] = sum(_held_mb(pid, "VmHWM") for pid in pids)
    return found


def processor_s(servers: Iterable[int]) -> float:
    """The time that this process, those below it, and servers with theirs have had of processors:
    on a machine that others use too it tells more than the time that has passed."""
    roots = {os.getpid(), *servers}
    return _had_s(roots | _below(roots, _parents()))


def spark_processor_s() -> float:
    """What Spark's virtual machine, and the workers of its tasks, have had of processors."""
    parents = _parents()
    jvms = _jvms(parents)
    return _had_s(jvms | _below(jvms, parents))


def _had_s(processes: Iterable[int]) -> float:
    ticks = 0
    for pid in processes:
        with suppress(OSError):  # it has just ended
            ticks += sum(map(int, _fields(pid)[11:15]))  # of those that have ended below it, too
    return ticks / os.sysconf("SC_CLK_TCK")


def _jvms(parents: Mapping[int, int]) -> set[int]:
    """The virtual machines that this process has started."""
    return {pid for pid, parent in parents.items() if parent == os.getpid() and _is_java(pid)}


def _parents() -> dict[int, int]:
    found: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            pid = int(path.parent.name)
            found[pid] = int(_fields(pid)[1])
    return found


def _fields(process: int) -> list[str]:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def _below(roots: Set[int], parents: Mapping[int, int]) -> set[int]:
    found: set[int] = set()
    while more := {p for p, parent in parents.items() if parent in roots | found} - found:
        found |= more
    return found


def _is_java(process: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{process}/comm").read_text().strip() == "java"
    return False


def _held_mb(process: int, what: str) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith(f"{what}:"):
                return int(line.split()[1]) / 1024
    return 0.0
