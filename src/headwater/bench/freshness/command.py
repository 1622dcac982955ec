"""The command: runs the measurements of each scale and shows them."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from headwater.bench.freshness.measure import STEPS, Running, Timing, World
from headwater.bench.freshness.workload import SELECTS
from headwater.bench.plots import line_chart
from headwater.bench.processes import memory_mb
from headwater.terminal.output import print_json, print_table

_REPEATS = {1: 100, 100: 50, 10_000: 5}
_ALTERNATIVE_REPEATS = 3
_ROUNDS = 2
_MOST_GROUPED = 1000


def freshness(
    scale: Sequence[float] | None,
    batch: Sequence[int] | None,
    tail: int,
    grouped: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Measure and show; see `headwater bench freshness --help`."""
    scales = scale or [0.1, 1.0]
    sizes = batch or [1, 100, 10_000]
    found = [_measure(s, sizes, tail, grouped) for s in scales]
    if as_json:
        for result in found:
            print_json(result)
    else:
        _print(found)
    if plot is not None:
        _plot(plot, found)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _measure(scale: float, sizes: Sequence[int], tail: int, grouped: bool) -> Any:
    world = World(scale, _say)
    try:
        for view in SELECTS:  # before anything changes: all of them count from here
            world.set_up(view)
        result: dict[str, Any] = {"scale": scale}
        with world.running("auto") as running:
            _say("measuring batches")
            result["batches"] = [_batch(running, size) for size in sizes]
            result["memory_mb"] = memory_mb()
            if tail:
                _say("measuring reads")
                result["read"] = running.time_read(tail)
        if grouped:
            result["grouped"] = _grouped(world, [size for size in sizes if size <= _MOST_GROUPED])
        _say("recomputing")
        result["recompute"] = _recompute(world)
        result["crossover"] = _crossover(result)
        return result
    finally:
        world.close()


