"""The command: every algorithm on every workload, as a table, as JSON and as a picture."""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from headwater.bench.algorithms.comparing import CHOSEN, Comparison, Entry, compare, entries
from headwater.bench.algorithms.measure import Measured
from headwater.bench.algorithms.workload import WORKLOADS, Templates, Workload
from headwater.bench.plots import Dot, dot_grid
from headwater.check.levels import Level, parse_level
from headwater.errors import InputError
from headwater.terminal.output import console, parse_seeds, print_json, print_table

FIGURES: dict[str, Callable[[Measured], float]] = {
    "messages": lambda found: found.messages,
    "bytes": lambda found: found.bytes,
    "average, ms": lambda found: found.average_ms,
    "median, ms": lambda found: found.median_ms,
    "p95, ms": lambda found: found.p95_ms,
}


def algorithms(
    names: Sequence[str] | None,
    only: Sequence[str] | None,
    level: str,
    seen: str,
    seeds: str,
    distance_ms: float,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Measure and show; see `headwater bench algorithms --help`."""
    workloads, wanted = _workloads(names), _level(level)
    calibrating, measuring = parse_seeds(seen), parse_seeds(seeds)
    if set(calibrating) & set(measuring):
        raise InputError(
            "The chooser would have seen seeds that are measured.", "Give --seen and --seeds apart."
        )
    listed = _entries(workloads, wanted, only)
    found = []
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        templates = Templates(Path(folder))
        try:
            for workload in workloads:
                done = compare(
                    templates,
                    workload,
                    wanted,
                    listed[workload.name],
                    calibrating,
                    measuring,
                    distance_ms / 1000,
                    _say,
                )
                found.append(done)
                _show(done, as_json)
        finally:
            templates.stop()
    if plot is not None:
        _draw(plot, found)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _workloads(names: Sequence[str] | None) -> list[Workload]:
    known = {workload.name: workload for workload in WORKLOADS}
    for name in names or ():
        if name not in known:
            listed = ", ".join(known)
            raise InputError(f"There is no workload '{name}'.", f"There are: {listed}.")
    return [known[name] for name in names or known]


def _entries(
    workloads: Sequence[Workload], level: Level, only: Sequence[str] | None
) -> dict[str, list[Entry]]:
    """What is measured on each workload: everything, or what was named, and the chosen one."""
    known = {workload.name: entries(workload, level) for workload in workloads}
    every = [entry for listed in known.values() for entry in listed]
    for name in only or ():
        if not any(name in entry.names for entry in every):
            told = ", ".join(dict.fromkeys(entry.algorithm for entry in every))
            raise InputError(
                f"'{name}' does not maintain a view of these workloads.",
                f"There are: {told}; some with parameters in brackets, as the table has them.",
            )
    wanted = {*only, CHOSEN} if only else set()
    return {
        workload: [each for each in listed if not wanted or wanted & {*each.names}]
        for workload, listed in known.items()
    }


def _level(text: str) -> Level:
    found = parse_level(text)
    if found < Level.CONVERGENT:
        raise InputError(f"--level {text}: is no level.", "Write for example strong.")
    return found


# Shown


def _show(found: Comparison, as_json: bool) -> None:
    if as_json:
        for line in _objects(found):
            print_json(line)
        return
    print_table(
        f"{found.workload.title}, {found.level}: a transaction, on seeds "
        f"{', '.join(map(str, found.seeds))}",
        ["algorithm", *FIGURES, ""],
        (
            [
                name,
                *(f"{figure(measured):,.1f}" for figure in FIGURES.values()),
                _remark(found, name),
            ]
            for name, measured in _ordered(found)
        ),
        is_whole=True,
    )
    console().print(_compared(found), markup=False)


def _ordered(found: Comparison) -> list[tuple[str, Measured]]:
    return sorted(found.found.items(), key=lambda item: item[1].average_ms)


def _remark(found: Comparison, name: str) -> str:
    if name == CHOSEN:
        return ", ".join(dict.fromkeys(found.choices))
    entry = found.entries[name]
    if not entry.keeps:
        return "below the level"
    return "" if entry.may_be_chosen else "by USING only"


def _compared(found: Comparison) -> str:
    """The chosen one against the best of all, and against the best of those that may be chosen."""
    told = []
    for what, figure in (("time", _time), ("median time", _median), ("bytes", _bytes)):
        for among, choosable in (("all that keep the level", False), ("the choosable", True)):
            best, least = found.best(figure, choosable)
            ratio = found.ratio(figure, choosable)
            shown = f"× {ratio:.2f}" if least or ratio == 1 else "without measure"
            told.append(f"{what} {shown} of the best of {among} ({best})")
    return f"chosen: {'; '.join(told)}. The halves of a run differ by × {found.noise:.2f}."


def _time(found: Measured) -> float:
    """What a transaction takes on average, as the chooser estimates it: where some ask nothing and
    others wait, the median tells of the ones or the others only."""
    return found.average_ms


def _median(found: Measured) -> float:
    return found.median_ms


def _bytes(found: Measured) -> float:
    return found.bytes


def _objects(found: Comparison) -> list[dict[str, Any]]:
    about = {"workload": found.workload.name, "level": str(found.level)}
    lines: list[dict[str, Any]] = [
        {
            **about,
            "algorithm": name,
            "keeps_level": found.entries[name].keeps,
            "may_be_chosen": found.entries[name].may_be_chosen,
            "transactions": measured.transactions,
            "messages": round(measured.messages, 3),
            "bytes": round(measured.bytes, 1),
            "average_ms": round(measured.average_ms, 2),
            "median_ms": round(measured.median_ms, 2),
            "p95_ms": round(measured.p95_ms, 2),
        }
        for name, measured in _ordered(found)
    ]
    lines.append(
        {
            **about,
            "seeds": found.seeds,
            "chosen": found.choices,
            "best_time": found.best(_time)[0],
            "best_time_choosable": found.best(_time, choosable=True)[0],
            "time_ratio": _finite(found.ratio(_time)),
            "time_ratio_choosable": _finite(found.ratio(_time, choosable=True)),
            "median_ratio": _finite(found.ratio(_median)),
            "median_ratio_choosable": _finite(found.ratio(_median, choosable=True)),
            "best_bytes": found.best(_bytes)[0],
            "best_bytes_choosable": found.best(_bytes, choosable=True)[0],
            "bytes_ratio": _finite(found.ratio(_bytes)),
            "bytes_ratio_choosable": _finite(found.ratio(_bytes, choosable=True)),
            "noise": round(found.noise, 3),
        }
    )
    return lines


def _finite(ratio: float) -> float | None:
    """None where the best is nothing at all: JSON has no infinity."""
    return None if math.isinf(ratio) else round(ratio, 3)


def _draw(path: Path, found: Sequence[Comparison]) -> None:
    names = list(dict.fromkeys(name for each in found for name in sorted(each.found)))
    names = [name for name in names if name != CHOSEN]
    rows = [CHOSEN, *names]
    panels = {}
    for each in found:
        dots, moved = {}, {}
        for name, measured in each.found.items():
            kind = "best" if name == CHOSEN else "" if each.entries[name].keeps else "weak"
            dots[name] = Dot(measured.average_ms, measured.p95_ms, kind)
            moved[name] = Dot(max(1.0, measured.bytes), None, kind)
        chosen = ", ".join(dict.fromkeys(each.choices))
        panels[f"{each.workload.title}\n{chosen}"] = (dots, moved)
    dot_grid(
        path,
        "Every algorithm on real databases",
        rows,
        ("visible after, ms (average; to p95)", "bytes of answers a transaction"),
        panels,
    )
