"""The command: plans for shared views by heuristic, as a table, as JSON and as figures 4 to 7."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from headwater.bench.plots import DASHED, Panel, line_charts
from headwater.bench.sharing import ADDED, Line, Setting, measure, ranked_rightly
from headwater.terminal.output import busy, console, print_json, print_table


def sharing(
    intervals: int,
    sample: int,
    updates: int,
    most: int,
    scale: float,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Measure and show; see `headwater bench sharing --help`."""
    added = [many for many in ADDED if many <= most]
    setting = Setting(scale, updates, added=added, intervals=intervals, sample=sample)
    with busy(as_json) as report:
        lines = list(measure(setting, report))
    if plot is not None:
        _draw(plot, lines)
    if as_json:
        for line in lines:
            print_json(_as_json(line))
        right, pairs = ranked_rightly(lines)
        print_json({"pairs": pairs, "ranked_rightly": right})
    else:
        _show(lines, setting)


def _as_json(line: Line) -> dict[str, object]:
    shares = {steps: round(share, 5) for steps, share in line.by_steps().items()}
    return {
        "heuristic": line.heuristic.value,
        "updategrams": line.updategrams,
        "steps": round(line.steps, 2),
        "share": round(line.share, 5),
        "planning_seconds": round(line.planning_seconds, 4),
        "share_by_steps": shares,
        "sampled_share": line.sampled_share,
        "measured_share": line.measured_share,
        "carried_out": [
            {
                "view": found.view,
                "first": found.ends[0],
                "last": found.ends[1],
                "steps": found.steps,
                "seconds": found.seconds,
                "measured_seconds": found.measured,
            }
            for found in line.carried_out
        ],
    }


def _show(lines: Sequence[Line], setting: Setting) -> None:
    print_table(
        f"Plans for shared views over TPC-H at scale {setting.scale:g}: "
        f"{setting.updates} updates to lineitem",
        ["heuristic", "updategrams", "steps", "estimated", "of the sample", "measured", "planning"],
        (
            [
                line.heuristic.value,
                f"{line.updategrams:,}",
                f"{line.steps:.1f}",
                _share(line.share),
                _share(line.sampled_share),
                _share(line.measured_share),
                f"{line.planning_seconds * 1000:,.0f} ms",
            ]
            for line in lines
        ),
    )
    say = console().print
    say("Costs as a share of computing anew: of all intervals, and of those carried out.")
    right, pairs = ranked_rightly(lines)
    if pairs:
        say(
            "Every plan carried out came to what recomputing does. Of "
            f"{pairs:,} pairs for one view and interval that differ by a fifth, the estimates rank "
            f"{right / pairs:.0%} rightly."
        )


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.3f}"


def _draw(path: Path, lines: Sequence[Line]) -> None:
    many = "updategrams"
    singles = lines[0].by_steps()  # by Base, with the updategrams of single updates only
    shares = _curves(lines, lambda line: line.share)
    measured = _curves(lines, lambda line: line.measured_share)
    both = shares | {f"{name}{DASHED}": points for name, points in measured.items()}
    panels = [
        Panel("4: by the length of a plan", ("steps", "cost, anew = 1"),
              {"base": sorted(singles.items())}),
        Panel("5: length", (many, "steps"), _curves(lines, lambda line: line.steps), True),
        Panel("6: cost", (many, "cost, anew = 1"), both, True),
        Panel("7: planning", (many, "ms"),
              _curves(lines, lambda line: line.planning_seconds * 1000), True),
    ]  # fmt: skip
    line_charts(path, "Plans for shared views over TPC-H", panels)


def _curves(
    lines: Sequence[Line], value: Callable[[Line], float | None]
) -> dict[str, list[tuple[float, float]]]:
    """By the number of updategrams, for each heuristic."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for line in lines:
        if (found := value(line)) is not None:
            curves.setdefault(line.heuristic.value, []).append((line.updategrams, found))
    return curves