def _batch(running: Running, size: int) -> dict[str, Any]:
    repeat = _REPEATS.get(size, 10)
    return _described(running.measure(size, max(3, repeat // 3), repeat))


def _grouped(world: World, sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Sums over the join beside the join itself, in turns."""
    timings: dict[tuple[str, int], Timing] = {}
    reads: dict[str, dict[str, float]] = {}
    for again in range(_ROUNDS):
        for view in SELECTS:
            with world.running("auto", view) as running:
                _say(f"measuring {view}, {again + 1} of {_ROUNDS}")
                for size in sizes:
                    repeat = _REPEATS.get(size, 10) // 2
                    found = running.measure(size, max(3, repeat // 3), repeat)
                    if (before := timings.get((view, size))) is not None:
                        found.seconds += before.seconds
                    timings[view, size] = found
                if again + 1 == _ROUNDS:
                    reads[view] = running.time_newest()
    return [
        {"view": view, **_described(timing), **reads[view]} for (view, _), timing in timings.items()
    ]


def _described(timing: Timing) -> dict[str, Any]:
    return {
        "size": timing.size,
        "median_ms": round(timing.median_ms, 2),
        "p99_ms": round(timing.p99_ms, 2),
        "rows": round(timing.rows, 1),
        "questions": round(timing.questions, 2),
        "steps_ms": {step: round(ms, 2) for step, ms in timing.steps.items()},
    }


def _recompute(world: World) -> dict[str, float | None]:
    spark = [world.recompute_on_spark() for _ in range(_ALTERNATIVE_REPEATS + 1)][1:]
    duckdb = [world.recompute_in_duckdb() for _ in range(_ALTERNATIVE_REPEATS + 1)][1:]
    known = [seconds for seconds in duckdb if seconds is not None]
    return {
        "spark_s": round(median(spark), 3),
        "duckdb_s": round(median(known), 3) if known else None,
    }


def _crossover(result: dict[str, Any]) -> dict[str, float | None]:
    """From how many changes on recomputing is quicker, between the sizes that were measured."""
    points = [(b["size"], b["median_ms"] / 1000) for b in result["batches"]]
    return {
        name.removesuffix("_s"): where_lines_meet(points, seconds)
        for name, seconds in result["recompute"].items()
        if seconds is not None
    }


def where_lines_meet(points: Sequence[tuple[int, float]], level: float) -> float | None:
    """Where a line through points, in logarithms, reaches a level; beyond the last if it must."""
    ordered = sorted(points)
    if len(ordered) < 2:
        return None
    for (a, low), (b, high) in itertools.pairwise(ordered):
        last = (b, high) == ordered[-1]
        if low <= level and (level <= high or last) and high > low:
            share = math.log(level / low) / math.log(high / low)
            return float(round(math.exp(math.log(a) + share * math.log(b / a))))
    return None


# Showing


def _print(found: Sequence[dict[str, Any]]) -> None:
    batches = [(result, b) for result in found for b in result["batches"]]
    print_table(
        "From the last commit at a source to visible in the view",
        ["scale", "changes", "changed rows", "median ms", "p99 ms"],
        [
            [
                f"{result['scale']:g}",
                f"{b['size']:,}",
                f"{b['rows']:,.0f}",
                f"{b['median_ms']:,.1f}",
                f"{b['p99_ms']:,.1f}",
            ]
            for result, b in batches
        ],
    )
    print_table(
        "Where the time goes: ms of one batch in each step; steps overlap",
        ["scale", "changes", "questions", *STEPS],
        [
            [
                f"{result['scale']:g}",
                f"{b['size']:,}",
                f"{b['questions']:g}",
                *(f"{b['steps_ms'][step]:,.1f}" for step in STEPS),
            ]
            for result, b in batches
        ],
    )
    print_table(
        "Against recomputing",
        ["scale", "Spark s", "DuckDB s", "crossover Spark", "crossover DuckDB", "memory MB"],
        [
            [
                f"{result['scale']:g}",
                f"{result['recompute']['spark_s']:.2f}",
                _number(result["recompute"]["duckdb_s"]),
                _number(result["crossover"].get("spark"), ",.0f"),
                _number(result["crossover"].get("duckdb"), ",.0f"),
                f"{result['memory_mb']['python']:,.0f} + {result['memory_mb']['jvm']:,.0f} (JVM)",
            ]
            for result in found
        ],
    )
    _print_grouped(found)
    for result in found:
        if read := result.get("read"):
            print_table(
                f"Reading at scale {result['scale']:g}",
                ["tail rows", "plain s", "newest s", "ratio"],
                [
                    [
                        f"{read['tail_rows']:,}",
                        f"{read['plain_s']:.3f}",
                        f"{read['newest_s']:.3f}",
                        f"{read['ratio']:.2f}",
                    ]
                ],
            )
    _print_growth(found)


def _print_grouped(found: Sequence[dict[str, Any]]) -> None:
    for result in found:
        measured = result.get("grouped", [])
        joined = {b["size"]: b["median_ms"] for b in measured if b["view"] == "v1"}
        if measured:
            print_table(
                f"Sums over the join beside it (v1) at scale {result['scale']:g}",
                ["view", "groups", "changes", "median ms", "against v1", "read s"],
                [
                    [
                        b["view"],
                        f"{b['groups']:,}",
                        f"{b['size']:,}",
                        f"{b['median_ms']:,.1f}",
                        f"× {b['median_ms'] / joined[b['size']]:.2f}",
                        f"{b['read_s']:.3f}",
                    ]
                    for b in measured
                ],
            )


def _print_growth(found: Sequence[dict[str, Any]]) -> None:
    if len(found) < 2:
        return
    small, large = found[0], found[-1]
    pairs = zip(small["batches"], large["batches"], strict=True)
    print_table(
        f"Growth with the base tables: scale {large['scale']:g} against {small['scale']:g}",
        ["changes", "time", "a recomputation"],
        [
            [
                f"{a['size']:,}",
                f"× {b['median_ms'] / a['median_ms']:.2f}",
                f"× {large['recompute']['spark_s'] / small['recompute']['spark_s']:.2f}",
            ]
            for a, b in pairs
        ],
    )


def _number(value: float | None, form: str = ".2f") -> str:
    return "" if value is None else format(value, form)


def _plot(path: Path, found: Sequence[dict[str, Any]]) -> None:
    lines: dict[str, list[tuple[float, float]]] = {}
    for result in found:
        scale = f"scale {result['scale']:g}"
        sizes = [b["size"] for b in result["batches"]]
        lines[f"Headwater, {scale}"] = [(b["size"], b["median_ms"]) for b in result["batches"]]
        for name, seconds in result["recompute"].items():
            if seconds is not None:
                title = {"spark_s": "Spark", "duckdb_s": "DuckDB"}[name]
                lines[f"recompute, {title}, {scale}"] = [(s, 1000 * seconds) for s in sizes]
    line_chart(
        path,
        "From a source's commit to the view",
        ("changes in one batch", "milliseconds"),
        lines,
        logarithmic=True,
    )
