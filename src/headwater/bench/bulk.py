"""Bulk changes: how long they take to be visible in a view, by each way of taking them in.

TPC-H's customers, orders and lines are in three PostgreSQL servers. A change brings new orders with
their lines, so many per cent of all; then they are deleted again, which is a change of the same
size, so that every way is measured over the same tables. Each way has a project of its own, which
is set up and loaded when its turn comes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.bench.freshness.measure import Running, World
from headwater.bench.freshness.workload import SELECT, bulk_rows
from headwater.bench.plots import line_chart
from headwater.bench.processes import memory_mb, processor_s
from headwater.errors import InputError
from headwater.terminal.output import print_json, print_table

_ORDERS = 1_500_000
_SHARES = (0.1, 1.0, 10.0, 50.0)
_KINDS = ("came_s", "went_s")


@dataclass(frozen=True)
class Way:
    """A way of taking changes in: an engine, and when the view is recomputed."""

    engine: str
    recompute: str


_ALWAYS = "FROM 1 ROWS"
WAYS = {
    "auto": Way("auto", "WHEN CHEAPER"),
    "maintained": Way("auto", "NEVER"),
    "spark": Way("spark", "NEVER"),
    "recomputed": Way("auto", _ALWAYS),
}
"""`auto` chooses; the others are what it can choose from."""


def bulk(
    scale: float,
    shares: Sequence[float] | None,
    ways: Sequence[str] | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Measure and show; see `headwater bench bulk --help`."""
    if unknown := [name for name in ways or () if name not in WAYS]:
        raise InputError(f"There is no way {unknown[0]}.", f"There are {', '.join(WAYS)}.")
    found = measured(scale, shares or _SHARES, ways or list(WAYS))
    if as_json:
        print_json(found)
    else:
        _print(found)
    if plot is not None:
        _plot(plot, found)


def measured(scale: float, shares: Sequence[float], ways: Sequence[str]) -> dict[str, Any]:
    """What each way took for each share, and the memory that was held."""
    world = World(scale, _say, dict.fromkeys(ways, SELECT))
    try:
        found = [each for name in ways for each in _by(world, name, shares)]
        _say("recomputing on Spark from local files")
        local_s = [world.recompute_on_spark() for _ in range(3)]
        return {"scale": scale, "changes": found, "local_files_s": round(min(local_s), 3)}
    finally:
        world.close()


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _by(world: World, name: str, shares: Sequence[float]) -> list[dict[str, Any]]:
    way = WAYS[name]
    world.set_up(name, f"RECOMPUTE {way.recompute}")
    world.spark()
    began, work = time.monotonic(), processor_s(world.servers.processes)
    with world.running(way.engine, name) as running:
        took, work = time.monotonic() - began, processor_s(world.servers.processes) - work
        _say(f"{name}: loaded in {took:.2f} s ({work:.1f} s of processors)")
        found = [_change(running, name, share) for share in shares]
    world.take_down(name)
    return found


def _change(running: Running, name: str, share: float) -> dict[str, Any]:
    """New orders with their lines, and the same gone again; smaller ones first, to warm up where
    the load has not done that."""
    world = running.world
    orders = max(1, int(_ORDERS * world.scale * share / 100))
    warm_up = [] if WAYS[name].recompute == _ALWAYS else [max(1, orders // 100)]
    for size in (*warm_up, orders):
        keys = world.changes.come(size)
        came, came_work = running.weigh()
        recomputed = running.is_recomputed
        world.changes.go(keys)
        went, went_work = running.weigh()
    held = {kind: round(each) for kind, each in memory_mb().items()}
    _say(
        f"{name}: {share:g}% came in {came:.2f} s ({came_work:.1f} s of processors), went in "
        f"{went:.2f} s ({went_work:.1f} s); MB: {held}"
    )
    return {
        "way": name,
        "per_cent": share,
        "rows": bulk_rows(keys),
        "came_s": round(came, 3),
        "went_s": round(went, 3),
        "processor_s": [round(came_work, 2), round(went_work, 2)],
        "recomputed": [recomputed, running.is_recomputed],
        "memory_mb": held,
    }


# Showing


def _against_best(change: Mapping[str, Any], changes: Sequence[Mapping[str, Any]]) -> float:
    """How many times as long as by the quickest way."""
    alike = [each for each in changes if each["per_cent"] == change["per_cent"]]
    return max(float(change[kind] / min(each[kind] for each in alike)) for kind in _KINDS)


def _print(found: Mapping[str, Any]) -> None:
    changes = found["changes"]
    print_table(
        f"Bulk changes at scale {found['scale']:g}: from the last commit to visible",
        [
            "per cent",
            "rows",
            "way",
            "came s",
            "went s",
            "× best",
            "processor s",
            "MB: Python",
            "JVM",
            "workers",
        ],
        [
            [
                f"{each['per_cent']:g}",
                f"{each['rows']:,}",
                each["way"],
                *(
                    f"{each[kind]:.2f}{' (recomputed)' if recomputed else ''}"
                    for kind, recomputed in zip(_KINDS, each["recomputed"], strict=True)
                ),
                f"{_against_best(each, changes):.2f}",
                " + ".join(f"{seconds:.1f}" for seconds in each["processor_s"]),
                *(f"{each['memory_mb'][kind]:,}" for kind in ("python", "jvm", "workers")),
            ]
            for each in sorted(changes, key=lambda each: float(each["per_cent"]))
        ],
    )


def _plot(path: Path, found: Mapping[str, Any]) -> None:
    lines: dict[str, list[tuple[float, float]]] = {}
    for each in found["changes"]:
        lines.setdefault(each["way"], []).append((each["per_cent"], each["came_s"]))
    line_chart(
        path,
        f"A bulk change until the view shows it, scale {found['scale']:g}",
        ("per cent of all orders that come", "seconds"),
        lines,
        logarithmic=True,
    )
