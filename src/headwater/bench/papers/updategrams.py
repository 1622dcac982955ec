"""Managing Change in Large-Scale Data Sharing Systems (2003), section 5.3: figures 4 to 7.

Plans for shared views over TPC-H by heuristic and number of updategrams. Costs are estimated and,
on a sample, measured, both as a share of computing the view anew; every plan that is carried out is
compared with recomputation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf

from headwater.bench.papers.frame import Experiment, Figure, Record, Report, Size
from headwater.bench.papers.updategrams_planned import Line, Setting, measure, ranked_rightly
from headwater.bench.plots import DASHED, Mark, Panel
from headwater.sharing.plan_costs import Speeds
from headwater.sharing.several_steps import Heuristic

QUICK = Setting(
    0.001,
    updates=24,
    rows=8,
    added=(0, 40),
    intervals=3,
    sample=1,
    timed=1,
    queries=("Q12", "Q21"),
    speeds=Speeds(),  # not those of this machine, whose noise would choose the plans
)
FULL = Setting()
_MANY = "updategrams available"
_SHARE = "cost, computing anew = 1"


def run(size: Size, report: Report) -> Sequence[Figure]:
    """Figures 4 to 7."""
    setting = FULL if size.full else QUICK
    return figures(list(measure(setting, report)), setting)


def figures(lines: Sequence[Line], setting: Setting) -> Sequence[Figure]:
    parameters = {
        "scale": setting.scale,
        "updates": setting.updates,
        "rows": setting.rows,
        "intervals": setting.intervals,
        "sample": setting.sample,
    }
    found = [_by_length(lines), _length(lines), _cost(lines), _planning(lines), _ranked(lines)]
    return [
        Figure(f.name, f.title, f.claim, f.found, f.columns, f.records, f.panels, parameters)
        for f in found
    ]


def _by_length(lines: Sequence[Line]) -> Figure:
    """By Base, with the updategrams of single updates only."""
    shares = lines[0].by_steps()
    records: list[Record] = [{"steps": s, "share": round(v, 5)} for s, v in sorted(shares.items())]
    points = sorted(shares.items())
    (short, low), (long, high) = points[0], points[-1]
    panel = Panel("4: by the length of a plan", ("steps", _SHARE), {"Base": points})
    return Figure(
        "4",
        "Estimated cost by the length of a plan",
        "Cost grows with the number of versions that a plan goes through, in proportion to it.",
        f"{low:.3f} of computing anew with {short} steps, {high:.3f} with {long}.",
        {"steps": "{steps}", "share of computing anew": "{share:.3f}"},
        records,
        [panel],
    )


def _length(lines: Sequence[Line]) -> Figure:
    few, many = _ends(lines, Heuristic.BASE)
    return Figure(
        "5",
        "Length of plans by the number of updategrams",
        "With more updategrams there are shorter plans.",
        f"Base: {few.steps:.1f} steps with {few.updategrams:,} updategrams, {many.steps:.1f} with "
        f"{many.updategrams:,}.",
        {"updategrams": "{updategrams:,}", "heuristic": "{heuristic}", "steps": "{steps:.1f}"},
        [_record(line) for line in lines],
        [Panel("5: length of plans", (_MANY, "steps"), _curves(lines, lambda x: x.steps), True)],
    )


def _cost(lines: Sequence[Line]) -> Figure:
    few, many = _ends(lines, Heuristic.BASE)
    coalesce, greedy = _against(lines, Heuristic.COALESCE), _against(lines, Heuristic.GREEDY)
    shares = _curves(lines, lambda line: line.share)
    measured = _curves(lines, lambda line: line.measured_share)
    both = {**shares, **{f"{name}{DASHED}": points for name, points in measured.items()}}
    marks = [
        Mark("paper: Coalesce, 28% of Base", few.updategrams, 0.28 * few.share),
        Mark("paper: Base, a tenth of that", many.updategrams, few.share / 10, is_above=True),
    ]
    return Figure(
        "6",
        "Cost by the number of updategrams, estimated, and measured on a sample",
        "With 2,000 updategrams Base costs a tenth of what it costs with 200; Coalesce costs 28% "
        "of Base; Greedy 30% more than Base.",
        f"Base costs {few.share:.3f} with {few.updategrams:,} updategrams and {many.share:.3f} "
        f"with {many.updategrams:,}. Coalesce costs {_listed(coalesce)} of Base, Greedy "
        f"{_listed(greedy)}.",
        {
            "updategrams": "{updategrams:,}",
            "heuristic": "{heuristic}",
            "estimated": "{share:.3f}",
            "of the sample": "{sampled_share:.3f}",
            "measured": "{measured_share:.3f}",
        },
        [_record(line) for line in lines],
        [Panel("6: cost of plans", (_MANY, _SHARE), both, True, marks=marks)],
    )


def _planning(lines: Sequence[Line]) -> Figure:
    base, greedy = _ends(lines, Heuristic.BASE), _ends(lines, Heuristic.GREEDY)
    curves = _curves(lines, lambda line: line.planning_seconds * 1000)
    return Figure(
        "7",
        "Time of planning by the number of updategrams",
        "Greedy's depends on the interval alone, not on the number of updategrams; Base's grows.",
        f"From {base[0].updategrams:,} to {base[1].updategrams:,} updategrams Base's goes from "
        f"{1000 * base[0].planning_seconds:,.0f} to {1000 * base[1].planning_seconds:,.0f} ms, "
        f"Greedy's from {1000 * greedy[0].planning_seconds:,.0f} to "
        f"{1000 * greedy[1].planning_seconds:,.0f} ms.",
        {
            "updategrams": "{updategrams:,}",
            "heuristic": "{heuristic}",
            "milliseconds of a processor": "{planning_ms:,.0f}",
        },
        [_record(line) for line in lines],
        [Panel("7: time of planning", (_MANY, "milliseconds"), curves, True)],
    )


def _ranked(lines: Sequence[Line]) -> Figure:
    right, pairs = ranked_rightly(lines)
    records: list[Record] = [
        {"view": found.view, "first": found.ends[0], "last": found.ends[1], "steps": found.steps,
         "heuristic": line.heuristic.value, "updategrams": line.updategrams,
         "estimated": found.seconds, "measured": found.measured}
        for line in lines for found in line.carried_out
    ]  # fmt: skip
    return Figure(
        "6 (carried out)",
        "Plans that were carried out: seconds, estimated and measured",
        "The paper shows estimated costs only.",
        "Every one came to what recomputing does. Of "
        f"{pairs:,} pairs for one view and interval that differ by a fifth in truth the estimates "
        f"rank {right:,} rightly.",
        {
            "updategrams": "{updategrams:,}",
            "heuristic": "{heuristic}",
            "view": "{view}",
            "interval": "{first} to {last}",
            "steps": "{steps}",
            "estimated": "{estimated:.3f}",
            "measured": "{measured:.3f}",
        },
        records,
    )


def _record(line: Line) -> Record:
    return {
        "heuristic": line.heuristic.value,
        "updategrams": line.updategrams,
        "steps": round(line.steps, 2),
        "share": round(line.share, 5),
        "sampled_share": line.sampled_share,
        "measured_share": line.measured_share,
        "planning_ms": round(1000 * line.planning_seconds, 1),
    }


def _ends(lines: Sequence[Line], heuristic: Heuristic) -> tuple[Line, Line]:
    """With the fewest updategrams, and with the most."""
    mine = sorted((x for x in lines if x.heuristic is heuristic), key=lambda x: x.updategrams)
    return mine[0], mine[-1]


def _against(lines: Sequence[Line], heuristic: Heuristic) -> Mapping[int, float]:
    """What a heuristic's plans cost as a share of Base's, by the number of updategrams."""
    base = {x.updategrams: x.share for x in lines if x.heuristic is Heuristic.BASE}
    return {x.updategrams: x.share / base[x.updategrams] for x in lines if x.heuristic is heuristic}


def _listed(shares: Mapping[int, float]) -> str:
    return ", ".join(f"{share:.0%} with {many:,}" for many, share in sorted(shares.items()))


def _curves(
    lines: Sequence[Line], value: Callable[[Line], float | None]
) -> dict[str, list[tuple[float, float]]]:
    """By the number of updategrams, for each heuristic."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for line in lines:
        if (found := value(line)) is not None and 0 < found < inf:
            curves.setdefault(line.heuristic.value, []).append((line.updategrams, found))
    return curves


EXPERIMENT = Experiment(
    "updategrams",
    "Managing Change in Large-Scale Data Sharing Systems (updategrams, 2003)",
    run,
    "takes TPC-H at scale 0.1, 200 updates, up to 2,000 updategrams and 100 intervals: hours on a "
    "busy machine",
)
